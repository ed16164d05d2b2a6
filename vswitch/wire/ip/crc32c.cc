#include "vswitch/wire/ip/crc32c.h"

#include <array>
#include <cstddef>

namespace eoib {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // 0x1edc6f41, bits reversed
constexpr size_t kStep = 8;                   // bytes

using Tables = std::array<std::array<uint32_t, 256>, kStep>;

// tables[i][b] is the remainder of byte b with i zero bytes behind it.
constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (size_t i = 0; i < kStep; ++i) {
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kPolynomial : 0);
      tables[i][byte] = crc;
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

}  // namespace

// Eight bytes at a time ("slicing by 8"): about a microsecond for 1,500 bytes. Few frames need it,
// so it does without the CPU's instruction, which not every amd64 has.
uint32_t Crc32c(absl::Span<const uint8_t> bytes, uint32_t before) noexcept {
  uint32_t crc = ~before;
  for (; bytes.size() >= kStep; bytes.remove_prefix(kStep)) {
    uint32_t next = 0;
#pragma GCC unroll 8
    for (size_t i = 0; i < kStep; ++i) {
      const uint32_t from_crc = i < sizeof(crc) ? crc >> (8 * i) : 0;
      next ^= kTables[kStep - 1 - i][static_cast<uint8_t>(bytes[i] ^ from_crc)];
    }
    crc = next;
  }
  for (const uint8_t byte : bytes) crc = crc >> 8 ^ kTables[0][static_cast<uint8_t>(crc ^ byte)];
  return ~crc;
}

}  // namespace eoib
