#include "vswitch/fabric/softhca/inbound.h"

#include <poll.h>

#include <algorithm>

#include "vswitch/base/event_fd.h"

namespace eoib::softhca {

void InboundRing::Publish() {
  if (!consumer.Publish()) return;
  const int fd = space.valid()                ? space.get()
                 : memory->space() != nullptr ? memory->space()->get()
                                              : -1;
  if (fd >= 0) RingEventFd(fd);
}

uint64_t InboundRing::Leave() {
  const bool producer_has_left = consumer.Leave();
  // Poll reports POLLHUP unasked; a ring in one process has no pipe.
  pollfd producer = {liveness.get(), 0, 0};
  return producer_has_left || poll(&producer, 1, 0) > 0 ? consumer.Discard() : 0;
}

bool Inbound::Add(std::unique_ptr<InboundRing> ring) {
  size_t of_source = 0;
  for (const auto& other : rings_) {
    if (other->source.gid != ring->source.gid || other->corrupt) continue;
    // The newest of the source's rings: rings of one source are emptied in the order in which they
    // were offered.
    ring->predecessor = other.get();
    ++of_source;
  }
  if (of_source >= kMaxRingsOfSource) return false;
  rings_.push_back(std::move(ring));
  return true;
}

InboundRing* Inbound::Find(uint64_t ring, bool loopback) {
  const auto found =
      std::find_if(rings_.begin(), rings_.end(), [ring, loopback](const auto& other) {
        return other->id == ring && other->loopback == loopback;
      });
  return found == rings_.end() ? nullptr : found->get();
}

void Inbound::Close(InboundRing* ring) {
  if (std::exchange(ring->closing, true)) return;
  ring->consumer.Close();
  if (!ring->consumer.HasData()) finished_ = true;
}

std::vector<std::unique_ptr<InboundRing>> Inbound::TakeFinished() {
  std::vector<std::unique_ptr<InboundRing>> finished;
  finished_ = false;
  for (auto& ring : rings_) {
    if (!ring->corrupt && !(ring->closing && !ring->consumer.HasData())) continue;
    for (auto& other : rings_) {
      // Rings that waited for this one now wait for its predecessor.
      if (other != nullptr && other->predecessor == ring.get())
        other->predecessor = ring->predecessor;
    }
    finished.push_back(std::move(ring));
  }
  std::erase(rings_, nullptr);
  return finished;
}

bool Inbound::Arm() {
  bool has_data = false;
  for (const auto& ring : rings_) has_data |= !ring->corrupt && ring->consumer.Arm();
  return has_data;
}

}  // namespace eoib::softhca
