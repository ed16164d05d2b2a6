// Peers: the interfaces that a Channel hears and sends to. It identifies the sender of each
// datagram, keeps the vPort of each peer in the directory, and requests its path from the Link. One
// thread: the channel's.
#ifndef EOIB_GATEWAY_LINK_PEERS_H_
#define EOIB_GATEWAY_LINK_PEERS_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/vport_directory.h"
#include "gateway/link/link_queues.h"
#include "gateway/link/source_table.h"
#include "vswitch/base/clock.h"
#include "vswitch/fabric/ud_endpoint.h"

namespace eoib::ipoib {

class Peers {
 public:
  using Requests = QueueProducer<LinkRequest, LinkRequestQueue>;
  // Peers in the cache. A full cache is cleared, so that invented source addresses cannot make it
  // grow.
  static constexpr size_t kMostKnown = 65536;

  // The pointers outlive it.
  Peers(VPortDirectory* directory, Requests* requests, const Clock* clock)
      : directory_(directory), requests_(requests), clock_(clock), sources_(clock) {}

  // The sender of a datagram, which is noted as heard; absent if it is not known.
  absl::optional<IpoibAddress> OnDatagram(const Datagram& datagram, IpoibType type,
                                          absl::Span<const uint8_t> payload);
  // The vPort of a peer to send to; None if the directory is full.
  VPortId VPortOf(const IpoibAddress& address);
  // Packets wait for the path to a peer, which has a vPort.
  void RequestPath(const IpoibAddress& address);
  // LIDs may have changed.
  void ForgetSources() { sources_.Clear(); }

 private:
  // A peer's vPort in one generation of the directory, and what control has been told of the peer,
  // as in a PeerTracker. The latter holds for all generations, as paths do.
  struct Peer {
    VPortId vport;
    uint64_t generation = 0;
    Lid slid;                                        // the source LID that control was last told
    absl::Time told = absl::InfinitePast();          // when control was told
    absl::Time requested_at = absl::InfinitePast();  // when a path was requested
  };

  absl::optional<SourceTable::Source> Identify(const Datagram& datagram, IpoibType type,
                                               absl::Span<const uint8_t> payload);
  Peer* Find(const IpoibAddress& address, bool* created);
  void NotePath(const Datagram& datagram, const IpoibAddress& address, bool created, Peer* peer);
  void RequestPath(const IpoibAddress& address, Peer* peer);
  bool PuntToLink(Punt::Kind kind, const Peer& peer, const IpoibAddress& address, Lid slid, Sl sl);

  VPortDirectory* const directory_;
  Requests* const requests_;
  const Clock* const clock_;
  SourceTable sources_;
  absl::flat_hash_map<IpoibAddress, Peer> peers_;
};

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_LINK_PEERS_H_
