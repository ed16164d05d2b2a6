#include "control/subnet/path_resolver.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/log.h"

namespace eoib {
namespace {

// Delay before a failed path query is repeated.
constexpr absl::Duration kRetryDelay = absl::Seconds(5);
// Least time between two queries for one path that frames caused.
constexpr absl::Duration kQueryInterval = absl::Seconds(1);

}  // namespace

PathResolver::PathResolver(const Source& source, AddressHandles* handles, VPortDirectory* directory,
                           const Clock* clock, const Gid& own, PKey pkey,
                           std::function<void()> published)
    : sa_(source.sa),
      source_(source),
      handles_(handles),
      directory_(directory),
      clock_(clock),
      own_(own),
      pkey_(pkey),
      published_(std::move(published)),
      log_(clock, 10, absl::Seconds(6)) {}

PathResolver::~PathResolver() {
  for (auto& [gid, path] : paths_) handles_->Put(path.ah);
}

void PathResolver::SetOwn(const Gid& own, PKey pkey) {
  own_ = own;
  pkey_ = pkey;
}

void PathResolver::OnPunt(const Punt& punt) {
  const bool heard = punt.kind == Punt::Kind::kNewPeer || punt.kind == Punt::Kind::kReaddressed;
  // The paths to all addresses of the vPort, or only to the one that was heard.
  absl::flat_hash_set<Gid> gids;
  for (const VPortAddress& address : directory_->Addresses(punt.vport)) {
    if (!heard || address.peer.gid == punt.peer.gid) gids.insert(address.peer.gid);
  }
  for (const Gid& gid : gids) Resolve(gid, punt);
}

void PathResolver::Resolve(const Gid& gid, const Punt& punt) {
  if (paths_.size() >= kMaxPaths && !paths_.contains(gid)) return;
  Path& path = paths_[gid];
  path.out_of_service = false;
  path.punted_at = clock_->Now();
  if (std::find(path.vports.begin(), path.vports.end(), punt.vport) == path.vports.end())
    path.vports.push_back(punt.vport);
  if (punt.kind != Punt::Kind::kUnresolved && punt.slid.IsValid()) {
    AdoptHeard(punt, &path);
  } else if (!path.ah.IsNone()) {
    PublishToVPorts(gid, &path);  // a further queue pair at a port with a known path
    published_();
  }
  QueryForPunt(gid);
}

// A record of the SA stays while the SA answers; the query that follows finds a new LID of the
// port. Without a record, a completion with another LID means that the peer has moved, and
// `moved_seq` makes us ignore a pending answer, which may be older than the move. An old path would
// stay, since the worker does not report the same address twice.
void PathResolver::AdoptHeard(const Punt& punt, Path* path) {
  const PathKey key = {punt.peer.gid, punt.slid.value(), punt.sl};
  if (path->recorded && !path->silent) {
    if (!MayHave(key.dgid, *path, punt.slid)) Suspect(key.dgid, {punt.slid, punt.sl}, path);
    PublishToVPorts(key.dgid, path);
  } else if (path->ah.IsNone() || path->key != key) {
    if (!path->ah.IsNone()) path->moved_seq = ++sequence_;
    UsePath(key, {});
  } else {
    PublishToVPorts(key.dgid, path);
  }
  published_();
}

bool PathResolver::IsTrusted(const Gid& gid, Lid slid, Sl sl) {
  const auto path = paths_.find(gid);
  if (path == paths_.end() || MayHave(gid, path->second, slid)) return true;
  ++counters_.distrusted_messages;
  Suspect(gid, {slid, sl}, &path->second);
  QueryForPunt(gid);
  return false;
}

// Whether nothing is known that speaks against the LID. A GID of another subnet comes from the LID
// of a router.
bool PathResolver::MayHave(const Gid& gid, const Path& path, Lid lid) const {
  if (!path.recorded || path.silent || !lid.IsValid() || lid == Lid(path.key.dlid) ||
      gid.prefix() != own_.prefix())
    return true;
  return std::any_of(path.verdicts.begin(), path.verdicts.end(), [lid](const Verdict& verdict) {
    return verdict.lid == lid && !verdict.refused;
  });
}

// Keeps the first LID and not the last one, so that a sender with many LIDs does not hide those of
// the port. Queries at once, though perhaps the path has just been queried: if the port has moved,
// frames for it are lost until the answer is here.
void PathResolver::Suspect(const Gid& gid, const Heard& heard, Path* path) {
  const absl::Time now = clock_->Now();
  ++counters_.other_lids;
  std::erase_if(path->verdicts, [since = now - kRefusedFor](const Verdict& verdict) {
    return verdict.refused && verdict.at < since;
  });
  const bool refused =
      std::any_of(path->verdicts.begin(), path->verdicts.end(),
                  [&heard](const Verdict& verdict) { return verdict.lid == heard.lid; });
  if (refused || path->heard.lid.IsValid()) return;
  path->heard = heard;
  if (path->suspicions.Take(now)) Query(gid);
}

void PathResolver::RefreshAll() {
  if (paths_.size() > kFewPaths && sa_ != nullptr) return QueryTable();
  std::vector<Gid> gids;
  for (const auto& [gid, path] : paths_) gids.push_back(gid);
  for (const Gid& gid : gids) Query(gid);
}

void PathResolver::OnInService(const Gid& gid) {
  const auto path = paths_.find(gid);
  if (path == paths_.end()) return;
  path->second.out_of_service = false;
  Query(gid);
}

void PathResolver::OnOutOfService(const Gid& gid) {
  const auto path = paths_.find(gid);
  if (path == paths_.end()) return;
  path->second.out_of_service = true;
  path->second.retry_at = absl::InfiniteFuture();
}

bool PathResolver::HasVPort(const Gid& gid, const Path& path) const {
  return std::any_of(path.vports.begin(), path.vports.end(), [&](VPortId vport) {
    const std::vector<VPortAddress> addresses = directory_->Addresses(vport);
    return std::any_of(addresses.begin(), addresses.end(),
                       [&gid](const auto& address) { return address.peer.gid == gid; });
  });
}

void PathResolver::Reclaim() {
  absl::erase_if(paths_, [this, since = clock_->Now() - kIdleTime](const auto& entry) {
    const Path& path = entry.second;
    if (path.request.pending() || path.punted_at > since || HasVPort(entry.first, path))
      return false;
    handles_->Put(path.ah);
    return true;
  });
}

void PathResolver::Run() {
  const absl::Time now = clock_->Now();
  std::vector<Gid> due;
  for (const auto& [gid, path] : paths_) {
    if (std::min(path.retry_at, path.query_at) <= now) due.push_back(gid);
  }
  for (const Gid& gid : due) Query(gid);
  for (auto& [gid, path] : paths_) {
    if (path.answer_due <= now) OnSilence(gid, &path);
  }
}

absl::Time PathResolver::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [gid, path] : paths_)
    next = std::min({next, path.retry_at, path.query_at, path.answer_due});
  return next;
}

