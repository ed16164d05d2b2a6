#include "control/vport/vhost_vport.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/port/locked_port.h"
#include "vswitch/port/vhost/vhost_library.h"
#include "vswitch/port/vhost/vhost_port.h"

namespace eoib {
namespace {

absl::Status OfVPort(const VPortConfig& config, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("vPort ", config.name, ": ", status.message()));
}

class VhostInterface final : public VPortInterface {
 public:
  // `locked`: null with one worker.
  VhostInterface(VhostPort* port, LockedPort* locked) : port_(port), locked_(locked) {}

  std::unique_ptr<Port> MakeQueue() override {
    return locked_ == nullptr ? nullptr : locked_->MakeQueue();
  }
  absl::Status SetMtu(int mtu) override {
    port_->SetMtu(mtu);
    return absl::OkStatus();
  }
  absl::optional<std::string> Check() override { return port_->Trouble(); }
  std::string Describe(uint32_t) override { return port_->Describe(); }

 private:
  VhostPort* const port_;
  LockedPort* const locked_;
};

}  // namespace

absl::StatusOr<VPort> MakeVhostVPort(const VPortConfig& config, size_t workers) {
  const absl::StatusOr<VhostBackend*> library = LoadVhostLibrary();
  if (!library.ok()) return OfVPort(config, library.status());
  auto opened = VhostPort::Open({.socket = config.socket, .server = !config.connects}, *library);
  if (!opened.ok()) return OfVPort(config, opened.status());
  VhostPort* const port = opened->get();
  VPort vport;
  vport.config = config;
  if (workers == 1) {
    vport.interface = std::make_shared<VhostInterface>(port, nullptr);
    vport.port = *std::move(opened);
  } else {
    auto locked = std::make_unique<LockedPort>(*std::move(opened));
    vport.interface = std::make_shared<VhostInterface>(port, locked.get());
    vport.port = std::move(locked);
  }
  return vport;
}

absl::Status CheckVhostInstalled(const AgentConfig& config) {
  for (const VPortConfig& vport : config.vports) {
    if (vport.kind != &kVhostVPort) continue;
    if (absl::Status status = CheckVhostLibrary(); !status.ok()) return OfVPort(vport, status);
  }
  return absl::OkStatus();
}

}  // namespace eoib
