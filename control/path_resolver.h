// PathResolver: resolves peers (GID, QPN) to address handles, and keeps the handles up to date.
//
// All queue pairs at a GID share one path. The first work completion from a new peer, reversed, gives a path at once (IBA 1.4
// §11.2.2.5), so new peers work while the SM is down. The SA's PathRecord replaces that path if it differs. A path in use may
// be replaced, but is never removed. On an Ethernet link layer the GID is the whole path.
//
// Control thread. Publishes through the VPortDirectory.
#ifndef EOIB_CONTROL_PATH_RESOLVER_H_
#define EOIB_CONTROL_PATH_RESOLVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "control/daemon/log.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/clock.h"
#include "vswitch/control_queues.h"
#include "vswitch/fabric/address_handles.h"
#include "vswitch/fabric/handle_maker.h"
#include "vswitch/fabric/sa_client.h"

namespace eoib {

class PathResolver {
 public:
  // RefreshAll queries more paths than this as one table.
  static constexpr size_t kFewPaths = 8;
  // Reclaim keeps a path without vPorts for this long after its last punt.
  static constexpr absl::Duration kIdleTime = absl::Minutes(2);
  // Half of all address handles, so that a peer that pretends to be many ports in one VES leaves handles for the others.
  static constexpr size_t kMaxPaths = AddressHandles::kMax / 2;

  // Where paths come from: on InfiniBand the SA; on an Ethernet link layer a maker, with one SL and attributes for all paths.
  struct Source {
    SaClient* sa = nullptr;
    HandleMaker* maker = nullptr;
    Sl sl;
    PathAttributes attributes;
    bool grh = true;  // send a GRH on paths within the subnet, too
  };
  // All pointers, including those in `source`, outlive the object. `own` is this port's GID, `pkey` the VES's. Calls
  // `published` after publishing handles.
  PathResolver(const Source& source, AddressHandles* handles, VPortDirectory* directory, const Clock* clock, const Gid& own,
               PKey pkey, std::function<void()> published);
  ~PathResolver();

  // This port's GID or its membership changed; RefreshAll follows.
  void SetOwn(const Gid& own, PKey pkey);

  // A punt of kind kNewPeer, kReaddressed or kUnresolved; the last one queries the paths to all addresses of an aggregate.
  // Queries for one port are limited to one a second, so that a peer that makes up peers cannot load the SA through us.
  void OnPunt(const Punt& punt);
  // LIDs or the SM changed: queries every path again, failed ones included.
  void RefreshAll();
  // Trap 64 or 65: a port is in service, or out of service. Ignored for ports without a path.
  void OnInService(const Gid& gid);
  void OnOutOfService(const Gid& gid);
  // Drops paths that no vPort has any more and no punt has used for kIdleTime. Otherwise made-up ports would fill the table of
  // address handles and be queried for ever. Call it after the directory has reclaimed its vPorts.
  void Reclaim();
  // Repeats the queries that are due.
  void Run();

  // A path, for the operator.
  struct Row {
    Gid gid;
    Lid lid;
    Sl sl;
    uint8_t rate = 0, mtu = 0;  // IBA codes of the path's record; 0: the path is known from a completion or the GID only
    const char* state = "";     // "up", "asked", "no answer", "out of service"
    absl::Duration asked;       // since the last query; infinite: never
    VPortId vport;              // one of those at the port; None if there is none any more
  };
  std::vector<Row> Dump() const;  // by GID

  absl::Time NextDeadline() const;

 private:
  struct Path {
    std::vector<VPortId> vports;  // of the peers at this GID
    PathKey key;                  // `ah` was made from it
    uint8_t rate = 0, mtu = 0;    // of the record that `ah` was made from
    AhIndex ah = AhIndex::None();
    bool pending = false;
    bool query_again = false;                      // query again when the pending answer has come
    bool out_of_service = false;                   // out of service: do not retry until trap 64 or a frame from there
    absl::Time retry_at = absl::InfiniteFuture();  // after a failed query
    absl::Time punted_at = absl::InfinitePast();
    absl::Time queried_at = absl::InfinitePast();
    absl::Time query_at = absl::InfiniteFuture();  // a punt came within kQueryInterval of the last query
    uint64_t moved_seq = 0, queried_seq = 0;       // values of sequence_: last heard at another LID, last queried
    int failures = 0;                              // consecutive; Ethernet only
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
  // Takes the path from the completion that the punt reports, unless it is the known one.
  void AdoptHeard(const Punt& punt, Path* path);
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
  bool table_pending_ = false;
  bool query_table_again_ = false;
  uint64_t sequence_ = 0;  // orders queries and moves, without a clock
  uint64_t table_seq_ = 0;
  LogLimiter log_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PATH_RESOLVER_H_
