// PacketTranslation: carries IPv4 and IPv6 packets across the gateway, except neighbour discovery.
// It fragments packets above the other side's MTU or returns an ICMP error (RFC 791 §3.2, RFC 1191
// §4, RFC 8201 §4), sets the broadcast flag in DHCP requests of Ethernet clients (RFC 4390 §2.1: an
// IPoIB server cannot reply to a MAC address), and snoops IGMP, MLD and DHCP.
//
// Used by the Translator, on its thread.
#ifndef EOIB_GATEWAY_TRANSLATION_PACKET_TRANSLATION_H_
#define EOIB_GATEWAY_TRANSLATION_PACKET_TRANSLATION_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "gateway/link/aged_table.h"
#include "gateway/link/interface.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/delivery.h"
#include "gateway/translation/querier.h"
#include "gateway/translation/translation_state.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/dhcp4.h"
#include "vswitch/wire/ip/ip_packet.h"

namespace eoib::translation {

// Makes the next packet of a super-frame; empty: there is none. The bytes are valid until the next
// call.
using NextPacket = absl::FunctionRef<absl::Span<uint8_t>()>;
inline absl::Span<uint8_t> NoMorePackets() { return {}; }

class PacketTranslation {
 public:
  PacketTranslation(TranslationState* state, Delivery* delivery, Querier* querier);

  // `more`: the other packets of a super-frame whose first one is `payload`. What becomes of the
  // first becomes of all.
  Drop Ipv4FromEthernet(const EthernetInfo& frame, absl::Span<uint8_t> payload,
                        NextPacket more = NoMorePackets);
  Drop Ipv6FromEthernet(const EthernetInfo& frame, absl::Span<const uint8_t> payload,
                        NextPacket more = NoMorePackets);
  Drop Ipv4FromIpoib(const ipoib::Packet& packet);
  Drop Ipv6FromIpoib(const ipoib::Packet& packet);

  // See Translator.
  void CopyFrom(const PacketTranslation& other);

 private:
  // A packet from Ethernet, for both IP versions.
  struct FromEthernet {
    const EthernetInfo& frame;
    IpAddr source;
    IpAddr destination;
    const Station* station = nullptr;  // its destination; null if that is `group`
    IpAddr group;
  };
  using Emit = absl::FunctionRef<Drop(absl::Span<const uint8_t>)>;
  using Report = absl::FunctionRef<void(absl::Span<const uint8_t> error)>;

  Drop FindTarget(FromEthernet* packet) const;
  void Suspect(const FromEthernet& packet);
  template <typename Packet>
  Drop SendToIpoib(const Packet& packet, const FromEthernet& from, NextPacket more);

  Drop FindSender(const ipoib::Packet& packet, const IpAddr& ip, const Station** sender);
  template <typename Packet>
  Drop SendToEthernet(const Packet& packet, IpoibType type, const Station& sender, bool group);

  Drop Fit(const Ipv4Packet& packet, uint32_t mtu, bool group, Emit emit, Report report);
  Drop Fit(const Ipv6Packet& packet, uint32_t mtu, bool group, Emit emit, Report report);
  void Tell(absl::Span<const uint8_t> error, Report report);

  // `no_suppression`: the first version whose hosts do not suppress their reports. `to_group`: to a
  // link-layer group.
  template <typename Message, typename Packet>
  Drop LearnGroups(const Packet& packet, int no_suppression, bool from_ethernet, bool to_group);
  void Heard(const IpAddr& group, bool wanted, bool from_ethernet);
  void LearnDhcp(const Ipv4Packet& packet, bool from_ethernet);
  void LearnReply(const DhcpMessage& reply, Ipv4Addr destination, bool from_ethernet);
  void LearnClient(const DhcpFields& reply, Ipv4Addr destination);

  TranslationState& state_;
  Delivery& delivery_;
  Querier& querier_;
  TokenBucket errors_;
  // Transactions of the DHCP clients of each side (from Ethernet: true). A host that invents them
  // displaces its own side's only.
  struct Nothing {};
  AgedTable<uint32_t, Nothing> dhcp_requests_[2];
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_PACKET_TRANSLATION_H_
