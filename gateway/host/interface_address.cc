#include "gateway/host/interface_address.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace eoib::endpoint {
namespace {

constexpr int kIpv4Bits = 32, kIpv6Bits = 128;

bool IsUnicast(const IpAddr& address) {
  return !address.IsUnspecified() && !address.IsMulticast() &&
         !(address.is_ipv4() && address.ipv4().IsBroadcast());
}

}  // namespace

absl::StatusOr<InterfaceAddress> InterfaceAddress::Parse(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('/', 1));
  const auto address = IpAddr::Parse(parts.first);
  if (!address.ok()) return address.status();
  if (!IsUnicast(*address))
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": no interface has that address"));
  const int bits = address->is_ipv4() ? kIpv4Bits : kIpv6Bits;
  InterfaceAddress parsed{*address, bits};
  const bool has_length = parts.first.size() != text.size();
  if (has_length && (!absl::SimpleAtoi(parts.second, &parsed.prefix_length) ||
                     parsed.prefix_length < 0 || parsed.prefix_length > bits)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": the prefix has 0 to ", bits, " bits"));
  }
  return parsed;
}

absl::optional<Ipv4Addr> InterfaceAddress::SubnetBroadcast() const {
  if (!address.is_ipv4() || prefix_length >= kIpv4Bits - 1) return absl::nullopt;
  // In 64 bits, because a prefix length of 0 shifts by 32.
  return Ipv4Addr(address.ipv4().value() |
                  static_cast<uint32_t>((uint64_t{1} << (kIpv4Bits - prefix_length)) - 1));
}

std::string InterfaceAddress::ToString() const {
  return absl::StrCat(address.ToString(), "/", prefix_length);
}

std::vector<std::string> JoinAddressFlags(const std::vector<std::string>& arguments) {
  std::vector<std::string> others, addresses;
  // Stop at "--": what follows are not flags. As in gflags, a flag begins with one or two hyphens.
  size_t i = 1;
  for (; i < arguments.size() && arguments[i] != "--"; ++i) {
    absl::string_view argument = arguments[i];
    const bool has_more = i + 1 < arguments.size();
    if (absl::ConsumePrefix(&argument, "--address=") ||
        absl::ConsumePrefix(&argument, "-address=")) {
      addresses.emplace_back(argument);
    } else if (has_more && (argument == "--address" || argument == "-address")) {
      addresses.push_back(arguments[++i]);
    } else {
      others.push_back(arguments[i]);
    }
  }
  // The program, if there is one; the joined flag; the other arguments; "--" and what follows it.
  std::vector<std::string> joined(
      arguments.begin(), arguments.begin() + std::min<ptrdiff_t>(1, std::ssize(arguments)));
  if (!addresses.empty()) joined.push_back("--address=" + absl::StrJoin(addresses, ","));
  joined.insert(joined.end(), others.begin(), others.end());
  if (i < arguments.size())
    joined.insert(joined.end(), arguments.begin() + static_cast<ptrdiff_t>(i), arguments.end());
  return joined;
}

}  // namespace eoib::endpoint
