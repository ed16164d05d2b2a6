// perftest on our HCA. It waits for every datagram, so none may be lost. Also rdma_cm, which is not
// supported.
#include <string>

#include "vswitch/fabric/softhca/preload/strangers_test_fixture.h"

namespace eoib::softhca {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr int kIterations = 1000;

class StrangersPerftestTest : public StrangersTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(access("/usr/bin/ib_send_bw", X_OK), 0)
        << "this test needs ib_send_bw: apt-get install perftest";
    StrangersTest::SetUp();
  }

  // A row of results for each size, at both ends.
  static void ExpectRows(const Pair& pair, const std::vector<int>& sizes,
                         int iterations = kIterations) {
    for (const std::string& output : {pair.client, pair.server}) {
      for (const int size : sizes) {
        EXPECT_THAT(output, ContainsRegex(absl::StrCat("\n ", size, " +", iterations, " +[0-9.]+")))
            << size;
      }
    }
  }
  // Every datagram was delivered, and no sender discarded any.
  void ExpectNoLosses() const {
    for (const char* name : {"server", "client"}) {
      const SoftPortCounters counters = subnet_.CountersOf(name).value();
      EXPECT_EQ(counters.xmit_discards, 0u) << name;
      EXPECT_EQ(counters.rcv_delivered, counters.rcv_packets) << name;
    }
  }
  static std::vector<int> AllSizes() {
    std::vector<int> sizes;
    for (int size = 2; size <= 4096; size *= 2) sizes.push_back(size);
    return sizes;
  }
};

TEST_F(StrangersPerftestTest, BandwidthAtAllSizes) {
  ExpectRows(RunPair({"ib_send_bw", "-c", "UD", "-a"}), AllSizes());
  ExpectNoLosses();
  EXPECT_EQ(subnet_.CountersOf("server")->rcv_delivered, AllSizes().size() * kIterations);
}

TEST_F(StrangersPerftestTest, LatencyAtAllSizes) {
  // -C: print cycles; otherwise it measures the processor's frequency for each size.
  ExpectRows(RunPair({"ib_send_lat", "-c", "UD", "-a", "-C", "-n", "100"}), AllSizes(), 100);
  ExpectNoLosses();
}

TEST_F(StrangersPerftestTest, BandwidthWithEvents) {
  ExpectRows(RunPair({"ib_send_bw", "-c", "UD", "-e"}), {4096});
  ExpectNoLosses();
}

TEST_F(StrangersPerftestTest, BandwidthInBothDirections) {
  ExpectRows(RunPair({"ib_send_bw", "-c", "UD", "-b", "-s", "2048"}), {2048});
  ExpectNoLosses();
}

TEST_F(StrangersPerftestTest, LatencyOfInlineData) {
  ExpectRows(RunPair({"ib_send_lat", "-c", "UD", "-I", "200", "-C", "-s", "200", "-n", "100"}),
             {200}, 100);
  ExpectNoLosses();
}

// The program joins through libibumad, beside its own queue pairs. The sender also receives its own
// datagrams and never polls them.
TEST_F(StrangersPerftestTest, BandwidthToAGroupAndTheGroupEnds) {
  const char kMgid[] = "255:18:224:27:255:255:0:0:0:0:0:0:0:0:0:1";
  ExpectRows(RunPair({"ib_send_bw", "-c", "UD", "-g", "-M", kMgid}), {4096});
  EXPECT_EQ(subnet_.CountersOf("client")->xmit_multicast_packets, uint64_t{kIterations});
  EXPECT_EQ(subnet_.CountersOf("server")->rcv_delivered, uint64_t{kIterations});
  EXPECT_TRUE(subnet_.Groups().empty()) << "they left it";
}

TEST_F(StrangersPerftestTest, RdmaCmIsNotSupportedAndSaysSo) {
  ASSERT_EQ(access("/usr/bin/rping", X_OK), 0)
      << "this test needs rping: apt-get install rdmacm-utils";
  const char* const kCommands[] = {
      "ib_send_bw -R",     "rping -s -a 127.0.0.1",    "rping -c -a 127.0.0.1",
      "rdma_server",       "rdma_client -s 127.0.0.1", "udaddy",
      "mckey -m 224.1.1.1"};
  for (const char* command : kCommands)
    EXPECT_THAT(RunInVain("host1", command), HasSubstr("rdma_cm is not supported")) << command;
}

}  // namespace
}  // namespace eoib::softhca
