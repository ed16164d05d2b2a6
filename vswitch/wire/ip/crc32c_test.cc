#include "vswitch/wire/ip/crc32c.h"

#include <gtest/gtest.h>

#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/sctp_for_test.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(Crc32cTest, Examples) {
  const struct {
    const char* description;
    const char* hex;
    uint32_t crc;
  } kRows[] = {
      {"nothing", "", 0},
      {"the usual check value", "313233343536373839", 0xe3069283},
      {"RFC 7143 Appendix A.4: zeros",
       "0000000000000000000000000000000000000000000000000000000000000000", 0x8a9136aa},
      {"ones", "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 0x62a8ab43},
      {"counting up", "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
       0x46dd794e},
      {"counting down", "1f1e1d1c1b1a191817161514131211100f0e0d0c0b0a09080706050403020100",
       0x113fdb5c},
  };
  for (const auto& row : kRows) EXPECT_EQ(Crc32c(FromHex(row.hex)), row.crc) << row.description;
}

TEST(Crc32cTest, ContinuesAtEveryByte) {
  Bytes bytes(70);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(37 * i);
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const auto all = absl::MakeConstSpan(bytes).first(size);
    for (size_t at = 0; at <= size; ++at) {
      EXPECT_EQ(Crc32c(all.subspan(at), Crc32c(all.first(at))), SlowCrc32c(all))
          << at << " of " << size;
    }
  }
}

}  // namespace
}  // namespace eoib
