// A channel by itself, on scripted verbs; the test plays its Link.
#include "gateway/link/channel.h"

#include <poll.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "gateway/link/conservation_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/daemon/counter_text.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/wire/ip/arp.h"

namespace eoib::ipoib {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr IpoibLink kScriptedLink = {PKey(0x8001)};
constexpr Lid kSlid(5);

IpoibAddress AddressOf(uint32_t number, uint32_t qpn = 0x77) {
  return {Qpn(qpn), Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(number))};
}

class ChannelTest : public testing::Test, protected Listener {
 protected:
  ChannelTest() {
    channel_.SetListener(this);
    EXPECT_TRUE(channel_.Rebind(endpoint_.get(), own_).ok());
    Tell({.kind = LinkEvent::Kind::kState,
          .state = LinkState{own_, kScriptedLink, 2044},
          .ah = GroupHandle(BroadcastGroup(kScriptedLink))});
  }
  ~ChannelTest() override {
    ExpectConservation();
    EXPECT_TRUE(channel_.Rebind(nullptr, {}).ok());
    ExpectConservation();
  }
  void ExpectConservation() {
    EXPECT_EQ(
        BrokenLaws(ParseNumbers(CountersText(StatsJson(channel_.counters(), channel_.UnderWay())),
                                "link."),
                   LinkLaws()),
        "");
  }

  void OnPacket(const Packet& packet) override {
    sources_.push_back(packet.source);
    verified_.push_back(packet.checksums_ok);
    if (const auto once = std::exchange(on_packet_, nullptr)) once();
  }
  void OnBatchEnd() override { batch_ends_.push_back(sources_.size()); }
  void OnLinkState() override {}

  void Tell(const LinkEvent& event) {
    ASSERT_TRUE(events_->Push(event));
    channel_.Work();
  }
  AhIndex GroupHandle(const IpoibGroup& group) {
    return *handles_.Get({ToMgid(group).gid(), 0xc001, Sl(0)}, {});
  }
  // A datagram arrives: with a GRH through the broadcast group, or without.
  void Arrive(const IpoibAddress& from, bool grh, const std::vector<uint8_t>& payload = {},
              IpoibType type = IpoibType::kIpv4, Lid slid = kSlid) {
    std::vector<uint8_t> bytes(kGrhSize + kIpoibHeaderSize);
    if (grh) {
      from.gid().ToWire(&bytes[8]);
      ToMgid(BroadcastGroup(kScriptedLink)).gid().ToWire(&bytes[24]);
    }
    EncodeIpoibHeader(type, &bytes[kGrhSize]);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    hca_.Deliver(bytes, {.status = IBV_WC_SUCCESS,
                         .src_qp = from.qpn().value(),
                         .wc_flags = (grh ? unsigned{IBV_WC_GRH} : 0u) | flags_,
                         .slid = slid.value()});
  }
  void Hear(const IpoibAddress& from, Lid slid = kSlid) {
    Arrive(from, true, {}, IpoibType::kIpv4, slid);
    channel_.Work();
  }
  std::vector<LinkRequest> TakeRequests() {
    std::vector<LinkRequest> requests;
    for (LinkRequest request; requests_->Pop(&request);) requests.push_back(request);
    return requests;
  }
  static bool IsReadable(int fd) {
    pollfd polled = {fd, POLLIN, 0};
    return poll(&polled, 1, 0) == 1;
  }

  FakeClock clock_;
  FakeHca hca_;
  AddressHandles handles_{&hca_, hca_.pd()};
  std::unique_ptr<BufferPool> pool_ = BufferPool::Create(&hca_, hca_.pd(), 1024, 2044).value();
  std::unique_ptr<UdEndpoint> endpoint_ =
      UdEndpoint::Create(&hca_, hca_.pd(), pool_.get(), &handles_,
                         {.receive_depth = 256, .send_depth = 256})
          .value();
  const IpoibAddress own_ = AddressOf(1, 0x48);
  VPortDirectory directory_;
  std::unique_ptr<LinkRequestQueue> requests_ = std::make_unique<LinkRequestQueue>();
  std::unique_ptr<LinkEventQueue> events_ = std::make_unique<LinkEventQueue>();
  std::vector<absl::optional<IpoibAddress>> sources_;
  std::vector<bool> verified_;       // Packet::checksums_ok
  unsigned flags_ = 0;               // of completions, beside the GRH's
  std::vector<size_t> batch_ends_;   // packets by then
  std::function<void()> on_packet_;  // called once
  Channel channel_{{pool_.get(), &directory_, requests_.get(), events_.get(), &clock_}};
};

