// Shared parts of the MAD tests: random values, and libibmad as an independent codec for the same
// bytes.
#ifndef EOIB_VSWITCH_WIRE_IB_MAD_FOR_TEST_H_
#define EOIB_VSWITCH_WIRE_IB_MAD_FOR_TEST_H_

#include <gtest/gtest.h>
#include <infiniband/mad.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/ib/mad.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib {

class Random {
 public:
  uint64_t Bits(int bits) {
    return bits == 64 ? engine_() : engine_() & ((uint64_t{1} << bits) - 1);
  }
  // Sets an unsigned integer to a random value, of at most `bits` bits.
  template <typename Integer>
  void Fill(Integer* value, int bits = 8 * sizeof(Integer)) {
    *value = static_cast<Integer>(Bits(bits));
  }
  template <size_t N>
  void Fill(std::array<uint8_t, N>* bytes) {
    for (uint8_t& byte : *bytes) Fill(&byte);
  }
  Gid NextGid() { return Gid::FromPrefixAndGuid(Bits(64), NextGuid()); }
  Guid NextGuid() { return Guid(Bits(64)); }
  Mgid NextMgid() {
    return Mgid(Gid::FromPrefixAndGuid(Bits(56) | 0xff00'0000'0000'0000, Guid(Bits(64))));
  }
  Selector NextSelector() { return static_cast<Selector>(Bits(2)); }

 private:
  std::mt19937_64 engine_{7};
};

// The value of an integer field as libibmad reads it; its offset counts from the first byte.
inline uint64_t LibibmadField(absl::Span<const uint8_t> bytes, MAD_FIELDS field) {
  uint64_t value = 0;  // a field of up to 32 bits fills only the lower half
  mad_decode_field(const_cast<uint8_t*>(bytes.data()), field, &value);
  return value;
}

template <size_t N>
std::array<uint8_t, N> LibibmadArray(absl::Span<const uint8_t> bytes, MAD_FIELDS field) {
  std::array<uint8_t, N> array{};
  mad_decode_field(const_cast<uint8_t*>(bytes.data()), field, array.data());
  return array;
}

struct FieldValue {
  MAD_FIELDS field;
  uint64_t value;
};

// Checks that libibmad reads `fields` from `ours`, and writes the same bytes from them. `fields`
// must include all that is not zero.
inline void ExpectAgreement(absl::Span<const uint8_t> ours,
                            std::initializer_list<FieldValue> fields) {
  std::vector<uint8_t> theirs(ours.size() + 8);  // libibmad works in words of 4 bytes
  for (const FieldValue& row : fields) {
    EXPECT_EQ(LibibmadField(ours, row.field), row.value) << mad_field_name(row.field);
    uint64_t value = row.value;
    mad_encode_field(theirs.data(), row.field, &value);
  }
  EXPECT_EQ(ToHex(absl::MakeConstSpan(theirs).first(ours.size())), ToHex(ours));
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_MAD_FOR_TEST_H_
