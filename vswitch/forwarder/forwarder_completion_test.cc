// The forwarder on fake verbs: completions with errors, and peers that change their queue pairs and
// LIDs.
#include <array>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/clock.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/forwarder/forwarder.h"
#include "vswitch/port/port_for_test.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr uint32_t kMtu = 2040;
const Gid kOwn = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0xa));
const Gid kPeer = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0xb));
const MacAddr kLocalMac = MacAddr::FromUint64(0x02'00'00'00'00'0a);
const MacAddr kRemoteMac = MacAddr::FromUint64(0x02'00'00'00'00'0b);

class ForwarderCompletionTest : public testing::Test {
 protected:
  ForwarderCompletionTest() : fdb_(MakeFdbOptions(), &clock_) {
    pool_ = *BufferPool::Create(&hca_, pd_, 100, kMtu);
    handles_ = std::make_unique<AddressHandles>(&hca_, pd_);
    endpoint_ =
        *UdEndpoint::Create(&hca_, pd_, pool_.get(), handles_.get(),
                            {.qkey = QKey(0x80008001), .receive_depth = 16, .send_depth = 16});
    Forwarder::Options options;
    options.flood_mgid = FloodMgid(PKey(0x8001));
    const Forwarder::Dependencies dependencies{pool_.get(), &fdb_,      &directory_, &punts_,
                                               &messages_,  &injected_, &clock_};
    const Forwarder::Uplink uplink{.endpoint = endpoint_.get(), .own = {kOwn, endpoint_->qpn()}};
    forwarder_ = std::make_unique<Forwarder>(options, dependencies, uplink);
    forwarder_->SetMtu(kMtu);
    flood_ah_ = *handles_->Get({options.flood_mgid.gid(), 0xc001, Sl(0)}, {});
    forwarder_->SetFloodHandle(flood_ah_);
    forwarder_->AddPort(&port_, {});
    endpoint_->Refill();
  }
  ~ForwarderCompletionTest() override {
    const ForwarderCounters& counters = forwarder_->counters();
    EXPECT_EQ(counters.frames_in.value(),
              counters.forwarded.value() + counters.DropSum(DropSide::kIngress));
    EXPECT_EQ(counters.egress_copies.value(),
              counters.transmitted.value() + counters.DropSum(DropSide::kEgress));
    EXPECT_EQ(pool_->count(BufferPool::State::kBatch), 0u);
    EXPECT_EQ(pool_->count(BufferPool::State::kInFlight), 0u);
    forwarder_.reset();
    endpoint_.reset();
    pool_.reset();
    handles_->Put(flood_ah_);
    handles_->Reap();
    handles_.reset();
  }

  Fdb::Options MakeFdbOptions() {
    const auto gid_of = [this](VPortId vport) {
      return directory_.Peer(vport).value_or(PeerAddress()).gid;
    };
    return {.ageing = absl::Seconds(300), .limit = 4096, .gid_of = gid_of};
  }
  // A datagram to this agent's QP that carries a broadcast from `mac`, from its GRH on.
  static std::vector<uint8_t> BroadcastFromPeer(const Gid& peer = kPeer, MacAddr mac = kRemoteMac) {
    std::vector<uint8_t> bytes(kGrhSize + kEoibHeaderSize + kMinFrameSize, 0);
    bytes[0] = 0x60;  // IP version 6
    peer.ToWire(&bytes[8]);
    kOwn.ToWire(&bytes[24]);
    EncodeEoibHeader(EoibHeader(), &bytes[kGrhSize]);
    uint8_t* frame = &bytes[kGrhSize + kEoibHeaderSize];
    MacAddr::Broadcast().ToWire(frame);
    mac.ToWire(frame + 6);
    frame[12] = 0x88, frame[13] = 0xb6;
    return bytes;
  }
  void Deliver(ibv_wc_status status, unsigned flags) {
    hca_.Deliver(BroadcastFromPeer(),
                 {.status = status, .src_qp = 0x77, .wc_flags = flags, .slid = 5});
    EXPECT_TRUE(forwarder_->PollFabric());
    forwarder_->Housekeep();
  }
  // Delivers a datagram from queue pair `qpn` at LID `slid` of port `peer`; it is handled with the
  // others that arrived.
  void Arrive(uint32_t qpn, uint16_t slid = 5, const Gid& peer = kPeer, MacAddr mac = kRemoteMac) {
    hca_.Deliver(BroadcastFromPeer(peer, mac),
                 {.status = IBV_WC_SUCCESS, .src_qp = qpn, .wc_flags = IBV_WC_GRH, .slid = slid});
  }
  void Handle() {
    EXPECT_TRUE(forwarder_->PollFabric());
    forwarder_->Housekeep();
    port_.TakeTransmitted();
  }
  void Hear(uint32_t qpn, uint16_t slid = 5, const Gid& peer = kPeer, MacAddr mac = kRemoteMac) {
    Arrive(qpn, slid, peer, mac);
    EXPECT_TRUE(forwarder_->PollFabric());
    forwarder_->Housekeep();
  }
  // For tests in which several queue pairs of kPeer are heard.
  static MacAddr Mac(uint64_t number) { return MacAddr::FromUint64(0x02'00'00'00'01'00 + number); }
  void Say(uint32_t qpn, uint64_t mac) {
    Arrive(qpn, 5, kPeer, Mac(mac));
    Handle();
  }
  VPortId Behind(uint64_t mac) const {
    const FdbKey key(Vid(0), Mac(mac));
    VPortId behind = VPortId::None();
    fdb_.Find({&key, 1}, {&behind, 1});
    return behind;
  }
  // The queue pair to which frames for `mac` go; 0: they flood.
  uint32_t WayTo(uint64_t mac) const { return directory_.Get(Behind(mac)).qpn.value(); }
  // Plays control: the agent `vport` announces that it receives at queue pair `qpn` of kPeer.
  void Announce(VPortId vport, uint32_t qpn) {
    const std::array<VPortAddress, 1> addresses = {{{.peer = {kPeer, Qpn(qpn)}}}};
    ASSERT_TRUE(directory_.Announce(vport, addresses, {}));
  }
  std::vector<Punt::Kind> Punts() {
    std::vector<Punt::Kind> kinds;
    for (Punt punt; punts_.Pop(&punt);) kinds.push_back(punt.kind);
    return kinds;
  }
  uint64_t dropped(DropReason reason) const { return forwarder_->counters().drop(reason); }

  FakeClock clock_;
  FakeHca hca_;
  ibv_pd* const pd_ = hca_.pd();
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<AddressHandles> handles_;
  std::unique_ptr<UdEndpoint> endpoint_;
  Fdb fdb_;
  VPortDirectory directory_;
  PuntQueue punts_;
  ReceivedMessages messages_;
  InjectQueue injected_;
  TestPort port_{"p1", MacAddr()};
  AhIndex flood_ah_ = AhIndex::None();
  std::unique_ptr<Forwarder> forwarder_;
};

TEST_F(ForwarderCompletionTest, AGoodCompletionIsDelivered) {
  Deliver(IBV_WC_SUCCESS, IBV_WC_GRH);
  EXPECT_THAT(port_.TakeTransmitted(), SizeIs(1));
  EXPECT_EQ(fdb_.size(), 1u);
}

// Every frame must carry a GRH: EoIB peers are known by GID and QPN, so without one the source's
// peer is unknown.
TEST_F(ForwarderCompletionTest, ADatagramWithoutAGrhIsDroppedAndNotLearned) {
  Deliver(IBV_WC_SUCCESS, 0);
  EXPECT_EQ(dropped(DropReason::kNoGrh), 1u);
  EXPECT_THAT(port_.TakeTransmitted(), IsEmpty());
  EXPECT_EQ(fdb_.size(), 0u);
}

TEST_F(ForwarderCompletionTest, AReceiveThatFailedIsDroppedWhateverItsBytes) {
  for (const ibv_wc_status status : {IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_GENERAL_ERR}) {
    const uint64_t before = dropped(DropReason::kReceiveError);
    Deliver(status, IBV_WC_GRH);
    EXPECT_EQ(dropped(DropReason::kReceiveError), before + 1) << status;
  }
  EXPECT_THAT(port_.TakeTransmitted(), IsEmpty());
  EXPECT_EQ(fdb_.size(), 0u);
  // The receives are posted again, and the next datagram is delivered.
  Deliver(IBV_WC_SUCCESS, IBV_WC_GRH);
  EXPECT_THAT(port_.TakeTransmitted(), SizeIs(1));
}

// A queue pair in its error state returns unused receives. They are no frames, so they have no
// disposition.
TEST_F(ForwarderCompletionTest, AFlushedReceiveIsNoFrame) {
  hca_.Deliver(BroadcastFromPeer(), {.status = IBV_WC_WR_FLUSH_ERR});
  EXPECT_FALSE(forwarder_->PollFabric());
  EXPECT_EQ(forwarder_->counters().frames_in.value(), 0u);
}

TEST_F(ForwarderCompletionTest, ASendThatFailsIsCountedAndItsBufferComesBack) {
  std::vector<uint8_t> frame(kMinFrameSize, 0);
  MacAddr::Broadcast().ToWire(&frame[0]);
  kLocalMac.ToWire(&frame[6]);
  frame[12] = 0x88, frame[13] = 0xb6;
  port_.Inject(frame);
  EXPECT_TRUE(forwarder_->PollPort(0));
  hca_.CompleteSend(IBV_WC_LOC_PROT_ERR);
  forwarder_->Housekeep();
  EXPECT_EQ(dropped(DropReason::kSendError), 1u);
}

// ---- Agents that restart, and agents that share a port ------------------------------------------

TEST_F(ForwarderCompletionTest, AnnouncingANewQueuePairLeadsAllMacsBehindTheAgentThereAtOnce) {
  for (uint64_t mac : {1, 2}) Say(0x10, mac);
  const VPortId agent = Behind(1);
  Announce(agent, 0x10);
  for (uint64_t mac : {11, 12}) Say(0x20, mac);  // another agent at the port
  for (uint32_t qpn = 0x30; qpn < 0x38; ++qpn) {
    Announce(agent, qpn);
    for (uint64_t mac : {1, 2}) EXPECT_EQ(WayTo(mac), qpn) << mac;
    for (uint64_t mac : {11, 12}) EXPECT_EQ(WayTo(mac), 0x20u) << mac;
  }
  EXPECT_EQ(fdb_.counters().moved, 0u);
}

TEST_F(ForwarderCompletionTest, FramesFromAnAnnouncedAddressAreLearnedBehindTheAgent) {
  Say(0x10, 1);
  const VPortId agent = Behind(1);
  Announce(agent, 0x20);
  Punts();
  Say(0x20, 1);
  Say(0x20, 2);
  for (uint64_t mac : {1, 2}) EXPECT_EQ(Behind(mac), agent) << mac;
  EXPECT_EQ(fdb_.counters().moved, 0u);
  EXPECT_EQ(forwarder_->counters().new_peers.value(), 1u);
  EXPECT_THAT(Punts(), Not(Contains(Punt::Kind::kMoved)));
}

// Its frames may come before its announcement is here.
TEST_F(ForwarderCompletionTest, MacsHeardBeforeTheAnnouncementStayReachableAndComeToTheAgent) {
  Say(0x10, 1);
  const VPortId agent = Behind(1);
  Announce(agent, 0x10);
  Say(0x20, 2);
  EXPECT_NE(Behind(2), agent) << "who is at this queue pair is not known yet";
  Announce(agent, 0x20);
  EXPECT_EQ(WayTo(2), 0x20u);
  Say(0x20, 2);
  EXPECT_EQ(Behind(2), agent);
  EXPECT_EQ(WayTo(1), 0x20u);
}

// Such an agent has one vPort for each queue pair, and control flushes the MACs of the silent ones.
TEST_F(ForwarderCompletionTest, ADataOnlyPeerThatRestartsIsFollowedMacByMac) {
  for (uint64_t mac : {1, 2, 3}) Say(0x10, mac);
  for (uint64_t mac : {1, 2}) Arrive(0x20, 5, kPeer, Mac(mac));
  Handle();
  EXPECT_EQ(WayTo(1), 0x20u);
  EXPECT_EQ(WayTo(2), 0x20u);
  EXPECT_EQ(WayTo(3), 0x10u) << "it has not spoken since";
  EXPECT_EQ(fdb_.counters().moved, 2u);
  EXPECT_THAT(Punts(), Contains(Punt::Kind::kMoved).Times(2));
}

TEST_F(ForwarderCompletionTest, MovesBetweenQueuePairsOfOnePortAreNotDamped) {
  for (uint32_t qpn = 0x10; qpn < 0x30; ++qpn) Say(qpn, 1);
  EXPECT_EQ(WayTo(1), 0x2fu);
  EXPECT_EQ(fdb_.counters().moved, 31u);
  EXPECT_EQ(fdb_.counters().froze + fdb_.counters().flapping, 0u);
}

TEST_F(ForwarderCompletionTest, AMacThatMovesBetweenTwoAgentsOfOnePortMovesAlone) {
  for (uint64_t mac : {1, 2}) Say(0x10, mac);
  for (uint64_t mac : {11, 12}) Say(0x20, mac);
  for (int i = 0; i < 10; ++i) {
    Say(0x10, 11);  // borrowed
    EXPECT_EQ(WayTo(11), 0x10u);
    Say(0x20, 11);
    EXPECT_EQ(WayTo(11), 0x20u);
    EXPECT_EQ(WayTo(2), 0x10u);
    EXPECT_EQ(WayTo(12), 0x20u);
  }
}

// A freeze holds the MAC at its vPort; the queue pair that reaches the vPort may change.
TEST_F(ForwarderCompletionTest, ARestartTakesFrozenMacsAlong) {
  const Gid other = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0xc));
  for (int i = 0; i < 3; ++i) {
    Say(0x10, 1);
    Hear(0x10, 5, other, Mac(1));
  }
  const VPortId agent = Behind(1);
  ASSERT_EQ(fdb_.frozen().at(FdbKey(Vid(0), Mac(1))).at, agent);
  ASSERT_EQ(directory_.Peer(agent)->gid, kPeer);
  Announce(agent, 0x20);
  EXPECT_EQ(WayTo(1), 0x20u);
  Say(0x20, 1);
  EXPECT_EQ(Behind(1), agent);
  EXPECT_EQ(fdb_.frozen().size(), 1u) << "frozen it stays";
}

// ---- What control is told -----------------------------------------------------------------------

TEST_F(ForwarderCompletionTest, ALostPuntOfANewPeerIsRepeatedWithALaterFrame) {
  while (punts_.Push(Punt{Punt::Kind::kUnresolved, {}, {}, {}, {}, {}, {}})) continue;
  Say(0x10, 1);
  Say(0x10, 1);
  EXPECT_EQ(forwarder_->counters().punts_lost.value(), 2u);
  EXPECT_THAT(Punts(), Not(Contains(Punt::Kind::kNewPeer)));
  Say(0x10, 1);
  Punt punt;
  ASSERT_TRUE(punts_.Pop(&punt));
  EXPECT_EQ(punt.kind, Punt::Kind::kNewPeer);
  EXPECT_EQ(punt.vport, Behind(1));
  EXPECT_EQ(punt.slid, Lid(5));
  Say(0x10, 1);
  EXPECT_THAT(Punts(), IsEmpty()) << "once";
}

// Moves between ports of this host are not damped, and a loop behind two of them makes one with
// each frame.
TEST_F(ForwarderCompletionTest, MovePuntsAreRateLimited) {
  TestPort other("p2", MacAddr());
  forwarder_->AddPort(&other, {});
  forwarder_->SetFloodHandle(AhIndex::None());
  std::vector<uint8_t> frame(kMinFrameSize, 0);
  MacAddr::Broadcast().ToWire(&frame[0]);
  kLocalMac.ToWire(&frame[6]);
  frame[12] = 0x88, frame[13] = 0xb6;
  for (int i = 0; i < 2000; ++i) {
    TestPort* const port = i % 2 == 0 ? &port_ : &other;
    port->Inject(frame);
    EXPECT_TRUE(forwarder_->PollPort(i % 2));
    port_.TakeTransmitted();
    other.TakeTransmitted();
  }
  EXPECT_EQ(fdb_.counters().moved, 1999u);
  EXPECT_THAT(Punts(), Contains(Punt::Kind::kMoved).Times(10));
  EXPECT_EQ(forwarder_->counters().punts_lost.value(), 0u);
}

// At the limit of frozen MACs the others stay at home without a freeze.
TEST_F(ForwarderCompletionTest, AMacThatMovesTooOftenIsReportedAsFrozenOrFlapping) {
  const Gid other = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0xc));
  const size_t most = fdb_.options().damping.most_frozen_per_gid;
  for (uint64_t mac = 0; mac <= most; ++mac) {
    Punts();
    if (mac == most) clock_.Advance(absl::Seconds(1));
    for (int i = 0; i < 3; ++i) {
      Hear(0x10, 5, other, Mac(mac));
      Hear(0x10, 5, kPeer, Mac(mac));
      port_.TakeTransmitted();
    }
  }
  EXPECT_EQ(fdb_.frozen().size(), most);
  EXPECT_EQ(Behind(most), directory_.Find({other, Qpn(0x10)}));
  const std::vector<Punt::Kind> punts = Punts();
  EXPECT_THAT(punts, Contains(Punt::Kind::kFlapping));
  EXPECT_THAT(punts, Not(Contains(Punt::Kind::kFrozen)));
}

