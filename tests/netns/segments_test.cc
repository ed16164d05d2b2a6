// Super-frames and jumbo frames: in segments between agents that announced them, cut for the
// others.
#include <netinet/udp.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/sockets.h"
#include "tests/lab/switch_test.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;

constexpr size_t kTransfer = 16 << 20;

std::string Transfer(Host* from, Host* to, const std::string& address, size_t bytes = kTransfer) {
  UniqueFd listener = TcpListener(to, address, 5000);
  UniqueFd client = TcpConnect(from, address, 5000);
  UniqueFd server = TcpAccept(listener.get());
  return TcpTransfer(client.get(), server.get(), bytes);
}

uint64_t ChecksumErrorsOf(Host* host) {
  return host->Counter("Udp", "InCsumErrors") + host->Counter("Tcp", "InCsumErrors") +
         host->Counter("", "Udp6InCsumErrors");
}

// The counts of an agent since its creation.
class Since {
 public:
  explicit Since(Agent* agent) : agent_(agent), before_(agent->Stats()["red"]) {}
  uint64_t operator()(const std::string& counter) const {
    return agent_->Stat(counter) - before_.at(counter);
  }

 private:
  Agent* const agent_;
  Counters before_;
};

class SegmentsTest : public SwitchTest {
 protected:
  void AddTwo(const AgentSpec& one = {}, const AgentSpec& two = {}) {
    one_ = &AddAgent("h1", one, {.ipv6 = true});
    two_ = &AddAgent("h2", two, {.ipv6 = true});
    for (int i = 1; i <= 2; ++i) {
      host(i)->AddAddress("v1", absl::StrCat(Address(i), "/24"));
      host(i)->AddAddress("v1", absl::StrCat(Address6(i), "/64"));
    }
    WaitUntilAllReceive({{one_->host()}, {two_->host()}});
  }
  // An agent hears a moment after another one is ready what that accepts.
  void AwaitSegments(Agent* from, Agent* to, const std::string& address) {
    const auto sends = [&] {
      EXPECT_EQ(Transfer(from->host(), to->host(), address, 1 << 20), "");
      return from->Stat("segments_sent") > 0;
    };
    ASSERT_TRUE(EventuallyTrue(kPatience, sends)) << from->MustCtl({"show"});
  }
  void AwaitSegments() {
    AwaitSegments(one_, two_, Address(2));
    AwaitSegments(two_, one_, Address(1));
  }
  // Sends from `from` to `to`, and expects that super-frames pass.
  void ExpectSuperFrames(Agent* from, Agent* to, const std::string& address) {
    const Since sent(from), received(to);
    EXPECT_EQ(Transfer(from->host(), to->host(), address), "");
    EXPECT_LT(sent("from_ports"), kTransfer / 8192) << "the kernel did not hand over super-frames";
    EXPECT_GT(sent("segments_sent"), kTransfer / 8192);
    EXPECT_GT(received("segments_received"), kTransfer / 8192);
    EXPECT_EQ(sent("segmented"), 0u);
    EXPECT_EQ(ChecksumErrorsOf(to->host()), 0u);
  }

  Agent* one_ = nullptr;
  Agent* two_ = nullptr;
};

TEST_F(SegmentsTest, TcpPassesInSuperFramesBothWays) {
  AddTwo();
  AwaitSegments();
  ExpectSuperFrames(one_, two_, Address(2));
  ExpectSuperFrames(two_, one_, Address(1));
  ExpectSuperFrames(one_, two_, Address6(2));
  ExpectSuperFrames(two_, one_, Address6(1));
}

TEST_F(SegmentsTest, AnInnerMtuOf1500) {
  AgentSpec spec;
  spec.vports[0].more = "mtu = 1500\n";
  AddTwo(spec, spec);
  AwaitSegments();
  ExpectSuperFrames(one_, two_, Address(2));
}

TEST_F(SegmentsTest, AccessVlan) {
  AgentSpec spec;
  spec.vports[0].more = "access_vlan = 10\n";
  AddTwo(spec, spec);
  AwaitSegments();
  ExpectSuperFrames(one_, two_, Address(2));
}

