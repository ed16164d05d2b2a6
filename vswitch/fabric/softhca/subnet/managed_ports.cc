#include "vswitch/fabric/softhca/subnet/managed_ports.h"

#include <algorithm>

#include "vswitch/fabric/link_rate.h"

namespace eoib::softhca {
namespace {

// PortInfo's CapabilityMask (IBA 1.4 §14.2.5.6).
constexpr uint32_t kIsSm = 1u << 1;
constexpr uint32_t kIsClientReregistrationSupported = 1u << 25;
// LinkSpeedActive: 10 Gb/s a lane, the fastest that this field can name.
constexpr uint8_t kQdr = 4;

void SetActive(PortInfo* info) {
  info->state = PortState::kActive;
  info->physical_state = PhysicalState::kLinkUp;
}

}  // namespace

bool ShareAPartition(const std::vector<PKey>& a, const std::vector<PKey>& b) {
  return std::any_of(a.begin(), a.end(), [&b](PKey one) {
    return std::any_of(b.begin(), b.end(), [one](PKey other) { return one.Matches(other); });
  });
}

bool MayKnow(const PortConfig& port, const PortConfig& other) {
  return port.gid == other.gid || ShareAPartition(port.pkeys, other.pkeys);
}

bool IsMemberOfPartition(const PortConfig& port, PKey pkey) {
  // SamePartition, unlike Matches, holds for two limited members, too.
  return std::any_of(port.pkeys.begin(), port.pkeys.end(),
                     [&](PKey own) { return own.IsValid() && own.SamePartition(pkey); });
}

NodeInfo NodeInfoOf(const ManagedPort& port) {
  NodeInfo info;
  info.type = NodeType::kChannelAdapter;
  info.ports = 1;
  info.system_image_guid = info.node_guid = port.config.node_guid;
  info.port_guid = port.config.port_guid;
  info.partition_cap = kMaxPKeys;
  info.local_port = kHcaPort;
  return info;
}

NodeInfo NodeInfoOf(const ManagedSwitch& node, uint8_t local_port) {
  NodeInfo info;
  info.type = NodeType::kSwitch;
  info.ports = ManagedSwitch::kPorts;
  info.system_image_guid = info.node_guid = info.port_guid = node.guid;
  info.partition_cap = 1;
  info.local_port = local_port;
  return info;
}

PortInfo PortInfoOf(const ManagedPort& port) {
  PortInfo info;
  info.gid_prefix = port.config.gid.prefix();
  info.lid = port.config.lid.value();
  info.sm_lid = port.config.sm_lid.value();
  info.capability_mask = kIsClientReregistrationSupported;
  info.local_port = kHcaPort;
  LinkForm form = LinkFormOf(port.config.rate);
  // Faster links also set LinkSpeedExtActive, which PortInfo lacks here.
  form.speed = std::min(form.speed, kQdr);
  info.width_enabled = info.width_supported = info.width_active = form.width;
  info.speed_enabled = info.speed_supported = info.speed_active = form.speed;
  info.neighbor_mtu = info.mtu_cap = port.config.mtu;
  if (port.config.active) SetActive(&info);
  return info;
}

PortInfo PortInfoOf(const ManagedSwitch& node) {
  PortInfo info;
  info.gid_prefix = node.gid.prefix();
  info.lid = info.sm_lid = node.lid.value();
  info.capability_mask = node.runs_sm ? kIsSm : 0;
  info.local_port = 0;
  SetActive(&info);
  return info;
}

absl::optional<PKeyTableBlock> PKeyBlockOf(const PortConfig& port, size_t block) {
  PKeyTableBlock entries{};
  if (block >= kMaxPKeys / entries.size()) return absl::nullopt;
  for (size_t i = 0; i < entries.size(); ++i) {
    const size_t index = block * entries.size() + i;
    if (index < port.pkeys.size()) entries[i] = port.pkeys[index];
  }
  return entries;
}

size_t PKeyBlocks(const PortConfig& port) {
  constexpr size_t kEntries = std::tuple_size_v<PKeyTableBlock>;
  return (port.pkeys.size() + kEntries - 1) / kEntries;
}

}  // namespace eoib::softhca
