// The gateways of one pair, on a link that records the hellos.
#include "gateway/election/hello_protocol.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gateway/election/pair_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using State = Election::State;

const IpoibGroup kHellos = *GroupOf(kLink, kHelloGroup);
const IpoibGroup kAll = BroadcastGroup(kLink);

Gid GidOf(int number) {
  return Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(static_cast<uint64_t>(number)));
}
IpoibAddress AddressOf(int number) { return {Qpn(0x100), GidOf(number)}; }

// A recorded packet, with its sender and group.
struct Said {
  IpoibAddress from;
  IpoibGroup group;
  std::vector<uint8_t> packet;
};

// One gateway's interface to the link.
class Place final : public ipoib::Interface {
 public:
  Place(int number, std::vector<Said>* said) : own_(AddressOf(number)), said_(said) {}

  absl::optional<ipoib::LinkState> state() const override {
    return ipoib::LinkState{own_, kLink, 2044};
  }
  void Send(IpoibType, absl::Span<const uint8_t>, const IpoibAddress&) override {
    ADD_FAILURE() << "hellos go to groups";
  }
  void SendToGroup(IpoibType, absl::Span<const uint8_t> payload, const IpoibGroup& group,
                   bool) override {
    said_->push_back({own_, group, {payload.begin(), payload.end()}});
  }
  bool Reaches(const IpoibGroup& group) override { return group == kHellos && listens_ && joins; }
  void Listen(const IpoibGroup& group) override {
    EXPECT_EQ(group, kHellos);
    EXPECT_FALSE(std::exchange(listens_, true));
  }
  void Unlisten(const IpoibGroup&) override { listens_ = false; }
  const IpoibAddress& own() const { return own_; }
  bool Hears(const Said& said) const {
    return said.group != kHellos || (listens_ && joins && !deaf);
  }

  bool joins = true;  // can join the hello group
  bool deaf = false;  // receives nothing from that group

 private:
  bool listens_ = false;
  const IpoibAddress own_;
  std::vector<Said>* const said_;
};

class HelloProtocolTest : public testing::Test {
 protected:
  HelloProtocol& Start(int number, uint8_t priority = 100,
                       absl::optional<std::vector<Gid>> peers = {}) {
    Gateway& gateway = gateways_[number];
    gateway.place = std::make_unique<Place>(number, &said_);
    gateway.place->joins = !cannot_join_.contains(number);
    gateway.protocol = std::make_unique<HelloProtocol>(
        HelloProtocol::Options{kPair, priority, std::move(peers)}, gateway.place.get(), &clock_,
        [&gateway](std::vector<IpoibAddress> others) { gateway.others = std::move(others); });
    gateway.protocol->SetVesUp(true);
    gateway.protocol->OnLinkState();
    return *gateway.protocol;
  }
  // Runs for `time`, 10 ms a turn; packets of a turn are delivered in that turn.
  void Pass(absl::Duration time) {
    for (const absl::Time end = clock_.Now() + time; clock_.Now() < end;) {
      clock_.Advance(absl::Milliseconds(10));
      for (auto& [number, gateway] : gateways_) {
        if (gateway.protocol->NextDeadline() <= clock_.Now()) gateway.protocol->Run();
      }
      for (Said& said : std::exchange(said_, {})) {
        ++counts_[said.group == kAll];
        Deliver(&said);
      }
      most_active_ = std::max(most_active_, Active());
    }
  }
  void Deliver(Said* said) {
    for (auto& [number, gateway] : gateways_) {
      if (gateway.place->own() == said->from || !gateway.place->Hears(*said)) continue;
      EXPECT_TRUE(
          gateway.protocol->OnPacket({IpoibType::kIpv6, absl::MakeSpan(said->packet), said->from,
                                      /*group=*/true, /*broadcast=*/said->group == kAll}));
    }
  }
  int Active() const {
    int active = 0;
    for (const auto& [number, gateway] : gateways_) active += gateway.protocol->election().active();
    return active;
  }
  void SetJoins(int number, bool joins) { gateways_.at(number).place->joins = joins; }
  void Kill(int number) { gateways_.erase(number); }
  // The number of hellos since the last call; hosts receive those in the broadcast group.
  int TakeCount(const IpoibGroup& group) { return std::exchange(counts_[group == kAll], 0); }
  State StateOf(int number) { return gateways_.at(number).protocol->election().state(); }
  // A valid hello from a member of the partition that is no gateway, with its own address.
  void Forge(int number, uint8_t priority) {
    said_.push_back(
        {AddressOf(number), kAll,
         EncodeHello({{priority, AddressOf(number)}, Election::Claim::kActive}, kPair)});
  }

