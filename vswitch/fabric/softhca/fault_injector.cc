#include "vswitch/fabric/softhca/fault_injector.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace eoib::softhca {
namespace {

constexpr uint64_t kGolden = 0x9e37'79b9'7f4a'7c15ull;
constexpr uint64_t kMillion = 1'000'000;

// SplitMix64.
uint64_t Draw(uint64_t* state) {
  uint64_t z = (*state += kGolden);
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebull;
  return z ^ (z >> 31);
}

bool IsNone(const FaultRule& rule) { return rule.IsNone(); }

}  // namespace

// ---- Rules.

void FaultInjector::SetRules(std::vector<FaultRule> rules) {
  rules_ = std::move(rules);
  if (std::all_of(rules_.begin(), rules_.end(), IsNone)) rules_.clear();
  for (auto& [gid, lane] : lanes_) Begin(lane.get());
  if (!active()) lanes_.clear();
}

void FaultInjector::Begin(Lane* lane) const {
  const Gid& gid = lane->source.gid;
  lane->rule = FaultRule();
  for (const FaultRule& rule : rules_) {
    if (rule.source.value_or(gid) != gid) continue;
    lane->rule = rule;
    // A rule that names the source goes before a rule for any source.
    if (rule.source.has_value()) break;
  }
  lane->chance = lane->rule.seed * kGolden ^ gid.guid().value();
}

FaultInjector::Lane* FaultInjector::LaneOf(const SourceIdentity& source) {
  std::unique_ptr<Lane>& lane = lanes_[source.gid];
  const bool is_new = lane == nullptr;
  if (is_new) lane = std::make_unique<Lane>();
  lane->source = source;
  if (is_new) Begin(lane.get());
  return lane.get();
}

// ---- Datagrams.

void FaultInjector::Take(const SourceIdentity& source, const RecordHeader& header,
                         const uint8_t* payload, Deliver deliver) {
  Lane* lane = LaneOf(source);
  // Draw for every fault, so that enabling one does not change where another strikes.
  const auto strikes = [lane](uint32_t ppm) { return Draw(&lane->chance) % kMillion < ppm; };
  const bool lost = strikes(lane->rule.loss_ppm);
  const bool twice = strikes(lane->rule.duplicate_ppm);
  const bool reordered = strikes(lane->rule.reorder_ppm);
  if (lost) {
    ++counters_->rcv_simulated_losses;
    return;
  }
  Datagram datagram{header, payload, twice ? 2 : 1, DueTime(*lane)};
  if (reordered && !lane->overtaken.has_value()) {
    datagram.due += FaultRule::kReorderPatience;
    lane->overtaken = Keep(datagram);
    return;
  }
  if (!PassOrQueue(lane, datagram, deliver) || !lane->overtaken.has_value()) return;
  ++counters_->rcv_simulated_reorders;
  PassOrQueueOvertaken(lane, datagram.due, deliver);
}

// A datagram is never due before one that arrived before it.
absl::Time FaultInjector::DueTime(const Lane& lane) const {
  const absl::Time due = clock_->Now() + lane.rule.delay;
  return lane.queue.empty() ? due : std::max(due, lane.queue.back().due);
}

// Returns false if there was no room to queue it.
bool FaultInjector::PassOrQueue(Lane* lane, const Datagram& datagram, Deliver deliver) {
  if (lane->queue.empty() && datagram.due <= clock_->Now()) {
    Pass(*lane, datagram, deliver);
    return true;
  }
  absl::optional<Kept> kept = Keep(datagram);
  if (!kept.has_value()) return false;
  ++counters_->rcv_simulated_delays;
  lane->queue.push_back(*std::move(kept));
  return true;
}

void FaultInjector::PassOrQueueOvertaken(Lane* lane, absl::Time due, Deliver deliver) {
  Kept kept = *std::exchange(lane->overtaken, absl::nullopt);
  kept.due = due;
  lane->queue.push_back(std::move(kept));
  if (lane->queue.size() == 1 && due <= clock_->Now()) DeliverFirst(lane, deliver);
}

void FaultInjector::Pass(const Lane& lane, const Datagram& datagram, Deliver deliver) {
  counters_->rcv_simulated_duplicates += static_cast<uint64_t>(datagram.copies - 1);
  for (int i = 0; i < datagram.copies; ++i) deliver(lane.source, datagram.header, datagram.payload);
}

// Copies a datagram. Returns nullopt, and counts it, if there is no room.
absl::optional<FaultInjector::Kept> FaultInjector::Keep(const Datagram& datagram) {
  const size_t size = RecordSize(datagram.header.length);
  if (kept_bytes_ + size > kCapacity) {
    ++counters_->rcv_simulated_overflows;
    return absl::nullopt;
  }
  kept_bytes_ += size;
  next_due_ = std::min(next_due_, datagram.due);
  Kept kept{datagram.header, std::make_unique<uint8_t[]>(datagram.header.length), datagram.copies,
            datagram.due};
  std::memcpy(kept.payload.get(), datagram.payload, datagram.header.length);
  return kept;
}

// ---- Due datagrams.

void FaultInjector::DeliverDue(absl::FunctionRef<bool()> done, Deliver deliver) {
  if (next_due_ == absl::InfiniteFuture()) return;
  const absl::Time now = clock_->Now();
  while (next_due_ <= now && !done()) {
    Lane* lane = FirstDue();
    if (next_due_ <= now) DeliverFirst(lane, deliver);
  }
}

// Returns the lane with the earliest datagram and updates next_due_.
FaultInjector::Lane* FaultInjector::FirstDue() {
  Lane* first = nullptr;
  next_due_ = absl::InfiniteFuture();
  for (auto& [gid, lane] : lanes_) {
    if (lane->first_due() >= next_due_) continue;
    first = lane.get();
    next_due_ = lane->first_due();
  }
  return first;
}

// The datagram that waits to be overtaken arrived after those in the queue.
void FaultInjector::DeliverFirst(Lane* lane, Deliver deliver) {
  Kept kept;
  if (lane->queue.empty()) {
    kept = *std::exchange(lane->overtaken, absl::nullopt);
  } else {
    kept = std::move(lane->queue.front());
    lane->queue.pop_front();
  }
  kept_bytes_ -= RecordSize(kept.header.length);
  Pass(*lane, Datagram{kept.header, kept.payload.get(), kept.copies, kept.due}, deliver);
}

}  // namespace eoib::softhca
