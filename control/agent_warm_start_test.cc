// Agents that restart in order keep what they have learned.
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <type_traits>

#include "control/agent_test_fixture.h"
#include "control/ves/restored_entries.h"

namespace eoib {
namespace {

using testing::HasSubstr;

std::string VesWith(const std::string& ves, const std::string& vport,
                    const std::string& pkey = "0x8001") {
  return absl::StrCat("[[ves]]\nname = 'blue'\npkey = ", pkey, "\n", ves,
                      "[[vport]]\nname = 'v1'\nves = 'blue'\ntype = 'test'\n", vport);
}

template <typename HostClock>
class AgentWarmStartTestOf : public AgentTestOf<HostClock> {
 protected:
  using Base = AgentTestOf<HostClock>;
  using Base::AddHost, Base::AllJoined, Base::KillHost, Base::state_, Base::Until;

  void AddTwo(const std::string& toml = kOneVes) {
    h1_ = AddHost("h1", toml);
    h2_ = AddHost("h2", kOneVes);
    ASSERT_TRUE(AllJoined());
    Speak(h1_, kA);
    Speak(h2_, kB);
    ASSERT_TRUE(UntilLate(
        [this] { return h2_->OriginOf(kA) == "announced" && h1_->OriginOf(kB) == "announced"; }));
  }
  // Lets time pass until `done`.
  bool UntilLate(const std::function<bool()>& done) {
    if constexpr (std::is_same_v<HostClock, FakeClock>) return Base::PassUntil(done);
    return Until(done);
  }
  void Speak(Host* host, MacAddr mac) {
    host->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), mac));
  }

  void Stop(Host** host) {
    bool stopped = false;
    (*host)->agent()->Stop([&stopped] { stopped = true; });
    ASSERT_TRUE(Until([&] { return stopped; }));
    (*host)->agent()->SaveMacs();
    KillHost(*host);
    *host = nullptr;
  }
  void Restart(const std::string& toml = kOneVes) {
    Stop(&h1_);
    h1_ = AddHost("h1", toml);
  }
  // The row of a MAC in the FDB; empty: none.
  std::string RowOf(Host* host, MacAddr mac) {
    for (absl::string_view line : absl::StrSplit(host->ShowFdb(), '\n')) {
      if (absl::StrContains(line, mac.ToString())) return std::string(line);
    }
    return "";
  }
  std::string SavedPath() { return state_.path() + "/h1/fdb.json"; }

  Host* h1_ = nullptr;
  Host* h2_ = nullptr;
};

// On the machine's clock, so that the workers keep up with it.
class AgentWarmStartTest : public AgentWarmStartTestOf<MonotonicClock> {
 protected:
  // Waits until each agent knows the other's MACs, and h1 has claimed those of no other agent.
  void Settle() {
    ASSERT_TRUE(AllJoined());
    const absl::Time settled = watch_.Now() + RestoredEntries::kSettle + absl::Milliseconds(1500);
    ASSERT_TRUE(Until([&] { return watch_.Now() >= settled; }));
  }
};
class AgentWarmStartAgeTest : public AgentWarmStartTestOf<FakeClock> {};

TEST_F(AgentWarmStartTest, KnowsLocalAndRemoteMacsRightAfterItsStart) {
  AddTwo();
  Host* const silent = AddHost("h3", kDataOnly);
  ASSERT_TRUE(AllJoined());
  Speak(silent, kC);
  ASSERT_TRUE(Until([this] { return h1_->Knows(kC); }));
  Restart();
  EXPECT_THAT(RowOf(h1_, kA), HasSubstr("vPort v1"));
  EXPECT_THAT(RowOf(h1_, kB), HasSubstr("QPN " + h2_->Qpn()));
  EXPECT_THAT(RowOf(h1_, kC), HasSubstr("QPN " + silent->Qpn()));
  EXPECT_FALSE(std::filesystem::exists(SavedPath()));

  // The others confirm theirs, and hear of ours, though no station speaks.
  Settle();
  EXPECT_TRUE(UntilLate(
      [this] { return h1_->OriginOf(kB) == "announced" && h2_->OriginOf(kA) == "announced"; }));
  EXPECT_TRUE(h1_->Knows(kC));
  EXPECT_TRUE(ArrivesAfterTries(h1_->port("v1"), silent->port("v1"), MakeFrame(kC, kA)));
}

TEST_F(AgentWarmStartTest, MacThatMovedMeanwhileIsNotTakenBack) {
  AddTwo();
  Stop(&h1_);
  Speak(h2_, kA);
  ASSERT_TRUE(Until([this] { return absl::StrContains(RowOf(h2_, kA), "vPort v1"); }));
  h1_ = AddHost("h1", kOneVes);
  Settle();
  EXPECT_TRUE(Follows(h1_, kA, h2_)) << RowOf(h1_, kA);
  EXPECT_EQ(h1_->OriginOf(kA), "announced");
  EXPECT_THAT(RowOf(h2_, kA), HasSubstr("vPort v1"));
}

