#include "gateway/translation/on_link.h"

#include <gtest/gtest.h>

#include "vswitch/base/byte_order.h"
#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/golden_ipoib_for_test.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ipoib_header.h"

namespace eoib::translation {
namespace {

using Where = OnLink::Where;
using Bytes = std::vector<uint8_t>;

IpAddr ParseIp(absl::string_view text) {
  if (const auto ipv4 = Ipv4Addr::Parse(text); ipv4.ok()) return *ipv4;
  return *Ipv6Addr::Parse(text);
}

TEST(PrefixTest, Contains) {
  const struct {
    const char* prefix;
    uint8_t length;
    const char* ip;
    bool contains;
  } kRows[] = {
      {"10.0.0.0", 24, "10.0.0.255", true},
      {"10.0.0.0", 24, "10.0.1.0", false},
      {"10.0.0.128", 25, "10.0.0.127", false},
      {"10.0.0.7", 32, "10.0.0.7", true},
      {"10.0.0.7", 32, "10.0.0.6", false},
      {"0.0.0.0", 0, "192.0.2.1", true},
      {"0.0.0.0", 0, "::", false},
      {"fd00::", 64, "fd00::1:2:3:4", true},
      {"fd00::", 64, "fd00:0:0:1::", false},
      {"fd00::", 9, "fd7f::", true},
      {"fd00::", 9, "fd80::", false},
      {"fd00::1", 128, "fd00::1", true},
      {"fd00::1", 128, "fd00::2", false},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ((Prefix{ParseIp(row.prefix), row.length}.Contains(ParseIp(row.ip))), row.contains)
        << row.prefix << " " << row.ip;
  }
}

class OnLinkTest : public testing::Test {
 protected:
  static Bytes Advertisement(absl::string_view message, const char* source = "fe80::1") {
    Bytes packet = FromHex("60000000 0000 3aff");
    const Bytes body = FromHex(message);
    WriteWire(be16(static_cast<uint16_t>(body.size())), &packet[4]);
    for (const auto* const address : {source, "ff02::1"}) {
      const auto bytes = Ipv6Addr::Parse(address)->bytes();
      packet.insert(packet.end(), bytes.begin(), bytes.end());
    }
    packet.insert(packet.end(), body.begin(), body.end());
    EXPECT_TRUE(WriteChecksum(absl::MakeSpan(packet)));
    return packet;
  }
  void Learn(const Bytes& packet) {
    NdMessage message;
    ASSERT_EQ(ParseNeighborDiscovery(packet, &message), NdVerdict::kGood);
    on_link_.LearnAdvertisement(message, now_);
  }
  absl::optional<IpAddr> Router(bool ipv6, absl::optional<IpAddr> reachable = {}) const {
    return on_link_.Router(
        ipv6, [&](const IpAddr& ip) { return reachable == ip; }, now_);
  }
  absl::Time now_ = absl::UnixEpoch();
  OnLink on_link_{Options()};
};

TEST_F(OnLinkTest, WithoutPrefixesTheAnswerIsUnknown) {
  EXPECT_EQ(on_link_.WhereIs(ParseIp("10.0.0.1"), now_), Where::kUnknown);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("fe80::1"), now_), Where::kHere);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("169.254.1.2"), now_), Where::kHere);
  EXPECT_EQ(Router(true), absl::nullopt);
}

TEST_F(OnLinkTest, OtherConfiguredEntriesReplaceTheFormer) {
  Options options;
  options.prefixes = {{ParseIp("10.0.0.0"), 24}};
  options.routers = {ParseIp("10.0.0.1")};
  on_link_.Change(options);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("10.0.1.1"), now_), Where::kBeyond);
  const auto router = [this] {
    return on_link_.Router(/*ipv6=*/false, [](const IpAddr&) { return true; }, now_);
  };
  EXPECT_EQ(router(), ParseIp("10.0.0.1"));
  options.prefixes = {{ParseIp("10.0.1.0"), 24}};
  options.routers = {};
  on_link_.Change(options);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("10.0.1.1"), now_), Where::kHere);
  EXPECT_EQ(router(), absl::nullopt);
  EXPECT_EQ(on_link_.size(), 1u);
}

TEST_F(OnLinkTest, Advertised) {
  Bytes golden = FromHex(kRfcRouterAdvertisement);
  golden.erase(golden.begin(), golden.begin() + kIpoibHeaderSize);
  Learn(golden);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("2001:db8::7"), now_), Where::kHere);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("2001:db9::7"), now_), Where::kBeyond);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("10.0.0.1"), now_), Where::kUnknown)
      << "it has no IPv4 prefix";
  EXPECT_EQ(Router(true), ParseIp("fe80::202:c903:e:b72"));
  EXPECT_EQ(Router(false), absl::nullopt);
  now_ += absl::Seconds(1801);
  EXPECT_EQ(Router(true), absl::nullopt);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("2001:db8::7"), now_), Where::kHere);
  now_ += absl::Hours(24);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("2001:db8::7"), now_), Where::kUnknown);
}

