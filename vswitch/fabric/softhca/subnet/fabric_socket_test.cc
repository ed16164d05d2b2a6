// FabricServer and FabricClient together, in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"
#include "vswitch/fabric/softhca/subnet/fabric_socket_test_fixture.h"
#include "vswitch/wire/ib/sa_table.h"

namespace eoib::softhca {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST_F(FabricSocketTest, RegisterReturnsWithTheConfiguration) {
  TestPort h1(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  const PortConfig here = h1.config(), there = fabricd_->subnet()->Ports()[0].config;
  EXPECT_TRUE(here.active);
  EXPECT_EQ(here.node_guid, there.node_guid);
  EXPECT_EQ(here.port_guid, there.port_guid);
  EXPECT_EQ(here.gid, there.gid);
  EXPECT_EQ(here.lid, there.lid);
  EXPECT_EQ(here.sm_lid, there.sm_lid);
  EXPECT_EQ(here.mtu, there.mtu);
  EXPECT_EQ(here.rate, there.rate);
  EXPECT_EQ(here.pkeys, there.pkeys);
  EXPECT_EQ(here.qpns.first, there.qpns.first);
  EXPECT_EQ(here.qpns.count, there.qpns.count);
}

TEST_F(FabricSocketTest, ANameIsTakenWhileItsProcessLives) {
  TestPort h1(dir_.socket()), second(dir_.socket()), query(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  const absl::Status refused = second.Register("h1");
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("h1"));
  ASSERT_TRUE(query.Register("h1", PortUse::kQuery).ok());
  EXPECT_EQ(query.config().lid, h1.config().lid);
  EXPECT_EQ(query.client()->SendMad(Mad{}).code(), absl::StatusCode::kPermissionDenied);
  const Lid lid = h1.config().lid;
  h1.Die();
  ASSERT_TRUE(second.Register("h1").ok()) << "at once";
  EXPECT_EQ(second.config().lid, lid);
}

TEST_F(FabricSocketTest, TheObserverHearsOfPortsThatComeAndGo) {
  std::vector<std::string> lines;
  fabricd_->Pause();
  fabricd_->server()->SetObserver([&lines](const std::string& line) { lines.push_back(line); });
  fabricd_->Continue();
  {
    TestPort h1(dir_.socket()), second(dir_.socket()), manager(dir_.socket()), query(dir_.socket());
    ASSERT_TRUE(h1.Register("h1").ok());
    ASSERT_FALSE(second.Register("h1").ok());
    ASSERT_TRUE(manager.Register("h1", PortUse::kManage).ok());
    ASSERT_TRUE(query.Register("h1", PortUse::kQuery).ok());
    h1.Die();
    ASSERT_TRUE(second.Register("h1").ok());
  }
  EXPECT_TRUE(Eventually([&] { return fabricd_->clients() == 0; }));
  fabricd_->Pause();
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0], "port h1: registered, LID 0x2");
  EXPECT_THAT(lines[1], AllOf(HasSubstr("port h1: refused: "), HasSubstr("h1")));
  EXPECT_EQ(lines[2], "port h1: a process manages it");
  EXPECT_EQ(lines[3], "port h1: its process left");
  EXPECT_EQ(lines[4], "port h1: registered, LID 0x2");
  EXPECT_THAT(
      (std::vector<std::string>{lines[5], lines[6]}),
      UnorderedElementsAre("port h1: its process left", "port h1: a process that managed it left"));
}

