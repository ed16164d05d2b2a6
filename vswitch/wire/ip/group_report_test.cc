#include "vswitch/wire/ip/group_report.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vswitch/wire/golden_ipoib_for_test.h"
#include "vswitch/wire/ip/golden_ip_for_test.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_for_test.h"
#include "vswitch/wire/ipoib_header.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;
using Verdict = GroupVerdict;

constexpr uint8_t kIgmp = 2, kIcmpv6 = 58;
constexpr char kAlert4[] = "94040000", kAlert6[] = "3a00050200000100";

Verdict Parse(const Bytes& bytes, IgmpMessage* message) {
  return ParseGroupMessage(*ParseIpv4Packet(bytes), message);
}
Verdict Parse(const Bytes& bytes, MldMessage* message) {
  return ParseGroupMessage(*ParseIpv6Packet(bytes), message);
}

// "+239.1.1.1 -239.1.1.2": the groups that are wanted, and those that are no longer.
template <typename Message>
std::string Groups(const Message& message) {
  std::vector<std::string> groups;
  ForEachGroup(message, [&](const auto& group, bool wanted) {
    groups.push_back(absl::StrCat(wanted ? "+" : "-", group.ToString()));
  });
  return absl::StrJoin(groups, " ");
}

// A message with right checksums, TTL or hop limit 1 and the router alert.
Bytes IgmpOf(const char* hex, const char* options = kAlert4) {
  Bytes packet = Ipv4Of(kIgmp, FromHex(hex), options);
  packet[kIpv4Ttl] = 1;
  RepairIpv4(&packet);
  WriteChecksum(absl::MakeSpan(packet));
  return packet;
}
Bytes MldOf(const std::string& hex, const char* headers = kAlert6, const char* source = "fe80::1") {
  Bytes packet = Ipv6Of(*headers == 0 ? kIcmpv6 : 0, FromHex(hex), headers);
  packet[kIpv6HopLimit] = 1;
  Ipv6Addr::Parse(source)->ToWire(&packet[kIpv6Source]);
  WriteChecksum(absl::MakeSpan(packet));
  return packet;
}

TEST(IgmpTest, LinuxReports) {
  const struct {
    const char* description;
    const char* hex;
    int version;
    const char* groups;
  } kRows[] = {
      {"joins with version 1", kLinuxIgmp1Report, 1, "+239.1.1.1"},
      {"joins with version 2", kLinuxIgmp2Report, 2, "+239.1.1.2"},
      {"leaves with version 2", kLinuxIgmp2Leave, 2, "-239.1.1.2"},
      {"joins with version 3", kLinuxIgmp3Join, 3, "+239.1.1.3"},
      {"leaves with version 3", kLinuxIgmp3Leave, 3, "-239.1.1.3"},
      {"allows a source", kLinuxIgmp3Allow, 3, "+239.1.1.9"},
      {"blocks a source", kLinuxIgmp3Block, 3, ""},
  };
  for (const auto& row : kRows) {
    const Bytes bytes = FromHex(row.hex);
    IgmpMessage message;
    ASSERT_EQ(Parse(bytes, &message), Verdict::kReport) << row.description;
    EXPECT_EQ(message.version, row.version) << row.description;
    EXPECT_EQ(message.source.ToString(), "10.1.0.1") << row.description;
    EXPECT_EQ(message.destination, ParseIpv4Packet(bytes)->destination) << row.description;
    EXPECT_EQ(Groups(message), row.groups) << row.description;
  }
}

TEST(IgmpTest, LinuxQueries) {
  const struct {
    const char* hex;
    int version;
  } kRows[] = {{kLinuxIgmp2Query, 2}, {kLinuxIgmp3Query, 3}};
  for (const auto& row : kRows) {
    const Bytes bytes = FromHex(row.hex);
    IgmpMessage message;
    ASSERT_EQ(Parse(bytes, &message), Verdict::kQuery);
    EXPECT_EQ(message.version, row.version);
  }
}

