// IpHost: a host on an IPoIB link (RFC 4391). It moves IP packets between the TUN, which leads to
// the host's kernel, and ipoib::Interface.
//
//     from the TUN: multicast and broadcast go to their group; unicast goes to the next hop, after
//     address resolution from the link: ARP and neighbour discovery are handled here; IP goes to
//     the TUN
//
// It owns the neighbour cache, the addresses with duplicate address detection, the memberships and
// the responders.
//
// Threads: the one that runs the event loop. Everything in Context outlives it.
//
// NeighborCache and Dad call the host from inside of their own functions (NeighborCache::Link,
// Dad::Sender), and the host does not call them from there. The neighbour cache copies the packets
// that wait. Each packet has one disposition (HostCounters).
#ifndef EOIB_GATEWAY_HOST_IP_HOST_H_
#define EOIB_GATEWAY_HOST_IP_HOST_H_

#include <cstdint>
#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gateway/host/addresses.h"
#include "gateway/host/arp_responder.h"
#include "gateway/host/dad.h"
#include "gateway/host/drop_reason.h"
#include "gateway/host/link_sender.h"
#include "gateway/host/memberships.h"
#include "gateway/host/nd_responder.h"
#include "gateway/host/neighbor_cache.h"
#include "gateway/link/interface.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/counters.h"
#include "vswitch/wire/ip/ip_packet.h"

namespace eoib::endpoint {

// Takes packets for this host's kernel.
class Tun {
 public:
  virtual ~Tun() = default;
  virtual EndpointDrop Write(absl::Span<const uint8_t> packet) = 0;
  // The same for a packet whose bytes stay until Flush. It may wait until then, to be joined with
  // others; no order changes.
  virtual EndpointDrop WriteInBatch(absl::Span<const uint8_t> packet) { return Write(packet); }
  // Joins a TCP segment to the last packet that WriteInBatch took, if it continues that.
  // `checksums_ok`: the packet's are known to be right. If false, nothing has changed.
  virtual bool Continue([[maybe_unused]] absl::Span<const uint8_t> packet,
                        [[maybe_unused]] bool checksums_ok) {
    return false;
  }
  // Ends a batch. Returns how many of the packets that WriteInBatch and Continue took were lost,
  // and the reason.
  virtual size_t Flush(EndpointDrop* reason) {
    *reason = EndpointDrop::kNone;
    return 0;
  }
  // Sets the TUN's MTU and carrier to the link's. 0: the link is down.
  virtual void SetLink(uint32_t mtu) = 0;
};

// Finds the next hop of a unicast destination; absent if there is no route.
class NextHops {
 public:
  virtual ~NextHops() = default;
  virtual absl::optional<IpAddr> NextHop(const IpAddr& destination) = 0;
};

// Each packet has one disposition. At any time,
//
//     from_tun + answers = to_link + waiting + to_link_drops
//     from_link + errors = to_tun + consumed + to_tun_drops
//
// where `waiting` is the neighbour cache's and `answers` the NdResponder's. For the counters of the
// ipoib::Interface
//
//     received = from_link,  requested = to_link + said (LinkSender's)
//
// X(member, help)
#define EOIB_HOST_COUNTERS(X)                                                        \
  X(from_tun, "IP packets from the TUN, including those of the DHCP client")         \
  X(to_tun, "IP packets that the TUN took")                                          \
  X(from_link, "packets from the IPoIB link")                                        \
  X(to_link, "packets given to the IPoIB link")                                      \
  X(consumed, "packets from the link that end here: ARP, neighbour discovery, DHCP") \
  X(errors, "ICMP errors made here for the TUN")                                     \
  X(arp_received, "ARP packets received")                                            \
  X(nd_received, "messages of neighbour discovery received")                         \
  X(questions, "ARP requests and neighbour solicitations sent")

struct HostCounters {
  EOIB_COUNTERS(HostCounters, uint64_t, EOIB_HOST_COUNTERS)
  LabelledCounters<EndpointDrop> drops;

  uint64_t to_link_drops() const { return drops.Sum(EndpointDrop{}, EndpointDrop::kArpMalformed); }
  uint64_t to_tun_drops() const { return drops.Sum(EndpointDrop::kArpMalformed); }
};

class IpHost final : public ipoib::Listener, public NeighborCache::Link, public Dad::Sender {
 public:
  struct Options {
    NeighborCache::Options neighbors;
    Dad::Options dad;
    bool link_local = true;  // make a link-local address of the port's GUID (RFC 4391 §8)
    // A DHCP server on this host serves the link through its TUN. A unicast reply to an address
    // that the client does not have yet could not be delivered. So this host sets the broadcast
    // flag in requests.
    bool dhcp_server = false;
  };
  struct Context {
    const Clock* clock;
    ipoib::Interface* link;
    Tun* tun;
    NextHops* routes;
    KernelAddresses* addresses;
    Dad::Random random;
  };
  // True if it took the packet, which then does not go to the kernel.
  using Interceptor = std::function<bool(const Ipv4Packet&)>;

