#include "gateway/host/kernel_groups.h"

#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "vswitch/base/byte_order.h"

namespace eoib::endpoint {
namespace {

std::vector<absl::string_view> Words(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
}

// Parses "010000E0": the kernel prints the address in network order as a number of this machine.
absl::optional<IpAddr> ParseIpv4(absl::string_view hex) {
  uint32_t number;
  if (hex.size() != 8 || !absl::SimpleHexAtoi(hex, &number)) return absl::nullopt;
  return IpAddr(Ipv4Addr(ReadWire<be32>(&number).value()));
}

absl::optional<IpAddr> ParseIpv6(absl::string_view hex) {
  if (hex.size() != 2 * Ipv6Addr::kSize) return absl::nullopt;
  const std::string bytes = absl::HexStringToBytes(hex);
  return IpAddr(Ipv6Addr::FromWire(bytes.data()));
}

// The file has a line for each interface, and below it a line for each group, which begins with
// white space.
void ParseIgmp(absl::string_view text, absl::string_view interface, std::set<IpAddr>* groups) {
  bool ours = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const auto words = Words(line);
    if (words.empty()) continue;
    if (!absl::ascii_isspace(static_cast<unsigned char>(line[0]))) {
      // After a name of 10 bytes or more the colon follows without a space.
      ours = words.size() >= 2 && absl::StripSuffix(words[1], ":") == interface;
    } else if (const auto group = ParseIpv4(words[0]); ours && group.has_value()) {
      groups->insert(*group);
    }
  }
}

// The file has a line for each group: index, interface, address.
void ParseIgmp6(absl::string_view text, absl::string_view interface, std::set<IpAddr>* groups) {
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const auto words = Words(line);
    if (words.size() < 3 || words[1] != interface) continue;
    if (const auto group = ParseIpv6(words[2])) groups->insert(*group);
  }
}

absl::optional<std::string> Read(const char* path) {
  std::ifstream file(path);
  if (!file) return absl::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::set<IpAddr> ParseKernelGroups(absl::string_view igmp, absl::string_view igmp6,
                                   absl::string_view interface) {
  std::set<IpAddr> groups;
  ParseIgmp(igmp, interface, &groups);
  ParseIgmp6(igmp6, interface, &groups);
  return groups;
}

absl::optional<std::set<IpAddr>> ReadKernelGroups(const std::string& interface) {
  const auto igmp = Read("/proc/thread-self/net/igmp");
  if (!igmp.has_value()) return absl::nullopt;
  return ParseKernelGroups(*igmp, Read("/proc/thread-self/net/igmp6").value_or(""), interface);
}

}  // namespace eoib::endpoint