TEST_F(OnLinkTest, PreferencesAndReachability) {
  Learn(Advertisement("86000000 40 18 0708 0000000000000000", "fe80::1"));  // low (RFC 4191 §2.2)
  Learn(Advertisement("86000000 40 00 0708 0000000000000000", "fe80::2"));
  Learn(Advertisement("86000000 40 08 0708 0000000000000000", "fe80::3"));  // high
  EXPECT_EQ(Router(true), ParseIp("fe80::3"));
  EXPECT_EQ(Router(true, ParseIp("fe80::1")), ParseIp("fe80::1"))
      << "one that is known before one that is preferred";
  Learn(Advertisement("86000000 40 08 0000 0000000000000000", "fe80::3"));
  EXPECT_EQ(Router(true), ParseIp("fe80::2")) << "lifetime 0: no router any more";
}

TEST_F(OnLinkTest, RefusedPrefixes) {
  const struct {
    const char* description;
    const char* option;
  } kRows[] = {
      {"not on-link", "03044040ffffffffffffffff00000000fd000000000000000000000000000000"},
      {"longer than an address",
       "03048180ffffffffffffffff00000000fd000000000000000000000000000000"},
      {"link-local", "03044080ffffffffffffffff00000000fe800000000000000000000000000000"},
      {"a group's", "03044080ffffffffffffffff00000000ff020000000000000000000000000000"},
      {"over already", "0304408000000000ffffffff00000000fd000000000000000000000000000000"},
      {"everything", "03040080ffffffffffffffff0000000000000000000000000000000000000000"},
      {"too short", "03040f80ffffffffffffffff00000000fd000000000000000000000000000000"},
      {"another length",
       "03054080ffffffffffffffff00000000fd0000000000000000000000000000000000000000000000"},
  };
  for (const auto& row : kRows) {
    Learn(Advertisement(absl::StrCat("86000000400000000000000000000000", row.option)));
    EXPECT_EQ(on_link_.WhereIs(ParseIp("fd00::1"), now_), Where::kUnknown) << row.description;
  }
  Learn(
      Advertisement("8600000040000000000000000000000003044080ffffffffffffffff00000000fd000000000000"
                    "000000000000000000"));
  EXPECT_EQ(on_link_.WhereIs(ParseIp("fd00::1"), now_), Where::kHere)
      << "and is believed when it is right";
  Learn(
      Advertisement("860000004000000000000000000000000304408000000000ffffffff00000000fd000000000000"
                    "000000000000000000"));
  EXPECT_EQ(on_link_.WhereIs(ParseIp("fd00::1"), now_), Where::kHere)
      << "withdrawn, perhaps by a forger";
  now_ += absl::Hours(2) + absl::Seconds(1);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("fd00::1"), now_), Where::kUnknown) << "RFC 4862 §5.5.3(e)";
}

// A server 10.0.0.2 acknowledges 10.0.0.5; `more` are further options.
Bytes Reply(absl::string_view more) {
  Bytes reply(236);
  reply[0] = 2, reply[1] = 1, reply[2] = 6, reply[16] = 10, reply[19] = 5;
  const Bytes options = FromHex(absl::StrCat("63825363 350105", more, "ff"));
  reply.insert(reply.end(), options.begin(), options.end());
  return reply;
}
constexpr char kLease[] = "36040a000002 0104ffffff00 03040a000001 330400000e10";

TEST_F(OnLinkTest, Leased) {
  on_link_.LearnDhcp(*DhcpMessage::Parse(Reply(kLease)), now_);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("10.0.0.99"), now_), Where::kHere);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("10.0.1.1"), now_), Where::kBeyond);
  EXPECT_EQ(Router(false), ParseIp("10.0.0.1"));
  now_ += absl::Minutes(30);
  for (const char* const brief : {"330400000000", "330400000001"}) {
    const Bytes reply = Reply(absl::StrCat("36040a000002 0104ffffff00 03040a000001", brief));
    on_link_.LearnDhcp(*DhcpMessage::Parse(reply), now_);
  }
  now_ += absl::Minutes(29);
  EXPECT_EQ(Router(false), ParseIp("10.0.0.1")) << "another client's lease is shorter";
  EXPECT_EQ(on_link_.WhereIs(ParseIp("10.0.0.99"), now_), Where::kHere);
  now_ += absl::Seconds(61);
  EXPECT_EQ(Router(false), absl::nullopt);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("10.0.0.99"), now_), Where::kUnknown);
}

