// The conservation laws of a host: equations between the counters of eoib-ipoib's `stats` (see
// HostCounters). Test only.
#ifndef EOIB_GATEWAY_HOST_CONSERVATION_FOR_TEST_H_
#define EOIB_GATEWAY_HOST_CONSERVATION_FOR_TEST_H_

#include <string>
#include <vector>

#include "gateway/link/conservation_for_test.h"

namespace eoib::endpoint {

inline std::vector<std::string> HostLaws() {
  return {"from_tun + answers = to_link + waiting + to_link_drops",
          "from_link + errors = to_tun + consumed + to_tun_drops"};
}

// The laws of the host and its link. A counter NAME of the link is "link.NAME".
inline std::vector<std::string> HostAndLinkLaws() {
  std::vector<std::string> laws = ipoib::LinkLaws();
  for (const std::string& law : HostLaws()) laws.push_back(law);
  laws.insert(laws.end(), {"link.received = from_link", "link.requested = to_link + said"});
  return laws;
}

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_CONSERVATION_FOR_TEST_H_
