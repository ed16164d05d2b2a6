// LocalClaims: the MACs behind our vPorts that we announce, and when we stop.
//
// A vPort's configured MACs are claimed at once. A MAC that is learned at a vPort is claimed as
// soon as the worker reports it, at most kMaxLearned for each vPort; others find the rest by
// flooding and learning. README.md ("The vPort protocol in a VES") says when it claims, and
// protocol/README.md which claim holds.
#ifndef EOIB_CONTROL_VES_LOCAL_CLAIMS_H_
#define EOIB_CONTROL_VES_LOCAL_CLAIMS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "control/protocol/vport_protocol.h"
#include "fdb/fdb.h"
#include "fdb/fdb_key.h"
#include "fdb/vport.h"
#include "vswitch/base/clock.h"

namespace eoib {

// Control thread only. The constructor's arguments outlive it.
class LocalClaims {
 public:
  static constexpr size_t kMaxLearned = 1024;
  // After another agent took a MAC, frames from it at our vPort do not claim it back for this long:
  // the former host of a guest that migrated may still have some in its queues. Then its agent is
  // asked: it releases the MAC if the station is silent there.
  static constexpr absl::Duration kHoldDown = absl::Milliseconds(100);
  // A claimed MAC that is heard from elsewhere is released if its station stays silent for this
  // long.
  static constexpr absl::Duration kContest = absl::Milliseconds(1500);
  // Claims that a Run checks. A vPort may have thousands of MACs, and control has other work.
  static constexpr size_t kSlice = 256;

  LocalClaims(VPortProtocol* protocol, Fdb* fdb, const Clock* clock);

  struct ConfiguredMac {
    FdbKey key;
    bool sticky = false;  // frames from elsewhere do not move it
  };

  // `id` names the vPort in announcements. MACs that are learned there are sticky if it is
  // (`sticky`).
  void AddVPort(VPortId vport, uint16_t id, bool sticky,
                const std::vector<ConfiguredMac>& configured);

  // The vPort and its MACs are gone.
  void RemoveVPort(VPortId vport);

  // `key` was learned at our `vport`. `moved`: it was known behind another host, whose claim may
  // still be on its way.
  void OnLearned(FdbKey key, VPortId vport, bool moved);
  // `key`, which another agent has announced, was heard at our `vport`.
  void OnHeard(FdbKey key, VPortId vport);
  // Our `vport` stands in for another agent's, behind which `key` was.
  void TakeOver(FdbKey key, VPortId vport) { Take(key, vport); }
  // `key`, which we claim, was heard from elsewhere, as a frame or another agent's question tells.
  void OnContested(FdbKey key);
  // A vPort of ours is down, and the FDB has no learned MACs there.
  void OnPortDown() { ReleaseGone(); }
  // Another agent has `key` now.
  void OnLost(FdbKey key);
  // Whether `key` is configured at a vPort of ours and stays there.
  bool IsPinned(FdbKey key) const {
    const auto claim = claims_.find(key);
    return claim != claims_.end() && claim->second.configured && claim->second.sticky;
  }
  // Whether we claim `key`.
  bool Has(FdbKey key) const { return claims_.contains(key); }

  // Each second, makes the claims agree with the FDB: releases those of MACs that left their vPort,
  // and takes, with `takes_unreported`, those of learned MACs that no report told of. Configured
  // sticky MACs are claimed and in the FDB at all times, also after they aged out or were flushed,
  // and whatever other agents claim.
  void Run(bool takes_unreported = true);
  absl::Time NextDeadline() const;

 private:
  struct LocalVPort {
    uint16_t id = 0;
    bool sticky = false;
    size_t learned = 0;  // claims of learned MACs
  };
  struct Claim {
    VPortId vport;
    bool configured = false;
    bool sticky = false;
  };

  void Take(FdbKey key, VPortId vport, uint32_t least = 1);
  void Release(FdbKey key);
  void ReleaseOneOf(VPortId vport);
  void ReleaseGone();
  void Check(FdbKey key);
  void TakeUnreported();
  void AskAboutReturned();
  void JudgeContests();

  VPortProtocol* const protocol_;
  Fdb* const fdb_;
  const Clock* const clock_;
  absl::flat_hash_map<VPortId, LocalVPort> vports_;
  absl::flat_hash_map<FdbKey, Claim> claims_;
  absl::flat_hash_map<FdbKey, absl::Time> lost_;  // taken by another agent: when
  // Heard at our vPort during the hold-down: when that ends.
  absl::flat_hash_map<FdbKey, absl::Time> returned_;
  absl::flat_hash_map<FdbKey, absl::Time> contested_;  // heard from elsewhere: since when
  absl::Time check_at_;
  std::vector<FdbKey> unchecked_;  // of the check that runs
  // Configured MACs that the FDB has learned at each vPort.
  absl::flat_hash_map<VPortId, size_t> held_configured_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_LOCAL_CLAIMS_H_
