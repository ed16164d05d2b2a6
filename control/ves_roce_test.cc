// A VES on an Ethernet link layer (RoCE), from its configuration to datagrams, on a fake HCA that
// moves no datagrams by itself. tests/vm/rxe_test.cc tests RoCE with real forwarding.
#include <net/if.h>
#include <poll.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "control/agent.h"
#include "control/operator/fdb_rows.h"
#include "control/operator/ves_commands.h"
#include "control/ves/ves.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/temp_dir_for_test.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/port/port_for_test.h"
#include "vswitch/wire/frame_for_test.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

using testing::HasSubstr;

const PeerAddress kRocePeer = {Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0xb)), Qpn(0x99)};

// Makes a port like rdma_rxe's: the only P_Key is 0xffff. Its netdev is the loopback device.
void MakeRoce(FakeHca* hca) {
  hca->port_attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  hca->pkeys = {0xffff};
  hca->gid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0xa));
  hca->gids[0].gid_type = IBV_GID_TYPE_ROCE_V2;
  hca->gids[0].ndev_ifindex = if_nametoindex("lo");
  hca->gid.ToWire(hca->gids[0].gid.raw);
}

// A clock that a test moves. Each reading moves it by `step`, too.
class SteppingClock final : public Clock {
 public:
  absl::Time Now() const override {
    clock_.Advance(step);
    return clock_.Now();
  }
  void Advance(absl::Duration by) { clock_.Advance(by); }

  absl::Duration step;

 private:
  mutable FakeClock clock_;
};

// Notes what the VES sets.
class NotedInterface final : public VPortInterface {
 public:
  NotedInterface(int* mtu, bool* carrier) : mtu_(mtu), carrier_(carrier) {}
  absl::Status SetMtu(int mtu) override { return *mtu_ = mtu, absl::OkStatus(); }
  absl::Status SetLink(bool up) override { return *carrier_ = up, absl::OkStatus(); }

 private:
  int* const mtu_;
  bool* const carrier_;
};

class VesRoceTest : public testing::Test {
 protected:
  VesRoceTest() {
    MakeRoce(&hca_);
    const std::string toml = "[[ves]]\nname = 'blue'\npkey = 0x8001\ntraffic_class = 104\n";
    ves_ = Ves::Create(
               ParseConfig(toml, "test")->veses[0],
               {{&hca_, hca_.pd(), &handles_, nullptr, &maker_, &clock_}, [this] { ++losses_; }})
               .value();
    VPort vport;
    vport.config.name = "v1";
    auto port = std::make_unique<TestPort>("v1", kA);
    port_ = port.get();
    vport.port = std::move(port);
    vport.interface = std::make_shared<NotedInterface>(&mtu_, &carrier_);
    EXPECT_TRUE(ves_->AddVPort(&vport).ok());
    ves_->Start();
    Forwarder()->PollFabric();
    while (Forwarder()->PollInjected()) {  // the interface's announcements
    }
    hca_.qp()->sends.clear();
  }
  ~VesRoceTest() override {
    ves_->Stop([] {});
    ves_.reset();
  }

  eoib::Forwarder* Forwarder() { return ves_->forwarder(); }
  uint64_t Dropped(DropReason reason) { return Forwarder()->counters().drop(reason); }
  // Delivers a datagram from kRocePeer with `frame`, to the group or GID `dgid`.
  void Deliver(const Bytes& frame, const Gid& dgid) {
    DeliverToWorker(frame, dgid);
    ves_->RunPunts(0);
  }
  void DeliverToWorker(const Bytes& frame, const Gid& dgid) {
    Bytes bytes(kGrhSize + kEoibHeaderSize, 0);
    kRocePeer.gid.ToWire(&bytes[8]);
    dgid.ToWire(&bytes[24]);
    EncodeEoibHeader({HeaderForm::kEoib, L4Checksum::kNone, false}, &bytes[kGrhSize]);
    bytes.insert(bytes.end(), frame.begin(), frame.end());
    hca_.Deliver(bytes, {.status = IBV_WC_SUCCESS,
                         .src_qp = kRocePeer.qpn.value(),
                         .wc_flags = IBV_WC_GRH,
                         .slid = 0x5054});
    Forwarder()->PollFabric();
  }
  void WaitForHandle() {
    pollfd ready = {maker_.fd(), POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 60'000), 1);
    maker_.Run();
  }
  void SendFromPort(const Bytes& frame) {
    port_->Inject(frame);
    Forwarder()->PollPort(0);
  }

  SteppingClock clock_;
  FakeHca hca_;
  AddressHandles handles_{&hca_, hca_.pd()};
  HandleMaker maker_{&handles_};
  std::unique_ptr<Ves> ves_;
  TestPort* port_ = nullptr;
  int mtu_ = 0;
  bool carrier_ = false;
  int losses_ = 0;
};

TEST_F(VesRoceTest, WorksWithoutASubnetAdministrator) {
  EXPECT_TRUE(carrier_);
  EXPECT_EQ(mtu_, 4070);
  EXPECT_TRUE(hca_.qp()->groups.contains(FloodMgid(PKey(0x8001)).gid()));
  EXPECT_THAT(VesText(VesJson(*ves_)), HasSubstr(": joined, Q_Key 0x80008001, MTU 4096"));
  EXPECT_THAT(VesText(VesJson(*ves_)), HasSubstr("P_Key 0x8001 (a name only: RoCE checks none)"));
}

// Each message seems to take a millisecond. Commands, timers and the watchdog have their turn after
// two or three.
TEST_F(VesRoceTest, ATurnOfControlEndsAfterItsTime) {
  constexpr uint64_t kMessages = 20;
  Bytes frame = MakeFrame(MacAddr::Broadcast(), kB);
  frame[12] = 0x88, frame[13] = 0xb5;
  for (uint64_t i = 0; i < kMessages; ++i) DeliverToWorker(frame, FloodMgid(PKey(0x8001)).gid());
  ASSERT_EQ(Dropped(DropReason::kControlMessage), kMessages);
  clock_.step = absl::Milliseconds(1);
  const auto received = [this] { return ves_->protocol()->engine().counters().received; };
  int turns = 1;
  for (; ves_->RunPunts(0); ++turns) {
    pollfd ready = {ves_->queues().first().punts.fd(), POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 0), 1) << "the loop calls again";
    ASSERT_LE(received(), static_cast<uint64_t>(3 * turns));
  }
  EXPECT_EQ(received(), kMessages);
}