TEST_F(FabricSocketTest, ASecondProcessSendsMadsOfItsOwn) {
  TestPort manager(dir_.socket()), owner(dir_.socket());
  ASSERT_TRUE(manager.Register("h1", PortUse::kManage).ok());
  EXPECT_TRUE(manager.config().active) << "before anybody owns it";
  ASSERT_TRUE(owner.Register("h1").ok());
  EXPECT_EQ(owner.config().lid, manager.config().lid);
  ASSERT_TRUE(manager.client()->SendMad(JoinMad(manager.config(), 78)).ok());
  ASSERT_TRUE(manager.WaitFor([](const auto& record) { return record.mads.size() == 1; }));
  EXPECT_EQ(DecodeSaHeader(manager.record().mads[0])->tid, 78u);
  EXPECT_EQ(manager.record().mad_sources[0], manager.config().sm_lid);
  EXPECT_TRUE(owner.WaitFor([](const auto& record) { return record.groups.size() == 1; }))
      << "the port is a member";
  EXPECT_THAT(owner.record().mads, IsEmpty());
  EXPECT_EQ(manager.client()->OpenRing(1, Lid(2), MakeRingEnd()).code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(FabricSocketTest, MadsAndGroupsGoThrough) {
  TestPort h1(dir_.socket()), h2(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  ASSERT_TRUE(h2.Register("h2").ok());
  ASSERT_TRUE(h1.client()->SendMad(JoinMad(h1.config(), 77)).ok());
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return !record.mads.empty(); }));
  const std::vector<uint8_t> answer = h1.record().mads[0];
  EXPECT_EQ(DecodeSaHeader(answer)->status, 0);
  EXPECT_EQ(DecodeSaHeader(answer)->tid, 77u);
  EXPECT_EQ(DecodeMcMemberRecord(SaRecord(answer))->mlid, Mlid(0xc001));
  const std::vector<Lid> members = {h1.config().lid};
  EXPECT_TRUE(h2.WaitFor([&](const auto& record) {
    const auto group = record.groups.find(Mlid(0xc001));
    return group != record.groups.end() && group->second == members;
  }));
  h1.Die();
  EXPECT_TRUE(h2.WaitFor([](const auto& record) { return record.groups.empty(); }));
}

