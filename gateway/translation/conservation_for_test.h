// The conservation laws of a gateway: equations between the counters of `gateway stats`. Test only.
#ifndef EOIB_GATEWAY_TRANSLATION_CONSERVATION_FOR_TEST_H_
#define EOIB_GATEWAY_TRANSLATION_CONSERVATION_FOR_TEST_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gateway/link/conservation_for_test.h"

namespace eoib::gateway {

// README.md, "Conservation". Includes the laws of the link.
inline std::vector<std::string> GatewayLaws() {
  std::vector<std::string> laws = ipoib::LinkLaws();
  laws.insert(laws.end(),
              {"frames_in + packets_in = crossed + held + input_drops",  //
               "waited = released + unanswered + held_now",              //
               "frames_out = frames_handed + frames_joined + frames_waiting + frame_drops",
               "link.received = packets_in + hellos_received",  //
               "link.requested = packets_out + hellos_sent"});
  return laws;
}

// The counters of each gateway in the text of `stats`; a counter NAME of its link is "link.NAME".
inline std::map<std::string, ipoib::Numbers> ParseGatewayStats(absl::string_view stats) {
  constexpr absl::string_view kGateway = "gateway ", kLink = "IPoIB link of gateway ";
  std::map<std::string, ipoib::Numbers> gateways;
  std::string name, prefix;
  for (absl::string_view line : absl::StrSplit(stats, '\n')) {
    if (absl::StartsWith(line, kGateway)) {
      name = std::string(line.substr(kGateway.size()));
      prefix = "";
      gateways[name];
    } else if (absl::StartsWith(line, kLink)) {
      prefix = "link.";
    } else {
      gateways[name].merge(ipoib::ParseNumbers(line, prefix));
    }
  }
  return gateways;
}

// The laws that `stats` breaks; empty if all hold. Between two batches all must hold, even while
// packets are under way.
inline std::string NotConserved(absl::string_view stats) {
  std::string broken;
  for (const auto& [name, numbers] : ParseGatewayStats(stats)) {
    if (!name.empty()) broken += ipoib::BrokenLaws(numbers, GatewayLaws());
  }
  return broken;
}

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_TRANSLATION_CONSERVATION_FOR_TEST_H_
