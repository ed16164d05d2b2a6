// Helpers of the MAD attribute codecs: from bytes to a wire struct and back. Only for the .cc files of this directory.
#ifndef EOIB_VSWITCH_WIRE_IB_ATTRIBUTE_CODEC_H_
#define EOIB_VSWITCH_WIRE_IB_ATTRIBUTE_CODEC_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/base/check.h"

namespace eoib {

// Reads the wire struct of attribute `name` from the start of `bytes`; kInvalidArgument if `bytes` is too short.
template <typename Wire>
absl::StatusOr<Wire> ReadAttribute(absl::Span<const uint8_t> bytes, absl::string_view name) {
  if (bytes.size() < sizeof(Wire)) {
    return absl::InvalidArgumentError(absl::StrCat("decode ", name, ": ", bytes.size(), " bytes, expected ", sizeof(Wire)));
  }
  return ReadWire<Wire>(bytes.data());
}

// Callers of encoders provide enough room.
template <typename Wire>
void WriteAttribute(const Wire& wire, absl::Span<uint8_t> bytes) {
  EOIB_CHECK(bytes.size() >= sizeof(Wire));
  WriteWire(wire, bytes.data());
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_ATTRIBUTE_CODEC_H_
