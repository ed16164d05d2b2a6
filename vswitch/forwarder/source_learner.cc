#include "vswitch/forwarder/source_learner.h"

#include "absl/base/optimization.h"
#include "absl/hash/hash.h"

namespace eoib {
namespace {

struct PuntLimit {
  double per_second, burst;
};

// Moves are only logged, but control acts on the others. All bursts together leave room in the
// queue for what the resolver needs.
PuntLimit LimitOf(Punt::Kind kind) {
  switch (kind) {
    case Punt::Kind::kLocalLearned:
      return {1000, 512};
    case Punt::Kind::kLocalHeard:  // guests that migrate together
      return {1000, 256};
    case Punt::Kind::kContested:
      return {100, 100};
    default:
      return {10, 10};
  }
}

// A report is repeated after this time.
constexpr absl::Duration kReportAgain = absl::Milliseconds(10);

bool SamePath(const Datagram& a, const Datagram& b) {
  return a.source() == b.source() && a.slid == b.slid;
}

}  // namespace

SourceLearner::SourceLearner(Fdb* fdb, VPortDirectory* directory, PuntQueue* punts,
                             const Clock* clock, ForwarderCounters* counters)
    : fdb_(fdb),
      punts_(punts),
      clock_(clock),
      counters_(counters),
      peers_(directory, punts, clock, counters) {
  for (uint8_t kind = 0; kind < static_cast<uint8_t>(Punt::Kind::kCount); ++kind) {
    const PuntLimit limit = LimitOf(static_cast<Punt::Kind>(kind));
    limits_.emplace_back(limit.per_second, limit.burst, clock->Now());
  }
}

bool SourceLearner::LearnLocal(VPortId vport, PacketBatch* batch) {
  for (size_t i = 0; i < batch->size(); ++i) {
    keys_[i] = (*batch)[i].source;
    vports_[i] = vport;
  }
  return Learn(FdbOrigin::kLocalLearned, batch);
}

bool SourceLearner::LearnRemote(PacketBatch* batch) {
  for (size_t i = 0; i < batch->size(); ++i) {
    const Datagram& datagram = *(*batch)[i].datagram;
    keys_[i] = (*batch)[i].source;
    // Peers send in bursts, so most datagrams come from the same peer as the one before.
    const bool same = i > 0 && SamePath(datagram, *(*batch)[i - 1].datagram);
    vports_[i] = same ? vports_[i - 1] : peers_.VPortOf(datagram);
  }
  return Learn(FdbOrigin::kRemoteLearned, batch);
}

// A pinned MAC is never learned elsewhere, so an impostor's frame is always among the sources that
// Refresh does not find at their vPort. Known sources therefore do not pay for the check.
bool SourceLearner::Learn(FdbOrigin origin, PacketBatch* batch) {
  const size_t size = batch->size();
  const size_t stale =
      fdb_->Refresh({keys_.data(), size}, {vports_.data(), size}, absl::MakeSpan(stale_));
  bool any_impostor = false;
  for (size_t i = 0; i < stale; ++i) {
    const size_t at = stale_[i];
    if (ABSL_PREDICT_FALSE(IsPinnedElsewhere(keys_[at], vports_[at]))) {
      any_impostor = (*batch)[at].is_impostor = true;
      continue;
    }
    // Directory or port quota full: deliver its frames, let its MACs flood.
    if (vports_[at].IsNone()) {
      counters_->unknown_senders.Add();
      continue;
    }
    LearnOne(keys_[at], vports_[at], origin);
  }
  return any_impostor;
}

bool SourceLearner::IsPinnedElsewhere(FdbKey source, VPortId from) const {
  const auto pinned = pinned_.find(source.mac());
  if (ABSL_PREDICT_TRUE(pinned == pinned_.end())) return false;
  bool strip;
  return pinned->second.vport != from && pinned->second.vlan.Egress(source.vid(), &strip);
}

void SourceLearner::LearnOne(FdbKey key, VPortId vport, FdbOrigin origin) {
  const bool local = origin == FdbOrigin::kLocalLearned;
  const Fdb::LearnResult result = fdb_->Learn(key, vport, origin);
  const bool moved = result.what == Fdb::Learned::kMoved;
  if (moved) Report(Punt::Kind::kMoved, key, vport, result.previous);
  if (local && (moved || result.what == Fdb::Learned::kNew))
    Report(Punt::Kind::kLocalLearned, key, vport, result.previous);
  // The operator has decided on a static entry, not the agents.
  if (result.what == Fdb::Learned::kOverruled && !result.is_static &&
      !WasJustReported(key, vport)) {
    Report(local ? Punt::Kind::kLocalHeard : Punt::Kind::kContested, key, vport, result.previous);
  }
  if (result.damped == Fdb::Damped::kFrozen)
    Report(Punt::Kind::kFrozen, key, vport, result.previous);
  if (result.damped == Fdb::Damped::kFlapping)
    Report(Punt::Kind::kFlapping, key, vport, result.previous);
}

void SourceLearner::Report(Punt::Kind kind, FdbKey key, VPortId vport, VPortId previous) {
  if (!limits_[static_cast<size_t>(kind)].Take(clock_->Now())) return;
  SendPunt({.kind = kind, .vport = vport, .previous = previous, .key = key}, punts_, counters_);
}

// Control needs a moment to act on a report, and each frame of that station would repeat it
// meanwhile.
bool SourceLearner::WasJustReported(FdbKey key, VPortId vport) {
  const absl::Time now = clock_->Now();
  Overruled& last = overruled_[absl::HashOf(key) % overruled_.size()];
  if (last.key == key && last.vport == vport && now < last.at + kReportAgain) return true;
  last = {key, vport, now};
  return false;
}

}  // namespace eoib
