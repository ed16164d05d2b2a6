#include "gateway/election/hello.h"

#include <vector>

#include "gateway/election/pair_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib::gateway {
namespace {

const IpoibAddress kAddress(Qpn(0x123456), Gid::Parse("fe80::2:c903:e:b72").value());
const Election::Hello kHello = {{150, kAddress}, Election::Claim::kActive};

TEST(HelloTest, ComesBackAsItWent) {
  for (const Election::Claim claim :
       {Election::Claim::kCandidate, Election::Claim::kActive, Election::Claim::kNone}) {
    const std::vector<uint8_t> packet = EncodeHello({kHello.from, claim}, kPair);
    EXPECT_TRUE(IsHello(packet));
    const auto hello = DecodeHello(packet, kPair);
    ASSERT_TRUE(hello.has_value());
    EXPECT_EQ(hello->from, kHello.from);
    EXPECT_EQ(hello->claim, claim);
  }
}

// Typed from the comment in hello.h and RFC 8200, RFC 768; Wireshark computed the checksum.
TEST(HelloTest, Golden) {
  const std::vector<uint8_t> packet = EncodeHello(kHello, kPair);
  const std::vector<uint8_t> head(packet.begin(), packet.begin() + 46);
  EXPECT_THAT(head,
              testing::ElementsAre(0x60, 0, 0, 0, 0, 40, 17, 255,  // IPv6
                                   0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x02, 0xc9, 0x03, 0, 0x0e,
                                   0x0b, 0x72, 0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe0, 0x1b,
                                   0x67, 0x77, 0xe0, 0x1b, 0xe0, 0x1b, 0, 40));  // UDP
  const std::vector<uint8_t> message(packet.begin() + 48, packet.end());
  EXPECT_THAT(message, testing::ElementsAre('e', 'o', 'i', 'b', 1, 2, 150, 0, 0x80, 0x01, 0, 10,  //
                                            0, 0x12, 0x34, 0x56, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0,
                                            0x02, 0xc9, 0x03, 0, 0x0e, 0x0b, 0x72));
}

TEST(HelloTest, AnotherPairsIsOneAndSaysNothing) {
  const std::vector<uint8_t> packet = EncodeHello(kHello, {PKey(0x8002), Vid(10)});
  EXPECT_TRUE(IsHello(packet));
  EXPECT_FALSE(DecodeHello(packet, kPair).has_value());
  EXPECT_FALSE(DecodeHello(EncodeHello(kHello, {PKey(0x8001), Vid(11)}), kPair).has_value());
}

TEST(HelloTest, DamagedHellosAreIgnored) {
  const std::vector<uint8_t> good = EncodeHello(kHello, kPair);
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<uint8_t> bad = good;
      bad[at] = static_cast<uint8_t>(bad[at] ^ 1 << bit);
      EXPECT_FALSE(DecodeHello(bad, kPair).has_value()) << "byte " << at << " bit " << bit;
    }
  }
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(DecodeHello({good.data(), size}, kPair).has_value());
}

}  // namespace
}  // namespace eoib::gateway
