#include "vswitch/fabric/softhca/outbound.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "vswitch/base/event_fd.h"
#include "vswitch/fabric/softhca/checksum_offload.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

void Gather::CopyTo(uint8_t* to) const {
  uint8_t* const start = to;
  for (int i = 0; i < count; ++i) {
    if (sges[i].length == 0) continue;
    std::memcpy(to, reinterpret_cast<const void*>(sges[i].addr), sges[i].length);
    to += sges[i].length;
  }
  if (write_checksums) WriteChecksums({start, static_cast<size_t>(to - start)});
}

// ---- Counting.

bool OutboundRing::ConsumerIsGone() const {
  if (producer.ConsumerHasLeft()) return true;
  // Poll reports POLLERR unasked; a ring in one process has no pipe.
  pollfd consumer = {liveness.get(), 0, 0};
  return poll(&consumer, 1, 0) > 0;
}

void OutboundShared::CountSent(OutboundRing* ring) {
  const uint64_t records = std::exchange(ring->unpublished, 0);
  counters->xmit_sent += records;
  if (ring->loopback) {
    counters->loopback_queued += records;
  } else if (SubnetOfRing(ring->id) == counters->ring_subnet) {
    counters->ring_sent += records;
  }
  if (page != nullptr) page->Store(*counters);
}

void OutboundShared::CountLost(const OutboundRing& ring, uint64_t records) {
  counters->xmit_lost += records;
  if (ring.loopback) {
    counters->loopback_queued -= records;
  } else if (SubnetOfRing(ring.id) == counters->ring_subnet) {
    counters->ring_lost += records;
  }
}

// ---- Sending.

void RingSender::Send(const RecordHeader& header, const Gather& gather) {
  used_ = true;
  if (parked() && !blocked_) Flush();
  if (parked() || !TryWrite(header, gather)) Park(header, gather);
}

bool RingSender::TryWrite(const RecordHeader& header, const Gather& gather) {
  uint8_t* record = Reserve(header.length);
  if (record == nullptr) return false;
  // The header last: copying a structure that was just written, member by member, waits for all
  // stores before it.
  gather.CopyTo(record + sizeof(header));
  std::memcpy(record, &header, sizeof(header));
  current_->producer.Commit(header.length);
  ++current_->unpublished;
  stalled_ = false;
  return true;
}

uint8_t* RingSender::Reserve(size_t length) {
  if (!current_.has_value()) {
    RequestRing(options().first_capacity);
    return nullptr;
  }
  if (uint8_t* record = current_->producer.Reserve(length)) return record;
  MetFull();
  if (!current_.has_value()) return nullptr;
  current_->producer.WantSpace();
  // The consumer may have made room before it saw WantSpace.
  return current_->producer.Reserve(length);
}

// The ring grows if it is full again although its consumer took records since the last time: then
// it is too small for the load. A ring that no consumer empties need not grow.
void RingSender::MetFull() {
  if (current_->producer.corrupt()) {
    ++shared_->counters->corrupt_rings;
    return Close();
  }
  PublishRecords();
  const uint64_t tail = current_->producer.tail();
  const bool is_emptied = current_->tail_when_full.has_value() && *current_->tail_when_full != tail;
  if (is_emptied && capacity() < options().largest_capacity) RequestRing(capacity() * 4);
  current_->tail_when_full = tail;
}

void RingSender::Publish() {
  // The burst ends: the next one tries the parked messages again.
  blocked_ = false;
  if (current_.has_value()) PublishRecords();
}

void RingSender::PublishRecords() {
  if (current_->unpublished == 0) return;
  shared_->CountSent(&*current_);
  if (current_->producer.Publish()) RingEventFd(current_->doorbell->get());
}

// ---- Parking.

void RingSender::Park(const RecordHeader& header, const Gather& gather) {
  const absl::Time now = shared_->clock->Now();
  if (!current_.has_value() && IsPausing(now)) {
    ++shared_->counters->xmit_unreachable;
    return;
  }
  // IBA 1.4 §18.2.5.4, a stalled VL. A stopped destination then costs neither time nor copies nor
  // background work.
  if (current_.has_value() && stalled_) {
    ++shared_->counters->xmit_discards;
    return;
  }
  if (!parked()) BeginParking();
  uint8_t* record = parking_->producer.Reserve(header.length);
  if (record == nullptr) {
    ++shared_->counters->xmit_discards;
    return;
  }
  RecordHeader parked = header;
  parked.stamp = absl::ToUnixNanos(now);
  if (current_.has_value()) {
    parked.flags |= RecordHeader::kWaitsForRoom;
    shared_->queue_pairs->OnParked(header.source_qpn);
  }
  std::memcpy(record, &parked, sizeof(parked));
  gather.CopyTo(record + sizeof(parked));
  parking_->producer.Commit(header.length);
  parking_->producer.Publish();
  ++parked_;
  ++shared_->parked;
}

