#include "fdb/fdb_assignment.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

using Kind = FdbEvent::Kind;

std::string Attempt(absl::string_view verb, FdbKey key) {
  return absl::StrCat(verb, " static entry for ", key.mac().ToString(), " in VLAN ",
                      key.vid().ToString(), ": ");
}

}  // namespace

FdbLearnResult FdbAssignment::Assign(FdbKey key, VPortId vport, FdbOrigin origin) {
  const FdbEntries::Known known = entries_->Look(key);
  if (known.live) return AssignOver(key, known, vport, origin);
  if (known.in_table) entries_->Reclaim(key, known);
  if (!eviction_->MakeRoom(vport) ||
      !entries_->Write(key, FdbEntries::Known(), vport, entries_->NewEntry(vport, origin))) {
    ++entries_->counters().learn_limited;
    return {FdbLearned::kLimit};
  }
  ++entries_->counters().announced;
  entries_->AddEvent(Kind::kAnnounced, key, VPortId::None(), vport);
  return {FdbLearned::kNew};
}

// A freeze ends, because an announcement decides the quarrel that led to it. A sticky entry stays.
FdbLearnResult FdbAssignment::AssignOver(FdbKey key, const FdbEntries::Known& known, VPortId vport,
                                         FdbOrigin origin) {
  const bool same = known.vport == vport;
  const bool sticky = known.entry.pinned && !entries_->damper().IsFrozen(key);
  if (sticky || known.entry.origin == FdbOrigin::kStatic) {
    if (same) return {FdbLearned::kKnown};
    ++entries_->counters().announce_refused;
    return {sticky ? FdbLearned::kPinned : FdbLearned::kOverruled, known.vport};
  }
  MacEntry entry = entries_->NewEntry(vport, origin);
  // The station was not heard.
  if (same && known.entry.Ages()) entry.last_seen = known.entry.last_seen;
  // An entry that stays at its vPort takes no more room.
  if ((!same && !eviction_->MakeRoomAt(vport)) || !entries_->Write(key, known, vport, entry)) {
    ++entries_->counters().learn_limited;
    return {FdbLearned::kLimit};
  }
  if (same) return {FdbLearned::kKnown};
  ++entries_->counters().moved;
  entries_->AddEvent(Kind::kAnnounced, key, known.vport, vport);
  return {FdbLearned::kMoved, known.vport};
}

bool FdbAssignment::Withdraw(FdbKey key) {
  const FdbEntries::Known known = entries_->Look(key);
  if (!known.live || known.entry.origin != FdbOrigin::kAnnounced) return false;
  entries_->Erase(key, known.entry);
  entries_->ReportFlushed(1, FdbEvent::Scope::kEntry, key, known.vport);
  return true;
}

absl::Status FdbAssignment::AddStatic(FdbKey key, VPortId vport) {
  const std::string attempt = Attempt("add", key);
  if (!IsValidSource(key.mac())) {
    return absl::InvalidArgumentError(
        absl::StrCat(attempt, "a group or zero address is behind no vPort"));
  }
  FdbEntries::Known known = entries_->Look(key);
  if (known.in_table && !known.live) {
    entries_->Reclaim(key, known);
    known = {};
  }
  if (known.live && known.entry.origin == FdbOrigin::kStatic && known.vport != vport) {
    return absl::AlreadyExistsError(
        absl::StrCat(attempt, "another vPort has a static one; remove that first"));
  }
  if (!entries_->Write(key, known, vport, entries_->NewEntry(vport, FdbOrigin::kStatic))) {
    return absl::ResourceExhaustedError(absl::StrCat(attempt, "no room for it in the table"));
  }
  entries_->AddEvent(Kind::kFixed, key, known.vport, vport);
  return absl::OkStatus();
}

absl::Status FdbAssignment::RemoveStatic(FdbKey key) {
  const FdbEntries::Known known = entries_->Look(key);
  if (!known.live || known.entry.origin != FdbOrigin::kStatic) {
    return absl::NotFoundError(absl::StrCat(Attempt("remove", key), "there is none"));
  }
  entries_->Erase(key, known.entry);
  entries_->AddEvent(Kind::kUnfixed, key, known.vport, VPortId::None());
  return absl::OkStatus();
}

}  // namespace eoib
