#include "control/protocol/address_prover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "vswitch/base/clock.h"

namespace eoib {
namespace {

using Kind = VPortMessage::Kind;
using testing::SizeIs;

class AddressProverTest : public testing::Test {
 protected:
  static PeerAddress Peer(uint64_t port, uint32_t qpn) {
    return {Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(port)), Qpn(qpn)};
  }
  static VPortMessage Message(Kind kind, uint64_t token = 0, uint32_t version = 1) {
    VPortMessage message;
    message.kind = kind;
    message.agent = *AgentId::Parse("000000000000000000000000000000ff");
    message.token = token;
    message.version = version;
    return message;
  }
  // Whether the message proves its sender. Its earlier messages go to earlier_.
  bool Hear(const VPortMessage& message, const PeerAddress& source, bool by_group = false,
            size_t agents = 1) {
    earlier_.clear();
    const bool is_proven = prover_.Hear(message, source, by_group, agents, &earlier_);
    prover_.Run();
    return is_proven;
  }
  void Pass(absl::Duration time) {
    clock_.Advance(time);
    prover_.Run();
  }

  FakeClock clock_;
  uint64_t random_ = 1000;
  std::map<PeerAddress, std::vector<uint64_t>> probes_;  // their tokens
  AddressProver prover_{
      &clock_, [this] { return ++random_; },
      [this](const PeerAddress& peer, uint64_t token) { probes_[peer].push_back(token); }};
  std::vector<AddressProver::Kept> earlier_;
};

TEST_F(AddressProverTest, TokenIsOfOneAddressAndAgent) {
  ASSERT_FALSE(Hear(Message(Kind::kAnnounce), Peer(1, 1)));
  ASSERT_FALSE(Hear(Message(Kind::kAnnounce), Peer(1, 2)));
  const uint64_t first = probes_[Peer(1, 1)].at(0), second = probes_[Peer(1, 2)].at(0);
  EXPECT_NE(first, second);
  EXPECT_FALSE(Hear(Message(Kind::kAlive, second), Peer(1, 1)));
  EXPECT_FALSE(Hear(Message(Kind::kProbe, first), Peer(1, 1))) << "no answer";
  VPortMessage other = Message(Kind::kAlive, first);
  other.agent = *AgentId::Parse("000000000000000000000000000000fe");
  EXPECT_FALSE(Hear(other, Peer(1, 1)));
  EXPECT_TRUE(Hear(Message(Kind::kAlive, first), Peer(1, 1)));
  EXPECT_FALSE(Hear(Message(Kind::kAlive, first), Peer(1, 1))) << "a token is used once";
}

TEST_F(AddressProverTest, ProbesAreRepeatedWithOneTokenAndTheTokenExpires) {
  EXPECT_FALSE(Hear(Message(Kind::kAnnounce), Peer(1, 1)));
  absl::Duration passed;
  for (const absl::Duration pause : AddressProver::kPauses) {
    Pass(pause - absl::Milliseconds(1));
    Pass(absl::Milliseconds(1));
    passed += pause;
  }
  const std::vector<uint64_t> tokens = probes_[Peer(1, 1)];
  EXPECT_EQ(tokens, std::vector(AddressProver::kPauses.size(), tokens[0]));
  EXPECT_EQ(prover_.NextDeadline(), absl::InfiniteFuture());
  EXPECT_FALSE(Hear(Message(Kind::kAlive, tokens[0]), Peer(1, 1)));
}

TEST_F(AddressProverTest, KeepsAFewMessagesInTheirOrder) {
  for (uint32_t version = 1; version <= 10; ++version) {
    EXPECT_FALSE(Hear(Message(Kind::kAnnounce, 0, version), Peer(1, 1), version == 2));
    EXPECT_FALSE(Hear(Message(Kind::kProbe), Peer(1, 1)));
  }
  EXPECT_TRUE(Hear(Message(Kind::kAlive, probes_[Peer(1, 1)].at(0)), Peer(1, 1)));
  ASSERT_THAT(earlier_, SizeIs(AddressProver::kMostKept));
  for (uint32_t i = 0; i < AddressProver::kMostKept; ++i) {
    EXPECT_EQ(earlier_[i].message, Message(Kind::kAnnounce, 0, i + 1));
    EXPECT_EQ(earlier_[i].by_group, i == 1);
  }
}

TEST_F(AddressProverTest, OldestSenderAtAPortGivesWay) {
  EXPECT_FALSE(Hear(Message(Kind::kAnnounce), Peer(2, 1)));
  for (uint32_t qpn = 1; qpn <= AddressProver::kMostAtPort + 1; ++qpn)
    EXPECT_FALSE(Hear(Message(Kind::kAnnounce), Peer(1, qpn)));
  EXPECT_FALSE(Hear(Message(Kind::kAlive, probes_[Peer(1, 1)].at(0)), Peer(1, 1)));
  EXPECT_TRUE(Hear(Message(Kind::kAlive, probes_[Peer(1, AddressProver::kMostAtPort + 1)].at(0)),
                   Peer(1, AddressProver::kMostAtPort + 1)));
  EXPECT_TRUE(Hear(Message(Kind::kAlive, probes_[Peer(2, 1)].at(0)), Peer(2, 1)))
      << "at another port";
}

TEST_F(AddressProverTest, OldestSenderOfAllGivesWay) {
  for (uint64_t port = 0; port <= AddressProver::kMost; ++port) {
    EXPECT_FALSE(Hear(Message(Kind::kAnnounce), Peer(port + 1, 1)));
    Pass(absl::Microseconds(1));
  }
  Pass(absl::Seconds(1));
  EXPECT_TRUE(Hear(Message(Kind::kAlive, probes_[Peer(2, 1)].at(0)), Peer(2, 1)));
  EXPECT_FALSE(Hear(Message(Kind::kAlive, probes_[Peer(1, 1)].at(0)), Peer(1, 1)));
}

// A message to the group of many agents. A few agents, and what comes by unicast, are probed at
// once.
TEST_F(AddressProverTest, ProbesOfManyAgentsAreSpread) {
  EXPECT_FALSE(
      Hear(Message(Kind::kAnnounce), Peer(1, 1), /*by_group=*/true, AddressProver::kAtOnce));
  EXPECT_FALSE(Hear(Message(Kind::kAnnounce), Peer(2, 1), /*by_group=*/false, 1000));
  EXPECT_FALSE(Hear(Message(Kind::kAnnounce), Peer(3, 1), /*by_group=*/true, 1000));
  EXPECT_THAT(probes_[Peer(1, 1)], SizeIs(1));
  EXPECT_THAT(probes_[Peer(2, 1)], SizeIs(1));
  EXPECT_THAT(probes_[Peer(3, 1)], SizeIs(0));
  Pass(absl::Milliseconds(47));
  EXPECT_THAT(probes_[Peer(3, 1)], SizeIs(1));
}

}  // namespace
}  // namespace eoib