// A peer that was heard once and is gone leaves no state behind.
TEST_F(VesRoceTest, ReclaimsAVPortThatIsSilentAndHasNoMacs) {
  Deliver(MakeFrame(MacAddr::Broadcast(), kB), FloodMgid(PKey(0x8001)).gid());
  const auto pass = [this](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      clock_.Advance(absl::Seconds(1));
      ves_->Run();
    }
  };
  pass(290);
  EXPECT_FALSE(ves_->directory()->Find(kRocePeer).IsNone())
      << "silent, but a MAC is known behind it";
  pass(32);
  EXPECT_TRUE(ves_->directory()->Find(kRocePeer).IsNone());
  EXPECT_EQ(ves_->directory()->Dump().size(), 1u) << "our own";
  Deliver(MakeFrame(MacAddr::Broadcast(), kB), FloodMgid(PKey(0x8001)).gid());
  EXPECT_FALSE(ves_->directory()->Find(kRocePeer).IsNone());
}

TEST_F(VesRoceTest, FdbShowPrintsAllAddressesOfAPeer) {
  const PeerAddress other = {Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0xc)), Qpn(0x9a)};
  VPortDirectory* const directory = ves_->directory();
  const VPortId vport = directory->Intern(kRocePeer);
  Deliver(MakeFrame(MacAddr::Broadcast(), kB), FloodMgid(PKey(0x8001)).gid());
  const std::string first = "  GID fe80:0000:0000:0000:0000:0000:0000:000b QPN 0x99";
  EXPECT_THAT(FdbAnswer(ReadFdb({ves_.get()}, {}), true).Text(), HasSubstr(first + "\n"));
  ASSERT_TRUE(directory->Announce(vport, {{{.peer = kRocePeer}, {.peer = other}}}, {}));
  ASSERT_TRUE(directory->SetPath(vport, kRocePeer.gid, AhIndex(1)));
  ASSERT_TRUE(directory->SetPath(vport, other.gid, AhIndex(1)));
  EXPECT_THAT(FdbAnswer(ReadFdb({ves_.get()}, {}), true).Text(),
              HasSubstr(first + " and GID fe80:0000:0000:0000:0000:0000:0000:000c QPN 0x9a\n"));
  ASSERT_TRUE(directory->SetLost(vport, kRocePeer, true));
  EXPECT_THAT(FdbAnswer(ReadFdb({ves_.get()}, {}), true).Text(),
              HasSubstr(first + " (lost) and GID"));
}

