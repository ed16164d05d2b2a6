// UplinkElection: decides in which VLANs of an uplink this gateway is the active one, by hellos on
// both sides of the uplink. README.md, "Several gateways", has the rules. Each VLAN is a Contest
// that listens for 600 ms, waits 150 ms for objections and 500 ms for hellos, and 20 ms to succeed
// a gateway that releases it through the VES. An active gateway whose lease is over listens again.
//
// A hello of the wire can only lead to kStandby: any station of the wire may have sent it.
//
// A state machine without I/O; the caller supplies the time.
//
// Threads: the control thread; its Uplink owns it. Invariants: a gateway with others forwards only
// until its lease ends. A gateway whose control thread hangs therefore stops before another one
// stands for election. Each hello begins a new lease, so the caller sends what Run returns, and
// then takes over lease(). The state of a VLAN changes in Enter only.
#ifndef EOIB_GATEWAY_ELECTION_UPLINK_ELECTION_H_
#define EOIB_GATEWAY_ELECTION_UPLINK_ELECTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gateway/election/contest.h"
#include "gateway/election/uplink_hello.h"
#include "vswitch/base/address.h"
#include "vswitch/forwarder/vlan_policy.h"

namespace eoib::gateway {

class UplinkElection {
 public:
  using State = Contest::State;
  using Claim = UplinkHello::Claim;

  static constexpr absl::Duration kInterval = absl::Milliseconds(100);  // between hellos
  // Between hellos that others cause, and between two times that hellos of the wire are handled:
  // stations of the wire can send any number of them.
  static constexpr absl::Duration kMinInterval = absl::Milliseconds(10);
  // After a hello its sender may forward for this time; after this silence another gateway stands
  // for election. The hello was sent before it was heard, so the first ends before the second.
  static constexpr absl::Duration kLease = absl::Milliseconds(500);
  static constexpr absl::Duration kListen = absl::Milliseconds(600);  // at the start
  // A candidate waits this time for objections.
  static constexpr absl::Duration kClaim = absl::Milliseconds(150);
  // A successor waits this time, until copies of frames that its predecessor has forwarded are
  // gone.
  static constexpr absl::Duration kGuard = absl::Milliseconds(20);
  // The caller was held up if Run is so late. It has hellos to read that arrived meanwhile.
  static constexpr absl::Duration kLate = absl::Milliseconds(150);

  // A gateway that was silent for this time may go on with smaller numbers, if no former hello can
  // have them.
  static constexpr absl::Duration kForget = absl::Seconds(2);
  static constexpr uint64_t kMostHellos = 100'000;

  struct Options {
    PKey ves;
    std::string uplink;
    uint8_t priority = 100;
    VlanSet vlans;
    uint64_t first_sequence = 0;  // larger than those of former runs, if possible
  };

  explicit UplinkElection(const Options& options);

  // Both sides are up. `own` is this gateway's GID. `alone`: there are no other gateways; active at
  // once, without hellos.
  void Up(const Gid& own, bool alone, absl::Time now);
  // One side is down, or the gateway stops. Returns the hellos by which it releases its VLANs; it
  // has stopped before they leave.
  std::vector<UplinkHello> Down(absl::Time now);
  // For the next hello and the next election.
  void SetPriority(uint8_t priority) { options_.priority = priority; }
  // A hello of a configured peer that came through the VES, so its GID is that of its sender.
  // Copies have no effect.
  void OnHello(const UplinkHello& hello, absl::Time now);
  // A hello in the name of a configured peer that came over the wire. Run handles it.
  void OnWireHello(const UplinkHello& hello, absl::Time now);
  // Returns the hellos that are due. The caller sends them at once, on both sides, and then takes
  // over lease(). Call it at NextDeadline.
  std::vector<UplinkHello> Run(absl::Time now);
  absl::Time NextDeadline() const;

  bool is_up() const { return up_; }
  const Gid& own() const { return own_; }
  // Until when this gateway may forward.
  absl::Time lease() const { return lease_; }
  bool active(Vid vid) const { return StateOf(vid) == State::kActive; }
  State StateOf(Vid vid) const;
  VlanSet In(State state) const;
  // The gateway that is active in a VLAN in which this one is not, as far as it knows; else zero.
  Gid ActiveIn(Vid vid) const;
  // When a hello of that gateway, or in its name, last came on either side, or on the wire; else
  // InfinitePast.
  absl::Time Heard(const Gid& gid) const;
  absl::Time HeardOnWire(const Gid& gid) const;
  // What a gateway has said through the VES.
  struct Peer {
    absl::Time heard;
    uint8_t priority = 0;
    uint64_t sequence = 0;
    std::string uplink;
    std::array<Claim, Vid::kMax + 1> claims{};
  };
  const std::map<Gid, Peer>& peers() const { return peers_; }

 private:
  // What came over the wire in the name of a gateway. Nothing here takes back an earlier claim, so
  // there is no sequence: a forged one could silence the gateway.
  struct WirePeer {
    absl::Time heard;
    std::array<absl::Time, Vid::kMax + 1> active;  // when it last claimed the VLAN
    // Since HandleWire.
    VlanSet claims_active, claims_candidate;
    uint8_t priority = 0;  // the highest
  };
  struct Vlan {
    Vid vid;
    Contest contest;
    Gid other;  // the active gateway, while this one stands by
  };

  bool IsBetter(const Gid& gid, uint8_t priority, Vid vid) const;
  void Enter(Vlan* vlan, State state, absl::Time until = absl::InfiniteFuture());
  void StandBy(Vlan* vlan, const Gid& other, absl::Time now);
  void OnClaim(Vlan* vlan, Claim claim, const Gid& from, uint8_t priority, absl::Time now);
  void OnRelease(Vlan* vlan, const UplinkHello& hello, absl::Time now);
  void HandleWire(absl::Time now);
  void NoteLate(absl::Time now);
  Gid SuccessorIn(Vid vid, absl::Time now) const;
  Gid ClaimantIn(Vid vid, const Gid& but, absl::Time now) const;
  absl::Time HelloDeadline() const;
  UplinkHello NewHello(const Gid& successor = Gid());
  std::vector<UplinkHello> Hellos(const std::vector<std::pair<Vid, Claim>>& claims,
                                  const Gid& successor = Gid());

  Options options_;
  bool up_ = false;
  bool alone_ = false;
  Gid own_;
  uint64_t sequence_;
  std::vector<Vlan> vlans_;                      // in order
  std::array<uint16_t, Vid::kMax + 1> index_{};  // in vlans_, + 1; 0: not one of the uplink's
  std::map<Gid, Peer> peers_;
  std::map<Gid, WirePeer> wire_peers_;
  absl::Time wire_handled_ = absl::InfinitePast();
  absl::Time handle_wire_at_ = absl::InfiniteFuture();
  absl::Time lease_ = absl::InfinitePast();
  absl::Time next_hello_ = absl::InfiniteFuture();
  absl::Time next_until_ = absl::InfiniteFuture();  // the earliest end of a state
  absl::Time last_run_ = absl::InfinitePast();
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_ELECTION_UPLINK_ELECTION_H_
