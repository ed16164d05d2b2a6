// Messages between the controls of two hosts, and the frames that control injects.
#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/forwarder/forwarder_test_fixture.h"

namespace eoib {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr size_t kLargestPayload = ControlMessage::kMaxSize;
constexpr size_t kSmallestPayload = kMinFrameSize - kEthernetHeaderSize;

Bytes Payload(size_t size, uint8_t first = 1) {
  Bytes payload(size);
  for (size_t i = 0; i < size; ++i) payload[i] = static_cast<uint8_t>(first + i * 7);
  return payload;
}

// As it arrives: a frame has a minimum size.
Bytes Padded(Bytes payload) {
  payload.resize(std::max(payload.size(), kSmallestPayload));
  return payload;
}

std::vector<Bytes> PayloadsOf(const std::vector<ControlMessage>& messages) {
  std::vector<Bytes> payloads;
  for (const ControlMessage& message : messages) payloads.push_back(PayloadOf(message));
  return payloads;
}

class ControlLinkTest : public ForwarderTest {
 protected:
  void MakeTwo() {
    h1_ = AddHost("h1");
    p1_ = h1_->AddPort("p1");
    h2_ = AddHost("h2");
    p2_ = h2_->AddPort("p2");
  }
  // Takes all buffers of a host, and returns them in the end.
  class WithoutBuffers {
   public:
    explicit WithoutBuffers(Host* host) : pool_(host->pool()) {
      for (BufferId buffer; !(buffer = pool_->Allocate()).IsNone();) taken_.push_back(buffer);
    }
    ~WithoutBuffers() {
      for (BufferId buffer : taken_) pool_->Free(buffer);
    }

   private:
    BufferPool* const pool_;
    std::vector<BufferId> taken_;
  };

  Host *h1_, *h2_;
  TestPort *p1_, *p2_;
};

// ---- Messages: received -------------------------------------------------------------------------

TEST_F(ControlLinkTest, AMessageToTheGroupReachesControlOnAllOtherHosts) {
  MakeTwo();
  Host* h3 = AddHost("h3");
  ASSERT_TRUE(h1_->SendMessage(VPortId::None(), Payload(100)));
  Settle();
  for (Host* host : {h2_, h3}) {
    const std::vector<ControlMessage> messages = host->TakeMessages();
    ASSERT_THAT(messages, SizeIs(1));
    EXPECT_EQ(PayloadOf(messages[0]), Payload(100));
    EXPECT_EQ(messages[0].peer, h1_->address());
    EXPECT_EQ(messages[0].vport, host->directory()->Find(h1_->address()));
    EXPECT_TRUE(messages[0].by_group);
    EXPECT_EQ(host->dropped(DropReason::kControlMessage), 1u);
  }
  EXPECT_THAT(h1_->TakeMessages(), IsEmpty()) << "its own";
}

TEST_F(ControlLinkTest, AMessageToAVPortReachesControlThereOnly) {
  MakeTwo();
  Host* h3 = AddHost("h3");
  ASSERT_TRUE(h1_->SendMessage(h1_->Know(*h2_), Payload(100)));
  Settle();
  const std::vector<ControlMessage> messages = h2_->TakeMessages();
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(PayloadOf(messages[0]), Payload(100));
  EXPECT_EQ(messages[0].peer, h1_->address());
  EXPECT_FALSE(messages[0].by_group);
  EXPECT_THAT(h3->TakeMessages(), IsEmpty());
}

TEST_F(ControlLinkTest, MessagesAreNeitherForwardedNorLearnedFrom) {
  MakeTwo();
  ASSERT_TRUE(h1_->SendMessage(VPortId::None(), Payload(100)));
  ASSERT_TRUE(h1_->SendMessage(h1_->Know(*h2_), Payload(100)));
  Settle();
  EXPECT_THAT(h2_->TakeMessages(), SizeIs(2));
  EXPECT_THAT(Frames(p1_), IsEmpty());
  EXPECT_THAT(Frames(p2_), IsEmpty());
  EXPECT_EQ(h1_->fdb()->size() + h2_->fdb()->size(), 0u);
  EXPECT_EQ(h2_->counters().forwarded.value(), 0u);
}

// So control can resolve the path before it answers.
TEST_F(ControlLinkTest, ANewPeerIsPuntedBeforeItsMessageAndControlIsWoken) {
  MakeTwo();
  ASSERT_TRUE(h1_->SendMessage(VPortId::None(), Payload(100)));
  Settle(/*resolve=*/false);
  const std::vector<Punt> punts = h2_->TakePunts(Punt::Kind::kNewPeer);
  const std::vector<ControlMessage> messages = h2_->TakeMessages();
  ASSERT_THAT(punts, SizeIs(1));
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(punts[0].vport, messages[0].vport);
  EXPECT_EQ(punts[0].peer, messages[0].peer);
  EXPECT_TRUE(h2_->TakeWakeup());
  ASSERT_TRUE(h1_->SendMessage(VPortId::None(), Payload(100)));
  Settle(/*resolve=*/false);
  EXPECT_THAT(h2_->TakePunts(Punt::Kind::kNewPeer), IsEmpty());
  EXPECT_TRUE(h2_->TakeWakeup()) << "by the message alone";
}

TEST_F(ControlLinkTest, AMessageOfAPeerThatGetsNoVPortIsHandedOverAllTheSame) {
  MakeTwo();
  for (uint32_t qpn = 0; qpn < VPortDirectory::kDataOnlyPerPort; ++qpn) {
    h2_->directory()->Intern({h1_->address().gid, Qpn(0x800000 + qpn)});
  }
  ASSERT_TRUE(h1_->SendMessage(VPortId::None(), Payload(100)));
  Settle();
  const std::vector<ControlMessage> messages = h2_->TakeMessages();
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].vport, VPortId::None());
  EXPECT_EQ(messages[0].peer, h1_->address());
}

