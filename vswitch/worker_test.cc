// The worker's thread, with forwarders on the software HCA.
#include "vswitch/worker.h"

#include "gtest/gtest.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"
#include "vswitch/forwarder_test_fixture.h"

namespace eoib {
namespace {

using WorkerTest = ForwarderTest;

// Without the pause, what the send queue has no room for would be dropped. The frames wait at the port instead, and the worker
// sleeps until the fabric takes more.
TEST_F(WorkerTest, ReadsNoPortWhileItsSendQueueIsCongested) {
  constexpr size_t kFrames = 2000;
  Host::Options options;
  options.outbound = {.first_capacity = 64 * 1024, .largest_capacity = 64 * 1024, .head_of_queue_lifetime = absl::Hours(1)};
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
  EXPECT_TRUE(softhca::Eventually([&] {
    two->Turn();
    received += Frames(to).size();
    return received == kFrames;
  })) << received;
  worker.Stop();
  EXPECT_EQ(one->counters().DropSum(DropSide::kEgress), 0u);
  Settle();
}

}  // namespace
}  // namespace eoib
