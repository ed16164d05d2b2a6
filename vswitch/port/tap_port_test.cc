// TAPs in a separate network namespace.
#include "vswitch/port/tap_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/allocation_counter_for_test.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/port/own_namespace_for_test.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/frame_for_test.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib {
namespace {

using ::testing::HasSubstr;

const auto* const kOwnNamespace = testing::AddGlobalTestEnvironment(new OwnNamespace);

const MacAddr kMac = MacAddr::FromUint64(0x02'00'5e'10'00'01);
const MacAddr kOther = MacAddr::FromUint64(0x02'00'5e'10'00'02);
constexpr size_t kFrameSize = 2044;

Bytes MakeFrame(size_t payload, bool tagged = false) {
  return MakeFrame(kMac, kOther, tagged ? 10 : -1, payload);
}

class TapPortTest : public testing::Test {
 protected:
  void SetUp() override {
    pool_ = BufferPool::Create(&hca_, pd_, 16, kFrameSize).value();
    port_ = TapPort::Open({.name = "tap0", .mac = kMac, .mtu = 2022}).value();
    ASSERT_TRUE(port_->SetLinkUp(true).ok());
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL));
    ASSERT_GE(fd, 0);
    socket_.reset(fd);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex("tap0"));
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_TRUE(AwaitKernel());
  }

  void TearDown() override {
    port_.reset();
    Delete("tap0");
  }
  // A netdev outlives its port.
  static void Delete(const std::string& name) {
    if (if_nametoindex(name.c_str()) == 0) return;
    EXPECT_EQ(system(("ip link delete " + name).c_str()), 0);
  }

  // The kernel notices asynchronously that the carrier is on, and drops frames until then. Frames
  // with another EtherType than the tests' probe for that moment.
  bool AwaitKernel() {
    Bytes probe = MakeFrame(50);
    probe[kMacsSize + 1] = 0xb5;
    for (int tries = 0; tries < 1000; ++tries) {
      KernelSends(probe);
      pollfd waiting{port_->receive_fd(), POLLIN, 0};
      poll(&waiting, 1, 10);
      bool came = false;
      Frame frame;
      PortReceiveCounts counts;
      while (port_->Receive(pool_.get(), kFrameSize, absl::MakeSpan(&frame, 1), &counts) == 1) {
        came |= frame.data[kMacsSize + 1] == 0xb5;
        pool_->Free(frame.buffer);
      }
      if (came) return true;
    }
    return false;
  }
  void KernelSends(const Bytes& frame) {
    ASSERT_EQ(send(socket_.get(), frame.data(), frame.size(), 0),
              static_cast<ssize_t>(frame.size()));
  }
  // Polls the port until a frame of the tests' EtherType was taken or refused.
  size_t Receive(Frame* frame, PortReceiveCounts* counts) {
    for (int tries = 0; tries < 100; ++tries) {
      pollfd waiting{port_->receive_fd(), POLLIN, 0};
      poll(&waiting, 1, 100);
      Frame frames[4];
      const size_t received =
          port_->Receive(pool_.get(), kFrameSize, absl::MakeSpan(frames, 1), counts);
      if (received == 1 && (frames[0].data[12] != 0x88 || frames[0].data[13] != 0xb6)) {
        pool_->Free(frames[0].buffer);  // from the kernel itself, such as IPv6
        continue;
      }
      if (received != 0) *frame = frames[0];
      if (received != 0 || counts->too_large != 0) return received;
    }
    return 0;
  }
  Bytes KernelReceives() {
    for (int tries = 0; tries < 100; ++tries) {
      pollfd waiting{socket_.get(), POLLIN, 0};
      poll(&waiting, 1, 100);
      Bytes frame(4096);
      sockaddr_ll from{};
      socklen_t from_size = sizeof(from);
      const ssize_t size = recvfrom(socket_.get(), frame.data(), frame.size(), 0,
                                    reinterpret_cast<sockaddr*>(&from), &from_size);
      if (size < 0 || from.sll_pkttype == PACKET_OUTGOING) continue;
      frame.resize(static_cast<size_t>(size));
      return frame;
    }
    return {};
  }
  // A frame in a buffer, as the forwarder has it.
  Frame InBuffer(const Bytes& bytes) {
    const BufferId buffer = pool_->Allocate();
    std::copy(bytes.begin(), bytes.end(), pool_->Frame(buffer));
    return {buffer, pool_->Frame(buffer), static_cast<uint32_t>(bytes.size()), {}};
  }

