// PathResolver: resolves peers (GID, QPN) to address handles, and keeps the handles up to date.
//
// All queue pairs at a GID share one path. The first work completion from a new peer, reversed,
// gives a path at once (IBA 1.4 §11.2.2.5), so new peers work while the SM is down. The SA's
// PathRecord replaces that path if it differs. A path in use may be replaced, but is never removed.
// On an Ethernet link layer the GID is the whole path.
//
// Privileged software may forge the source GID of a datagram, but the fabric delivers what we send
// to the LID of the SA's record. So while the SA answers, no completion replaces its record. A
// completion from another LID makes the resolver query the path again, which finds a new LID of the
// port. If the record stays, it asks the SA whether the LID is a further one of the port (LMC), and
// otherwise distrusts it (IsTrusted). If the SA is silent for kPatience, completions count again.
//
// Threads: the control thread. Workers see its results in the VPortDirectory.
//
// Invariants: a path holds one use of its address handle, and gives it back only after the
// directory has the next one, so that workers no longer pick it up. An answer counts if the peer
// was not heard elsewhere after the query (moved_seq). All that
// others can fill is bounded: paths, remembered LIDs, queries in a second.
#ifndef EOIB_CONTROL_SUBNET_PATH_RESOLVER_H_
#define EOIB_CONTROL_SUBNET_PATH_RESOLVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/backoff.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/counters.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/base/request_handle.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/fabric/address_handles.h"
#include "vswitch/fabric/handle_maker.h"
#include "vswitch/fabric/sa_client.h"
#include "vswitch/forwarder/control_queues.h"

namespace eoib {

#define EOIB_PATH_COUNTERS(X)                                                                      \
  X(other_lids,                                                                                    \
    "new peers, LID changes and messages with another source LID than the subnet administrator's " \
    "path record")                                                                                 \
  X(refused_lids,                                                                                  \
    "source LIDs that the subnet administrator did not confirm: another port uses the source GID") \
  X(distrusted_messages, "messages dropped because of their source LID")

class PathResolver {
 public:
  // RefreshAll queries more paths than this as one table.
  static constexpr size_t kFewPaths = 8;
  // Reclaim keeps a path without vPorts for this long after its last punt.
  static constexpr absl::Duration kIdleTime = absl::Minutes(2);
  // The SA counts as silent if it does not answer within this time: after the first retry of the
  // query.
  static constexpr absl::Duration kPatience = absl::Milliseconds(500);
  // A LID that the SA has refused is not asked for again within this time.
  static constexpr absl::Duration kRefusedFor = absl::Seconds(10);
  // As many changes of its LID a port may make at once, and is followed without delay.
  static constexpr int kSuspicions = 8;
  // The LIDs remembered for each port: as many as the largest LMC, 7, gives a port.
  static constexpr size_t kMaxLids = 128;
  // Half of all address handles, so that a peer that pretends to be many ports in one VES leaves
  // handles for the others.
  static constexpr size_t kMaxPaths = AddressHandles::kMax / 2;

  // Where paths come from: on InfiniBand the SA; on an Ethernet link layer a maker, with one SL and
  // attributes for all paths.
  struct Source {
    SaClient* sa = nullptr;
    HandleMaker* maker = nullptr;
    Sl sl;
    PathAttributes attributes;
    bool grh = true;  // send a GRH on paths within the subnet, too
  };
  // All pointers, including those in `source`, outlive the object. `own` is this port's GID, `pkey`
  // the VES's. Calls `published` after publishing handles.
  PathResolver(const Source& source, AddressHandles* handles, VPortDirectory* directory,
               const Clock* clock, const Gid& own, PKey pkey, std::function<void()> published);
  ~PathResolver();

  // This port's GID or its membership changed; RefreshAll follows.
  void SetOwn(const Gid& own, PKey pkey);

  // A punt of kind kNewPeer, kReaddressed or kUnresolved; the last one queries the paths to all
  // addresses of an aggregate. Queries for one port are limited to one a second, so that a peer
  // that makes up peers cannot load the SA through us. Another one a second, in a burst
  // kSuspicions, follows datagrams from other LIDs.
  void OnPunt(const Punt& punt);
  // Whether a message that came from LID `slid` may be of the port `gid`. False if the SA's record
  // has another LID, and the SA has not confirmed this one: then asks the SA, and the sender has to
  // repeat the message. True for routed GIDs, which come from a router's LID, on an Ethernet link
  // layer, and while no record is known or the SA is silent.
  bool IsTrusted(const Gid& gid, Lid slid, Sl sl);
  // LIDs or the SM changed: queries every path again, failed ones included.
  void RefreshAll();
  // Trap 64 or 65: a port is in service, or out of service. Ignored for ports without a path.
  void OnInService(const Gid& gid);
  void OnOutOfService(const Gid& gid);
  // Drops paths that no vPort has any more and no punt has used for kIdleTime. Otherwise made-up
  // ports would fill the table of address handles and be queried for ever. Call it after the
  // directory has reclaimed its vPorts.
  void Reclaim();
  // Repeats the queries that are due.
  void Run();