void PathResolver::QueryForPunt(const Gid& gid) {
  Path& path = paths_.at(gid);
  // On Ethernet the handle does not depend on an answer.
  if (sa_ == nullptr && !path.ah.IsNone()) return;
  if (clock_->Now() < path.queried_at + kQueryInterval) {
    path.query_at = path.queried_at + kQueryInterval;
  } else {
    Query(gid);
  }
}

void PathResolver::Query(const Gid& gid) {
  Path& path = paths_.at(gid);
  path.retry_at = path.query_at = absl::InfiniteFuture();
  path.query_again = path.request.pending();
  if (path.query_again) return;
  path.queried_seq = ++sequence_;
  path.queried_at = clock_->Now();
  if (sa_ == nullptr) return MakeHandle(gid);
  path.answer_due = clock_->Now() + kPatience;
  sa_->QueryPath(own_, gid, pkey_,
                 path.request.Await([this, gid](const absl::StatusOr<PathRecord>& answer) {
                   OnRecord(gid, answer);
                 }));
}

void PathResolver::MakeHandle(const Gid& gid) {
  source_.maker->Make({gid, 0, source_.sl}, source_.attributes,
                      paths_.at(gid).request.Await(
                          [this, gid](const absl::StatusOr<AhIndex>& ah) { OnHandle(gid, ah); },
                          [handles = handles_](const absl::StatusOr<AhIndex>& ah) {
                            if (ah.ok()) handles->Put(*ah);
                          }));
}

void PathResolver::OnHandle(const Gid& gid, const absl::StatusOr<AhIndex>& ah) {
  Path& path = paths_.at(gid);
  if (ah.ok()) {
    path.backoff.Reset();
    ReplaceHandle({gid, 0, source_.sl}, *ah);
    published_();
  } else {
    path.retry_at = clock_->Now() + path.backoff.Pause();
    if (log_.Allow()) LogWarning(ah.status().message());
  }
  if (path.query_again) Query(gid);  // the reason to query again may be newer than this answer
}

