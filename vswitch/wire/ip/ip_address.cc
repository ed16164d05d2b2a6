#include "vswitch/wire/ip/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"

namespace eoib {
namespace {

absl::Status Wrong(absl::string_view text, absl::string_view right) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not ", right));
}

// inet_pton alone would accept text with an embedded zero byte.
bool ParseText(int family, absl::string_view text, uint8_t* wire) {
  return text.find('\0') == absl::string_view::npos &&
         inet_pton(family, std::string(text).c_str(), wire) == 1;
}

std::string Print(int family, const void* wire) {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(family, wire, text, sizeof(text));
}

}  // namespace

absl::StatusOr<Ipv4Addr> Ipv4Addr::Parse(absl::string_view text) {
  std::array<uint8_t, kSize> wire;
  if (!ParseText(AF_INET, text, wire.data()))
    return Wrong(text, "an IPv4 address; write four numbers, as in 192.0.2.1");
  return Ipv4Addr(ReadWire<be32>(wire.data()).value());
}

std::string Ipv4Addr::ToString() const {
  const be32 wire(value());
  return Print(AF_INET, &wire);
}

absl::StatusOr<Ipv6Addr> Ipv6Addr::Parse(absl::string_view text) {
  Ipv6Addr address;
  if (!ParseText(AF_INET6, text, address.bytes_.data()))
    return Wrong(text, "an IPv6 address, as in 2001:db8::1");
  return address;
}

std::string Ipv6Addr::ToString() const { return Print(AF_INET6, bytes_.data()); }

absl::StatusOr<IpAddr> IpAddr::Parse(absl::string_view text) {
  if (const auto ipv4 = Ipv4Addr::Parse(text); ipv4.ok()) return IpAddr(*ipv4);
  if (const auto ipv6 = Ipv6Addr::Parse(text); ipv6.ok()) return IpAddr(*ipv6);
  return Wrong(text, "an IP address, as in 192.0.2.1 or 2001:db8::1");
}

Ipv6Addr SolicitedNodeGroup(const Ipv6Addr& address) {
  std::array<uint8_t, Ipv6Addr::kSize> group{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff};
  std::copy_n(&address.bytes()[13], 3, &group[13]);
  return Ipv6Addr(group);
}

bool HasPrefix(const IpAddr& ip, const IpAddr& prefix, int length) {
  if (ip.is_ipv6() != prefix.is_ipv6()) return false;
  if (ip.is_ipv4())
    return length == 0 || (ip.ipv4().value() ^ prefix.ipv4().value()) >> (32 - length) == 0;
  const auto &a = ip.ipv6().bytes(), &b = prefix.ipv6().bytes();
  const size_t whole = static_cast<size_t>(length) / 8;
  const int rest = length % 8;
  return std::equal(a.begin(), a.begin() + whole, b.begin()) &&
         (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

bool IsBeyondLink(const IpAddr& group) {
  if (group.is_ipv4()) return group.ipv4().IsMulticast() && group.ipv4().value() >> 8 != 0xe0'0000;
  return (group.ipv6().bytes()[1] & 0xf) > 2;
}

}  // namespace eoib