  FakeHca hca_;
  ibv_pd* const pd_ = hca_.pd();
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<TapPort> port_;
  UniqueFd socket_;
};

TEST_F(TapPortTest, FramesPassBothWaysUnchanged) {
  KernelSends(MakeFrame(100));
  Frame frame;
  PortReceiveCounts counts;
  ASSERT_EQ(Receive(&frame, &counts), 1u);
  EXPECT_EQ(Bytes(frame.data, frame.data + frame.length), MakeFrame(100));
  EXPECT_FALSE(frame.checksum.needed);
  EXPECT_EQ(port_->Transmit(frame, false), DropReason::kNone);
  EXPECT_EQ(KernelReceives(), MakeFrame(100));
  pool_->Free(frame.buffer);
}

TEST_F(TapPortTest, AStrippedTagIsLeftOutAndTheFrameIsNotChanged) {
  const Bytes tagged = MakeFrame(100, /*tagged=*/true);
  const Frame frame = InBuffer(tagged);
  EXPECT_EQ(port_->Transmit(frame, true), DropReason::kNone);
  EXPECT_EQ(KernelReceives(), MakeFrame(100));
  EXPECT_EQ(Bytes(frame.data, frame.data + frame.length), tagged);
  pool_->Free(frame.buffer);
}

TEST_F(TapPortTest, AFrameLargerThanTheBuffersIsRefusedWhole) {
  ASSERT_TRUE(port_->SetMtu(4000).ok());
  KernelSends(MakeFrame(3000));
  Frame frame;
  PortReceiveCounts counts;
  EXPECT_EQ(Receive(&frame, &counts), 0u);
  EXPECT_EQ(counts.too_large, 1u);
  EXPECT_EQ(pool_->count(BufferPool::State::kFree), pool_->size());
  KernelSends(MakeFrame(10));
  counts = {};
  ASSERT_EQ(Receive(&frame, &counts), 1u) << "the rest of the large frame is not taken for another";
  EXPECT_EQ(frame.length, MakeFrame(10).size());
  pool_->Free(frame.buffer);
}

TEST_F(TapPortTest, OneByteTooManyIsSeen) {
  ASSERT_TRUE(port_->SetMtu(2100).ok());
  Frame frame;
  PortReceiveCounts counts;
  KernelSends(MakeFrame(kFrameSize - 14));
  ASSERT_EQ(Receive(&frame, &counts), 1u);
  EXPECT_EQ(frame.length, kFrameSize);
  pool_->Free(frame.buffer);
  KernelSends(MakeFrame(kFrameSize - 13));
  EXPECT_EQ(Receive(&frame, &counts), 0u);
  EXPECT_EQ(counts.too_large, 1u);
}

TEST_F(TapPortTest, PacketsOfTheFullMtuPassBehindTwoTags) {
  ASSERT_TRUE(port_->SetMtu(1000).ok());
  const Bytes two_tags = MakeFrame(1008);  // as long as such a frame
  const Frame frame = InBuffer(two_tags);
  EXPECT_EQ(port_->Transmit(frame, false), DropReason::kNone);
  EXPECT_EQ(KernelReceives(), two_tags);
  Bytes with_access_tag = two_tags;
  const Bytes access = {0x81, 0x00, 0x00, 0x0a};
  with_access_tag.insert(with_access_tag.begin() + 12, access.begin(), access.end());
  const Frame tagged = InBuffer(with_access_tag);
  EXPECT_EQ(port_->Transmit(tagged, false), DropReason::kPortTooLarge);
  EXPECT_EQ(port_->Transmit(tagged, true), DropReason::kNone)
      << "without the VLAN's own tag it fits";
  EXPECT_EQ(KernelReceives(), two_tags);
  for (const Frame& each : {frame, tagged}) pool_->Free(each.buffer);
}