  struct Gateway {
    std::unique_ptr<Place> place;
    std::unique_ptr<HelloProtocol> protocol;
    std::vector<IpoibAddress> others;
  };
  FakeClock clock_;
  std::vector<Said> said_;
  std::map<int, Gateway> gateways_;
  std::set<int> cannot_join_;
  int most_active_ = 0;
  std::map<bool, int> counts_;
};

// ---- Groups

const absl::Duration kTakeOver = Election::kSilence + Election::kClaim + absl::Milliseconds(20);

TEST_F(HelloProtocolTest, HostsHearNothingOfOneGateway) {
  const HelloProtocol& alone = Start(1);
  Pass(absl::Seconds(2));
  EXPECT_EQ(StateOf(1), State::kActive);
  EXPECT_TRUE(alone.in_group());
  TakeCount(kHellos);
  Pass(absl::Seconds(60));
  EXPECT_EQ(TakeCount(kHellos), 60);
  EXPECT_EQ(TakeCount(kAll), 0);
}

// A second gateway finds the first through the hello group, and answers there.
TEST_F(HelloProtocolTest, HostsHearNothingOfTwoGateways) {
  Start(1);
  Pass(absl::Seconds(2));
  Start(2);
  Pass(absl::Seconds(60));
  EXPECT_EQ(StateOf(2), State::kStandby);
  EXPECT_EQ(most_active_, 1);
  EXPECT_EQ(TakeCount(kAll), 0);
}

TEST_F(HelloProtocolTest, ASecondOneTakesOverInTime) {
  Start(1);
  Start(2);
  Pass(absl::Seconds(30));
  ASSERT_EQ(StateOf(1), State::kActive);
  Kill(1);
  Pass(kTakeOver);
  EXPECT_EQ(StateOf(2), State::kActive);
  EXPECT_EQ(most_active_, 1);
  Pass(absl::Seconds(12));
  TakeCount(kAll);
  Pass(absl::Seconds(60));
  EXPECT_EQ(TakeCount(kAll), 0);
}

// Either gateway, or both, cannot join the hello group, and either starts first.
TEST_F(HelloProtocolTest, OneWorksThoughTheOtherCannotJoinTheGroup) {
  for (const std::set<int>& cannot_join :
       {std::set<int>{1}, std::set<int>{2}, std::set<int>{1, 2}}) {
    for (const int first : {1, 2}) {
      SCOPED_TRACE(absl::StrCat(cannot_join.size(), " cannot join, among them ",
                                *cannot_join.begin(), "; first ", first));
      gateways_.clear();
      cannot_join_ = cannot_join;
      most_active_ = 0;
      Start(first);
      Pass(absl::Seconds(30));
      ASSERT_EQ(StateOf(first), State::kActive);
      Start(3 - first, 255);
      Pass(absl::Seconds(2));
      for (int i = 0; i < 300; ++i) {
        Pass(absl::Milliseconds(100));
        ASSERT_EQ(StateOf(3 - first), State::kStandby) << "it hears the first all the time";
      }
      EXPECT_EQ(most_active_, 1);
      Kill(first);
      Pass(kTakeOver);
      EXPECT_EQ(StateOf(3 - first), State::kActive);
    }
  }
}

// A lonely gateway that cannot join sends to the broadcast group, until it can join.
TEST_F(HelloProtocolTest, TheBroadcastGroupIsUsedWhileTheirOwnCannotBeJoined) {
  cannot_join_ = {1};
  const HelloProtocol& alone = Start(1);
  Pass(absl::Seconds(10));
  EXPECT_FALSE(alone.in_group());
  EXPECT_GT(TakeCount(kAll), 0);
  EXPECT_EQ(TakeCount(kHellos), 0);
  SetJoins(1, true);
  Pass(absl::Seconds(1));
  TakeCount(kAll);
  TakeCount(kHellos);
  Pass(absl::Seconds(10));
  EXPECT_EQ(TakeCount(kAll), 0);
  EXPECT_EQ(TakeCount(kHellos), 10);
}

// For the active gateway, and for the one that stands by.
TEST_F(HelloProtocolTest, TheGroupIsLostAndRegained) {
  Start(1);
  Pass(absl::Seconds(2));
  Start(2);
  for (const int loses : {1, 2, 1}) {
    SCOPED_TRACE(loses);
    Pass(absl::Seconds(5));
    SetJoins(loses, false);
    Pass(absl::Seconds(20));
    EXPECT_EQ(StateOf(1), State::kActive);
    EXPECT_EQ(StateOf(2), State::kStandby);
    SetJoins(loses, true);
    Pass(absl::Seconds(3));
    TakeCount(kAll);
    Pass(absl::Seconds(20));
    EXPECT_EQ(TakeCount(kAll), 0) << "each hears the other in their own group again";
  }
  EXPECT_EQ(most_active_, 1);
}