TEST_F(ChannelTest, TellsWhetherTheHcaVerifiedChecksums) {
  for (const unsigned flags : {0u, unsigned{IBV_WC_IP_CSUM_OK}}) {
    flags_ = flags;
    Arrive(AddressOf(2), true);
  }
  channel_.Work();
  EXPECT_THAT(verified_, ElementsAre(false, true));
}

// If more than a batch arrives between the last poll and arming, the rest raises no event.
TEST_F(ChannelTest, ReceivesDatagramsThatArriveWhileArming) {
  constexpr size_t kMany = Channel::kBatch + 10;
  Arrive(AddressOf(2), true);
  on_packet_ = [this] {
    for (size_t i = 0; i < kMany; ++i) Arrive(AddressOf(2), true);
  };
  channel_.Work();
  while (IsReadable(channel_.fd())) channel_.Work();
  EXPECT_EQ(sources_.size(), kMany + 1);
}

// A listener with room for a few packets must not get more. More that arrive make fd() readable.
TEST_F(ChannelTest, WorkTakesNoMoreThanItsBatches) {
  for (size_t i = 0; i < Channel::kBatch + 10; ++i) Arrive(AddressOf(2), true);
  on_packet_ = [this] { Arrive(AddressOf(2), true); };
  channel_.Work(1);
  EXPECT_THAT(sources_, SizeIs(Channel::kBatch));
  EXPECT_EQ(batch_ends_.back(), Channel::kBatch);
  ASSERT_TRUE(IsReadable(channel_.fd()));
  channel_.Work(1);
  EXPECT_THAT(sources_, SizeIs(Channel::kBatch + 11));
  EXPECT_EQ(batch_ends_.back(), Channel::kBatch + 11);
}

// The Link checks for a failed endpoint when it is woken.
TEST_F(ChannelTest, ReportsAFailedQueuePairOnce) {
  TakeRequests();
  requests_->Clear();
  hca_.FailNext("poll_cq", EIO);
  channel_.Work();
  EXPECT_TRUE(endpoint_->failed());
  EXPECT_TRUE(IsReadable(requests_->fd()));
  requests_->Clear();
  channel_.Work();
  EXPECT_FALSE(IsReadable(requests_->fd()));
}

// The sender is learned all the same.
TEST_F(ChannelTest, CountsDatagramsReceivedWhileTheLinkIsDown) {
  Tell({.kind = LinkEvent::Kind::kState});
  Hear(AddressOf(2));
  EXPECT_THAT(sources_, IsEmpty());
  EXPECT_EQ(channel_.counters().drops[DropReason::kReceivedDown], 1u);
  EXPECT_EQ(channel_.counters().received.value(), 0u);
  Tell({.kind = LinkEvent::Kind::kState,
        .state = LinkState{own_, kScriptedLink, 2044},
        .ah = GroupHandle(BroadcastGroup(kScriptedLink))});
  Arrive(AddressOf(2), false);
  channel_.Work();
  EXPECT_THAT(sources_, ElementsAre(AddressOf(2)));
}

// One send has not completed, and one has not been posted.
TEST_F(ChannelTest, CountsSendsInFlightWhenTheQueuePairIsReplaced) {
  channel_.Broadcast(IpoibType::kIpv4, {});
  channel_.Flush();
  channel_.Broadcast(IpoibType::kIpv4, {});
  EXPECT_EQ(channel_.UnderWay(), 2u);
  EXPECT_TRUE(channel_.Rebind(nullptr, {}).ok());
  EXPECT_EQ(channel_.UnderWay(), 0u);
  EXPECT_EQ(channel_.counters().drops[DropReason::kLinkDown], 2u);
}

// ---- To send

TEST_F(ChannelTest, ADraftIsSentWithoutACopy) {
  const absl::Span<uint8_t> draft = channel_.Draft();
  ASSERT_GE(draft.size(), 2044u);
  std::fill_n(draft.begin(), 100, 0x5a);
  channel_.Broadcast(IpoibType::kIpv6, draft.first(100));
  EXPECT_NE(channel_.Draft().data(), draft.data()) << "it is on its way";
  channel_.Flush();
  ASSERT_THAT(hca_.qp()->sends, SizeIs(1));
  const auto* const sent = reinterpret_cast<const uint8_t*>(hca_.qp()->sends[0].sge.addr);
  EXPECT_EQ(sent + kIpoibHeaderSize, draft.data());
  EXPECT_EQ(hca_.qp()->sends[0].sge.length, kIpoibHeaderSize + 100);
  EXPECT_EQ(DecodeIpoibHeader({sent, kIpoibHeaderSize + 100}), IpoibType::kIpv6);
  hca_.CompleteSend();
}

