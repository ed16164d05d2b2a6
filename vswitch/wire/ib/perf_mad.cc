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
struct ToSaturatedWire {
  template <typename Field, typename Value>
  void operator()(Field& field, const Value& value) const {
    using Integer = decltype(Raw(field));
    field = static_cast<Integer>(std::min<uint64_t>(value, std::numeric_limits<Integer>::max()));
  }
};

template <typename Copy, typename Counters>
void Fields(Copy copy, PortCountersWire& wire, Counters& counters) {
  copy(wire.port, counters.port);
  copy(wire.select, counters.select);
  copy(wire.rcv_errors, counters.rcv_errors);
  copy(wire.xmit_discards, counters.xmit_discards);
  copy(wire.xmit_constraint_errors, counters.xmit_constraint_errors);
  copy(wire.rcv_constraint_errors, counters.rcv_constraint_errors);
  copy(wire.vl15_dropped, counters.vl15_dropped);
  copy(wire.xmit_data, counters.xmit_data);
  copy(wire.rcv_data, counters.rcv_data);
  copy(wire.xmit_packets, counters.xmit_packets);
  copy(wire.rcv_packets, counters.rcv_packets);
}

template <typename Copy, typename Counters>
void Fields(Copy copy, PortCountersExtendedWire& wire, Counters& counters) {
  copy(wire.port, counters.port);
  copy(wire.select, counters.select);
  copy(wire.xmit_data, counters.xmit_data);
  copy(wire.rcv_data, counters.rcv_data);
  copy(wire.xmit_packets, counters.xmit_packets);
  copy(wire.rcv_packets, counters.rcv_packets);
  copy(wire.unicast_xmit_packets, counters.unicast_xmit_packets);
  copy(wire.unicast_rcv_packets, counters.unicast_rcv_packets);
  copy(wire.multicast_xmit_packets, counters.multicast_xmit_packets);
  copy(wire.multicast_rcv_packets, counters.multicast_rcv_packets);
}

}  // namespace

void EncodePortCounters(const PortCountersAttribute& counters, absl::Span<uint8_t> bytes) {
  PortCountersWire wire;
  Fields(ToSaturatedWire(), wire, counters);
  WriteAttribute(wire, bytes);
}

absl::StatusOr<PortCountersAttribute> DecodePortCounters(absl::Span<const uint8_t> bytes) {
  return DecodeFields<PortCountersWire, PortCountersAttribute>(bytes, "PortCounters");
}

void EncodePortCountersExtended(const PortCountersAttribute& counters, absl::Span<uint8_t> bytes) {
  EncodeFields<PortCountersExtendedWire>(counters, bytes);
}

absl::StatusOr<PortCountersAttribute> DecodePortCountersExtended(absl::Span<const uint8_t> bytes) {
  return DecodeFields<PortCountersExtendedWire, PortCountersAttribute>(bytes,
                                                                       "PortCountersExtended");
}

}  // namespace eoib
