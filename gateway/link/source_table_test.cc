#include "gateway/link/source_table.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "vswitch/wire/golden_ipoib_for_test.h"
#include "vswitch/wire/ip/arp.h"

namespace eoib::ipoib {
namespace {

IpoibAddress AddressOfQpn(uint32_t number) {
  return {Qpn(number), Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(number + 1))};
}

TEST(SourceTableTest, RejectsClaimsForAnotherQueuePair) {
  const FakeClock clock;
  SourceTable table(&clock);
  EXPECT_FALSE(table.LearnClaim(Lid(1), Qpn(5), AddressOfQpn(6)));
  EXPECT_FALSE(table.LearnClaim(Lid(1), Qpn(5), IpoibAddress(Qpn(5), Gid())));
  EXPECT_FALSE(table.Find(Lid(1), Qpn(5)).has_value());
  EXPECT_TRUE(table.LearnClaim(Lid(1), Qpn(5), AddressOfQpn(5)));
  EXPECT_EQ(table.Find(Lid(1), Qpn(5))->address, AddressOfQpn(5));
  EXPECT_FALSE(table.Find(Lid(2), Qpn(5)).has_value()) << "another port";
  table.Clear();
  EXPECT_FALSE(table.Find(Lid(1), Qpn(5)).has_value());
}

// Each GID costs a vPort and a path, so a sender cannot make them without bound.
TEST(SourceTableTest, OneQueuePairHasNotManyGidsByItsWord) {
  FakeClock clock;
  SourceTable table(&clock);
  const auto says = [&](uint32_t number) {
    return table.LearnClaim(Lid(1), Qpn(5), {Qpn(5), AddressOfQpn(number).gid()});
  };
  EXPECT_TRUE(says(1));
  EXPECT_FALSE(says(2));
  EXPECT_TRUE(says(1));
  clock.Advance(SourceTable::kClaimHold);
  EXPECT_TRUE(says(2)) << "the LID may be another port's by now";
  EXPECT_FALSE(says(1));
}

TEST(SourceTableTest, AClaimDoesNotReplaceARecentGrh) {
  FakeClock clock;
  SourceTable table(&clock);
  EXPECT_TRUE(table.LearnClaim(Lid(1), Qpn(5), {Qpn(5), AddressOfQpn(1).gid()}));
  EXPECT_FALSE(table.Find(Lid(1), Qpn(5))->by_grh);
  table.Learn(Lid(1), AddressOfQpn(5));
  clock.Advance(SourceTable::kClaimHold / 2);
  EXPECT_FALSE(table.LearnClaim(Lid(1), Qpn(5), {Qpn(5), AddressOfQpn(1).gid()}));
  EXPECT_EQ(table.Find(Lid(1), Qpn(5))->address, AddressOfQpn(5));
  EXPECT_TRUE(table.Find(Lid(1), Qpn(5))->by_grh);
  table.Learn(Lid(1), AddressOfQpn(5));
  clock.Advance(SourceTable::kClaimHold / 2);
  EXPECT_FALSE(table.LearnClaim(Lid(1), Qpn(5), {Qpn(5), AddressOfQpn(1).gid()}));
  clock.Advance(SourceTable::kClaimHold / 2);
  EXPECT_TRUE(table.LearnClaim(Lid(1), Qpn(5), {Qpn(5), AddressOfQpn(1).gid()}))
      << "the LID may be another port's by now";
  EXPECT_FALSE(table.Find(Lid(1), Qpn(5))->by_grh);
}

TEST(SourceTableTest, LimitsNewClaims) {
  FakeClock clock;
  SourceTable table(&clock);
  const auto learned = [&](uint32_t first) {
    int count = 0;
    for (uint32_t i = first; i < first + 1000; ++i)
      count += table.LearnClaim(Lid(1), Qpn(i), AddressOfQpn(i));
    return count;
  };
  EXPECT_EQ(learned(1), SourceTable::kNewAtOnce);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(learned(2001), SourceTable::kNewPerSecond);
  table.Learn(Lid(1), AddressOfQpn(5000));
  EXPECT_TRUE(table.Find(Lid(1), Qpn(5000)).has_value()) << "a GRH needs no room among them";
}

TEST(SourceTableTest, ForgetsTheOldestAndKeepsEntriesThatAreLookedUp) {
  constexpr size_t kLimit = 100;
  const FakeClock clock;
  SourceTable table(&clock, kLimit);
  for (uint32_t i = 0; i < 10 * kLimit; ++i) {
    table.Learn(Lid(1), AddressOfQpn(i));
    ASSERT_EQ(table.Find(Lid(1), Qpn(0))->address, AddressOfQpn(0)) << "after " << i;
  }
  size_t known = 0;
  for (uint32_t i = 0; i < 10 * kLimit; ++i) known += table.Find(Lid(1), Qpn(i)).has_value();
  EXPECT_LE(known, 2 * kLimit);
  EXPECT_GE(known, kLimit - 1);
}

TEST(SourceTableTest, TheSenderIsInItsArp) {
  const IpoibArp arp = {ArpOperation::kRequest, AddressOfQpn(7), Ipv4Addr(1), IpoibAddress(),
                        Ipv4Addr(2)};
  std::vector<uint8_t> bytes(IpoibArp::kSize);
  ASSERT_TRUE(EncodeArp(arp, absl::MakeSpan(bytes)));
  EXPECT_EQ(SenderOf(IpoibType::kArp, bytes), AddressOfQpn(7));
  EXPECT_EQ(SenderOf(IpoibType::kIpv4, bytes), absl::nullopt);
  bytes.pop_back();
  EXPECT_EQ(SenderOf(IpoibType::kArp, bytes), absl::nullopt);
}

// Datagrams that the kernel's ib_ipoib sent, after the encapsulation header, all from one
// interface.
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
    const absl::Span<const uint8_t> datagram(reinterpret_cast<const uint8_t*>(bytes.data()),
                                             bytes.size());
    const auto type = DecodeIpoibHeader(datagram);
    ASSERT_TRUE(type.has_value()) << row.hex;
    EXPECT_EQ(SenderOf(*type, datagram.subspan(kIpoibHeaderSize)).has_value(), row.says) << row.hex;
  }
}

}  // namespace
}  // namespace eoib::ipoib
