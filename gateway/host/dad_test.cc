#include "gateway/host/dad.h"

#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib::endpoint {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

const IpAddr kIpv4 = *IpAddr::Parse("10.0.0.1");
const IpAddr kIpv6 = *IpAddr::Parse("fd00::1");
const IpoibAddress kRival(Qpn(0x99), Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x99)));

class DadRecorder final : public Dad::Sender, public Dad::Owner {
 public:
  bool Probe(const IpAddr& address, const DadNonce& its_nonce) override {
    if (!reaches) return false;
    log.push_back("probe " + address.ToString());
    nonce = its_nonce;
    return true;
  }
  void Announce(const IpAddr& address) override { log.push_back("announce " + address.ToString()); }
  void OnUnique(const IpAddr& address) override {
    log.push_back("unique " + address.ToString());
    on_unique();
  }
  void OnDuplicate(const IpAddr& address, const absl::optional<IpoibAddress>& rival) override {
    log.push_back(
        absl::StrCat("duplicate ", address.ToString(), rival == kRival ? " of the rival" : ""));
  }
  void OnContested(const IpAddr& address, const absl::optional<IpoibAddress>&, bool) override {
    log.push_back("contested " + address.ToString());
  }
  std::vector<std::string> Take() { return std::exchange(log, {}); }

  std::vector<std::string> log;
  DadNonce nonce{};
  bool reaches = true;
  std::function<void()> on_unique = [] {};
};

class DadTest : public testing::Test {
 protected:
  DadTest() { dad_.OnLinkUp(); }
  // Runs until nothing is due within `time`.
  void Run(absl::Duration time) {
    const absl::Time end = clock_.Now() + time;
    while (dad_.Next() <= end) {
      if (dad_.Next() > clock_.Now()) clock_.Advance(dad_.Next() - clock_.Now());
      dad_.Tick();
    }
    clock_.Advance(end - clock_.Now());
  }

  FakeClock clock_;
  DadRecorder recorder_;
  std::mt19937_64 random_{SeedForTest()};
  Dad dad_{{}, &clock_, [this] { return random_(); }, &recorder_, &recorder_};
};

TEST_F(DadTest, AnIpv4AddressIsProbedThriceAndAnnouncedTwice) {
  const absl::Time start = clock_.Now();
  dad_.Start(kIpv4);
  EXPECT_LE(dad_.Next(), start + absl::Milliseconds(200));
  Run(absl::Milliseconds(200));
  EXPECT_THAT(recorder_.Take(), ElementsAre("probe 10.0.0.1"));
  Run(absl::Seconds(1.5));
  EXPECT_THAT(recorder_.Take(), ElementsAre("probe 10.0.0.1", "probe 10.0.0.1", "unique 10.0.0.1",
                                            "announce 10.0.0.1"));
  Run(absl::Seconds(2));
  EXPECT_THAT(recorder_.Take(), ElementsAre("announce 10.0.0.1"));
  EXPECT_EQ(dad_.Next(), absl::InfiniteFuture());
}

TEST_F(DadTest, AnIpv6AddressIsProbedOnce) {
  dad_.Start(kIpv6);
  Run(absl::Milliseconds(200));
  EXPECT_THAT(recorder_.Take(), ElementsAre("probe fd00::1"));
  Run(absl::Milliseconds(799));
  EXPECT_THAT(recorder_.Take(), IsEmpty());
  Run(absl::Milliseconds(201));
  EXPECT_THAT(recorder_.Take(), ElementsAre("unique fd00::1", "announce fd00::1"));
}

