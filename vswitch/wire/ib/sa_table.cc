#include "vswitch/wire/ib/sa_table.h"

#include <algorithm>
#include <cstddef>

#include "vswitch/base/byte_order.h"

namespace eoib {
namespace {

// IBA 1.4 §13.6.2.1, after the common header.
struct RmppHeaderWire {
  uint8_t version = 1;
  uint8_t type = 1;  // DATA
  uint8_t response_time_flags = 0;
  uint8_t status = 0;
  be32 segment;
  be32 payload_length;
};
static_assert(sizeof(RmppHeaderWire) == 12);
constexpr size_t kRmppHeaderOffset = 24;
constexpr uint8_t kRmppActive = 0x01, kRmppFirst = 0x02, kRmppLast = 0x04,
                  kRmppNoResponseTime = 0xf8;
// SM_Key to component mask, in each segment.
constexpr size_t kSaHeaderSize = kSaRecordOffset - kRmppHeaderOffset - sizeof(RmppHeaderWire);
static_assert(kSaHeaderSize == 20);

}  // namespace

std::vector<uint8_t> EncodeSaTable(const SaHeader& header, absl::Span<const uint8_t> records) {
  Mad first;
  EncodeSaHeader(header, &first);
  const size_t segments = std::max<size_t>(1, (records.size() + kMaxSaRecord - 1) / kMaxSaRecord);
  RmppHeaderWire rmpp;
  rmpp.response_time_flags =
      kRmppNoResponseTime | kRmppActive | kRmppFirst | (segments == 1 ? kRmppLast : 0);
  rmpp.segment = 1;
  rmpp.payload_length = static_cast<uint32_t>(segments * kSaHeaderSize + records.size());
  WriteWire(rmpp, first.data() + kRmppHeaderOffset);
  std::vector<uint8_t> mad(kSaRecordOffset + records.size());
  std::copy_n(first.begin(), kSaRecordOffset, mad.begin());
  std::copy(records.begin(), records.end(), mad.begin() + kSaRecordOffset);
  return mad;
}

bool IsSaTable(absl::Span<const uint8_t> mad) {
  constexpr size_t kFlagsOffset = kRmppHeaderOffset + offsetof(RmppHeaderWire, response_time_flags);
  return DecodeSaHeader(mad).ok() && (mad[kFlagsOffset] & kRmppActive) != 0;
}

}  // namespace eoib