TEST_F(TapPortTest, FramesThatTheNetdevRefusesAreReported) {
  ASSERT_TRUE(port_->SetMtu(1000).ok());
  const Frame large = InBuffer(MakeFrame(1009));
  EXPECT_EQ(port_->Transmit(large, false), DropReason::kPortTooLarge);
  pool_->Free(large.buffer);
  ifreq request{};
  strcpy(request.ifr_name, "tap0");
  const UniqueFd control(socket(AF_INET, SOCK_DGRAM, 0));
  ASSERT_EQ(ioctl(control.get(), SIOCSIFFLAGS, &request), 0);  // down
  const Frame frame = InBuffer(MakeFrame(50));
  EXPECT_EQ(port_->Transmit(frame, false), DropReason::kPortDown);
  pool_->Free(frame.buffer);
}

TEST_F(TapPortTest, UnfinishedChecksumsPassBothWays) {
  // Datagrams of a UDP socket: with TUN_F_CSUM they arrive with an unfinished checksum.
  ifreq request{};
  strcpy(request.ifr_name, "tap0");
  const UniqueFd udp(socket(AF_INET, SOCK_DGRAM, 0));
  auto* address = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
  address->sin_family = AF_INET;
  inet_pton(AF_INET, "10.99.0.1", &address->sin_addr);
  ASSERT_EQ(ioctl(udp.get(), SIOCSIFADDR, &request), 0);
  address->sin_addr.s_addr = htonl(0xffffff00);
  ASSERT_EQ(ioctl(udp.get(), SIOCSIFNETMASK, &request), 0);
  int yes = 1;
  setsockopt(udp.get(), SOL_SOCKET, SO_BROADCAST, &yes, sizeof(yes));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);
  inet_pton(AF_INET, "10.99.0.255", &to.sin_addr);
  ASSERT_EQ(sendto(udp.get(), "hello", 5, 0, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 5);
  for (int tries = 0; tries < 100; ++tries) {
    pollfd waiting{port_->receive_fd(), POLLIN, 0};
    poll(&waiting, 1, 100);
    Frame frame;
    PortReceiveCounts counts;
    if (port_->Receive(pool_.get(), kFrameSize, absl::MakeSpan(&frame, 1), &counts) == 0) continue;
    const bool udp_frame = frame.data[12] == 0x08 && frame.data[13] == 0x00 && frame.data[23] == 17;
    pool_->Free(frame.buffer);
    if (!udp_frame) continue;
    EXPECT_EQ(frame.checksum, (ChecksumRequest{true, 34, 6}));
    return;
  }
  FAIL() << "no UDP frame came";
}

TEST_F(TapPortTest, AnEmptyPoolLeavesFramesInTheKernel) {
  std::vector<BufferId> taken;
  for (BufferId buffer = pool_->Allocate(); !buffer.IsNone(); buffer = pool_->Allocate())
    taken.push_back(buffer);
  KernelSends(MakeFrame(100));
  Frame frame;
  PortReceiveCounts counts;
  EXPECT_EQ(port_->Receive(pool_.get(), kFrameSize, absl::MakeSpan(&frame, 1), &counts), 0u);
  for (BufferId buffer : taken) pool_->Free(buffer);
  EXPECT_EQ(Receive(&frame, &counts), 1u);
  pool_->Free(frame.buffer);
}

TEST_F(TapPortTest, NameMacAndMtuAreAsConfigured) {
  const UniqueFd control(socket(AF_INET, SOCK_DGRAM, 0));
  ifreq request{};
  strcpy(request.ifr_name, "tap0");
  ASSERT_EQ(ioctl(control.get(), SIOCGIFHWADDR, &request), 0);
  EXPECT_EQ(MacAddr::FromWire(request.ifr_hwaddr.sa_data), kMac);
  ASSERT_EQ(ioctl(control.get(), SIOCGIFMTU, &request), 0);
  EXPECT_EQ(request.ifr_mtu, 2022);
}

