// MADs from a subnet administrator, or whoever says to be one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "vswitch/wire/sa_mad.h"

namespace eoib {
namespace {

constexpr size_t kRecord = 56;

void Require(bool condition) {
  if (!condition) std::abort();
}

// Bits of a record that are not modelled and come back as zero; the others must come back as they were.
struct Unmodelled {
  size_t byte;
  uint8_t bits;
};
constexpr Unmodelled kMcMemberRecord[] = {{49, 0x7f}, {50, 0xff}, {51, 0xff}};
constexpr Unmodelled kPathRecord[] = {{0, 0xff},  {1, 0xff},  {2, 0xff},  {3, 0xff},  {4, 0xff},  {5, 0xff},
                                      {6, 0xff},  {7, 0xff},   // service id
                                      {44, 0xf0},              // raw traffic, reserved
                                      {52, 0xff}, {53, 0xf0},  // QoS class
                                      {58, 0xff}, {59, 0xff}, {60, 0xff}, {61, 0xff}, {62, 0xff}, {63, 0xff}};

template <size_t N>
Mad Clear(Mad mad, const Unmodelled (&unmodelled)[N]) {
  for (const Unmodelled& bits : unmodelled) mad[kRecord + bits.byte] &= static_cast<uint8_t>(~bits.bits);
  return mad;
}

void CheckHeader(const Mad& mad) {
  const absl::StatusOr<SaHeader> header = DecodeSaHeader(mad);
  if (!header.ok()) {
    Require(header.status().code() == absl::StatusCode::kInvalidArgument && !header.status().message().empty());
    return;
  }
  Mad again;
  EncodeSaHeader(*header, &again);
  Require(*DecodeSaHeader(again) == *header);
  // Base version to attribute modifier, but class specific and reserved bytes; then SM_Key and component mask.
  const auto same = [&](size_t from, size_t to) { return std::equal(&mad[from], &mad[to], &again[from]); };
  Require(same(0, 6) && same(8, 18) && same(20, 24) && same(36, 44) && same(48, 56));
  Require(!SaStatusName(header->status).empty());
}

void CheckMcMemberRecord(const Mad& mad) {
  const absl::StatusOr<McMemberRecord> record = DecodeMcMemberRecord(SaRecord(mad));
  Require(record.ok() == (mad[kRecord] == 0xff));
  if (!record.ok()) return;
  Mad again = mad;
  EncodeMcMemberRecord(*record, SaRecord(&again));
  Require(again == Clear(mad, kMcMemberRecord));
  Require(*DecodeMcMemberRecord(SaRecord(again)) == *record);
}

void CheckPathRecord(const Mad& mad) {
  const absl::StatusOr<PathRecord> record = DecodePathRecord(SaRecord(mad));
  if (!record.ok()) return;
  Mad again = mad;
  EncodePathRecord(*record, SaRecord(&again));
  Require(again == Clear(mad, kPathRecord));
  Require(*DecodePathRecord(SaRecord(again)) == *record);
}

}  // namespace
}  // namespace eoib

// The input: a MAD, filled up with zeros or cut to 256 bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  eoib::Mad mad{};
  std::copy_n(data, std::min(size, mad.size()), mad.begin());
  eoib::CheckHeader(mad);
  eoib::CheckMcMemberRecord(mad);
  eoib::CheckPathRecord(mad);
  return 0;
}
