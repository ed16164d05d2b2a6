#include "gateway/host/host_addresses.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/log.h"

namespace eoib::endpoint {
namespace {

constexpr uint32_t kDefaultRouteMetric = 1024;  // plus the interface's index

// The address in RTM_NEWADDR or RTM_DELADDR; absent if that is for another interface.
absl::optional<InterfaceAddress> ParseAddress(const nlmsghdr* message, int index) {
  const auto* const header = static_cast<const ifaddrmsg*>(mnl_nlmsg_get_payload(message));
  if (mnl_nlmsg_get_payload_len(message) < sizeof(*header) ||
      static_cast<int>(header->ifa_index) != index) {
    return absl::nullopt;
  }
  absl::optional<IpAddr> address, local;
  ForEachAttribute(message, sizeof(*header), [&](const nlattr* attribute) {
    if (mnl_attr_get_type(attribute) == IFA_ADDRESS) address = AddressOf(attribute);
    if (mnl_attr_get_type(attribute) == IFA_LOCAL) local = AddressOf(attribute);
  });
  if (local.has_value()) address = local;  // then IFA_ADDRESS may be the peer's
  if (!address.has_value()) return absl::nullopt;
  return InterfaceAddress{*address, header->ifa_prefixlen};
}

// A lifetime for the kernel: all ones mean for ever, and zero is not allowed.
uint32_t SecondsUntil(absl::Time until, absl::Time now) {
  constexpr uint32_t kForEver = 0xffff'ffff;
  if (until == absl::InfiniteFuture()) return kForEver;
  const int64_t seconds = absl::ToInt64Seconds(absl::Ceil(until - now, absl::Seconds(1)));
  return static_cast<uint32_t>(std::min<int64_t>(std::max<int64_t>(seconds, 1), kForEver - 1));
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostAddresses>> HostAddresses::Open(int interface_index,
                                                                   const Clock* clock) {
  auto requests = Netlink::Open(0);
  if (!requests.ok()) return requests.status();
  auto events = Netlink::Open(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR);
  if (!events.ok()) return events.status();
  return std::unique_ptr<HostAddresses>(
      new HostAddresses(interface_index, clock, *std::move(requests), *std::move(events)));
}

absl::Status HostAddresses::Start(Addresses* addresses) {
  addresses_ = addresses;
  return Compare();
}

void HostAddresses::Run() {
  if (events_->ReadEvents([this](const nlmsghdr* message) { OnMessage(message); })) return;
  // The socket's buffer has overflowed and events were lost.
  const absl::Status status = Compare();
  if (!status.ok()) LogWarning(status.message());
}

void HostAddresses::OnMessage(const nlmsghdr* message) {
  if (message->nlmsg_type == RTM_NEWADDR || message->nlmsg_type == RTM_DELADDR)
    return OnAddress(message);
  if (message->nlmsg_type == RTM_NEWLINK) return OnLink(message);
}

void HostAddresses::OnAddress(const nlmsghdr* message) {
  const auto address = ParseAddress(message, index_);
  if (!address.has_value()) return;
  if (message->nlmsg_type == RTM_NEWADDR) {
    // The kernel sends this again when the flags of the address change.
    if (known_.insert(*address).second) addresses_->OnKernelAdded(*address);
  } else {
    OnGone(*address);
  }
}

void HostAddresses::OnGone(const InterfaceAddress& address) {
  if (known_.erase(address) == 0) return;
  const auto other = known_.lower_bound({address.address, 0});
  if (other != known_.end() && other->address == address.address)
    return addresses_->OnKernelChanged(*other);
  addresses_->OnKernelRemoved(address.address);
}

void HostAddresses::OnLink(const nlmsghdr* message) {
  const auto* const header = static_cast<const ifinfomsg*>(mnl_nlmsg_get_payload(message));
  if (header->ifi_index != index_) return;
  const bool up = (header->ifi_flags & IFF_UP) != 0;
  if (std::exchange(up_, up) || !up) return;
  addresses_->OnTunUp();
  on_tun_up_();
}

// Compares known_ with the kernel's list, and tells Addresses of the differences.
absl::Status HostAddresses::Compare() {
  std::vector<InterfaceAddress> there;
  NetlinkRequest request(RTM_GETADDR, NLM_F_DUMP);
  request.Put<ifaddrmsg>()->ifa_family = AF_UNSPEC;
  const absl::Status status =
      requests_->Execute(&request, "list the addresses of the TUN", [&](const nlmsghdr* message) {
        if (const auto address = ParseAddress(message, index_)) there.push_back(*address);
      });
  if (!status.ok()) return status;
  std::set<InterfaceAddress> gone = known_;
  for (const InterfaceAddress& address : there) gone.erase(address);
  for (const InterfaceAddress& address : gone) OnGone(address);
  for (const InterfaceAddress& address : there) {
    if (known_.insert(address).second) addresses_->OnKernelAdded(address);
  }
  return absl::OkStatus();
}

absl::Status HostAddresses::Add(const InterfaceAddress& address, absl::Time until) {
  NetlinkRequest request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE);
  PutInterfaceAddress(address, &request);
  const uint32_t seconds = SecondsUntil(until, clock_->Now());
  const ifa_cacheinfo lifetime = {
      .ifa_prefered = seconds, .ifa_valid = seconds, .cstamp = 0, .tstamp = 0};
  mnl_attr_put(request.message(), IFA_CACHEINFO, sizeof(lifetime), &lifetime);
  const absl::Status status =
      requests_->Execute(&request, absl::StrCat("add address ", address.ToString(), " to the TUN"));
  if (!status.ok() && !absl::IsAlreadyExists(status)) return status;
  // Linux sends RTM_NEWADDR for an IPv6 address from a work queue, and not at all if the address is
  // gone by then. It always sends RTM_DELADDR. So note the address here, or its removal would be
  // ignored.
  known_.insert(address);
  return absl::OkStatus();
}

absl::Status HostAddresses::Remove(const InterfaceAddress& address) {
  NetlinkRequest request(RTM_DELADDR, 0);
  PutInterfaceAddress(address, &request);
  const absl::Status status = requests_->Execute(
      &request, absl::StrCat("remove address ", address.ToString(), " from the TUN"));
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

void HostAddresses::PutInterfaceAddress(const InterfaceAddress& address,
                                        NetlinkRequest* request) const {
  auto* const header = request->Put<ifaddrmsg>();
  header->ifa_family = address.address.is_ipv4() ? AF_INET : AF_INET6;
  header->ifa_prefixlen = static_cast<uint8_t>(address.prefix_length);
  header->ifa_index = static_cast<uint32_t>(index_);
  PutAddress(IFA_LOCAL, address.address, request->message());
  PutAddress(IFA_ADDRESS, address.address, request->message());
  if (const auto broadcast = address.SubnetBroadcast())
    PutAddress(IFA_BROADCAST, IpAddr(*broadcast), request->message());
  // This program has done duplicate address detection on the link; the kernel cannot do it on a
  // TUN.
  if (!address.address.is_ipv4()) mnl_attr_put_u32(request->message(), IFA_FLAGS, IFA_F_NODAD);
}

uint32_t HostAddresses::OwnMetric() const {
  return kDefaultRouteMetric + static_cast<uint32_t>(index_);
}

absl::Status HostAddresses::SetDefaultRoute(Ipv4Addr gateway, Ipv4Addr source) {
  return ChangeDefaultRoute(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE,
                            {gateway, source, OwnMetric()},
                            absl::StrCat("route everything by ", gateway.ToString()));
}

absl::Status HostAddresses::RemoveDefaultRoute(Ipv4Addr gateway) {
  const absl::Status status =
      ChangeDefaultRoute(RTM_DELROUTE, 0, {gateway, absl::nullopt, OwnMetric()},
                         absl::StrCat("route nothing more by ", gateway.ToString()));
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status HostAddresses::RemoveDefaultRoutes() {
  std::vector<DefaultRoute> routes;
  NetlinkRequest request(RTM_GETROUTE, NLM_F_DUMP);
  request.Put<rtmsg>()->rtm_family = AF_INET;
  absl::Status status =
      requests_->Execute(&request, "list the routes of the host", [&](const nlmsghdr* message) {
        const auto* const header = static_cast<const rtmsg*>(mnl_nlmsg_get_payload(message));
        if (message->nlmsg_type != RTM_NEWROUTE || header->rtm_dst_len != 0 ||
            header->rtm_protocol != RTPROT_DHCP || header->rtm_table != RT_TABLE_MAIN) {
          return;
        }
        DefaultRoute route;
        bool by_gateway = false, ours = false;
        ForEachAttribute(message, sizeof(*header), [&](const nlattr* attribute) {
          const uint16_t type = mnl_attr_get_type(attribute);
          if (type == RTA_OIF) ours = mnl_attr_get_u32(attribute) == static_cast<uint32_t>(index_);
          if (type == RTA_PRIORITY) route.metric = mnl_attr_get_u32(attribute);
          if (type != RTA_GATEWAY) return;
          const auto gateway = AddressOf(attribute);
          by_gateway = gateway.has_value() && gateway->is_ipv4();
          if (by_gateway) route.gateway = gateway->ipv4();
        });
        if (ours && by_gateway) routes.push_back(route);
      });
  for (const DefaultRoute& route : routes) {
    const absl::Status removed =
        ChangeDefaultRoute(RTM_DELROUTE, 0, route, "remove the default route of a former lease");
    if (!absl::IsNotFound(removed)) status.Update(removed);
  }
  return status;
}

absl::Status HostAddresses::ChangeDefaultRoute(uint16_t type, uint16_t flags,
                                               const DefaultRoute& route, absl::string_view what) {
  NetlinkRequest request(type, flags);
  auto* const header = request.Put<rtmsg>();
  header->rtm_family = AF_INET;
  header->rtm_table = RT_TABLE_MAIN;
  header->rtm_protocol = RTPROT_DHCP;
  header->rtm_scope = RT_SCOPE_UNIVERSE;
  header->rtm_type = RTN_UNICAST;
  PutAddress(RTA_GATEWAY, IpAddr(route.gateway), request.message());
  if (route.source.has_value()) PutAddress(RTA_PREFSRC, IpAddr(*route.source), request.message());
  mnl_attr_put_u32(request.message(), RTA_OIF, static_cast<uint32_t>(index_));
  // NLM_F_REPLACE replaces a route of the same destination and metric even on another interface. So
  // the metric is our own.
  mnl_attr_put_u32(request.message(), RTA_PRIORITY, route.metric);
  return requests_->Execute(&request, what);
}

}  // namespace eoib::endpoint