TEST_F(TapPortTest, ErrorsSayWhatToDo) {
  EXPECT_THAT(std::string(TapPort::Open({.name = "tap0", .mac = kMac}).status().message()),
              HasSubstr("another process has it open"));
  EXPECT_THAT(
      std::string(
          TapPort::Open({.name = "a-name-that-is-too-long", .mac = kMac}).status().message()),
      HasSubstr("1 to 15 bytes"));
  EXPECT_THAT(std::string(TapPort::Open({.name = "tap%d", .mac = kMac}).status().message()),
              HasSubstr("is not a netdev name"));
  const auto with_alias = [](size_t length) {
    return TapPort::Open({.name = "tap1", .mac = kMac, .alias = std::string(length, 'a')}).status();
  };
  EXPECT_THAT(std::string(with_alias(255).message()),
              HasSubstr(" has 255 bytes, and an alias has at most 254; use a shorter"));
  EXPECT_EQ(if_nametoindex("tap1"), 0u);
  EXPECT_TRUE(with_alias(254).ok());
  Delete("tap1");
}

bool HasCarrier(const char* netdev) {
  ethtool_value link{ETHTOOL_GLINK, 0};
  ifreq request{};
  strcpy(request.ifr_name, netdev);
  request.ifr_data = reinterpret_cast<char*>(&link);
  const UniqueFd control(socket(AF_INET, SOCK_DGRAM, 0));
  EXPECT_EQ(ioctl(control.get(), SIOCETHTOOL, &request), 0);
  return link.data != 0;
}

TEST_F(TapPortTest, TheCarrierIsOffUntilTheLinkIsUp) {
  const auto other = TapPort::Open({.name = "tap1", .mac = kOther}).value();
  EXPECT_FALSE(HasCarrier("tap1"));
  for (const bool up : {true, false, true}) {
    ASSERT_TRUE(other->SetLinkUp(up).ok());
    EXPECT_EQ(HasCarrier("tap1"), up);
  }
  Delete("tap1");
}

TEST_F(TapPortTest, TheNetdevStaysWithoutCarrier) {
  port_.reset();
  EXPECT_NE(if_nametoindex("tap0"), 0u);
  EXPECT_FALSE(HasCarrier("tap0"));
}

TEST_F(TapPortTest, ADeletedNetdevIsMadeAgain) {
  EXPECT_FALSE(port_->IsDeleted());
  const int fd = port_->receive_fd();
  Delete("tap0");
  EXPECT_TRUE(port_->IsDeleted());
  ASSERT_TRUE(port_->Remake().ok());
  EXPECT_FALSE(port_->IsDeleted());
  EXPECT_EQ(port_->receive_fd(), fd);
  ASSERT_TRUE(port_->SetLinkUp(true).ok());
  EXPECT_TRUE(HasCarrier("tap0"));
}