// In the memory that the messages before had, from its start: it is warm, and a port that parks a
// message now and then keeps no more of it than that.
void RingSender::BeginParking() {
  std::shared_ptr<RingMemory> memory = parking_.has_value()
                                           ? std::move(parking_->memory)
                                           : RingMemory::CreateLocal(options().parking_capacity);
  memory->index()->head.store(0, std::memory_order_relaxed);
  memory->index()->tail.store(0, std::memory_order_relaxed);
  parking_.emplace(std::move(memory));
}

// Removes the record that parking_->consumer peeked at.
void RingSender::Unpark(const RecordHeader& header) {
  parking_->consumer.Release();
  parking_->consumer.Publish();
  --parked_;
  --shared_->parked;
  if ((header.flags & RecordHeader::kWaitsForRoom) != 0)
    shared_->queue_pairs->OnUnparked(header.source_qpn);
}

void RingSender::DiscardParked(uint64_t SoftPortCounters::*reason) {
  RecordHeader header;
  const uint8_t* payload;
  while (parked() && parking_->consumer.Peek(&header, &payload) == RingConsumer::Next::kRecord) {
    ++(shared_->counters->*reason);
    Unpark(header);
  }
  parking_.reset();
}

// A message that waits for room holds back completions, so its lifetime is not extended by another
// ring. The lifetime of one that waits for a ring to be opened starts when the ring is open.
absl::Time RingSender::Deadline(const RecordHeader& parked) const {
  const absl::Time since = absl::FromUnixNanos(parked.stamp);
  if ((parked.flags & RecordHeader::kWaitsForRoom) != 0)
    return since + options().head_of_queue_lifetime;
  if (!current_.has_value()) return since + options().opening_patience;
  return std::max(since, current_->opened) + options().head_of_queue_lifetime;
}

// Without what is internal to this port.
bool RingSender::WriteParked(RecordHeader header, const uint8_t* payload) {
  const ibv_sge piece = {reinterpret_cast<uintptr_t>(payload), header.length, 0};
  header.stamp = 0;
  header.flags &= static_cast<uint8_t>(~RecordHeader::kWaitsForRoom);
  return TryWrite(header, Gather{&piece, 1});
}

void RingSender::Flush() {
  RecordHeader header;
  const uint8_t* payload;
  const absl::Time now = shared_->clock->Now();
  while (parked() && parking_->consumer.Peek(&header, &payload) == RingConsumer::Next::kRecord) {
    if (!WriteParked(header, payload)) {
      if (now < Deadline(header)) {
        blocked_ = true;
        break;
      }
      stalled_ = current_.has_value();
      ++(stalled_ ? shared_->counters->xmit_discards : shared_->counters->xmit_unreachable);
    }
    Unpark(header);
  }
}

// ---- Rings.

void RingSender::RequestRing(uint64_t capacity) {
  if (wanted_capacity_ != 0 || opening_.has_value() || IsPausing(shared_->clock->Now())) return;
  wanted_capacity_ = std::min(capacity, options().largest_capacity);
  shared_->requests.rings.push_back(lid_);
}

void RingSender::BeginOpening(uint64_t request, std::shared_ptr<RingMemory> memory,
                              UniqueFd liveness) {
  wanted_capacity_ = 0;
  opening_ = Opening{request, std::move(memory), std::move(liveness)};
}

// The new ring can be used at once, because the consumer empties rings of one source in the order
// in which they were offered.
void RingSender::OnOpened(uint64_t ring, std::shared_ptr<UniqueFd> doorbell, bool loopback) {
  Publish();
  Close();
  current_.emplace(OutboundRing{ring, RingProducer(std::move(opening_->memory)),
                                std::move(opening_->liveness), std::move(doorbell),
                                shared_->clock->Now(), loopback});
  opening_.reset();
  stale_ = false;
  Flush();
  Publish();
  // Still idle: CloseIfIdle asked for this ring only to learn whether the subnet answers.
  if (IsIdle(shared_->clock->Now())) Close();
}

void RingSender::OnRefused() {
  wanted_capacity_ = 0;
  opening_.reset();
  refused_until_ = shared_->clock->Now() + options().refusal_pause;
  if (!current_.has_value()) DiscardParked(&SoftPortCounters::xmit_unreachable);
}

