// Lookups, learning, flushing and the operator's queries. Ageing and eviction are in fdb_room.cc.
#include "fdb/fdb.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/check.h"

namespace eoib {
namespace {

using Kind = FdbEvent::Kind;
using Scope = FdbEvent::Scope;
using Verdict = MoveDamper::Verdict;

constexpr bool IsLearned(FdbOrigin origin) { return origin == FdbOrigin::kRemoteLearned || origin == FdbOrigin::kLocalLearned; }
constexpr bool IsFixed(FdbOrigin origin) { return origin == FdbOrigin::kStatic || origin == FdbOrigin::kManager; }

constexpr bool IsLocal(FdbOrigin origin) { return origin == FdbOrigin::kLocalLearned; }

// Among learned entries the newest wins, otherwise the stronger origin.
constexpr bool Displaces(FdbOrigin newer, FdbOrigin older) { return (IsLearned(newer) && IsLearned(older)) || newer >= older; }

constexpr CohortKind KindOf(const MacEntry& entry) {
  if (IsFixed(entry.origin)) return CohortKind::kFixed;
  return entry.pinned ? CohortKind::kPinned : CohortKind::kDynamic;
}

// Ticks are compared modulo 2^16. The rest of the range is for entries that have aged out and are not reclaimed yet.
constexpr int64_t kMostAgeingTicks = 28'800;

// Rounds up: an ageing time above zero must not become zero, which means "never".
int64_t CeilSeconds(absl::Duration duration) {
  constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
  return std::clamp<int64_t>(absl::ToInt64Seconds(absl::Ceil(duration, absl::Seconds(1))), 0, kMax);
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One second, or more if the ageing time would take too many ticks. Without ageing, ticks only serve to show ages, so a minute
// will do.
uint32_t TickSeconds(absl::Duration ageing) {
  constexpr uint32_t kMinute = 60;
  const int64_t seconds = CeilSeconds(ageing);
  return seconds == 0 ? kMinute : static_cast<uint32_t>(CeilDivide(seconds, kMostAgeingTicks));
}

uint16_t AgeingTicks(absl::Duration ageing) {
  const int64_t seconds = CeilSeconds(ageing);
  return seconds == 0 ? AgeLimit::kNever : static_cast<uint16_t>(CeilDivide(seconds, TickSeconds(ageing)));
}

// Refused frames of pinned MACs that become events, each second.
constexpr int kRefusalsTold = 10;

bool IsNobodysSource(MacAddr mac) { return mac.IsGroup() || mac.IsZero(); }

std::string Attempt(absl::string_view what, FdbKey key) {
  return absl::StrCat(what, " entry for ", key.mac().ToString(), " in VLAN ", key.vid().ToString(), ": ");
}

absl::string_view NameOf(FdbOrigin origin) { return origin == FdbOrigin::kStatic ? "static" : "manager's"; }

}  // namespace

Fdb::Fdb(const Options& options, const Clock* clock)
    : options_(options),
      tick_seconds_(TickSeconds(options.ageing)),
      ageing_ticks_(AgeingTicks(options.ageing)),
      clock_(clock),
      cohorts_(&table_),
      damper_(options.damping, options.gid_of),
      aged_(clock->Now()),
      refusals_told_(kRefusalsTold, kRefusalsTold, clock->Now()) {
  if (options_.budget != nullptr) options_.budget->Add(this);
}

Fdb::~Fdb() {
  if (options_.budget == nullptr) return;
  options_.budget->Remove(this);
  absl::MutexLock lock(&writer_);
  options_.budget->Took(-static_cast<int64_t>(budgeted_));
}

void Fdb::SetVPortPolicy(VPortId vport, const VPortPolicy& policy) {
  absl::MutexLock lock(&writer_);
  // Entries that exist keep what they have: the policy is for new ones.
  policies_.insert_or_assign(vport, policy);
}

// Both times are whole ticks, so an entry lives up to one tick longer than the ageing time, never shorter.
uint16_t Fdb::TickOf(absl::Time time) const { return static_cast<uint16_t>(absl::ToUnixSeconds(time) / tick_seconds_); }

// Each change reads the clock once.
void Fdb::Begin() {
  now_ = clock_->Now();
  tick_ = TickOf(now_);
}

void Fdb::Find(absl::Span<const FdbKey> keys, absl::Span<VPortId> out) const { table_.Find(keys, Limit(), out); }

size_t Fdb::Refresh(absl::Span<const FdbKey> keys, absl::Span<const VPortId> vports, absl::Span<uint16_t> stale) const {
  return table_.Touch(keys, vports, TickOf(clock_->Now()), stale);
}

// ---- An entry and what is kept of it ----------------------------------------------------------------------------------

Fdb::Known Fdb::Look(FdbKey key) const {
  Known known;
  known.in_table = table_.Get(key, &known.entry);
  if (!known.in_table) return known;
  known.vport = cohorts_.VPortOf(known.entry.cohort);
  known.live = !known.vport.IsNone() && IsLive(known.entry, Limit(tick_));
  return known;
}

// Writes `entry`, behind `vport`, over the known one. False if there is no memory.
bool Fdb::Write(FdbKey key, const Known& known, VPortId vport, MacEntry entry) {
  const absl::optional<CohortId> cohort = cohorts_.For(vport, key.vid(), KindOf(entry));
  if (!cohort.has_value()) return false;
  entry.cohort = *cohort;
  if (!table_.Put(key, entry)) return false;
  if (!known.in_table || known.entry.cohort != *cohort) {
    cohorts_.Joined(*cohort, key);
    if (known.in_table) cohorts_.Left(known.entry.cohort);
  }
  if (entry.origin != FdbOrigin::kAnnounced) claims_.erase(key);
  // The damper must not keep a freeze for an entry that is no longer pinned.
  if (known.in_table && known.entry.pinned && !entry.pinned) damper_.Thaw(key);
  Publish();
  return true;
}

void Fdb::Erase(FdbKey key, const MacEntry& entry) {
  table_.Erase(key);
  Leave(key, entry);
  Publish();
}

// Drops what is kept beside the entry, which has left the table or is about to.
void Fdb::Leave(FdbKey key, const MacEntry& entry) {
  cohorts_.Left(entry.cohort);
  if (entry.origin == FdbOrigin::kAnnounced) claims_.erase(key);
  if (entry.pinned) damper_.Thaw(key);
}

// Erases an entry that is no longer live: it was forgotten, or it aged out and was not reclaimed yet.
void Fdb::Reclaim(FdbKey key, const Known& known) {
  if (!known.vport.IsNone()) CountAged(key, known.vport);
  Erase(key, known.entry);
}

void Fdb::CountAged(FdbKey key, VPortId vport) {
  ++counters_.aged;
  Tell(Kind::kAged, key, vport, VPortId::None());
}

void Fdb::Publish() {
  const size_t live = cohorts_.live();
  size_.store(live, std::memory_order_relaxed);
  largest_.store(cohorts_.Largest().dynamic, std::memory_order_relaxed);
  if (options_.budget == nullptr || live == budgeted_) return;
  options_.budget->Took(static_cast<int64_t>(live) - static_cast<int64_t>(budgeted_));
  budgeted_ = live;
}

void Fdb::Tell(Kind kind, FdbKey key, VPortId from, VPortId to) {
  FdbEvent event;
  event.nanoseconds = static_cast<uint64_t>(absl::ToUnixNanos(now_));
  event.key = key;
  event.from = from;
  event.to = to;
  event.kind = kind;
  events_.load(std::memory_order_relaxed)->Write(event);
}

void Fdb::Watch() {
  if (&events() != &recent_events_) return;
  auto larger = std::make_unique<FdbEvents>(kWatchedEvents);  // allocated before the lock: frames of new sources wait for it
  absl::MutexLock lock(&writer_);
  if (watched_events_ != nullptr) return;
  larger->GoOnFrom(recent_events_);
  watched_events_ = std::move(larger);
  events_.store(watched_events_.get(), std::memory_order_release);
}

// ---- Learning ---------------------------------------------------------------------------------------------------------

Fdb::LearnResult Fdb::Learn(FdbKey key, VPortId vport, FdbOrigin origin) {
  if (IsNobodysSource(key.mac())) return {Learned::kGroup, VPortId::None()};
  return MakingRoom(vport, [=, this](bool host_tried, Room* room) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_) {
    return LearnOnce(key, vport, origin, host_tried, room);
  });
}

Fdb::LearnResult Fdb::MakingRoom(VPortId vport, Try attempt) {
  size_t own = 0;
  {
    absl::MutexLock lock(&writer_);
    Room room = Room::kThere;
    const LearnResult result = attempt(/*host_tried=*/false, &room);
    if (room != Room::kHostSpent) return result;
    own = ShareOf(vport);
  }
  // The FDB of another VES may have to give up the entry, and no thread locks two FDBs at once.
  options_.budget->MakeRoom(own + 2);
  absl::MutexLock lock(&writer_);
  Room room = Room::kThere;
  return attempt(/*host_tried=*/true, &room);
}

Fdb::LearnResult Fdb::LearnOnce(FdbKey key, VPortId vport, FdbOrigin origin, bool host_tried, Room* room) {
  Begin();
  const Known known = Look(key);
  if (known.live) return LearnOver(key, known, vport, origin);
  if (known.in_table) Reclaim(key, known);
  *room = MakeRoom(vport, host_tried);
  if (*room == Room::kHostSpent) return {Learned::kLimit, VPortId::None()};
  if (*room == Room::kNone || !Write(key, Known(), vport, NewEntry(vport, origin))) {
    ++counters_.learn_limited;
    return {Learned::kLimit, VPortId::None()};
  }
  ++counters_.learned;
  Tell(Kind::kLearned, key, VPortId::None(), vport);
  return {Learned::kNew, VPortId::None()};
}

MacEntry Fdb::NewEntry(VPortId vport, FdbOrigin origin) const {
  MacEntry entry;
  entry.last_seen = tick_;
  entry.origin = origin;
  const auto policy = policies_.find(vport);
  entry.pinned = origin == FdbOrigin::kLocalLearned && policy != policies_.end() && policy->second.sticky;
  return entry;
}

Fdb::LearnResult Fdb::LearnOver(FdbKey key, const Known& known, VPortId vport, FdbOrigin origin) {
  const bool same = known.vport == vport;
  if (known.entry.pinned) {
    if (same) return {Learned::kKnown, VPortId::None()};
    // A freeze must not keep a station away from its own port.
    if (origin != FdbOrigin::kLocalLearned || !ThawLocked(key)) return Refuse(key, known, vport);
    return Move(key, Look(key), vport, origin);
  }
  if (!Displaces(origin, known.entry.origin)) {
    if (same) return {Learned::kKnown, VPortId::None()};
    ++counters_.overruled;
    return {Learned::kOverruled, known.vport};
  }
  if (!same) return Move(key, known, vport, origin);
  Write(key, known, vport, NewEntry(vport, origin));
  return {Learned::kKnown, VPortId::None()};
}

// Moves inside a host are ordinary (its own bridges and guests) and are not counted. A move without room is neither made nor
// counted.
Fdb::LearnResult Fdb::Move(FdbKey key, const Known& known, VPortId vport, FdbOrigin origin) {
  if (!MakeRoomAt(vport)) {
    ++counters_.learn_limited;
    return {Learned::kLimit, VPortId::None()};
  }
  Damped damped = Damped::kNo;
  if (IsLearned(known.entry.origin) && !(IsLocal(origin) && IsLocal(known.entry.origin))) {
    const MoveDamper::Judgement judged =
        damper_.OnMove(key, {known.vport, IsLocal(known.entry.origin)}, {vport, IsLocal(origin)}, now_);
    const bool freezes = judged.verdict == Verdict::kFreeze;
    if ((freezes || judged.verdict == Verdict::kHold) && HoldAtHome(key, known, vport, judged)) {
      return {Learned::kPinned, known.vport, freezes ? Damped::kFrozen : Damped::kFlapping};
    }
    if (judged.verdict != Verdict::kMove) {
      damped = Damped::kFlapping;
      ++counters_.flapping;
      Tell(Kind::kFlapping, key, known.vport, vport);
    }
  }
  if (!Write(key, known, vport, NewEntry(vport, origin))) {
    ++counters_.learn_limited;
    return {Learned::kLimit, VPortId::None()};
  }
  ++counters_.moved;
  Tell(Kind::kMoved, key, known.vport, vport);
  return {Learned::kMoved, known.vport, damped};
}

// Moves `key` to its home, unless it is there already, and pins it if it freezes. False if there is no room or no memory.
bool Fdb::HoldAtHome(FdbKey key, const Known& known, VPortId claimant, const MoveDamper::Judgement& judged) {
  const VPortId home = judged.home.vport;
  const bool was_there = known.vport == home;
  MacEntry entry = known.entry;
  if (!was_there) entry = NewEntry(home, judged.home.local ? FdbOrigin::kLocalLearned : FdbOrigin::kRemoteLearned);
  entry.pinned |= judged.verdict == Verdict::kFreeze;
  if ((!was_there && !MakeRoomAt(home)) || !Write(key, known, home, entry)) {
    damper_.Thaw(key);
    return false;
  }
  TellHeld(key, known.vport, claimant, judged);
  return true;
}

void Fdb::TellHeld(FdbKey key, VPortId from, VPortId claimant, const MoveDamper::Judgement& judged) {
  const VPortId home = judged.home.vport;
  if (from != home) {
    ++counters_.moved;
    Tell(Kind::kMoved, key, from, home);
  }
  if (judged.verdict == Verdict::kFreeze) {
    ++counters_.froze;
    Tell(Kind::kFrozen, key, home, damper_.frozen().at(key).claimant);
  } else {
    ++counters_.flapping;
    if (refusals_told_.Take(now_)) Tell(Kind::kFlapping, key, from, claimant);
  }
}

Fdb::LearnResult Fdb::Refuse(FdbKey key, const Known& known, VPortId vport) {
  ++(damper_.IsFrozen(key) ? counters_.frozen_refused : counters_.sticky_refused);
  if (refusals_told_.Take(now_)) Tell(Kind::kRefused, key, known.vport, vport);
  return {Learned::kPinned, known.vport};
}

void Fdb::ForgiveMove(FdbKey key) {
  absl::MutexLock lock(&writer_);
  Begin();
  damper_.Forgive(key);
  ThawLocked(key);
}

bool Fdb::Thaw(FdbKey key) {
  absl::MutexLock lock(&writer_);
  Begin();
  return ThawLocked(key);
}

bool Fdb::ThawLocked(FdbKey key) {
  if (!damper_.Thaw(key)) return false;
  const Known known = Look(key);
  if (!known.live || !known.entry.pinned) return true;  // it was flushed meanwhile
  MacEntry entry = known.entry;
  entry.pinned = false;
  entry.last_seen = tick_;
  Write(key, known, known.vport, entry);
  ++counters_.thawed;
  Tell(Kind::kThawed, key, known.vport, VPortId::None());
  return true;
}

// ---- Announced, static and the manager's ------------------------------------------------------------------------------

Fdb::LearnResult Fdb::Announce(FdbKey key, VPortId vport, const Claim& claim) {
  if (IsNobodysSource(key.mac())) return {Learned::kGroup, VPortId::None()};
  return MakingRoom(vport, [=, this](bool host_tried, Room* room) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_) {
    return AnnounceOnce(key, vport, claim, host_tried, room);
  });
}

