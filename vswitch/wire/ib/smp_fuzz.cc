// SMPs, LID-routed and directed-route, and all their attributes.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "vswitch/wire/ib/attribute_codec_for_test.h"
#include "vswitch/wire/ib/smp.h"

namespace eoib {
namespace {

using Bytes = absl::Span<const uint8_t>;

// IBA 1.4 §14.2.1: the conditions for an SMP.
bool IsSmp(const Mad& mad) {
  const bool directed = mad[1] == 0x81;
  const uint8_t hop_pointer = mad[6], hop_count = mad[7];
  return mad[0] == 1 && mad[2] == 1 &&
         (mad[1] == 1 || (directed && hop_count <= 63 && hop_pointer <= hop_count + 1));
}

void CheckHeader(const Mad& mad) {
  const absl::StatusOr<SmpHeader> header = DecodeSmpHeader(mad);
  EOIB_CHECK(header.ok() == IsSmp(mad));
  if (!header.ok()) {
    EOIB_CHECK(header.status().code() == absl::StatusCode::kInvalidArgument &&
               !header.status().message().empty());
    return;
  }
  // Not modelled: in a LID-routed SMP the places of hops, LIDs and paths; in both the data, which
  // is not part of the header.
  const std::vector<uint8_t> expected = header->directed
                                            ? Modelled(mad, {{18, 20}, {36, 128}})
                                            : Modelled(mad, {{6, 8}, {18, 20}, {32, 256}});
  Mad again;
  EncodeSmpHeader(*header, &again);
  EOIB_CHECK(std::equal(again.begin(), again.end(), expected.begin()));
  EOIB_CHECK(*DecodeSmpHeader(again) == *header);
  EOIB_CHECK(header->directed || header->IsResponse() == (mad[3] >= 0x80));
}

void CheckNodeDescription(Bytes bytes) {
  std::vector<uint8_t> expected(bytes.begin(), bytes.end());
  CutText(absl::MakeSpan(expected));
  EOIB_CHECK(CheckAttribute(bytes, expected, DecodeNodeDescription, EncodeNodeDescription));
}

void CheckPortInfo(Bytes bytes) {
  const UnmodelledBits kUnmodelled = {
      {24, 28},        // diagnosis, M_Key lease
      {33, 34, 0x0f},  // link down default state
      {34, 35, 0xf8},  // M_Key protection, reserved
      {37, 38, 0x0f},  // init type
      {38, 41},        // VL arbitration
      {41, 42, 0xf0},  // init type reply
      {42, 43},        // VL stall count, head-of-queue lifetime
      {43, 44, 0x0f},  // enforcement and filters
      {44, 46},        // M_Key violations
      {51, 52, 0x60},  // multicast P_Key trap suppression
      {52, 53, 0xe0},  // reserved
      {53, 64},        // thresholds, credits, latency, second capability mask, extended speeds
  };
  EOIB_CHECK(CheckAttribute(bytes, kPortInfoSize, kUnmodelled, DecodePortInfo, EncodePortInfo));
}

}  // namespace
}  // namespace eoib

// The input is a MAD, padded with zeros or cut to 256 bytes. Its data is read as every attribute,
// whatever its header says.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace eoib;  // NOLINT: the entry point has no namespace
  const Mad mad = MadOf(data, size);
  CheckHeader(mad);
  EOIB_CHECK(CheckAttribute(SmpData(mad), kNodeInfoSize, {}, DecodeNodeInfo, EncodeNodeInfo));
  CheckNodeDescription(SmpData(mad));
  CheckPortInfo(SmpData(mad));
  EOIB_CHECK(CheckAttribute(SmpData(mad), kPKeyTableSize, {}, DecodePKeyTable, EncodePKeyTable));
  return 0;
}