// Regression: such a port took all vPorts, and later peers got none.
TEST_F(ForwarderCompletionTest, APortThatSendsFromEveryQueuePairDoesNotStarveOthers) {
  const Gid other = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0xc));
  constexpr uint32_t kQueuePairs = 70'000;
  for (uint32_t qpn = 1; qpn <= kQueuePairs; ++qpn) {
    Hear(qpn);
    if (qpn % 64 == 0) port_.TakeTransmitted();
  }
  port_.TakeTransmitted();
  const uint64_t made = VPortDirectory::kDataOnlyPerPort;
  EXPECT_EQ(directory_.Dump().size(), 1 + made) << "its own port's vPort is one more";
  EXPECT_EQ(forwarder_->counters().unknown_senders.value(), kQueuePairs - made);
  Hear(kQueuePairs);
  EXPECT_THAT(port_.TakeTransmitted(), SizeIs(1)) << "its frames are delivered all the same";
  Hear(0x77, 6, other);
  EXPECT_THAT(port_.TakeTransmitted(), SizeIs(1));
  EXPECT_FALSE(directory_.Find({other, Qpn(0x77)}).IsNone());
  const FdbKey key(Vid(0), kRemoteMac);
  VPortId behind;
  fdb_.Find({&key, 1}, {&behind, 1});
  EXPECT_EQ(behind, directory_.Find({other, Qpn(0x77)})) << "and learned from";
}