TEST_F(FabricSocketTest, ChangesAreToldToThePortsTheyConcern) {
  TestPort h1(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  // From another thread than the server's.
  const FaultRule rule = {absl::nullopt, 1234, 5, 6, absl::Microseconds(7), 8};
  ASSERT_TRUE(fabricd_->subnet()->SetFault({"*", "h1", rule}).ok());
  ASSERT_TRUE(fabricd_->subnet()->SetFault({"h1", "*", FaultRule()}).ok());
  ASSERT_TRUE(fabricd_->subnet()->AddToPartition(PKey(0x8001), "h1", Membership::kLimited).ok());
  ASSERT_TRUE(fabricd_->subnet()->SetLink("h1", false).ok());
  EXPECT_TRUE(h1.WaitFor([](const auto& record) { return !record.configs.back().active; }));
  EXPECT_THAT(h1.config().pkeys, ElementsAre(PKey(0xffff), PKey(0x0001)));
  EXPECT_THAT(h1.record().faults.back(), ElementsAre(rule, FaultRule{.source = h1.config().gid}));
}

TEST_F(FabricSocketTest, CountersAreReadWhileAPortLivesAndWhenItIsDead) {
  TestPort h1(dir_.socket()), query(dir_.socket());
  EXPECT_EQ(fabricd_->subnet()->CountersOf("h1"), absl::nullopt);
  ASSERT_TRUE(h1.Register("h1").ok());
  ASSERT_TRUE(query.Register("h1", PortUse::kQuery).ok());
  SoftPortCounters counters;
  counters.xmit_packets = 1;
  counters.capture_drops = 2;
  h1.counters()->Store(counters);
  EXPECT_EQ(fabricd_->subnet()->CountersOf("h1")->xmit_packets, 1u);
  EXPECT_EQ(fabricd_->subnet()->CountersOf("h1")->capture_drops, 2u);
  h1.Die();
  EXPECT_TRUE(query.WaitFor([](const auto& record) { return !record.configs.back().active; }));
  EXPECT_EQ(fabricd_->subnet()->CountersOf("h1")->capture_drops, 2u);
  TestPort successor(dir_.socket());
  ASSERT_TRUE(successor.Register("h1").ok());
  EXPECT_EQ(fabricd_->subnet()->CountersOf("h1")->capture_drops, 0u);
}

TEST_F(FabricSocketTest, DescriptorsOfARingArrive) {
  TestPort h1(dir_.socket()), h2(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  ASSERT_TRUE(h2.Register("h2").ok());
  RingEnd end = MakeRingEnd();
  ASSERT_EQ(pwrite(end.data.get(), "datagram", 8, 0), 8);
  ASSERT_TRUE(h1.client()->OpenRing(5, h2.config().lid, std::move(end)).ok());
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return !record.opened.empty(); }));
  ASSERT_TRUE(h2.WaitFor([](const auto& record) { return !record.offers.empty(); }));

  const auto [ring, offer] = *h2.record().offers.begin();
  EXPECT_EQ(offer->end.capacity, 65536u);
  EXPECT_EQ(offer->source.lid, h1.config().lid);
  EXPECT_EQ(offer->source.gid, h1.config().gid);
  EXPECT_EQ(offer->source.pkeys, h1.config().pkeys);
  EXPECT_EQ(offer->source.qpns.first, h1.config().qpns.first);
  char bytes[8];
  ASSERT_EQ(pread(offer->end.data.get(), bytes, 8, 0), 8);
  EXPECT_EQ(std::string(bytes, 8), "datagram");
  EXPECT_TRUE(IsEventFd(offer->end.space.get()));

  const auto [opened_ring, doorbell] = h1.record().opened[5];
  EXPECT_EQ(opened_ring, ring);
  const uint64_t one = 1;
  ASSERT_EQ(write(doorbell->get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  uint64_t rung = 0;
  EXPECT_EQ(read(h2.doorbell(), &rung, sizeof(rung)), static_cast<ssize_t>(sizeof(rung)));

  ASSERT_TRUE(fabricd_->subnet()->AddToPartition(PKey(0x8001), "h1", Membership::kFull).ok());
  EXPECT_TRUE(h2.WaitFor([ring = ring](const auto& record) {
    const auto changed = record.changed.find(ring);
    return changed != record.changed.end() && changed->second.pkeys.size() == 2;
  }));
  h2.client()->CloseRing(ring);
  EXPECT_TRUE(h1.WaitFor(
      [ring = ring](const auto& record) { return record.closed == std::vector<uint64_t>{ring}; }));
  EXPECT_THAT(h2.record().closed, IsEmpty());
}

// Groups that other ports create and delete do not fill the queue of a stopped port, although it is
// told of every group four times.
TEST(FabricQueueTest, GroupChangesDoNotFillTheQueueOfAStoppedPort) {
  SocketDir dir;
  FakeClock clock;
  Fabricd fabricd(dir.socket(), {.clock = &clock});
  TestPort h1(dir.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  const UniqueFd deaf = RegisterDeafPort(dir.socket(), "deaf");
  ASSERT_TRUE(PacketQueue(1).Send(deaf.get(), EncodeMad(Lid(), SubscribeMad())).ok());
  ASSERT_TRUE(Eventually([&] { return !fabricd.subnet()->AllSubscriptions().empty(); }))
      << "the subscription is not taken";
  size_t answers = 0;
  for (uint64_t i = 0; i < FabricConnection::kQueue; ++i) {
    clock.Advance(absl::Milliseconds(10));
    for (const MadMethod method : {MadMethod::kSet, MadMethod::kDelete}) {
      ASSERT_TRUE(h1.client()->SendMad(JoinMad(h1.config(), i + 1, method)).ok());
      ++answers;
      ASSERT_TRUE(
          h1.WaitFor([answers](const auto& record) { return record.mads.size() >= answers; }));
    }
  }
  EXPECT_EQ(fabricd.counters().stuck, 0u);
  EXPECT_TRUE(fabricd.subnet()->Ports()[1].alive);
}

TEST_F(FabricSocketTest, ARingToAnUnknownLidIsRefused) {
  TestPort h1(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  ASSERT_TRUE(h1.client()->OpenRing(9, Lid(99), MakeRingEnd()).ok());
  EXPECT_TRUE(h1.WaitFor([](const auto& record) { return record.refused.count(9) != 0; }));
}

TEST_F(FabricSocketTest, ARingForWhichFabricdHasNoDescriptorsIsRefused) {
  TestPort h1(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  RingEnd end = MakeRingEnd();
  {
    const TwoDescriptors too_few;
    ASSERT_TRUE(h1.client()->OpenRing(9, h1.config().lid, std::move(end)).ok());
    EXPECT_TRUE(h1.WaitFor([](const auto& record) { return record.refused.count(9) != 0; }));
  }
  EXPECT_EQ(fabricd_->counters().malformed, 0u);
}

TEST_F(FabricSocketTest, ADeadProcessClosesItsRingsAtTheOtherEnd) {
  TestPort h1(dir_.socket()), h2(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  ASSERT_TRUE(h2.Register("h2").ok());
  ASSERT_TRUE(h1.client()->OpenRing(1, h2.config().lid, MakeRingEnd()).ok());
  ASSERT_TRUE(h2.client()->OpenRing(2, h1.config().lid, MakeRingEnd()).ok());
  ASSERT_TRUE(h2.WaitFor(
      [](const auto& record) { return record.offers.size() == 1 && record.opened.size() == 1; }));
  h1.Die();
  EXPECT_TRUE(h2.WaitFor([](const auto& record) { return record.closed.size() == 2; }));
  EXPECT_THAT(fabricd_->subnet()->Rings(), IsEmpty());
}

TEST_F(FabricSocketTest, ARestartedFabricdFindsItsPortsAgain) {
  TestPort h1(dir_.socket()), h2(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  ASSERT_TRUE(h2.Register("h2").ok());
  const PortConfig h1_before = h1.config(), h2_before = h2.config();
  ASSERT_NE(h1_before.lid, h2_before.lid);
  ASSERT_TRUE(h1.client()->OpenRing(1, h2_before.lid, MakeRingEnd()).ok());
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return !record.opened.empty(); }));
  const uint64_t first_ring = h1.record().opened[1].first;

  fabricd_.reset();
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return record.lost == 1; }));
  ASSERT_TRUE(h2.WaitFor([](const auto& record) { return record.lost == 1; }));
  EXPECT_EQ(h1.client()->SendMad(Mad{}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(h1.client()->OpenRing(2, h2_before.lid, MakeRingEnd()).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(access(dir_.socket().c_str(), F_OK), -1) << "an orderly end leaves no socket";

  fabricd_ = std::make_unique<Fabricd>(dir_.socket());
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return record.configs.size() == 2; }));
  ASSERT_TRUE(h2.WaitFor([](const auto& record) { return record.configs.size() == 2; }));
  for (const auto& [before, after] :
       {std::pair(h1_before, h1.config()), std::pair(h2_before, h2.config())}) {
    EXPECT_EQ(after.lid, before.lid);
    EXPECT_EQ(after.gid, before.gid);
    EXPECT_EQ(after.qpns.first, before.qpns.first) << "queue pairs live on";
  }
  EXPECT_THAT(h2.record().closed, IsEmpty()) << "rings go on without fabricd";
  ASSERT_TRUE(h1.client()->OpenRing(3, h2_before.lid, MakeRingEnd()).ok());
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return record.opened.size() == 2; }));
  EXPECT_NE(h1.record().opened[3].first, first_ring) << "ring identifiers are never reused";
}