// A datagram with a checksum request reaches a socket. The kernel would drop it if the sum were
// wrong, so the request, shifted by the stripped tag, was right.
TEST_F(TapPortTest, AnUnfinishedChecksumBehindAStrippedTagIsTakenByASocket) {
  const UniqueFd udp(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
  ifreq request{};
  strcpy(request.ifr_name, "tap0");
  auto* own = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
  own->sin_family = AF_INET;
  inet_pton(AF_INET, "10.99.0.1", &own->sin_addr);
  ASSERT_EQ(ioctl(udp.get(), SIOCSIFADDR, &request), 0);
  own->sin_port = htons(4000);
  ASSERT_EQ(bind(udp.get(), reinterpret_cast<sockaddr*>(own), sizeof(*own)), 0);
  Bytes bytes(kMacsSize);
  kMac.ToWire(&bytes[0]);
  kOther.ToWire(&bytes[6]);
  const uint8_t rest[] = {
      0x81, 0x00, 0,    10,   0x08, 0x00,                                   // tag, IPv4
      0x45, 0,    0,    30,   0,    0,    0,    0,    64,  17, 0x00, 0x00,  // length 30, UDP
      10,   99,   0,    2,    10,   99,   0,    1,                // 10.99.0.2 -> 10.99.0.1
      0x0f, 0xa0, 0x0f, 0xa0, 0,    10,   0x00, 0x00, 'h', 'i'};  // 4000 -> 4000, length 10
  bytes.insert(bytes.end(), std::begin(rest), std::end(rest));
  const uint16_t header_sum =
      static_cast<uint16_t>(~OnesComplementSum(absl::MakeSpan(bytes).subspan(18, 20)));
  bytes[28] = static_cast<uint8_t>(header_sum >> 8), bytes[29] = static_cast<uint8_t>(header_sum);
  const uint16_t pseudo_sum = OnesComplementSum(absl::MakeSpan(bytes).subspan(30, 8), 17 + 10);
  bytes[44] = static_cast<uint8_t>(pseudo_sum >> 8), bytes[45] = static_cast<uint8_t>(pseudo_sum);
  Frame frame = InBuffer(bytes);
  const auto datagram_arrives = [&] {
    EXPECT_EQ(port_->Transmit(frame, /*strip_tag=*/true), DropReason::kNone);
    pollfd waiting{udp.get(), POLLIN, 0};
    poll(&waiting, 1, frame.checksum.needed ? 5000 : 100);
    char text[8] = {};
    return recv(udp.get(), text, sizeof(text), 0) == 2 && std::string(text) == "hi";
  };
  EXPECT_FALSE(datagram_arrives()) << "without the request its sum is wrong";
  frame.checksum = {true, 38, 6};
  EXPECT_TRUE(datagram_arrives());
  pool_->Free(frame.buffer);
}

// An IPv4 TCP segment with 100 bytes of data and a prepared checksum, as the forwarder hands it
// over.
Bytes MakeSegment(uint32_t sequence) {
  Bytes frame = MakeFrame(0);
  frame[12] = 0x08, frame[13] = 0x00;
  const uint8_t ip[] = {0x45, 0, 0, 140, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1};
  frame.insert(frame.end(), std::begin(ip), std::end(ip));
  const uint16_t sum = static_cast<uint16_t>(~OnesComplementSum({&frame[14], 20}));
  frame[24] = static_cast<uint8_t>(sum >> 8), frame[25] = static_cast<uint8_t>(sum);
  const uint8_t tcp[] = {0x12,
                         0x34,
                         0,
                         80,
                         0,
                         0,
                         static_cast<uint8_t>(sequence >> 8),
                         static_cast<uint8_t>(sequence),
                         0,
                         0,
                         0,
                         1,
                         0x50,
                         0x10,
                         1,
                         0,
                         0,
                         0,
                         0,
                         0};
  frame.insert(frame.end(), std::begin(tcp), std::end(tcp));
  for (int i = 0; i < 100; ++i)
    frame.push_back(static_cast<uint8_t>(sequence + static_cast<uint32_t>(i)));
  AcceptChecksum(absl::MakeSpan(frame), L4Checksum::kTcpOk);
  return frame;
}

TEST_F(TapPortTest, SegmentsOfABatchArriveAsOneFrameInOrder) {
  for (const uint32_t sequence : {0u, 100u, 200u}) {
    Frame frame = InBuffer(MakeSegment(sequence));
    frame.checksum = {true, 34, 16};
    EXPECT_EQ(port_->Transmit(frame, false), DropReason::kNone);
    pool_->Free(frame.buffer);
  }
  const Frame other = InBuffer(MakeFrame(50));
  EXPECT_EQ(port_->Transmit(other, false), DropReason::kNone);  // comes after the held-back frames
  pool_->Free(other.buffer);
  DropReason reason;
  EXPECT_EQ(port_->Flush(&reason), 0u);
  const Bytes joined = KernelReceives();
  ASSERT_EQ(joined.size(), 14u + 40 + 300);
  for (uint32_t i = 0; i < 300; ++i)
    EXPECT_EQ(joined[54 + i], static_cast<uint8_t>(i / 100 * 100 + i % 100)) << i;
  EXPECT_EQ(KernelReceives(), MakeFrame(50));
}

// Each worker joins its own frames, and the TAP's limit holds for all.
TEST_F(TapPortTest, AnotherQueueWritesByItself) {
  const std::unique_ptr<Port> queue = port_->MakeQueue();
  Frame segment = InBuffer(MakeSegment(0));
  segment.checksum = {true, 34, 16};
  EXPECT_EQ(port_->Transmit(segment, false), DropReason::kNone);  // held back
  const Frame frame = InBuffer(MakeFrame(50));
  EXPECT_EQ(queue->Transmit(frame, false), DropReason::kNone);
  EXPECT_EQ(KernelReceives(), MakeFrame(50));
  EXPECT_EQ(queue->Transmit(segment, false), DropReason::kNone);
  DropReason reason;
  for (Port* port : {queue.get(), static_cast<Port*>(port_.get())}) {
    EXPECT_EQ(port->Flush(&reason), 0u);
    EXPECT_EQ(KernelReceives().size(), 14u + 40 + 100) << "joined with nothing";
  }
  ASSERT_TRUE(port_->SetMtu(1000).ok());
  const Frame large = InBuffer(MakeFrame(1009));
  EXPECT_EQ(queue->Transmit(large, false), DropReason::kPortTooLarge);
  for (const Frame& each : {segment, frame, large}) pool_->Free(each.buffer);
}

TEST_F(TapPortTest, LostJoinedFramesAreReported) {
  ifreq request{};
  strcpy(request.ifr_name, "tap0");
  const UniqueFd control(socket(AF_INET, SOCK_DGRAM, 0));
  ASSERT_EQ(ioctl(control.get(), SIOCSIFFLAGS, &request), 0);  // down
  for (const uint32_t sequence : {0u, 100u}) {
    Frame frame = InBuffer(MakeSegment(sequence));
    frame.checksum = {true, 34, 16};
    EXPECT_EQ(port_->Transmit(frame, false), DropReason::kNone);
    pool_->Free(frame.buffer);
  }
  DropReason reason;
  EXPECT_EQ(port_->Flush(&reason), 2u);
  EXPECT_EQ(reason, DropReason::kPortDown);
  EXPECT_EQ(port_->Flush(&reason), 0u);
}

TEST_F(TapPortTest, NothingIsAllocated) {
  Frame segment = InBuffer(MakeSegment(0));
  segment.checksum = {true, 34, 16};
  const Frame tagged = InBuffer(MakeFrame(100, /*tagged=*/true));
  KernelSends(MakeFrame(100));
  counting_allocations = true;
  allocations = 0;
  DropReason reason;
  for (int i = 0; i < 10; ++i) {
    port_->Transmit(segment, false);
    port_->Transmit(tagged, true);
    port_->Flush(&reason);
  }
  Frame received[4];
  PortReceiveCounts counts;
  const size_t count = port_->Receive(pool_.get(), kFrameSize, absl::MakeSpan(received), &counts);
  counting_allocations = false;
  EXPECT_EQ(allocations, 0u);
  EXPECT_GE(count, 1u);
  for (size_t i = 0; i < count; ++i) pool_->Free(received[i].buffer);
  pool_->Free(segment.buffer);
  pool_->Free(tagged.buffer);
}

// Runs a process that opens the port and dies without cleaning up, as by SIGKILL.
void OpenAndDie(const TapPort::Options& options) {
  const pid_t child = fork();
  if (child == 0) {
    auto port = TapPort::Open(options);
    _exit(port.ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
}

TEST(TapPortCrashTest, TheNetdevSurvivesACrashWithItsAddressesAndUpperDevices) {
  const TapPort::Options options{.name = "tap7", .mac = kMac, .mtu = 1500};
  OpenAndDie(options);
  const unsigned index = if_nametoindex("tap7");
  ASSERT_NE(index, 0u);
  ASSERT_EQ(system("ip address add 10.98.0.1/24 dev tap7"), 0);
  {
    auto successor = TapPort::Open(options);
    ASSERT_TRUE(successor.ok()) << successor.status();
    EXPECT_EQ(if_nametoindex("tap7"), index) << "the same netdev";
    EXPECT_EQ(system("ip address show dev tap7 | grep -q 10.98.0.1/24"), 0);
    EXPECT_THAT(std::string(TapPort::Open(options).status().message()),
                HasSubstr("another process has it open"));
  }
  EXPECT_EQ(system("ip link delete tap7"), 0);
}

TEST(TapPortCrashTest, ATapOfAnOperatorIsTakenOverAndIsNotOurs) {
  ASSERT_EQ(system("ip tuntap add mode tap name tap8"), 0);
  {
    const auto port = TapPort::Open({.name = "tap8", .mac = kMac, .alias = "eoib:a/tap8"}).value();
    EXPECT_FALSE(port->is_new());
    EXPECT_FALSE(port->is_ours());
  }
  EXPECT_EQ(system("ip link delete tap8"), 0);
}

TEST(TapPortCrashTest, ATapOfAnotherAgentIsNotTakenOver) {
  OpenAndDie({.name = "tap8", .mac = kMac, .alias = "eoib:other/tap8"});
  EXPECT_THAT(
      std::string(
          TapPort::Open({.name = "tap8", .mac = kMac, .alias = "eoib:a/tap8"}).status().message()),
      HasSubstr("it is the TAP of eoib:other/tap8; choose another name"));
  const auto port =
      TapPort::Open({.name = "tap8", .mac = kMac, .alias = "eoib:other/tap8"}).value();
  EXPECT_TRUE(port->is_ours());
  EXPECT_EQ(system("ip link delete tap8"), 0);
}

// Ends the process, with the error.
void OpenWithoutCapabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capset, &header, sets) != 0) std::abort();
  std::fputs(std::string(TapPort::Open({.name = "tap8", .mac = kMac}).status().message()).c_str(),
             stderr);
  _exit(0);
}