// RFC 3376 §4.2.12 and §5.1: the meaning of each record type, with sources and without.
TEST(IgmpTest, RecordTypes) {
  const struct {
    int type;
    const char* without_sources;
    const char* with_sources;
  } kRows[] = {{0, "", ""},
               {1, "-239.1.1.1", "+239.1.1.1"},
               {2, "+239.1.1.1", "+239.1.1.1"},
               {3, "-239.1.1.1", "+239.1.1.1"},
               {4, "+239.1.1.1", "+239.1.1.1"},
               {5, "", "+239.1.1.1"},
               {6, "", ""},
               {7, "", ""},
               {255, "", ""}};
  for (const auto& row : kRows) {
    const std::string type = ToHex(Bytes{static_cast<uint8_t>(row.type)});
    IgmpMessage message;
    const Bytes without = IgmpOf(absl::StrCat("2200000000000001", type, "000000 ef010101").c_str());
    ASSERT_EQ(Parse(without, &message), Verdict::kReport) << row.type;
    EXPECT_EQ(Groups(message), row.without_sources) << row.type;
    const Bytes with =
        IgmpOf(absl::StrCat("2200000000000001", type, "000002 ef010101 c0000201 c0000202").c_str());
    ASSERT_EQ(Parse(with, &message), Verdict::kReport) << row.type;
    EXPECT_EQ(Groups(message), row.with_sources) << row.type;
  }
}

TEST(IgmpTest, ReportsPutTogether) {
  const struct {
    const char* description;
    const char* hex;
    Verdict verdict;
    const char* groups;
  } kRows[] = {
      {"none", "2200000000000000", Verdict::kReport, ""},
      {"three records, one with auxiliary data",
       "2200000000000003 04000000ef010101 06010001ef010102c0000201eeeeeeee 03000000ef010103",
       Verdict::kReport, "+239.1.1.1 -239.1.1.3"},
      {"one that is no group", "2200000000000002 04000000c0000201 04000000ef010101",
       Verdict::kReport, "+239.1.1.1"},
      {"with more behind it", "2200000000000001 04000000ef010101 eeee", Verdict::kReport,
       "+239.1.1.1"},
      {"a record that is missing", "2200000000000002 04000000ef010101", Verdict::kBad, ""},
      {"a record that is cut", "2200000000000001 04000000ef0101", Verdict::kBad, ""},
      {"a source that is cut", "2200000000000001 04000001ef010101c00002", Verdict::kBad, ""},
      {"auxiliary data cut", "2200000000000001 04010000ef010101eeeeee", Verdict::kBad, ""},
      {"more sources than a packet holds", "2200000000000001 0400ffffef010101", Verdict::kBad, ""},
      {"cut before the number of records", "22000000000000", Verdict::kBad, ""},
      {"version 2, of no group", "16000000c0000201", Verdict::kBad, ""},
      {"version 2, of group 0", "1600000000000000", Verdict::kBad, ""},
      {"version 2 with more behind it", "16000000ef010101eeee", Verdict::kReport, "+239.1.1.1"},
      {"version 1 cut", "12000000ef0101", Verdict::kBad, ""},
      {"a leave of no group", "1700000000000000", Verdict::kBad, ""},
  };
  for (const auto& row : kRows) {
    const Bytes bytes = IgmpOf(row.hex);
    IgmpMessage message;
    ASSERT_EQ(Parse(bytes, &message), row.verdict) << row.description;
    if (row.verdict == Verdict::kReport) {
      EXPECT_EQ(Groups(message), row.groups) << row.description;
    }
  }
}

// RFC 3376 §4.1 and §7.1.
TEST(IgmpTest, QueriesPutTogether) {
  const struct {
    const char* description;
    const char* hex;
    Verdict verdict;
    int version;
  } kRows[] = {
      {"version 1", "1100000000000000", Verdict::kQuery, 1},
      {"version 2 of a group", "110a0000ef010101", Verdict::kQuery, 2},
      {"version 2, the largest time", "11ff000000000000", Verdict::kQuery, 2},
      {"version 3 of sources", "110a0000ef010101 0a7d0002 c0000201c0000202", Verdict::kQuery, 3},
      {"version 3, the first floating-point numbers", "118000000000000007800000", Verdict::kQuery,
       3},
      {"version 3, the largest numbers", "11ff000000000000 f0ff0000", Verdict::kQuery, 3},
      {"version 3, no time", "1100000000000000 02000000", Verdict::kQuery, 3},
      {"not a group", "110a0000c0000201", Verdict::kBad, 0},
      {"not a group, version 3", "110a0000c0000201 027d0000", Verdict::kBad, 0},
      {"no known version", "110a0000ef010101 027d00", Verdict::kBad, 0},
      {"a source that is cut", "110a0000ef010101 027d0001 c00002", Verdict::kBad, 0},
      {"cut", "110a0000ef0101", Verdict::kBad, 0},
  };
  for (const auto& row : kRows) {
    const Bytes bytes = IgmpOf(row.hex);
    IgmpMessage message;
    ASSERT_EQ(Parse(bytes, &message), row.verdict) << row.description;
    if (row.verdict != Verdict::kQuery) continue;
    EXPECT_EQ(message.version, row.version) << row.description;
  }
}

