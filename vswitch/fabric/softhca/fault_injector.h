// FaultInjector: what a receiving port does to datagrams on purpose, between its rings and its queue pairs: loses them,
// receives them twice, late or in another order, as the subnet asks (FaultRule).
//
// Each source has a lane of its own: a random sequence, the datagrams that are kept to be received later, in order, and at most
// one that waits to be overtaken. What is kept is a copy, so its ring goes on. A lane delivers in the order of arrival unless
// reordering was asked for, also across changes of the rules. A datagram meets one rule at each port: the copies of a multicast
// are lost one by one. What a port sends to itself meets none.
//
// The time is the clock's that is given; nobody here waits. Whoever takes datagrams calls DeliverDue, and the port's background
// wakes those who sleep when next_due() has come.
//
// No lock of its own: all members are called under the port's mutex. Without a rule it costs a look at active().
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
#include "fdb/address.h"
#include "fdb/clock.h"
#include "vswitch/fabric/softhca/port_counters.h"
#include "vswitch/fabric/softhca/ring.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

class FaultInjector {
 public:
  // Of all that is kept, with its headers. What does not fit is dropped and counted in rcv_simulated_overflows.
  static constexpr size_t kCapacity = 4 * 1024 * 1024;

  using Deliver = absl::FunctionRef<void(const SourceIdentity&, const RecordHeader&, const uint8_t* payload)>;

  FaultInjector(const Clock* clock, PortCounters* counters) : clock_(clock), counters_(counters) {}

  // In place of those there were; every random sequence begins anew. What is kept stays so.
  void SetRules(std::vector<FaultRule> rules);
  // Datagrams must come this way: there are rules, or datagrams kept under former ones.
  bool active() const { return !rules_.empty() || kept_bytes_ != 0; }

  // A datagram from another port. The payload is not used any more when it returns.
  void Take(const SourceIdentity& source, const RecordHeader& header, const uint8_t* payload, Deliver deliver);
  // Delivers what is due until `done()`. To be called before datagrams are taken from rings.
  void DeliverDue(absl::FunctionRef<bool()> done, Deliver deliver);
  // When to look again; InfiniteFuture if nothing is kept.
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
    SourceIdentity source;  // as the subnet said last
    FaultRule rule;
    uint64_t chance = 0;
    std::deque<Kept> queue;
    absl::optional<Kept> overtaken;  // to be delivered behind its successor

    absl::Time first_due() const {
      return !queue.empty() ? queue.front().due : overtaken.has_value() ? overtaken->due : absl::InfiniteFuture();
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
  PortCounters* const counters_;
  std::vector<FaultRule> rules_;  // none at all if they ask for nothing
  absl::flat_hash_map<Gid, std::unique_ptr<Lane>> lanes_;
  size_t kept_bytes_ = 0;
  absl::Time next_due_ = absl::InfiniteFuture();  // or before: of a datagram that has been delivered since
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_FAULT_INJECTOR_H_