TEST_F(OnLinkTest, RefusedLeases) {
  const struct {
    const char* description;
    const char* options;
  } kRows[] = {
      {"everything is on the link", "36040a000002 010400000000 03040a000001 3304ffffffff"},
      {"a prefix shorter than 8 bits", "36040a000002 0104fe000000 03040a000001 3304ffffffff"},
      {"a mask with holes", "36040a000002 0104ff00ff00 03040a000001"},
      {"no mask, which a router could be compared with", "36040a000002 03040a000001"},
      {"no server", "0104ffffff00 03040a000001"},
      {"a server that is no host", "3604ffffffff 0104ffffff00 03040a000001"},
      {"over already", "36040a000002 0104ffffff00 03040a000001 330400000000"},
  };
  for (const auto& row : kRows) {
    on_link_.LearnDhcp(*DhcpMessage::Parse(Reply(row.options)), now_);
    EXPECT_EQ(on_link_.size(), 0u) << row.description;
  }
  on_link_.LearnDhcp(*DhcpMessage::Parse(Reply("36040a000002 0104ffffff00 03040a000101")), now_);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("10.0.0.99"), now_), Where::kHere);
  EXPECT_EQ(Router(false), absl::nullopt) << "it is not in the prefix";
}

constexpr char kForEver6[] =
    "8600000040000708000000000000000003044080ffffffffffffffff00000000fd0000000000000000000000000000"
    "00";

TEST_F(OnLinkTest, LifetimesAreAtMostADay) {
  on_link_.LearnDhcp(
      *DhcpMessage::Parse(Reply("36040a000002 0104ffffff00 03040a000001 3304ffffffff")), now_);
  Learn(Advertisement(kForEver6));
  now_ += absl::Hours(23);
  EXPECT_EQ(Router(false), ParseIp("10.0.0.1"));
  EXPECT_EQ(on_link_.WhereIs(ParseIp("10.0.0.9"), now_), Where::kHere);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("fd00::9"), now_), Where::kHere);
  now_ += absl::Hours(2);
  EXPECT_EQ(Router(false), absl::nullopt);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("10.0.0.9"), now_), Where::kUnknown);
  EXPECT_EQ(on_link_.WhereIs(ParseIp("fd00::9"), now_), Where::kUnknown);
}

// The operator's prefix or router of a family ends all learning of that family, also from the file
// of an older version.
TEST_F(OnLinkTest, NothingIsLearnedForAConfiguredFamily) {
  SavedTables old;
  old.prefixes = {{ParseIp("10.1.0.0"), 16, absl::Hours(1)},
                  {ParseIp("fd01::"), 64, absl::Hours(1)}};
  old.routers = {{ParseIp("10.0.0.66"), -1, absl::Hours(1)},
                 {ParseIp("fe80::66"), 1, absl::Hours(1)}};
  const auto options = [](std::vector<Prefix> prefixes, std::vector<IpAddr> routers) {
    Options options;
    options.prefixes = std::move(prefixes);
    options.routers = std::move(routers);
    return options;
  };
  const struct {
    Options options;
    bool ipv6;
  } kRows[] = {
      {options({{ParseIp("10.9.0.0"), 24}}, {}), false},
      {options({}, {ParseIp("10.9.0.1")}), false},
      {options({{ParseIp("fd09::"), 64}}, {}), true},
      {options({}, {ParseIp("fe80::9")}), true},
  };
  for (const auto& row : kRows) {
    for (const bool before : {true, false}) {
      on_link_ = OnLink(before ? Options() : row.options);
      on_link_.Restore(old, now_);
      on_link_.LearnDhcp(*DhcpMessage::Parse(Reply(kLease)), now_);
      Learn(Advertisement(kForEver6));
      if (before) on_link_.Change(row.options);
      SavedTables saved;
      on_link_.Save(now_, &saved);
      EXPECT_EQ(saved.prefixes.size(), 2u);
      for (const SavedPrefix& prefix : saved.prefixes)
        EXPECT_EQ(prefix.address.is_ipv6(), !row.ipv6);
      EXPECT_EQ(saved.routers.size(), 2u);
      for (const SavedRouter& router : saved.routers) EXPECT_EQ(router.ip.is_ipv6(), !row.ipv6);
    }
  }
}

