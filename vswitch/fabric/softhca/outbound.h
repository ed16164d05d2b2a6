// Outbound: the sending half of a port, with a RingSender for each destination.
//
// A message without room in its ring is parked, as a copy. While it waits for room it holds back
// the completions of its queue pair (QueuePairs::OnParked), so that a sender sees a full ring as a
// full send queue.
//
// Neither class has a lock: all members are called under the port's mutex. None calls the subnet or
// blocks. Requests to the subnet are noted as LinkRequests, which the port carries out without its
// mutex.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_OUTBOUND_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_OUTBOUND_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "vswitch/base/address.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/counters_page.h"
#include "vswitch/fabric/softhca/queue_pairs.h"
#include "vswitch/fabric/softhca/ring.h"
#include "vswitch/fabric/softhca/soft_port_counters.h"

namespace eoib::softhca {

struct OutboundOptions {
  uint64_t first_capacity = 256 * 1024;     // several super-frames
  uint64_t largest_capacity = 1024 * 1024;  // more does not fit into the processor's caches
  // For each destination, allocated when needed: the send queue of an endpoint, 512 datagrams of
  // the largest MTU.
  uint64_t parking_capacity = 4 * 1024 * 1024;
  // How long a message waits for room in its ring: IBA's head-of-queue lifetime limit (IBA 1.4
  // §18.2.5.4).
  absl::Duration head_of_queue_lifetime = absl::Milliseconds(5);
  // How long the first messages wait for the subnet to open a ring.
  absl::Duration opening_patience = absl::Seconds(1);
  // How long the port does not ask for a ring again after a refusal.
  absl::Duration refusal_pause = absl::Milliseconds(100);
  absl::Duration idle_close = absl::Seconds(10);
};

// Requests of the sending half to the subnet.
struct LinkRequests {
  // Destinations that need a ring, or a bigger one: RingSender::wanted_capacity()
  std::vector<Lid> rings;
  std::vector<uint64_t> closes;           // rings to close
  std::vector<uint64_t> loopback_closes;  // rings to this port itself; the port numbers them

  bool empty() const { return rings.empty() && closes.empty() && loopback_closes.empty(); }
};

// A ring to another port or to this one.
struct OutboundRing {
  uint64_t id;
  RingProducer producer;
  UniqueFd liveness;
  std::shared_ptr<UniqueFd> doorbell;
  absl::Time opened;
  bool loopback;
  uint64_t unpublished = 0;  // records
  // The consumer's position when the ring was last found full.
  absl::optional<uint64_t> tail_when_full = absl::nullopt;

  // The consumer has left or died and takes no more records.
  bool ConsumerIsGone() const;
};

// State that all senders of a port share.
struct OutboundShared {
  const OutboundOptions* options;
  const Clock* clock;
  SoftPortCounters* counters;
  QueuePairs* queue_pairs;
  CountersPage* page = nullptr;  // null: the counters are not published
  LinkRequests requests = {};
  size_t parked = 0;                    // messages to all destinations
  std::list<OutboundRing> ending = {};  // released, but not yet emptied by their consumers

  // Counts the unpublished records of `ring` and stores the counters, so that a process that dies
  // has counted what others take.
  void CountSent(OutboundRing* ring);
  void CountLost(const OutboundRing& ring, uint64_t records);
};

// The bytes of a message, in the work request's buffers.
struct Gather {
  const ibv_sge* sges;
  int count;
  bool write_checksums = false;  // into the copy: checksum_offload.h

  void CopyTo(uint8_t* to) const;
};

// The path to one destination: its ring, a bigger ring that is being opened, and the messages that
// wait for room ("parked").
//
// Threads: any, under the port's mutex. Invariants: there is at most one present ring, and one that
// is being opened. Messages leave in order: while messages are parked, later ones are parked behind
// them. Each parked message leaves by Unpark or DiscardParked, which release the completions of its
// queue pair. A released ring is kept until its consumer has emptied it or is gone.
class RingSender {
 public:
  RingSender(Lid lid, OutboundShared* shared)
      : lid_(lid), shared_(shared), last_used_(shared->clock->Now()) {}
  ~RingSender() { DiscardParked(&SoftPortCounters::xmit_discards); }
  RingSender(const RingSender&) = delete;
  RingSender& operator=(const RingSender&) = delete;

  Lid lid() const { return lid_; }

  // Writes a message into the ring, parks it behind those that wait, or discards and counts it.
  void Send(const RecordHeader& header, const Gather& gather);
  // Publishes the written records and rings the consumer's doorbell if it sleeps.
  void Publish();
  // Moves parked messages into the ring and discards those whose time is over.
  void Flush();
  bool parked() const { return parked_ != 0; }

