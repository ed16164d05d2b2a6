// FabricServer and FabricClient together, in one process.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fdb/clock.h"
#include "fdb/temp_dir_for_test.h"
#include "vswitch/fabric/softhca/counters_page.h"
#include "vswitch/fabric/softhca/fabric_client.h"
#include "vswitch/fabric/softhca/fabric_server.h"
#include "vswitch/fabric/softhca/lid_file.h"
#include "vswitch/fabric/softhca/recording_sink.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"
#include "vswitch/fabric/softhca/subnet.h"

namespace eoib::softhca {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SocketDir {
 public:
  std::string socket() const { return directory_.path() + "/fabricd.sock"; }

 private:
  TempDir directory_;
};

// A Subnet, its server and a thread that runs it, like eoib-fabricd. A paused one is like a stopped process.
class Fabricd {
 public:
  explicit Fabricd(const std::string& socket, LidFile* lids = nullptr)
      : subnet_(Subnet::Options{.lids = lids}), wake_(eventfd(0, EFD_CLOEXEC)) {
    auto server = FabricServer::Listen(socket, &subnet_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    Continue();
  }
  ~Fabricd() { Pause(); }

  void Pause() {
    if (!thread_.joinable()) return;
    const uint64_t one = 1;
    EXPECT_EQ(write(wake_.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
    thread_.join();
  }
  void Continue() {
    thread_ = std::thread([this] {
      for (;;) {
        pollfd polled[] = {{server_->fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
        const absl::Duration left = subnet_.NextDeadline() - clock_.Now();
        poll(polled, 2, left == absl::InfiniteDuration() ? -1 : static_cast<int>(left / absl::Milliseconds(1)) + 1);
        uint64_t woken;
        if (polled[1].revents != 0) return void(read(wake_.get(), &woken, sizeof(woken)) > 0);
        server_->Run();
        subnet_.Run();
      }
    });
  }
  Subnet* subnet() { return &subnet_; }
  // While paused.
  FabricServer* server() { return server_.get(); }
  FabricServer::Counters counters() {
    Pause();
    const FabricServer::Counters counters = server_->counters();
    Continue();
    return counters;
  }
  size_t clients() {
    Pause();
    const size_t clients = server_->clients();
    Continue();
    return clients;
  }

 private:
  const MonotonicClock clock_;
  Subnet subnet_;
  std::unique_ptr<FabricServer> server_;
  UniqueFd wake_;
  std::thread thread_;
};

class TestPort {
 public:
  explicit TestPort(const std::string& socket) : TestPort(FabricClient::Options{.socket = socket}) {}
  explicit TestPort(FabricClient::Options options)
      : doorbell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        counters_(CountersPage::Create().value()),
        client_(std::make_unique<FabricClient>(std::move(options))) {}

  absl::Status Register(const std::string& name, bool query_only = false) {
    return client_->Register(name, {doorbell_.get(), counters_}, query_only, &sink_);
  }
  RecordingSink::Record record() const { return sink_.Get(); }
  PortConfig config() const { return sink_.Get().configs.back(); }
  bool WaitFor(std::function<bool(const RecordingSink::Record&)> looks_right) const { return sink_.WaitFor(looks_right); }
  FabricClient* client() { return client_.get(); }
  CountersPage* counters() { return counters_.get(); }
  int doorbell() const { return doorbell_.get(); }
  void Die() { client_.reset(); }

 private:
  RecordingSink sink_;
  UniqueFd doorbell_;
  std::shared_ptr<CountersPage> counters_;
  std::unique_ptr<FabricClient> client_;
};

UniqueFd MakeMemfd(uint64_t size, int seals) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

// What a port registers with.
std::vector<UniqueFd> MakePortDescriptors() {
  std::vector<UniqueFd> fds;
  fds.emplace_back(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  fds.push_back(MakeMemfd(CountersPage::kSize, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
  return fds;
}

RingEnd MakeRingEnd() {
  RingEnd end;
  end.capacity = 65536;
  end.data = MakeMemfd(end.capacity, F_SEAL_SHRINK | F_SEAL_GROW);
  end.index = MakeMemfd(4096, F_SEAL_SHRINK | F_SEAL_GROW);
  end.space = UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  int pair[2];
  EXPECT_EQ(pipe2(pair, O_CLOEXEC), 0);
  end.liveness = UniqueFd(pair[0]);
  close(pair[1]);
  return end;
}

Mad JoinMad(const PortConfig& port, uint64_t tid = 1) {
  SaHeader header;
  header.method = MadMethod::kSet;
  header.attribute = SaAttribute::kMcMemberRecord;
  header.tid = tid;
  header.component_mask =
      mcm::kMgid | mcm::kPortGid | mcm::kJoinState | mcm::kQKey | mcm::kPKey | mcm::kTrafficClass | mcm::kSl | mcm::kFlowLabel;
  McMemberRecord group;
  group.mgid = Mgid::Parse("ff12:e01b::1").value();
  group.port_gid = port.gid;
  group.pkey = PKey(0xffff);
  group.join_state = kFullMember;
  Mad mad;
  EncodeSaHeader(header, &mad);
  EncodeMcMemberRecord(group, SaRecord(&mad));
  return mad;
}

class FabricSocketTest : public ::testing::Test {
 protected:
  FabricSocketTest() : fabricd_(std::make_unique<Fabricd>(dir_.socket())) {}

  SocketDir dir_;
  std::unique_ptr<Fabricd> fabricd_;
};

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
  ASSERT_TRUE(query.Register("h1", /*query_only=*/true).ok());
  EXPECT_EQ(query.config().lid, h1.config().lid);
  EXPECT_EQ(query.client()->SendMad(Mad{}).code(), absl::StatusCode::kPermissionDenied);
  const Lid lid = h1.config().lid;
  h1.Die();
  ASSERT_TRUE(second.Register("h1").ok()) << "at once";
  EXPECT_EQ(second.config().lid, lid);
}

TEST_F(FabricSocketTest, MadsAndGroupsGoThrough) {
  TestPort h1(dir_.socket()), h2(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  ASSERT_TRUE(h2.Register("h2").ok());
  ASSERT_TRUE(h1.client()->SendMad(JoinMad(h1.config(), 77)).ok());
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return !record.mads.empty(); }));
  const Mad answer = h1.record().mads[0];
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
  ASSERT_TRUE(query.Register("h1", /*query_only=*/true).ok());
  PortCounters counters;
  counters.xmit_packets = 1;
  counters.capture_drops = 2;
  h1.counters()->Store(counters);
  EXPECT_EQ(fabricd_->subnet()->CountersOf(h1.config().lid)->xmit_packets, 1u);
  EXPECT_EQ(fabricd_->subnet()->CountersOf("h1")->capture_drops, 2u);
  h1.Die();
  EXPECT_TRUE(query.WaitFor([](const auto& record) { return !record.configs.back().active; }));
  EXPECT_EQ(fabricd_->subnet()->CountersOf("h1")->capture_drops, 2u);
  TestPort successor(dir_.socket());
  ASSERT_TRUE(successor.Register("h1").ok());
  EXPECT_EQ(fabricd_->subnet()->CountersOf("h1")->capture_drops, 0u);
}

TEST_F(FabricSocketTest, APortIsNotFloodedWithRings) {
  TestPort h1(dir_.socket()), h2(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  ASSERT_TRUE(h2.Register("h2").ok());
  constexpr uint64_t kRings = 3000;  // 1,024 offers would cost a stopped process its connection
  for (uint64_t request = 1; request <= kRings; ++request) {
    ASSERT_TRUE(Eventually([&] {
      const absl::Status status = h1.client()->OpenRing(request, h2.config().lid, MakeRingEnd());
      return !absl::IsResourceExhausted(status);
    }));
  }
  EXPECT_TRUE(h1.WaitFor([](const auto& record) { return record.refused.size() == kRings - Subnet::kMaxRingsOfPair; }));
  EXPECT_EQ(fabricd_->subnet()->Rings().size(), Subnet::kMaxRingsOfPair);
  h1.Die();
  EXPECT_TRUE(h2.WaitFor([](const auto& record) { return record.closed.size() == Subnet::kMaxRingsOfPair; }));
  EXPECT_THAT(fabricd_->subnet()->Rings(), IsEmpty());
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

  ASSERT_TRUE(fabricd_->subnet()->SetLid("h1", Lid(42)).ok());
  EXPECT_TRUE(h2.WaitFor([ring = ring](const auto& record) {
    const auto changed = record.changed.find(ring);
    return changed != record.changed.end() && changed->second.lid == Lid(42);
  }));
  h2.client()->CloseRing(ring);
  EXPECT_TRUE(h1.WaitFor([ring = ring](const auto& record) { return record.closed == std::vector<uint64_t>{ring}; }));
  EXPECT_THAT(h2.record().closed, IsEmpty());
}

TEST_F(FabricSocketTest, ARingToNobodyIsRefused) {
  TestPort h1(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  ASSERT_TRUE(h1.client()->OpenRing(9, Lid(99), MakeRingEnd()).ok());
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return record.refused.count(9) != 0; }));
  EXPECT_THAT(h1.record().refused[9], HasSubstr("0x63"));
}

TEST_F(FabricSocketTest, ADeadProcessClosesItsRingsAtTheOtherEnd) {
  TestPort h1(dir_.socket()), h2(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  ASSERT_TRUE(h2.Register("h2").ok());
  ASSERT_TRUE(h1.client()->OpenRing(1, h2.config().lid, MakeRingEnd()).ok());
  ASSERT_TRUE(h2.client()->OpenRing(2, h1.config().lid, MakeRingEnd()).ok());
  ASSERT_TRUE(h2.WaitFor([](const auto& record) { return record.offers.size() == 1 && record.opened.size() == 1; }));
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
  EXPECT_EQ(h1.client()->OpenRing(2, h2_before.lid, MakeRingEnd()).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(access(dir_.socket().c_str(), F_OK), -1) << "an orderly end leaves no socket";

  fabricd_ = std::make_unique<Fabricd>(dir_.socket());
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return record.configs.size() == 2; }));
  ASSERT_TRUE(h2.WaitFor([](const auto& record) { return record.configs.size() == 2; }));
  for (const auto& [before, after] : {std::pair(h1_before, h1.config()), std::pair(h2_before, h2.config())}) {
    EXPECT_EQ(after.lid, before.lid);
    EXPECT_EQ(after.gid, before.gid);
    EXPECT_EQ(after.qpns.first, before.qpns.first) << "queue pairs live on";
  }
  EXPECT_THAT(h2.record().closed, IsEmpty()) << "rings go on without fabricd";
  ASSERT_TRUE(h1.client()->OpenRing(3, h2_before.lid, MakeRingEnd()).ok());
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return record.opened.size() == 2; }));
  EXPECT_NE(h1.record().opened[3].first, first_ring) << "ring identifiers are never reused";
}

// The one that has been away wishes for nothing, since it is a new process; the newcomer is first.
TEST(FabricLidsTest, LidsSurviveARestart) {
  SocketDir dir;
  TempDir state;
  Lid lid;
  {
    auto lids = LidFile::Open(state.path());
    ASSERT_TRUE(lids.ok()) << lids.status();
    Fabricd fabricd(dir.socket(), lids->get());
    TestPort h1(dir.socket());
    ASSERT_TRUE(h1.Register("h1").ok());
    lid = h1.config().lid;
  }
  auto lids = LidFile::Open(state.path());
  ASSERT_TRUE(lids.ok()) << lids.status();
  Fabricd fabricd(dir.socket(), lids->get());
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
  EXPECT_TRUE(h1.WaitFor([](const auto& record) { return record.configs.back().reregistrations == 1; }));
  ASSERT_TRUE(fabricd_->subnet()->MoveSm(Lid(9)).ok());
  EXPECT_TRUE(h1.WaitFor([](const auto& record) { return record.configs.back().sm_lid == Lid(9); }));
  fabricd_->subnet()->RestartSm();
  EXPECT_TRUE(h1.WaitFor([](const auto& record) { return record.configs.back().reregistrations == 2; }));
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
  EXPECT_EQ(DecodeNodeDescription(SmpData(h1.record().mads[0])).value(), "h2");
}

// By fabricd's own clock.
TEST_F(FabricSocketTest, AReportIsRepeated) {
  TestPort h1(dir_.socket()), h2(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  SaHeader header;
  header.method = MadMethod::kSet;
  header.attribute = SaAttribute::kInformInfo;
  Mad mad;
  EncodeSaHeader(header, &mad);
  EncodeInformInfo(InformInfo(), SaRecord(&mad));
  ASSERT_TRUE(h1.client()->SendMad(mad).ok());
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return record.mads.size() == 1; }));
  ASSERT_TRUE(h2.Register("h2").ok());
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return record.mads.size() == 3; }));
  EXPECT_EQ(h1.record().mads[1], h1.record().mads[2]);
  EXPECT_EQ(DecodeNotice(SaRecord(h1.record().mads[1]))->AboutGid(), h2.config().gid);
}

