// vPorts with several queues. Each program has a MAC and sends flows that differ in their UDP
// source port.
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "control/embed/embedded_switch_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/byte_order.h"

namespace eoib {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr uint16_t kFlows = 32;
constexpr size_t kNumberAt = 42;  // in a frame: the number of the frame in its flow

Bytes FlowFrame(MacAddr to, MacAddr from, uint16_t flow, uint32_t number) {
  Bytes frame = MakeFrame(to, from, -1, 50, 0x0800);
  uint8_t* const ip = &frame[14];
  std::fill_n(ip, 50, uint8_t{0});
  ip[0] = 0x45, ip[3] = 50, ip[8] = 64, ip[9] = 17, ip[12] = ip[16] = 10, ip[15] = 1, ip[19] = 2;
  WriteWire(be16(static_cast<uint16_t>(1000 + flow)), ip + 20);
  WriteWire(be32(number), &frame[kNumberAt]);
  return frame;
}
bool IsOfFlow(const Bytes& frame) {
  return frame.size() == 64 && frame[12] == 0x08 && frame[23] == 17;
}
uint16_t FlowOf(const Bytes& frame) {
  return static_cast<uint16_t>((frame[34] << 8 | frame[35]) - 1000);
}
uint32_t NumberOf(const Bytes& frame) {
  return uint32_t{frame[kNumberAt]} << 24 | uint32_t{frame[kNumberAt + 1]} << 16 |
         uint32_t{frame[kNumberAt + 2]} << 8 | frame[kNumberAt + 3];
}

class QueuesTest : public EmbeddedSwitchTest {
 protected:
  static BurstPort* AddWith(EmbeddedSwitch* to, size_t queues, const std::string& name = "p") {
    BurstPort::Options options;
    options.queues = queues;
    return Add(to, name, "blue", 0x8001, options).value();
  }
  // Two hosts that know each other's MACs, and all queues of each other.
  void StartHosts(size_t queues_of_one, size_t queues_of_other) {
    one_ = AddWith(Open("h1"), queues_of_one);
    other_ = AddWith(Open("h2"), queues_of_other);
    ASSERT_TRUE(HasCarrier(one_) && HasCarrier(other_));
    ASSERT_TRUE(Arrives(one_, other_, MakeFrame(kB, kA)));
    ASSERT_TRUE(Arrives(other_, one_, MakeFrame(kA, kB)));
    ASSERT_TRUE(Until(
        [&] { return ReachesAll(one_, other_, kB, kA) && ReachesAll(other_, one_, kA, kB); }));
  }
  // Sends a frame of each flow. True once each queue of `to` has received some.
  static bool ReachesAll(BurstPort* from, BurstPort* to, MacAddr destination, MacAddr source) {
    for (uint16_t flow = 0; flow < kFlows; ++flow)
      Send(from, FlowFrame(destination, source, flow, 0));
    size_t reached = 0;
    for (size_t queue = 0; queue < to->queues(); ++queue) {
      bool any = false;
      for (std::vector<Bytes> frames; !(frames = Receive(to, 64, 5000, queue)).empty();) any = true;
      reached += any;
    }
    return reached == to->queues();
  }
  // Sends `each` frames of each flow, and collects the numbers of those that arrive, by flow and
  // queue.
  using Arrived = std::map<uint16_t, std::map<size_t, std::vector<uint32_t>>>;
  Arrived SendFlows(BurstPort* from, BurstPort* to, MacAddr destination, MacAddr source,
                    uint32_t each) {
    Arrived arrived;
    size_t count = 0;
    const auto receive = [&] {
      for (size_t queue = 0; queue < to->queues(); ++queue) {
        for (const Bytes& frame : Receive(to, 64, 5000, queue)) {
          if (!IsOfFlow(frame) || NumberOf(frame) == 0) continue;
          arrived[FlowOf(frame)][queue].push_back(NumberOf(frame));
          ++count;
        }
      }
    };
    for (uint32_t number = 1; number <= each; ++number) {
      for (uint16_t flow = 0; flow < kFlows; ++flow) {
        Send(from, FlowFrame(destination, source, flow, number), flow % from->queues());
      }
      receive();
    }
    EXPECT_TRUE(Until([&] {
      receive();
      return count >= size_t{each} * kFlows;
    })) << count
        << " frames arrived";
    return arrived;
  }