TEST_F(DadTest, AProbeThatCannotBeSentIsRetried) {
  for (const IpAddr& address : {kIpv4, kIpv6}) {
    recorder_.reaches = false;
    dad_.Start(address);
    Run(absl::Minutes(1));
    EXPECT_THAT(recorder_.Take(), IsEmpty());
    recorder_.reaches = true;
    Run(absl::Milliseconds(20));
    EXPECT_THAT(recorder_.Take(), ElementsAre("probe " + address.ToString()));
    Run(absl::Milliseconds(879));
    EXPECT_THAT(recorder_.Take(), Not(Contains("unique " + address.ToString())));
    Run(absl::Seconds(1));
    EXPECT_THAT(recorder_.Take(), Contains("unique " + address.ToString()));
    dad_.Stop(address);
    recorder_.Take();
  }
}

TEST_F(DadTest, AnAddressThatTheOwnerStopsIsNotAnnounced) {
  dad_.Start(kIpv4);
  recorder_.on_unique = [this] { dad_.Stop(kIpv4); };
  Run(absl::Seconds(10));
  EXPECT_THAT(recorder_.Take(),
              ElementsAre("probe 10.0.0.1", "probe 10.0.0.1", "probe 10.0.0.1", "unique 10.0.0.1"));
  recorder_.on_unique = [this] { dad_.Start(kIpv4); };
  dad_.Start(kIpv4);
  Run(absl::Seconds(10));
  const std::vector<std::string> log = recorder_.Take();
  EXPECT_THAT(log, Contains("unique 10.0.0.1"));
  EXPECT_THAT(log, Not(Contains("announce 10.0.0.1")));
}

TEST_F(DadTest, GoldenConflicts) {
  const struct {
    const char* description;
    bool probe;  // else a claim
    bool own_nonce;
    bool duplicate;
  } kRows[] = {
      {"somebody uses it", false, false, true},
      {"somebody probes for it as well", true, false, true},
      {"RFC 7527: our own probe came back", true, true, false},
  };
  for (const IpAddr& address : {kIpv4, kIpv6}) {
    for (const auto& row : kRows) {
      dad_.Start(address);
      Run(absl::Milliseconds(200));
      recorder_.Take();
      const DadNonce nonce = recorder_.nonce;
      if (row.probe) {
        dad_.OnProbe(address, kRival,
                     row.own_nonce ? absl::MakeConstSpan(nonce) : absl::Span<const uint8_t>());
      } else {
        dad_.OnClaim(address, kRival);
      }
      if (!row.duplicate) {
        EXPECT_THAT(recorder_.Take(), IsEmpty()) << row.description;
        dad_.Stop(address);
        continue;
      }
      EXPECT_THAT(recorder_.Take(),
                  ElementsAre("duplicate " + address.ToString() + " of the rival"))
          << row.description;
      Run(absl::Hours(1));
      EXPECT_THAT(recorder_.Take(), IsEmpty()) << row.description;
    }
  }
}

TEST_F(DadTest, AConflictBeforeTheFirstProbeCountsToo) {
  dad_.Start(kIpv4);
  dad_.OnClaim(kIpv4, absl::nullopt);
  EXPECT_THAT(recorder_.Take(), ElementsAre("duplicate 10.0.0.1"));
}

TEST_F(DadTest, AnAssignedAddressIsDefendedEveryTenSecondsAtMost) {
  dad_.Start(kIpv4);
  Run(absl::Seconds(10));
  recorder_.Take();
  for (int i = 0; i < 21; ++i) {
    dad_.OnClaim(kIpv4, kRival);
    Run(absl::Seconds(1));
  }
  const std::vector<std::string> log = recorder_.Take();
  EXPECT_EQ(std::count(log.begin(), log.end(), "announce 10.0.0.1"), 3);
  EXPECT_EQ(std::count(log.begin(), log.end(), "contested 10.0.0.1"), 21);
  // A probe is answered by the responder, and is no conflict.
  dad_.OnProbe(kIpv4, kRival, {});
  EXPECT_THAT(recorder_.Take(), IsEmpty());
}