// A worker remembers a peer's LID across a change of the directory, so it notices another LID at
// any time.
TEST_F(ForwarderCompletionTest, AnotherLidIsReportedAlsoRightAfterAChangeOfTheDirectory) {
  Hear(0x77);
  Punt punt;
  while (punts_.Pop(&punt)) continue;
  directory_.Remove(directory_.Intern({kOwn, Qpn(1)}));  // another peer's vPort
  Hear(0x77, 6);
  ASSERT_TRUE(punts_.Pop(&punt));
  EXPECT_EQ(punt.kind, Punt::Kind::kReaddressed);
  EXPECT_EQ(punt.slid, Lid(6));
  EXPECT_EQ(punt.vport, directory_.Find({kPeer, Qpn(0x77)}));
}

// A port may get several LIDs in a second, for example when two subnets merge. A port that uses two
// LIDs in turn (LMC) must not flood control.
TEST_F(ForwarderCompletionTest, LidsThatFollowEachOtherAreReportedUpToALimit) {
  Hear(0x77);
  Punt punt;
  const auto reported = [&] {
    int count = 0;
    while (punts_.Pop(&punt)) count += punt.kind == Punt::Kind::kReaddressed;
    return count;
  };
  reported();
  for (uint16_t lid = 6; lid < 11; ++lid) {
    Hear(0x77, lid);
    EXPECT_EQ(reported(), 1) << lid;
  }
  for (int i = 0; i < 50; ++i) Hear(0x77, 6 + i % 2);
  EXPECT_LT(reported(), 10);
}

}  // namespace
}  // namespace eoib