  // A path, for the operator.
  struct Row {
    Gid gid;
    Lid lid;
    Sl sl;
    // IBA codes of the path's record; 0: the path is known from a completion or the GID only.
    uint8_t rate = 0, mtu = 0;
    const char* state = "";  // "up", "asked", "no answer", "out of service"
    absl::Duration asked;    // since the last query; infinite: never
    VPortId vport;           // one of those at the port; None if there is none any more
  };
  std::vector<Row> Dump() const;  // by GID

  struct Counters {
    EOIB_COUNTERS(Counters, uint64_t, EOIB_PATH_COUNTERS)
  };
  const Counters& counters() const { return counters_; }

  absl::Time NextDeadline() const;

 private:
  // From a completion; none if the LID is not valid.
  struct Heard {
    Lid lid;
    Sl sl;
  };
  struct Verdict {
    Lid lid;
    bool refused;
    absl::Time at;
  };
  struct Path {
    std::vector<VPortId> vports;  // of the peers at this GID
    PathKey key;                  // `ah` was made from it
    uint8_t rate = 0, mtu = 0;    // of the record that `ah` was made from
    AhIndex ah = AhIndex::None();
    RequestHandle request;
    bool query_again = false;  // query again when the pending answer has come
    // Out of service: do not retry until trap 64 or a frame from there.
    bool out_of_service = false;
    absl::Time retry_at = absl::InfiniteFuture();  // after a failed query
    absl::Time punted_at = absl::InfinitePast();
    absl::Time queried_at = absl::InfinitePast();
    // A punt came within kQueryInterval of the last query.
    absl::Time query_at = absl::InfiniteFuture();
    // Values of sequence_: last heard at another LID, last queried.
    uint64_t moved_seq = 0, queried_seq = 0;
    // On Ethernet: after the kernel found no neighbour.
    Backoff backoff{absl::Seconds(1), absl::Minutes(1)};
    bool recorded = false;  // `ah` was made from a record of the SA
    bool silent = false;    // the SA did not answer the last query in time
    // The last answer was ignored, since the peer was heard elsewhere meanwhile.
    bool overtaken = false;
    absl::Time answer_due = absl::InfiniteFuture();  // when the SA counts as silent
    // Limits queries because of datagrams from other LIDs.
    TokenBucket suspicions{1, kSuspicions, absl::UnixEpoch()};
    // A source that the record lacks and the SA is still to be asked for.
    Heard heard;
    std::vector<Verdict> verdicts;  // of the SA, on LIDs that the record lacks; the oldest first
  };

  bool HasVPort(const Gid& gid, const Path& path) const;
  static const char* StateOf(const Path& path);
  void Resolve(const Gid& gid, const Punt& punt);
  void QueryForPunt(const Gid& gid);
  void Query(const Gid& gid);
  // On an Ethernet link layer: has the maker make the handle.
  void MakeHandle(const Gid& gid);
  void OnHandle(const Gid& gid, const absl::StatusOr<AhIndex>& ah);
  void OnRecord(const Gid& gid, const absl::StatusOr<PathRecord>& answer);
  void QueryTable();
  void OnTable(const absl::StatusOr<std::vector<PathRecord>>& answer);
  static absl::Status CheckRecord(const PathRecord& record);
  void AdoptRecord(const PathRecord& record);
  // Takes the path from the completion that the punt reports, unless it is the known one or the
  // SA's record holds.
  void AdoptHeard(const Punt& punt, Path* path);
  bool MayHave(const Gid& gid, const Path& path, Lid lid) const;
  // A datagram came from a LID for which MayHave is false. Call QueryForPunt afterwards.
  void Suspect(const Gid& gid, const Heard& heard, Path* path);
  void VerifyHeard(const Gid& gid);
  void OnVerified(const Gid& gid, Lid lid, const absl::Status& status);
  void OnSilence(const Gid& gid, Path* path);
  // Gets a handle for the path and publishes it.
  void UsePath(const PathKey& key, PathAttributes attributes);
  void ReplaceHandle(const PathKey& key, AhIndex ah);
  void PublishToVPorts(const Gid& gid, Path* path);

  SaClient* const sa_;  // null on an Ethernet link layer
  const Source source_;
  AddressHandles* const handles_;
  VPortDirectory* const directory_;
  const Clock* const clock_;
  Gid own_;
  PKey pkey_;
  const std::function<void()> published_;
  absl::flat_hash_map<Gid, Path> paths_;
  RequestHandle table_request_;
  bool query_table_again_ = false;
  uint64_t sequence_ = 0;  // orders queries and moves, without a clock
  uint64_t table_seq_ = 0;
  LogLimiter log_;
  Counters counters_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_SUBNET_PATH_RESOLVER_H_