// The returning port asks for no LID, since it is a new process, and the new port registers first.
TEST(FabricLidsTest, LidsSurviveARestart) {
  SocketDir dir;
  TempDir state;
  Lid lid;
  {
    auto lids = LidFile::Open(state.path());
    ASSERT_TRUE(lids.ok()) << lids.status();
    Fabricd fabricd(dir.socket(), {.lids = lids->get()});
    TestPort h1(dir.socket());
    ASSERT_TRUE(h1.Register("h1").ok());
    lid = h1.config().lid;
  }
  auto lids = LidFile::Open(state.path());
  ASSERT_TRUE(lids.ok()) << lids.status();
  Fabricd fabricd(dir.socket(), {.lids = lids->get()});
  TestPort newcomer(dir.socket()), h1(dir.socket());
  ASSERT_TRUE(newcomer.Register("newcomer").ok());
  ASSERT_TRUE(h1.Register("h1").ok());
  EXPECT_NE(newcomer.config().lid, lid);
  EXPECT_EQ(h1.config().lid, lid);
}

TEST_F(FabricSocketTest, EventsOnDemandArrive) {
  TestPort h1(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  ASSERT_TRUE(fabricd_->subnet()->Reregister("h1").ok());
  EXPECT_TRUE(
      h1.WaitFor([](const auto& record) { return record.configs.back().reregistrations == 1; }));
  ASSERT_TRUE(fabricd_->subnet()->MoveSm(Lid(9)).ok());
  EXPECT_TRUE(
      h1.WaitFor([](const auto& record) { return record.configs.back().sm_lid == Lid(9); }));
  fabricd_->subnet()->RestartSm();
  EXPECT_TRUE(
      h1.WaitFor([](const auto& record) { return record.configs.back().reregistrations == 2; }));
}

TEST_F(FabricSocketTest, MadsReachTheLidTheyAreSentTo) {
  TestPort h1(dir_.socket()), h2(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  ASSERT_TRUE(h2.Register("h2").ok());
  SmpHeader header;
  header.attribute = SmpAttribute::kNodeDescription;
  Mad mad;
  EncodeSmpHeader(header, &mad);
  ASSERT_TRUE(h1.client()->SendMadTo(h2.config().lid, mad).ok());
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return record.mads.size() == 1; }));
  EXPECT_EQ(DecodeNodeDescription(SmpData(MadOf(h1.record().mads[0]))).value(), "h2");
  EXPECT_EQ(h1.record().mad_sources[0], h2.config().lid);
}