Fdb::LearnResult Fdb::AnnounceOnce(FdbKey key, VPortId vport, const Claim& claim, bool host_tried, Room* room) {
  Begin();
  Known known = Look(key);
  const bool same = known.vport == vport;
  if (known.live) {
    const bool announced = known.entry.origin == FdbOrigin::kAnnounced;
    if (known.entry.pinned || !Displaces(FdbOrigin::kAnnounced, known.entry.origin) ||
        (announced && !same && !Beats(key, claim))) {
      if (same) return {Learned::kKnown, VPortId::None()};
      ++counters_.announce_refused;
      return {known.entry.pinned ? Learned::kPinned : Learned::kOverruled, known.vport};
    }
    if (announced && same && claims_[key].sequence > claim.sequence) return {Learned::kKnown, VPortId::None()};
  } else {
    if (known.in_table) Reclaim(key, known);
    known = Known();
    *room = MakeRoom(vport, host_tried);
    if (*room == Room::kHostSpent) return {Learned::kLimit, VPortId::None()};
  }
  // An entry that stays at its vPort takes no more room.
  const bool has_room = known.live ? same || MakeRoomAt(vport) : *room == Room::kThere;
  if (!has_room || !Write(key, known, vport, NewEntry(vport, FdbOrigin::kAnnounced))) {
    ++counters_.learn_limited;
    return {Learned::kLimit, VPortId::None()};
  }
  claims_[key] = claim;
  if (known.live && same) return {Learned::kKnown, VPortId::None()};
  Tell(Kind::kAnnounced, key, known.vport, vport);
  ++(known.live ? counters_.moved : counters_.announced);
  return known.live ? LearnResult{Learned::kMoved, known.vport} : LearnResult{Learned::kNew, VPortId::None()};
}

