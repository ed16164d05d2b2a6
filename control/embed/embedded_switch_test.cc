// Two embedded switches in one process, on an in-process software subnet. The tests are the
// programs around them.
#include "control/embed/embedded_switch.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "control/embed/embedded_switch_test_fixture.h"
#include "control/faulty_hca_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/sctp_for_test.h"

namespace eoib {
namespace {

using ::testing::HasSubstr;

TEST_F(EmbeddedSwitchTest, FramesPassInBothDirections) {
  BurstPort* const one = Add(Open("h1"), "p").value();
  BurstPort* const other = Add(Open("h2"), "p").value();
  ASSERT_TRUE(HasCarrier(one) && HasCarrier(other));
  EXPECT_EQ(4070u, one->State().mtu);
  EXPECT_TRUE(Arrives(one, other, MakeFrame(kB, kA)));
  EXPECT_TRUE(Arrives(other, one, MakeFrame(kA, kB, -1, 4074)));
  EXPECT_GE(one->Stats().sent, 1u);
  EXPECT_GE(one->Stats().received, 1u);
  EXPECT_THAT(switches_[0]->Command({"fdb/show"}).value(), HasSubstr(kB.ToString()));
}

TEST_F(EmbeddedSwitchTest, TwoVPortsOfOneProgramSwitchLocally) {
  EmbeddedSwitch* const both = Open("h1");
  BurstPort* const one = Add(both, "p1").value();
  BurstPort* const other = Add(both, "p2").value();
  ASSERT_TRUE(HasCarrier(one));
  EXPECT_TRUE(Arrives(one, other, MakeFrame(kB, kA)));
}

TEST_F(EmbeddedSwitchTest, AWaitingProgramWakesWhenAFrameComes) {
  BurstPort* const one = Add(Open("h1"), "p").value();
  BurstPort* const other = Add(Open("h2"), "p").value();
  ASSERT_TRUE(HasCarrier(one) && HasCarrier(other));
  ASSERT_TRUE(Arrives(one, other, MakeFrame(kB, kA)));
  ASSERT_TRUE(Until(
      [&] { return Receive(other).empty() && !other->Arm() && !Readable(other->wait_fd()); }));
  Send(one, MakeFrame(kB, kA));
  EXPECT_TRUE(Readable(other->wait_fd(), kPatience));
  EXPECT_TRUE(Until([&] { return Receive(other).size() == 1; }));
}

// An event loop arms its descriptors in every turn, also while frames come faster than it takes
// them.
TEST_F(EmbeddedSwitchTest, ArmingLeavesFramesInTheQueuePair) {
  BurstPort* const one = Add(Open("h1"), "p").value();
  BurstPort* const other = Add(Open("h2"), "p").value();
  ASSERT_TRUE(HasCarrier(one) && HasCarrier(other));
  ASSERT_TRUE(Arrives(one, other, MakeFrame(kB, kA)));
  EXPECT_TRUE(Until([&] {
    while (!Receive(other).empty()) {
    }
    const uint64_t before = other->Stats().received;
    for (int i = 0; i < 40; ++i) Send(one, MakeFrame(kB, kA));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(other->Arm());
    return other->Stats().received == before + 1;  // unless eoib-ctl took the others now
  })) << "it took more than the one that tells it that frames wait";
}

TEST_F(EmbeddedSwitchTest, FramesWaitForAProgramThatIsBusyAndAreCountedBeyondTheLimit) {
  BurstPort* const one = Add(Open("h1"), "p").value();
  BurstPort* const other = Add(Open("h2"), "p").value();
  ASSERT_TRUE(HasCarrier(one) && HasCarrier(other));
  ASSERT_TRUE(Arrives(one, other, MakeFrame(kB, kA)));
  while (!Receive(other).empty()) {
  }
  // Nothing is received meanwhile: eoib-ctl takes the frames.
  const eoib_stats before = other->Stats();
  size_t sent = 0;
  EXPECT_TRUE(Until([&] {
    Send(one, MakeFrame(kB, kA));
    ++sent;
    return other->Stats().missed > before.missed;
  })) << "missed nothing of "
      << sent;
  size_t kept = 0;
  for (size_t burst; (burst = Receive(other, 10).size()) != 0;) kept += burst;
  EXPECT_GE(kept, BurstPort::kBacklog);
}

TEST_F(EmbeddedSwitchTest, AFrameThatDoesNotFitIsMissed) {
  EmbeddedSwitch* const both = Open("h1");
  BurstPort* const one = Add(both, "p1").value();
  BurstPort* const other = Add(both, "p2").value();
  ASSERT_TRUE(HasCarrier(one));
  ASSERT_TRUE(Arrives(one, other, MakeFrame(kB, kA)));
  Send(one, MakeFrame(kB, kA, -1, 186));
  EXPECT_EQ(0u, Receive(other, 1, 100).size());
  EXPECT_EQ(1u, other->Stats().missed);
}

// A TCP segment of kB to kA over IPv4, with `payload` bytes, whose checksum field has the
// pseudo-header sum only.
Bytes UnfinishedTcp(size_t payload) {
  const size_t size = 40 + payload;
  Bytes frame = MakeFrame(kA, kB, -1, size, 0x0800);
  uint8_t* const ip = &frame[14];
  std::fill_n(ip, 40, uint8_t{0});
  ip[0] = 0x45, ip[2] = static_cast<uint8_t>(size >> 8), ip[3] = static_cast<uint8_t>(size),
  ip[6] = 0x40, ip[8] = 64, ip[9] = 6;
  ip[12] = ip[16] = 10, ip[15] = 1, ip[19] = 2;
  ip[32] = 0x50, ip[33] = 0x10;
  for (size_t i = 0; i < payload; ++i) ip[40 + i] = static_cast<uint8_t>(i * 7);
  WritePseudoHeaderSum(absl::MakeSpan(frame), FindL4(frame));
  return frame;
}

bool HasRightTcpChecksum(Bytes frame) {
  const ChecksumRequest request = {true, 34, 16};
  const Bytes before = frame;
  WritePseudoHeaderSum(absl::MakeSpan(frame), FindL4(frame));
  CompleteChecksum(absl::MakeSpan(frame), request);
  return frame == before;
}

void SendTcp(BurstPort* port, Bytes bytes, uint16_t segment_size) {
  iovec iov[] = {{bytes.data(), 30}, {bytes.data() + 30, bytes.size() - 30}};
  eoib_frame frame{};
  frame.iov = iov, frame.iov_count = 2, frame.length = static_cast<uint32_t>(bytes.size());
  frame.flags = EOIB_FRAME_CHECKSUM_NEEDED, frame.checksum_start = 34, frame.checksum_offset = 16;
  if (segment_size != 0) frame.segment_size = segment_size, frame.segment_type = EOIB_SEGMENT_TCP;
  EXPECT_EQ(1u, port->SendBurst({&frame, 1}));
}

TEST_F(EmbeddedSwitchTest, FinishesChecksumsAndCutsSuperFramesForAProgramThatTakesNeither) {
  BurstPort* const one = Add(Open("h1"), "p").value();
  BurstPort* const other = Add(Open("h2"), "p").value();
  ASSERT_TRUE(HasCarrier(one) && HasCarrier(other));
  ASSERT_TRUE(Arrives(one, other, MakeFrame(kB, kA)));
  ASSERT_TRUE(Arrives(other, one, MakeFrame(kA, kB)));
  std::vector<Bytes> received;
  const auto receive = [&](size_t count) {
    return Until([&] {
      for (Bytes& frame : Receive(one)) {
        if (frame[12] == 0x08) received.push_back(std::move(frame));
      }
      return received.size() >= count;
    });
  };
  SendTcp(other, UnfinishedTcp(1000), 0);
  ASSERT_TRUE(receive(1));
  EXPECT_TRUE(HasRightTcpChecksum(received[0]));
  received.clear();
  SendTcp(other, UnfinishedTcp(20000), 1000);
  ASSERT_TRUE(receive(20));
  for (const Bytes& frame : received)
    EXPECT_TRUE(frame.size() == 1054 && HasRightTcpChecksum(frame));
}

TEST_F(EmbeddedSwitchTest, ASuperFrameArrivesWholeAtAProgramThatTakesIt) {
  const BurstPort::Options takes = {.unfinished_checksums = true, .tcp_segments = true};
  BurstPort* const one = Add(Open("h1"), "p", "blue", 0x8001, takes).value();
  BurstPort* const other = Add(Open("h2"), "p", "blue", 0x8001, takes).value();
  ASSERT_TRUE(HasCarrier(one) && HasCarrier(other));
  ASSERT_TRUE(Arrives(one, other, MakeFrame(kB, kA)));
  ASSERT_TRUE(Arrives(other, one, MakeFrame(kA, kB)));
  // Until the peer has announced that it takes segments, the frame is cut.
  const Bytes sent = UnfinishedTcp(60000);
  EXPECT_TRUE(Until([&] {
    SendTcp(other, sent, 1400);
    Bytes memory(65536);
    iovec iov{memory.data(), memory.size()};
    eoib_frame frame{};
    frame.iov = &iov, frame.iov_count = 1;
    do {  // the segments of a frame that was cut
      if (one->ReceiveBurst({&frame, 1}) != 1) return false;
    } while (frame.length != sent.size());
    memory.resize(frame.length);
    EXPECT_EQ(EOIB_FRAME_CHECKSUM_NEEDED | EOIB_FRAME_CHECKSUM_GOOD, frame.flags);
    EXPECT_TRUE(frame.checksum_start == 34 && frame.checksum_offset == 16);
    EXPECT_TRUE(frame.segment_type == EOIB_SEGMENT_TCP && frame.segment_size == 1400);
    EXPECT_TRUE(memory == sent);
    return true;
  }));
}

TEST_F(EmbeddedSwitchTest, FinishesTheChecksumOfSctp) {
  BurstPort* const one = Add(Open("h1"), "p").value();
  BurstPort* const other = Add(Open("h2"), "p").value();
  ASSERT_TRUE(HasCarrier(one) && HasCarrier(other));
  ASSERT_TRUE(Arrives(one, other, MakeFrame(kB, kA)));
  for (const bool ipv6 : {false, true}) {
    ChecksumRequest request;
    const Bytes right = MakeSctpFrame({.ipv6 = ipv6, .payload = 500}, &request);
    Bytes bytes = right;
    std::fill_n(bytes.begin() + request.start + 8, 4, 0);
    iovec iov{bytes.data(), bytes.size()};
    eoib_frame frame{};
    frame.iov = &iov, frame.iov_count = 1, frame.length = static_cast<uint32_t>(bytes.size());
    frame.flags = EOIB_FRAME_CHECKSUM_NEEDED, frame.checksum_start = request.start,
    frame.checksum_offset = request.offset;
    ASSERT_EQ(1u, one->SendBurst({&frame, 1}));
    EXPECT_TRUE(Until([&] {
      const std::vector<Bytes> received = Receive(other);
      return std::find(received.begin(), received.end(), right) != received.end();
    }));
  }
}

TEST_F(EmbeddedSwitchTest, VPortsAndVesesComeAndGo) {
  EmbeddedSwitch* const host = Open("h1");
  for (int i = 0; i < 3; ++i) {
    BurstPort* const port = Add(host, "p").value();
    EXPECT_TRUE(HasCarrier(port));
    EXPECT_FALSE(Add(host, "p").ok());
    host->RemoveVPort("p");
    EXPECT_THAT(host->Command({"show"}).value(), testing::Not(HasSubstr("blue")));
  }
}

TEST_F(EmbeddedSwitchTest, RefusesAContradiction) {
  EmbeddedSwitch* const host = Open("h1");
  ASSERT_TRUE(Add(host, "p1").ok());
  EXPECT_THAT(
      std::string(Add(host, "p2", "blue", 0x8002).status().message()),
      HasSubstr("VES blue has P_Key 0x8001 at another vPort of this program; give both the same"));
  EXPECT_THAT(std::string(Add(host, "p2", "green", 0x8001).status().message()),
              HasSubstr("P_Key 0x8001 is that of VES blue of this program"));
  EXPECT_TRUE(Add(host, "p2", "red", 0x8002).ok());
}

// The port of the subnet can be used again only because Close frees what the lost one had.
TEST_F(EmbeddedSwitchTest, ALostHcaOpensAgainAfterClose) {
  BurstPort* const other = Add(Open("h2"), "p").value();
  FaultyHca* hca = nullptr;
  EmbeddedSwitch::Options options;
  options.open_hca = [this, &hca]() -> absl::StatusOr<std::unique_ptr<Hca>> {
    auto soft = softhca::OpenSoftHca(subnet_->Connect(), "h1");
    if (!soft.ok()) return soft.status();
    hca = new FaultyHca(*std::move(soft));
    return std::unique_ptr<Hca>(hca);
  };
  for (int i = 0; i < 2; ++i) {
    auto opened = EmbeddedSwitch::Open(options);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    EmbeddedSwitch* const host = opened->get();
    BurstPort* const port = Add(host, "p").value();
    EXPECT_TRUE(HasCarrier(port) && Arrives(port, other, MakeFrame(kB, kA)));
    EXPECT_FALSE(host->is_lost());
    hca->Raise(IBV_EVENT_DEVICE_FATAL);
    hca->Vanish();
    EXPECT_TRUE(Until([host] { return host->is_lost(); }));
    EXPECT_THAT(host->failure(), HasSubstr("soft:h1 reports that it is lost"));
    EXPECT_TRUE(Until([port] { return port->State().carrier == 0; }));
    EXPECT_FALSE(Add(host, "p2").ok());
    EmbeddedSwitch::Close(*std::move(opened));
  }
}

TEST_F(EmbeddedSwitchTest, AFailedCheckIsAnErrorOfThisSwitchOnly) {
  EmbeddedSwitch* const host = Open("h1");
  BurstPort* const other = Add(Open("h2"), "p").value();
  ASSERT_TRUE(Add(host, "p").ok());
  EXPECT_FALSE(host->Guard([] { EOIB_CHECK(1 == 2); }));
  ASSERT_NE(nullptr, host->failure());
  EXPECT_FALSE(host->is_lost());
  EXPECT_THAT(host->failure(), HasSubstr("check failed: 1 == 2"));
  EXPECT_FALSE(host->Guard([] { ADD_FAILURE() << "a failed switch does nothing"; }));
  EXPECT_THAT(std::string(host->Command({"show"}).status().message()), HasSubstr("check failed"));
  EXPECT_FALSE(Add(host, "p2").ok());
  host->RemoveVPort("p");
  EXPECT_TRUE(HasCarrier(other));
  (void)subnet_.release();  // what has failed is leaked, and refers to it
}

}  // namespace
}  // namespace eoib