TEST(IgmpTest, OtherPackets) {
  const Bytes report = IgmpOf("16000000ef010101");
  Bytes wrong_sum = report, far = report, part = report, later = report, udp = report;
  wrong_sum.back() ^= 1;
  far[kIpv4Ttl] = 2;
  part[kIpv4Fragment] = 0x20;
  later[kIpv4Fragment + 1] = 1;
  udp[9] = 17;
  for (Bytes* packet : {&far, &part, &later, &udp}) RepairIpv4(packet);
  const struct {
    const char* description;
    Bytes packet;
    Verdict verdict;
  } kRows[] = {
      {"as it should be", report, Verdict::kReport},
      {"without router alert", IgmpOf("16000000ef010101", ""), Verdict::kReport},
      {"a wrong checksum", wrong_sum, Verdict::kBad},
      {"from beyond the link", far, Verdict::kBad},
      {"a first part", part, Verdict::kBad},
      {"a later fragment, whose content is not visible", later, Verdict::kOther},
      {"another protocol", udp, Verdict::kOther},
      {"nothing in it", IgmpOf(""), Verdict::kOther},
      {"DVMRP", IgmpOf("13010000ef010101"), Verdict::kOther},
      {"router discovery", IgmpOf("3000000000000000"), Verdict::kOther},
  };
  for (const auto& row : kRows) {
    IgmpMessage message;
    EXPECT_EQ(Parse(row.packet, &message), row.verdict) << row.description;
  }
}

TEST(MldTest, LinuxReports) {
  Bytes report = FromHex(kLinuxMulticastReport);
  report.erase(report.begin(), report.begin() + kIpoibHeaderSize);
  const struct {
    const char* description;
    Bytes bytes;
    int version;
    const char* groups;
  } kRows[] = {
      {"joins with version 1", FromHex(kLinuxMld1Report), 1, "+ff05::1:1"},
      {"leaves with version 1", FromHex(kLinuxMld1Done), 1, "-ff05::1:1"},
      {"joins with version 2", FromHex(kLinuxMld2Join), 2, "+ff05::1:2"},
      {"leaves with version 2", FromHex(kLinuxMld2Leave), 2, "-ff05::1:2"},
      {"allows a source", FromHex(kLinuxMld2Allow), 2, "+ff05::9"},
      {"without an address yet", FromHex(kLinuxMld2Unspecified), 2,
       "+ff02::1:ff10:2 +ff02::6a +ff02::2"},
      {"on IPoIB", report, 2, "+ff02::1:ff42:1 +ff02::1:ff00:1"},
  };
  for (const auto& row : kRows) {
    MldMessage message;
    ASSERT_EQ(Parse(row.bytes, &message), Verdict::kReport) << row.description;
    EXPECT_EQ(message.version, row.version) << row.description;
    EXPECT_EQ(message.source, ParseIpv6Packet(row.bytes)->source) << row.description;
    EXPECT_EQ(message.destination, ParseIpv6Packet(row.bytes)->destination) << row.description;
    EXPECT_EQ(Groups(message), row.groups) << row.description;
  }
}

TEST(MldTest, LinuxQueries) {
  const struct {
    const char* hex;
    int version;
  } kRows[] = {{kLinuxMld1Query, 1}, {kLinuxMld2Query, 2}};
  for (const auto& row : kRows) {
    const Bytes bytes = FromHex(row.hex);
    MldMessage message;
    ASSERT_EQ(Parse(bytes, &message), Verdict::kQuery);
    EXPECT_EQ(message.version, row.version);
  }
  MldMessage message;
  const Bytes from_beyond = FromHex(kLinuxMld2QueryFromBeyond);
  EXPECT_EQ(Parse(from_beyond, &message), Verdict::kBad) << "RFC 3810 §5.1.14";
}

constexpr char kGroup[] = "ff050000000000000000000000000001",
               kNode[] = "20010db8000000000000000000000001",
               kOwnHost[] = "ff010000000000000000000000000001",
               kReserved[] = "ff000000000000000000000000000001",
               kNone[] = "00000000000000000000000000000000";

