#include "gateway/ipoib/source_table.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "vswitch/wire/arp.h"
#include "vswitch/wire/golden_ipoib.h"

namespace eoib::ipoib {
namespace {

IpoibAddress AddressOf(uint32_t number) {
  return {Qpn(number), Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(number + 1))};
}

TEST(SourceTableTest, BelievesNobodyWhoSpeaksForAnotherQueuePair) {
  SourceTable table;
  EXPECT_FALSE(table.Learn(Lid(1), Qpn(5), AddressOf(6)));
  EXPECT_FALSE(table.Learn(Lid(1), Qpn(5), IpoibAddress(Qpn(5), Gid())));
  EXPECT_EQ(table.Find(Lid(1), Qpn(5)), absl::nullopt);
  EXPECT_TRUE(table.Learn(Lid(1), Qpn(5), AddressOf(5)));
  EXPECT_EQ(table.Find(Lid(1), Qpn(5)), AddressOf(5));
  EXPECT_EQ(table.Find(Lid(2), Qpn(5)), absl::nullopt) << "another port";
  table.Clear();
  EXPECT_EQ(table.Find(Lid(1), Qpn(5)), absl::nullopt);
}

TEST(SourceTableTest, ForgetsTheOldestAndKeepsWhoIsLookedUp) {
  constexpr size_t kLimit = 100;
  SourceTable table(kLimit);
  for (uint32_t i = 0; i < 10 * kLimit; ++i) {
    ASSERT_TRUE(table.Learn(Lid(1), Qpn(i), AddressOf(i)));
    ASSERT_EQ(table.Find(Lid(1), Qpn(0)), AddressOf(0)) << "after " << i;
  }
  size_t known = 0;
  for (uint32_t i = 0; i < 10 * kLimit; ++i) known += table.Find(Lid(1), Qpn(i)).has_value();
  EXPECT_LE(known, 2 * kLimit);
  EXPECT_GE(known, kLimit - 1);
}

TEST(SourceTableTest, TheSenderIsInItsArp) {
  const IpoibArp arp = {ArpOperation::kRequest, AddressOf(7), Ipv4Addr(1), IpoibAddress(), Ipv4Addr(2)};
  std::vector<uint8_t> bytes(IpoibArp::kSize);
  ASSERT_TRUE(EncodeArp(arp, absl::MakeSpan(bytes)));
  EXPECT_EQ(SenderOf(IpoibType::kArp, bytes), AddressOf(7));
  EXPECT_EQ(SenderOf(IpoibType::kIpv4, bytes), absl::nullopt);
  bytes.pop_back();
  EXPECT_EQ(SenderOf(IpoibType::kArp, bytes), absl::nullopt);
}

// What the kernel's ib_ipoib sent, behind its encapsulation header. All of one interface say the same.
TEST(SourceTableTest, TheSenderIsInLinuxsNeighborDiscovery) {
  const struct {
    const char* hex;
    bool says;
  } rows[] = {{kLinuxNeighborSolicitation, true},
              {kLinuxNeighborAdvertisement, true},
              {kLinuxDadSolicitation, false},
              {kLinuxNeighborAdvertisementWithoutOptions, false},
              {kLinuxPing6, false}};
  for (const auto& row : rows) {
    const std::string bytes = absl::HexStringToBytes(absl::StrReplaceAll(row.hex, {{" ", ""}}));
    const absl::Span<const uint8_t> datagram(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    const auto type = DecodeIpoibHeader(datagram);
    ASSERT_TRUE(type.has_value()) << row.hex;
    EXPECT_EQ(SenderOf(*type, datagram.subspan(kIpoibHeaderSize)).has_value(), row.says) << row.hex;
  }
}

}  // namespace
}  // namespace eoib::ipoib
