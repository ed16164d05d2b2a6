// NeighborCache: at which link-layer address each IP address of the link is, for IPv4 (RFC 826, RFC 1122 §2.3.2) and IPv6
// (RFC 4861 §7.2, §7.3) alike, and what waits until that is known.
//
// The states are RFC 4861's, for both families:
//
//     incomplete --answer--> reachable --1 s without a word--> stale --packet--> delay --0.5 s--> probe --answer--> reachable
//         |                                                                                         |
//     3 questions unanswered: gone, and what waits is reported unreachable            3 questions unanswered: gone
//
// Three things differ from a host on Ethernet, because the address of an IPoIB interface has a queue pair number in it, and is
// another after each restart (RFC 4391 §9.4 recommends to revalidate):
//   - An entry is reachable for 1 s after the neighbour was last heard, not for 30 s. What comes from its queue pair counts as
//     word from it, so those who talk with each other are not asked. RFC 4861 §7.3.1 wants proof of the way there, of which a
//     packet from there is none; but a queue pair that sends is one that still exists, and that is what is asked here. Packets
//     with another source address (a router's, or what is behind a gateway) count for 30 s; then the address itself is asked.
//   - Only the first probe goes to the address that is known; the others ask the link, as RFC 7048 §3 recommends: the interface
//     may have come back with another queue pair, and has nobody yet who knows that.
//   - An advertisement without the override flag for another address leaves the entry as RFC 4861 §7.2.5 has it; ARP has no
//     such flag, and overrides always (RFC 826).
//
// When it is full, the neighbour (link-layer address) with most entries gives up the one least recently used, where
// the addresses of nobody yet count as one neighbour's: who invents addresses, and who scans, displaces his own.
//
// One thread. Calls its Link from within its own methods; a Link must not call back.
#ifndef EOIB_GATEWAY_ENDPOINT_NEIGHBOR_CACHE_H_
#define EOIB_GATEWAY_ENDPOINT_NEIGHBOR_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/clock.h"
#include "fdb/ranking.h"
#include "vswitch/wire/ip_addr.h"
#include "vswitch/wire/ipoib_address.h"

namespace eoib::endpoint {

enum class NeighborState : uint8_t { kIncomplete, kReachable, kStale, kDelay, kProbe };
const char* ToString(NeighborState state);

class NeighborCache {
 public:
  struct Options {
    size_t limit = 16384;                            // entries
    size_t queue = 3;                                // packets that wait for an address (RFC 1122 §2.3.2.2), latest kept
    int questions = 3;                               // MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT (RFC 4861 §10)
    absl::Duration retransmit = absl::Seconds(1);    // RETRANS_TIMER
    absl::Duration reachable = absl::Seconds(1);     // since the neighbour was last heard
    absl::Duration vouched = absl::Seconds(30);      // as long does its queue pair count for its address
    absl::Duration delay = absl::Milliseconds(500);  // before a probe, in which the answer to the packet may come
    absl::Duration idle = absl::Minutes(10);         // after which an entry that nobody uses goes
  };

  // What the cache asks of who owns it.
  class Link {
   public:
    virtual ~Link() = default;
    // Who has `target`? To one neighbour, or to all.
    virtual void Solicit(const IpAddr& target, const absl::optional<IpoibAddress>& at) = 0;
    virtual void Deliver(absl::Span<const uint8_t> packet, const IpoibAddress& to) = 0;
    // Nobody has `target`, for which `packet` waited.
    virtual void Unreachable(const IpAddr& target, absl::Span<const uint8_t> packet) = 0;
    // `packet` gave way to a later one.
    virtual void Displaced(absl::Span<const uint8_t> packet) = 0;
  };

  struct Neighbor {
    IpAddr ip;
    absl::optional<IpoibAddress> address;
    NeighborState state;
    absl::Duration heard;  // how long ago; infinite: never
    size_t waiting;        // packets
  };

  // `clock` and `link` stay the caller's.
  NeighborCache(const Options& options, const Clock* clock, Link* link);
  NeighborCache(const NeighborCache&) = delete;
  NeighborCache& operator=(const NeighborCache&) = delete;