TEST(MldTest, ReportsPutTogether) {
  const struct {
    const char* description;
    std::string hex;
    Verdict verdict;
    const char* groups;
  } kRows[] = {
      {"none", "8f00000000000000", Verdict::kReport, ""},
      {"two records, one with a source and auxiliary data",
       absl::StrCat("8f00000000000002 01010001", kGroup, kNode, "eeeeeeee 03000000", kGroup),
       Verdict::kReport, "+ff05::1 -ff05::1"},
      {"a group that does not leave its host",
       absl::StrCat("8f00000000000002 04000000", kOwnHost, "04000000", kGroup), Verdict::kReport,
       "+ff05::1"},
      {"a group without scope", absl::StrCat("8f00000000000001 04000000", kReserved),
       Verdict::kReport, ""},
      {"not a group", absl::StrCat("8f00000000000001 04000000", kNode), Verdict::kReport, ""},
      {"a record that is missing", absl::StrCat("8f00000000000002 04000000", kGroup), Verdict::kBad,
       ""},
      {"a source that is cut", absl::StrCat("8f00000000000001 04000001", kGroup, "20010db8"),
       Verdict::kBad, ""},
      {"cut before the number of records", "8f000000000000", Verdict::kBad, ""},
      {"version 1", absl::StrCat("8300000000000000", kGroup), Verdict::kReport, "+ff05::1"},
      {"version 1, a code that is to be ignored", absl::StrCat("8307000000000000", kGroup),
       Verdict::kReport, "+ff05::1"},
      {"version 1, of no group", absl::StrCat("8300000000000000", kNode), Verdict::kBad, ""},
      {"version 1, of a group that does not leave its host",
       absl::StrCat("8300000000000000", kOwnHost), Verdict::kReport, ""},
      {"version 1, cut", "8300000000000000ff05", Verdict::kBad, ""},
      {"done", absl::StrCat("8400000000000000", kGroup), Verdict::kReport, "-ff05::1"},
  };
  for (const auto& row : kRows) {
    const Bytes bytes = MldOf(row.hex);
    MldMessage message;
    ASSERT_EQ(Parse(bytes, &message), row.verdict) << row.description;
    if (row.verdict == Verdict::kReport) {
      EXPECT_EQ(Groups(message), row.groups) << row.description;
    }
  }
}

// RFC 2710 §3, RFC 3810 §5.1 and §8.1.
TEST(MldTest, QueriesPutTogether) {
  const struct {
    const char* description;
    std::string hex;
    Verdict verdict;
    int version;
  } kRows[] = {
      {"version 1, the largest time", absl::StrCat("82000000ffff0000", kNone), Verdict::kQuery, 1},
      {"version 2 of sources", absl::StrCat("8200000003e80000", kGroup, "0a7d0001", kNode),
       Verdict::kQuery, 2},
      {"version 2, the first floating-point number",
       absl::StrCat("8200000080000000", kNone, "02000000"), Verdict::kQuery, 2},
      {"version 2, the largest time", absl::StrCat("82000000ffff0000", kNone, "02000000"),
       Verdict::kQuery, 2},
      {"not a group", absl::StrCat("8200000003e80000", kNode), Verdict::kBad, 0},
      {"no known version", absl::StrCat("8200000003e80000", kGroup, "0a7d00"), Verdict::kBad, 0},
      {"a source that is cut", absl::StrCat("8200000003e80000", kGroup, "0a7d0001", "2001"),
       Verdict::kBad, 0},
  };
  for (const auto& row : kRows) {
    const Bytes bytes = MldOf(row.hex);
    MldMessage message;
    ASSERT_EQ(Parse(bytes, &message), row.verdict) << row.description;
    if (row.verdict != Verdict::kQuery) continue;
    EXPECT_EQ(message.version, row.version) << row.description;
  }
}

