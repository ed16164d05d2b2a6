// Agents with several workers.
#include <atomic>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "control/agent_test_fixture.h"
#include "gmock/gmock.h"
#include "vswitch/base/byte_order.h"

namespace eoib {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

std::string TwoWorkers(const std::vector<std::string>& vports, const std::string& more = "") {
  std::string toml = absl::StrCat("workers = 2\n[[ves]]\nname = 'blue'\npkey = 0x8001\n", more);
  for (const std::string& name : vports) {
    absl::StrAppend(&toml, "[[vport]]\nname = '", name,
                    "'\nves = 'blue'\ntype = 'test'\npin_mac = false\n");
  }
  return toml;
}

// A UDP datagram over IPv4 of a flow, whose number is its source port.
Bytes FlowDatagram(MacAddr to, MacAddr from, uint16_t flow) {
  Bytes frame = MakeFrame(to, from, -1, 46, 0x0800);
  std::fill_n(&frame[14], 46, uint8_t{0});
  frame[14] = 0x45, frame[17] = 46, frame[22] = 64, frame[23] = 17, frame[26] = frame[30] = 10,
  frame[29] = 1, frame[33] = 2;
  WriteWire(be16(flow), &frame[34]);
  return frame;
}

class AgentWorkersTest : public AgentTestOf<MonotonicClock> {
 protected:
  static constexpr uint16_t kFlows = 32;

  void AddTwo(const std::string& more = "") {
    h1_ = AddHost("h1", TwoWorkers({"v1", "v2"}, more));
    h2_ = AddHost("h2", TwoWorkers({"v1", "v2"}, more));
    ASSERT_TRUE(AllJoined());
    ExpectTalk(h1_->port("v1"), h2_->port("v1"));
  }
  // The frames that each worker of a host has handled.
  static std::vector<uint64_t> FramesByWorker(Host* host) {
    std::vector<uint64_t> frames;
    const std::string show = host->Command("show");
    for (absl::string_view line : absl::StrSplit(show, '\n')) {
      if (!absl::StartsWith(line, "worker eoib-worker-")) continue;
      const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
      uint64_t count = 0;
      EXPECT_TRUE(absl::SimpleAtoi(words[words.size() - 3], &count)) << line;
      frames.push_back(count);
    }
    return frames;
  }
  // Sends a datagram of each flow until all have arrived at once.
  bool AllFlowsArrive(TestPort* from, TestPort* to, MacAddr destination, MacAddr source) {
    return Until([&] {
      for (uint16_t flow = 0; flow < kFlows; ++flow)
        from->Inject(FlowDatagram(destination, source, flow));
      std::set<Bytes> arrived;
      const absl::Time next = watch_.Now() + absl::Milliseconds(200);
      Until([&] {
        for (const auto& sent : to->TakeTransmitted()) {
          if (sent.bytes[12] == 0x08) arrived.insert(sent.bytes);
        }
        return arrived.size() == kFlows || watch_.Now() > next;
      });
      return arrived.size() == kFlows;
    });
  }

