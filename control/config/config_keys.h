// The keys of the configuration, a row for each. config.cc reads a file by these rows,
// config_diff.cc compares two configurations, and config_keys_test.cc checks the documents.
#ifndef EOIB_CONTROL_CONFIG_CONFIG_KEYS_H_
#define EOIB_CONTROL_CONFIG_CONFIG_KEYS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "control/config/config.h"

namespace eoib {

// The effect of a changed value on the VES or vPort of a running agent.
enum class Effect {
  kInPlace,
  kReattached,  // the interface stays, the MACs behind it are learned again
  kReplaced,    // it is made again
  kRestart,     // nothing, until the agent restarts
};

bool IsVesName(absl::string_view name);
// Whether the kernel accepts `name` for a netdev.
bool IsNetdevName(absl::string_view name);
bool IsSocketPath(absl::string_view path);

// X(key, member, effect, default, value, help)
//   member: of AgentConfig, VesConfig or VPortConfig
//   value: a call of config.cc's RowReader, in which `key` is the name. It says which values are
//     right, and ends the message about a wrong one
//   default, help: as in the documents. `help` and the range of an integer are the first words
//     there; more may follow
#define EOIB_HOST_KEYS(X)                                                                    \
  X(workers, workers, kRestart, "1", Integer(key, 1, AgentConfig::kMostWorkers, " threads"), \
    "threads that forward")

#define EOIB_VES_KEYS(X)                                                                          \
  X(name, name, kReplaced, "required",                                                            \
    Text(key, IsVesName, "a name is 1 to 32 of the characters A-Z a-z 0-9 _ . -"),                \
    "for commands and messages; 1 to 32 of A-Z a-z 0-9 _ . -")                                    \
  X(pkey, pkey, kReplaced, "required",                                                            \
    IntegerOrString(key, 1, 0xffff, "it is a P_Key from 0x0001 to 0xffff such as 0x8001"),        \
    "the partition, with or without the high-order bit")                                          \
  X(vlans, vlans, kInPlace, "\"all\"", Vlans(key), "the VLANs that it carries")                   \
  X(header, header, kReplaced, "\"eoib\"", OneOf(key, {"eoib", "xve"}),                           \
    "what this agent sends in front of each frame")                                               \
  X(group_fwd_mask, group_fwd_mask, kInPlace, "0xfff9",                                           \
    IntegerOrString(key, 0, 0xffff,                                                               \
                    "it is a number from 0x0000 to 0xffff, in which bit x passes frames to "      \
                    "01:80:c2:00:00:0x; the default, 0xfff9, is all but pause and LACP"),         \
    "bit x passes frames to 01:80:c2:00:00:0x, as on a Linux bridge")                             \
  X(qkey, qkey, kReplaced, "0x80000000 | P_Key",                                                  \
    IntegerOrString(key, 0x8000'0000, 0xffff'ffff,                                                \
                    "it is a controlled Q_Key, from 0x80000000 to 0xffffffff"),                   \
    "Q_Key of the flood group, 0x80000000 or more")                                               \
  X(mtu, group.mtu, kReplaced, "the port's active MTU", Integer(key, 256, 4096, " bytes"),        \
    "of a datagram")                                                                              \
  X(sl, group.sl, kReplaced, "0", Integer(key, 0, Sl::kMax), "service level")                     \
  X(traffic_class, group.traffic_class, kReplaced, "0", Integer(key, 0, 255), "of the GRH")       \
  X(hop_limit, group.hop_limit, kReplaced, "0, on RoCE 64", Integer(key, 0, 255), "of the GRH")   \
  X(ageing, ageing, kInPlace, "300", Integer(key, 0, 1'000'000, " seconds (0: never)"),           \
    "seconds until a silent MAC is forgotten")                                                    \
  X(fdb_limit, fdb_limit, kInPlace, "65536", Integer(key, 1, 10'000'000, " MAC addresses"),       \
    "MACs of the VES")                                                                            \
  X(vport_fdb_limit, vport_fdb_limit, kInPlace, "no limit but fdb_limit",                         \
    Integer(key, 1, 10'000'000, " MAC addresses"), "MACs of each vPort, here or on another host") \
  X(announce, announce, kReplaced, "true", Bool(key),                                             \
    "speak the vPort protocol with the other agents")                                             \
  X(agents, agents, kInPlace, "every agent", Gids(key, 4096),                                     \
    "the ports (GIDs) of the agents whose messages count")                                        \
  X(flood, flood, kReplaced, "\"group\"", OneOf(key, {"group", "replicate"}),                     \
    "how floods reach the other agents")                                                          \
  X(move_damping, damping.action, kInPlace, "\"freeze\"",                                         \
    OneOf(key, {"freeze", "freeze_until_thawed", "warn", "off"}),                                 \
    "for a MAC that moves between hosts too often")                                               \
  X(damping_moves, damping.moves, kInPlace, "5", Integer(key, 2, MoveDamper::kMostMoves),         \
    "the number of moves that count as too often")                                                \
  X(damping_window, damping.window, kInPlace, "180", Integer(key, 1, 86'400, " seconds"),         \
    "the seconds within which they count")                                                        \
  X(damping_freeze, damping.freeze, kInPlace, "180", Integer(key, 1, 86'400, " seconds"),         \
    "the seconds for which \"freeze\" holds the MAC")

// The keys that not all kinds of vPorts have are in their VPortKind.
#define EOIB_VPORT_KEYS(X)                                                                        \
  X(name, name, kReplaced, "required",                                                            \
    Text(key, IsNetdevName,                                                                       \
         "it is an interface's name: 1 to 15 bytes, without spaces, '/', ':' and '%', and "       \
         "not \"all\" or \"default\""),                                                           \
    "also the interface's name: at most 15 bytes")                                                \
  X(ves, ves, kReattached, "required", String(key, "it is the name of a [[ves]]"),                \
    "the name of its VES")                                                                        \
  X(type, kind, kReplaced, "\"tap\"", Kind(key), "the interface is a TAP")                        \
  X(netdev, netdev, kReplaced, "required for type = \"netdev\"",                                  \
    Text(key, IsNetdevName,                                                                       \
         "it is the name of an interface of this host, such as \"eth1\": at most 15 bytes"),      \
    "the existing interface")                                                                     \
  X(socket, socket, kReplaced, "required for type = \"vhost-user\"",                              \
    Text(key, IsSocketPath,                                                                       \
         "it is the path of a socket, such as \"/run/eoib/vm1.sock\": absolute, and at most "     \
         "107 bytes"),                                                                            \
    "the socket that the agent and the virtual machine share")                                    \
  X(socket_mode, connects, kReplaced, "\"server\"", OneOf(key, {"server", "client"}),             \
    "the agent listens at the socket")                                                            \
  X(mac, mac, kReplaced, "random", Mac(key), "of the interface")                                  \
  X(mode, vlan.mode, kReattached, "\"access\"", OneOf(key, {"access", "trunk"}),                  \
    "one VLAN, untagged at the interface")                                                        \
  X(access_vlan, vlan.access_vlan, kReattached, "0", Vlan(key), "of an access port")              \
  X(trunk_vlans, vlan.trunk_vlans, kReattached, "\"all\"", Vlans(key), "of a trunk")              \
  X(native_vlan, vlan.native_vlan, kReattached, "0", Vlan(key),                                   \
    "of a trunk: the VLAN of untagged frames")                                                    \
  X(static_macs, static_macs, kReattached, "[]", Macs(key),                                       \
    "MACs behind this vPort, in its access or native VLAN")                                       \
  X(mtu, mtu, kInPlace, "the largest that a datagram of the VES carries",                         \
    Integer(key, 68, 9000, " bytes"), "of the interface")                                         \
  X(fdb_limit, fdb_limit, kInPlace, "the VES's vport_fdb_limit",                                  \
    Integer(key, 1, 10'000'000, " MAC addresses"), "MACs that are learned from it")               \
  X(sticky, sticky, kReattached, "false", Bool(key), "MACs learned from it neither age nor move") \
  X(pin_mac, pin_mac, kReattached, "true", Bool(key),                                             \
    "drop frames with the interface's MAC as source that come from elsewhere")                    \
  X(up, up, kReattached, "true", Bool(key), "set the interface up")

#define EOIB_X(key, ...) #key,
inline constexpr absl::string_view kHostKeys[] = {EOIB_HOST_KEYS(EOIB_X)};
inline constexpr absl::string_view kVesKeys[] = {EOIB_VES_KEYS(EOIB_X)};
inline constexpr absl::string_view kVPortKeys[] = {EOIB_VPORT_KEYS(EOIB_X)};
#undef EOIB_X

inline std::vector<std::string> ToKeys(absl::Span<const absl::string_view> keys) {
  return {keys.begin(), keys.end()};
}

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_CONFIG_KEYS_H_
