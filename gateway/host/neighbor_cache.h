// NeighborCache: the neighbour table of both families (RFC 826, RFC 1122 §2.3.2; RFC 4861 §7.2,
// §7.3), with the packets that wait for address resolution. IPv4 has the states of RFC 4861, too:
//
//     incomplete --answer--> reachable --1 s of silence--> stale --packet--> delay --0.5 s--> probe
//     --answer--> reachable
//         |                                                                                     |
//     3 solicitations unanswered: removed, waiting packets unreachable            3 solicitations
//     unanswered: removed
//
// README.md, "Neighbours", has the differences from RFC 4861, which follow from the QPN in an IPoIB
// address. One thread. It calls its Link from its own methods; a Link must not call back.
#ifndef EOIB_GATEWAY_HOST_NEIGHBOR_CACHE_H_
#define EOIB_GATEWAY_HOST_NEIGHBOR_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/count_ranking.h"
#include "vswitch/base/clock.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/ipoib_address.h"

namespace eoib::endpoint {

enum class NeighborState : uint8_t { kIncomplete, kReachable, kStale, kDelay, kProbe };
const char* ToString(NeighborState state);

class NeighborCache {
 public:
  struct Options {
    size_t limit = 16384;  // entries
    // Waiting packets per address (RFC 1122 §2.3.2.2); the latest are kept.
    size_t queue = 3;
    // MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT (RFC 4861 §10)
    int max_solicits = 3;
    absl::Duration retransmit = absl::Seconds(1);  // RETRANS_TIMER
    absl::Duration reachable = absl::Seconds(1);   // since the neighbour was last heard
    // For this time any packet of the queue pair confirms the address.
    absl::Duration vouched = absl::Seconds(30);
    // Before a probe; the answer to the packet may make it needless.
    absl::Duration delay = absl::Milliseconds(500);
    absl::Duration idle = absl::Minutes(10);  // an unused entry is removed after this time
  };

  class Link {
   public:
    virtual ~Link() = default;
    // Solicits `target`, by unicast to `at` or by multicast.
    virtual void Solicit(const IpAddr& target, const absl::optional<IpoibAddress>& at) = 0;
    virtual void Deliver(absl::Span<const uint8_t> packet, const IpoibAddress& to) = 0;
    // `packet` waited for `target`, which did not answer.
    virtual void Unreachable(const IpAddr& target, absl::Span<const uint8_t> packet) = 0;
    // `packet` was dropped from a full queue, or its entry was removed.
    virtual void Displaced(absl::Span<const uint8_t> packet) = 0;
  };

  struct Neighbor {
    IpAddr ip;
    absl::optional<IpoibAddress> address;
    NeighborState state;
    absl::Duration heard;  // since it was last heard; infinite: never
    size_t waiting;        // packets
  };

  // `clock` and `link` outlive it.
  NeighborCache(const Options& options, const Clock* clock, Link* link);
  NeighborCache(const NeighborCache&) = delete;
  NeighborCache& operator=(const NeighborCache&) = delete;

  // Delivers an IP packet to the neighbour that has `next_hop`, at once or when its address is
  // resolved. Copies a waiting packet.
  void Send(const IpAddr& next_hop, absl::Span<const uint8_t> packet);

  // A packet with the IP source `source` came from the interface at `from`.
  void OnHeard(const IpoibAddress& from, const IpAddr& source);
  // `ip` solicits an address of ours and gives its own link-layer address: an ARP request, or a
  // solicitation with a source link-layer address option (RFC 4861 §7.2.3). Makes an entry.
  void OnSolicitation(const IpAddr& ip, const IpoibAddress& address);
  // `ip` gives its link-layer address, in answer to us (`solicited`) or unsolicited. Makes no entry
  // (RFC 4861 §7.2.5; RFC 826). A solicited answer without an address confirms the known one.
  void OnAdvertisement(const IpAddr& ip, const absl::optional<IpoibAddress>& address,
                       bool solicited, bool overrides);

  // Runs due timers. Call it at Next().
  void Tick();
  absl::Time Next() const {
    return timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first;
  }

  // Removes all entries and waiting packets, for another link.
  void Clear();

  size_t waiting() const;  // packets
  size_t size() const { return entries_.size(); }
  // In the order of addresses.
  std::vector<Neighbor> All() const;

 private:
  using Packet = std::vector<uint8_t>;
  // A link-layer address that has entries. The zero address owns unresolved entries.
  struct Owner {
    uint32_t rank = 0;  // its number in ranking_
    absl::Time heard = absl::InfinitePast();
    std::list<IpAddr> entries;  // least recently used first
  };
  struct Entry {
    NeighborState state = NeighborState::kIncomplete;
    IpoibAddress address;
    // By a solicited answer, or a packet with this source.
    absl::Time confirmed = absl::InfinitePast();
    absl::Time used = absl::InfinitePast();
    absl::Time timer = absl::InfiniteFuture();
    int solicits = 0;
    std::vector<Packet> waiting;
    std::list<IpAddr>::iterator place;  // in its owner's entries
  };
  using Entries = absl::node_hash_map<IpAddr, Entry>;

  Entry& Make(const IpAddr& ip, const IpoibAddress& owner);
  void Remove(Entries::iterator entry);
  void RemoveWaste();
  void Join(const IpAddr& ip, const IpoibAddress& owner, Entry* entry);
  void Leave(Entry* entry);
  void Touch(Entry* entry);
  bool IsFresh(const Entry& entry) const;
  void SetTimer(const IpAddr& ip, absl::Time when, Entry* entry);
  void SetState(const IpAddr& ip, NeighborState state, Entry* entry);
  void Queue(absl::Span<const uint8_t> packet, Entry* entry);
  void DeliverTo(const IpAddr& ip, absl::Span<const uint8_t> packet, Entry* entry);
  void SendSolicitation(const IpAddr& ip, Entry* entry);
  void Update(const IpAddr& ip, const IpoibAddress& address, NeighborState state, Entry* entry);
  void RunTimer(const IpAddr& ip);
  void Retransmit(Entries::iterator entry);
  void GiveUp(Entries::iterator entry);
  Neighbor Describe(const IpAddr& ip, const Entry& entry) const;

  const Options options_;
  const Clock* const clock_;
  Link* const link_;
  Entries entries_;
  absl::node_hash_map<IpoibAddress, Owner> owners_;
  std::vector<IpoibAddress> ranked_;  // owners by their number in ranking_
  std::vector<uint32_t> free_ranks_;
  CountRanking ranking_;  // owners by their number of entries
  std::set<std::pair<absl::Time, IpAddr>> timers_;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_NEIGHBOR_CACHE_H_
