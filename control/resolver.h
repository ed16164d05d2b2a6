// Resolver: turns a peer (GID, QPN) into an address handle, and keeps it right.
//
// A new peer is answered at once: the work completion of its first datagram, reversed, is a path back (IBA 1.4 §11.2.2.5). The
// PathRecord that the SA gives later replaces it if it differs. So new peers work with the SM gone. A path that nobody knows
// yet (the frame's peer was never heard) waits for its PathRecord.
//
// Control thread only. Publishes through the VPortDirectory.
#ifndef EOIB_CONTROL_RESOLVER_H_
#define EOIB_CONTROL_RESOLVER_H_

#include <functional>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "control/log.h"
#include "fdb/clock.h"
#include "fdb/vport_directory.h"
#include "vswitch/control_queues.h"
#include "vswitch/fabric/address_handles.h"
#include "vswitch/fabric/sa_client.h"

namespace eoib {

class Resolver {
 public:
  struct Counters {
    uint64_t from_completions = 0, from_records = 0, queries = 0, failures = 0;
  };
  // `sa` may be null (RoCE: the GID is all there is to know). `own` is this port's GID, `pkey` the VES's. `published` is called
  // after a handle was published.
  Resolver(SaClient* sa, AddressHandles* handles, VPortDirectory* directory, const Clock* clock, const Gid& own, PKey pkey,
           std::function<void()> published);
  ~Resolver();

  // A punt of kind kNewPeer, kReaddressed or kUnresolved.
  void OnPunt(const Punt& punt);
  // Asks for every peer's path again: LIDs or the SM changed.
  void RefreshAll();
  // Asks again where there was no answer.
  void Run();
  absl::Time NextDeadline() const;

  const Counters& counters() const { return counters_; }

 private:
  struct Peer {
    AhIndex ah = AhIndex::None();
    bool asking = false;
    bool again = false;                            // asked for once more while an answer was under way
    absl::Time retry_at = absl::InfiniteFuture();  // the last question had no answer
  };

  void Query(VPortId vport);
  void Answered(VPortId vport, const Gid& gid, const absl::StatusOr<PathRecord>& answer);
  void Publish(VPortId vport, const PathKey& key, const PathAttributes& attributes);

  SaClient* const sa_;
  AddressHandles* const handles_;
  VPortDirectory* const directory_;
  const Clock* const clock_;
  const Gid own_;
  const PKey pkey_;
  const std::function<void()> published_;
  absl::flat_hash_map<VPortId, Peer> peers_;
  Counters counters_;
  LogLimiter log_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace eoib

#endif  // EOIB_CONTROL_RESOLVER_H_
