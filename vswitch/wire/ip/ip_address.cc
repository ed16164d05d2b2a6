#include "vswitch/wire/ip/ip_address.h"

#include <arpa/inet.h>

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
  return text.find('\0') == absl::string_view::npos && inet_pton(family, std::string(text).c_str(), wire) == 1;
}

std::string Print(int family, const void* wire) {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(family, wire, text, sizeof(text));
}

}  // namespace

absl::StatusOr<Ipv4Addr> Ipv4Addr::Parse(absl::string_view text) {
  std::array<uint8_t, kSize> wire;
  if (!ParseText(AF_INET, text, wire.data())) return Wrong(text, "an IPv4 address; write four numbers, as in 192.0.2.1");
  return Ipv4Addr(ReadWire<be32>(wire.data()).value());
}

std::string Ipv4Addr::ToString() const {
  const be32 wire(value());
  return Print(AF_INET, &wire);
}

absl::StatusOr<InterfaceId> InterfaceId::Parse(absl::string_view text) {
  const absl::StatusOr<Ipv6Addr> address = Ipv6Addr::Parse(text);
  if (!address.ok() || address->prefix() != 0) {
    return Wrong(text, "an interface identifier; write it as an IPv6 address whose upper half is 0, as in ::253:494d:4942:1");
  }
  return address->interface_id();
}

std::string InterfaceId::ToString() const { return Ipv6Addr::FromPrefixAndInterfaceId(0, *this).ToString(); }

absl::StatusOr<Ipv6Addr> Ipv6Addr::Parse(absl::string_view text) {
  Ipv6Addr address;
  if (!ParseText(AF_INET6, text, address.bytes_.data())) return Wrong(text, "an IPv6 address, as in 2001:db8::1");
  return address;
}

std::string Ipv6Addr::ToString() const { return Print(AF_INET6, bytes_.data()); }

}  // namespace eoib
