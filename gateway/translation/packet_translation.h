// PacketTranslation: IPv4 and IPv6 packets across the gateway, all but neighbour discovery.
//
// A packet crosses as it is: the gateway is a bridge and no router, so TTL and hop limit stay. From Ethernet its MAC
// destination says which station or group it is for; from IPoIB its IP destination does (see Delivery). What is larger than the
// other side's MTU is cut, or its sender told (RFC 791 §3.2, RFC 1191 §4, RFC 8201 §4); DHCP requests of Ethernet clients get
// the broadcast flag (RFC 4390 §2.1: an IPoIB server cannot answer to a MAC address); and on the way the gateway reads what
// IGMP, MLD and DHCP say, to listen where Ethernet hosts want to and to know routers.
//
// Used by the Translator, on its thread.
#ifndef EOIB_GATEWAY_TRANSLATION_PACKET_TRANSLATION_H_
#define EOIB_GATEWAY_TRANSLATION_PACKET_TRANSLATION_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "gateway/ipoib/interface.h"
#include "fdb/token_bucket.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/delivery.h"
#include "gateway/translation/knowledge.h"
#include "gateway/translation/querier.h"
#include "vswitch/wire/dhcp4.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip_packet.h"

namespace eoib::translation {

class PacketTranslation {
 public:
  PacketTranslation(Knowledge* knowledge, Delivery* delivery, Querier* querier);

  Drop Ipv4FromEthernet(const EthernetInfo& frame, absl::Span<uint8_t> payload);
  Drop Ipv6FromEthernet(const EthernetInfo& frame, absl::Span<const uint8_t> payload);
  Drop Ipv4FromIpoib(const ipoib::Packet& packet);
  Drop Ipv6FromIpoib(const ipoib::Packet& packet);

  // See Translator.
  void Imitate(const PacketTranslation& other) { errors_ = other.errors_; }

 private:
  // What both IPs have in common of a packet from Ethernet.
  struct FromEthernet {
    const EthernetInfo& frame;
    IpAddr source;
    IpAddr destination;
    const Station* station = nullptr;  // that it is for; null: for `group`
    IpAddr group;
  };
  using Emit = absl::FunctionRef<Drop(absl::Span<const uint8_t>)>;
  using Report = absl::FunctionRef<void(absl::Span<const uint8_t> error)>;

  Drop FindTarget(FromEthernet* packet) const;
  void Suspect(const FromEthernet& packet);
  Drop Send(const FromEthernet& packet, IpoibType type, absl::Span<const uint8_t> bytes);

  Drop FindSender(const ipoib::Packet& packet, const IpAddr& ip, const Station** sender);
  Drop SendToEthernet(const Delivery::Packet& packet, bool group, absl::Span<const uint8_t> bytes);

  Drop Fit(const Ipv4Packet& packet, uint32_t mtu, bool group, Emit emit, Report report);
  Drop Fit(const Ipv6Packet& packet, uint32_t mtu, Emit emit, Report report);
  void Tell(absl::Span<const uint8_t> error, Report report);

  Drop LearnGroups(const Ipv4Packet& packet, bool from_ethernet);
  Drop LearnGroups(const Ipv6Packet& packet, bool from_ethernet);
  void Heard(const IpAddr& group, bool wanted, bool from_ethernet);
  void LearnDhcp(const Ipv4Packet& packet, bool from_ethernet);
  void LearnClient(const DhcpFields& reply, Ipv4Addr destination);

  Knowledge& k_;
  Delivery& delivery_;
  Querier& querier_;
  TokenBucket errors_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_PACKET_TRANSLATION_H_
