// Resolver: turns a peer (GID, QPN) into an address handle, and keeps it right.
//
// A path leads to a port, so there is one for each GID, however many queue pairs are behind it. A new peer is answered at once:
// the work completion of its first datagram, reversed, is a path back (IBA 1.4 §11.2.2.5). The PathRecord that the SA gives
// later replaces it if it differs, unless it was asked for before the peer was heard from elsewhere. So new peers work with the
// SM gone. A path that nobody knows yet (the frame's peer was never heard) waits for its PathRecord. What is in use is replaced
// by something better, never taken away.
//
// On an Ethernet link layer there is no SA, and nothing to ask it for: a GID is all there is to a path, and the kernel finds
// the MAC of its port while the handle is made, which may take a second and is not waited for here.
//
// Control thread only. Publishes through the VPortDirectory.
#ifndef EOIB_CONTROL_RESOLVER_H_
#define EOIB_CONTROL_RESOLVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "control/log.h"
#include "fdb/clock.h"
#include "fdb/vport_directory.h"
#include "vswitch/control_queues.h"
#include "vswitch/fabric/address_handles.h"
#include "vswitch/fabric/handle_maker.h"
#include "vswitch/fabric/sa_client.h"

namespace eoib {

class Resolver {
 public:
  // More paths than this are asked for as one table.
  static constexpr size_t kHandful = 8;
  static constexpr absl::Duration kIdle = absl::Minutes(2);
  // Ports that a path is kept to; half of the handles that there are, so that others get theirs whoever invents ports here.
  static constexpr size_t kMaxPaths = AddressHandles::kMax / 2;

  struct Counters {
    uint64_t from_completions = 0, from_records = 0, queries = 0, tables = 0, failures = 0;
  };
  // Where paths come from. On InfiniBand there is an SA, on an Ethernet link layer a maker, and what all paths have in common.
  struct Source {
    SaClient* sa = nullptr;
    HandleMaker* maker = nullptr;
    Sl sl;
    PathAttributes attributes;
    bool grh = true;  // also on paths that stay within the subnet
  };
  // What `source` points to outlives the object, and so do the others. `own` is this port's GID, `pkey` the VES's. `published`
  // is called after handles were published.
  Resolver(const Source& source, AddressHandles* handles, VPortDirectory* directory, const Clock* clock, const Gid& own,
           PKey pkey, std::function<void()> published);
  ~Resolver();

  // This port has another GID, or its membership changed; RefreshAll follows.
  void SetOwn(const Gid& own, PKey pkey);

  // A punt of kind kNewPeer, kReaddressed or kUnresolved; the last one asks for the ways to all addresses of an aggregate, and
  // so does control when it has learned of one. However many come, a port is asked for once a second at most: whoever invents
  // peers must not press the SA through us.
  void OnPunt(const Punt& punt);
  // Asks for every peer's path again, those that failed too: LIDs or the SM changed.
  void RefreshAll();
  // The subnet says that a port is there (again), or is not. Of ports without peers nothing is noted.
  void OnInService(const Gid& gid);
  void OnOutOfService(const Gid& gid);
  // Forgets the paths that nobody has asked for in kIdle and that no vPort has any more: whoever invents ports must not fill
  // the table of address handles, or have us ask for them for ever. Call it when the directory has reclaimed its vPorts.
  void Reclaim();
  // Asks again where there was no answer.
  void Run();
  absl::Time NextDeadline() const;

  const Counters& counters() const { return counters_; }

 private:
  struct Path {
    std::vector<VPortId> vports;  // of the peers at the GID
    PathKey key;                  // what `ah` was made from
    AhIndex ah = AhIndex::None();
    bool asking = false;
    bool again = false;                            // asked for once more while an answer was under way
    bool gone = false;                             // out of service: no use asking until somebody hears of it
    absl::Time retry_at = absl::InfiniteFuture();  // the last question had no answer
    absl::Time punted_at = absl::InfinitePast();
    absl::Time asked_at = absl::InfinitePast();
    absl::Time again_at = absl::InfiniteFuture();  // a punt came too soon after that
    uint64_t moved = 0, asked = 0;                 // when it was last heard from elsewhere, and asked for, by steps_
    int failures = 0;                              // one after the other; Ethernet only
  };

  bool IsOfAVPort(const Gid& gid, const Path& path) const;
  void Resolve(const Gid& gid, const Punt& punt);
  void QueryForPunt(const Gid& gid);
  void Query(const Gid& gid);
  void Make(const Gid& gid);
  void Made(const Gid& gid, const absl::StatusOr<AhIndex>& ah);
  void Answered(const Gid& gid, const absl::StatusOr<PathRecord>& answer);
  void QueryTable();
  void AnsweredTable(const absl::StatusOr<std::vector<PathRecord>>& answer);
  static absl::Status Check(const PathRecord& record);
  void Adopt(const PathRecord& record);
  void Heard(const Punt& punt, Path* path);
  void Publish(const PathKey& key, PathAttributes attributes);
  void Replace(const PathKey& key, AhIndex ah);
  void PublishTo(const Gid& gid, Path* path);

  SaClient* const sa_;  // null on an Ethernet link layer
  const Source source_;
  AddressHandles* const handles_;
  VPortDirectory* const directory_;
  const Clock* const clock_;
  Gid own_;
  PKey pkey_;
  const std::function<void()> published_;
  absl::flat_hash_map<Gid, Path> paths_;
  bool asking_table_ = false;
  bool table_again_ = false;
  uint64_t steps_ = 0;  // counts what answers are older or younger than
  uint64_t table_asked_ = 0;
  Counters counters_;
  LogLimiter log_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace eoib

#endif  // EOIB_CONTROL_RESOLVER_H_