  // The caller makes this the Interface's listener, and calls OnLinkState once.
  IpHost(const Options& options, const Context& context);

  // Takes an IP packet that the kernel has sent on the TUN.
  void FromTun(absl::Span<const uint8_t> packet);
  // Takes the packets of a super-frame. `next` makes one after the other; empty: there is none. If
  // the first leaves at once, the others go to the same neighbour.
  void SuperFrameFromTun(absl::FunctionRef<absl::Span<const uint8_t>()> next);
  // `interceptor` gets IPv4 packets from the link before the kernel.
  void Intercept(Interceptor interceptor) { interceptor_ = std::move(interceptor); }
  // `callback` runs when link_state() has changed, after all parts of the host know.
  void OnLinkChange(std::function<void()> callback) { on_link_change_ = std::move(callback); }
  // `callback` runs when the kernel has sent an IGMP or MLD report, so that the groups that it is
  // in may have changed.
  void OnGroupReport(std::function<void()> callback) { on_group_report_ = std::move(callback); }

  // ipoib::Listener.
  void OnPacket(const ipoib::Packet& packet) override;
  void OnBatchEnd() override;
  void OnLinkState() override;

  void Tick();
  absl::Time Next() const;

  const NeighborCache& neighbors() const { return neighbors_; }
  Addresses& addresses() { return addresses_; }
  const Addresses& addresses() const { return addresses_; }
  Memberships& memberships() { return memberships_; }
  const Memberships& memberships() const { return memberships_; }
  const HostCounters& counters() const { return counters_; }
  uint64_t answers() const { return nd_.answers(); }
  uint64_t said() const { return sender_.said(); }
  const absl::optional<ipoib::LinkState>& link_state() const { return state_; }

 private:
  // NeighborCache::Link.
  void Solicit(const IpAddr& target, const absl::optional<IpoibAddress>& at) override;
  void Deliver(absl::Span<const uint8_t> packet, const IpoibAddress& to) override;
  void Unreachable(const IpAddr& target, absl::Span<const uint8_t> packet) override;
  void Displaced(absl::Span<const uint8_t> packet) override;
  // Dad::Sender.
  bool Probe(const IpAddr& address, const DadNonce& nonce) override;
  void Announce(const IpAddr& address) override;

  void Drop(EndpointDrop reason) { counters_.drops.Add(reason); }
  void Ipv4FromTun(absl::Span<const uint8_t> bytes);
  void Ipv6FromTun(absl::Span<const uint8_t> bytes);
  bool MaySend(const IpAddr& source, absl::Span<const uint8_t> bytes);
  void ToGroup(IpoibType type, absl::Span<const uint8_t> bytes,
               const absl::optional<IpoibGroup>& group, bool beyond_link);
  void ToHost(const IpAddr& destination, absl::Span<const uint8_t> bytes);
  void ArpFromLink(const ipoib::Packet& packet);
  void Ipv4FromLink(const ipoib::Packet& packet);
  void Ipv6FromLink(const ipoib::Packet& packet);
  void MakeLinkLocal();
  void DiscoveryFromLink(const ipoib::Packet& packet, const NdMessage& message);
  void Heard(const ipoib::Packet& packet, const IpAddr& source);
  void ToTun(absl::Span<const uint8_t> packet) { CountToTun(tun_->Write(packet)); }
  void CountToTun(EndpointDrop drop);
  void ToTunInBatch(const ipoib::Packet& from, absl::Span<const uint8_t> packet);
  void ErrorToTun(absl::Span<const uint8_t> error);
  void OnAddressChange();

  const Options options_;
  ipoib::Interface* const link_;
  Tun* const tun_;
  NextHops* const routes_;
  LinkSender sender_;
  Addresses addresses_;
  Dad dad_;
  NeighborCache neighbors_;
  ArpResponder arp_;
  NdResponder nd_;
  Memberships memberships_;
  absl::optional<ipoib::LinkState> state_;
  absl::optional<IpoibAddress> sent_to_;       // to which FromTun has sent a unicast packet
  absl::optional<IpoibAddress> batch_sender_;  // of the last packet for Tun::WriteInBatch
  absl::optional<IpAddr> link_local_;
  Interceptor interceptor_;
  std::function<void()> on_group_report_ = [] {};
  std::function<void()> on_link_change_;
  HostCounters counters_;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_IP_HOST_H_