TEST(TapPortCrashTest, WithoutItsCapabilityTheErrorNamesIt) {
  EXPECT_EXIT(OpenWithoutCapabilities(), testing::ExitedWithCode(0),
              "make TAP tap8: the process has no CAP_NET_ADMIN; run it as root, or give it that "
              "capability");
}

TEST(TapPortCrashTest, QueryInterfaceFollowsTheNetdev) {
  const auto port = TapPort::Open({.name = "tap8", .mac = kMac, .mtu = 1400}).value();
  ASSERT_TRUE(port->SetLinkUp(true).ok());
  ASSERT_EQ(system("ip link set tap8 down; ip link set tap8 name tap9; ip link set tap9 up"), 0);
  const absl::StatusOr<InterfaceState> here = port->QueryInterface();
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_EQ(here->name, "tap9");
  EXPECT_EQ(here->network_namespace, "");
  EXPECT_TRUE(here->up);
  EXPECT_TRUE(here->carrier);
  EXPECT_EQ(here->mtu, 1400u);
  ASSERT_TRUE(port->SetLinkUp(false).ok());
  EXPECT_FALSE(port->QueryInterface()->carrier);
  ASSERT_EQ(system("ip link delete tap9"), 0);
  EXPECT_TRUE(absl::IsNotFound(port->QueryInterface().status()));
}