TEST_F(FabricSocketTest, ARequestThatFabricdDoesNotSurviveIsRefused) {
  TestPort h1(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  fabricd_->Pause();
  ASSERT_TRUE(h1.client()->OpenRing(1, Lid(99), MakeRingEnd()).ok());
  fabricd_.reset();
  EXPECT_TRUE(h1.WaitFor([](const auto& record) { return record.refused.count(1) != 0 && record.lost == 1; }));
}

TEST_F(FabricSocketTest, AStoppedFabricdBlocksNobody) {
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
  EXPECT_TRUE(h1.WaitFor([&](const auto& record) { return record.mads.size() == sent; })) << "nothing that was taken is lost";
  EXPECT_EQ(h1.record().lost, 0);
}

TEST_F(FabricSocketTest, APortThatDoesNotReadIsDroppedAlone) {
  TestPort h1(dir_.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  const UniqueFd deaf(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const sockaddr_un address = UnixAddress(dir_.socket()).value();
  ASSERT_EQ(connect(deaf.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  RegisterMessage hello;
  PutText("deaf", hello.name, sizeof(hello.name));
  Outbox outbox(1);
  ASSERT_TRUE(outbox.Send(deaf.get(), Encode(hello, MakePortDescriptors())).ok());
  while (fabricd_->subnet()->Ports().size() < 2 || !fabricd_->subnet()->Ports()[1].alive) std::this_thread::yield();
  for (uint32_t i = 0; fabricd_->subnet()->Ports()[1].alive; ++i) {
    ASSERT_LT(i, 1'000'000u);
    ASSERT_TRUE(fabricd_->subnet()->SetFault({"*", "*", FaultRule{.seed = i}}).ok());
    if (i % 256 == 255) h1.WaitFor([i](const auto& record) { return record.faults.back().at(0).seed == i; });
  }
  EXPECT_EQ(fabricd_->counters().stuck, 1u);
  EXPECT_EQ(h1.record().lost, 0);
}

TEST_F(FabricSocketTest, MalformedMessagesDisconnectTheirSenderOnly) {
  TestPort bystander(dir_.socket());
  ASSERT_TRUE(bystander.Register("bystander").ok());
  const Lid lid = bystander.config().lid;
  const auto raw = [](uint32_t type, size_t size) {
    Packet packet;
    packet.bytes.assign(size, '\0');
    if (size >= sizeof(type)) std::memcpy(packet.bytes.data(), &type, sizeof(type));
    return packet;
  };
  const auto one_fd = [](UniqueFd fd) {
    std::vector<UniqueFd> fds;
    fds.push_back(std::move(fd));
    return fds;
  };
  const auto ring = [lid](std::function<void(RingEnd*)> spoil) {
    RingEnd end = MakeRingEnd();
    spoil(&end);
    OpenRingMessage message;
    message.destination = lid.value();
    message.capacity = end.capacity;
    return Encode(message, ToDescriptors(std::move(end)));
  };
  struct Row {
    const char* description;
    bool registered;
    std::function<Packet()> make;
  };
  const int kBothSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const Row kRows[] = {
      {"one byte", false, [&] { return raw(0, 1); }},
      {"an unknown type", true, [&] { return raw(999, 64); }},
      {"a MAD before registration", false, [&] { return Encode(MadMessage()); }},
      {"a MAD to a multicast LID", true,
       [&] {
         MadMessage message;
         message.destination = 0xc001;
         return Encode(message);
       }},
      {"a short MAD", true, [&] { return raw(static_cast<uint32_t>(MessageType::kMad), 100); }},
      {"a MAD with a descriptor", true, [&] { return Encode(MadMessage(), one_fd(UniqueFd(eventfd(0, 0)))); }},
      {"an oversized message", true, [&] { return raw(static_cast<uint32_t>(MessageType::kMad), 60'000); }},
      {"a second registration", true, [&] { return Encode(RegisterMessage(), MakePortDescriptors()); }},
      {"a registration without a doorbell", false, [&] { return Encode(RegisterMessage()); }},
      {"a doorbell that is a file", false,
       [&] {
         std::vector<UniqueFd> fds = MakePortDescriptors();
         fds[0].reset(open("/dev/null", O_RDWR | O_CLOEXEC));
         return Encode(RegisterMessage(), std::move(fds));
       }},
      {"counters that may shrink", false,
       [&] {
         std::vector<UniqueFd> fds = MakePortDescriptors();
         fds[1] = MakeMemfd(CountersPage::kSize, F_SEAL_GROW | F_SEAL_SEAL);
         return Encode(RegisterMessage(), std::move(fds));
       }},
      {"counters of another size", false,
       [&] {
         std::vector<UniqueFd> fds = MakePortDescriptors();
         fds[1] = MakeMemfd(2 * CountersPage::kSize, kBothSeals | F_SEAL_SEAL);
         return Encode(RegisterMessage(), std::move(fds));
       }},
      {"fabricd's own message", true, [&] { return Encode(FaultsMessage()); }},
      {"a ring without descriptors", true, [&] { return Encode(OpenRingMessage()); }},
      {"a ring of an odd size", true, [&] { return ring([](RingEnd* end) { end->capacity = 65535; }); }},
      {"a ring of no size", true, [&] { return ring([](RingEnd* end) { end->capacity = 0; }); }},
      {"a ring larger than its memory", true, [&] { return ring([](RingEnd* end) { end->capacity = 131072; }); }},
      {"data that may shrink", true, [&] { return ring([](RingEnd* end) { end->data = MakeMemfd(65536, F_SEAL_GROW); }); }},
      {"data that may grow", true, [&] { return ring([](RingEnd* end) { end->data = MakeMemfd(65536, F_SEAL_SHRINK); }); }},
      {"an index that may shrink", true, [&] { return ring([](RingEnd* end) { end->index = MakeMemfd(4096, F_SEAL_GROW); }); }},
      {"an empty index", true, [&] { return ring([=](RingEnd* end) { end->index = MakeMemfd(0, kBothSeals); }); }},
      {"data that is no memory file", true,
       [&] { return ring([](RingEnd* end) { end->data = UniqueFd(open("/dev/zero", O_RDWR | O_CLOEXEC)); }); }},
      {"space that is no eventfd", true, [&] { return ring([](RingEnd* end) { end->space = MakeMemfd(8, F_SEAL_GROW); }); }},
      {"liveness that is no pipe", true,
       [&] { return ring([](RingEnd* end) { end->liveness = UniqueFd(eventfd(0, EFD_CLOEXEC)); }); }},
      {"a ring to a multicast LID", true,
       [&] {
         OpenRingMessage message;
         message.destination = 0xc001;
         message.capacity = 65536;
         return Encode(message, ToDescriptors(MakeRingEnd()));
       }},
  };
  const sockaddr_un address = UnixAddress(dir_.socket()).value();
  uint64_t malformed = 0;
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.description);
    const UniqueFd client(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    Outbox outbox(4);
    if (row.registered) {
      RegisterMessage hello;
      PutText("mallory", hello.name, sizeof(hello.name));
      ASSERT_TRUE(outbox.Send(client.get(), Encode(hello, MakePortDescriptors())).ok());
    }
    ASSERT_TRUE(outbox.Send(client.get(), row.make()).ok());
    // Whatever was said before, the connection's end follows.
    for (;;) {
      pollfd polled{client.get(), POLLIN, 0};
      ASSERT_EQ(poll(&polled, 1, 10'000), 1);
      if (absl::IsDataLoss(ReceivePacket(client.get()).status())) break;
    }
    EXPECT_EQ(fabricd_->counters().malformed, ++malformed);
  }
  EXPECT_EQ(bystander.record().lost, 0);
  EXPECT_THAT(bystander.record().offers, IsEmpty());
  TestPort another(dir_.socket());
  EXPECT_TRUE(another.Register("another").ok());
}

TEST_F(FabricSocketTest, WhoSpeaksAnotherVersionIsTold) {
  const UniqueFd client(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const sockaddr_un address = UnixAddress(dir_.socket()).value();
  ASSERT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  RegisterMessage hello;
  hello.type = MessageType::kQuery;
  hello.version = kProtocolVersion + 1;
  PutText("h1", hello.name, sizeof(hello.name));
  Outbox outbox(1);
  ASSERT_TRUE(outbox.Send(client.get(), Encode(hello)).ok());
  pollfd polled{client.get(), POLLIN, 0};
  ASSERT_EQ(poll(&polled, 1, 10'000), 1);
  const auto answer = Decode<RegisteredMessage>(ReceivePacket(client.get()).value());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(TextOf(answer->text, sizeof(answer->text)), HasSubstr("version"));
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
  EXPECT_THAT(std::string(status.message()), HasSubstr("64 processes"));
  ports.pop_back();
  EXPECT_TRUE(one_more.Register("one-more").ok());
}

TEST(FabricClientTest, NoFabricdIsUnavailable) {
  SocketDir dir;
  TestPort h1(dir.socket());
  const absl::Status status = h1.Register("h1");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("start eoib-fabricd --rundir /tmp/"));
  EXPECT_EQ(h1.client()->SendMad(Mad{}).code(), absl::StatusCode::kUnavailable);
}

TEST(FabricClientTest, AClientWaitsForFabricdIfAskedTo) {
  SocketDir dir;
  TestPort h1(FabricClient::Options{.socket = dir.socket(), .wait = absl::Seconds(30)});
  absl::Status status;
  std::thread registering([&] { status = h1.Register("h1"); });
  Fabricd fabricd(dir.socket());
  registering.join();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(FabricClientTest, AFabricdThatDoesNotAnswerIsADeadline) {
  SocketDir dir;
  Fabricd fabricd(dir.socket());
  fabricd.Pause();
  TestPort h1(FabricClient::Options{.socket = dir.socket(), .answer = absl::Milliseconds(50)});
  EXPECT_EQ(h1.Register("h1").code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(FabricClientTest, AFabricdThatIsStoppedIsWaitedForAsLongAsTheCallerLikes) {
  SocketDir dir;
  Fabricd fabricd(dir.socket());
  fabricd.Pause();
  std::atomic<int> asked{0};
  TestPort h1(FabricClient::Options{.socket = dir.socket(),
                                    .answer = absl::Milliseconds(1),
                                    .keep_waiting = [&](const std::string& what, absl::Duration waited) {
                                      EXPECT_THAT(what, HasSubstr(dir.socket()));
                                      EXPECT_GT(waited, absl::ZeroDuration());
                                      if (++asked == 2) fabricd.Continue();
                                      return true;
                                    }});
  EXPECT_TRUE(h1.Register("h1").ok());
  EXPECT_GE(asked, 2);
}

TEST(FabricClientTest, WaitingForAStoppedFabricdEndsWhenTheCallerSaysSo) {
  SocketDir dir;
  Fabricd fabricd(dir.socket());
  fabricd.Pause();
  TestPort h1(
      FabricClient::Options{.socket = dir.socket(), .keep_waiting = [](const std::string&, absl::Duration) { return false; }});
  EXPECT_EQ(h1.Register("h1").code(), absl::StatusCode::kCancelled);
}

TEST(FabricClientTest, AStoppedFabricdThatDiesIsWaitedForLikeOneThatIsNotThere) {
  SocketDir dir;
  auto fabricd = std::make_unique<Fabricd>(dir.socket());
  fabricd->Pause();
  constexpr absl::Duration kWait = absl::Milliseconds(150);
  int asked = 0;
  TestPort h1(
      FabricClient::Options{.socket = dir.socket(), .wait = kWait, .keep_waiting = [&](const std::string&, absl::Duration) {
                              // Twice the wait has passed by then: it begins anew.
                              if (++asked == 3) {
                                fabricd.reset();
                                fabricd = std::make_unique<Fabricd>(dir.socket());
                              }
                              return true;
                            }});
  EXPECT_TRUE(h1.Register("h1").ok());
}

TEST(FabricClientTest, AFabricdThatTakesNoConnectionsIsThere) {
  SocketDir dir;
  Fabricd fabricd(dir.socket());
  fabricd.Pause();
  const sockaddr_un address = UnixAddress(dir.socket()).value();
  std::vector<UniqueFd> queued;  // until the kernel's backlog is full
  do {
    queued.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  } while (connect(queued.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  ASSERT_EQ(errno, EAGAIN);
  int asked = 0;
  TestPort h1(FabricClient::Options{
      .socket = dir.socket(), .wait = absl::Milliseconds(150), .keep_waiting = [&](const std::string&, absl::Duration) {
        if (++asked == 4) {
          queued.clear();
          fabricd.Continue();
        }
        return true;
      }});
  EXPECT_TRUE(h1.Register("h1").ok());
}

TEST(FabricServerTest, OneFabricdAPath) {
  SocketDir dir;
  Subnet subnet;
  auto first = FabricServer::Listen(dir.socket(), &subnet);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(FabricServer::Listen(dir.socket(), &subnet).status().code(), absl::StatusCode::kAlreadyExists);
  first->reset();
  EXPECT_TRUE(FabricServer::Listen(dir.socket(), &subnet).ok());
}

TEST(FabricServerTest, AStaleSocketIsReplacedAndALivingOneIsNot) {
  SocketDir dir;
  Subnet subnet;
  const sockaddr_un address = UnixAddress(dir.socket()).value();
  {
    const UniqueFd other(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(other.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(other.get(), 1), 0);
    EXPECT_EQ(FabricServer::Listen(dir.socket(), &subnet).status().code(), absl::StatusCode::kAlreadyExists);
  }
  EXPECT_TRUE(FabricServer::Listen(dir.socket(), &subnet).ok());
}

TEST(FabricServerTest, AFileInTheWayIsLeftAlone) {
  SocketDir dir;
  Subnet subnet;
  const UniqueFd file(open(dir.socket().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.valid());
  EXPECT_EQ(FabricServer::Listen(dir.socket(), &subnet).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(access(dir.socket().c_str(), F_OK), 0);
}

// While another thread may not have descriptors either, so there is none here.
TEST(FabricServerTest, WithoutDescriptorsItRefusesAndDoesNotSpin) {
  SocketDir dir;
  Subnet subnet;
  auto server = FabricServer::Listen(dir.socket(), &subnet);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto has_work = [&] {
    pollfd polled{(*server)->fd(), POLLIN, 0};
    return poll(&polled, 1, 0) > 0;
  };
  const auto ended = [](const UniqueFd& client) { return absl::IsDataLoss(ReceivePacket(client.get()).status()); };
  const sockaddr_un address = UnixAddress(dir.socket()).value();
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 3; ++i) clients.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = 128;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  std::vector<UniqueFd> hoard;
  for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) hoard.emplace_back(fd);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(connect(clients[i].get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  EXPECT_TRUE(has_work());
  (*server)->Run();
  EXPECT_FALSE(has_work());
  EXPECT_TRUE(ended(clients[0]));
  EXPECT_TRUE(ended(clients[1]));
  EXPECT_EQ((*server)->counters().refused, 2u);

  hoard.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_EQ(connect(clients[2].get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  (*server)->Run();
  EXPECT_FALSE(ended(clients[2]));
  EXPECT_EQ((*server)->clients(), 1u);
}

TEST(FabricServerTest, PathsMustFit) {
  Subnet subnet;
  EXPECT_EQ(FabricServer::Listen("/tmp/" + std::string(120, 'x'), &subnet).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace eoib::softhca
