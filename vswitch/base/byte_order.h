// Integers in wire form: network order, no alignment, no accidental arithmetic.
//
// A wire struct consists of these and of byte arrays only, so it has no padding and no alignment.
#ifndef EOIB_VSWITCH_BASE_BYTE_ORDER_H_
#define EOIB_VSWITCH_BASE_BYTE_ORDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace eoib {

// An unsigned integer of `Bytes` bytes in network order. Converts explicitly both ways: value() and
// operator=.
template <typename Integer, size_t Bytes = sizeof(Integer)>
class BigEndian {
 public:
  constexpr BigEndian() = default;
  constexpr explicit BigEndian(Integer value) { *this = value; }
  constexpr BigEndian& operator=(Integer value) {
#pragma GCC unroll 8  // then compilers see that it is one store
    for (size_t i = 0; i < Bytes; ++i)
      bytes_[i] = static_cast<uint8_t>(value >> (8 * (Bytes - 1 - i)));
    return *this;
  }
  constexpr Integer value() const {
    Integer value = 0;
#pragma GCC unroll 8
    for (uint8_t byte : bytes_)
      value = static_cast<Integer>(static_cast<Integer>(value << 8) | byte);
    return value;
  }
  friend constexpr bool operator==(const BigEndian&, const BigEndian&) = default;

 private:
  std::array<uint8_t, Bytes> bytes_{};
};

using be16 = BigEndian<uint16_t>;
using be24 = BigEndian<uint32_t, 3>;
using be32 = BigEndian<uint32_t>;
using be64 = BigEndian<uint64_t>;

static_assert(sizeof(be16) == 2 && sizeof(be24) == 3 && sizeof(be32) == 4 && sizeof(be64) == 8);
static_assert(alignof(be64) == 1);

// Copies a wire struct from bytes. This is the only way from bytes to a struct. The caller has
// checked that there are sizeof(Wire) bytes.
template <typename Wire>
Wire ReadWire(const void* bytes) {
  static_assert(alignof(Wire) == 1, "a wire struct has no aligned member");
  Wire wire;
  std::memcpy(&wire, bytes, sizeof(wire));
  return wire;
}
template <typename Wire>
void WriteWire(const Wire& wire, void* bytes) {
  static_assert(alignof(Wire) == 1, "a wire struct has no aligned member");
  std::memcpy(bytes, &wire, sizeof(wire));
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_BYTE_ORDER_H_
