// FaultInjector: simulates loss, duplication, delay and reordering at a receiving port, between its
// rings and its queue pairs, as the subnet's FaultRules ask.
//
// Each source has a lane, which delivers in order of arrival unless a rule reorders. Delayed
// datagrams are copies, so their ring can go on. No lock of its own: all members are called under
// the port's mutex.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_FAULT_INJECTOR_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_FAULT_INJECTOR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "vswitch/base/address.h"
#include "vswitch/base/clock.h"
#include "vswitch/fabric/softhca/ring.h"
#include "vswitch/fabric/softhca/soft_port_counters.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

class FaultInjector {
 public:
  // Bytes of all delayed datagrams, headers included. A datagram that does not fit is dropped and
  // counted in rcv_simulated_overflows.
  static constexpr size_t kCapacity = 4 * 1024 * 1024;

  using Deliver =
      absl::FunctionRef<void(const SourceIdentity&, const RecordHeader&, const uint8_t* payload)>;

  FaultInjector(const Clock* clock, SoftPortCounters* counters)
      : clock_(clock), counters_(counters) {}

  // Replaces the rules and restarts every random sequence. Delayed datagrams stay queued.
  void SetRules(std::vector<FaultRule> rules);
  // True if datagrams must pass through here: there are rules, or datagrams delayed by former
  // rules.
  bool active() const { return !rules_.empty() || kept_bytes_ != 0; }

  // Takes a datagram from another port. `payload` is used during the call only.
  void Take(const SourceIdentity& source, const RecordHeader& header, const uint8_t* payload,
            Deliver deliver);
  // Delivers due datagrams until `done()`. Call it before taking datagrams from rings.
  void DeliverDue(absl::FunctionRef<bool()> done, Deliver deliver);
  // When to call DeliverDue next; InfiniteFuture if nothing is delayed.
  absl::Time next_due() const { return next_due_; }
  size_t kept_bytes() const { return kept_bytes_; }

 private:
  struct Datagram {
    const RecordHeader& header;
    const uint8_t* payload;
    int copies;
    absl::Time due;
  };
  struct Kept {
    RecordHeader header;
    std::unique_ptr<uint8_t[]> payload;
    int copies = 0;
    absl::Time due;
  };
  struct Lane {
    SourceIdentity source;  // as the subnet last reported it
    FaultRule rule;
    uint64_t chance = 0;
    std::deque<Kept> queue;
    absl::optional<Kept> overtaken;  // delivered after its successor

    absl::Time first_due() const {
      return !queue.empty()          ? queue.front().due
             : overtaken.has_value() ? overtaken->due
                                     : absl::InfiniteFuture();
    }
  };

  Lane* LaneOf(const SourceIdentity& source);
  void Begin(Lane* lane) const;
  absl::Time DueTime(const Lane& lane) const;
  bool PassOrQueue(Lane* lane, const Datagram& datagram, Deliver deliver);
  void PassOrQueueOvertaken(Lane* lane, absl::Time due, Deliver deliver);
  void Pass(const Lane& lane, const Datagram& datagram, Deliver deliver);
  absl::optional<Kept> Keep(const Datagram& datagram);
  Lane* FirstDue();
  void DeliverFirst(Lane* lane, Deliver deliver);

  const Clock* const clock_;
  SoftPortCounters* const counters_;
  std::vector<FaultRule> rules_;  // empty if no rule asks for a fault
  absl::flat_hash_map<Gid, std::unique_ptr<Lane>> lanes_;
  size_t kept_bytes_ = 0;
  // May be too early: that datagram may have been delivered.
  absl::Time next_due_ = absl::InfiniteFuture();
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_FAULT_INJECTOR_H_