// Neighbour discovery may take a second. The reply is held for it, and sent only to the peer.
TEST_F(VesRoceTest, HoldsAReplyUntilTheNeighborIsResolved) {
  Deliver(MakeFrame(MacAddr::Broadcast(), kB), FloodMgid(PKey(0x8001)).gid());
  SendFromPort(MakeFrame(kB, kA));
  EXPECT_TRUE(hca_.qp()->sends.empty());
  clock_.Advance(absl::Milliseconds(1020));
  Forwarder()->Housekeep();
  WaitForHandle();
  while (Forwarder()->PollInjected()) {
  }
  ASSERT_EQ(hca_.qp()->sends.size(), 1u);
  EXPECT_EQ(hca_.qp()->sends[0].remote_qpn, kRocePeer.qpn.value());
  EXPECT_EQ(hca_.qp()->sends[0].remote_qkey, 0x8000'8001u);
  const ibv_ah_attr& attr = static_cast<FakeAh*>(hca_.qp()->sends[0].ah)->attr;
  EXPECT_EQ(attr.is_global, 1);
  EXPECT_EQ(Gid::FromWire(attr.grh.dgid.raw), kRocePeer.gid);
  EXPECT_EQ(attr.dlid, 0);
  EXPECT_EQ(attr.grh.traffic_class, 104);
  EXPECT_EQ(attr.grh.hop_limit, 64);
}

// All flood groups map to the multicast MAC 33:33:00:00:00:00, so an HCA that filters by MAC
// delivers those of other VESes.
TEST_F(VesRoceTest, DropsFramesOfAnotherVesWithTheSameMulticastMac) {
  Deliver(MakeFrame(MacAddr::Broadcast(), kB), FloodMgid(PKey(0x8002)).gid());
  EXPECT_EQ(Dropped(DropReason::kGroupMismatch), 1u);
  EXPECT_TRUE(port_->TakeTransmitted().empty());
  Deliver(MakeFrame(MacAddr::Broadcast(), kB), FloodMgid(PKey(0x8001)).gid());
  EXPECT_EQ(port_->TakeTransmitted().size(), 1u);
}

TEST_F(VesRoceTest, ReplacesAQueuePairInError) {
  FakeQp* const before = hca_.qp();
  before->state = IBV_QPS_ERR;
  hca_.Deliver(Bytes(kGrhSize), {.status = IBV_WC_LOC_LEN_ERR});
  Forwarder()->PollFabric();
  Forwarder()->Housekeep();
  ves_->RunPunts(0);
  EXPECT_EQ(losses_, 1);
  EXPECT_TRUE(ves_->NeedsRebuild());
  ASSERT_TRUE(ves_->Rebuild().ok());
  ves_->Refresh(RefreshDepth::kHeavy);
  ASSERT_NE(hca_.qp(), nullptr);
  EXPECT_NE(hca_.qp(), before);
  EXPECT_TRUE(hca_.qp()->groups.contains(FloodMgid(PKey(0x8001)).gid()));
  Forwarder()->PollFabric();
  Deliver(MakeFrame(MacAddr::Broadcast(), kB), FloodMgid(PKey(0x8001)).gid());
  EXPECT_EQ(port_->TakeTransmitted().size(), 1u);
}

TEST_F(VesRoceTest, GidChangeReplacesTheQueuePair) {
  EXPECT_FALSE(ves_->NeedsRebuild());
  hca_.gid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0xc));
  EXPECT_TRUE(ves_->NeedsRebuild());
}

TEST(AgentRoceTest, AgentsCannotFindEachOtherWithoutASubnetAdministrator) {
  const AgentConfig config =
      ParseConfig("[[ves]]\nname = 'red'\npkey = 0x8001\nflood = 'replicate'\n", "test").value();
  FakeClock clock;
  EventLoop loop(&clock);
  TempDir directory;
  const std::unique_ptr<StateDir> state = StateDir::Open(directory.path()).value();
  auto hca = std::make_unique<FakeHca>();
  MakeRoce(hca.get());
  EXPECT_EQ(
      Agent::Create(config, std::move(hca), state.get(), nullptr, &loop, &clock).status().message(),
      "VES red has flood = \"replicate\", and fake0/1 is RoCE, which has no subnet administrator "
      "by which agents could find each other; remove it: on RoCE floods go to an IP multicast "
      "group, which Ethernet switches serve");
}

// With the same Q_Key, two VESes would not be isolated from a peer that knows a QPN.
TEST(AgentRoceTest, VesesMustDifferInTheirQKeys) {
  const AgentConfig config = ParseConfig(
                                 "[[ves]]\nname = 'red'\npkey = 0x8001\n"
                                 "[[ves]]\nname = 'blue'\npkey = 0x8002\nqkey = 0x80008001\n",
                                 "test")
                                 .value();
  FakeClock clock;
  EventLoop loop(&clock);
  TempDir directory;
  const std::unique_ptr<StateDir> state = StateDir::Open(directory.path()).value();
  auto hca = std::make_unique<FakeHca>();
  MakeRoce(hca.get());
  EXPECT_EQ(
      Agent::Create(config, std::move(hca), state.get(), nullptr, &loop, &clock).status().message(),
      "VES blue has the Q_Key 0x80008001 of VES red, and fake0/1 is RoCE, where nothing else keeps "
      "them apart; give it another qkey");
}

}  // namespace
}  // namespace eoib
