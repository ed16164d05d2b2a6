// The configuration of an agent: VESes and vPorts, from a TOML file.
//
// A file with any mistake is refused as a whole. The error lists every mistake with its line and
// what would be right. An unknown key is a mistake, too; the error suggests the nearest known key.
#ifndef EOIB_CONTROL_CONFIG_CONFIG_H_
#define EOIB_CONTROL_CONFIG_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "control/config/config_text.h"
#include "control/config/vport_details.h"
#include "control/config/vport_kind.h"
#include "fdb/move_damper.h"
#include "fdb/vport_address.h"  // HeaderForm
#include "vswitch/base/address.h"
#include "vswitch/forwarder/vlan_policy.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {

// Parameters of a VES's flood group, and so of every datagram of the VES. On InfiniBand they apply
// only if this agent creates the group; on an Ethernet link layer, always.
struct GroupParameters {
  absl::optional<int> mtu;  // bytes, as in MtuBytes; default: the port's active MTU
  Sl sl;                    // on an Ethernet link layer: the 802.1Q priority
  // On an Ethernet link layer: the IP traffic class (the upper six bits are the DSCP)
  uint8_t traffic_class = 0;
  // Default: 0 on InfiniBand (never routed), 64 on an Ethernet link layer.
  absl::optional<uint8_t> hop_limit;

  friend bool operator==(const GroupParameters&, const GroupParameters&) = default;
};

// How a VES floods: through its multicast group, or as unicast copies to all its agents, for a
// fabric without multicast.
enum class FloodMode { kGroup, kReplicate };

// The keys of [[ves]] and [[vport]].
inline constexpr absl::string_view kVesKeys[] = {"name",
                                                 "pkey",
                                                 "vlans",
                                                 "header",
                                                 "group_fwd_mask",
                                                 "qkey",
                                                 "mtu",
                                                 "sl",
                                                 "traffic_class",
                                                 "hop_limit",
                                                 "ageing",
                                                 "fdb_limit",
                                                 "vport_fdb_limit",
                                                 "announce",
                                                 "agents",
                                                 "flood",
                                                 "move_damping",
                                                 "damping_moves",
                                                 "damping_window",
                                                 "damping_freeze"};
inline constexpr absl::string_view kVPortKeys[] = {
    "name", "ves",       "type",        "netdev",      "socket",      "socket_mode",
    "mac",  "mode",      "access_vlan", "trunk_vlans", "native_vlan", "static_macs",
    "mtu",  "fdb_limit", "sticky",      "pin_mac",     "up"};

inline std::vector<std::string> ToKeys(absl::Span<const absl::string_view> keys) {
  return {keys.begin(), keys.end()};
}

// [[ves]]: one partition of the subnet as one switch.
struct VesConfig {
  std::string name;  // unique; [A-Za-z0-9_.-]{1,32}
  PKey pkey;         // the partition, as a full or limited member
  VlanSet vlans =
      VlanSet::All();         // "vlans = [0, 10, \"100-199\"]"; default all. 0: untagged frames
  absl::optional<QKey> qkey;  // default 0x80000000 | P_Key; controlled
  GroupParameters group;      // "mtu", "sl", "traffic_class", "hop_limit"
  absl::Duration ageing = absl::Seconds(300);  // "ageing = 300", seconds; 0: never
  size_t fdb_limit = 65536;                    // MACs of the VES
  // MACs of each vPort, local or remote; default: only the VES's limit.
  absl::optional<size_t> vport_fdb_limit;
  // "flood = \"group\"" or "replicate", which needs `announce`.
  FloodMode flood = FloodMode::kGroup;
  // Each with a queue pair and a forwarder; not in the file. See `workers`.
  size_t queues = 1;
  // Speak the vPort protocol; false: be learned from traffic only.
  bool announce = true;
  MoveDamper::Options
      damping;   // "move_damping", "damping_moves", "damping_window", "damping_freeze"
  int line = 0;  // of its table in the file
  // "group_fwd_mask = 0xfff9": bit x forwards frames to 01:80:c2:00:00:0x. Bit 1, pause, is never
  // set.
  uint16_t group_fwd_mask = kDefaultGroupForwardMask;
  // "agents = [\"fe80::2:c903:e:b72\"]": only messages of agents at these ports (GIDs) count;
  // default: of every agent.
  absl::optional<std::vector<Gid>> agents;
  // "header = \"eoib\"" or "xve": what this agent sends; it accepts both.
  HeaderForm header = HeaderForm::kEoib;

  // Whether this agent may send segments: it hears who takes them, and its header has a place for
  // them.
  bool SendsSegments() const { return announce && header == HeaderForm::kEoib; }
  friend bool operator==(const VesConfig&, const VesConfig&) = default;
};

// [[vport]]: a port of a VES on this host.
struct VPortConfig {
  // Sticky MACs never age, so without a limit one port could fill the VES's FDB permanently.
  static constexpr size_t kStickyLimit = 1024;

  std::string name;                    // unique; also the netdev's name, so at most 15 bytes
  std::string ves;                     // the name of its VES
  const VPortKind* kind = &kTapVPort;  // "type"
  std::string netdev;  // if type = "netdev": the interface, which exists without the agent
  std::string socket;  // if type = "vhost-user": that of the virtual machine's interface
  // "socket_mode = \"client\"": connect to the socket, where the machine listens.
  bool connects = false;
  absl::optional<MacAddr> mac;  // of the netdev; default: random, kept in the state directory
  VlanPolicy vlan;              // mode, access_vlan, trunk_vlans, native_vlan
  // Always behind it, in its access (or native) VLAN; never learned elsewhere.
  std::vector<MacAddr> static_macs;
  // The netdev's MTU; default: the VES's. It may be larger, up to 9000, if the kind
  // takes_segments and the VES SendsSegments.
  absl::optional<int> mtu;
  // Of MACs learned on it; default: vport_fdb_limit, or if sticky kStickyLimit.
  absl::optional<size_t> fdb_limit;
  bool sticky = false;  // MACs learned on it neither age nor move
  bool up = true;       // set the interface up
  // Drop frames with the netdev's MAC as source that come from elsewhere.
  bool pin_mac = true;
  VPortDetails details;  // of eoib-gateway's kinds
  int line = 0;
  friend bool operator==(const VPortConfig&, const VPortConfig&) = default;
};

struct AgentConfig {
  // An agent announces at most this number of queue pairs of a VES.
  static constexpr size_t kMostWorkers = 8;

  std::vector<VesConfig> veses;
  std::vector<VPortConfig> vports;
  // Threads that forward; a VES has a queue for each. A running agent keeps their number.
  size_t workers = 1;
  bool realtime = false;  // see Worker; not in the file. See --realtime
};

// `source` is the file's name in messages. kInvalidArgument: "eoibd.toml:12: ...", one line for
// each mistake.
absl::StatusOr<AgentConfig> ParseConfig(absl::string_view toml, absl::string_view source);
absl::StatusOr<AgentConfig> ParseConfig(const ConfigText& config);
// With the file's drop-ins. kNotFound if there is no such file: the message shows a minimal one.
absl::StatusOr<ConfigText> LoadConfigText(const std::string& path);
absl::StatusOr<AgentConfig> LoadConfig(const std::string& path);

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_CONFIG_H_
