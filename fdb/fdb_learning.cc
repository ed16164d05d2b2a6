#include "fdb/fdb_learning.h"

namespace eoib {
namespace {

using Kind = FdbEvent::Kind;
using Verdict = MoveDamper::Verdict;

// Refused frames of pinned MACs that become events, each second.
constexpr int kRefusalEventsPerSecond = 10;

}  // namespace

FdbLearning::FdbLearning(FdbEntries* entries, FdbEviction* eviction, absl::Time now)
    : entries_(entries),
      eviction_(eviction),
      refusal_events_(kRefusalEventsPerSecond, kRefusalEventsPerSecond, now) {}

FdbLearnResult FdbLearning::Learn(FdbKey key, VPortId vport, FdbOrigin origin) {
  const Known known = entries_->Look(key);
  if (known.live) return LearnOver(key, known, vport, origin);
  return AddNew(key, known, vport, entries_->NewEntry(vport, origin));
}

FdbLearnResult FdbLearning::Restore(FdbKey key, VPortId vport, FdbOrigin origin, uint16_t seen) {
  const Known known = entries_->Look(key);
  if (known.live) return {FdbLearned::kKnown};
  MacEntry entry = entries_->NewEntry(vport, origin);
  entry.last_seen = seen;
  return AddNew(key, known, vport, entry);
}

// In place of none, or of one that is no longer live.
FdbLearnResult FdbLearning::AddNew(FdbKey key, const Known& known, VPortId vport,
                                   const MacEntry& entry) {
  if (known.in_table) entries_->Reclaim(key, known);
  if (!eviction_->MakeRoom(vport) || !entries_->Write(key, Known(), vport, entry)) {
    ++entries_->counters().learn_limited;
    return {FdbLearned::kLimit};
  }
  ++entries_->counters().learned;
  entries_->AddEvent(Kind::kLearned, key, VPortId::None(), vport);
  return {FdbLearned::kNew};
}

FdbLearnResult FdbLearning::LearnOver(FdbKey key, const Known& known, VPortId vport,
                                      FdbOrigin origin) {
  const bool same = known.vport == vport;
  if (known.entry.pinned) {
    if (same) return {FdbLearned::kKnown};
    // A freeze must not keep a station away from its own port.
    if (!IsLocal(origin) || !Thaw(key)) return Refuse(key, known, vport);
    return Move(key, entries_->Look(key), vport, origin);
  }
  if (same && !IsLearned(known.entry.origin)) return {FdbLearned::kKnown};
  if (!MovesTo(origin, known.entry.origin)) {
    ++entries_->counters().overruled;
    return {FdbLearned::kOverruled, known.vport, FdbDamped::kNo,
            known.entry.origin == FdbOrigin::kStatic};
  }
  if (!same) return Move(key, known, vport, origin);
  entries_->Write(key, known, vport, entries_->NewEntry(vport, origin));
  return {FdbLearned::kKnown};
}

// Moves inside a host are ordinary (its own bridges and guests) and are not counted. A move without
// room is neither made nor counted.
FdbLearnResult FdbLearning::Move(FdbKey key, const Known& known, VPortId vport, FdbOrigin origin) {
  if (!eviction_->MakeRoomAt(vport)) {
    ++entries_->counters().learn_limited;
    return {FdbLearned::kLimit};
  }
  FdbDamped damped = FdbDamped::kNo;
  if (!(IsLocal(origin) && IsLocal(known.entry.origin))) {
    const MoveDamper::Judgement judged = entries_->damper().OnMove(
        key, {known.vport, IsLocal(known.entry.origin)}, {vport, IsLocal(origin)}, entries_->now());
    const bool freezes = judged.verdict == Verdict::kFreeze;
    if ((freezes || judged.verdict == Verdict::kHold) && HoldAtHome(key, known, vport, judged)) {
      return {FdbLearned::kPinned, known.vport,
              freezes ? FdbDamped::kFrozen : FdbDamped::kFlapping};
    }
    if (judged.verdict != Verdict::kMove) {
      damped = FdbDamped::kFlapping;
      ++entries_->counters().flapping;
      entries_->AddEvent(Kind::kFlapping, key, known.vport, vport);
    }
  }
  if (!entries_->Write(key, known, vport, entries_->NewEntry(vport, origin))) {
    ++entries_->counters().learn_limited;
    return {FdbLearned::kLimit};
  }
  ++entries_->counters().moved;
  entries_->AddEvent(Kind::kMoved, key, known.vport, vport);
  return {FdbLearned::kMoved, known.vport, damped};
}

// Moves `key` to its home, unless it is there already, and pins it if it freezes. False if there is
// no room or no memory.
bool FdbLearning::HoldAtHome(FdbKey key, const Known& known, VPortId claimant,
                             const MoveDamper::Judgement& judged) {
  const VPortId home = judged.home.vport;
  const bool was_there = known.vport == home;
  MacEntry entry = known.entry;
  if (!was_there) {
    entry = entries_->NewEntry(
        home, judged.home.local ? FdbOrigin::kLocalLearned : FdbOrigin::kRemoteLearned);
  }
  entry.pinned |= judged.verdict == Verdict::kFreeze;
  if ((!was_there && !eviction_->MakeRoomAt(home)) || !entries_->Write(key, known, home, entry)) {
    entries_->damper().Thaw(key);
    return false;
  }
  ReportHeld(key, known.vport, claimant, judged);
  return true;
}

void FdbLearning::ReportHeld(FdbKey key, VPortId from, VPortId claimant,
                             const MoveDamper::Judgement& judged) {
  const VPortId home = judged.home.vport;
  if (from != home) {
    ++entries_->counters().moved;
    entries_->AddEvent(Kind::kMoved, key, from, home);
  }
  if (judged.verdict == Verdict::kFreeze) {
    ++entries_->counters().froze;
    entries_->AddEvent(Kind::kFrozen, key, home, entries_->damper().frozen().at(key).claimant);
  } else {
    ++entries_->counters().flapping;
    if (refusal_events_.Take(entries_->now()))
      entries_->AddEvent(Kind::kFlapping, key, from, claimant);
  }
}

FdbLearnResult FdbLearning::Refuse(FdbKey key, const Known& known, VPortId vport) {
  FdbCounters& counters = entries_->counters();
  ++(entries_->damper().IsFrozen(key) ? counters.frozen_refused : counters.sticky_refused);
  if (refusal_events_.Take(entries_->now()))
    entries_->AddEvent(Kind::kRefused, key, known.vport, vport);
  return {FdbLearned::kPinned, known.vport};
}

bool FdbLearning::Thaw(FdbKey key) {
  if (!entries_->damper().Thaw(key)) return false;
  const Known known = entries_->Look(key);
  if (!known.live || !known.entry.pinned) return true;  // it was flushed meanwhile
  // It counts as heard now, so that it does not age out at once.
  MacEntry entry = entries_->NewEntry(known.vport, known.entry.origin);
  entry.pinned = false;
  entries_->Write(key, known, known.vport, entry);
  ++entries_->counters().thawed;
  entries_->AddEvent(Kind::kThawed, key, known.vport, VPortId::None());
  return true;
}

}  // namespace eoib
