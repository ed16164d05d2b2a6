// SolicitationSender: builds and sends the gateway's own ARP requests, solicitations and
// announcements. The gateway has no IP address, so it solicits on behalf of the host whose packet
// caused that, or by a probe (RFC 5227 §2.1.1; RFC 4862 §5.4.2) if the host is not on this link:
// the owner of the address answers a probe, and no host learns from it. An announcement is the one
// that the host itself would send: RFC 5227 §2.3, RFC 4861 §7.2.6.
#ifndef EOIB_GATEWAY_TRANSLATION_SOLICITATION_SENDER_H_
#define EOIB_GATEWAY_TRANSLATION_SOLICITATION_SENDER_H_

#include <cstdint>
#include <vector>

#include "gateway/translation/address_resolution.h"
#include "gateway/translation/output.h"
#include "gateway/translation/stations.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::translation {

class SolicitationSender {
 public:
  explicit SolicitationSender(Output* output) : output_(output) {}

  // Solicits solicitation.target on Ethernet.
  void SolicitEthernet(const Solicitation& solicitation);
  // Solicits solicitation.target on IPoIB: by unicast to `at`, or to the broadcast or
  // solicited-node group if `at` is null.
  void SolicitIpoib(const Solicitation& solicitation, const Station* at);

  // Announces `ip` on Ethernet, at a station's MAC address, or on IPoIB, at the gateway's address.
  // `router` sets the R flag: hosts stop using a router that is advertised without it (RFC 4861
  // §7.2.5).
  void AnnounceToEthernet(const IpAddr& ip, bool router, MacAddr mac);
  void AnnounceToIpoib(const IpAddr& ip, bool router);

 private:
  Output* const output_;
  std::vector<uint8_t> packet_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_SOLICITATION_SENDER_H_
