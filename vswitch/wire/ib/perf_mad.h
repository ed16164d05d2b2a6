// Performance management MADs (IBA 1.4 §16.1): a port's counters.
#ifndef EOIB_VSWITCH_WIRE_IB_PERF_MAD_H_
#define EOIB_VSWITCH_WIRE_IB_PERF_MAD_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vswitch/wire/ib/mad.h"

namespace eoib {

enum class PerfAttribute : uint16_t {
  kClassPortInfo = 0x0001,
  kPortCounters = 0x0012,
  kPortCountersExtended = 0x001d
};

// §16.1.3.5 (PortCounters: saturating counters of 8, 16 and 32 bits) and §16.1.4.11
// (PortCountersExtended: 64 bits). Values here are not saturated; the encoder saturates them.
struct PortCountersAttribute {
  uint8_t port = 1;
  uint16_t select = 0xffff;  // in a Set: the counters to clear
  uint64_t rcv_errors = 0;
  uint64_t xmit_discards = 0;
  uint64_t xmit_constraint_errors = 0;  // P_Key, outbound
  uint64_t rcv_constraint_errors = 0;   // P_Key, inbound
  uint64_t vl15_dropped = 0;
  uint64_t xmit_data = 0;  // in units of 4 bytes
  uint64_t rcv_data = 0;
  uint64_t xmit_packets = 0;
  uint64_t rcv_packets = 0;
  // Extended only.
  uint64_t unicast_xmit_packets = 0, unicast_rcv_packets = 0, multicast_xmit_packets = 0,
           multicast_rcv_packets = 0;

  friend bool operator==(const PortCountersAttribute&, const PortCountersAttribute&) = default;
};

inline constexpr size_t kPerfDataOffset = 64;
inline constexpr size_t kPerfDataSize = kMadSize - kPerfDataOffset;
inline absl::Span<uint8_t> PerfData(Mad* mad) {
  return absl::MakeSpan(*mad).subspan(kPerfDataOffset);
}
inline absl::Span<const uint8_t> PerfData(const Mad& mad) {
  return absl::MakeSpan(mad).subspan(kPerfDataOffset);
}

inline constexpr size_t kPortCountersSize = 44;
inline constexpr size_t kPortCountersExtendedSize = 72;
void EncodePortCounters(const PortCountersAttribute& counters, absl::Span<uint8_t> bytes);
// kInvalidArgument if the span is too short.
absl::StatusOr<PortCountersAttribute> DecodePortCounters(absl::Span<const uint8_t> bytes);
void EncodePortCountersExtended(const PortCountersAttribute& counters, absl::Span<uint8_t> bytes);
absl::StatusOr<PortCountersAttribute> DecodePortCountersExtended(absl::Span<const uint8_t> bytes);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_PERF_MAD_H_