TEST_F(ControlLinkTest, MessagesOfAllSizesArriveWhole) {
  MakeTwo();
  const VPortId vport = h1_->Know(*h2_);
  for (size_t size : {size_t{0}, size_t{1}, kSmallestPayload - 1, kSmallestPayload,
                      kSmallestPayload + 1, size_t{1900}, kLargestPayload - 1, kLargestPayload}) {
    SCOPED_TRACE(size);
    for (VPortId to : {VPortId::None(), vport}) {
      ASSERT_TRUE(h1_->SendMessage(to, Payload(size)));
      Settle();
      EXPECT_THAT(PayloadsOf(h2_->TakeMessages()), ElementsAre(Padded(Payload(size))));
    }
  }
}

// Bytes of an earlier, longer message in the same buffer must not leave with it.
TEST_F(ControlLinkTest, AShortMessageIsPaddedWithZeros) {
  MakeTwo();
  for (int i = 0; i < 2000; ++i) {
    clock_.Advance(absl::Milliseconds(10));  // the rate of an unknown sender
    ASSERT_TRUE(
        h1_->SendMessage(VPortId::None(), Payload(i % 2 == 0 ? kSmallestPayload : 5, 0xff)));
    Settle();
    const size_t size = i % 2 == 0 ? kSmallestPayload : 5;
    ASSERT_THAT(PayloadsOf(h2_->TakeMessages()), ElementsAre(Padded(Payload(size, 0xff)))) << i;
  }
}

// One sender finds it full when half of it is free: the rest is for others.
TEST_F(ControlLinkTest, AMessageThatFindsTheQueueFullIsCounted) {
  MakeTwo();
  h2_->Know(*h1_);
  size_t sent = 0;
  while (h2_->dropped(DropReason::kControlQueueFull) < 3) {
    ASSERT_TRUE(h1_->SendMessage(VPortId::None(), Payload(100, static_cast<uint8_t>(sent++))));
    Settle();
    ASSERT_LT(sent, 10000u);
  }
  EXPECT_EQ(h2_->dropped(DropReason::kControlMessage), sent - 3);
  const std::vector<Bytes> payloads = PayloadsOf(h2_->TakeMessages());
  ASSERT_THAT(payloads, SizeIs(sent - 3));
  for (size_t i = 0; i < payloads.size(); ++i)
    EXPECT_EQ(payloads[i], Payload(100, static_cast<uint8_t>(i))) << i;
  ASSERT_TRUE(h1_->SendMessage(VPortId::None(), Payload(99)));
  Settle();
  EXPECT_THAT(PayloadsOf(h2_->TakeMessages()), ElementsAre(Payload(99))) << "there is room again";
}

TEST_F(ControlLinkTest, AFloodIsCutToTheRateAndCounted) {
  MakeTwo();
  size_t handed = 0;
  while (h2_->dropped(DropReason::kControlRate) < 3) {
    for (int i = 0; i < 64; ++i) ASSERT_TRUE(h1_->SendMessage(VPortId::None(), Payload(100)));
    Settle();
    handed += h2_->TakeMessages().size();
    ASSERT_LT(handed, 10000u);
  }
  EXPECT_EQ(h2_->dropped(DropReason::kControlMessage), handed);
  EXPECT_LE(handed, static_cast<size_t>(MessageAdmission::kBurst / MessageAdmission::kUnknownCost))
      << "h1 is not known";
}