// The higher sequence number wins; on a tie the lower address, so that all agents decide alike.
bool Fdb::Beats(FdbKey key, const Claim& claim) const {
  const auto former = claims_.find(key);
  if (former == claims_.end() || claim.sequence != former->second.sequence) {
    return former == claims_.end() || claim.sequence > former->second.sequence;
  }
  return claim.by < former->second.by;
}

bool Fdb::Withdraw(FdbKey key, VPortId vport) {
  absl::MutexLock lock(&writer_);
  Begin();
  const Known known = Look(key);
  if (!known.in_table || known.entry.origin != FdbOrigin::kAnnounced || known.vport != vport) return false;
  Erase(key, known.entry);
  CountFlushed(1, Scope::kEntry, key, vport);
  return true;
}

absl::Status Fdb::AddFixed(FdbKey key, VPortId vport, FdbOrigin origin) {
  const std::string attempt = Attempt(absl::StrCat("add ", NameOf(origin)), key);
  if (IsNobodysSource(key.mac())) {
    return absl::InvalidArgumentError(absl::StrCat(attempt, "a group or zero address is behind no vPort"));
  }
  absl::MutexLock lock(&writer_);
  Begin();
  Known known = Look(key);
  if (known.in_table && !known.live) {
    Reclaim(key, known);
    known = Known();
  }
  if (known.live && known.entry.origin == FdbOrigin::kStatic && (origin != FdbOrigin::kStatic || known.vport != vport)) {
    return absl::AlreadyExistsError(
        absl::StrCat(attempt, known.vport != vport ? "another vPort has a static one" : "it is static", "; remove that first"));
  }
  if (!Write(key, known, vport, NewEntry(vport, origin))) {
    return absl::ResourceExhaustedError(absl::StrCat(attempt, "no room for it in the table"));
  }
  Tell(Kind::kFixed, key, known.vport, vport);
  return absl::OkStatus();
}

