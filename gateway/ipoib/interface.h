// Interface: an IPoIB link (RFC 4391) as those see it who have packets for it: the IP stack of a host, the translation of a
// gateway. Addresses in, datagrams out; partitions, queue pairs, paths and memberships are behind it.
//
// One thread: the one that owns the data path of the link.
#ifndef EOIB_GATEWAY_IPOIB_INTERFACE_H_
#define EOIB_GATEWAY_IPOIB_INTERFACE_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/wire/ipoib_address.h"
#include "vswitch/wire/ipoib_group.h"
#include "vswitch/wire/ipoib_header.h"

namespace eoib::ipoib {

// What membership in the broadcast group makes of a port: RFC 4391 §5.
struct LinkState {
  IpoibAddress own;
  IpoibLink link;        // P_Key, and the scope of the broadcast group
  uint32_t mtu = 0;      // of an IP packet, bytes: the broadcast group's less 4 (§7)
  bool limited = false;  // a limited member of the partition: two such do not hear each other

  friend bool operator==(const LinkState&, const LinkState&) = default;
};

// What came, behind the IPoIB header. The bytes are the receiver's until its callback returns.
struct Packet {
  IpoibType type = IpoibType::kIpv4;
  absl::Span<uint8_t> payload;
  // Who sent it. With a GRH, what that and the source QPN say. Without (Linux sends unicast so: §6) the address that the sender
  // has given in its ARP and neighbour discovery, known by SLID and QPN; nothing if none came yet.
  absl::optional<IpoibAddress> source;
  bool group = false;      // came through a multicast group; else to this queue pair alone
  bool broadcast = false;  // and that was the broadcast group
};

// Who hears of what happens at an Interface.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void OnPacket(const Packet& packet) = 0;
  // state() has changed: the link is up, is down, has another MTU, or this port is at another address, of which then nobody
  // knows yet.
  virtual void OnLinkState() = 0;
};

class Interface {
 public:
  virtual ~Interface() = default;

  // Nothing while the link is down: no P_Key, port down, broadcast group not joined.
  virtual absl::optional<LinkState> state() const = 0;

  // Sends `payload` with a header of `type`. What cannot be sent (link down, longer than the MTU, queue full, no path within a
  // second) is counted and lost: datagrams are. Copies.
  virtual void Send(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) = 0;
  // To the members of a group of this link; which includes this port if it listens, but what it sent itself is never received.
  // A group that this port has not sent to is looked for first (§10): if it does not exist, the packet goes to all routers if
  // `beyond_link` (the scope of its IP address is larger than the link), or to nobody.
  virtual void SendToGroup(IpoibType type, absl::Span<const uint8_t> payload, const IpoibGroup& group, bool beyond_link) = 0;
  // Whether what is sent to `group` now goes to its members: false while nobody knows yet whether and where it is, or if it is
  // not there. It is looked for then, so that the answer may soon be another.
  virtual bool Reaches(const IpoibGroup& group) = 0;
  void Broadcast(IpoibType type, absl::Span<const uint8_t> payload) {
    if (const absl::optional<LinkState> link = state()) SendToGroup(type, payload, BroadcastGroup(link->link), false);
  }

  // Full membership (§10): what is sent to `group` is received, from soon on, and it exists, so that others find it. Kept over
  // changes of the link. Each once: listening is not counted. The broadcast group needs none.
  virtual void Listen(const IpoibGroup& group) = 0;
  virtual void Unlisten(const IpoibGroup& group) = 0;
};

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_IPOIB_INTERFACE_H_