// A subnet manager that has just started knows the broadcast group again, and the hello group not
// yet. Both gateways believe that they are members.
TEST_F(HelloProtocolTest, AGroupThatDoesNotDeliverMakesNoSecondOneWork) {
  Start(1);
  Pass(absl::Seconds(2));
  Start(2);
  Pass(absl::Seconds(5));
  for (const bool both : {false, true}) {
    gateways_.at(1).place->deaf = both;
    gateways_.at(2).place->deaf = true;
    Pass(absl::Seconds(60));
    EXPECT_EQ(StateOf(1), State::kActive);
    EXPECT_EQ(most_active_, 1);
  }
  for (const int number : {1, 2}) gateways_.at(number).place->deaf = false;
  Pass(absl::Seconds(3));
  TakeCount(kAll);
  Pass(absl::Seconds(20));
  EXPECT_EQ(TakeCount(kAll), 0);
}

// Gateways come and go, and the SA refuses and grants the hello group; the broadcast group always
// works.
TEST_F(HelloProtocolTest, ExactlyOneIsActiveThroughRandomChangesOfTheGroup) {
  std::mt19937 random(SeedForTest());
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    for (int number = 1; number <= 4; ++number) {
      if (!gateways_.contains(number)) {
        if (random() % 2 == 0) Start(number, static_cast<uint8_t>(random() % 3));
      } else if (random() % 8 == 0 && gateways_.size() > 1) {
        Kill(number);
      } else if (random() % 2 == 0) {
        SetJoins(number, random() % 2 == 0);
      }
      Pass(absl::Milliseconds(random() % 700));
    }
    EXPECT_LE(most_active_, 1);
    if (round % 10 != 9 || gateways_.empty()) continue;
    Pass(absl::Seconds(3));
    EXPECT_EQ(Active(), 1);
    for (const auto& [number, gateway] : gateways_) gateway.place->joins = true;
    Pass(absl::Seconds(15));
    TakeCount(kAll);
    Pass(absl::Seconds(15));
    EXPECT_EQ(TakeCount(kAll), 0);
  }
}

// ---- Peers

TEST_F(HelloProtocolTest, WithoutPeersAnyMemberSilencesTheGateway) {
  Start(1);
  Pass(absl::Seconds(2));
  ASSERT_EQ(StateOf(1), State::kActive);
  Forge(9, 255);
  Pass(absl::Milliseconds(10));
  EXPECT_EQ(StateOf(1), State::kStandby);
}

TEST_F(HelloProtocolTest, HellosOfOtherGidsThanThePeersAreIgnoredAndCounted) {
  const std::vector<Gid> peers = {GidOf(1), GidOf(2)};
  const HelloProtocol& first = Start(1, 100, peers);
  const HelloProtocol& second = Start(2, 100, peers);
  for (int i = 0; i < 500; ++i) {
    Forge(9, 255);
    Pass(absl::Milliseconds(10));
  }
  EXPECT_EQ(StateOf(1), State::kActive);
  EXPECT_EQ(StateOf(2), State::kStandby) << "and a peer is heard";
  EXPECT_EQ(most_active_, 1);
  EXPECT_EQ(first.counters().unlisted_hellos, 500u);
  EXPECT_EQ(second.counters().unlisted_hellos, 500u);
  EXPECT_THAT(gateways_.at(1).others, ElementsAre(AddressOf(2))) << "the other address is a host's";
}

TEST_F(HelloProtocolTest, AnEmptyPeerListIgnoresAllHellos) {
  const HelloProtocol& alone = Start(1, 100, std::vector<Gid>());
  for (int i = 0; i < 300; ++i) {
    Forge(2, 255);
    Pass(absl::Milliseconds(10));
  }
  EXPECT_EQ(StateOf(1), State::kActive);
  EXPECT_EQ(alone.counters().unlisted_hellos, 300u);
}

// The sender's HCA writes the GRH, which names the sender.
TEST_F(HelloProtocolTest, APeersNameInTheHelloOfAnotherCountsForNothing) {
  const HelloProtocol& first = Start(1, 100, std::vector<Gid>{GidOf(1), GidOf(2)});
  Pass(absl::Seconds(2));
  said_.push_back(
      {AddressOf(9), kAll, EncodeHello({{255, AddressOf(2)}, Election::Claim::kActive}, kPair)});
  said_.push_back({{Qpn(7), GidOf(2)},
                   kAll,
                   EncodeHello({{255, AddressOf(2)}, Election::Claim::kActive}, kPair)});
  Pass(absl::Milliseconds(10));
  EXPECT_EQ(StateOf(1), State::kActive);
  EXPECT_EQ(first.counters().unlisted_hellos, 1u);
  EXPECT_EQ(first.counters().forged_hellos, 1u);
  EXPECT_THAT(gateways_.at(1).others, IsEmpty());
}

}  // namespace
}  // namespace eoib::gateway