absl::Status Fdb::RemoveFixed(FdbKey key, FdbOrigin origin) {
  absl::MutexLock lock(&writer_);
  Begin();
  const Known known = Look(key);
  if (!known.live || known.entry.origin != origin) {
    return absl::NotFoundError(absl::StrCat(Attempt(absl::StrCat("remove ", NameOf(origin)), key), "there is none"));
  }
  Erase(key, known.entry);
  Tell(Kind::kUnfixed, key, known.vport, VPortId::None());
  return absl::OkStatus();
}

// ---- Forgetting -------------------------------------------------------------------------------------------------------

void Fdb::CountFlushed(size_t count, Scope scope, FdbKey key, VPortId vport) {
  counters_.flushed += count;
  Publish();
  if (count == 0) return;
  FdbEvent event;
  event.nanoseconds = static_cast<uint64_t>(absl::ToUnixNanos(now_));
  event.key = key;
  event.from = vport;
  event.count = static_cast<uint32_t>(std::min<size_t>(count, std::numeric_limits<uint32_t>::max()));
  event.kind = Kind::kFlushed;
  event.scope = scope;
  events_.load(std::memory_order_relaxed)->Write(event);
}

size_t Fdb::Flush() {
  absl::MutexLock lock(&writer_);
  Begin();
  const size_t flushed = cohorts_.ForgetAll({CohortKind::kDynamic});
  CountFlushed(flushed, Scope::kAll, FdbKey(), VPortId::None());
  return flushed;
}