  Host* h1_ = nullptr;
  Host* h2_ = nullptr;
};

TEST_F(AgentWorkersTest, ReadOneInterfaceEachAndWriteToAll) {
  AddTwo();
  EXPECT_THAT(h1_->Command("show"),
              AllOf(HasSubstr("worker eoib-worker-0: polls 1 queue pairs, reads 1 vPorts, "),
                    HasSubstr("worker eoib-worker-1: polls 1 queue pairs, reads 1 vPorts, ")));
  EXPECT_THAT(h1_->Command("vport/show", {"v1"}), HasSubstr(", eoib-worker-0\n"));
  EXPECT_THAT(h1_->Command("vport/show", {"v2"}), HasSubstr(", eoib-worker-1\n"));
  // Local, both ways, by different workers.
  ExpectTalk(h1_->port("v1"), h1_->port("v2"));
  // From either interface to either queue pair.
  h2_->port("v2")->Inject(MakeFrame(MacAddr::Broadcast(), kD));
  ASSERT_TRUE(Arrives(h1_->port("v1"), MakeFrame(MacAddr::Broadcast(), kD)));
  ASSERT_TRUE(Until([&] { return h1_->OriginOf(kD) == "announced"; }));
  const std::vector<uint64_t> before = FramesByWorker(h2_);
  ASSERT_THAT(before, SizeIs(2));
  EXPECT_TRUE(AllFlowsArrive(h1_->port("v1"), h2_->port("v2"), kD, kA));
  EXPECT_TRUE(AllFlowsArrive(h1_->port("v2"), h2_->port("v2"), kD, kB));
  const std::vector<uint64_t> after = FramesByWorker(h2_);
  for (size_t worker = 0; worker < 2; ++worker) EXPECT_GT(after[worker], before[worker]) << worker;
}

// A MAC behind a port that is down is flushed, also if one worker reads the port and another one
// has a frame for it.
TEST_F(AgentWorkersTest, PortThatIsDownIsFlushedByAnyWorker) {
  AddTwo();
  h1_->port("v2")->Inject(MakeFrame(MacAddr::Broadcast(), kC));  // learned by the second worker
  ASSERT_TRUE(Until([&] { return h1_->Knows(kC); }));
  h1_->port("v2")->SetTransmitResult(DropReason::kPortDown);
  h1_->port("v1")->Inject(MakeFrame(kC, kA));  // forwarded by the first one
  EXPECT_TRUE(Until([&] { return !h1_->Knows(kC); }));
  h1_->port("v2")->SetTransmitResult(DropReason::kNone);
}

TEST_F(AgentWorkersTest, KeepTheirNumberInAReload) {
  AddTwo();
  std::string one = TwoWorkers({"v1", "v3"});
  one[one.find('2')] = '1';
  ASSERT_TRUE(h1_->Apply(one).ok());
  EXPECT_THAT(h1_->Command("show"), AllOf(HasSubstr("worker eoib-worker-1"), HasSubstr("vPort v3"),
                                          Not(HasSubstr("vPort v2"))));
  EXPECT_EQ(h1_->agent()->config().workers, 2u);
  ExpectTalk(h1_->port("v3"), h2_->port("v1"));
}

// Such VESes have one queue pair, which the first worker polls. Both workers read interfaces when
// the VES has two again.
TEST_F(AgentWorkersTest, VesThatAnnouncesNothingHasOneQueue) {
  AddTwo("announce = false\n");
  EXPECT_THAT(h1_->Command("vport/show", {"v2"}), HasSubstr(", eoib-worker-0\n"));
  EXPECT_THAT(h1_->Qpn(), Not(HasSubstr(" ")));
  for (Host* host : {h1_, h2_}) ASSERT_TRUE(host->Apply(TwoWorkers({"v1", "v2"})).ok());
  ASSERT_TRUE(AllJoined());
  EXPECT_THAT(h1_->Command("vport/show", {"v2"}), HasSubstr(", eoib-worker-1\n"));
  EXPECT_TRUE(ArrivesInTheEnd(h1_->port("v2"), h2_->port("v2"), MakeFrame(kD, kC)));
}

TEST_F(AgentWorkersTest, GetNewQueuePairsAfterALoss) {
  AddTwo();
  const std::string before = h1_->Qpn();
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(before, ' ')), SizeIs(2));
  h1_->hca()->OverrunQueues();
  ASSERT_TRUE(Until([&] { return h1_->Qpn() != before && h1_->Joined(); }));
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(h1_->Qpn(), ' ')), SizeIs(2));
  EXPECT_TRUE(ArrivesAfterTries(h2_->port("v1"), h1_->port("v1"), MakeFrame(kA, kB)));
  EXPECT_TRUE(AllFlowsArrive(h2_->port("v2"), h1_->port("v1"), kA, kC));
}

// All threads at once: interfaces that talk to each other, here and there, while others come and
// go.
TEST_F(AgentWorkersTest, ForwardWhileVPortsComeAndGo) {
  AddTwo();
  const MacAddr macs[] = {kA, kB, kC, kD};
  TestPort* const ports[] = {h1_->port("v1"), h2_->port("v1"), h1_->port("v2"), h2_->port("v2")};
  for (size_t i = 0; i < 4; ++i) ports[i]->Inject(MakeFrame(MacAddr::Broadcast(), macs[i]));
  ASSERT_TRUE(Until([&] {
    for (Host* host : {h1_, h2_}) {
      for (MacAddr mac : macs) {
        if (!host->Knows(mac)) return false;
      }
    }
    return true;
  }));
  for (TestPort* port : ports) port->SetDiscard(true);
  std::atomic<bool> stopping{false};
  std::thread sender([&] {
    // A bounded number: the ports keep what the workers have not read yet.
    for (uint16_t number = 0; number < 10'000 && !stopping.load(); ++number) {
      for (size_t from = 0; from < 4; ++from) {
        for (size_t to = 0; to < 4; ++to) {
          if (from != to) ports[from]->Inject(FlowDatagram(macs[to], macs[from], number % kFlows));
        }
      }
      std::this_thread::yield();
    }
  });
  for (int round = 0; round < 20; ++round) {
    for (Host* host : {h1_, h2_}) {
      EXPECT_TRUE(host->Apply(TwoWorkers({"v1", "v2", "v3", "v4"})).ok());
      const MacAddr station =
          MacAddr::FromUint64((host == h1_ ? 0x02'00'00'00'01'00 : 0x02'00'00'00'02'00) + round);
      host->port("v3")->Inject(MakeFrame(MacAddr::Broadcast(), station));
      PumpAll();
      EXPECT_TRUE(host->Apply(TwoWorkers({"v1", "v2"})).ok());
    }
    PumpAll();
  }
  stopping.store(true);
  sender.join();
  for (TestPort* port : ports) port->SetDiscard(false);
  for (TestPort* port : ports) port->TakeTransmitted();
  EXPECT_TRUE(AllFlowsArrive(ports[0], ports[3], kD, kA));
  EXPECT_TRUE(AllFlowsArrive(ports[3], ports[0], kA, kD));
}

}  // namespace
}  // namespace eoib