// ---- Messages: sent -----------------------------------------------------------------------------

// The fixture checks the conservation law after each test.
TEST_F(ControlLinkTest, MessagesAreCounted) {
  MakeTwo();
  ASSERT_TRUE(h1_->SendMessage(VPortId::None(), Payload(100)));
  ASSERT_TRUE(h1_->SendMessage(h1_->Know(*h2_), Payload(100)));
  Settle();
  const ForwarderCounters& counters = h1_->counters();
  EXPECT_EQ(counters.from_control.value(), 2u);
  EXPECT_EQ(counters.messages_sent.value(), 2u);
  EXPECT_EQ(counters.egress_copies.value(), 2u);
  EXPECT_EQ(counters.transmitted_fabric.value(), 2u);
  EXPECT_EQ(counters.from_ports.value(), 0u);
  EXPECT_EQ(h2_->counters().from_fabric.value(), 2u);
}

// The protocol repeats it; frames may need the room for held ones.
TEST_F(ControlLinkTest, AMessageForAVPortWithoutAPathIsDropped) {
  MakeTwo();
  ASSERT_TRUE(h1_->SendMessage(h1_->directory()->Intern(h2_->address()), Payload(100)));
  Settle();
  EXPECT_FALSE(h1_->forwarder()->HasWaitingFrames());
  EXPECT_EQ(h1_->dropped(DropReason::kUnresolved), 1u);
  EXPECT_THAT(h2_->TakeMessages(), IsEmpty());
}

TEST_F(ControlLinkTest, AMessageForAVPortThatIsNotRemoteIsDropped) {
  MakeTwo();
  const VPortId gone = h1_->Know(*h2_);
  h1_->directory()->Remove(gone);
  ASSERT_TRUE(h1_->SendMessage(gone, Payload(100)));
  ASSERT_TRUE(h1_->SendMessage(h1_->local_vport(0), Payload(100)));
  Settle();
  EXPECT_EQ(h1_->dropped(DropReason::kUnresolved), 2u);
  EXPECT_THAT(Frames(p1_), IsEmpty());
}

TEST_F(ControlLinkTest, AMessageToAGroupThatIsNotJoinedIsDropped) {
  MakeTwo();
  h1_->forwarder()->SetFloodHandle(AhIndex::None());
  ASSERT_TRUE(h1_->SendMessage(VPortId::None(), Payload(100)));
  Settle();
  EXPECT_EQ(h1_->dropped(DropReason::kFabricDown), 1u);
}

TEST_F(ControlLinkTest, AMessageLargerThanTheMtuIsDropped) {
  MakeTwo();
  h1_->forwarder()->SetMtu(2040);
  for (size_t size : {size_t{2040} - kEthernetHeaderSize, size_t{2040} - kEthernetHeaderSize + 1,
                      kLargestPayload}) {
    ASSERT_TRUE(h1_->SendMessage(VPortId::None(), Payload(size)));
  }
  Settle();
  EXPECT_EQ(h1_->dropped(DropReason::kTooLarge), 2u);
  EXPECT_THAT(h2_->TakeMessages(), SizeIs(1));
  EXPECT_EQ(h1_->counters().from_control.value(), 3u);
}

TEST_F(ControlLinkTest, AMessageWithoutABufferIsCounted) {
  MakeTwo();
  {
    const WithoutBuffers without(h1_);
    ASSERT_TRUE(h1_->SendMessage(VPortId::None(), Payload(100)));
    Settle();
  }
  EXPECT_EQ(h1_->dropped(DropReason::kNoBuffer), 1u);
  EXPECT_EQ(h1_->counters().from_control.value(), 1u);
  EXPECT_EQ(h1_->counters().messages_sent.value(), 0u);
  EXPECT_EQ(h1_->counters().from_ports.value(), 0u);
}

