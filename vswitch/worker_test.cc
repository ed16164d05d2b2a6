// The workers' threads, with forwarders on the software HCA.
#include "vswitch/worker.h"

#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"
#include "vswitch/forwarder/forwarder_test_fixture.h"
#include "vswitch/workers.h"

namespace eoib {
namespace {

using WorkerTest = ForwarderTest;

// Its Receive does not return before Release.
class HangingPort final : public Port {
 public:
  HangingPort() { RingEventFd(event_.get()); }
  int receive_fd() const override { return event_.get(); }
  size_t Receive(BufferPool*, uint32_t, absl::Span<Frame>, PortReceiveCounts*) noexcept override {
    ClearEventFd(event_.get());
    hangs_.Notify();
    released_.WaitForNotification();
    return 0;
  }
  DropReason Transmit(const Frame&, bool) noexcept override { return DropReason::kNone; }
  MacAddr mac() const override { return kA; }

  void WaitUntilItHangs() const { hangs_.WaitForNotification(); }
  void Release() { released_.Notify(); }

 private:
  const UniqueFd event_{MakeEventFd()};
  absl::Notification hangs_, released_;
};

// Without the pause, what the send queue has no room for would be dropped. The frames wait at the
// port instead, and the worker sleeps until the fabric takes more.
TEST_F(WorkerTest, ReadsNoPortWhileItsSendQueueIsCongested) {
  constexpr size_t kFrames = 2000;
  Host::Options options;
  options.outbound = {.first_capacity = 64 * 1024,
                      .largest_capacity = 64 * 1024,
                      .head_of_queue_lifetime = absl::Hours(1)};
  Host* one = AddHost("h1", options);
  Host* two = AddHost("h2");
  TestPort* from = one->AddPort("from", {}, kA);
  TestPort* to = two->AddPort("to", {}, kB);
  to->Inject(MakeFrame(kA, kB));
  Settle();
  ASSERT_EQ(Frames(from).size(), 1u);

  Worker worker;
  ASSERT_TRUE(worker.Add(one->forwarder()).ok());
  worker.Start();
  for (size_t i = 0; i < kFrames; ++i) from->Inject(MakeFrame(kB, kA, -1, 4000));
  size_t received = 0;
  EXPECT_TRUE(Eventually([&] {
    two->Turn();
    received += Frames(to).size();
    return received == kFrames;
  })) << received;
  worker.Stop();
  EXPECT_EQ(one->counters().DropSum(DropSide::kEgress), 0u);
  Settle();
}

// The queue of a port overflows if the worker pauses again before it has taken what came in the
// last pause.
TEST_F(WorkerTest, HandlesItsBacklogBeforeItStops) {
  constexpr size_t kFrames = 1000;
  Host* one = AddHost("h1");
  TestPort* from = one->AddPort("from", {}, kA);
  TestPort* to = one->AddPort("to", {}, kB);
  to->Inject(MakeFrame(kA, kB));
  Settle();
  Worker worker;
  ASSERT_TRUE(worker.Add(one->forwarder()).ok());
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < kFrames; ++i) from->Inject(MakeFrame(kB, kA));
    worker.Start();
    worker.Stop(/*backlog=*/absl::Seconds(60));
    EXPECT_EQ(Frames(to).size(), kFrames);
  }
}

TEST_F(WorkerTest, MakesProgressWithoutTraffic) {
  Worker worker;
  ASSERT_TRUE(worker.Add(AddHost("h1")->forwarder()).ok());
  EXPECT_TRUE(worker.MakesProgress() && worker.MakesProgress()) << "it is stopped by its owner";
  worker.Start();
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(Eventually([&] { return worker.MakesProgress(); })) << "it sleeps";
  worker.Stop();
  EXPECT_TRUE(worker.MakesProgress() && worker.MakesProgress());
}

TEST_F(WorkerTest, MakesNoProgressWhileItHangs) {
  HangingPort port;
  Forwarder* const forwarder = AddHost("h1")->forwarder();
  forwarder->AddPort(&port, {}, kA);
  Worker worker;
  ASSERT_TRUE(worker.Add(forwarder).ok());
  worker.Start();
  port.WaitUntilItHangs();
  worker.MakesProgress();  // of its turns before
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(worker.MakesProgress());
  port.Release();
  EXPECT_TRUE(Eventually([&] { return worker.MakesProgress(); }));
  worker.Stop();
  worker.RemovePort(forwarder, 0);
  forwarder->RemovePort(0);
}

