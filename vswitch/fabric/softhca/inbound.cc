#include "vswitch/fabric/softhca/inbound.h"

#include <algorithm>

#include "vswitch/fabric/softhca/outbound.h"

namespace eoib::softhca {

void InboundRing::Publish() {
  if (!consumer.Publish()) return;
  const int fd = space.valid() ? space.get() : memory->space() != nullptr ? memory->space()->get() : -1;
  if (fd >= 0) RingEventFd(fd);
}

bool Inbound::Add(std::unique_ptr<InboundRing> ring) {
  size_t of_source = 0;
  for (const auto& other : rings_) {
    if (other->source.gid != ring->source.gid || other->corrupt) continue;
    ring->predecessor = other.get();
    ++of_source;
  }
  if (of_source >= kMaxRingsOfSource) return false;
  std::unique_ptr<uint64_t>& chance = chances_[ring->source.gid];
  if (chance == nullptr) chance = std::make_unique<uint64_t>(InitialChance(ring->source.gid));
  ring->chance = chance.get();
  rings_.push_back(std::move(ring));
  return true;
}

InboundRing* Inbound::Find(uint64_t ring, bool loopback) {
  const auto found = std::find_if(rings_.begin(), rings_.end(), [ring, loopback](const auto& other) {
    return other->id == ring && other->loopback == loopback;
  });
  return found == rings_.end() ? nullptr : found->get();
}

void Inbound::Close(InboundRing* ring) {
  ring->closing = true;
  if (!ring->consumer.HasData()) finished_ = true;
}

std::vector<std::unique_ptr<InboundRing>> Inbound::TakeFinished() {
  std::vector<std::unique_ptr<InboundRing>> finished;
  finished_ = false;
  for (auto& ring : rings_) {
    if (!ring->corrupt && !(ring->closing && !ring->consumer.HasData())) continue;
    for (auto& other : rings_) {
      if (other != nullptr && other->predecessor == ring.get()) other->predecessor = ring->predecessor;
    }
    finished.push_back(std::move(ring));
  }
  rings_.erase(std::remove(rings_.begin(), rings_.end(), nullptr), rings_.end());
  return finished;
}

bool Inbound::Arm() {
  bool has_data = false;
  for (const auto& ring : rings_) has_data |= !ring->corrupt && ring->consumer.Arm();
  return has_data;
}

void Inbound::set_seed(uint64_t seed) {
  seed_ = seed;
  for (auto& [gid, chance] : chances_) *chance = InitialChance(gid);
}

uint64_t Inbound::InitialChance(const Gid& gid) const { return seed_ * 0x9e37'79b9'7f4a'7c15ull ^ gid.guid().value(); }

// SplitMix64.
uint64_t Inbound::Draw(InboundRing* ring) {
  uint64_t z = (*ring->chance += 0x9e37'79b9'7f4a'7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebull;
  return z ^ (z >> 31);
}

}  // namespace eoib::softhca
