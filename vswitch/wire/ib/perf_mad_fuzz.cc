// A port's counters, in both forms.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "vswitch/wire/ib/attribute_codec_for_test.h"
#include "vswitch/wire/ib/perf_mad.h"

namespace eoib {
namespace {

using Bytes = absl::Span<const uint8_t>;

void CheckPortCounters(Bytes bytes) {
  // Reserved; link errors; physical and relay errors; select2 to QP1 dropped; transmit wait.
  const UnmodelledBits kUnmodelled = {{0, 1}, {4, 8}, {10, 14}, {18, 22}, {40, 44}};
  EOIB_CHECK(CheckAttribute(bytes, kPortCountersSize, kUnmodelled, DecodePortCounters,
                            EncodePortCounters));
}

void CheckPortCountersExtended(Bytes bytes) {
  const UnmodelledBits kUnmodelled = {{0, 1}, {4, 8}};
  EOIB_CHECK(CheckAttribute(bytes, kPortCountersExtendedSize, kUnmodelled,
                            DecodePortCountersExtended, EncodePortCountersExtended));
}

// 64-bit counters in smaller fields: a value that fits stays, a larger one becomes the field's
// maximum.
void CheckSaturation(Bytes bytes) {
  PortCountersAttribute counters = *DecodePortCountersExtended(bytes);
  counters.rcv_errors = counters.xmit_packets;
  counters.rcv_constraint_errors = counters.rcv_packets;
  std::array<uint8_t, kPortCountersSize> small;
  EncodePortCounters(counters, absl::MakeSpan(small));
  const PortCountersAttribute read = *DecodePortCounters(small);
  EOIB_CHECK(read.xmit_data == std::min<uint64_t>(counters.xmit_data, 0xffff'ffff));
  EOIB_CHECK(read.rcv_errors == std::min<uint64_t>(counters.rcv_errors, 0xffff));
  EOIB_CHECK(read.rcv_constraint_errors ==
             std::min<uint64_t>(counters.rcv_constraint_errors, 0xff));
}

}  // namespace
}  // namespace eoib

// The input is a MAD, padded with zeros or cut to 256 bytes. Its data is read as both attributes,
// whatever its header says.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const eoib::Mad mad = eoib::MadOf(data, size);
  eoib::CheckPortCounters(eoib::PerfData(mad));
  eoib::CheckPortCountersExtended(eoib::PerfData(mad));
  eoib::CheckSaturation(eoib::PerfData(mad));
  return 0;
}