TEST_F(FabricSocketTest, ATableOfSeveralMessagesArrivesWhole) {
  constexpr size_t kPorts = 40;
  std::vector<std::unique_ptr<TestPort>> ports;
  for (size_t i = 0; i < kPorts; ++i) {
    ports.push_back(std::make_unique<TestPort>(dir_.socket()));
    ASSERT_TRUE(ports.back()->Register(absl::StrCat("h", i)).ok()) << i;
  }
  PathRecord wanted;
  wanted.numb_path = 1;
  Mad mad;
  EncodeSaHeader({.method = MadMethod::kGetTable,
                  .tid = 5,
                  .attribute = SaAttribute::kPathRecord,
                  .component_mask = path::kNumbPath},
                 &mad);
  EncodePathRecord(wanted, SaRecord(&mad));
  TestPort& h0 = *ports[0];
  ASSERT_TRUE(h0.client()->SendMad(mad).ok());
  ASSERT_TRUE(h0.client()->SendMad(JoinMad(h0.config(), 6)).ok());
  ASSERT_TRUE(h0.WaitFor([](const auto& record) { return record.mads.size() == 2; }));
  const std::vector<uint8_t> table = h0.record().mads[0];
  EXPECT_TRUE(IsSaTable(table));
  ASSERT_GT(table.size(), kMaxMadPart);
  ASSERT_EQ(SaRecord(table).size(), kPorts * kPorts * kPathRecordSize);
  for (size_t i = 0; i < kPorts * kPorts; ++i) {
    const PathRecord path = DecodePathRecord(SaRecord(table).subspan(i * kPathRecordSize)).value();
    EXPECT_EQ(path.slid, ports[i / kPorts]->config().lid) << i;
    EXPECT_EQ(path.dlid, ports[i % kPorts]->config().lid) << i;
  }
  EXPECT_EQ(h0.record().mads[1].size(), kMadSize);
}

// By fabricd's own clock.
TEST_F(FabricSocketTest, AReportIsRepeated) {
  TestPort h1(dir_.socket()), h2(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  ASSERT_TRUE(h1.client()->SendMad(SubscribeMad()).ok());
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return record.mads.size() == 1; }));
  ASSERT_TRUE(h2.Register("h2").ok());
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return record.mads.size() >= 3; }));
  EXPECT_EQ(h1.record().mads[1], h1.record().mads[2]);
  EXPECT_EQ(DecodeNotice(SaRecord(h1.record().mads[1]))->AboutGid(), h2.config().gid);
}