TEST(TapPortCrashTest, ANetdevThatIsNoTapIsNotTakenOver) {
  ASSERT_EQ(system("ip link add tap9 address 02:00:5e:10:00:01 type veth peer name tap9peer"), 0);
  EXPECT_THAT(std::string(TapPort::Open({.name = "tap9", .mac = kMac}).status().message()),
              HasSubstr("it is a veth of another owner"));
  ASSERT_EQ(system("ip link delete tap9"), 0);
}

// A container names and describes its interfaces as it likes, and the text goes to the operator's
// terminal and log.
TEST_F(TapPortTest, ReportsForeignTextInPrintableCharacters) {
  ASSERT_EQ(system("ip tuntap add tap9 mode tap; ip link set tap9 alias \"$(printf "
                   "'eoib:x\\n<3>\\033[31mforged')\""),
            0);
  EXPECT_THAT(
      std::string(
          TapPort::Open({.name = "tap9", .mac = kMac, .alias = "eoib:y"}).status().message()),
      HasSubstr("it is the TAP of eoib:x\\n<3>\\x1b[31mforged; choose another name"));
  ASSERT_EQ(system("ip link delete tap9; ip link set tap0 down; ip link set tap0 name \"$(printf "
                   "'\\033[31mROOT')\""),
            0);
  EXPECT_EQ(port_->QueryInterface()->name, "\\x1b[31mROOT");
}

