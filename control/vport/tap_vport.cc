#include "control/vport/tap_vport.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/port/tap_port.h"

namespace eoib {
namespace {

std::string AliasOf(const TapOwner& owner, const std::string& vport) {
  return absl::StrCat(TapAliasPrefix(owner.name), vport);
}

class TapInterface final : public VPortInterface {
 public:
  TapInterface(TapPort* tap, const TapOwner& owner) : tap_(tap), owner_(owner) {}

  std::unique_ptr<Port> MakeQueue() override { return tap_->MakeQueue(); }
  absl::Status SetMtu(int mtu) override { return tap_->SetMtu(mtu); }
  absl::Status SetLink(bool up) override { return tap_->SetLinkUp(up); }
  absl::Status LimitSuperFrames(uint32_t ves_mtu) override {
    return tap_->LimitSuperFrames(ves_mtu);
  }
  absl::Status Rename(const std::string& name) override {
    return tap_->Rename(name, AliasOf(owner_, name));
  }
  absl::Status Remove() override;
  bool IsLost() override { return tap_->IsDeleted(); }
  absl::Status Remake() override { return tap_->Remake(); }
  absl::optional<absl::StatusOr<InterfaceState>> Query() override { return tap_->QueryInterface(); }

 private:
  TapPort* const tap_;
  const TapOwner owner_;
};

// Those that go in one turn of the loop are deleted together.
absl::Status TapInterface::Remove() {
  if (!tap_->is_ours()) return absl::OkStatus();
  if (!owner_.taps->HasUnwanted()) {
    owner_.loop->CallAt(owner_.loop->Now(), [taps = owner_.taps] {
      if (absl::Status status = taps->DeleteUnwanted(); !status.ok()) LogWarning(status.message());
    });
  }
  return owner_.taps->Discard(*tap_);
}

}  // namespace

std::string TapAliasPrefix(const std::string& owner) { return absl::StrCat("eoib:", owner, "/"); }

absl::StatusOr<VPort> MakeTapVPort(const VPortConfig& config, const TapOwner& owner, MacAddr mac,
                                   int mtu, bool super_frames) {
  auto opened = TapPort::Open({.name = config.name,
                               .mac = mac,
                               .mtu = mtu,
                               .super_frames = super_frames,
                               .alias = AliasOf(owner, config.name),
                               .up = config.up,
                               .finder = owner.taps->finder()});
  if (!opened.ok()) return opened.status();
  VPort vport;
  vport.config = config;
  vport.is_new = (*opened)->is_new();
  vport.interface = std::make_shared<TapInterface>(opened->get(), owner);
  vport.port = *std::move(opened);
  return vport;
}

}  // namespace eoib
