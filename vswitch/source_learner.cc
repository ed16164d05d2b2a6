#include "vswitch/source_learner.h"

#include <algorithm>

#include "absl/base/optimization.h"

namespace eoib {
namespace {

bool SamePath(const Datagram& a, const Datagram& b) { return a.source() == b.source() && a.slid == b.slid; }

}  // namespace

SourceLearner::SourceLearner(Fdb* fdb, VPortDirectory* directory, PuntQueue* punts, const Clock* clock,
                             ForwarderCounters* counters)
    : fdb_(fdb),
      punts_(punts),
      clock_(clock),
      counters_(counters),
      peers_(fdb, directory, punts, clock, counters),
      move_punts_(kMovePuntsPerSecond, kMovePuntsPerSecond, clock->Now()),
      damping_punts_(move_punts_) {}

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
    vports_[i] = same ? vports_[i - 1] : peers_.VPortOf(datagram, keys_[i]);
  }
  return Learn(FdbOrigin::kRemoteLearned, batch);
}

// A pinned MAC is never learned elsewhere, so an impostor's frame is always among the sources that Refresh does not find at
// their vPort. Known sources therefore do not pay for the check.
bool SourceLearner::Learn(FdbOrigin origin, PacketBatch* batch) {
  const size_t size = batch->size();
  const size_t stale = fdb_->Refresh({keys_.data(), size}, {vports_.data(), size}, absl::MakeSpan(stale_));
  bool any_impostor = false;
  for (size_t i = 0; i < stale; ++i) {
    const size_t at = stale_[i];
    if (ABSL_PREDICT_FALSE(IsPinnedElsewhere(keys_[at], vports_[at]))) {
      any_impostor = (*batch)[at].is_impostor = true;
      continue;
    }
    if (vports_[at].IsNone()) {  // directory or port quota full: deliver its frames, let its MACs flood
      counters_->unknown_senders.Add();
      continue;
    }
    if (origin == FdbOrigin::kRemoteLearned) FollowRestart(at, size);
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

// If the newcomer at `at` is a restarted agent, replaces its vPort in the rest of the batch by the agent's former one.
void SourceLearner::FollowRestart(size_t at, size_t size) {
  const VPortId newcomer = vports_[at];
  const VPortId vport = peers_.Follow(newcomer, keys_[at]);
  if (ABSL_PREDICT_TRUE(vport == newcomer)) return;
  std::replace(vports_.data() + at, vports_.data() + size, newcomer, vport);
}

void SourceLearner::LearnOne(FdbKey key, VPortId vport, FdbOrigin origin) {
  const Fdb::LearnResult result = fdb_->Learn(key, vport, origin);
  using Damped = Fdb::Damped;
  const bool moved = result.what == Fdb::Learned::kMoved;
  if (!moved && result.damped == Damped::kNo) return;
  // A move between two addresses of one agent must not be damped.
  if (origin == FdbOrigin::kRemoteLearned && peers_.LeadToSamePeer(vport, result.previous)) return fdb_->ForgiveMove(key);
  const absl::Time now = clock_->Now();
  const auto punt = [&](Punt::Kind kind, TokenBucket* limit) {
    if (limit->Take(now)) SendPunt({.kind = kind, .vport = vport, .previous = result.previous, .key = key}, punts_, counters_);
  };
  if (moved) punt(Punt::Kind::kMoved, &move_punts_);
  if (result.damped == Damped::kFrozen) punt(Punt::Kind::kFrozen, &damping_punts_);
  if (result.damped == Damped::kFlapping) punt(Punt::Kind::kFlapping, &damping_punts_);
}

}  // namespace eoib
