#include "gateway/host/memberships.h"

#include <utility>

namespace eoib::endpoint {

void Memberships::SetAddresses(const std::set<Ipv6Addr>& addresses) {
  solicited_.clear();
  for (const Ipv6Addr& address : addresses) solicited_.insert(SolicitedNodeGroup(address));
  Update();
}

void Memberships::SetKernelGroups(const std::set<IpAddr>& groups) {
  std::set<IpAddr> wanted;
  uint64_t refused = 0;
  for (const IpAddr& group : groups) {
    if (!group.IsMulticast() || !IsBeyondHost(group)) continue;
    if (wanted.size() < kLimit) {
      wanted.insert(group);
    } else {
      ++refused;
    }
  }
  // The kernel's list, which also has groups of the host itself, is read once a second; most times
  // nothing has changed.
  if (wanted == kernel_) return;
  kernel_ = std::move(wanted);
  refused_ += refused;
  Update();
}

std::set<IpAddr> Memberships::Groups() const {
  std::set<IpAddr> groups = kernel_;
  groups.insert(IpAddr(kAllHosts));
  groups.insert(IpAddr(kAllNodes));
  for (const Ipv6Addr& group : solicited_) groups.insert(IpAddr(group));
  return groups;
}

std::map<Mgid, IpoibGroup> Memberships::Wanted(const IpoibLink& link) const {
  std::map<Mgid, IpoibGroup> wanted;
  for (const IpAddr& address : Groups()) {
    if (const auto group = GroupOf(link, address)) wanted.emplace(ToMgid(*group), *group);
  }
  return wanted;
}

// While the link is down, its MGIDs are unknown. The memberships stay, because the link usually
// comes back unchanged.
void Memberships::Update() {
  const auto state = link_->state();
  if (!state.has_value()) return;
  std::map<Mgid, IpoibGroup> wanted = Wanted(state->link);
  for (const auto& [mgid, group] : listened_) {
    if (!wanted.contains(mgid)) link_->Unlisten(group);
  }
  for (const auto& [mgid, group] : wanted) {
    if (!listened_.contains(mgid)) link_->Listen(group);
  }
  listened_ = std::move(wanted);
}

}  // namespace eoib::endpoint
