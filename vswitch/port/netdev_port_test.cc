// A veth pair in a separate network namespace: "port0" belongs to the port, "peer0" to the test.
#include "vswitch/port/netdev_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/allocation_counter_for_test.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/port/frame_in_buffers_for_test.h"
#include "vswitch/port/own_namespace_for_test.h"
#include "vswitch/port/piece_layout.h"
#include "vswitch/port/vnet_header.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/segmentation.h"
#include "vswitch/wire/super_frame_for_test.h"

namespace eoib {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Bytes = std::vector<uint8_t>;

const auto* const kOwnNamespace = testing::AddGlobalTestEnvironment(new OwnNamespace);

constexpr uint32_t kMtu = 2044;  // of the VES

bool Ip(const std::string& what) { return system(("ip " + what).c_str()) == 0; }

Bytes Plain(size_t size, const Bytes& tags = {}) {
  Bytes frame = {2, 0, 0, 0, 0, 0x0b, 2, 0, 0, 0, 0, 0x0a};
  frame.insert(frame.end(), tags.begin(), tags.end());
  frame.insert(frame.end(), {0x88, 0xb6});
  while (frame.size() < size) frame.push_back(static_cast<uint8_t>(frame.size() * 7));
  return frame;
}
const Bytes kTag10 = {0x81, 0x00, 0x60, 0x0a};         // VLAN 10, priority 3
const Bytes kServiceTag10 = {0x88, 0xa8, 0x00, 0x0a};  // 802.1ad

const Bytes kTwoTags = {0x88, 0xa8, 0x00, 0x0a, 0x81, 0x00, 0x00, 0x14};

// The other end of the veth pair: a packet socket with virtio_net_hdr.
class Peer {
 public:
  struct Received {
    VnetHeader header;
    Bytes frame;  // with its tag
  };

  explicit Peer(const std::string& netdev)
      : socket_(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    for (const int option : {PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING, PACKET_AUXDATA}) {
      const int on = 1;
      EXPECT_EQ(setsockopt(socket_.get(), SOL_PACKET, option, &on, sizeof(on)), 0);
    }
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(netdev.c_str()));
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }

  void Send(Bytes frame, VnetHeader header = {}) {
    const iovec parts[] = {{&header, sizeof(header)}, {frame.data(), frame.size()}};
    ASSERT_EQ(writev(socket_.get(), parts, 2), static_cast<ssize_t>(sizeof(header) + frame.size()))
        << strerror(errno);
  }
  void Send(const SuperFrameShape& shape, uint8_t gso_type, uint16_t size) {
    VnetHeader header;
    ChecksumRequest request;
    const Bytes frame = MakeSuperFrame(shape, &request);
    header.Request(request);
    header.gso_type = gso_type;
    header.gso_size = size;
    header.header_length = static_cast<uint16_t>(HeaderSizeOf(shape));
    Send(frame, header);
  }
  // The next frame from the port; an empty one if none comes in time.
  Received Receive(int milliseconds = 5000) {
    pollfd waiting{socket_.get(), POLLIN, 0};
    for (;;) {
      if (poll(&waiting, 1, milliseconds) != 1) return {};
      Received received;
      received.frame.resize(66000);
      iovec parts[] = {{&received.header, sizeof(VnetHeader)},
                       {received.frame.data(), received.frame.size()}};
      char control[CMSG_SPACE(sizeof(tpacket_auxdata))];
      msghdr message{};
      message.msg_iov = parts, message.msg_iovlen = 2, message.msg_control = control,
      message.msg_controllen = sizeof(control);
      const ssize_t size = recvmsg(socket_.get(), &message, 0);
      if (size < static_cast<ssize_t>(kVnetHeaderSize)) return {};
      received.frame.resize(static_cast<size_t>(size) - kVnetHeaderSize);
      tpacket_auxdata metadata;
      std::memcpy(&metadata, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(metadata));
      if ((metadata.tp_status & TP_STATUS_VLAN_VALID) != 0) {
        const uint16_t tag[] = {htons(metadata.tp_vlan_tpid), htons(metadata.tp_vlan_tci)};
        const auto* const bytes = reinterpret_cast<const uint8_t*>(tag);
        received.frame.insert(received.frame.begin() + 12, bytes, bytes + 4);
      }
      const Bytes source(received.frame.begin() + 6, received.frame.begin() + 12);
      // The others are from the kernel itself, such as IPv6.
      if (source == Bytes{2, 0, 0, 0, 0, 0x0a}) return received;
    }
  }