TEST_F(ChannelTest, OtherPacketsLeaveTheDraftAlone) {
  const absl::Span<uint8_t> draft = channel_.Draft();
  draft[0] = 0x5a;
  channel_.Broadcast(IpoibType::kIpv4, std::vector<uint8_t>(100));
  channel_.Flush();
  EXPECT_EQ(channel_.Draft().data(), draft.data());
  EXPECT_EQ(draft[0], 0x5a);
  hca_.CompleteSend();
}

// ---- Peers

std::vector<Punt::Kind> KindsOf(const std::vector<LinkRequest>& requests) {
  std::vector<Punt::Kind> kinds;
  for (const LinkRequest& request : requests) kinds.push_back(request.punt.kind);
  return kinds;
}

// With LMC above 0, a peer may use several LIDs in turn.
TEST_F(ChannelTest, ReportsAPeerThatUsesItsLidsInTurnOnceASecond) {
  Hear(AddressOf(2));
  EXPECT_THAT(KindsOf(TakeRequests()), ElementsAre(Punt::Kind::kNewPeer));
  clock_.Advance(absl::Seconds(1));
  for (int i = 0; i < 100; ++i) Hear(AddressOf(2), Lid(static_cast<uint16_t>(6 + i % 2)));
  EXPECT_THAT(KindsOf(TakeRequests()), ElementsAre(Punt::Kind::kReaddressed));
  clock_.Advance(absl::Seconds(1));
  Hear(AddressOf(2), Lid(7));
  const std::vector<LinkRequest> requests = TakeRequests();
  ASSERT_THAT(KindsOf(requests), ElementsAre(Punt::Kind::kReaddressed));
  EXPECT_EQ(requests[0].punt.slid, Lid(7));
}

// A datagram of the peer, after a packet for it began to wait, is a request to control at once: the
// SA may be gone.
TEST_F(ChannelTest, HearingAPeerAfterAPathRequestIsReported) {
  channel_.Send(IpoibType::kIpv4, {}, AddressOf(2));
  Hear(AddressOf(2));
  EXPECT_THAT(KindsOf(TakeRequests()),
              ElementsAre(Punt::Kind::kUnresolved, Punt::Kind::kReaddressed));
}

// The directory reclaims vPorts once a minute; that says nothing about the others.
TEST_F(ChannelTest, AnotherGenerationOfTheDirectoryReportsNoPeerAgain) {
  Hear(AddressOf(2));
  TakeRequests();
  directory_.Remove(directory_.Intern(AddressOf(3).peer()));
  clock_.Advance(absl::Minutes(1));
  Hear(AddressOf(2));
  EXPECT_THAT(TakeRequests(), IsEmpty());
  directory_.Remove(directory_.Intern(AddressOf(2).peer()));
  Hear(AddressOf(2));
  EXPECT_THAT(KindsOf(TakeRequests()), ElementsAre(Punt::Kind::kNewPeer))
      << "its path is gone with its vPort";
}

// More than a batch of waiting packets.
TEST_F(ChannelTest, AllThatWaitsForPathsIsSentWhenTheyAreThere) {
  constexpr uint32_t kPeers = HeldFrames::kCapacity / HeldFrames::kPerKey;
  for (size_t i = 0; i < HeldFrames::kCapacity; ++i)
    channel_.Send(IpoibType::kIpv4, {}, AddressOf(2 + static_cast<uint32_t>(i) % kPeers));
  channel_.Flush();
  EXPECT_THAT(hca_.qp()->sends, IsEmpty());
  EXPECT_EQ(channel_.counters().held.value(), HeldFrames::kCapacity);
  const AhIndex ah = GroupHandle(BroadcastGroup(kScriptedLink));
  for (uint32_t i = 0; i < kPeers; ++i) {
    const IpoibAddress peer = AddressOf(2 + i);
    EXPECT_TRUE(directory_.SetPath(directory_.Intern(peer.peer()), peer.gid(), ah));
  }
  Tell({.kind = LinkEvent::Kind::kPaths});
  EXPECT_THAT(hca_.qp()->sends, SizeIs(HeldFrames::kCapacity));
  while (!hca_.qp()->sends.empty()) hca_.CompleteSend();
  channel_.Flush();
  EXPECT_EQ(channel_.counters().sent.value(), HeldFrames::kCapacity);
}

std::vector<uint8_t> ArpOf(const IpoibAddress& sender) {
  std::vector<uint8_t> bytes(IpoibArp::kSize);
  EXPECT_TRUE(
      EncodeArp({ArpOperation::kReply, sender, Ipv4Addr(1), AddressOf(1, 0x48), Ipv4Addr(2)},
                absl::MakeSpan(bytes)));
  return bytes;
}

