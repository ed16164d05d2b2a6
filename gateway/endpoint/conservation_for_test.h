// The laws of conservation of a host, of what `stats` of eoib-ipoib shows (HostCounters has them). Test only.
#ifndef EOIB_GATEWAY_ENDPOINT_CONSERVATION_FOR_TEST_H_
#define EOIB_GATEWAY_ENDPOINT_CONSERVATION_FOR_TEST_H_

#include <string>
#include <vector>

#include "gateway/ipoib/conservation_for_test.h"

namespace eoib::endpoint {

inline std::vector<std::string> HostLaws() {
  return {"from_tun + answers = to_link + waiting + to_link_drops", "from_link + errors = to_tun + consumed + to_tun_drops"};
}

// Of the host and its link: the counters of that with "link." before them.
inline std::vector<std::string> HostAndLinkLaws() {
  std::vector<std::string> laws = ipoib::LinkLaws();
  for (const std::string& law : HostLaws()) laws.push_back(law);
  laws.insert(laws.end(), {"link.received = from_link", "link.requested = to_link + said"});
  return laws;
}

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_CONSERVATION_FOR_TEST_H_