size_t Fdb::FlushVlan(Vid vid) {
  absl::MutexLock lock(&writer_);
  Begin();
  const size_t flushed = cohorts_.ForgetVlan(vid, {CohortKind::kDynamic});
  CountFlushed(flushed, Scope::kVlan, FdbKey(vid, MacAddr()), VPortId::None());
  return flushed;
}

size_t Fdb::FlushLearned(VPortId vport) { return FlushOf(vport, {CohortKind::kDynamic}); }
size_t Fdb::FlushSticky(VPortId vport) { return FlushOf(vport, {CohortKind::kPinned}); }
size_t Fdb::FlushVPort(VPortId vport) {
  return FlushOf(vport, {CohortKind::kDynamic, CohortKind::kPinned, CohortKind::kFixed});
}

size_t Fdb::FlushOf(VPortId vport, Cohorts::Kinds kinds) {
  absl::MutexLock lock(&writer_);
  Begin();
  // A MAC must not be taken back to a vPort that was just flushed.
  damper_.ForgetHome(vport);
  const size_t flushed = cohorts_.ForgetVPort(vport, kinds);
  CountFlushed(flushed, Scope::kVPort, FdbKey(), vport);
  return flushed;
}

// ---- For the operator -------------------------------------------------------------------------------------------------

void Fdb::Visit(absl::FunctionRef<void(const Entry&)> visit) const {
  const AgeLimit limit = Limit();
  const auto show = [&](FdbKey key, const MacEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_) {
    const VPortId vport = cohorts_.VPortOf(entry.cohort);
    if (vport.IsNone() || !IsLive(entry, limit)) return;
    // A worker may have refreshed the entry after `limit.now` was read, which would make its age negative.
    const int age = entry.Ages() ? std::max<int>(static_cast<int16_t>(limit.now - entry.last_seen), 0) : 0;
    const bool frozen = entry.pinned && damper_.IsFrozen(key);
    visit({key, vport, entry.origin, absl::Seconds(int64_t{age} * tick_seconds_), entry.pinned && !frozen, frozen});
  };
  MacTable::Cursor cursor = 0;
  for (bool more = true; more;) {
    absl::MutexLock lock(&writer_);
    more = table_.VisitNext(&cursor, kBucketsAtATime, show);
  }
}