void RingSender::Renew() {
  // The subnet has no part in a loopback.
  stale_ = current_.has_value() && !current_->loopback;
  if (stale_) RequestRing(capacity());
}

void RingSender::Close() {
  if (!current_.has_value()) return;
  (current_->loopback ? shared_->requests.loopback_closes : shared_->requests.closes)
      .push_back(current_->id);
  OnClosed();
}

// The consumer takes the remaining records, or they are lost; SettleEnding finds out which.
void RingSender::OnClosed() {
  if (!current_.has_value()) return;
  PublishRecords();
  // Wake the consumer, which closes a released ring once it is empty.
  if (current_->producer.Release()) RingEventFd(current_->doorbell->get());
  if (!current_->producer.Drained()) shared_->ending.push_back(*std::move(current_));
  current_.reset();
}

void RingSender::Maintain(absl::Time now) {
  if (parked()) Flush();
  Publish();
  if (stale_) Renew();
  CloseIfIdle(now);
}

bool RingSender::IsIdle(absl::Time now) const {
  return !used_ && !parked() && !opening_.has_value() && now - last_used_ >= options().idle_close;
}

void RingSender::CloseIfIdle(absl::Time now) {
  if (std::exchange(used_, false)) last_used_ = now;
  if (!IsIdle(now)) return;
  parking_.reset();
  if (!current_.has_value() || !current_->producer.Drained() || now < next_close_) return;
  // A loopback needs no subnet, so it can be opened again at any time.
  if (current_->loopback) return Close();
  next_close_ = now + options().idle_close;
  RequestRing(options().first_capacity);
}

// ---- Outbound.

RingSender* Outbound::FindOrAdd(Lid destination) {
  std::unique_ptr<RingSender>& sender = senders_[destination];
  if (sender == nullptr) sender = std::make_unique<RingSender>(destination, &shared_);
  return sender.get();
}

void Outbound::Send(Lid destination, const RecordHeader& header, const Gather& gather) {
  if (last_ == nullptr || last_->lid() != destination) last_ = FindOrAdd(destination);
  if (dirty_.empty() || dirty_.back() != last_) dirty_.push_back(last_);
  last_->Send(header, gather);
}

void Outbound::PublishAll() {
  for (RingSender* sender : dirty_) sender->Publish();
  dirty_.clear();
}

void Outbound::FlushAll() {
  for (auto& [lid, sender] : senders_) {
    if (!sender->parked()) continue;
    sender->Flush();
    sender->Publish();
  }
}

RingSender* Outbound::Find(Lid destination) {
  const auto found = senders_.find(destination);
  return found == senders_.end() ? nullptr : found->second.get();
}

RingSender* Outbound::FindByRequest(uint64_t request) {
  for (auto& [lid, sender] : senders_) {
    if (sender->IsOpening(request)) return sender.get();
  }
  return nullptr;
}

RingSender* Outbound::FindByRing(uint64_t ring) {
  for (auto& [lid, sender] : senders_) {
    if (sender->HasRing(ring)) return sender.get();
  }
  return nullptr;
}

void Outbound::Maintain() {
  const absl::Time now = shared_.clock->Now();
  for (auto& [lid, sender] : senders_) sender->Maintain(now);
  SettleEnding();
}

void Outbound::SettleEnding() {
  shared_.ending.remove_if([this](const OutboundRing& ring) {
    if (ring.producer.Drained()) return true;
    if (!ring.ConsumerIsGone()) return false;
    shared_.CountLost(ring, ring.producer.CountUntaken());
    return true;
  });
}

bool Outbound::HasRings() const {
  return std::any_of(senders_.begin(), senders_.end(), [](const auto& entry) {
    return entry.second->open() || entry.second->opening();
  });
}

void Outbound::End() {
  last_ = nullptr;
  dirty_.clear();
  for (auto& [lid, sender] : senders_) sender->OnClosed();
  senders_.clear();
  for (OutboundRing& ring : shared_.ending) {
    if (ring.producer.Leave() || ring.ConsumerIsGone())
      shared_.CountLost(ring, ring.producer.CountUntaken());
  }
  shared_.ending.clear();
}

void Outbound::Drop(Lid destination) {
  const auto found = senders_.find(destination);
  if (found == senders_.end()) return;
  found->second->Close();
  if (last_ == found->second.get()) last_ = nullptr;
  std::erase(dirty_, found->second.get());
  senders_.erase(found);
}

}  // namespace eoib::softhca
