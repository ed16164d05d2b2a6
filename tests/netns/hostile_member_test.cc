// A member with a true port sends one agent the most expensive messages of the vPort protocol, many
// times faster than it may. The agent answers the others meanwhile, and forwards.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/lab/steady_ping.h"
#include "tests/lab/switch_test.h"
#include "tests/netns/rogue_peer.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/vport_message.h"

namespace eoib::lab {
namespace {

using Kind = VPortMessage::Kind;

// An agent of the VES, as far as the vPort protocol goes.
class Member {
 public:
  Member(Fabric* fabric, const std::string& name, Agent* victim, uint8_t id)
      : peer_(fabric, name, victim) {
    AgentId::Bytes bytes{};
    bytes[0] = 0x70;
    bytes[15] = id;
    id_ = AgentId(bytes);
    peer_.Take();  // from now on it receives
  }

  VPortMessage Header(Kind kind) const {
    VPortMessage message;
    message.kind = kind;
    message.agent = id_;
    message.incarnation = 1;
    message.version = version_;
    message.sender = peer_.address();
    return message;
  }
  // The whole state of the next version, without MACs.
  VPortMessage NextState() {
    ++version_;
    VPortMessage message = Header(Kind::kAnnounce);
    message.base = 0;
    message.capabilities = AgentCapabilities();
    message.addresses = {{peer_.address(), false}};
    return message;
  }
  // A change of the last version, which takes something back.
  VPortMessage NextWithdrawal() {
    ++version_;
    VPortMessage message = Header(Kind::kWithdraw);
    message.base = version_ - 1;
    return message;
  }
  void Send(const VPortMessage& message) {
    std::vector<uint8_t> frame(kEthernetHeaderSize);
    WriteEthernetHeader(MacAddr::FromUint64(0x0300'0000'88b5),
                        MacAddr::FromUint64(0x02'66'00'00'00'02), kEtherTypeControl, frame.data());
    const std::vector<uint8_t> payload = EncodeVPortMessage(message);
    frame.insert(frame.end(), payload.begin(), payload.end());
    frame.resize(std::max<size_t>(frame.size(), 60));
    peer_.Send(Encapsulated(0xc0000000, frame));
  }
  // Answers the Probes that arrived. Returns whether an Alive with this token did.
  bool Answer(uint64_t token) {
    bool alive = false;
    for (const std::vector<uint8_t>& payload : peer_.Take()) {
      constexpr size_t kHeaders = 4 + kEthernetHeaderSize;
      if (payload.size() <= kHeaders) continue;
      const auto message = DecodeVPortMessage(absl::MakeConstSpan(payload).subspan(kHeaders));
      if (!message.ok()) continue;
      alive |= message->kind == Kind::kAlive && message->token == token;
      if (message->kind != Kind::kProbe) continue;
      VPortMessage answer = Header(Kind::kAlive);
      answer.token = message->token;
      Send(answer);
    }
    return alive;
  }
  // Sends a Probe, and waits for its answer. Repeats it each second, as a lost one is.
  bool Probe() {
    VPortMessage probe = Header(Kind::kProbe);
    probe.token = ++token_;
    absl::Time again = absl::InfinitePast();
    return EventuallyTrue(kPatience, [&] {
      if (absl::Now() >= again) {
        Send(probe);
        again = absl::Now() + absl::Seconds(1);
      }
      return Answer(probe.token);
    });
  }

 private:
  RoguePeer peer_;
  AgentId id_;
  uint32_t version_ = 0;
  uint64_t token_ = 0;
};

FdbKey MacOf(uint64_t number) {
  return FdbKey(Vid(0), MacAddr::FromUint64(0x02'77'00'00'00'00 + number));
}

// Sends until it is destroyed. Each round has a state with other MACs than before, withdrawn
// vPorts, questions about MACs, denials, and a request for the full state.
class Flood {
 public:
  explicit Flood(Member* member) : member_(member), thread_([this] { Run(); }) {}
  ~Flood() {
    ends_ = true;
    thread_.join();
  }

 private:
  // 25 messages, over 50 times as many as are admitted.
  static constexpr int kRoundsInAMillisecond = 5;
  // In a message of the longest size.
  static constexpr uint64_t kMacs = 110, kKeys = 240;
  static constexpr uint16_t kVPorts = 960;

  void Run() {
    while (!ends_) {
      for (int i = 0; i < kRoundsInAMillisecond; ++i) Round();
      member_->Answer(0);
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  void Round() {
    VPortMessage state = member_->NextState();
    for (uint64_t i = 0; i < kMacs; ++i) state.macs.push_back({MacOf(next_ + i), 1, 1, false});
    member_->Send(state);
    VPortMessage withdrawal = member_->NextWithdrawal();
    for (uint16_t id = 1; id <= kVPorts; ++id) withdrawal.gone_vports.push_back(id);
    member_->Send(withdrawal);
    VPortMessage request = member_->Header(Kind::kRequest), denial = member_->Header(Kind::kReply);
    for (uint64_t i = 0; i < kKeys; ++i) request.wanted_macs.push_back(MacOf(i));
    for (uint64_t i = 0; i < kKeys; ++i) denial.gone_macs.push_back(MacOf(next_ + i));
    member_->Send(request);
    member_->Send(denial);
    VPortMessage whole = member_->Header(Kind::kRequest);
    whole.wants_full_state = true;
    member_->Send(whole);
    next_ += kMacs;
  }

  Member* const member_;
  std::atomic<bool> ends_{false};
  uint64_t next_ = 0;
  std::thread thread_;
};

class HostileMemberTest : public SwitchTest {
 protected:
  // Closes the members' ports first: what is sent to them would stay under way for ever.
  void TearDown() override {
    hostile_.reset();
    prober_.reset();
    SwitchTest::TearDown();
  }

  std::unique_ptr<Member> hostile_, prober_;
};

TEST_F(HostileMemberTest, AFloodOfMessagesStopsNeitherTheOthersNorTheOperator) {
  const std::vector<Agent*> agents = AddNumberedAgents(3);
  WaitUntilAllReceive(agents);
  Agent& victim = agent(1);
  hostile_ = std::make_unique<Member>(&fabric(), "hostile", &victim, 1);
  prober_ = std::make_unique<Member>(&fabric(), "prober", &victim, 2);
  prober_->Send(prober_->NextState());
  ASSERT_TRUE(prober_->Probe());
  hostile_->Send(hostile_->NextState());
  ASSERT_TRUE(hostile_->Probe());

  // A slow agent leaves messages in the queue, where a sender may occupy half of the room.
  const auto all_dropped = [&] {
    return victim.Drop("control_rate") + victim.Drop("control_queue_full");
  };
  SteadyPing there(host(2), Address(1)), third(host(3), Address(1));
  {
    Flood flood(hostile_.get());
    for (uint64_t dropped = 0; dropped < 50'000; dropped += 5'000) {
      EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return all_dropped() >= dropped; }))
          << "eoibctl answers";
      EXPECT_TRUE(prober_->Probe());
    }
  }
  there.ExpectNoLoss();
  third.ExpectNoLoss();
  for (int number : {2, 3})
    EXPECT_EQ(agent(number).Stat("protocol_lost_addresses"), 0u)
        << "the victim has answered each Probe";
}

}  // namespace
}  // namespace eoib::lab