TEST_F(SegmentsTest, UdpSuperFrames) {
  AddTwo();
  AwaitSegments();
  for (const bool ipv6 : {false, true}) {
    UniqueFd receiver = UdpSocket(two_->host(), ipv6 ? Address6(2) : Address(2), 4000);
    UniqueFd sender = UdpSocket(one_->host(), ipv6 ? Address6(1) : Address(1), 0);
    SetOption(receiver.get(), SOL_SOCKET, SO_RCVBUF, int{1 << 20}, "set SO_RCVBUF");
    SetOption(sender.get(), SOL_UDP, UDP_SEGMENT, int{1000}, "set UDP_SEGMENT");
    Bytes payload(30'500);
    for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<uint8_t>(i * 7 + i / 1000);
    SendUdp(sender.get(), ipv6 ? Address6(2) : Address(2), 4000, payload);
    for (size_t at = 0; at < payload.size(); at += 1000) {
      const size_t size = std::min<size_t>(1000, payload.size() - at);
      const auto from = payload.begin() + static_cast<ptrdiff_t>(at);
      EXPECT_EQ(ReceiveUdp(receiver.get()),
                absl::optional<Bytes>(Bytes(from, from + static_cast<ptrdiff_t>(size))))
          << at;
    }
  }
  EXPECT_EQ(ChecksumErrorsOf(two_->host()), 0u);
}

TEST_F(SegmentsTest, APeerThatAnnouncesNothingGetsNone) {
  AgentSpec silent;
  silent.veses[0].more = "announce = false\n";
  AddTwo({}, silent);
  for (const std::string& to : {Address(2), Address6(2)})
    EXPECT_EQ(Transfer(one_->host(), two_->host(), to), "");
  EXPECT_EQ(Transfer(two_->host(), one_->host(), Address(1)), "");
  EXPECT_GT(one_->Stat("segmented"), 0u);
  EXPECT_EQ(one_->Stat("segments_sent"), 0u);
  EXPECT_EQ(two_->Stat("segments_received"), 0u);
  EXPECT_EQ(two_->Stat("segmented"), 0u) << "its kernel cuts them";
  EXPECT_EQ(ChecksumErrorsOf(one_->host()) + ChecksumErrorsOf(two_->host()), 0u);
}

TEST_F(SegmentsTest, JumboFramesBetweenAgents) {
  AgentSpec spec;
  spec.vports[0].more = "mtu = 9000\n";
  AddTwo(spec, spec);
  AwaitSegments();
  EXPECT_THAT(one_->host()->MustIp("-o link show dev v1"), HasSubstr("mtu 9000 "));
  const Since sent(one_);
  EXPECT_THAT(one_->host()->MustRun(
                  {"ping", "-c", "3", "-i", "0.05", "-M", "do", "-s", "8972", Address(2)}),
              HasSubstr(" 0% "));
  UniqueFd receiver = UdpSocket(two_->host(), Address(2), 4000);
  UniqueFd sender = UdpSocket(one_->host(), Address(1), 0);
  Bytes payload(8972, 0x5a);
  SendUdp(sender.get(), Address(2), 4000, payload);
  EXPECT_EQ(ReceiveUdp(receiver.get()), absl::optional<Bytes>(payload));
  EXPECT_GE(sent("segments_sent"), 4u * 3);
  ExpectSuperFrames(one_, two_, Address(2));
}

TEST_F(SegmentsTest, JumboFramesToAPeerThatAnnouncesNothing) {
  AgentSpec spec, silent;
  spec.vports[0].more = silent.vports[0].more = "mtu = 9000\n";
  silent.veses[0].more = "announce = false\n";
  AddTwo(spec, silent);
  EXPECT_THAT(two_->host()->MustIp("-o link show dev v1"), HasSubstr("mtu 4070 "))
      << "it sends no segments";
  EXPECT_EQ(Transfer(one_->host(), two_->host(), Address(2)), "");
  EXPECT_FALSE(
      one_->host()->Run({"ping", "-c", "1", "-W", "1", "-M", "do", "-s", "8972", Address(2)}).ok());
  EXPECT_GE(one_->Drop("not_segmentable"), 1u);
}

class SoftSegmentsTest : public SegmentsTest {};

TEST_F(SoftSegmentsTest, TcpSurvivesLossReorderingAndDuplication) {
  AddTwo();
  AwaitSegments();
  const RunResult fault = soft_fabric().Ctl(
      {"fault", "*", "*", "loss", "10000", "reorder", "5000", "duplicate", "5000", "seed", "5"});
  ASSERT_TRUE(fault.ok()) << fault.ToString();
  const auto lossy = [&] {
    EXPECT_EQ(Transfer(one_->host(), two_->host(), Address(2), 2 << 20), "");
    return two_->Drop("reassembly") > 0;
  };
  EXPECT_TRUE(EventuallyTrue(kPatience, lossy));
  ASSERT_TRUE(soft_fabric().Ctl({"fault/clear"}).ok());
  EXPECT_EQ(ChecksumErrorsOf(two_->host()), 0u);
}

}  // namespace
}  // namespace eoib::lab
