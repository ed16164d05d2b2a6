#include "gateway/endpoint/interface_address.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace eoib::endpoint {
namespace {

constexpr int kIpv4Bits = 32, kIpv6Bits = 128;

constexpr uint32_t Ipv4Mask(int length) { return length == 0 ? 0 : ~uint32_t{0} << (kIpv4Bits - length); }

bool SamePrefix(const Ipv6Addr& a, const Ipv6Addr& b, int length) {
  const size_t whole = static_cast<size_t>(length) / 8;
  if (std::memcmp(a.bytes().data(), b.bytes().data(), whole) != 0) return false;
  const int rest = length % 8;
  return rest == 0 || (a.bytes()[whole] ^ b.bytes()[whole]) >> (8 - rest) == 0;
}

bool IsUnicast(const IpAddr& address) {
  return !address.IsUnspecified() && !address.IsMulticast() && !(address.is_ipv4() && address.ipv4().IsBroadcast());
}

}  // namespace

absl::StatusOr<InterfaceAddress> InterfaceAddress::Parse(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('/', 1));
  const auto address = IpAddr::Parse(parts.first);
  if (!address.ok()) return address.status();
  if (!IsUnicast(*address)) return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": no interface has that address"));
  const int bits = address->is_ipv4() ? kIpv4Bits : kIpv6Bits;
  InterfaceAddress parsed{*address, bits};
  const bool has_length = parts.first.size() != text.size();
  if (has_length &&
      (!absl::SimpleAtoi(parts.second, &parsed.prefix_length) || parsed.prefix_length < 0 || parsed.prefix_length > bits)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": the prefix has 0 to ", bits, " bits"));
  }
  return parsed;
}

bool InterfaceAddress::OnLink(const IpAddr& other) const {
  if (address.is_ipv4() != other.is_ipv4()) return false;
  if (!address.is_ipv4()) return SamePrefix(address.ipv6(), other.ipv6(), prefix_length);
  return ((address.ipv4().value() ^ other.ipv4().value()) & Ipv4Mask(prefix_length)) == 0;
}

absl::optional<Ipv4Addr> InterfaceAddress::SubnetBroadcast() const {
  if (!address.is_ipv4() || prefix_length >= kIpv4Bits - 1) return absl::nullopt;
  return Ipv4Addr(address.ipv4().value() | ~Ipv4Mask(prefix_length));
}

std::string InterfaceAddress::ToString() const { return absl::StrCat(address.ToString(), "/", prefix_length); }

std::vector<std::string> JoinAddressFlags(const std::vector<std::string>& arguments) {
  std::vector<std::string> others, addresses;
  size_t i = 1;
  for (; i < arguments.size() && arguments[i] != "--"; ++i) {
    absl::string_view argument = arguments[i];
    const bool has_more = i + 1 < arguments.size();
    if (absl::ConsumePrefix(&argument, "--address=") || absl::ConsumePrefix(&argument, "-address=")) {
      addresses.emplace_back(argument);
    } else if (has_more && (argument == "--address" || argument == "-address")) {
      addresses.push_back(arguments[++i]);
    } else {
      others.push_back(arguments[i]);
    }
  }
  std::vector<std::string> joined(arguments.begin(), arguments.begin() + std::min<ptrdiff_t>(1, std::ssize(arguments)));
  if (!addresses.empty()) joined.push_back("--address=" + absl::StrJoin(addresses, ","));
  joined.insert(joined.end(), others.begin(), others.end());
  if (i < arguments.size()) joined.insert(joined.end(), arguments.begin() + static_cast<ptrdiff_t>(i), arguments.end());
  return joined;
}

}  // namespace eoib::endpoint