TEST_F(ControlLinkTest, ControlIsToldThatItsQueueIsFull) {
  MakeTwo();
  uint8_t queued = 0;
  while (h1_->SendMessage(VPortId::None(), Payload(100, queued))) ASSERT_LT(++queued, 255);
  EXPECT_GT(queued, 0);
  Settle();
  const std::vector<Bytes> payloads = PayloadsOf(h2_->TakeMessages());
  ASSERT_THAT(payloads, SizeIs(queued));
  for (uint8_t i = 0; i < queued; ++i) EXPECT_EQ(payloads[i], Payload(100, i));
  EXPECT_EQ(h1_->counters().frames_in.value(), queued + h1_->dropped(DropReason::kOwnMulticast));
  EXPECT_TRUE(h1_->SendMessage(VPortId::None(), Payload(100)));
  Settle();
}

// The question whether an agent is alive must not count as traffic to it; its answer shows that it
// is alive.
TEST_F(ControlLinkTest, FramesAreTrafficToAVPortAndMessagesAreNot) {
  MakeTwo();
  const VPortId two = h1_->Know(*h2_);
  ASSERT_TRUE(h1_->fdb()->AddStatic(FdbKey(Vid(0), kB), two).ok());
  h1_->directory()->TakeTraffic(two);
  ASSERT_TRUE(h1_->SendMessage(two, Payload(100)));
  ASSERT_TRUE(h1_->SendMessage(VPortId::None(), Payload(100)));
  p1_->Inject(MakeFrame(kC, kA));  // floods
  Settle();
  EXPECT_FALSE(h1_->directory()->TakeTraffic(two).sent);
  p1_->Inject(MakeFrame(kB, kA));
  Settle();
  VPortDirectory::Traffic traffic = h1_->directory()->TakeTraffic(two);
  EXPECT_TRUE(traffic.sent);
  EXPECT_FALSE(traffic.heard);
  for (int i = 0; i < 2; ++i) {  // the second time the worker knows it
    ASSERT_TRUE(h2_->SendMessage(VPortId::None(), Payload(100)));
    Settle();
    traffic = h1_->directory()->TakeTraffic(two);
    EXPECT_TRUE(traffic.heard);
    EXPECT_FALSE(traffic.sent);
  }
}

// ---- Injected frames ----------------------------------------------------------------------------

Injected ToInject(const Bytes& frame) {
  Injected message;
  message.length = static_cast<uint32_t>(frame.size());
  std::copy(frame.begin(), frame.end(), message.frame.begin());
  return message;
}

TEST_F(ControlLinkTest, AnInjectedFrameGoesTheWayOfThePortsFrames) {
  Host* h1 = AddHost("h1");
  h1->AddPort("p1");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  const Bytes frame = MakeFrame(MacAddr::Broadcast(), kA);
  h1->injected()->Push(ToInject(frame));
  Settle();
  EXPECT_THAT(Frames(p2), ElementsAre(frame));
}

// The fixture checks the conservation law.
TEST_F(ControlLinkTest, AFrameThatCannotBeInjectedIsCounted) {
  Host* h1 = AddHost("h1");
  h1->AddPort("p1");
  const Injected message = ToInject(MakeFrame(MacAddr::Broadcast(), kA));
  {
    const WithoutBuffers without(h1);
    for (int i = 0; i < 3; ++i) h1->injected()->Push(message);
    Settle();
  }
  EXPECT_EQ(h1->dropped(DropReason::kNoBuffer), 3u);
  EXPECT_EQ(h1->counters().frames_in.value(), 3u);
  constexpr uint64_t kMany = 1000;
  for (uint64_t i = 0; i < kMany; ++i) h1->injected()->Push(message);
  Settle();
  const uint64_t refused = h1->dropped(DropReason::kInjectQueueFull);
  EXPECT_GT(refused, 0u);
  EXPECT_LT(refused, kMany);
  EXPECT_EQ(h1->counters().from_ports.value(), 3 + kMany);
}

TEST_F(ControlLinkTest, HeldFramesAreRetriedWhateverIsToBeInjected) {
  TestPort* p1 = AddHost("h1")->AddPort("p1");
  Host* h2 = AddHost("h2");
  TestPort* p2 = h2->AddPort("p2");
  p1->Inject(MakeFrame(kB, kA));
  Settle(/*resolve=*/false);
  p2->Inject(MakeFrame(kA, kB));
  Settle(/*resolve=*/false);
  ASSERT_TRUE(h2->forwarder()->HasWaitingFrames());
  for (int i = 0; i < 1000; ++i)
    h2->injected()->Push(ToInject(MakeFrame(MacAddr::Broadcast(), kB)));
  EXPECT_TRUE(h2->ResolvePunts()) << "while the queue is full";
  Settle();
  EXPECT_THAT(Frames(p1), Contains(MakeFrame(kA, kB)));
}

}  // namespace
}  // namespace eoib