// Whether an address handle can be made from the record. It is input from the wire.
absl::Status PathResolver::CheckRecord(const PathRecord& record) {
  if (!record.dlid.IsValid()) {
    return absl::InternalError(absl::StrCat("the path's record has LID ", record.dlid.ToString(),
                                            ", which is not a unicast LID"));
  }
  if (record.rate != 0 && !IsRateCode(record.rate)) {
    return absl::InternalError(
        absl::StrCat("the path's record has the invalid rate code ", record.rate));
  }
  return absl::OkStatus();
}

void PathResolver::OnRecord(const Gid& gid, const absl::StatusOr<PathRecord>& answer) {
  Path& path = paths_.at(gid);
  path.answer_due = absl::InfiniteFuture();
  path.silent = absl::IsDeadlineExceeded(answer.status());
  if (path.silent) OnSilence(gid, &path);
  // This answer may be older than the reason to query again.
  if (path.query_again) return Query(gid);
  // The peer was heard elsewhere since; `query_at` is set. Once only: a forger is heard elsewhere
  // again and again.
  if (path.moved_seq > path.queried_seq && !std::exchange(path.overtaken, true)) return;
  const absl::Status status = answer.ok() ? CheckRecord(*answer) : answer.status();
  if (!status.ok()) {
    if (!path.out_of_service) path.retry_at = clock_->Now() + kRetryDelay;
    // Keep a path from a completion: it works. The queue that holds frames for a path counts them
    // if they are dropped.
    if (log_.Allow())
      LogWarning(absl::StrCat("resolve path to ", gid.ToString(), ": ", status.message()));
    return;
  }
  AdoptRecord(*answer);
  published_();
  VerifyHeard(gid);
}

// Asks the SA whether the LID that was heard is a further one of the port (LMC), unless its record
// has the LID.
void PathResolver::VerifyHeard(const Gid& gid) {
  Path& path = paths_.at(gid);
  const Lid lid = std::exchange(path.heard, Heard()).lid;
  if (path.request.pending() || MayHave(gid, path, lid)) return;
  path.answer_due = clock_->Now() + kPatience;
  sa_->QueryPathAt(own_, gid, lid, pkey_,
                   path.request.Await([this, gid, lid](const absl::StatusOr<PathRecord>& answer) {
                     OnVerified(gid, lid, answer.status());
                   }));
}

// Only the answer that there is no such path refuses the LID: an SA that does not support the query
// must cut off no port.
void PathResolver::OnVerified(const Gid& gid, Lid lid, const absl::Status& status) {
  Path& path = paths_.at(gid);
  path.answer_due = absl::InfiniteFuture();
  path.silent = absl::IsDeadlineExceeded(status);
  if (!path.silent) {
    const bool refused = absl::IsNotFound(status);
    if (path.verdicts.size() >= kMaxLids) path.verdicts.erase(path.verdicts.begin());
    path.verdicts.push_back({lid, refused, clock_->Now()});
    counters_.refused_lids += refused;
    if (refused && log_.Allow()) {
      LogWarning(
          absl::StrCat("datagrams of GID ", gid.ToString(), " come from LID ", lid.ToString(),
                       ", which the subnet administrator does not know as a LID of this port: "
                       "another port may use the ",
                       "GID. Messages from there are dropped; look for the port with this LID"));
    }
  }
  if (path.query_again) Query(gid);
}

// Takes the path from a completion, as if there had been no record. A late answer may be older than
// the completion.
void PathResolver::OnSilence(const Gid& gid, Path* path) {
  path->silent = true;
  path->answer_due = absl::InfiniteFuture();
  const Heard heard = std::exchange(path->heard, Heard());
  if (!heard.lid.IsValid()) return;
  path->query_again = path->request.pending();
  UsePath({gid, heard.lid.value(), heard.sl}, {});
  published_();
}

// One query for all paths. Pending single queries are repeated, since their answers may be older
// than the event.
void PathResolver::QueryTable() {
  for (auto& [gid, path] : paths_) path.query_again |= path.request.pending();
  query_table_again_ = table_request_.pending();
  if (query_table_again_) return;
  table_seq_ = ++sequence_;
  sa_->QueryPaths(
      own_, pkey_,
      table_request_.Await(
          [this](const absl::StatusOr<std::vector<PathRecord>>& answer) { OnTable(answer); }));
}

