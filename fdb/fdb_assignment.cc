#include "fdb/fdb_assignment.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

using Kind = FdbEvent::Kind;

std::string Attempt(absl::string_view verb, FdbKey key) {
  return absl::StrCat(verb, " static entry for ", key.mac().ToString(), " in VLAN ", key.vid().ToString(), ": ");
}

}  // namespace

FdbLearnResult FdbAssignment::Announce(FdbKey key, VPortId vport, const FdbClaim& claim, bool host_tried, FdbRoom* room) {
  const FdbEntries::Known known = entries_->Look(key);
  if (known.live) return AnnounceOver(key, known, vport, claim);
  if (known.in_table) entries_->Reclaim(key, known);
  *room = eviction_->MakeRoom(vport, host_tried);
  if (*room == FdbRoom::kHostSpent) return {FdbLearned::kLimit};
  if (*room == FdbRoom::kNone || !Write(key, FdbEntries::Known(), vport, claim)) {
    ++entries_->counters().learn_limited;
    return {FdbLearned::kLimit};
  }
  ++entries_->counters().announced;
  entries_->AddEvent(Kind::kAnnounced, key, VPortId::None(), vport);
  return {FdbLearned::kNew};
}

FdbLearnResult FdbAssignment::AnnounceOver(FdbKey key, const FdbEntries::Known& known, VPortId vport, const FdbClaim& claim) {
  const bool same = known.vport == vport;
  const bool was_announced = known.entry.origin == FdbOrigin::kAnnounced;
  if (known.entry.pinned || !Displaces(FdbOrigin::kAnnounced, known.entry.origin) ||
      (was_announced && !same && IsBeaten(key, claim))) {
    if (same) return {FdbLearned::kKnown};
    ++entries_->counters().announce_refused;
    return {known.entry.pinned ? FdbLearned::kPinned : FdbLearned::kOverruled, known.vport};
  }
  // An announcement that was overtaken by a later one of the same vPort says nothing new.
  if (was_announced && same && entries_->claims()[key].sequence > claim.sequence) return {FdbLearned::kKnown};
  // An entry that stays at its vPort takes no more room.
  if ((!same && !eviction_->MakeRoomAt(vport)) || !Write(key, known, vport, claim)) {
    ++entries_->counters().learn_limited;
    return {FdbLearned::kLimit};
  }
  if (same) return {FdbLearned::kKnown};
  ++entries_->counters().moved;
  entries_->AddEvent(Kind::kAnnounced, key, known.vport, vport);
  return {FdbLearned::kMoved, known.vport};
}

bool FdbAssignment::Write(FdbKey key, const FdbEntries::Known& known, VPortId vport, const FdbClaim& claim) {
  if (!entries_->Write(key, known, vport, entries_->NewEntry(vport, FdbOrigin::kAnnounced))) return false;
  entries_->claims()[key] = claim;
  return true;
}

// True if the claim behind the entry of `key` stands against `claim`.
bool FdbAssignment::IsBeaten(FdbKey key, const FdbClaim& claim) const {
  const auto former = entries_->claims().find(key);
  return former != entries_->claims().end() && !claim.Beats(former->second);
}

bool FdbAssignment::Withdraw(FdbKey key, VPortId vport) {
  const FdbEntries::Known known = entries_->Look(key);
  if (!known.in_table || known.entry.origin != FdbOrigin::kAnnounced || known.vport != vport) return false;
  entries_->Erase(key, known.entry);
  entries_->ReportFlushed(1, FdbEvent::Scope::kEntry, key, vport);
  return true;
}

absl::Status FdbAssignment::AddStatic(FdbKey key, VPortId vport) {
  const std::string attempt = Attempt("add", key);
  if (!IsValidSource(key.mac())) {
    return absl::InvalidArgumentError(absl::StrCat(attempt, "a group or zero address is behind no vPort"));
  }
  FdbEntries::Known known = entries_->Look(key);
  if (known.in_table && !known.live) {
    entries_->Reclaim(key, known);
    known = {};
  }
  if (known.live && known.entry.origin == FdbOrigin::kStatic && known.vport != vport) {
    return absl::AlreadyExistsError(absl::StrCat(attempt, "another vPort has a static one; remove that first"));
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