// A file of an older version may have what a forger said to it.
TEST_F(OnLinkTest, RestoresWhatItWouldLearn) {
  SavedTables old;
  old.prefixes = {{ParseIp("10.0.0.200"), 0, absl::InfiniteDuration()},
                  {ParseIp("::"), 0, absl::InfiniteDuration()},
                  {ParseIp("10.0.0.0"), 24, absl::InfiniteDuration()}};
  old.routers = {{ParseIp("10.0.0.1"), -1, absl::InfiniteDuration()},
                 {ParseIp("255.255.255.255"), -1, absl::Hours(1)}};
  on_link_.Restore(old, now_);
  SavedTables saved;
  on_link_.Save(now_, &saved);
  EXPECT_EQ(saved.prefixes, (std::vector<SavedPrefix>{{ParseIp("10.0.0.0"), 24, absl::Hours(24)}}));
  EXPECT_EQ(saved.routers, (std::vector<SavedRouter>{{ParseIp("10.0.0.1"), -1, absl::Hours(24)}}));
}

TEST_F(OnLinkTest, ShowsAndFlushesWhatItLearned) {
  Options options;
  options.prefixes = {{ParseIp("fd00::1:2:3:4"), 60}};
  on_link_ = OnLink(options);
  on_link_.LearnDhcp(*DhcpMessage::Parse(Reply(kLease)), now_);
  using Source = OnLink::Row::Source;
  const auto rows = on_link_.Dump(now_ + absl::Minutes(1));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].prefix, (Prefix{ParseIp("fd00::"), 60}));
  EXPECT_EQ(rows[0].source, Source::kConfigured);
  EXPECT_EQ(rows[1].prefix, (Prefix{ParseIp("10.0.0.0"), 24}));
  EXPECT_EQ(rows[1].source, Source::kDhcp);
  EXPECT_EQ(rows[1].left, absl::Minutes(59));
  EXPECT_EQ(rows[2].prefix, absl::nullopt);
  EXPECT_EQ(rows[2].router, ParseIp("10.0.0.1"));
  EXPECT_EQ(on_link_.Flush(), 2u);
  EXPECT_EQ(on_link_.Dump(now_).size(), 1u) << "the configured one stays";
  EXPECT_EQ(on_link_.WhereIs(ParseIp("10.0.0.9"), now_), Where::kUnknown);
}

TEST_F(OnLinkTest, ConfiguredOnesStay) {
  Options options;
  options.prefixes = {{ParseIp("fd00::"), 64}};
  options.routers = {ParseIp("fe80::1")};
  on_link_ = OnLink(options);
  Learn(
      Advertisement("860000004000000000000000000000000304408000000000ffffffff00000000fd000000000000"
                    "000000000000000000"));
  EXPECT_EQ(on_link_.WhereIs(ParseIp("fd00::1"), now_ + absl::Hours(1)), Where::kHere);
  EXPECT_EQ(Router(true), ParseIp("fe80::1"));
}

// A host that invents prefixes or routers without end does not keep others out, nor displaces those
// of the other family.
TEST_F(OnLinkTest, EvictsTheEntryHeardLongestAgo) {
  on_link_.LearnDhcp(*DhcpMessage::Parse(Reply(kLease)), now_);
  const auto prefix = [](int n) {
    return absl::StrCat("86000000400007080000000000000000",
                        "03044080ffffffffffffffff00000000fd01000000000000", "0000000000000000")
        .replace(64 + 12, 4, absl::StrCat(absl::Hex(n, absl::kZeroPad4)));
  };
  const auto source = [](int n) { return absl::StrCat("fe80::1:", absl::Hex(n)); };
  const auto here = [this](int n) {
    return on_link_.WhereIs(ParseIp(absl::StrCat("fd01:0:0:", absl::Hex(n), "::5")), now_) ==
           Where::kHere;
  };
  Learn(Advertisement(prefix(0), source(0).c_str()));
  for (int n = 1; n < 200; ++n) {
    now_ += absl::Seconds(1);
    Learn(Advertisement(prefix(n), source(n).c_str()));
    EXPECT_TRUE(here(n)) << n;
    EXPECT_EQ(Router(true, ParseIp(source(n))), ParseIp(source(n))) << n;
    Learn(Advertisement(prefix(0), source(0).c_str()));
  }
  EXPECT_TRUE(here(0)) << "heard of all the time";
  EXPECT_EQ(Router(true, ParseIp(source(0))), ParseIp(source(0)));
  EXPECT_FALSE(here(1));
  EXPECT_EQ(on_link_.WhereIs(ParseIp("10.0.0.9"), now_), Where::kHere);
  EXPECT_EQ(Router(false), ParseIp("10.0.0.1"));
  EXPECT_EQ(on_link_.size(), 2 * Options().max_prefixes + 2);
}

TEST_F(OnLinkTest, Bounded) {
  for (int i = 1; i < 1000; ++i) {
    Learn(Advertisement("86000000400007080000000000000000",
                        absl::StrCat("fe80::", absl::Hex(i)).c_str()));
  }
  EXPECT_LE(on_link_.size(), Options().max_prefixes);
}

}  // namespace
}  // namespace eoib::translation
