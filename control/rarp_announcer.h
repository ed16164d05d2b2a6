// RarpAnnouncer: announces the MACs of a VES's interfaces by reverse-ARP requests for their own addresses (RFC 903), as
// hypervisors do after a migration. Every switch on the way learns the address, and no host answers.
//
// Control thread.
#ifndef EOIB_CONTROL_RARP_ANNOUNCER_H_
#define EOIB_CONTROL_RARP_ANNOUNCER_H_

#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/vport.h"
#include "vswitch/base/clock.h"
#include "vswitch/control_queues.h"
#include "vswitch/vlan_policy.h"

namespace eoib {

class RarpAnnouncer {
 public:
  // `vlans`: of the VES. All pointers outlive the object.
  RarpAnnouncer(const VlanSet& vlans, const std::vector<VPort>* vports, InjectQueue* queue, const Clock* clock)
      : vlans_(vlans), vports_(vports), queue_(queue), clock_(clock) {}

  // Announces now, and again 100, 300, 700 and 1,500 ms later: peers that join a little later, after the whole subnet was
  // down, miss the first.
  void Start();
  void Stop() { next_ = absl::InfiniteFuture(); }
  // Announces if that is due.
  void Run();
  absl::Time NextDeadline() const { return next_; }

 private:
  void Announce();
  absl::optional<Vid> VlanFor(const VlanPolicy& policy) const;

  const VlanSet vlans_;
  const std::vector<VPort>* const vports_;
  InjectQueue* const queue_;
  const Clock* const clock_;
  int sent_ = 0;  // in the present series
  absl::Time next_ = absl::InfiniteFuture();
};

}  // namespace eoib

#endif  // EOIB_CONTROL_RARP_ANNOUNCER_H_
