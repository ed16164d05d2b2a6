#include "vswitch/wire/ip/ip_addr.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace eoib {

absl::StatusOr<IpAddr> IpAddr::Parse(absl::string_view text) {
  if (const auto ipv4 = Ipv4Addr::Parse(text); ipv4.ok()) return IpAddr(*ipv4);
  if (const auto ipv6 = Ipv6Addr::Parse(text); ipv6.ok()) return IpAddr(*ipv6);
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no IP address: 10.0.0.1 or fd00::1 would be one"));
}

Ipv6Addr SolicitedNodeGroup(const Ipv6Addr& address) {
  std::array<uint8_t, Ipv6Addr::kSize> group{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff};
  std::copy_n(&address.bytes()[13], 3, &group[13]);
  return Ipv6Addr(group);
}

bool HasPrefix(const IpAddr& ip, const IpAddr& prefix, int length) {
  if (ip.is_ipv6() != prefix.is_ipv6()) return false;
  if (ip.is_ipv4()) return length == 0 || (ip.ipv4().value() ^ prefix.ipv4().value()) >> (32 - length) == 0;
  const auto &a = ip.ipv6().bytes(), &b = prefix.ipv6().bytes();
  const size_t whole = static_cast<size_t>(length) / 8;
  const int rest = length % 8;
  return std::equal(a.begin(), a.begin() + whole, b.begin()) && (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

bool IsBeyondLink(const IpAddr& group) {
  if (group.is_ipv4()) return group.ipv4().IsMulticast() && group.ipv4().value() >> 8 != 0xe0'0000;
  return (group.ipv6().bytes()[1] & 0xf) > 2;
}

}  // namespace eoib