// Queries the paths that the table lacks one by one, or all of them if the query for the table
// failed.
void PathResolver::OnTable(const absl::StatusOr<std::vector<PathRecord>>& answer) {
  if (std::exchange(query_table_again_, false)) return QueryTable();
  absl::flat_hash_set<Gid> lacking;
  for (const auto& [gid, path] : paths_) lacking.insert(gid);
  if (answer.ok()) {
    // Take the first of several paths to a port (LMC). Query a path that was heard at another LID
    // meanwhile again, unless a newer query is pending.
    for (const PathRecord& record : *answer) {
      const auto found = paths_.find(record.dgid);
      if (found == paths_.end() || !CheckRecord(record).ok()) continue;
      const Path& path = found->second;
      const bool overtaken = path.moved_seq > table_seq_ || path.heard.lid.IsValid();
      const bool queried = path.request.pending() && path.queried_seq > table_seq_;
      if ((overtaken && !queried) || lacking.erase(record.dgid) == 0 || overtaken) continue;
      AdoptRecord(record);
      VerifyHeard(record.dgid);
    }
    published_();
  } else {
    LogWarning(absl::StrCat(answer.status().message(), "; querying them one by one"));
  }
  for (const Gid& gid : lacking) Query(gid);
}

void PathResolver::AdoptRecord(const PathRecord& record) {
  Path& path = paths_.at(record.dgid);
  const PathKey key = {record.dgid, record.dlid.value(), record.sl};
  path.retry_at = absl::InfiniteFuture();
  path.silent = path.overtaken = false;
  if (path.recorded && path.key.dlid != key.dlid) path.verdicts.clear();
  // The peer was heard at another LID before the SA answered. Verify it now: its next message may
  // come from there, too.
  if (!path.recorded && !path.ah.IsNone() && path.key.dlid != key.dlid)
    path.heard = {Lid(path.key.dlid), path.key.sl};
  UsePath(key, {record.traffic_class, record.hop_limit, record.flow_label, record.rate});
  path.rate = record.rate;
  path.mtu = record.mtu;
  path.recorded = path.key == key;
}

// A hop limit above 1 means that the path crosses routers, which need the GRH (IBA 1.4 §8.3.6).
void PathResolver::UsePath(const PathKey& key, PathAttributes attributes) {
  attributes.grh = source_.grh || attributes.hop_limit > 1;
  const absl::StatusOr<AhIndex> ah = handles_->Get(key, attributes);
  if (!ah.ok()) {
    if (log_.Allow())
      LogWarning(absl::StrCat("make an address handle for ", key.dgid.ToString(), ": ",
                              ah.status().message()));
    return;
  }
  ReplaceHandle(key, *ah);
}

void PathResolver::ReplaceHandle(const PathKey& key, AhIndex ah) {
  Path& path = paths_.at(key.dgid);
  const AhIndex before = path.ah;
  path.ah = ah;
  path.key = key;
  path.rate = path.mtu = 0;
  path.recorded = false;
  PublishToVPorts(key.dgid, &path);
  handles_->Put(before);  // after publishing, so that workers no longer pick it up
}

const char* PathResolver::StateOf(const Path& path) {
  if (path.out_of_service) return "out of service";
  if (!path.ah.IsNone()) return "up";
  return path.request.pending() ? "asked" : "no answer";
}

std::vector<PathResolver::Row> PathResolver::Dump() const {
  std::vector<Row> rows;
  for (const auto& [gid, path] : paths_) {
    rows.push_back({.gid = gid,
                    .lid = Lid(path.key.dlid),
                    .sl = path.key.sl,
                    .rate = path.rate,
                    .mtu = path.mtu,
                    .state = StateOf(path),
                    .asked = clock_->Now() - path.queried_at,
                    .vport = path.vports.empty() ? VPortId::None() : path.vports.front()});
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.gid < b.gid; });
  return rows;
}

// Also drops the vPorts that no longer have this GID.
void PathResolver::PublishToVPorts(const Gid& gid, Path* path) {
  const auto is_elsewhere = [&](VPortId vport) {
    return !directory_->SetPath(vport, gid, path->ah, Lid(path->key.dlid));
  };
  std::erase_if(path->vports, is_elsewhere);
}

}  // namespace eoib