// The scheduling policy of the only worker's thread.
int PolicyOfWorker() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name == "eoib-worker") return sched_getscheduler(std::stoi(task.path().filename()));
  }
  return -1;
}

TEST_F(WorkerTest, RunsAheadOfProgramsOnlyWhileManySmallFramesCome) {
  Host* one = AddHost("h1");
  TestPort* from = one->AddPort("from", {}, kA);
  TestPort* to = one->AddPort("to", {}, kB);
  to->SetDiscard(true);
  Worker worker("eoib-worker", /*realtime=*/true);
  ASSERT_TRUE(worker.Add(one->forwarder()).ok());
  worker.Start();
  EXPECT_EQ(PolicyOfWorker(), SCHED_OTHER);
  EXPECT_TRUE(Eventually([&] {
    for (int i = 0; i < 1000; ++i) from->Inject(MakeFrame(kB, kA));
    return PolicyOfWorker() == SCHED_RR;
  }));
  EXPECT_TRUE(Eventually([&] {
    from->Inject(MakeFrame(kB, kA));
    return PolicyOfWorker() == SCHED_OTHER;
  }));
  worker.Stop();
}

// ---- Workers ------------------------------------------------------------------------------------

using WorkersTest = ForwarderTest;

// The forwarders of two hosts stand for the queues of a VES.
TEST_F(WorkersTest, EachPortIsReadAtOneQueue) {
  Host* hosts[] = {AddHost("h1"), AddHost("h2")};
  const std::vector<Forwarder*> queues = {hosts[0]->forwarder(), hosts[1]->forwarder()};
  Workers workers(2);
  for (size_t queue = 0; queue < 2; ++queue) ASSERT_TRUE(workers.Add(queues[queue], queue).ok());
  std::vector<TestPort*> second;
  for (uint32_t port = 0; port < 3; ++port) {
    for (Host* host : hosts) {
      TestPort* const added = host->AddPort("p", Access(7));
      added->Inject(MakeFrame(kB, kA));
      if (port == 1) second.push_back(added);
    }
    ASSERT_TRUE(workers.AddPort(queues, port).ok());
  }
  const auto received = [&](size_t queue, uint32_t port) {
    return queues[queue]->ports()[port].counters->received.value();
  };
  workers.Start();
  EXPECT_TRUE(Eventually(
      [&] { return received(0, 0) == 1 && received(1, 1) == 1 && received(0, 2) == 1; }));
  workers.Stop(absl::Seconds(60));
  EXPECT_EQ(received(1, 0) + received(0, 1) + received(1, 2), 0u);
  // A port that is removed is read at no queue.
  workers.RemovePort(queues, 1);
  for (TestPort* port : second) port->Inject(MakeFrame(kB, kA));
  workers.Start();
  workers.Stop(absl::Seconds(60));
  EXPECT_EQ(received(0, 1) + received(1, 1), 1u);
  for (Forwarder* queue : queues) workers.Remove(queue);
}

TEST_F(WorkersTest, MakeNoProgressWhileOneHangs) {
  HangingPort port;
  const std::vector<Forwarder*> queues = {AddHost("h1")->forwarder(), AddHost("h2")->forwarder()};
  Workers workers(2);
  for (size_t queue = 0; queue < 2; ++queue) ASSERT_TRUE(workers.Add(queues[queue], queue).ok());
  for (Forwarder* queue : queues) {
    queue->AddPort(&port, {});
    queue->AddPort(&port, {});
  }
  ASSERT_TRUE(workers.AddPort(queues, 1).ok());  // the second worker's
  workers.Start();
  port.WaitUntilItHangs();
  workers.MakesProgress();  // of its turns before
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(workers.MakesProgress());
  port.Release();
  EXPECT_TRUE(Eventually([&] { return workers.MakesProgress(); }));
  workers.Stop(absl::ZeroDuration());
  workers.RemovePort(queues, 1);
  for (Forwarder* queue : queues) {
    for (uint32_t index : {0, 1}) queue->RemovePort(index);
  }
}

}  // namespace
}  // namespace eoib
