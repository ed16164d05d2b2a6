// VPortKind: what control has to know about a kind of vPort. The kinds of [[vport]] are here, those
// of a gateway and of an embedded switch in their rooms. A program makes the ports of its kinds in
// its Agent::PortFactory.
#ifndef EOIB_CONTROL_CONFIG_VPORT_KIND_H_
#define EOIB_CONTROL_CONFIG_VPORT_KIND_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace eoib {

struct VPortKind {
  struct Key {
    absl::string_view name, text;
  };

  absl::string_view name;  // the value of the key "type"
  // The agent chooses a MAC if the configuration has none. False: the stations behind the vPort
  // have MACs of their own.
  bool has_mac = true;
  bool takes_segments = false;       // its MTU may be larger than a datagram of the VES
  absl::Span<const Key> own = {};    // keys that no other kind has; text: an example if required
  absl::Span<const Key> lacks = {};  // keys that the other kinds have; text: why
  // The operator's word for a vPort of this kind, and what a replacement costs.
  absl::string_view noun = "vPort", if_replaced = "its link goes down for a moment";
};

inline constexpr VPortKind kTapVPort{.name = "tap", .takes_segments = true};

// Without an interface, for trying out a configuration. It discards frames.
inline constexpr VPortKind kTestVPort{.name = "test"};

inline constexpr VPortKind::Key kNetdevKeys[] = {{"netdev", "\"eth1\", an interface of this host"}};
inline constexpr VPortKind::Key kNetdevLacks[] = {
    {"mac", "the netdev keeps its MAC (ip link set NETDEV address MAC)"},
    {"mtu", "the netdev keeps its MTU (ip link set NETDEV mtu BYTES)"},
    {"up", "the agent does not set the netdev up (ip link set NETDEV up)"},
    {"pin_mac", "the vPort has no MAC of its own; use static_macs for those behind it"}};
inline constexpr VPortKind kNetdevVPort{
    .name = "netdev", .has_mac = false, .own = kNetdevKeys, .lacks = kNetdevLacks};

inline constexpr VPortKind::Key kVhostKeys[] = {
    {"socket", "\"/run/eoib/vm1.sock\", the socket that the virtual machine uses, too"},
    {"socket_mode", ""}};
inline constexpr VPortKind::Key kVhostLacks[] = {
    {"mac", "the guest has its own MAC (QEMU: -device virtio-net-pci,mac=...)"},
    {"up", "the guest sets its interface up"},
    {"pin_mac", "the vPort has no MAC of its own; use static_macs for the guest's"}};
inline constexpr VPortKind kVhostVPort{.name = "vhost-user",
                                       .has_mac = false,
                                       .takes_segments = true,
                                       .own = kVhostKeys,
                                       .lacks = kVhostLacks};

// The kinds that [[vport]] may have.
inline constexpr const VPortKind* kVPortKinds[] = {&kTapVPort, &kTestVPort, &kNetdevVPort,
                                                   &kVhostVPort};

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_VPORT_KIND_H_
