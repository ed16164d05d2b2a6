#include "gateway/host/dhcp_lease.h"

#include <algorithm>

namespace eoib::endpoint {
namespace {

constexpr uint32_t kForEver = 0xffff'ffff;  // RFC 2131 §3.3

// 24 for 255.255.255.0. Absent if the mask has holes.
absl::optional<int> PrefixLength(uint32_t mask) {
  const int ones = __builtin_popcount(mask);
  if (mask != (ones == 0 ? 0 : ~uint32_t{0} << (32 - ones))) return absl::nullopt;
  return ones;
}

// For a server that sends no mask, although RFC 2131 §4.3.1 wants one: the prefix length of the
// address class.
int DefaultPrefixLength(Ipv4Addr address) {
  const uint32_t top = address.value() >> 29;
  return top < 4 ? 8 : top < 6 ? 16 : 24;
}

std::vector<Ipv4Addr> HostAddressesOf(const DhcpMessage& message, DhcpOption option) {
  std::vector<Ipv4Addr> addresses = message.FindAddresses(option);
  std::erase_if(addresses, [](IpAddr each) { return !each.CanBeHost(); });
  return addresses;
}

// Only the printable characters, for the operator's terminal.
std::string Printable(const std::vector<uint8_t>& bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    if (byte > 0x20 && byte < 0x7f) text.push_back(static_cast<char>(byte));
  }
  return text;
}

}  // namespace

// RFC 2131 §4.4.5. Invalid T1 and T2 are replaced by the defaults, 0.5 and 0.875 of the lease.
absl::optional<DhcpLease> DhcpLease::Read(const DhcpMessage& ack, absl::Time requested_at) {
  const auto server = ack.FindAddress(DhcpOption::kServerIdentifier);
  const auto seconds = ack.FindNumber(DhcpOption::kLeaseTime);
  const Ipv4Addr yours = ack.fields().yours;
  if (!server.has_value() || !seconds.has_value() || *seconds == 0 || !IpAddr(yours).CanBeHost())
    return absl::nullopt;
  const auto mask = ack.FindAddress(DhcpOption::kSubnetMask);
  const auto length = mask.has_value() ? PrefixLength(mask->value()) : DefaultPrefixLength(yours);
  if (!length.has_value()) return absl::nullopt;
  DhcpLease lease{.address = {IpAddr(yours), *length}, .server = *server};
  lease.routers = HostAddressesOf(ack, DhcpOption::kRouters);
  lease.name_servers = HostAddressesOf(ack, DhcpOption::kDomainNameServers);
  lease.domain =
      Printable(ack.FindOption(DhcpOption::kDomainName).value_or(std::vector<uint8_t>()));
  lease.renew = lease.rebind = lease.expiry = absl::InfiniteFuture();
  if (*seconds == kForEver) return lease;
  uint32_t t2 = ack.FindNumber(DhcpOption::kRebindingTime).value_or(0);
  if (t2 == 0 || t2 >= *seconds) t2 = static_cast<uint32_t>(uint64_t{*seconds} * 7 / 8);
  uint32_t t1 = ack.FindNumber(DhcpOption::kRenewalTime).value_or(0);
  if (t1 == 0 || t1 >= t2) t1 = std::min(*seconds / 2, t2);
  lease.renew = requested_at + absl::Seconds(t1);
  lease.rebind = requested_at + absl::Seconds(t2);
  lease.expiry = requested_at + absl::Seconds(*seconds);
  return lease;
}

}  // namespace eoib::endpoint
