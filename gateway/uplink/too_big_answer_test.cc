#include "gateway/uplink/too_big_answer.h"

#include <vector>

#include "gtest/gtest.h"
#include "vswitch/base/ethertype.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/ip_packet.h"
#include "vswitch/wire/super_frame_for_test.h"

namespace eoib::gateway {
namespace {

const MacAddr kOwn = MacAddr::FromUint64(0x02'00'00'00'00'99);
const absl::Time kNow = absl::UnixEpoch();

std::vector<uint8_t> Large(SuperFrameShape shape = {.udp = true, .payload = 3000}) {
  ChecksumRequest request;
  return MakeSuperFrame(shape, &request);
}

TEST(TooBigAnswerTest, GoesBackToTheSenderWithItsTag) {
  TooBigAnswer answers({}, kOwn, kNow);
  for (const bool ipv6 : {false, true}) {
    const std::vector<uint8_t> frame =
        Large({.ipv6 = ipv6, .udp = true, .vid = 20, .payload = 3000});
    const std::vector<uint8_t> answer = answers.For(frame, 1500, kNow);
    EthernetInfo asked, told;
    ASSERT_EQ(ParseEthernet(frame, &asked), DropReason::kNone);
    ASSERT_EQ(ParseEthernet(answer, &told), DropReason::kNone);
    EXPECT_EQ(told.destination, asked.source);
    EXPECT_EQ(told.source, kOwn);
    EXPECT_EQ(told.vid, Vid(20));
    EXPECT_EQ(told.ethertype, asked.ethertype);
    const auto payload = absl::MakeConstSpan(answer).subspan(told.payload);
    EXPECT_EQ(ipv6, ParseIpv6Packet(payload).has_value());
    EXPECT_EQ(!ipv6, ParseIpv4Packet(payload).has_value());
  }
  EXPECT_EQ(answers.sent(), 2u);
}

TEST(TooBigAnswerTest, HasTheConfiguredSource) {
  const IpAddr source = *IpAddr::Parse("10.0.0.250");
  TooBigAnswer answers(IcmpSources({&source, 1}), kOwn, kNow);
  const std::vector<uint8_t> answer = answers.For(Large(), 1500, kNow);
  EXPECT_EQ(ParseIpv4Packet(absl::MakeConstSpan(answer).subspan(kEthernetHeaderSize))->source,
            Ipv4Addr(0x0a0000fa));
}

TEST(TooBigAnswerTest, RefusesGroupsAndOtherProtocols) {
  TooBigAnswer answers({}, kOwn, kNow);
  std::vector<uint8_t> group = Large(), other = Large(), cut = Large();
  group[0] |= 1;
  other[12] = 0x88, other[13] = 0xb6;
  cut.resize(100);
  for (const auto& frame : {group, other, cut, std::vector<uint8_t>(10)})
    EXPECT_TRUE(answers.For(frame, 1500, kNow).empty());
}

TEST(TooBigAnswerTest, LimitsTheRate) {
  TooBigAnswer answers({}, kOwn, kNow);
  for (int i = 0; i < 1000; ++i) answers.For(Large(), 1500, kNow);
  EXPECT_EQ(answers.sent(), static_cast<uint64_t>(TooBigAnswer::kBurst));
  EXPECT_EQ(answers.sent() + answers.limited(), 1000u);
}

}  // namespace
}  // namespace eoib::gateway