  // Delivers an IP packet to the neighbour that has `next_hop`, at once or when its address is known. Copies what waits.
  void Send(const IpAddr& next_hop, absl::Span<const uint8_t> packet);

  // A packet came from there, whose IP header names `source`.
  void OnHeard(const IpoibAddress& from, const IpAddr& source);
  // `ip` asks us, and says where it is: an ARP request for an address of ours, a solicitation with its source's link-layer
  // address (RFC 4861 §7.2.3). Makes an entry.
  void OnQuestion(const IpAddr& ip, const IpoibAddress& address);
  // `ip` says where it is, answering us (`solicited`) or of itself. Makes no entry (RFC 4861 §7.2.5; RFC 826). Without an
  // address a solicited answer confirms what is known.
  void OnAnswer(const IpAddr& ip, const absl::optional<IpoibAddress>& address, bool solicited, bool overrides);

  // Runs what is due; at the latest when Next() has come.
  void Tick();
  absl::Time Next() const { return timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first; }

  // Forgets everything, and what waits: the link is another.
  void Clear();

  // Packets that wait for an address.
  size_t waiting() const;
  size_t size() const { return entries_.size(); }
  absl::optional<Neighbor> Find(const IpAddr& ip) const;
  // In the order of addresses.
  std::vector<Neighbor> All() const;

 private:
  using Packet = std::vector<uint8_t>;
  // Who has entries: a link-layer address. The zero address: nobody yet.
  struct Owner {
    uint32_t rank = 0;  // its number in ranking_
    absl::Time heard = absl::InfinitePast();
    std::list<IpAddr> entries;  // least recently used first
  };
  struct Entry {
    NeighborState state = NeighborState::kIncomplete;
    IpoibAddress address;
    absl::Time confirmed = absl::InfinitePast();  // by an answer, or a packet from it
    absl::Time used = absl::InfinitePast();
    absl::Time timer = absl::InfiniteFuture();
    int asked = 0;
    std::vector<Packet> waiting;
    std::list<IpAddr>::iterator place;  // in its owner's entries
  };
  using Entries = absl::node_hash_map<IpAddr, Entry>;

  Entry& Make(const IpAddr& ip, const IpoibAddress& owner);
  void Remove(Entries::iterator entry);
  void RemoveWaste();
  void Join(const IpAddr& ip, const IpoibAddress& owner, Entry* entry);
  void Leave(Entry* entry);
  void Move(const IpAddr& ip, const IpoibAddress& owner, Entry* entry);
  void Touch(Entry* entry);
  absl::Time HeardOf(const Entry& entry) const;
  bool IsFresh(const Entry& entry) const;
  void SetTimer(const IpAddr& ip, absl::Time when, Entry* entry);
  void SetState(const IpAddr& ip, NeighborState state, Entry* entry);
  void Queue(absl::Span<const uint8_t> packet, Entry* entry);
  void DeliverTo(const IpAddr& ip, absl::Span<const uint8_t> packet, Entry* entry);
  void DeliverWaiting(const IpAddr& ip, Entry* entry);
  void Ask(const IpAddr& ip, Entry* entry);
  void Update(const IpAddr& ip, const IpoibAddress& address, NeighborState state, Entry* entry);
  void RunTimer(const IpAddr& ip);
  void AskAgain(Entries::iterator entry);
  void GiveUp(Entries::iterator entry);
  Neighbor Describe(const IpAddr& ip, const Entry& entry) const;

  const Options options_;
  const Clock* const clock_;
  Link* const link_;
  Entries entries_;
  absl::node_hash_map<IpoibAddress, Owner> owners_;
  std::vector<IpoibAddress> ranked_;  // by their number
  std::vector<uint32_t> free_ranks_;
  Ranking ranking_;  // of owners, by their entries
  std::set<std::pair<absl::Time, IpAddr>> timers_;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_NEIGHBOR_CACHE_H_