TEST_F(AgentWarmStartTest, MacsFollowAnAgentThatRestartedMeanwhile) {
  AddTwo();
  const std::string former = h2_->Qpn();
  Stop(&h1_);
  KillHost(h2_);
  h2_ = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_NE(h2_->Qpn(), former);
  h1_ = AddHost("h1", kOneVes);
  EXPECT_THAT(RowOf(h1_, kB), HasSubstr("QPN " + former));
  ASSERT_TRUE(AllJoined());
  EXPECT_TRUE(UntilLate([this] { return absl::StrContains(RowOf(h1_, kB), "QPN " + h2_->Qpn()); }))
      << RowOf(h1_, kB);
}

TEST_F(AgentWarmStartAgeTest, MacsOfAnAgentThatIsGoneAreFlushed) {
  AddTwo();
  Stop(&h1_);
  KillHost(h2_);
  h2_ = nullptr;
  h1_ = AddHost("h1", kOneVes);
  EXPECT_TRUE(h1_->Knows(kB));
  ASSERT_TRUE(AllJoined());
  Pass(RestoredEntries::kSettle + absl::Seconds(1));
  EXPECT_FALSE(h1_->Knows(kB));
  EXPECT_TRUE(h1_->Knows(kA));
}

TEST_F(AgentWarmStartAgeTest, EntriesAgeOn) {
  const std::string toml = VesWith("ageing = 100\n", "");
  AddTwo(toml);
  Pass(absl::Seconds(60));
  Restart(toml);
  ASSERT_TRUE(AllJoined());
  Pass(absl::Seconds(30));
  EXPECT_TRUE(h1_->Knows(kA));
  Pass(absl::Seconds(15));
  EXPECT_FALSE(h1_->Knows(kA)) << "that its MAC is claimed again is no sign of the station";
}

TEST_F(AgentWarmStartTest, RestoresOnlyWhatTheConfigurationHas) {
  AddTwo();
  Restart(VesWith("", "access_vlan = 10\n"));
  EXPECT_FALSE(h1_->Knows(kA));
  EXPECT_TRUE(h1_->Knows(kB));
  Restart(VesWith("vlans = [10]\n", "access_vlan = 10\n"));
  EXPECT_FALSE(h1_->Knows(kB));
}

TEST_F(AgentWarmStartTest, AnotherPartitionStartsEmpty) {
  AddTwo();
  Restart(VesWith("", "", "0x8002"));
  EXPECT_FALSE(h1_->Knows(kA));
  EXPECT_FALSE(h1_->Knows(kB));
}

TEST_F(AgentWarmStartTest, MacThatAnInterfaceHasNowIsNotRestoredElsewhere) {
  AddTwo();
  Restart(absl::StrCat(kOneVes, "mac = '", kB.ToString(), "'\n"));
  EXPECT_TRUE(absl::StrContains(RowOf(h1_, kB), "vPort v1"));
}

TEST_F(AgentWarmStartTest, StickyMacsComeBackUnlessAnotherAgentHasThem) {
  const std::string sticky = VesWith("", "sticky = true\n");
  AddTwo(sticky);
  Speak(h1_, kC);
  ASSERT_TRUE(UntilLate([this] { return h2_->OriginOf(kC) == "announced"; }));
  Stop(&h1_);
  ASSERT_TRUE(Until([this] { return !h2_->Knows(kC); })) << "it would stay where it is sticky";
  Speak(h2_, kC);
  ASSERT_TRUE(Until([this] { return absl::StrContains(RowOf(h2_, kC), "vPort v1"); }));
  h1_ = AddHost("h1", sticky);
  EXPECT_FALSE(h1_->Knows(kA)) << "not before the others have told what they have";
  Settle();
  EXPECT_TRUE(UntilLate([this] {
    return h1_->OriginOf(kA) == "sticky" && h2_->OriginOf(kA) == "announced";
  })) << RowOf(h1_, kA);
  EXPECT_EQ(h1_->OriginOf(kC), "announced");
}

TEST_F(AgentWarmStartTest, KilledAgentOrDamagedFileStartsEmpty) {
  AddTwo();
  KillHost(h1_);
  h1_ = AddHost("h1", kOneVes);
  EXPECT_FALSE(h1_->Knows(kA));
  ASSERT_TRUE(AllJoined());
  Speak(h1_, kA);
  ASSERT_TRUE(Until([this] { return h1_->Knows(kA); }));
  Stop(&h1_);
  ASSERT_TRUE(std::filesystem::exists(SavedPath()));
  std::ofstream(SavedPath()) << "{";
  h1_ = AddHost("h1", kOneVes);
  EXPECT_FALSE(h1_->Knows(kA));
  EXPECT_FALSE(std::filesystem::exists(SavedPath()));
}

}  // namespace
}  // namespace eoib
