#include "vswitch/fabric/softhca/subnet/conservation.h"

#include <algorithm>
#include <utility>

namespace eoib::softhca {

void ConservationLedger::ReplaceCounters(SubnetPort* port,
                                         std::shared_ptr<const CountersPage> counters) {
  // A process that reconnects goes on counting on the same page.
  const bool goes_on =
      port->counters != nullptr && counters != nullptr && port->counters->IsSameAs(*counters);
  if (port->counters != nullptr && !goes_on)
    Account(port->counters->Load(), /*ended=*/true, &former_);
  port->counters = std::move(counters);
}

void ConservationLedger::Account(const SoftPortCounters& counters, bool ended,
                                 Conservation* sum) const {
  sum->copies += counters.xmit_copies + counters.Sum(Part::kMade);
  sum->delivered += counters.Sum(Part::kDelivered);
  sum->dropped +=
      counters.Sum(Part::kDroppedBefore) + counters.Sum(Part::kDroppedBehind) + counters.xmit_lost;
  const auto loopback = static_cast<int64_t>(counters.loopback_queued);
  if (ended) {
    sum->died += counters.Sending() + counters.Receiving() + loopback;
  } else {
    sum->sending += counters.Sending();
    sum->receiving += counters.Receiving();
    sum->in_rings += loopback;
  }
  if (counters.ring_subnet != subnet_) return;
  sum->in_rings +=
      static_cast<int64_t>(counters.ring_sent - counters.ring_taken - counters.ring_lost);
}

// The surviving end of a ring counts the records in it. If a process dies and the other end has
// already ended, no port counts them.
void ConservationLedger::OwnerEnded(const SubnetPort& port) {
  if (port.counters == nullptr || port.counters->Load().ended != 0) return;
  const auto& ports = ports_->by_name();
  former_.joint_deaths += std::any_of(ports.begin(), ports.end(), [&port](const auto& entry) {
    const SubnetPort& other = *entry.second;
    return &other != &port && other.owner == nullptr && other.registrations != 0;
  });
}

Conservation ConservationLedger::Sum() const {
  Conservation sum = former_;
  for (const auto& [name, port] : ports_->by_name()) {
    if (port->counters != nullptr)
      Account(port->counters->Load(), /*ended=*/port->owner == nullptr, &sum);
  }
  return sum;
}

}  // namespace eoib::softhca