TEST_F(FabricSocketTest, ARequestThatFabricdDoesNotSurviveIsRefused) {
  TestPort h1(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  fabricd_->Pause();
  ASSERT_TRUE(h1.client()->OpenRing(1, Lid(99), MakeRingEnd()).ok());
  fabricd_.reset();
  EXPECT_TRUE(h1.WaitFor(
      [](const auto& record) { return record.refused.count(1) != 0 && record.lost == 1; }));
}

TEST_F(FabricSocketTest, AStoppedFabricdBlocksNoPort) {
  TestPort h1(FabricClient::Options{.socket = dir_.socket(), .queue = 16});
  ASSERT_TRUE(h1.Register("h1").ok());
  fabricd_->Pause();
  const Mad mad = JoinMad(h1.config());
  uint64_t sent = 0;
  absl::Status status;
  while ((status = h1.client()->SendMad(mad)).ok()) ASSERT_LT(++sent, 100'000u);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(sent, 16u) << "the kernel takes some";
  fabricd_->Continue();
  EXPECT_TRUE(h1.WaitFor([&](const auto& record) { return record.mads.size() == sent; }))
      << "nothing that was taken is lost";
  EXPECT_EQ(h1.record().lost, 0);
}

TEST_F(FabricSocketTest, APortThatDoesNotReadIsDroppedAlone) {
  TestPort h1(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  const UniqueFd deaf = RegisterDeafPort(dir_.socket(), "deaf");
  ASSERT_TRUE(Eventually([&] {
    const auto ports = fabricd_->subnet()->Ports();
    return ports.size() == 2 && ports[1].alive;
  })) << "the port is not registered";
  for (uint32_t i = 0; fabricd_->subnet()->Ports()[1].alive; ++i) {
    ASSERT_LT(i, 1'000'000u);
    ASSERT_TRUE(fabricd_->subnet()->SetFault({"*", "*", FaultRule{.seed = i}}).ok());
    if (i % 256 != 255) continue;
    ASSERT_TRUE(h1.WaitFor([i](const auto& record) {
      return record.faults.back() == std::vector{FaultRule{.seed = i}};
    }));
  }
  EXPECT_EQ(fabricd_->counters().stuck, 1u);
  EXPECT_EQ(h1.record().lost, 0);
}

TEST_F(FabricSocketTest, ThereIsRoomForSixtyFourProcesses) {
  std::vector<std::unique_ptr<TestPort>> ports;
  for (int i = 0; i < 64; ++i) {
    ports.push_back(std::make_unique<TestPort>(dir_.socket()));
    ASSERT_TRUE(ports.back()->Register(absl::StrCat("h", i)).ok()) << i;
  }
  TestPort one_more(dir_.socket());
  const absl::Status status = one_more.Register("one-more");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("64 processes own ports"));
  ports.pop_back();
  EXPECT_TRUE(one_more.Register("one-more").ok());
}

// A preloaded program takes two connections, one of them for its MADs. Neither these nor queries
// use an owner's place.
TEST_F(FabricSocketTest, OwnersAndGuestsHaveRoomOfTheirOwn) {
  std::vector<std::unique_ptr<TestPort>> guests;
  for (size_t i = 0; i < FabricServer::kMaxGuests; ++i) {
    guests.push_back(std::make_unique<TestPort>(dir_.socket()));
    ASSERT_TRUE(guests.back()->Register("h1", i % 2 == 0 ? PortUse::kManage : PortUse::kQuery).ok())
        << i;
  }
  TestPort guest(dir_.socket()), owner(dir_.socket());
  const absl::Status status = guest.Register("h1", PortUse::kQuery);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("128 processes manage or query ports"));
  EXPECT_TRUE(owner.Register("h1").ok());
}

}  // namespace
}  // namespace eoib::softhca