  // Opening a ring: wanted_capacity() is the wanted capacity, BeginOpening notes the request, then
  // OnOpened or OnRefused ends it.
  uint64_t wanted_capacity() const { return wanted_capacity_; }
  void BeginOpening(uint64_t request, std::shared_ptr<RingMemory> memory, UniqueFd liveness);
  bool IsOpening(uint64_t request) const {
    return opening_.has_value() && opening_->request == request;
  }
  void OnOpened(uint64_t ring, std::shared_ptr<UniqueFd> doorbell, bool loopback = false);
  void OnRefused();
  // The destination made a ring to this port, so an earlier refusal is outdated.
  void OnPeerSeen() { refused_until_ = absl::InfinitePast(); }
  // The other end is gone or has closed the ring. Parked messages go into the next ring.
  void OnClosed();
  // Asks for a new ring in place of the present one, until it gets it.
  void Renew();
  // Closes the ring.
  void Close();

  bool HasRing(uint64_t ring) const {
    return current_.has_value() && !current_->loopback && current_->id == ring;
  }
  bool open() const { return current_.has_value(); }
  bool opening() const { return opening_.has_value(); }
  uint64_t capacity() const { return current_.has_value() ? current_->producer.capacity() : 0; }
  int liveness_fd() const { return current_.has_value() ? current_->liveness.get() : -1; }
  uint64_t ring() const { return current_.has_value() ? current_->id : 0; }

  // Called by the background thread: flushes, and closes an idle ring. An idle ring is closed only
  // after the subnet has opened another one in its place (which is empty and is closed with it): a
  // dead or stopped subnet could not connect the two ports again.
  void Maintain(absl::Time now);

 private:
  struct Opening {
    uint64_t request;
    std::shared_ptr<RingMemory> memory;
    UniqueFd liveness;
  };
  // A ring inside this port. A record's stamp is the time at which it was parked.
  struct Parking {
    explicit Parking(std::shared_ptr<RingMemory> of)
        : memory(std::move(of)), producer(memory), consumer(memory) {}
    std::shared_ptr<RingMemory> memory;
    RingProducer producer;
    RingConsumer consumer;
  };

  bool TryWrite(const RecordHeader& header, const Gather& gather);
  uint8_t* Reserve(size_t length);
  void MetFull();
  void PublishRecords();
  void RequestRing(uint64_t capacity);
  void Park(const RecordHeader& header, const Gather& gather);
  void BeginParking();
  bool WriteParked(RecordHeader header, const uint8_t* payload);
  void Unpark(const RecordHeader& header);
  void DiscardParked(uint64_t SoftPortCounters::*reason);
  absl::Time Deadline(const RecordHeader& parked) const;
  bool IsPausing(absl::Time now) const { return now < refused_until_; }
  bool IsIdle(absl::Time now) const;
  void CloseIfIdle(absl::Time now);

  const OutboundOptions& options() const { return *shared_->options; }

  const Lid lid_;
  OutboundShared* const shared_;
  absl::optional<OutboundRing> current_;
  absl::optional<Opening> opening_;
  uint64_t wanted_capacity_ = 0;
  absl::Time refused_until_ = absl::InfinitePast();
  absl::optional<Parking> parking_;
  size_t parked_ = 0;
  bool blocked_ = false;  // Flush found no room in this burst: do not try again
  bool stalled_ = false;  // a message waited, and there was no room then nor since
  bool used_ = false;     // since the last Maintain
  bool stale_ = false;    // a restarted subnet does not know the ring
  absl::Time last_used_;
  absl::Time next_close_ = absl::InfinitePast();  // do not try to close an idle ring before
};

class Outbound {
 public:
  // All outlive this object.
  Outbound(const OutboundOptions* options, const Clock* clock, SoftPortCounters* counters,
           QueuePairs* queue_pairs)
      : shared_{options, clock, counters, queue_pairs} {}

  // Where the counters are published. `page` outlives this object.
  void set_page(CountersPage* page) { shared_.page = page; }

  // A burst: Send to any destinations, then PublishAll.
  void Send(Lid destination, const RecordHeader& header, const Gather& gather);
  void PublishAll();
  // Moves parked messages of all destinations into their rings.
  void FlushAll();

  bool HasRequests() const { return !shared_.requests.empty(); }
  LinkRequests TakeRequests() { return std::exchange(shared_.requests, LinkRequests()); }
  void RequestClose(uint64_t ring) { shared_.requests.closes.push_back(ring); }

  // Null if there is none.
  RingSender* Find(Lid destination);
  RingSender* FindByRequest(uint64_t request);
  RingSender* FindByRing(uint64_t ring);

  void Maintain();
  size_t parked() const { return shared_.parked; }
  // True if there are released rings that are not empty yet.
  bool has_ending() const { return !shared_.ending.empty(); }
  // True if Maintain must be called soon.
  bool is_busy() const { return parked() != 0 || has_ending(); }
  bool HasRings() const;
  // Forgets a destination; its parked messages are discarded.
  void Drop(Lid destination);
  // The port ends: discards parked messages and releases all rings.
  void End();

  template <typename Function>
  void ForEach(Function function) const {
    for (const auto& [lid, sender] : senders_) function(sender.get());
  }

 private:
  RingSender* FindOrAdd(Lid destination);
  void SettleEnding();

  OutboundShared shared_;
  absl::flat_hash_map<Lid, std::unique_ptr<RingSender>> senders_;
  RingSender* last_ = nullptr;      // the last Send's; a burst goes to one destination
  std::vector<RingSender*> dirty_;  // sent to since PublishAll
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_OUTBOUND_H_