TEST(MldTest, OtherPackets) {
  const std::string report = absl::StrCat("8300000000000000", kGroup),
                    query = absl::StrCat("8200000003e80000", kNone);
  Bytes wrong_sum = MldOf(report), far = MldOf(report);
  wrong_sum.back() ^= 1;
  far[kIpv6HopLimit] = 2;
  const struct {
    const char* description;
    Bytes packet;
    Verdict verdict;
  } kRows[] = {
      {"as it should be", MldOf(report), Verdict::kReport},
      {"a query as it should be", MldOf(query), Verdict::kQuery},
      {"a wrong checksum", wrong_sum, Verdict::kBad},
      {"from beyond the link", far, Verdict::kBad},
      {"without hop-by-hop options", MldOf(report, ""), Verdict::kBad},
      {"without router alert", MldOf(report, "3a00010400000000"), Verdict::kBad},
      {"with another's router alert", MldOf(report, "3a00050200010100"), Verdict::kBad},
      {"a first part", MldOf(report, "2c00050200000100 3a00000100000001"), Verdict::kBad},
      {"a later fragment, whose content is not visible",
       MldOf(report, "2c00050200000100 3a00000800000001"), Verdict::kOther},
      {"a report from a global address", MldOf(report, kAlert6, "2001:db8::1"), Verdict::kBad},
      {"a report from a host without an address yet", MldOf(report, kAlert6, "::"),
       Verdict::kReport},
      {"a query without a source", MldOf(query, kAlert6, "::"), Verdict::kBad},
      {"a query from a global address", MldOf(query, kAlert6, "2001:db8::1"), Verdict::kBad},
      {"neighbour discovery", MldOf("8700000000000000"), Verdict::kOther},
      {"nothing in it", MldOf(""), Verdict::kOther},
      {"another protocol", Ipv6Of(17, Bytes(28, 0x83)), Verdict::kOther},
  };
  for (const auto& row : kRows) {
    MldMessage message;
    EXPECT_EQ(Parse(row.packet, &message), row.verdict) << row.description;
  }
}

// The same query as from Linux, except for the padding of the hop-by-hop header: a Linux bridge
// pads with two Pad1 options.
TEST(BuildQueryTest, AsksAsLinuxDoes) {
  IgmpQueryBuffer igmp;
  BuildQuery(Ipv4Addr(0x0a01'00fe), Ipv4Addr(), {}, &igmp);
  EXPECT_EQ(ToHex(igmp), kLinuxIgmp3Query);
  MldQueryBuffer mld;
  BuildQuery(*Ipv6Addr::Parse("fe80::5eff:fe10:2"), Ipv6Addr(), {}, &mld);
  Bytes expected = FromHex(kLinuxMld2Query);
  expected[46] = 1;
  EXPECT_EQ(ToHex(mld), ToHex(expected));
}

// The numbers in the packets: response codes of RFC 3376 §4.1.1 and RFC 3810 §5.1.3, robustness,
// interval code.
TEST(BuildQueryTest, RoundsNumbersDownToCodes) {
  const struct {
    const char* description;
    QuerySettings settings;
    const char *igmp, *mld, *tail;
  } kRows[] = {
      {"the defaults", {}, "64", "2710", "027d"},
      {"the last numbers as they are",
       {absl::Milliseconds(12700), 7, absl::Seconds(127)},
       "7f",
       "319c",
       "077f"},
      {"rounded down", {absl::Milliseconds(14299), 8, absl::Seconds(143)}, "81", "37db", "0081"},
      {"rounded down, more", {absl::Seconds(101), 1, absl::Seconds(1000)}, "af", "98a8", "01af"},
      {"more than can be said",
       {absl::InfiniteDuration(), 2, absl::InfiniteDuration()},
       "ff",
       "ffff",
       "02ff"},
      {"no time", {absl::ZeroDuration(), 2, -absl::Seconds(1)}, "01", "0001", "0200"},
  };
  const auto source6 = *Ipv6Addr::Parse("fe80::1"), group6 = *Ipv6Addr::Parse("ff05::1");
  for (const auto& row : kRows) {
    IgmpQueryBuffer igmp;
    BuildQuery(Ipv4Addr(0xc000'0201), Ipv4Addr(0xef01'0101), row.settings, &igmp);
    IgmpMessage igmp_message;
    ASSERT_EQ(ParseGroupMessage(*ParseIpv4Packet(igmp), &igmp_message), Verdict::kQuery)
        << row.description;
    EXPECT_EQ(igmp_message.destination, Ipv4Addr(0xef01'0101)) << row.description;
    EXPECT_EQ(ToHex(igmp_message.message.subspan(1, 1)), row.igmp) << row.description;
    EXPECT_EQ(ToHex(igmp_message.message.subspan(4)), absl::StrCat("ef010101", row.tail, "0000"))
        << row.description;
    MldQueryBuffer mld;
    BuildQuery(source6, group6, row.settings, &mld);
    MldMessage mld_message;
    ASSERT_EQ(ParseGroupMessage(*ParseIpv6Packet(mld), &mld_message), Verdict::kQuery)
        << row.description;
    EXPECT_EQ(mld_message.destination, group6) << row.description;
    EXPECT_EQ(ToHex(mld_message.message.subspan(4, 2)), row.mld) << row.description;
    EXPECT_EQ(ToHex(mld_message.message.subspan(8)), absl::StrCat(kGroup, row.tail, "0000"))
        << row.description;
  }
}

}  // namespace
}  // namespace eoib