TEST_F(DadTest, NothingHappensWhileTheLinkIsDown) {
  dad_.OnLinkDown();
  dad_.Start(kIpv6);
  EXPECT_EQ(dad_.Next(), absl::InfiniteFuture());
  Run(absl::Hours(1));
  EXPECT_THAT(recorder_.Take(), IsEmpty());
  dad_.OnLinkUp();
  Run(absl::Seconds(2));
  EXPECT_THAT(recorder_.Take(), ElementsAre("probe fd00::1", "unique fd00::1", "announce fd00::1"));
}

TEST_F(DadTest, AfterLinkDownAddressesAreAnnouncedNotProbed) {
  dad_.Start(kIpv4);
  Run(absl::Seconds(10));
  recorder_.Take();
  dad_.OnLinkDown();
  dad_.OnLinkUp();
  Run(absl::Seconds(10));
  EXPECT_THAT(recorder_.Take(), ElementsAre("announce 10.0.0.1", "announce 10.0.0.1"));
}

TEST_F(DadTest, ClaimsOfOtherAddressesAreIgnored) {
  dad_.OnClaim(kIpv4, kRival);
  dad_.OnProbe(kIpv4, kRival, {});
  dad_.Start(kIpv4);
  dad_.Stop(kIpv4);
  dad_.OnClaim(kIpv4, kRival);
  Run(absl::Hours(1));
  EXPECT_THAT(recorder_.Take(), IsEmpty());
}

// Random events in any order: an address is used only after all its probes, and a second or more
// without a conflict.
class Judge final : public Dad::Sender, public Dad::Owner {
 public:
  bool Probe(const IpAddr& address, const DadNonce&) override {
    EXPECT_EQ(state[address], 't');
    if (++asked % 4 == 0) return false;
    ++probes[address];
    return true;
  }
  void Announce(const IpAddr& address) override {
    EXPECT_EQ(state[address], 'a') << address.ToString();
  }
  void OnUnique(const IpAddr& address) override {
    EXPECT_EQ(state[address], 't');
    EXPECT_EQ(probes[address], address.is_ipv4() ? 3 : 1);
    state[address] = 'a';
  }
  void OnDuplicate(const IpAddr& address, const absl::optional<IpoibAddress>&) override {
    EXPECT_EQ(state[address], 't');
    state[address] = 'd';
  }
  void OnContested(const IpAddr& address, const absl::optional<IpoibAddress>&, bool) override {
    EXPECT_EQ(state[address], 'a');
  }

  std::map<IpAddr, char> state;  // none, tentative, assigned, duplicate
  std::map<IpAddr, int> probes;
  int asked = 0;
};

TEST(DadModelTest, RandomOperations) {
  std::mt19937_64 random(SeedForTest());
  FakeClock clock;
  Judge judge;
  Dad dad(
      {}, &clock, [&] { return random(); }, &judge, &judge);
  bool up = false;
  for (int step = 0; step < 20'000 && !testing::Test::HasFailure(); ++step) {
    const uint32_t number = static_cast<uint32_t>(random() % 4);
    const IpAddr address = number % 2 == 0 ? IpAddr(Ipv4Addr(number + 1))
                                           : IpAddr(Ipv6Addr::LinkLocal(InterfaceId(number)));
    switch (random() % 12) {
      case 0:
        dad.Start(address);
        judge.state[address] = 't', judge.probes[address] = 0;
        break;
      case 1:
        dad.Stop(address);
        judge.state[address] = 0;
        break;
      case 2:
        dad.OnClaim(address, kRival);
        break;
      case 3:
        dad.OnProbe(address, kRival, {});
        break;
      case 4:
        up = random() % 8 != 0;
        if (up) {
          dad.OnLinkUp();
          for (auto& [each, probes] : judge.probes) probes = 0;
        } else {
          dad.OnLinkDown();
        }
        break;
      default:
        clock.Advance(absl::Milliseconds(random() % 400));
        dad.Tick();
        EXPECT_GT(dad.Next(), clock.Now());
        EXPECT_TRUE(up || dad.Next() == absl::InfiniteFuture());
    }
  }
}

}  // namespace
}  // namespace eoib::endpoint