std::vector<Fdb::Entry> Fdb::Dump(absl::optional<FdbKey> after, size_t most) const {
  const auto before = [](const Entry& a, const Entry& b) { return a.key < b.key; };
  std::vector<Entry> rows;  // once it has `most` rows: a heap with the last row on top
  Visit([&](const Entry& entry) {
    if (after.has_value() && !(*after < entry.key)) return;
    if (rows.size() < most) {
      rows.push_back(entry);
      if (rows.size() == most) std::make_heap(rows.begin(), rows.end(), before);
    } else if (most != 0 && before(entry, rows.front())) {
      std::pop_heap(rows.begin(), rows.end(), before);
      rows.back() = entry;
      std::push_heap(rows.begin(), rows.end(), before);
    }
  });
  std::sort(rows.begin(), rows.end(), before);
  return rows;
}

std::vector<Fdb::Holding> Fdb::Holdings() const {
  std::vector<Holding> rows;
  {
    absl::MutexLock lock(&writer_);
    cohorts_.VisitHolders([&](VPortId vport, const Cohorts::Counts& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_) {
      rows.push_back({vport, held[static_cast<size_t>(CohortKind::kDynamic)], held[static_cast<size_t>(CohortKind::kPinned)],
                      held[static_cast<size_t>(CohortKind::kFixed)], std::min(LimitOf(vport), options_.limit)});
    });
  }
  std::sort(rows.begin(), rows.end(), [](const Holding& a, const Holding& b) {
    return std::make_pair(b.dynamic, a.vport) < std::make_pair(a.dynamic, b.vport);
  });
  return rows;
}

size_t Fdb::Held(VPortId vport) const {
  absl::MutexLock lock(&writer_);
  return cohorts_.Held(vport);
}

absl::flat_hash_map<FdbKey, MoveDamper::Frozen> Fdb::frozen() const {
  absl::MutexLock lock(&writer_);
  return damper_.frozen();
}

absl::flat_hash_set<VPortId> Fdb::DampedVPorts() const {
  absl::flat_hash_set<VPortId> vports;
  absl::MutexLock lock(&writer_);
  damper_.VisitVPorts(clock_->Now(), [&vports](VPortId vport) { vports.insert(vport); });
  return vports;
}

FdbCounters Fdb::counters() const {
  absl::MutexLock lock(&writer_);
  return counters_;
}

}  // namespace eoib
