// The invariant of every MAD attribute codec, for the fuzz targets of MADs: an accepted attribute
// re-encodes to the same bytes, except for bits that are not modelled.
#ifndef EOIB_VSWITCH_WIRE_IB_ATTRIBUTE_CODEC_FOR_TEST_H_
#define EOIB_VSWITCH_WIRE_IB_ATTRIBUTE_CODEC_FOR_TEST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "vswitch/base/check.h"
#include "vswitch/wire/ib/mad.h"

namespace eoib {

// `bits` of the bytes in [begin, end) are not modelled: they come back as zero.
struct Unmodelled {
  size_t begin, end;
  uint8_t bits = 0xff;
};
using UnmodelledBits = std::initializer_list<Unmodelled>;

inline std::vector<uint8_t> Modelled(absl::Span<const uint8_t> bytes, UnmodelledBits unmodelled) {
  std::vector<uint8_t> modelled(bytes.begin(), bytes.end());
  for (const Unmodelled& range : unmodelled) {
    for (size_t i = range.begin; i < range.end; ++i)
      modelled[i] &= static_cast<uint8_t>(~range.bits);
  }
  return modelled;
}

// A text ends at its first zero byte; the rest is not modelled.
inline void CutText(absl::Span<uint8_t> field) {
  std::fill(std::find(field.begin(), field.end(), 0), field.end(), 0);
}

// A fuzzer's input as a MAD: padded with zeros or cut to 256 bytes.
inline Mad MadOf(const uint8_t* data, size_t size) {
  Mad mad{};
  std::copy_n(data, std::min(size, mad.size()), mad.begin());
  return mad;
}

// Checks that the attribute at the start of `bytes` re-encodes to `expected`, which has only
// modelled bits. False if the decoder refuses it.
template <typename Attribute>
bool CheckAttribute(absl::Span<const uint8_t> bytes, const std::vector<uint8_t>& expected,
                    absl::StatusOr<Attribute> (*decode)(absl::Span<const uint8_t>),
                    void (*encode)(const Attribute&, absl::Span<uint8_t>)) {
  EOIB_CHECK(decode(bytes.first(expected.size() - 1)).status().code() ==
             absl::StatusCode::kInvalidArgument);
  const absl::StatusOr<Attribute> attribute = decode(bytes);
  if (!attribute.ok()) {
    EOIB_CHECK(attribute.status().code() == absl::StatusCode::kInvalidArgument &&
               !attribute.status().message().empty());
    return false;
  }
  std::vector<uint8_t> again(expected.size() + 1, 0xee);
  encode(*attribute, absl::MakeSpan(again));
  EOIB_CHECK(again.back() == 0xee);  // the encoder wrote no byte too many
  again.pop_back();
  EOIB_CHECK(again == expected);
  EOIB_CHECK(*decode(again) == *attribute);
  return true;
}

template <typename Attribute>
bool CheckAttribute(absl::Span<const uint8_t> bytes, size_t size, UnmodelledBits unmodelled,
                    absl::StatusOr<Attribute> (*decode)(absl::Span<const uint8_t>),
                    void (*encode)(const Attribute&, absl::Span<uint8_t>)) {
  return CheckAttribute(bytes, Modelled(bytes.first(size), unmodelled), decode, encode);
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_ATTRIBUTE_CODEC_FOR_TEST_H_
