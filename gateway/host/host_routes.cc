#include "gateway/host/host_routes.h"

#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <utility>

namespace eoib::endpoint {
namespace {

constexpr absl::Duration kKept = absl::Seconds(10);

// The gateway in the answer; absent if the destination is on the link.
absl::optional<IpAddr> GatewayOf(const nlmsghdr* message) {
  absl::optional<IpAddr> gateway;
  ForEachAttribute(message, sizeof(rtmsg), [&](const nlattr* attribute) {
    const auto* const payload = static_cast<const char*>(mnl_attr_get_payload(attribute));
    const size_t size = mnl_attr_get_payload_len(attribute);
    if (mnl_attr_get_type(attribute) == RTA_GATEWAY) gateway = AddressOf(payload, size);
    // A gateway of the other address family (RFC 8950), after two bytes with its family.
    if (mnl_attr_get_type(attribute) == RTA_VIA && size > 2)
      gateway = AddressOf(payload + 2, size - 2);
  });
  return gateway;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostRoutes>> HostRoutes::Open(int interface_index,
                                                             const Clock* clock) {
  auto requests = Netlink::Open(0);
  if (!requests.ok()) return requests.status();
  // linux/rtnetlink.h has no RTMGRP_ for it.
  constexpr uint32_t kIpv6Rule = 1u << (RTNLGRP_IPV6_RULE - 1);
  auto events = Netlink::Open(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
                              RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE | RTMGRP_IPV4_RULE | kIpv6Rule);
  if (!events.ok()) return events.status();
  return std::unique_ptr<HostRoutes>(
      new HostRoutes(interface_index, clock, *std::move(requests), *std::move(events)));
}

absl::optional<IpAddr> HostRoutes::NextHop(const IpAddr& destination) {
  const auto found = known_.find(destination);
  if (found != known_.end() && found->second.until > clock_->Now()) return found->second.next_hop;
  if (known_.size() >= kLimit) known_.clear();
  Known& known = known_[destination];
  known = {QueryKernel(destination), clock_->Now() + kKept};
  return known.next_hop;
}

absl::optional<IpAddr> HostRoutes::QueryKernel(const IpAddr& destination) {
  NetlinkRequest request(RTM_GETROUTE, 0);
  auto* const header = request.Put<rtmsg>();
  header->rtm_family = destination.is_ipv4() ? AF_INET : AF_INET6;
  header->rtm_dst_len = destination.is_ipv4() ? 32 : 128;
  PutAddress(RTA_DST, destination, request.message());
  // The kernel has already routed the packet to the TUN, so ask for the route through that.
  mnl_attr_put_u32(request.message(), RTA_OIF, static_cast<uint32_t>(index_));
  absl::optional<IpAddr> next_hop;
  const absl::Status status =
      requests_->Execute(&request, "ask for a route", [&](const nlmsghdr* message) {
        if (message->nlmsg_type == RTM_NEWROUTE)
          next_hop = GatewayOf(message).value_or(destination);
      });
  return status.ok() ? next_hop : absl::nullopt;
}

void HostRoutes::Run() {
  events_->ReadEvents([](const nlmsghdr*) {});  // any change may affect any route
  known_.clear();
}

}  // namespace eoib::endpoint
