#include "control/operator/capture_arguments.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace eoib {
namespace {

// The bytes of a packet up to its Ethernet header and tag: LRH, GRH, BTH, DETH, EoIB header and
// extension.
constexpr size_t kLeastSnapLength = 100;

constexpr std::pair<char, uint64_t> kUnits[] = {{'k', 1 << 10}, {'M', 1 << 20}, {'G', 1 << 30}};

absl::Status Wrong(absl::string_view argument, absl::string_view advice) {
  return absl::InvalidArgumentError(absl::StrCat("capture start: \"", argument, "\": ", advice));
}

// "1000", "20k", "100M", "2G".
absl::StatusOr<uint64_t> ParseSize(absl::string_view argument, absl::string_view text) {
  uint64_t unit = 1;
  for (const auto& [letter, bytes] : kUnits) {
    if (!text.empty() && text.back() == letter) unit = bytes;
  }
  if (unit != 1) text.remove_suffix(1);
  uint64_t size = 0;
  if (!absl::SimpleAtoi(text, &size) || size == 0 ||
      size > std::numeric_limits<uint64_t>::max() / unit) {
    return Wrong(argument, "write a number of bytes, also with k, M or G, such as limit=100M");
  }
  return size * unit;
}

absl::Status ParseOne(const std::string& argument, const VPortFilterFinder& vports,
                      CaptureArguments* parsed) {
  CaptureOptions* const options = &parsed->options;
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(argument, absl::MaxSplits('=', 1));
  const auto& [key, value] = parts;
  if (key == "mac") {
    const absl::StatusOr<MacAddr> mac = MacAddr::Parse(value);
    if (!mac.ok()) return Wrong(argument, mac.status().message());
    options->filter.mac = *mac;
  } else if (key == "vlan") {
    uint32_t vid = 0;
    if (!absl::SimpleAtoi(value, &vid) || vid > Vid::kMax)
      return Wrong(argument, "write a VLAN, 1 to 4094, or 0 for untagged");
    options->filter.vlan = Vid(static_cast<uint16_t>(vid));
  } else if (key == "vport") {
    absl::StatusOr<CaptureFilter::VPort> vport = vports(value);
    if (!vport.ok()) return Wrong(argument, vport.status().message());
    options->filter.vport = *std::move(vport);
  } else if (key == "snaplen") {
    uint32_t length = 0;
    if (!absl::SimpleAtoi(value, &length) || length < kLeastSnapLength ||
        length > ErfWriter::kMaxPacket) {
      return Wrong(argument, absl::StrCat("write a number of bytes, ", kLeastSnapLength, " to ",
                                          ErfWriter::kMaxPacket,
                                          "; the headers of InfiniBand take up to 80 of them"));
    }
    options->snap_length = length;
  } else if (key == "limit") {
    const absl::StatusOr<uint64_t> limit = ParseSize(argument, value);
    if (!limit.ok()) return limit.status();
    options->limit = *limit;
  } else {
    return Wrong(argument, absl::StrCat("unknown; usage: capture start ", kCaptureUsage));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CaptureArguments> ParseCaptureArguments(const CommandRegistry::Arguments& arguments,
                                                       const VPortFilterFinder& vports) {
  CaptureArguments parsed = {arguments[0]};
  if (!absl::StartsWith(arguments[0], "/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("capture to ", arguments[0],
                     ": name the file by its whole path, from / on: the agent writes it, and has "
                     "another working directory than you"));
  }
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == "--force") {
      parsed.overwrite = true;
    } else if (absl::Status status = ParseOne(arguments[i], vports, &parsed); !status.ok()) {
      return status;
    }
  }
  return parsed;
}

}  // namespace eoib
