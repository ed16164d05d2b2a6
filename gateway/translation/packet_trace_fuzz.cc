// Fuzzes the arguments of `gateway trace GATEWAY`. Any text gives an error message or a trace, a
// second trace gives the same, and the traced bytes are the hexadecimal digits of the input. The
// input is the words, separated by spaces.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gateway/translation/fuzz_for_test.h"
#include "gateway/translation/packet_trace.h"
#include "vswitch/base/check.h"

namespace eoib::gateway {
namespace {

void CheckBytes(const TracedPacket& packet, const std::string& written) {
  const absl::string_view bytes(reinterpret_cast<const char*>(packet.bytes.data()),
                                packet.bytes.size());
  EOIB_CHECK(absl::BytesToHexString(bytes) ==
             absl::AsciiStrToLower(absl::StrReplaceAll(written, {{":", ""}})));
}

std::string Trace(const TracedPacket& packet) {
  const FakeClock clock;
  translation::StrictSink sink;
  const translation::Options options;
  translation::Translator gateway(options, &clock, &sink);
  gateway.OnLinkState(ipoib::LinkState{sink.own, translation::StrictSink::link,
                                       translation::StrictSink::kIpoibMtu});
  PacketTrace trace(options, Vid(10), &clock);
  trace.CopyFrom(gateway);
  return trace.Run(packet);
}

void Run(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  const auto packet = TracedPacket::Parse(words);
  if (!packet.ok()) {
    EOIB_CHECK(absl::IsInvalidArgument(packet.status()) && !packet.status().message().empty());
    return;
  }
  CheckBytes(*packet, words[1]);
  const std::string said = Trace(*packet);
  EOIB_CHECK(absl::StrContains(said, " bytes\n") && said == Trace(*packet));
}

}  // namespace
}  // namespace eoib::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  eoib::gateway::Run(std::string(data, data + size));
  return 0;
}
