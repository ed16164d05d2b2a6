// Gateways of one pair on a link that keeps a list of what was said.
#include "gateway/hello_protocol.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using State = Election::State;

const Pair kPair = {PKey(0x8001), Vid(10)};
constexpr IpoibLink kLink = {PKey(0x8002)};

Gid GidOf(int number) { return Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(static_cast<uint64_t>(number))); }
IpoibAddress AddressOf(int number) { return {Qpn(0x100), GidOf(number)}; }

// What somebody said, and where.
struct Said {
  IpoibAddress from;
  IpoibGroup group;
  std::vector<uint8_t> packet;
};

// One gateway's place on the link.
class Place final : public ipoib::Interface {
 public:
  Place(int number, std::vector<Said>* said) : own_(AddressOf(number)), said_(said) {}

  absl::optional<ipoib::LinkState> state() const override { return ipoib::LinkState{own_, kLink, 2044}; }
  void Send(IpoibType, absl::Span<const uint8_t>, const IpoibAddress&) override { ADD_FAILURE() << "hellos go to groups"; }
  void SendToGroup(IpoibType, absl::Span<const uint8_t> payload, const IpoibGroup& group, bool) override {
    said_->push_back({own_, group, {payload.begin(), payload.end()}});
  }
  bool Reaches(const IpoibGroup&) override { return false; }
  void Listen(const IpoibGroup&) override {}
  void Unlisten(const IpoibGroup&) override {}
  const IpoibAddress& own() const { return own_; }

 private:
  const IpoibAddress own_;
  std::vector<Said>* const said_;
};

class HelloProtocolTest : public testing::Test {
 protected:
  HelloProtocol& Start(int number, uint8_t priority = 100, absl::optional<std::vector<Gid>> peers = {}) {
    Gateway& gateway = gateways_[number];
    gateway.place = std::make_unique<Place>(number, &said_);
    gateway.protocol =
        std::make_unique<HelloProtocol>(HelloProtocol::Options{kPair, priority, std::move(peers)}, gateway.place.get(), &clock_,
                                        [&gateway](std::vector<IpoibAddress> others) { gateway.others = std::move(others); });
    gateway.protocol->SetVesUp(true);
    gateway.protocol->OnLinkState();
    return *gateway.protocol;
  }
  // As long as `time`, a hundredth of a second a turn; in each turn what was said in it is heard.
  void Pass(absl::Duration time) {
    for (const absl::Time end = clock_.Now() + time; clock_.Now() < end;) {
      clock_.Advance(absl::Milliseconds(10));
      for (auto& [number, gateway] : gateways_) {
        if (gateway.protocol->NextDeadline() <= clock_.Now()) gateway.protocol->Run();
      }
      for (Said& said : std::exchange(said_, {})) Deliver(&said);
      most_active_ = std::max(most_active_, Active());
    }
  }
  void Deliver(Said* said) {
    for (auto& [number, gateway] : gateways_) {
      if (gateway.place->own() == said->from) continue;
      EXPECT_TRUE(gateway.protocol->OnPacket({IpoibType::kIpv6, absl::MakeSpan(said->packet), said->from, /*group=*/true}));
    }
  }
  int Active() const {
    int active = 0;
    for (const auto& [number, gateway] : gateways_) active += gateway.protocol->election().active();
    return active;
  }
  State StateOf(int number) { return gateways_.at(number).protocol->election().state(); }
  // A hello that works, of a member of the partition that is no gateway, in its own name.
  void Forge(int number, uint8_t priority) {
    said_.push_back({AddressOf(number), BroadcastGroup(kLink), EncodeHello({{priority, AddressOf(number)}, true}, kPair)});
  }

  struct Gateway {
    std::unique_ptr<Place> place;
    std::unique_ptr<HelloProtocol> protocol;
    std::vector<IpoibAddress> others;
  };
  FakeClock clock_;
  std::vector<Said> said_;
  std::map<int, Gateway> gateways_;
  int most_active_ = 0;
};

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
  EXPECT_EQ(first.counters().unlisted, 500u);
  EXPECT_EQ(second.counters().unlisted, 500u);
  EXPECT_THAT(gateways_.at(1).others, ElementsAre(AddressOf(2))) << "what is no gateway is a host";
}

TEST_F(HelloProtocolTest, AGatewayThatIsSaidToBeAloneHearsNobody) {
  const HelloProtocol& alone = Start(1, 100, std::vector<Gid>());
  for (int i = 0; i < 300; ++i) {
    Forge(2, 255);
    Pass(absl::Milliseconds(10));
  }
  EXPECT_EQ(StateOf(1), State::kActive);
  EXPECT_EQ(alone.counters().unlisted, 300u);
}

// The GRH, which the sender's HCA made, says whose it is.
TEST_F(HelloProtocolTest, APeersNameInTheHelloOfAnotherCountsForNothing) {
  const HelloProtocol& first = Start(1, 100, std::vector<Gid>{GidOf(1), GidOf(2)});
  Pass(absl::Seconds(2));
  said_.push_back({AddressOf(9), BroadcastGroup(kLink), EncodeHello({{255, AddressOf(2)}, true}, kPair)});
  said_.push_back({{Qpn(7), GidOf(2)}, BroadcastGroup(kLink), EncodeHello({{255, AddressOf(2)}, true}, kPair)});
  Pass(absl::Milliseconds(10));
  EXPECT_EQ(StateOf(1), State::kActive);
  EXPECT_EQ(first.counters().unlisted, 1u);
  EXPECT_EQ(first.counters().forged, 1u);
  EXPECT_THAT(gateways_.at(1).others, IsEmpty());
}

}  // namespace
}  // namespace eoib::gateway
