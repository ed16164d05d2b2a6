#include "vswitch/wire/ib/perf_mad.h"

#include <algorithm>
#include <limits>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ib/attribute_codec.h"

namespace eoib {
namespace {

// IBA 1.4 §16.1.3.5.
struct PortCountersWire {
  uint8_t reserved = 0;
  uint8_t port = 0;
  be16 select;
  be16 symbol_errors;
  uint8_t link_error_recoveries = 0;
  uint8_t link_downed = 0;
  be16 rcv_errors;
  be16 rcv_remote_physical_errors;
  be16 rcv_switch_relay_errors;
  be16 xmit_discards;
  uint8_t xmit_constraint_errors = 0;
  uint8_t rcv_constraint_errors = 0;
  uint8_t select2 = 0;
  uint8_t integrity_overrun_errors = 0;  // 4 | 4
  be16 qp1_dropped;
  be16 vl15_dropped;
  be32 xmit_data;
  be32 rcv_data;
  be32 xmit_packets;
  be32 rcv_packets;
  be32 xmit_wait;
};
static_assert(sizeof(PortCountersWire) == kPortCountersSize);

// §16.1.4.11.
struct PortCountersExtendedWire {
  uint8_t reserved = 0;
  uint8_t port = 0;
  be16 select;
  be32 select2;
  be64 xmit_data;
  be64 rcv_data;
  be64 xmit_packets;
  be64 rcv_packets;
  be64 unicast_xmit_packets;
  be64 unicast_rcv_packets;
  be64 multicast_xmit_packets;
  be64 multicast_rcv_packets;
};
static_assert(sizeof(PortCountersExtendedWire) == kPortCountersExtendedSize);

// A counter that has reached its field's largest value stays there until it is cleared (§16.1.3.5).
template <typename Integer>
Integer Saturate(uint64_t value) {
  return static_cast<Integer>(std::min<uint64_t>(value, std::numeric_limits<Integer>::max()));
}

}  // namespace

void EncodePortCounters(const PortCountersAttribute& counters, absl::Span<uint8_t> bytes) {
  PortCountersWire wire;
  wire.port = counters.port;
  wire.select = counters.select;
  wire.rcv_errors = Saturate<uint16_t>(counters.rcv_errors);
  wire.xmit_discards = Saturate<uint16_t>(counters.xmit_discards);
  wire.xmit_constraint_errors = Saturate<uint8_t>(counters.xmit_constraint_errors);
  wire.rcv_constraint_errors = Saturate<uint8_t>(counters.rcv_constraint_errors);
  wire.vl15_dropped = Saturate<uint16_t>(counters.vl15_dropped);
  wire.xmit_data = Saturate<uint32_t>(counters.xmit_data);
  wire.rcv_data = Saturate<uint32_t>(counters.rcv_data);
  wire.xmit_packets = Saturate<uint32_t>(counters.xmit_packets);
  wire.rcv_packets = Saturate<uint32_t>(counters.rcv_packets);
  WriteAttribute(wire, bytes);
}

absl::StatusOr<PortCountersAttribute> DecodePortCounters(absl::Span<const uint8_t> bytes) {
  const auto wire = ReadAttribute<PortCountersWire>(bytes, "PortCounters");
  if (!wire.ok()) return wire.status();
  PortCountersAttribute counters;
  counters.port = wire->port;
  counters.select = wire->select.value();
  counters.rcv_errors = wire->rcv_errors.value();
  counters.xmit_discards = wire->xmit_discards.value();
  counters.xmit_constraint_errors = wire->xmit_constraint_errors;
  counters.rcv_constraint_errors = wire->rcv_constraint_errors;
  counters.vl15_dropped = wire->vl15_dropped.value();
  counters.xmit_data = wire->xmit_data.value();
  counters.rcv_data = wire->rcv_data.value();
  counters.xmit_packets = wire->xmit_packets.value();
  counters.rcv_packets = wire->rcv_packets.value();
  return counters;
}

void EncodePortCountersExtended(const PortCountersAttribute& counters, absl::Span<uint8_t> bytes) {
  PortCountersExtendedWire wire;
  wire.port = counters.port;
  wire.select = counters.select;
  wire.xmit_data = counters.xmit_data;
  wire.rcv_data = counters.rcv_data;
  wire.xmit_packets = counters.xmit_packets;
  wire.rcv_packets = counters.rcv_packets;
  wire.unicast_xmit_packets = counters.unicast_xmit_packets;
  wire.unicast_rcv_packets = counters.unicast_rcv_packets;
  wire.multicast_xmit_packets = counters.multicast_xmit_packets;
  wire.multicast_rcv_packets = counters.multicast_rcv_packets;
  WriteAttribute(wire, bytes);
}

absl::StatusOr<PortCountersAttribute> DecodePortCountersExtended(absl::Span<const uint8_t> bytes) {
  const auto wire = ReadAttribute<PortCountersExtendedWire>(bytes, "PortCountersExtended");
  if (!wire.ok()) return wire.status();
  PortCountersAttribute counters;
  counters.port = wire->port;
  counters.select = wire->select.value();
  counters.xmit_data = wire->xmit_data.value();
  counters.rcv_data = wire->rcv_data.value();
  counters.xmit_packets = wire->xmit_packets.value();
  counters.rcv_packets = wire->rcv_packets.value();
  counters.unicast_xmit_packets = wire->unicast_xmit_packets.value();
  counters.unicast_rcv_packets = wire->unicast_rcv_packets.value();
  counters.multicast_xmit_packets = wire->multicast_xmit_packets.value();
  counters.multicast_rcv_packets = wire->multicast_rcv_packets.value();
  return counters;
}

}  // namespace eoib
