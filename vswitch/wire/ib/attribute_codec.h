// Helpers of the MAD attribute codecs, only for the .cc files of this directory.
//
// A codec lists the fields of an attribute once, in a function Fields(copy, wire, value). It calls
// copy(wire.field, value.field) for a whole field, and copy(wire.field, value.field, shift, width)
// for `width` bits from bit `shift` on. With ToWire the list encodes, with FromWire it decodes.
#ifndef EOIB_VSWITCH_WIRE_IB_ATTRIBUTE_CODEC_H_
#define EOIB_VSWITCH_WIRE_IB_ATTRIBUTE_CODEC_H_

#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/base/check.h"

namespace eoib {

// Reads the wire struct of attribute `name` from the start of `bytes`; kInvalidArgument if `bytes`
// is too short.
template <typename Wire>
absl::StatusOr<Wire> ReadAttribute(absl::Span<const uint8_t> bytes, absl::string_view name) {
  if (bytes.size() < sizeof(Wire)) {
    return absl::InvalidArgumentError(
        absl::StrCat("decode ", name, ": ", bytes.size(), " bytes, expected ", sizeof(Wire)));
  }
  return ReadWire<Wire>(bytes.data());
}

// Callers of encoders provide enough room.
template <typename Wire>
void WriteAttribute(const Wire& wire, absl::Span<uint8_t> bytes) {
  EOIB_CHECK(bytes.size() >= sizeof(Wire));
  WriteWire(wire, bytes.data());
}

// The integer or array in a field or value.
template <typename T>
constexpr auto Raw(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<std::underlying_type_t<T>>(value);
  } else if constexpr (requires { value.value(); }) {
    return value.value();
  } else if constexpr (requires { value.bytes(); }) {
    return value.bytes();
  } else {
    return value;
  }
}

constexpr uint64_t LowBits(int width) { return (uint64_t{1} << width) - 1; }

struct ToWire {
  template <typename Field, typename Value>
  void operator()(Field& field, const Value& value) const {
    field = static_cast<decltype(Raw(field))>(Raw(value));
  }
  template <typename Field, typename Value>
  void operator()(Field& field, const Value& value, int shift, int width) const {
    field = static_cast<decltype(Raw(field))>(Raw(field) | (Raw(value) & LowBits(width)) << shift);
  }
};

struct FromWire {
  template <typename Field, typename Value>
  void operator()(const Field& field, Value& value) const {
    value = static_cast<Value>(Raw(field));
  }
  template <typename Field, typename Value>
  void operator()(const Field& field, Value& value, int shift, int width) const {
    value = static_cast<Value>(Raw(field) >> shift & LowBits(width));
  }
};

template <typename Wire, typename Value>
void EncodeFields(const Value& value, absl::Span<uint8_t> bytes) {
  Wire wire{};
  Fields(ToWire(), wire, value);
  WriteAttribute(wire, bytes);
}

template <typename Wire, typename Value>
absl::StatusOr<Value> DecodeFields(absl::Span<const uint8_t> bytes, absl::string_view name) {
  absl::StatusOr<Wire> wire = ReadAttribute<Wire>(bytes, name);
  if (!wire.ok()) return wire.status();
  Value value;
  Fields(FromWire(), *wire, value);
  return value;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_ATTRIBUTE_CODEC_H_
