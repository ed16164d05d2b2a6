#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/operator/fdb_target.h"
#include "control/operator/frame_trace.h"
#include "control/operator/ves_commands.h"
#include "vswitch/base/ethertype.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

using Arguments = CommandRegistry::Arguments;
using Bytes = std::vector<uint8_t>;

constexpr char kUsage[] = "VPORT hex BYTES | VPORT SOURCE DESTINATION [vlan VID] [type ETHERTYPE]";

absl::StatusOr<Bytes> ParseHex(const std::string& hex) {
  for (const char digit : hex) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(digit))) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", std::string(1, digit), "' is no hexadecimal digit"));
    }
  }
  if (hex.size() % 2 != 0)
    return absl::InvalidArgumentError(
        "a byte of the frame has one hexadecimal digit; write two for each");
  const std::string bytes = absl::HexStringToBytes(hex);
  return Bytes(bytes.begin(), bytes.end());
}

void Append(uint16_t value, Bytes* frame) {
  frame->push_back(static_cast<uint8_t>(value >> 8));
  frame->push_back(static_cast<uint8_t>(value));
}

absl::StatusOr<uint16_t> ParseEtherType(const std::string& text) {
  uint32_t value;
  if (absl::SimpleHexAtoi(text, &value) && value >= 0x600 && value <= 0xffff)
    return static_cast<uint16_t>(value);
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is no EtherType; it is a number from 0x0600 to 0xffff"));
}

// The words behind the MACs: [vlan VID] [type ETHERTYPE].
absl::Status AppendTypes(absl::Span<const std::string> words, Bytes* frame) {
  uint16_t type = kEtherTypeIpv4;
  for (size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size() || (words[i] != "vlan" && words[i] != "type")) {
      return absl::InvalidArgumentError(absl::StrCat("write ", kUsage));
    }
    if (words[i] == "vlan") {
      const absl::StatusOr<Vid> vid = ParseVid(words[i + 1]);
      if (!vid.ok()) return vid.status();
      if (vid->IsUntagged()) continue;
      Append(kEtherTypeVlan, frame);
      Append(vid->value(), frame);
    } else {
      const absl::StatusOr<uint16_t> parsed = ParseEtherType(words[i + 1]);
      if (!parsed.ok()) return parsed.status();
      type = *parsed;
    }
  }
  Append(type, frame);
  return absl::OkStatus();
}

absl::StatusOr<Bytes> MakeFrame(absl::Span<const std::string> words) {
  if (words[0] == "hex")
    return words.size() == 2 ? ParseHex(words[1])
                             : absl::InvalidArgumentError(absl::StrCat("write ", kUsage));
  const absl::StatusOr<MacAddr> source = MacAddr::Parse(words[0]),
                                destination = MacAddr::Parse(words[1]);
  if (!source.ok()) return source.status();
  if (!destination.ok()) return destination.status();
  Bytes frame(2 * MacAddr::kSize);
  destination->ToWire(&frame[0]);
  source->ToWire(&frame[MacAddr::kSize]);
  absl::Status status = AppendTypes(words.subspan(2), &frame);
  if (!status.ok()) return status;
  frame.resize(kMinFrameSize);
  return frame;
}

absl::StatusOr<Answer> Trace(const VesFinder& finder, const Arguments& arguments) {
  const absl::StatusOr<Bytes> frame = MakeFrame(absl::MakeConstSpan(arguments).subspan(1));
  if (!frame.ok()) return frame.status();
  const absl::StatusOr<std::vector<Ves*>> veses = finder("");
  if (!veses.ok()) return veses.status();
  std::vector<std::string> names;
  for (const Ves* ves : *veses) {
    for (const VPort& vport : ves->vports()) {
      if (vport.config.name == arguments[0])
        return Answer(FrameTrace(*ves, vport, *frame).ToJson(), FrameTrace::ToText);
      names.push_back(vport.config.name);
    }
  }
  return absl::NotFoundError(absl::StrCat("this host has no vPort \"", arguments[0],
                                          "\"; there is: ", absl::StrJoin(names, ", ")));
}

}  // namespace

void RegisterTraceCommand(const VesFinder& finder, CommandRegistry* registry) {
  registry->Register({{"trace", kUsage, "what the switch would do with a frame from a vPort",
                       CommandRegistry::Access::kReadOnly, "trace",
                       [finder](const Arguments& words) { return Trace(finder, words); }}});
}

}  // namespace eoib
