// Uplink: the control half of an uplink. It runs the election, watches both sides, and after a
// failover tells both of them where the stations of the other one are. The data path is its
// UplinkPort, a vPort of the VES.
//
// Threads: the control thread, inside of the event loop or of its VES (VPortSpeaker).
//
// Ownership: the vPort owns the port, and keeps the uplink alive until the port is destroyed.
// Registry, capture targets and event loop name it until its destructor. Invariant: the port
// forwards in the VLANs and until the time that PublishStates has told it; when this gateway
// releases VLANs, that comes before the hellos which say so.
#ifndef EOIB_GATEWAY_UPLINK_UPLINK_H_
#define EOIB_GATEWAY_UPLINK_UPLINK_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "control/subnet/fabric_port.h"
#include "control/vport/vport.h"
#include "control/vport/vport_speaker.h"
#include "fdb/fdb_key.h"
#include "gateway/election/uplink_election.h"
#include "gateway/uplink/uplink_config.h"
#include "gateway/uplink/uplink_port.h"
#include "gateway/uplink/wire_socket.h"
#include "vswitch/base/counters.h"
#include "vswitch/base/daemon/answer.h"
#include "vswitch/base/daemon/event_loop.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/base/daemon/metric_set.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::gateway {

// X(member, help)
#define EOIB_UPLINK_COUNTERS(X)                                                            \
  X(hellos_sent, "hellos sent, on both sides")                                             \
  X(hellos_from_ves, "hellos of other gateways that came through the VES")                 \
  X(hellos_from_wire, "hellos in the names of other gateways that came over the wire")     \
  X(hellos_malformed, "messages on the wire of the switch's EtherType that are no hellos") \
  X(hellos_forged, "hellos whose sender's address is not the one in the hello")            \
  X(hellos_unlisted, "hellos from a GID that `peers` does not list")                       \
  X(vlan_changes, "times that a VLAN became active here or ceased to be")                  \
  X(macs_taken_over, "MACs of the wire that were claimed in the VES after a failover")     \
  X(macs_advertised, "frames that told the wire where stations of the VES are, after a failover")

struct UplinkCounters {
  EOIB_COUNTERS(UplinkCounters, uint64_t, EOIB_UPLINK_COUNTERS)
};

class Uplink;

// The registry of this process's uplinks.
class Uplinks {
 public:
  void Add(Uplink* uplink) { all_.push_back(uplink); }
  void Remove(Uplink* uplink);
  const std::vector<Uplink*>& all() const { return all_; }
  // The uplink of that name, or all if `name` is empty. The error lists the existing ones.
  absl::StatusOr<std::vector<Uplink*>> Find(absl::string_view name) const;

 private:
  std::vector<Uplink*> all_;
};

class Uplink final : public VPortInterface, public VPortSpeaker {
 public:
  // Outlives the uplink.
  struct Context {
    EventLoop* loop;
    const Clock* clock;
    Uplinks* registry;
    FabricPort* fabric;
  };
  static constexpr absl::Duration kCheckInterval = absl::Milliseconds(100);  // of the netdev
  // Without `edge`: twice the forward delay of IEEE 802.1Q-2018 §13.26. A frame from the wire shows
  // earlier that it forwards.
  static constexpr absl::Duration kForwardDelay = absl::Seconds(30);
  static constexpr int kAdvertsATurn = 64;  // every 10 ms
  // Between two times that the VES hears in which VLANs this gateway is active: stations of the
  // wire can cause many changes.
  static constexpr absl::Duration kFollowInterval = absl::Milliseconds(100);
  static constexpr size_t kMaxStations = 65536;
  static constexpr size_t kMaxAddresses = 4;  // of a station

  // Makes an uplink and its port. `vport` has an UplinkConfig as its details; `own` is the MAC of
  // its own frames. The vPort keeps it alive.
  static absl::StatusOr<VPort> MakeVPort(const VPortConfig& vport, MacAddr own,
                                         const Context& context);
  ~Uplink() override;

  const std::string& name() const { return config_.name; }
  Json Show() const;
  Json Counters() const;
  void Collect(const MetricSet::Labels& labels, MetricSet* metrics) const;

  // VPortInterface. A change of `peers` by which the uplink is no longer alone, or becomes so,
  // begins another election.
  absl::Status SetLink(bool up) override;
  void Adjust(const VPortConfig& vport) override;
  absl::optional<std::string> Check() override;
  std::string Describe(uint32_t ves_mtu) override;
  VPortSpeaker* speaker() override { return this; }

  // VPortSpeaker.
  void OnMessage(Ves* ves, absl::Span<const uint8_t> payload, const PeerAddress& from) override;
  void Run(Ves* ves) override;
  absl::Time NextDeadline() const override;
  void Leave(Ves* ves) override;

 private:
  Uplink(const UplinkConfig& config, MacAddr own, const Context& context, WireSocket wire);

  void CheckSides(Ves* ves, absl::Time now);
  std::string WhyDown(const Ves& ves, absl::Time now);
  bool IsAlone(const Gid& own) const;
  bool IsListed(const UplinkHello& hello);
  void OnWireMessage(absl::Span<const uint8_t> payload);
  void Send(Ves* ves, const std::vector<UplinkHello>& hellos);
  void PublishStates();
  void Inherit(Ves* ves);
  void FollowChanges(Ves* ves, absl::Time now);
  void TakeOver(Ves* ves, const VlanSet& vlans);
  void NoteAddresses();
  void Advertise();
  std::vector<std::vector<uint8_t>> AdvertsFor(FdbKey station) const;

  UplinkConfig config_;
  const MacAddr own_mac_;
  const Vid hello_vid_;  // on the wire
  const Context context_;
  WireSocket wire_;
  UplinkPort* port_ = nullptr;  // owned by the vPort, which destroys it before this
  UplinkElection election_;
  UplinkCounters counters_;
  bool ves_up_ = false;
  bool elects_again_ = false;
  std::string trouble_ = "it starts";  // why it does not stand for election
  bool wire_was_up_ = false, wire_forwards_ = false;
  absl::Time wire_up_since_;
  absl::Time check_at_ = absl::InfinitePast();
  VlanSet published_;                             // VLANs in which the port forwards
  VlanSet gained_, lost_;                         // since FollowChanges
  absl::optional<absl::Duration> last_failover_;  // from the last hello of the former gateway on
  absl::Time follow_at_ = absl::InfinitePast();   // not before
  LogLimiter changes_log_;
  // MACs of a gateway that has released them.
  std::vector<FdbKey> inherited_;
  absl::flat_hash_map<FdbKey, std::vector<IpAddr>> addresses_;  // of stations of the VES
  std::deque<FdbKey> to_advertise_;
  absl::Time advertise_at_ = absl::InfiniteFuture();
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_UPLINK_UPLINK_H_