// Otherwise a sender that names another port's GID would get that port's packets.
TEST_F(ChannelTest, TheWayOfADatagramIsNoneToAGidThatItsSenderNamed) {
  Arrive(AddressOf(2), false, ArpOf(AddressOf(2)), IpoibType::kArp);
  channel_.Work();
  EXPECT_EQ(sources_.back(), AddressOf(2)) << "but it is known by that";
  std::vector<LinkRequest> requests = TakeRequests();
  ASSERT_THAT(KindsOf(requests), ElementsAre(Punt::Kind::kUnresolved)) << "the SA is asked";
  EXPECT_EQ(requests[0].punt.slid, Lid());
  Arrive(AddressOf(2), false, ArpOf(AddressOf(3)), IpoibType::kArp);
  channel_.Work();
  EXPECT_EQ(sources_.back(), AddressOf(2)) << "and by no other";
  EXPECT_THAT(TakeRequests(), IsEmpty());

  Hear(AddressOf(2));
  requests = TakeRequests();
  ASSERT_THAT(KindsOf(requests), ElementsAre(Punt::Kind::kReaddressed));
  EXPECT_EQ(requests[0].punt.slid, kSlid);
  clock_.Advance(absl::Seconds(1));
  Arrive(AddressOf(2), false);
  channel_.Work();
  EXPECT_EQ(sources_.back(), AddressOf(2));
  EXPECT_THAT(TakeRequests(), IsEmpty());
}

// Another host may have that LID now, and the same QPN.
TEST_F(ChannelTest, SendersWithoutAGrhAreForgottenWhenLidsChange) {
  Hear(AddressOf(2));
  Arrive(AddressOf(2), false);
  channel_.Work();
  EXPECT_EQ(sources_.back(), AddressOf(2));
  Tell({.kind = LinkEvent::Kind::kLids});
  Arrive(AddressOf(2), false);
  channel_.Work();
  EXPECT_EQ(sources_.back(), absl::nullopt);
}

// While the Link takes no requests, those for peers are lost and repeated; those for groups wait.
TEST_F(ChannelTest, RequestsForPeersAreBounded) {
  const IpoibGroup group = *GroupOf(kScriptedLink, Ipv4Addr(0xef01'0203));
  for (uint32_t i = 0; i < 1030; ++i) Hear(AddressOf(2 + i));
  channel_.Listen(group);
  Hear(AddressOf(2000));
  EXPECT_EQ(TakeRequests().size(), 1024u);
  clock_.Advance(absl::Seconds(1));
  channel_.Work();
  std::vector<LinkRequest> requests = TakeRequests();
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_EQ(requests[0].mgid, ToMgid(group));
  Hear(AddressOf(2000));
  channel_.Send(IpoibType::kIpv4, {}, AddressOf(3000));
  requests = TakeRequests();
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(requests[0].punt.peer, AddressOf(2000).peer());
  EXPECT_EQ(requests[1].punt.peer, AddressOf(3000).peer());
}

// ---- Groups

// The event with the new handle crossed with the channel's kForget.
TEST_F(ChannelTest, AGroupWithAStaleHandleIsRequestedAgain) {
  const IpoibGroup group = *GroupOf(kScriptedLink, Ipv4Addr(0xef01'0203));
  const auto say = [&] {
    channel_.SendToGroup(IpoibType::kIpv4, {}, group, false);
    channel_.Flush();
  };
  const AhIndex ah = GroupHandle(group);
  Tell({.kind = LinkEvent::Kind::kGroup, .mgid = ToMgid(group), .ah = ah});
  say();
  EXPECT_EQ(hca_.qp()->sends.size(), 1u);
  hca_.CompleteSend();
  channel_.Flush();
  handles_.Put(ah);
  say();
  EXPECT_EQ(channel_.counters().drops[DropReason::kUnresolved], 1u);
  EXPECT_THAT(TakeRequests(), IsEmpty());
  say();
  const std::vector<LinkRequest> requests = TakeRequests();
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_EQ(requests[0].kind, LinkRequest::Kind::kSendTo);
  Tell({.kind = LinkEvent::Kind::kGroup, .mgid = ToMgid(group), .ah = GroupHandle(group)});
  EXPECT_EQ(hca_.qp()->sends.size(), 1u) << "the waiting packet is sent";
  hca_.CompleteSend();
  channel_.Flush();
}

}  // namespace
}  // namespace eoib::ipoib
