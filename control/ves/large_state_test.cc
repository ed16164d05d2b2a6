// States of 65,536 MACs between two engines, through the queues that are between control and a
// worker, with loss and changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/protocol/vport_protocol.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/sanitizer_for_test.h"
#include "vswitch/base/seed_for_test.h"
#include "vswitch/forwarder/control_queues.h"

namespace eoib {
namespace {

FdbKey NumberedMac(uint64_t number) {
  return FdbKey(Vid(7), MacAddr::FromUint64(0x0200'5e00'0000 + number));
}

// An engine, and the queues of its VES.
class QueuedAgent final : public ProtocolEvents {
 public:
  QueuedAgent(uint8_t number, const Clock* clock, std::mt19937_64* random)
      : address_{Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(number)), Qpn(number)} {
    VPortProtocol::Options options;
    options.id = AgentId(AgentId::Bytes{number});
    options.incarnation = 1;
    options.host = absl::StrCat("h", number);
    options.largest_message = 1900;
    engine_ =
        std::make_unique<VPortProtocol>(options, this, clock, [random] { return (*random)(); });
    engine_->SetAddresses({{address_, true}});
  }

  VPortProtocol& engine() { return *engine_; }
  const PeerAddress& address() const { return address_; }
  size_t refused() const { return refused_; }

  void SendToGroup(const std::vector<uint8_t>& payload) override { Push(payload); }
  void SendTo(const PeerAddress&, const PeerAddress&,
              const std::vector<uint8_t>& payload) override {
    Push(payload);
  }
  size_t Room() const override { return injected_.MessageRoom(); }
  void OnAgent(const RemoteAgent&) override {}
  void OnAgentGone(const RemoteAgent&) override {}
  void OnMac(FdbKey, const MacClaim&) override {}
  void OnMacFree(FdbKey) override {}
  void OnClaimLost(FdbKey, const MacClaim&, bool) override {}
  void OnCopiedId(const PeerAddress&) override {}
  void OnConflict(FdbKey, const MacClaim&) override {}
  void OnConflictOver(FdbKey) override {}
  void OnIdTaken(const PeerAddress&) override {}
  void OnQuestioned(FdbKey) override {}
  void OnNotBehind(FdbKey, const AgentId&) override {}

  // The worker sends what control has queued to `other`, whose control handles it at once. Returns
  // the number of messages.
  size_t Deliver(QueuedAgent* other, double loss, std::mt19937_64* random) {
    ControlMessage message;
    size_t delivered = 0;
    while (injected_.Pop(&message)) {
      ++delivered;
      if (std::uniform_real_distribution<double>(0, 1)(*random) < loss) continue;
      if (!other->received_.Push(message)) ++other->refused_;
    }
    while (other->received_.Pop(&message)) {
      other->engine_->Receive({message.payload.data(), message.length}, address_, /*by_group=*/true,
                              other->address_);
    }
    return delivered;
  }

 private:
  void Push(const std::vector<uint8_t>& payload) {
    message_.length = static_cast<uint32_t>(payload.size());
    std::copy(payload.begin(), payload.end(), message_.payload.begin());
    if (!injected_.Push(message_)) ++refused_;
  }

  const PeerAddress address_;
  std::unique_ptr<VPortProtocol> engine_;
  InjectQueue injected_;
  ReceivedMessages received_;
  ControlMessage message_;
  size_t refused_ = 0;  // messages that found a queue full
};

class LargeStateTest : public testing::TestWithParam<int> {
 protected:
  static constexpr uint64_t kMacs = kSanitized ? 8192 : AgentView::kMaxMacs;
  static constexpr absl::Duration kStep = absl::Milliseconds(1);

