// Questioner: the ARP and neighbour discovery that the gateway says by itself, for others: it has no IP address.
//
// A question is asked for the host whose packet raised it: from its IP address, and from its MAC address or, on IPoIB, from the
// gateway's, which is where the answer has to go. If that host is not of this link (its packet came through a router), the
// question looks like a look for a duplicate (RFC 5227 §2.1.1; RFC 4862 §5.4.2), which whoever has the address answers and
// nobody remembers.
//
// An announcement is what the host would say itself if it knew that it should: RFC 5227 §2.3, RFC 4861 §7.2.6.
#ifndef EOIB_GATEWAY_TRANSLATION_QUESTIONER_H_
#define EOIB_GATEWAY_TRANSLATION_QUESTIONER_H_

#include <cstdint>
#include <vector>

#include "fdb/address.h"
#include "gateway/translation/output.h"
#include "gateway/translation/resolver.h"
#include "gateway/translation/stations.h"
#include "vswitch/wire/ip_addr.h"

namespace eoib::translation {

class Questioner {
 public:
  explicit Questioner(Output* output) : output_(output) {}

  // Asks Ethernet for question.target.
  void AskEthernet(const Question& question);
  // Asks IPoIB; the station alone at which the target was, if `at` is not null.
  void AskIpoib(const Question& question, const Station* at);

  // Says to all of Ethernet that `ip` is at a station's MAC address, to all of IPoIB that it is at the gateway's; and whether
  // it is a router's, which hosts would cease to use if it did not say so (RFC 4861 §7.2.5).
  void AnnounceToEthernet(const IpAddr& ip, bool router, MacAddr mac);
  void AnnounceToIpoib(const IpAddr& ip, bool router);

 private:
  Output* const output_;
  std::vector<uint8_t> packet_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_QUESTIONER_H_