  BurstPort* one_ = nullptr;
  BurstPort* other_ = nullptr;
};

TEST_F(QueuesTest, EachFlowComesToOneQueueInItsOrder) {
  StartHosts(2, 2);
  constexpr uint32_t kEach = 20;
  std::set<size_t> used;
  for (const auto& [flow, queues] : SendFlows(one_, other_, kB, kA, kEach)) {
    ASSERT_THAT(queues, SizeIs(1)) << "flow " << flow;
    const auto& [queue, numbers] = *queues.begin();
    used.insert(queue);
    ASSERT_THAT(numbers, SizeIs(kEach));
    for (uint32_t i = 0; i < kEach; ++i) EXPECT_EQ(i + 1, numbers[i]) << "flow " << flow;
  }
  EXPECT_THAT(used, SizeIs(2));
}

TEST_F(QueuesTest, AllQueuesAreAddressesOfOneAgent) {
  StartHosts(3, 1);
  const std::string peers = switches_[1]->Command({"peers"}).value();
  size_t addresses = 0;
  for (size_t at = 0; (at = peers.find("GID ", at)) != std::string::npos; ++at) ++addresses;
  EXPECT_EQ(3u, addresses) << peers;
  EXPECT_THAT(peers, testing::Not(HasSubstr("data-only"))) << "no queue is taken for another peer";
  EXPECT_THAT(switches_[1]->Command({"fdb/show"}).value(), HasSubstr(kA.ToString()));
}

TEST_F(QueuesTest, APeerWithOneQueueGetsAllFlows) {
  StartHosts(2, 1);
  for (const auto& [flow, queues] : SendFlows(one_, other_, kB, kA, 10))
    EXPECT_THAT(queues, SizeIs(1));
}

TEST_F(QueuesTest, FloodsComeToTheFirstQueueAndNotBackToTheirSender) {
  StartHosts(2, 2);
  constexpr uint32_t kEach = 10;
  for (const auto& [flow, queues] :
       SendFlows(one_, other_, MacAddr::FromUint64(0xffff'ffff'ffff), kA, kEach)) {
    EXPECT_THAT(queues, testing::ElementsAre(testing::Pair(0, SizeIs(kEach)))) << "flow " << flow;
  }
  // A queue drops the multicast that the HCA loops back, whichever queue of the switch sent it.
  EXPECT_TRUE(Until([&] {
    EXPECT_THAT(Receive(one_), SizeIs(0));
    EXPECT_THAT(Receive(one_, 32, 5000, 1), SizeIs(0));
    const std::string drops = switches_[0]->Command({"drops"}).value();
    return drops.find("own_multicast") != std::string::npos;
  }));
}

TEST_F(QueuesTest, AVesGetsQueuesWithItsVPorts) {
  StartHosts(1, 1);
  BurstPort* const wide = AddWith(switches_[1].get(), 2, "wide");
  ASSERT_TRUE(HasCarrier(wide));
  const MacAddr behind = MacAddr::FromUint64(0x02'00'00'00'00'0c);
  ASSERT_TRUE(Until([&] {
    Send(wide, FlowFrame(kA, behind, 0, 0));
    return ReachesAll(one_, wide, behind, kA);
  }));
  // The vPort with one queue also gets what comes to the second queue pair of its VES.
  while (!Receive(other_).empty()) {
  }
  const Arrived arrived = SendFlows(one_, other_, kB, kA, 10);
  EXPECT_THAT(arrived, SizeIs(kFlows));
  for (const auto& [flow, queues] : arrived)
    EXPECT_THAT(queues, testing::ElementsAre(testing::Pair(0, SizeIs(10))));
}

TEST_F(QueuesTest, AFrameWhoseQueueAnotherVPortPollsWaitsInARing) {
  EmbeddedSwitch* const host = Open("h1");
  BurstPort* const one = AddWith(host, 2, "p1");
  BurstPort* const other = AddWith(host, 1, "p2");
  ASSERT_TRUE(HasCarrier(one));
  ASSERT_TRUE(Arrives(one, other, MakeFrame(kB, kA)));
  ASSERT_TRUE(Arrives(other, one, MakeFrame(kA, kB)));
  // The thread of p1 forwards it, at the second forwarder.
  ASSERT_TRUE(Until(
      [&] { return Receive(other).empty() && !other->Arm() && !Readable(other->wait_fd()); }));
  Send(one, FlowFrame(kB, kA, 1, 1), 1);
  EXPECT_TRUE(Readable(other->wait_fd(), kPatience));
  EXPECT_THAT(Receive(other), SizeIs(1));
}

// A program with a thread for each queue on both hosts, which leaves it to another thread to free
// what it received.
TEST_F(QueuesTest, AThreadForEachQueue) {
  StartHosts(2, 2);
  constexpr size_t kEnough = 2000;
  std::array<std::atomic<size_t>, 2> received{};
  std::atomic<bool> stop{false};
  absl::Mutex mutex;
  std::vector<std::unique_ptr<std::vector<Bytes>>> to_free;
  std::vector<std::thread> threads;
  for (size_t queue = 0; queue < 2; ++queue) {
    // Two flows of each sender's queue: order within a flow is kept.
    threads.emplace_back([&, queue] {
      for (uint32_t number = 1; !stop; ++number) {
        for (uint16_t flow = 0; flow < kFlows; ++flow) {
          if (flow % 2 == queue) TrySend(one_, FlowFrame(kB, kA, flow, number), queue);
        }
        std::this_thread::yield();
      }
    });
    threads.emplace_back([&, queue] {
      std::map<uint16_t, uint32_t> last;
      while (!stop) {
        auto frames = std::make_unique<std::vector<Bytes>>(Receive(other_, 32, 5000, queue));
        for (const Bytes& frame : *frames) {
          if (!IsOfFlow(frame) || NumberOf(frame) == 0) continue;
          EXPECT_LT(std::exchange(last[FlowOf(frame)], NumberOf(frame)), NumberOf(frame))
              << "flow " << FlowOf(frame);
          ++received[queue];
        }
        absl::MutexLock lock(&mutex);
        to_free.push_back(std::move(frames));
      }
    });
  }
  EXPECT_TRUE(Until([&] {
    const absl::MutexLock lock(&mutex);
    to_free.clear();
    EXPECT_TRUE(switches_[1]->Command({"stats"}).ok());
    return received[0] >= kEnough && received[1] >= kEnough;
  })) << received[0]
      << " and " << received[1];
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(nullptr, switches_[1]->failure());
}

}  // namespace
}  // namespace eoib
