#include "vswitch/wire/ip/ones_complement_sum.h"

#include <cstddef>
#include <cstring>

#include "absl/base/config.h"

namespace eoib {
namespace {

constexpr uint16_t Fold(uint64_t sum) {
  sum = (sum >> 32) + (sum & 0xffff'ffff);
  sum = (sum >> 32) + (sum & 0xffff'ffff);
  sum = (sum >> 16) + (sum & 0xffff);
  sum = (sum >> 16) + (sum & 0xffff);
  return static_cast<uint16_t>((sum >> 16) + (sum & 0xffff));
}

uint64_t LoadWord(const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// One's-complement addition of 64-bit numbers, with end-around carry.
uint64_t AddCarry(uint64_t a, uint64_t b) {
  const uint64_t sum = a + b;
  return sum + (sum < b ? 1 : 0);
}

// Sums `bytes` as native 64-bit words, the last one padded with zeros. Byte order and word size do not matter until the sum is
// folded (RFC 1071 §2).
uint64_t NativeSum(absl::Span<const uint8_t> bytes) {
  const uint8_t* at = bytes.data();
  size_t left = bytes.size();
  uint64_t a = 0, b = 0, c = 0, d = 0;
  for (; left >= 32; at += 32, left -= 32) {  // four independent carry chains run in parallel
    a = AddCarry(a, LoadWord(at));
    b = AddCarry(b, LoadWord(at + 8));
    c = AddCarry(c, LoadWord(at + 16));
    d = AddCarry(d, LoadWord(at + 24));
  }
  for (; left >= 8; at += 8, left -= 8) a = AddCarry(a, LoadWord(at));
  uint64_t tail = 0;
  if (left > 0) std::memcpy(&tail, at, left);
  return AddCarry(AddCarry(AddCarry(a, b), AddCarry(c, d)), tail);
}

uint16_t NativeToNetwork(uint16_t value) {
#ifdef ABSL_IS_LITTLE_ENDIAN
  return __builtin_bswap16(value);
#else
  return value;
#endif
}

}  // namespace

uint16_t OnesComplementSum(absl::Span<const uint8_t> bytes, uint32_t initial) noexcept {
  return Fold(uint64_t{NativeToNetwork(Fold(NativeSum(bytes)))} + initial);
}

}  // namespace eoib
