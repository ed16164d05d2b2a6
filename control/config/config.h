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

// [[ves]]: one partition of the subnet as one switch. config_keys.h explains the keys.
struct VesConfig {
  std::string name;  // unique
  PKey pkey;         // full or limited member
  VlanSet vlans = VlanSet::All();
  absl::optional<QKey> qkey;  // controlled
  GroupParameters group;
  absl::Duration ageing = absl::Seconds(300);
  size_t fdb_limit = 65536;
  absl::optional<size_t> vport_fdb_limit;
  FloodMode flood = FloodMode::kGroup;  // kReplicate needs `announce`
  // Each with a queue pair and a forwarder; not in the file. See `workers`.
  size_t queues = 1;
  bool announce = true;
  MoveDamper::Options damping;
  int line = 0;                                        // of its table in the file
  uint16_t group_fwd_mask = kDefaultGroupForwardMask;  // without bit 1, pause
  absl::optional<std::vector<Gid>> agents;             // absent: every agent
  HeaderForm header = HeaderForm::kEoib;               // what this agent sends; it accepts both

  // Whether this agent may send segments: it hears who takes them, and its header has a place for
  // them.
  bool SendsSegments() const { return announce && header == HeaderForm::kEoib; }
  friend bool operator==(const VesConfig&, const VesConfig&) = default;
};

// [[vport]]: a port of a VES on this host. config_keys.h explains the keys.
struct VPortConfig {
  // Sticky MACs never age, so without a limit one port could fill the VES's FDB permanently.
  static constexpr size_t kStickyLimit = 1024;

  std::string name;  // unique; also the netdev's name, so at most 15 bytes
  std::string ves;
  const VPortKind* kind = &kTapVPort;
  std::string netdev;           // of kNetdevVPort
  std::string socket;           // of kVhostVPort
  bool connects = false;        // to the socket, where the machine listens
  absl::optional<MacAddr> mac;  // default: random, kept in the state directory
  VlanPolicy vlan;
  std::vector<MacAddr> static_macs;
  // Default: the VES's. It may be larger if the kind takes_segments and the VES SendsSegments.
  absl::optional<int> mtu;
  // Default: vport_fdb_limit, or if sticky kStickyLimit.
  absl::optional<size_t> fdb_limit;
  bool sticky = false;
  bool up = true;
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
// With the file's drop-ins, for the agent with that --name. kNotFound if there is no such file: the
// message shows a minimal one.
absl::StatusOr<ConfigText> LoadConfigText(const std::string& path, absl::string_view agent = "");
absl::StatusOr<AgentConfig> LoadConfig(const std::string& path);

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_CONFIG_H_
