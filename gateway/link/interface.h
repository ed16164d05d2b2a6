// Interface: an IPoIB link (RFC 4391) as its users see it, which are the IP stack of a host and the
// translation of a gateway. They name IPoIB addresses and groups; partitions, queue pairs, paths
// and memberships are hidden.
//
// One thread: the one that owns the data path of the link.
#ifndef EOIB_GATEWAY_LINK_INTERFACE_H_
#define EOIB_GATEWAY_LINK_INTERFACE_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/wire/ip/ipoib_address.h"
#include "vswitch/wire/ipoib_group.h"
#include "vswitch/wire/ipoib_header.h"

namespace eoib::ipoib {

// The parameters of a link that is up. The broadcast group's record sets them (RFC 4391 §5).
struct LinkState {
  IpoibAddress own;
  IpoibLink link;    // P_Key, and the scope of the broadcast group
  uint32_t mtu = 0;  // of an IP packet, bytes: the broadcast group's less 4 (§7)
  // This port is a limited member of the partition: two limited members do not hear each other.
  bool limited = false;

  friend bool operator==(const LinkState&, const LinkState&) = default;
};

// A received packet, without its IPoIB header. The listener may use and change the bytes until
// OnBatchEnd.
struct Packet {
  IpoibType type = IpoibType::kIpv4;
  absl::Span<uint8_t> payload;
  // The sender: with a GRH, its SGID and the source QPN. Linux sends unicast without a GRH (§6):
  // then the address that the sender at this SLID and QPN has given in its ARP or neighbour
  // discovery; absent if none came yet.
  absl::optional<IpoibAddress> source;
  bool group = false;         // came through a multicast group; else to this queue pair alone
  bool broadcast = false;     // came through the broadcast group
  bool checksums_ok = false;  // the HCA verified the checksums of IPv4, and of TCP or UDP in it
};

// Receives the packets and state changes of an Interface.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void OnPacket(const Packet& packet) = 0;
  // The packets since the last call came together; there may be none.
  virtual void OnBatchEnd() {}
  // state() has changed: the link is up or down, its MTU has changed, or this port has another
  // address, which its peers do not know yet.
  virtual void OnLinkState() = 0;
};

class Interface {
 public:
  virtual ~Interface() = default;

  // Absent while the link is down: no P_Key, port down, or broadcast group not joined.
  virtual absl::optional<LinkState> state() const = 0;

  // Copies `payload` and sends it with a header of `type`. A packet that cannot be sent (link down,
  // longer than the MTU, queue full, no path within a second) is dropped and counted. A payload at
  // the start of Draft() is not copied.
  virtual void Send(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) = 0;
  // Space in which the caller may make a packet, until that is sent or the next Draft. Empty if
  // there is none now.
  virtual absl::Span<uint8_t> Draft() { return {}; }
  // Sends to the members of a group of this link; this port never receives its own copy. The SA is
  // first asked for a group that is new to this port (§10). If the group does not exist, the packet
  // goes to all routers if `beyond_link` (the scope of its IP address is larger than the link),
  // else it is dropped.
  virtual void SendToGroup(IpoibType type, absl::Span<const uint8_t> payload,
                           const IpoibGroup& group, bool beyond_link) = 0;
  // True if a packet to `group` would reach its members now; false if the group does not exist or
  // is not looked up yet. The call starts the lookup, so a later call may return true.
  virtual bool Reaches(const IpoibGroup& group) = 0;
  void Broadcast(IpoibType type, absl::Span<const uint8_t> payload) {
    if (const absl::optional<LinkState> link = state())
      SendToGroup(type, payload, BroadcastGroup(link->link), false);
  }

  // Joins `group` as a full member (§10), so that this port soon receives its packets and others
  // find the group. The membership survives changes of the link. Calls are not counted: one
  // Unlisten ends it. The broadcast group needs no Listen.
  virtual void Listen(const IpoibGroup& group) = 0;
  virtual void Unlisten(const IpoibGroup& group) = 0;
};

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_LINK_INTERFACE_H_