 private:
  const UniqueFd socket_;
};

class NetdevPortTest : public testing::Test {
 protected:
  void SetUp() override {
    MakePair();
    port_ = NetdevPort::Open("port0").value();
    ASSERT_EQ(port_->trouble(), "");
    peer_ = std::make_unique<Peer>("peer0");
    ASSERT_TRUE(FramesPassBothWays(peer_.get()));
  }
  void TearDown() override {
    port_.reset();
    if (if_nametoindex("port0") != 0) {
      EXPECT_TRUE(Ip("link delete port0"));
    }
    EXPECT_EQ(pool_->count(BufferPool::State::kFree), pool_->size());
  }
  static void MakePair() {
    ASSERT_TRUE(Ip("link add port0 mtu 2022 type veth peer name peer0 mtu 2022"));
    for (const std::string end : {"port0", "peer0"}) {
      ASSERT_TRUE(Ip("link set " + end + " addrgenmode none"));
      ASSERT_TRUE(Ip("link set " + end + " up"));
    }
  }
  static void SetMtu(int mtu) {
    for (const std::string end : {"port0", "peer0"})
      ASSERT_TRUE(Ip("link set " + end + " mtu " + std::to_string(mtu)));
  }

  // Polls the port until frames of the tests were taken, or any was refused.
  std::vector<Frame> Receive(int milliseconds = 5000) {
    std::vector<Frame> taken;
    pollfd waiting{port_->receive_fd(), POLLIN, 0};
    while (taken.empty() && counts_.too_large + counts_.runt + counts_.bad_checksum_request == 0 &&
           poll(&waiting, 1, milliseconds) == 1) {
      Frame frames[16];
      const size_t received = port_->Receive(pool_.get(), kMtu, absl::MakeSpan(frames), &counts_);
      for (const Frame& frame : absl::MakeSpan(frames).first(received)) {
        const bool of_test =
            MacAddr::FromWire(frame.data + 6) == MacAddr::FromUint64(0x02'00'00'00'00'0a);
        of_test ? taken.push_back(frame) : pool_->Free(frame.buffer);
      }
    }
    return taken;
  }
  Bytes BytesOf(const Frame& frame) {
    Bytes bytes;
    VisitPieces(*pool_, frame, [&bytes](absl::Span<uint8_t> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    });
    return bytes;
  }
  void Free(const std::vector<Frame>& frames) {
    for (const Frame& frame : frames) pool_->Free(frame.buffer);
  }
  // The bytes of the next frames that the port takes.
  std::vector<Bytes> ReceiveBytes(int milliseconds = 5000) {
    const std::vector<Frame> frames = Receive(milliseconds);
    std::vector<Bytes> bytes;
    for (const Frame& frame : frames) bytes.push_back(BytesOf(frame));
    Free(frames);
    return bytes;
  }
  // After a netdev was set up: the kernel drops frames until it has noticed the carrier. Sends both
  // ways until a frame comes.
  bool FramesPassBothWays(Peer* peer) {
    bool in = false, out = false;
    for (int tries = 0; tries < 1000 && !(in && out); ++tries) {
      peer->Send(Plain(60));
      in |= !ReceiveBytes(10).empty();
      out |= Transmit(Plain(60)) == DropReason::kNone && !peer->Receive(10).frame.empty();
    }
    while (!ReceiveBytes(0).empty()) {
    }
    while (!peer->Receive(0).frame.empty()) {
    }
    return in && out;
  }
  // A frame of the switch, in the layout of the fabric's.
  Frame InBuffers(const Bytes& bytes, const ChecksumRequest& checksum = {}, const Gso& gso = {}) {
    return FrameInBuffers(pool_.get(), kMtu - 8, bytes, checksum, gso);
  }
  DropReason Transmit(const Bytes& bytes, bool strip_tag = false) {
    const Frame frame = InBuffers(bytes);
    DropReason reason = port_->Transmit(frame, strip_tag);
    DropReason at_flush;
    if (port_->Flush(&at_flush) != 0) reason = at_flush;
    EXPECT_EQ(BytesOf(frame), bytes) << "the caller keeps the frame";
    pool_->Free(frame.buffer);
    return reason;
  }

  FakeHca hca_;
  std::unique_ptr<BufferPool> pool_ = BufferPool::Create(&hca_, hca_.pd(), 256, kMtu).value();
  std::unique_ptr<NetdevPort> port_;
  std::unique_ptr<Peer> peer_;
  PortReceiveCounts counts_;
};

TEST_F(NetdevPortTest, FramesPassBothWaysUnchanged) {
  peer_->Send(Plain(100));
  EXPECT_EQ(ReceiveBytes(), std::vector<Bytes>{Plain(100)});
  EXPECT_EQ(Transmit(Plain(100)), DropReason::kNone);
  EXPECT_EQ(peer_->Receive().frame, Plain(100));
}

TEST_F(NetdevPortTest, FramesForOtherMacsAreTaken) {
  Bytes frame = Plain(100);
  frame[0] = 0x06;  // the MAC of nobody
  peer_->Send(frame);
  EXPECT_EQ(ReceiveBytes(), std::vector<Bytes>{frame});
  EXPECT_EQ(system("ip -d link show port0 | grep -q 'promiscuity 1'"), 0);
}

TEST_F(NetdevPortTest, TagsOfTheWireAreInTheFrame) {
  for (const Bytes& tags :
       {kTag10, kServiceTag10, Bytes{0x81, 0x00, 0x00, 0x0a, 0x81, 0x00, 0x00, 0x14},
        Bytes{0x81, 0, 0x60, 0}}) {
    SCOPED_TRACE(testing::PrintToString(tags));
    peer_->Send(Plain(100, tags));
    EXPECT_EQ(ReceiveBytes(), std::vector<Bytes>{Plain(100, tags)});
    EXPECT_EQ(Transmit(Plain(100, tags)), DropReason::kNone);
    EXPECT_EQ(peer_->Receive().frame, Plain(100, tags));
  }
  EXPECT_EQ(Transmit(Plain(104, kTag10), /*strip_tag=*/true), DropReason::kNone);
  Bytes stripped = Plain(104, kTag10);
  stripped.erase(stripped.begin() + 12, stripped.begin() + 16);
  EXPECT_EQ(peer_->Receive().frame, stripped);
}

TEST_F(NetdevPortTest, FramesThatLeaveTheNetdevAreNotTaken) {
  Peer host("port0");  // sends on the netdev, as the host's own stack does
  host.Send(Plain(100));
  EXPECT_EQ(Transmit(Plain(200)), DropReason::kNone);
  EXPECT_EQ(peer_->Receive().frame, Plain(100));
  EXPECT_EQ(peer_->Receive().frame, Plain(200));
  peer_->Send(Plain(300));
  EXPECT_EQ(ReceiveBytes(), std::vector<Bytes>{Plain(300)})
      << "the first frame that is taken came from the wire";
}

TEST_F(NetdevPortTest, ChecksumRequestsPassBothWays) {
  ChecksumRequest request;
  const Bytes segment = MakeSuperFrame({.vid = 10, .payload = 100}, &request);
  VnetHeader header;
  header.Request(request);
  peer_->Send(segment, header);
  const std::vector<Frame> frames = Receive();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(BytesOf(frames[0]), segment);
  EXPECT_EQ(frames[0].checksum, request)
      << "its start counts the tag, which the kernel handed over beside the frame";
  EXPECT_EQ(port_->Transmit(frames[0], false), DropReason::kNone);
  DropReason reason;
  EXPECT_EQ(port_->Flush(&reason), 0u);
  Free(frames);
  const Peer::Received received = peer_->Receive();
  EXPECT_EQ(received.frame, segment);
  EXPECT_EQ(received.header.flags & VnetHeader::kNeedsChecksum, VnetHeader::kNeedsChecksum);
}

TEST_F(NetdevPortTest, NetdevWithoutOffloadGetsCompleteChecksums) {
  ASSERT_EQ(system("ethtool -K port0 tx off >/dev/null"), 0) << "this test needs ethtool";
  ChecksumRequest request;
  const Bytes segment = MakeSuperFrame({.payload = 100}, &request);
  const Frame frame = InBuffers(segment, request);
  EXPECT_EQ(port_->Transmit(frame, false), DropReason::kNone);
  DropReason reason;
  EXPECT_EQ(port_->Flush(&reason), 0u);
  pool_->Free(frame.buffer);
  Bytes complete = segment;
  CompleteChecksum(absl::MakeSpan(complete), request);
  const Peer::Received received = peer_->Receive();
  EXPECT_EQ(received.frame, complete);
  EXPECT_EQ(received.header.flags & VnetHeader::kNeedsChecksum, 0);
}

TEST_F(NetdevPortTest, SuperFramesPassBothWays) {
  for (const bool tagged : {false, true}) {
    const SuperFrameShape shape{.vid = tagged ? 10 : -1, .payload = 20000};
    ChecksumRequest request;
    const Bytes bytes = MakeSuperFrame(shape, &request);
    peer_->Send(shape, VnetHeader::kGsoTcpv4, 1448);
    const std::vector<Frame> frames = Receive();
    ASSERT_EQ(frames.size(), 1u);
    const Frame& frame = frames[0];
    EXPECT_EQ(BytesOf(frame), bytes);
    EXPECT_EQ(frame.checksum, request);
    EXPECT_EQ(frame.gso, (Gso{GsoType::kTcp, 1448}));
    const PieceLayout layout(kMtu);
    EXPECT_LE(frame.length, tagged ? layout.first + kVlanTagSize : layout.first)
        << "room for the forwarder's tag";
    EXPECT_EQ(pool_->Bytes(pool_->Next(frame.buffer)).size(), layout.piece);
    EXPECT_EQ(port_->TransmitLarge(*pool_, frame, false), DropReason::kNone);
    Free(frames);
    const Peer::Received received = peer_->Receive();
    EXPECT_EQ(received.frame, bytes);
    EXPECT_EQ(received.header.gso_type, VnetHeader::kGsoTcpv4);
    EXPECT_EQ(received.header.gso_size, 1448);
  }
}

TEST_F(NetdevPortTest, SuperFrameIsCutForANetdevThatTakesNone) {
  ASSERT_EQ(system("ethtool -K port0 tso off gso off >/dev/null"), 0) << "this test needs ethtool";
  ChecksumRequest request;
  const Bytes whole = MakeSuperFrame({.vid = 10, .payload = 3000}, &request);
  const Frame frame = InBuffers(whole, request, {GsoType::kTcp, 1448});
  EXPECT_EQ(port_->TransmitLarge(*pool_, frame, false), DropReason::kNone);
  pool_->Free(frame.buffer);
  size_t payload = 0;
  for (const size_t size : {1448, 1448, 104}) {
    const Peer::Received segment = peer_->Receive();
    ASSERT_EQ(segment.frame.size(), 58 + size);
    EXPECT_TRUE(std::equal(segment.frame.begin() + 58, segment.frame.end(),
                           whole.begin() + 58 + static_cast<ptrdiff_t>(payload)));
    payload += size;
  }
}

// 32 datagrams of a small VES MTU do not carry all that a kernel hands over.
TEST_F(NetdevPortTest, SuperFrameThatIsTooLargeForItsDatagramsIsDivided) {
  for (const bool narrow : {false, true}) {
    for (uint32_t i = 0; narrow && i < ScatterList::Spill::kNarrowAfter; ++i) {
      peer_->Send(Plain(60));
      EXPECT_EQ(ReceiveBytes().size(), 1u);
    }
    for (const int vid : {-1, 10}) {
      const SuperFrameShape shape{.vid = vid, .payload = 45 * 1448};
      ChecksumRequest request;
      const Bytes whole = MakeSuperFrame(shape, &request);
      peer_->Send(shape, VnetHeader::kGsoTcpv4, 1448);
      const std::vector<Frame> parts = Receive();
      ASSERT_EQ(parts.size(), 2u);
      EXPECT_EQ(counts_.too_large, 0u);
      EXPECT_EQ(parts[0].gso, (Gso{GsoType::kTcp, 1448}));
      EXPECT_EQ(parts[1].gso, Gso());
      Bytes payload;
      for (const Frame& part : parts) {
        const Bytes bytes = BytesOf(part);
        EXPECT_EQ(part.checksum, request);
        payload.insert(payload.end(), bytes.begin() + static_cast<ptrdiff_t>(HeaderSizeOf(shape)),
                       bytes.end());
      }
      EXPECT_EQ(payload,
                Bytes(whole.begin() + static_cast<ptrdiff_t>(HeaderSizeOf(shape)), whole.end()));
      Free(parts);
    }
  }
}

// A batch with too little room for all parts leaves the frame to the next one.
TEST_F(NetdevPortTest, SuperFrameThatComesLateInABatchIsDivided) {
  for (int i = 0; i < 5; ++i) peer_->Send(Plain(60));
  peer_->Send(SuperFrameShape{.payload = 45 * 1448}, VnetHeader::kGsoTcpv4, 1448);
  Frame frames[6];
  for (const size_t expected : {2, 2, 3, 0}) {
    ASSERT_EQ(port_->Receive(pool_.get(), kMtu, absl::MakeSpan(frames), &counts_), expected);
    for (size_t i = 0; i < expected; ++i) pool_->Free(frames[i].buffer);
  }
  EXPECT_EQ(counts_.too_large, 0u);
}

TEST_F(NetdevPortTest, SegmentsOfABatchLeaveAsOneFrame) {
  ChecksumRequest request;
  for (const uint32_t sequence : {0u, 100u, 200u}) {
    const Frame frame =
        InBuffers(MakeSuperFrame({.payload = 100, .sequence = sequence}, &request), request);
    EXPECT_EQ(port_->Transmit(frame, false), DropReason::kNone);
    pool_->Free(frame.buffer);
  }
  DropReason reason;
  EXPECT_EQ(port_->Flush(&reason), 0u);
  const Peer::Received joined = peer_->Receive();
  EXPECT_EQ(joined.frame.size(), 54u + 300);
  EXPECT_EQ(joined.header.gso_size, 100);
}

TEST_F(NetdevPortTest, FramesLargerThanTheNetdevsMtuAreReported) {
  SetMtu(1000);
  EXPECT_EQ(port_->Check(), "");
  EXPECT_EQ(port_->mtu(), 1000u);
  EXPECT_EQ(Transmit(Plain(1014)), DropReason::kNone);
  EXPECT_EQ(Transmit(Plain(1018, kTag10)), DropReason::kNone);
  EXPECT_EQ(Transmit(Plain(1015)), DropReason::kPortTooLarge) << "the kernel refuses it";
  EXPECT_EQ(Transmit(Plain(1019, kTag10)), DropReason::kPortTooLarge);
  EXPECT_EQ(Transmit(Plain(1023, kTwoTags)), DropReason::kPortTooLarge);
  ChecksumRequest request;
  const Frame super_frame =
      InBuffers(MakeSuperFrame({.payload = 5000}, &request), request, {GsoType::kTcp, 1448});
  EXPECT_EQ(port_->TransmitLarge(*pool_, super_frame, false), DropReason::kPortTooLarge)
      << "its segments";
  pool_->Free(super_frame.buffer);
}

// send() to a packet socket refuses these.
TEST_F(NetdevPortTest, PacketsOfTheFullMtuLeaveBehindTwoTags) {
  const std::unique_ptr<Port> queue = port_->MakeQueue();
  for (const int mtu : {1500, 2022, 1280}) {
    SetMtu(mtu);
    // The peer's own end drops a frame that is longer than its MTU with one tag, where a NIC does
    // not.
    ASSERT_TRUE(Ip("link set peer0 mtu 2100"));
    EXPECT_EQ(port_->Check(), "");
    for (int round = 0; round < 600; ++round) {  // more than the ring has slots
      const size_t size = static_cast<size_t>(mtu) + (round % 2 == 0 ? 22 : 18);
      const Bytes bytes = Plain(size, round % 2 == 0 ? kTwoTags : kServiceTag10);
      const Frame frame = InBuffers(bytes);
      Port* const port = round % 3 == 0 ? queue.get() : port_.get();
      ASSERT_EQ(frame.IsLarge() ? port->TransmitLarge(*pool_, frame, false)
                                : port->Transmit(frame, false),
                DropReason::kNone);
      pool_->Free(frame.buffer);
      ASSERT_EQ(peer_->Receive().frame, bytes) << "MTU " << mtu << ", round " << round;
    }
  }
}

// A netdev whose MTU is larger than the VES's: the frame comes in pieces, which become segments.
TEST_F(NetdevPortTest, LargeFramesComeInPieces) {
  SetMtu(9000);
  for (const size_t size : {size_t{kMtu}, size_t{kMtu} + 1, size_t{9014}}) {
    for (const Bytes& tags : {Bytes(), kTag10, kServiceTag10}) {
      const Bytes bytes = Plain(size, tags);
      peer_->Send(bytes);
      const std::vector<Frame> frames = Receive();
      ASSERT_EQ(frames.size(), 1u) << size;
      EXPECT_EQ(BytesOf(frames[0]), bytes);
      EXPECT_EQ(frames[0].IsLarge(), size > kMtu) << size;
      if (frames[0].IsLarge()) {
        EXPECT_LE(frames[0].length, PieceLayout(kMtu).first + (tags == kTag10 ? kVlanTagSize : 0));
      }
      Free(frames);
    }
  }
}

// The test writes a super-frame with a complete checksum to a TAP. The port receives it as from a
// NIC with LRO.
TEST_F(NetdevPortTest, MergedSegmentsWithACompleteChecksumAreTaken) {
  UniqueFd tap(open("/dev/net/tun", O_RDWR | O_CLOEXEC));
  ifreq request{};
  std::strcpy(request.ifr_name, "lro0");
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  ASSERT_EQ(ioctl(tap.get(), TUNSETIFF, &request), 0) << strerror(errno);
  ASSERT_TRUE(Ip("link set lro0 addrgenmode none") && Ip("link set lro0 up"));
  port_ = NetdevPort::Open("lro0").value();
  ASSERT_EQ(port_->trouble(), "");
  for (const size_t payload : {5600u, 65495u}) {
    for (const bool right : {true, false}) {
      SCOPED_TRACE(absl::StrCat(payload, right ? " right" : " wrong"));
      ChecksumRequest checksum;
      Bytes frame = MakeSuperFrame({.payload = payload}, &checksum);
      CompleteChecksum(absl::MakeSpan(frame), checksum);
      if (!right) frame.back() ^= 1;
      VnetHeader header;
      header.Describe({GsoType::kTcp, 1400}, /*ipv6=*/false, 54);
      iovec parts[] = {{&header, sizeof(header)}, {frame.data(), frame.size()}};
      ASSERT_EQ(writev(tap.get(), parts, 2), static_cast<ssize_t>(sizeof(header) + frame.size()))
          << strerror(errno);
      const std::vector<Frame> frames = Receive();
      if (payload == 5600u) {
        ASSERT_EQ(frames.size(), 1u);
        EXPECT_EQ(BytesOf(frames[0]), frame);
        EXPECT_EQ(frames[0].gso, (Gso{GsoType::kTcp, 1400}));
        EXPECT_FALSE(frames[0].checksum.needed || frames[0].checksum_is_good)
            << "the forwarder looks at it";
      } else {
        EXPECT_EQ(frames.size(), right ? 2u : 0u) << "divided, with unfinished checksums";
        for (const Frame& part : frames) EXPECT_TRUE(part.checksum.needed);
      }
      Free(frames);
    }
  }
  EXPECT_EQ(counts_.bad_checksum_request, 1u) << "the wrong one that had to be divided";
  EXPECT_EQ(counts_.too_large, 0u);
}

TEST_F(NetdevPortTest, WrongFramesAreCounted) {
  VnetHeader header;
  header.Request({true, 90, 16});
  Bytes segment = Plain(110);
  peer_->Send(segment, header);
  Free(Receive());
  EXPECT_EQ(counts_.bad_checksum_request + counts_.too_large, 0u)
      << "within the frame; the forwarder looks at it";
  SetMtu(65535);
  peer_->Send(Plain(65500));  // no super-frame, so it cannot be divided
  EXPECT_TRUE(Receive().empty());
  EXPECT_EQ(counts_.too_large, 1u);
}

TEST_F(NetdevPortTest, PortIsDownWhileTheNetdevIs) {
  ASSERT_TRUE(Ip("link set port0 down"));
  EXPECT_EQ(Transmit(Plain(100)), DropReason::kPortDown) << "at once, by the kernel's error";
  EXPECT_THAT(port_->Check(), HasSubstr("netdev port0 is down; set it up"));
  EXPECT_EQ(Transmit(Plain(100)), DropReason::kPortDown);
  ASSERT_TRUE(Ip("link set port0 up"));
  EXPECT_EQ(port_->Check(), "");
  EXPECT_TRUE(FramesPassBothWays(peer_.get()));
}

TEST_F(NetdevPortTest, PortIsDownWithoutCarrier) {
  ASSERT_TRUE(Ip("link set peer0 down"));
  EXPECT_THAT(port_->Check(), HasSubstr("netdev port0 has no carrier"));
  EXPECT_EQ(Transmit(Plain(100)), DropReason::kPortDown);
  const std::unique_ptr<Port> queue = port_->MakeQueue();  // for another worker
  const Frame frame = InBuffers(Plain(100));
  EXPECT_EQ(queue->Transmit(frame, false), DropReason::kPortDown);
  ASSERT_TRUE(Ip("link set peer0 up"));
  EXPECT_EQ(port_->Check(), "");
  peer_ = std::make_unique<Peer>("peer0");  // the kernel gives the former one an error
  EXPECT_TRUE(FramesPassBothWays(peer_.get()));
  EXPECT_EQ(queue->Transmit(frame, false), DropReason::kNone);
  pool_->Free(frame.buffer);
}

TEST_F(NetdevPortTest, NetdevThatIsDeletedIsTakenAgainWhenItReturns) {
  const UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  ASSERT_EQ(epoll_ctl(epoll.get(), EPOLL_CTL_ADD, port_->receive_fd(), &event), 0);
  ASSERT_TRUE(Ip("link delete port0"));
  EXPECT_EQ(Transmit(Plain(100)), DropReason::kPortDown);
  ASSERT_EQ(epoll_wait(epoll.get(), &event, 1, 5000), 1) << "the kernel reports it";
  EXPECT_TRUE(Receive(0).empty());
  EXPECT_EQ(epoll_wait(epoll.get(), &event, 1, 0), 0) << "a worker would spin";
  EXPECT_THAT(port_->Check(), HasSubstr("there is no netdev port0"));
  EXPECT_EQ(port_->mtu(), 0u);
  EXPECT_EQ(Transmit(Plain(100)), DropReason::kPortDown);
  MakePair();
  Peer peer("peer0");
  EXPECT_EQ(port_->Check(), "");
  EXPECT_TRUE(FramesPassBothWays(&peer));
  peer.Send(Plain(200));
  EXPECT_EQ(epoll_wait(epoll.get(), &event, 1, 5000), 1) << "the descriptor is still watched";
  EXPECT_EQ(ReceiveBytes(), std::vector<Bytes>{Plain(200)});
}

TEST_F(NetdevPortTest, NetdevThatWasInAnotherNamespaceIsTakenAgain) {
  ASSERT_TRUE(Ip("netns add elsewhere"));
  const unsigned index = if_nametoindex("port0");
  ASSERT_TRUE(Ip("link set port0 netns elsewhere"));
  ASSERT_TRUE(Ip("-n elsewhere link set port0 netns " + std::to_string(getpid())));
  ASSERT_TRUE(Ip("link set port0 up"));
  ASSERT_EQ(if_nametoindex("port0"), index) << "it looks the same";
  EXPECT_EQ(port_->Check(), "");
  EXPECT_TRUE(FramesPassBothWays(peer_.get()));
  ASSERT_TRUE(Ip("netns delete elsewhere"));
}

TEST_F(NetdevPortTest, NetdevMayComeLater) {
  ASSERT_TRUE(Ip("link delete port0"));
  port_ = NetdevPort::Open("port0").value();
  EXPECT_THAT(port_->trouble(), HasSubstr("there is no netdev port0"));
  EXPECT_TRUE(Receive(0).empty());
  MakePair();
  EXPECT_EQ(port_->Check(), "");
  Peer peer("peer0");
  EXPECT_TRUE(FramesPassBothWays(&peer));
}

TEST_F(NetdevPortTest, RenamedNetdevIsLeft) {
  ASSERT_TRUE(Ip("link set port0 down"));
  ASSERT_TRUE(Ip("link set port0 name other"));
  ASSERT_TRUE(Ip("link set other up"));
  EXPECT_THAT(port_->Check(), HasSubstr("there is no netdev port0"));
  EXPECT_EQ(system("ip -d link show other | grep -q 'promiscuity 0'"), 0);
  peer_->Send(Plain(100));
  EXPECT_TRUE(Receive(100).empty());
  EXPECT_EQ(Transmit(Plain(100)), DropReason::kPortDown);
  ASSERT_TRUE(Ip("link delete other"));
}

TEST_F(NetdevPortTest, NetdevThatBecomesABridgesPortIsLeft) {
  ASSERT_TRUE(Ip("link add br0 type bridge"));
  ASSERT_TRUE(Ip("link set port0 master br0"));
  EXPECT_THAT(port_->Check(),
              HasSubstr("it is a port of br0, which would forward its frames, too; take it out"));
  peer_->Send(Plain(100));
  EXPECT_TRUE(Receive(100).empty());
  EXPECT_EQ(Transmit(Plain(100)), DropReason::kPortDown);
  EXPECT_THAT(std::string(NetdevPort::Open("port0").status().message()),
              HasSubstr("it is a port of br0"));
  ASSERT_TRUE(Ip("link set port0 nomaster"));
  EXPECT_EQ(port_->Check(), "");
  EXPECT_TRUE(FramesPassBothWays(peer_.get()));
  ASSERT_TRUE(Ip("link delete br0"));
}

TEST_F(NetdevPortTest, BridgeWithATapOfAnAgentIsLeft) {
  ASSERT_TRUE(Ip("link add br0 type bridge && ip link set br0 up"));
  const auto bridge = NetdevPort::Open("br0");
  ASSERT_TRUE(bridge.ok()) << bridge.status();
  EXPECT_THAT((*bridge)->Check(), Not(HasSubstr("loop")));
  ASSERT_TRUE(Ip("link set port0 alias eoib:/var/lib/eoib/web1 && ip link set port0 master br0"));
  EXPECT_THAT((*bridge)->Check(),
              HasSubstr("its port port0 is the TAP of a vPort, so frames would loop"));
  EXPECT_FALSE((*bridge)->up());
  EXPECT_THAT(std::string(NetdevPort::Open("br0").status().message()),
              HasSubstr("use port0 alone, or take it out"));
  ASSERT_TRUE(Ip("link set port0 nomaster"));
  EXPECT_THAT((*bridge)->Check(), Not(HasSubstr("loop")));
  ASSERT_TRUE(Ip("link delete br0"));
}

TEST_F(NetdevPortTest, NetdevsThatCannotBePortsAreRefused) {
  EXPECT_THAT(std::string(NetdevPort::Open("lo").status().message()),
              HasSubstr("use netdev lo as a port: it is no Ethernet"));
  ASSERT_TRUE(Ip("link set port0 alias eoib:/var/lib/eoib/web1"));
  EXPECT_THAT(std::string(NetdevPort::Open("port0").status().message()),
              HasSubstr("it is the TAP of eoib:/var/lib/eoib/web1, a vPort of an agent"));
}

TEST_F(NetdevPortTest, FramesThatAreNotReadInTimeAreCounted) {
  EXPECT_EQ(port_->overruns(), 0u);
  for (int i = 0; i < 20000; ++i) peer_->Send(Plain(1500));  // the queue takes 8 MiB
  EXPECT_EQ(port_->Check(), "");
  EXPECT_GT(port_->overruns(), 0u);
  size_t taken = 0;
  for (std::vector<Frame> frames = Receive(0); !frames.empty(); frames = Receive(0)) {
    taken += frames.size();
    Free(frames);
  }
  EXPECT_EQ(taken + port_->overruns(), 20000u);
}

TEST_F(NetdevPortTest, NothingIsAllocated) {
  const Frame plain = InBuffers(Plain(100));
  ChecksumRequest request;
  const Frame segment = InBuffers(MakeSuperFrame({.vid = 10, .payload = 1000}, &request), request);
  peer_->Send(Plain(100, kTag10));
  peer_->Send({.payload = 45 * 1448}, VnetHeader::kGsoTcpv4, 1448);
  Frame received[16];
  counting_allocations = true;
  allocations = 0;
  DropReason reason;
  for (int i = 0; i < 10; ++i) {
    port_->Transmit(plain, false);
    port_->Transmit(segment, true);
    port_->Flush(&reason);
  }
  const size_t count = port_->Receive(pool_.get(), kMtu, absl::MakeSpan(received), &counts_);
  counting_allocations = false;
  EXPECT_EQ(allocations, 0u);
  EXPECT_EQ(count, 3u);
  for (size_t i = 0; i < count; ++i) pool_->Free(received[i].buffer);
  pool_->Free(plain.buffer);
  pool_->Free(segment.buffer);
}

}  // namespace
}  // namespace eoib