// Like a container's interface: the netdev is moved to another namespace and renamed there. In the
// end the namespace is deleted, and the netdev with it.
class TapPortInAnotherNamespaceTest : public TapPortTest {
 protected:
  void SetUp() override {
    TapPortTest::SetUp();
    ASSERT_TRUE(RunIp("netns add " + netns_)) << "this test needs ip (iproute2)";
    ASSERT_TRUE(RunIp("link set tap0 netns " + netns_));
    ASSERT_TRUE(RunIp("-n " + netns_ + " link set tap0 name eth0"));
    ASSERT_TRUE(RunIp("-n " + netns_ + " link set eth0 up"));
  }
  void TearDown() override {
    RunIp("netns delete " + netns_);
    TapPortTest::TearDown();
  }
  static bool RunIp(const std::string& what) { return system(("ip " + what).c_str()) == 0; }
  bool Eth0Has(const std::string& file, const std::string& value) {
    return RunIp("netns exec " + netns_ + " grep -qx " + value + " /sys/class/net/eth0/" + file);
  }

  const std::string netns_ = "tap-port-test-" + std::to_string(getpid());
};

TEST_F(TapPortInAnotherNamespaceTest, ThePortGoesOn) {
  const auto stranger = TapPort::Open({.name = "tap0", .mac = kOther, .mtu = 1500}).value();
  EXPECT_TRUE(port_->SetMtu(1200).ok());
  EXPECT_TRUE(Eth0Has("mtu", "1200"));
  EXPECT_EQ(port_->QueryInterface()->name, "eth0");
  EXPECT_EQ(port_->QueryInterface()->network_namespace, netns_);
  EXPECT_EQ(port_->QueryInterface()->mtu, 1200u);
  EXPECT_TRUE(RunIp("link show dev tap0 | grep -q 'mtu 1500'"))
      << "another netdev of its former name is not touched";
  for (const bool up : {false, true}) {
    EXPECT_TRUE(port_->SetLinkUp(up).ok());
    EXPECT_TRUE(Eth0Has("carrier", up ? "1" : "0"));
  }
  const Frame frame = InBuffer(MakeFrame(100));
  EXPECT_EQ(port_->Transmit(frame, false), DropReason::kNone);
  EXPECT_TRUE(RunIp("-n " + netns_ + " link set eth0 down"));
  EXPECT_EQ(port_->Transmit(frame, false), DropReason::kPortDown);
  EXPECT_TRUE(RunIp("-n " + netns_ + " link set eth0 up"));
  EXPECT_EQ(port_->Transmit(frame, false), DropReason::kNone);
  pool_->Free(frame.buffer);
}

TEST_F(TapPortInAnotherNamespaceTest, ADeletedNetdevLeavesThePortDownAndTheWorkerAsleep) {
  const UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  ASSERT_EQ(epoll_ctl(epoll.get(), EPOLL_CTL_ADD, port_->receive_fd(), &event), 0);
  ASSERT_TRUE(RunIp("-n " + netns_ + " link delete eth0"));
  const Frame frame = InBuffer(MakeFrame(100));
  EXPECT_EQ(port_->Transmit(frame, false), DropReason::kPortDown);
  ASSERT_EQ(epoll_wait(epoll.get(), &event, 1, 5000), 1);
  for (int i = 0; i < 2; ++i) {
    PortReceiveCounts counts;
    Frame received[4];
    EXPECT_EQ(port_->Receive(pool_.get(), kFrameSize, absl::MakeSpan(received), &counts), 0u);
  }
  EXPECT_EQ(epoll_wait(epoll.get(), &event, 1, 0), 0) << "a worker would spin";
  EXPECT_EQ(port_->Transmit(frame, false), DropReason::kPortDown);
  EXPECT_FALSE(port_->SetMtu(1200).ok());
  pool_->Free(frame.buffer);
}

}  // namespace
}  // namespace eoib
