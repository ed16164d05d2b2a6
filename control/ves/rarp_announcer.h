// RarpAnnouncer: announces the MACs of a VES's interfaces by reverse-ARP requests for their own
// addresses (RFC 903), as hypervisors do after a migration. Every switch on the way learns the
// address, and no host answers.
//
// Control thread.
#ifndef EOIB_CONTROL_VES_RARP_ANNOUNCER_H_
#define EOIB_CONTROL_VES_RARP_ANNOUNCER_H_

#include <cstddef>
#include <set>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/vport/vport.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/forwarder/control_queues.h"
#include "vswitch/forwarder/vlan_policy.h"

namespace eoib {

class RarpAnnouncer {
 public:
  // `vlans`: of the VES. `vports` are in the order of their indexes. All pointers outlive the
  // object.
  RarpAnnouncer(const VlanSet* vlans, const std::vector<VPort>* vports, InjectQueue* queue,
                const Clock* clock);

  // Announces all vPorts now, and again 100, 300, 700 and 1,500 ms later: peers that join a little
  // later, after the whole subnet was down, miss the first. Many vPorts are announced one after the
  // other, because each announcement is copied to all of them.
  void Start();
  // The same for the vPorts with these indexes. The announcement of the others goes on.
  void Start(const std::vector<uint32_t>& indexes);
  void Stop() { due_.clear(); }
  // Announces what is due.
  void Run();
  absl::Time NextDeadline() const;

 private:
  // The next announcement of a vPort.
  struct Announcement {
    absl::Time at;
    uint32_t index = 0;
    int sent = 0;  // announcements before this one

    friend bool operator<(const Announcement& a, const Announcement& b) {
      return a.at != b.at ? a.at < b.at : a.index < b.index;
    }
  };

  double Cost() const;
  void Announce(uint32_t index);
  absl::optional<Vid> VlanFor(const VlanPolicy& policy) const;

  const VlanSet* const vlans_;
  const std::vector<VPort>* const vports_;
  InjectQueue* const queue_;
  const Clock* const clock_;
  std::set<Announcement> due_;
  TokenBucket copies_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_RARP_ANNOUNCER_H_
