#include "control/ves/ves_vports.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vswitch/base/check.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/port/piece_layout.h"

namespace eoib {
namespace {

constexpr size_t kMostNames = 10;

bool IsBefore(const VPort& vport, uint32_t index) { return vport.index < index; }

}  // namespace

VPort* VesVPorts::Find(const std::string& name) {
  const auto at = std::find_if(vports_.begin(), vports_.end(),
                               [&name](const VPort& vport) { return vport.config.name == name; });
  EOIB_CHECK(at != vports_.end());
  return &*at;
}

VPort* VesVPorts::At(uint32_t index) {
  const auto at = std::lower_bound(vports_.begin(), vports_.end(), index, IsBefore);
  EOIB_CHECK(at != vports_.end() && at->index == index);
  return &*at;
}

std::string VesVPorts::NameAt(uint32_t index) const {
  const auto at = std::lower_bound(vports_.begin(), vports_.end(), index, IsBefore);
  return at != vports_.end() && at->index == index ? at->config.name : "?";
}

std::string VesVPorts::Names() const {
  std::vector<std::string> names;
  for (const VPort& vport : vports_) {
    if (names.size() < kMostNames) names.push_back(vport.config.name);
  }
  if (size() > names.size()) names.push_back(absl::StrCat(size() - names.size(), " more"));
  return absl::StrJoin(names, ", ");
}

void VesVPorts::Add(VPort vport) {
  const auto at = std::lower_bound(vports_.begin(), vports_.end(), vport.index, IsBefore);
  vports_.insert(at, std::move(vport));
}

VPort VesVPorts::Take(const std::string& name) {
  VPort* const at = Find(name);
  VPort vport = std::move(*at);
  vports_.erase(vports_.begin() + (at - vports_.data()));
  return vport;
}

// Skips a carrier that does not change: the kernel takes the rtnl lock for it, which others may
// hold for long.
void VesVPorts::SetCarrier(bool up) {
  if (carrier_ == up) return;
  carrier_ = up;
  for (VPort& vport : vports_) {
    const absl::Status status = vport.interface->SetLink(up);
    if (status.ok()) continue;
    LogWarning(status.message());
    carrier_.reset();
  }
}

void VesVPorts::SetMtu(uint32_t mtu) {
  mtu_ = mtu;
  for (VPort& vport : vports_) {
    const absl::Status status = ApplyMtu(&vport);
    if (!status.ok()) LogWarning(status.message());
  }
}

void VesVPorts::SetUp(VPort* vport, bool carrier) const {
  absl::Status status = ApplyMtu(vport);
  status.Update(vport->interface->SetLink(carrier));
  if (!status.ok()) LogWarning(status.message());
}

absl::Status VesVPorts::ApplyMtu(VPort* vport) const {
  absl::Status status = vport->interface->SetMtu(InterfaceMtu(vport->config));
  status.Update(vport->interface->LimitSuperFrames(mtu_));
  return status;
}

// A larger configured MTU than the VES's is cut, so that the interface sends nothing that the
// forwarder must drop. But segments carry larger frames.
int VesVPorts::InterfaceMtu(const VPortConfig& vport) const {
  const int overhead = static_cast<int>(kMtuOverhead);
  const int largest = static_cast<int>(mtu_) - overhead;
  const bool in_segments = vport.kind->takes_segments && ves_->SendsSegments();
  const int limit =
      in_segments ? static_cast<int>(PieceLayout(mtu_).Largest()) - overhead : largest;
  return std::min(vport.mtu.value_or(largest), limit);
}

}  // namespace eoib