  // Until `done`, at most for `time`.
  template <typename Done>
  bool RunUntil(Done done, absl::Duration time) {
    for (const absl::Time end = clock_.Now() + time; clock_.Now() < end; clock_.Advance(kStep)) {
      if (clock_.Now() >= next_change_) Change();
      for (QueuedAgent* const agent : {&sender_, &receiver_}) {
        for (int turn = 0; turn < 8 && agent->engine().NextDeadline() <= clock_.Now(); ++turn)
          agent->engine().Run();
      }
      sender_.Deliver(&receiver_, loss_, &random_);
      receiver_.Deliver(&sender_, loss_, &random_);
      if (done()) return true;
    }
    return false;
  }
  // Another MAC comes or goes.
  void Change() {
    next_change_ += change_every_;
    const FdbKey key = NumberedMac(random_() % kMacs);
    if (sender_.engine().own().current().macs.contains(key)) {
      sender_.engine().Release(key);
    } else {
      sender_.engine().Claim(key, 1);
    }
  }
  const RemoteAgent* View() {
    const auto at = receiver_.engine().agents().find(sender_.engine().own().id());
    return at == receiver_.engine().agents().end() ? nullptr : at->second.get();
  }
  bool IsRight() {
    return View() != nullptr && !sender_.engine().own().has_changes() &&
           View()->view() == sender_.engine().own().announced();
  }

  const double loss_ = GetParam() / 100.0;
  FakeClock clock_;
  std::mt19937_64 random_{SeedForTest()};
  QueuedAgent sender_{1, &clock_, &random_}, receiver_{2, &clock_, &random_};
  absl::Time next_change_ = absl::InfiniteFuture();
  absl::Duration change_every_ = absl::InfiniteDuration();
};

// The receiver starts later, and the sender goes on changing.
TEST_P(LargeStateTest, ArrivesAtALatecomer) {
  sender_.engine().SetVPort({1, "web1", {{Vid(7), Vid(7)}}});
  for (uint64_t i = 0; i < kMacs; ++i) sender_.engine().Claim(NumberedMac(i), 1);
  while (sender_.engine().own().has_changes()) {
    sender_.engine().Run();
    clock_.Advance(kStep);
    ControlMessage message;
    sender_.Deliver(&receiver_, /*loss=*/1, &random_);
  }
  receiver_.engine().SetVPort({1, "web2", {{Vid(7), Vid(7)}}});
  const absl::Time begin = clock_.Now();
  EXPECT_TRUE(RunUntil([&] { return IsRight(); }, absl::Seconds(60)));
  EXPECT_LT(clock_.Now() - begin, absl::Seconds(30)) << "until the state was there";
  EXPECT_EQ(sender_.refused() + receiver_.refused(), 0u) << "messages that found a queue full";

  change_every_ = absl::Milliseconds(333);
  next_change_ = clock_.Now();
  RunUntil([] { return false; }, absl::Seconds(30));
  next_change_ = absl::InfiniteFuture();
  EXPECT_TRUE(RunUntil([&] { return IsRight(); }, absl::Seconds(10)));
  EXPECT_EQ(View()->view().macs.size(), sender_.engine().own().current().macs.size());
}

// While it arrives, twenty changes a second are announced.
TEST_P(LargeStateTest, ArrivesWhileItChanges) {
  sender_.engine().SetVPort({1, "web1", {{Vid(7), Vid(7)}}});
  receiver_.engine().SetVPort({1, "web2", {{Vid(7), Vid(7)}}});
  for (uint64_t i = 0; i < kMacs; i += 2) sender_.engine().Claim(NumberedMac(i), 1);
  change_every_ = absl::Milliseconds(50);
  next_change_ = clock_.Now();
  const auto is_near = [&] {
    if (View() == nullptr) return false;
    const size_t present = View()->view().macs.size(),
                 truth = sender_.engine().own().current().macs.size();
    return present + 20 > truth && present < truth + 20;
  };
  EXPECT_TRUE(RunUntil(is_near, absl::Seconds(60)))
      << (View() == nullptr ? 0 : View()->view().macs.size());
  next_change_ = absl::InfiniteFuture();
  EXPECT_TRUE(RunUntil([&] { return IsRight(); }, absl::Seconds(20)));
  EXPECT_EQ(sender_.refused() + receiver_.refused(), 0u) << "messages that found a queue full";
}

INSTANTIATE_TEST_SUITE_P(LossInPercent, LargeStateTest, testing::Values(0, 1, 5),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace eoib
