// Super-frames and other frames that are larger than a datagram.
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/allocation_counter_for_test.h"
#include "vswitch/base/hex_for_test.h"
#include "vswitch/forwarder/forwarder_test_fixture.h"
#include "vswitch/wire/ip/ones_complement_sum.h"
#include "vswitch/wire/sctp_checksum.h"
#include "vswitch/wire/sctp_for_test.h"
#include "vswitch/wire/segment_extension.h"
#include "vswitch/wire/super_frame_for_test.h"

namespace eoib {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr VPortCapabilities kTakesSegments{.segments = VPortCapabilities::kMaxSegments};

class ForwarderLargeTest : public ForwarderTest {
 protected:
  // h1 with p1, and h2 with p2, which know each other. MakeSuperFrame's addresses are A behind p1
  // and B behind p2.
  void Connect(const VPortCapabilities& of_h2, const Host::Options& options = {},
               const VlanPolicy& vlan = {}) {
    h1_ = AddHost("h1", options);
    h2_ = AddHost("h2", options);
    p1_ = h1_->AddPort("p1", vlan);
    p2_ = h2_->AddPort("p2", vlan);
    p1_->SetTakesLarge(true);
    p2_->SetTakesLarge(true);
    p1_->Inject(MakeFrame(MacAddr::Broadcast(), kA));
    p2_->Inject(MakeFrame(MacAddr::Broadcast(), kB));
    Settle();
    const VPortId peer = h1_->directory()->Find(h2_->address());
    const VPortAddress address{.peer = h2_->address()};
    EXPECT_TRUE(h1_->directory()->Announce(peer, {&address, 1}, of_h2));
    h1_->SetPathTo(*h2_, peer);
    Settle();
    p1_->TakeTransmitted();
    p2_->TakeTransmitted();
  }

  std::vector<TestPort::Transmitted> Send(const Bytes& frame, const ChecksumRequest& request,
                                          const Gso& gso, bool checksum_is_good = false) {
    p1_->Inject(frame, request, gso, checksum_is_good);
    Settle();
    return p2_->TakeTransmitted();
  }
  static Gso GsoOf(const SuperFrameShape& shape, uint16_t size) {
    return {shape.udp ? GsoType::kUdp : GsoType::kTcp, size};
  }

  // The segments of a super-frame of `shape`.
  static void ExpectSegments(const std::vector<TestPort::Transmitted>& got,
                             const SuperFrameShape& shape, size_t size) {
    ASSERT_EQ(got.size(), (shape.payload + size - 1) / size);
    for (size_t i = 0; i < got.size(); ++i) {
      Bytes expected = ExpectedSegment(shape, i, i * size, std::min(shape.payload, (i + 1) * size));
      if (expected.size() < kMinFrameSize) expected.resize(kMinFrameSize);
      EXPECT_EQ(ToHex(got[i].bytes), ToHex(expected)) << "segment " << i;
      EXPECT_TRUE(got[i].checksum.needed);
      EXPECT_EQ(got[i].gso, Gso());
    }
  }

  Host* h1_ = nullptr;
  Host* h2_ = nullptr;
  TestPort* p1_ = nullptr;
  TestPort* p2_ = nullptr;
};

TEST_F(ForwarderLargeTest, ASuperFrameArrivesAsItWasSent) {
  Connect(kTakesSegments);
  uint64_t frames = 0, segments = 0;
  for (const bool ipv6 : {false, true}) {
    for (const bool udp : {false, true}) {
      for (const size_t payload : {2900u, 4000u, 4030u, 4060u, 8200u, 32000u, 65000u}) {
        SCOPED_TRACE(absl::StrCat("ipv6 ", ipv6, " udp ", udp, " payload ", payload));
        SuperFrameShape shape{.ipv6 = ipv6, .udp = udp, .payload = payload};
        ChecksumRequest request;
        const Bytes frame = MakeSuperFrame(shape, &request);
        const auto got = Send(frame, request, GsoOf(shape, 1448));
        ASSERT_THAT(got, SizeIs(1));
        EXPECT_EQ(got[0].bytes, frame);
        EXPECT_EQ(got[0].checksum, request);
        EXPECT_EQ(got[0].gso, GsoOf(shape, 1448));
        ++frames;
        segments += frame.size() <= 4080 ? 1 : 1 + (frame.size() - 4080 + 4083) / 4084;
      }
    }
  }
  EXPECT_EQ(h1_->counters().segments_sent.value(), segments);
  EXPECT_EQ(h2_->counters().segments_received.value(), segments);
  EXPECT_EQ(h1_->counters().known_unicast.value(), frames) << "a super-frame is one frame";
  EXPECT_EQ(h2_->counters().known_unicast.value(), frames);
  EXPECT_EQ(h1_->counters().segmented.value(), 0u);
}

TEST_F(ForwarderLargeTest, ATagIsInsertedAndRemoved) {
  Connect(kTakesSegments, {}, Access(10));
  SuperFrameShape shape{.payload = 20000};
  ChecksumRequest request;
  const Bytes frame = MakeSuperFrame(shape, &request);
  const auto got = Send(frame, request, {GsoType::kTcpEcn, 1448});
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_EQ(got[0].bytes, frame);
  EXPECT_EQ(got[0].checksum, request);
  EXPECT_EQ(got[0].gso, (Gso{GsoType::kTcpEcn, 1448}));
  EXPECT_EQ(h1_->counters().segments_sent.value(), 5u) << "the tag needs no further segment";
}

TEST_F(ForwarderLargeTest, ATaggedSuperFrameOnATrunk) {
  Connect(kTakesSegments, {}, Trunk({0, 20}));
  p1_->Inject(MakeFrame(MacAddr::Broadcast(), kA, 20));
  p2_->Inject(MakeFrame(MacAddr::Broadcast(), kB, 20));
  Settle();
  p2_->TakeTransmitted();
  SuperFrameShape shape{.ipv6 = true, .vid = 20, .payload = 20000};
  ChecksumRequest request;
  const Bytes frame = MakeSuperFrame(shape, &request);
  const auto got = Send(frame, request, {GsoType::kTcp, 1400});
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_EQ(got[0].bytes, frame);
}

TEST_F(ForwarderLargeTest, SegmentsGoOnlyToPeersThatAnnouncedThem) {
  for (const VPortCapabilities& others :
       {VPortCapabilities{}, VPortCapabilities{.segments = 31},
        VPortCapabilities{.header_form = HeaderForm::kAlternative, .segments = 32}}) {
    hosts_.clear();
    Connect(others);
    SuperFrameShape shape{.tcp_options = 12, .payload = 60001, .tcp_flags = 0x99};
    ChecksumRequest request;
    const Bytes frame = MakeSuperFrame(shape, &request);
    ExpectSegments(Send(frame, request, {GsoType::kTcp, 1448}), shape, 1448);
    EXPECT_EQ(h1_->counters().segments_sent.value(), 0u);
    EXPECT_EQ(h1_->counters().segmented.value(), 1u);
    EXPECT_EQ(h1_->counters().known_unicast.value(), 1u);
  }
}

TEST_F(ForwarderLargeTest, AnAgentWithTheAlternativeHeaderSendsNoSegments) {
  Connect(kTakesSegments, {.header_form = HeaderForm::kAlternative});
  SuperFrameShape shape{.payload = 6000};
  ChecksumRequest request;
  const auto got = Send(MakeSuperFrame(shape, &request), request, {GsoType::kTcp, 1448});
  ASSERT_THAT(got, SizeIs(5));
  for (const auto& segment : got)
    EXPECT_FALSE(segment.checksum.needed) << "every checksum is finished";
}

TEST_F(ForwarderLargeTest, AFloodIsCutForGroupsAndWholeForLocalPorts) {
  Connect(kTakesSegments);
  TestPort* beside = h1_->AddPort("beside");
  TestPort* plain = h1_->AddPort("plain");
  beside->SetTakesLarge(true);
  SuperFrameShape shape{.udp = true, .payload = 5000};
  ChecksumRequest request;
  Bytes frame = MakeSuperFrame(shape, &request);
  kC.ToWire(frame.data());  // unknown
  const auto got = Send(frame, request, {GsoType::kUdp, 1000});
  ASSERT_THAT(got, SizeIs(5));
  EXPECT_EQ(MacAddr::FromWire(got[0].bytes.data()), kC);
  const auto whole = beside->TakeTransmitted();
  ASSERT_THAT(whole, SizeIs(1));
  EXPECT_EQ(whole[0].bytes, frame);
  EXPECT_EQ(whole[0].gso, (Gso{GsoType::kUdp, 1000}));
  EXPECT_THAT(plain->TakeTransmitted(), SizeIs(5));
  EXPECT_EQ(h1_->counters().flooded_unknown.value(), 1u);
}

TEST_F(ForwarderLargeTest, AReceivingPortThatTakesNoneGetsSegments) {
  Connect(kTakesSegments);
  p2_->SetTakesLarge(false);
  SuperFrameShape shape{.ipv6 = true, .ip_options = 16, .payload = 30000};
  ChecksumRequest request;
  const Bytes frame = MakeSuperFrame(shape, &request);
  ExpectSegments(Send(frame, request, {GsoType::kTcp, 1400}), shape, 1400);
  EXPECT_EQ(h2_->counters().segmented.value(), 1u);
  EXPECT_EQ(h1_->counters().segmented.value(), 0u);
}

TEST_F(ForwarderLargeTest, LocalDeliveryIsWhole) {
  Connect(kTakesSegments);
  TestPort* beside = h1_->AddPort("beside");
  beside->SetTakesLarge(true);
  beside->Inject(MakeFrame(MacAddr::Broadcast(), kC));
  Settle();
  p2_->TakeTransmitted();
  SuperFrameShape shape{.payload = 65000};
  ChecksumRequest request;
  Bytes frame = MakeSuperFrame(shape, &request);
  kC.ToWire(frame.data());
  EXPECT_THAT(Send(frame, request, {GsoType::kTcp, 1448}), IsEmpty());
  const auto got = beside->TakeTransmitted();
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_EQ(got[0].bytes, frame);
  EXPECT_EQ(got[0].gso, (Gso{GsoType::kTcp, 1448}));
}

// A frame of 9,000 bytes that is no super-frame.
TEST_F(ForwarderLargeTest, AJumboFrame) {
  Connect(kTakesSegments);
  const Bytes other = MakeFrame(kB, kA, -1, 9000);
  auto got = Send(other, {}, {});
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_EQ(got[0].bytes, other);
  EXPECT_FALSE(got[0].checksum.needed);
  SuperFrameShape shape{.udp = true, .payload = 8900};
  ChecksumRequest request;
  const Bytes udp = MakeSuperFrame(shape, &request);
  got = Send(udp, request, {});
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_EQ(got[0].bytes, udp);
  EXPECT_EQ(got[0].checksum, request);
  EXPECT_EQ(got[0].gso, Gso());
}

TEST_F(ForwarderLargeTest, AJumboFrameWhoseChecksumNoPeerCanFinish) {
  Connect(kTakesSegments);
  // The checksum of another protocol, over an odd number of bytes.
  Bytes frame = MakeFrame(kB, kA, -1, 8999);
  const ChecksumRequest request{true, 21, 6};
  frame[27] = frame[28] = 0;
  const auto got = Send(frame, request, {});
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_FALSE(got[0].checksum.needed);
  EXPECT_EQ(OnesComplementSum(absl::MakeConstSpan(got[0].bytes).subspan(request.start)), kRightSum);
}

// RFC 768: only UDP has no checksum of zero.
TEST_F(ForwarderLargeTest, AJumboFrameWhoseChecksumIsZero) {
  Connect(kTakesSegments);
  constexpr uint16_t kStart = 20, kOfUdp = 6, kOfTcp = 16;
  for (const uint16_t offset : {kOfUdp, kOfTcp}) {
    const size_t field = size_t{kStart} + offset;
    Bytes frame = MakeFrame(kB, kA, -1, 9000);
    frame[kStart] = frame[kStart + 1] = frame[field] = frame[field + 1] = 0;
    const auto rest = OnesComplementSum(absl::MakeConstSpan(frame).subspan(kStart));
    WriteWire(be16(static_cast<uint16_t>(0xffff - rest)), &frame[kStart]);
    const auto got = Send(frame, {true, kStart, offset}, {});
    ASSERT_THAT(got, SizeIs(1));
    const uint8_t expected = offset == kOfUdp ? 0xff : 0;
    EXPECT_EQ(got[0].bytes[field], expected) << offset;
    EXPECT_EQ(got[0].bytes[field + 1], expected) << offset;
  }
}

TEST_F(ForwarderLargeTest, AJumboFrameForAPeerWithoutSegments) {
  Connect({});
  EXPECT_THAT(Send(MakeFrame(kB, kA, -1, 9000), {}, {}), IsEmpty());
  EXPECT_EQ(h1_->dropped(DropReason::kNotSegmentable), 1u);
  SuperFrameShape shape{.payload = 8900};
  ChecksumRequest request;
  const Bytes tcp = MakeSuperFrame(shape, &request);
  ExpectSegments(Send(tcp, request, {}), shape, kMtu - HeaderSizeOf(shape));
  shape.udp = true;
  const Bytes udp = MakeSuperFrame(shape, &request);
  EXPECT_THAT(Send(udp, request, {}), IsEmpty());
  EXPECT_EQ(h1_->dropped(DropReason::kNotSegmentable), 2u);
}

TEST_F(ForwarderLargeTest, TheTailOfAFrameThatFitsADatagramIsInIt) {
  Connect(kTakesSegments);
  for (size_t size = kMtu - 16; size <= kMtu; ++size) {
    const Bytes frame = MakeFrame(kB, kA, -1, size - kEthernetHeaderSize);
    const auto got = Send(frame, {}, {});
    ASSERT_THAT(got, SizeIs(1));
    EXPECT_EQ(got[0].bytes, frame);
  }
  EXPECT_EQ(h1_->counters().segments_sent.value(), 0u);
}

// Such frames come from interfaces whose MTU is larger than the VES's. They were dropped, and
// larger ones were not.
TEST_F(ForwarderLargeTest, AFrameThatItsTagMakesLongerThanADatagramIsSegmented) {
  Connect(kTakesSegments, {}, Access(10));
  uint64_t segments = 0;
  for (size_t size = kMtu - 6; size <= kMtu + 2; ++size) {
    SCOPED_TRACE(size);
    const Bytes frame = MakeFrame(kB, kA, -1, size - kEthernetHeaderSize);
    const auto got = Send(frame, {}, {});
    ASSERT_THAT(got, SizeIs(1));
    EXPECT_EQ(got[0].bytes, frame);
    segments += size + kVlanTagSize > kMtu ? 2 : 0;
  }
  EXPECT_EQ(h1_->counters().segments_sent.value(), segments);
  SuperFrameShape shape{.udp = true};
  shape.payload = kMtu - HeaderSizeOf(shape);
  ChecksumRequest request;
  const Bytes udp = MakeSuperFrame(shape, &request);
  const auto got = Send(udp, request, {});
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_EQ(got[0].bytes, udp);
  EXPECT_EQ(got[0].checksum, request);
}

TEST_F(ForwarderLargeTest, AFrameThatItsTagMakesTooLongForAPeerWithoutSegmentsIsCounted) {
  Connect({}, {}, Access(10));
  EXPECT_THAT(Send(MakeFrame(kB, kA, -1, kMtu - kEthernetHeaderSize), {}, {}), IsEmpty());
  EXPECT_EQ(h1_->dropped(DropReason::kNotSegmentable), 1u);
  EXPECT_EQ(h1_->dropped(DropReason::kTooLarge), 0u);
}

// The last piece begins within the payload at every remainder, and bytes may follow the packet.
TEST_F(ForwarderLargeTest, TheChecksumOfALargeSctpFrameIsFinished) {
  Connect(kTakesSegments);
  for (const bool ipv6 : {false, true}) {
    for (size_t payload = 9000; payload < 9010; ++payload) {
      SCOPED_TRACE(absl::StrCat("ipv6 ", ipv6, " payload ", payload));
      ChecksumRequest request;
      Bytes right = MakeSctpFrame({.ipv6 = ipv6, .payload = payload}, &request);
      if (payload % 2 == 0) right.insert(right.end(), 5, 0xba);
      Bytes frame = right;
      frame[request.start + kSctpChecksumOffset] ^= 0xff;
      const auto got = Send(frame, request, {});
      ASSERT_THAT(got, SizeIs(1));
      EXPECT_EQ(got[0].bytes, right);
      EXPECT_FALSE(got[0].checksum.needed);
    }
  }
  EXPECT_EQ(h1_->counters().checksums_vouched.value(), 0u);
}

TEST_F(ForwarderLargeTest, RefusesLargeSctpFramesThatAreNotWholeAndSuperFramesOfSctp) {
  Connect(kTakesSegments);
  ChecksumRequest request;
  const Bytes frame = MakeSctpFrame({.payload = 9000}, &request);
  Bytes fragment = frame;
  fragment[20] = 0x20;
  Bytes longer = frame;
  longer[16] += 1;
  EXPECT_THAT(Send(fragment, request, {}), IsEmpty());
  EXPECT_THAT(Send(longer, request, {}), IsEmpty());
  EXPECT_THAT(Send(frame, request, {GsoType::kTcp, 1448}), IsEmpty());
  EXPECT_THAT(Send(frame, request, {GsoType::kUdp, 1448}), IsEmpty());
  EXPECT_EQ(h1_->dropped(DropReason::kBadChecksumRequest), 4u);
}

// As a NIC with LRO hands them over.
TEST_F(ForwarderLargeTest, MergedSegmentsWithACompleteChecksumArriveAsASuperFrame) {
  Connect(kTakesSegments, {}, Access(10));
  for (const bool ipv6 : {false, true}) {
    for (const bool udp : {false, true}) {
      for (const size_t payload : {2900u, 8201u, 32000u}) {
        SCOPED_TRACE(absl::StrCat("ipv6 ", ipv6, " udp ", udp, " payload ", payload));
        const SuperFrameShape shape{.ipv6 = ipv6, .udp = udp, .payload = payload};
        ChecksumRequest request;
        const Bytes unfinished = MakeSuperFrame(shape, &request);
        Bytes complete = unfinished;
        CompleteChecksum(absl::MakeSpan(complete), request);
        const auto got = Send(complete, {}, GsoOf(shape, 1448));
        ASSERT_THAT(got, SizeIs(1));
        EXPECT_EQ(got[0].bytes, unfinished);
        EXPECT_EQ(got[0].checksum, request);
        EXPECT_EQ(got[0].gso, GsoOf(shape, 1448));
        complete.back() ^= 1;
        EXPECT_THAT(Send(complete, {}, GsoOf(shape, 1448)), IsEmpty())
            << "a wrong checksum would become a right one";
        EXPECT_THAT(Send(complete, {}, GsoOf(shape, 1448), /*checksum_is_good=*/true), SizeIs(1))
            << "the kernel has verified the segments, and the checksum may be that of the first "
               "one";
      }
    }
  }
  EXPECT_EQ(h1_->dropped(DropReason::kBadChecksumRequest), 12u);
}

TEST_F(ForwarderLargeTest, MergedSegmentsAreCutForAPeerThatTakesNone) {
  Connect({});
  const SuperFrameShape shape{.payload = 9000};
  ChecksumRequest request;
  Bytes frame = MakeSuperFrame(shape, &request);
  CompleteChecksum(absl::MakeSpan(frame), request);
  ExpectSegments(Send(frame, {}, {GsoType::kTcp, 1448}), shape, 1448);
}

TEST_F(ForwarderLargeTest, RefusesSuperFramesThatAreNone) {
  Connect(kTakesSegments);
  SuperFrameShape shape{.payload = 9000};
  ChecksumRequest request;
  const Bytes frame = MakeSuperFrame(shape, &request);
  ChecksumRequest elsewhere = request;
  elsewhere.start += 2;
  EXPECT_THAT(Send(frame, elsewhere, {GsoType::kTcp, 1448}), IsEmpty());
  EXPECT_THAT(Send(frame, {}, {GsoType::kTcp, 1448}), IsEmpty());
  EXPECT_THAT(Send(frame, request, {GsoType::kUdp, 1448}), IsEmpty());
  EXPECT_THAT(Send(frame, request, {GsoType::kTcp, 9000}), IsEmpty());
  EXPECT_EQ(h1_->dropped(DropReason::kBadChecksumRequest), 4u);
  p1_->Inject(MakeSuperFrame({.vid = 0, .payload = 65535 - 58 + 1}, &request), request,
              {GsoType::kTcp, 1448});
  Settle();
  EXPECT_EQ(h1_->dropped(DropReason::kTooLarge), 1u);
}

TEST_F(ForwarderLargeTest, ALostSegmentCostsOneSuperFrame) {
  Connect(kTakesSegments);
  SuperFrameShape shape{.payload = 20000};
  ChecksumRequest request;
  const Bytes frame = MakeSuperFrame(shape, &request);
  p1_->Inject(frame, request, {GsoType::kTcp, 1448});
  h1_->Turn();
  const std::vector<Bytes> datagrams = h2_->ReceiveRaw();
  ASSERT_THAT(datagrams, SizeIs(5));
  for (const size_t i : {0, 1, 3, 4}) h1_->SendRawTo(*h2_, datagrams[i]);
  for (int i = 0; i < 3; ++i) p1_->Inject(frame, request, {GsoType::kTcp, 1448});
  Settle();
  EXPECT_THAT(p2_->TakeTransmitted(), SizeIs(3));
  clock_.Advance(Reassembler::kLifetime);
  Settle();
  EXPECT_EQ(h2_->dropped(DropReason::kReassembly), 1u);
}

TEST_F(ForwarderLargeTest, AnIncompleteFrameEndsAfterItsLifetime) {
  Connect(kTakesSegments);
  SuperFrameShape shape{.payload = 9000};
  ChecksumRequest request;
  const Bytes frame = MakeSuperFrame(shape, &request);
  p1_->Inject(frame, request, {GsoType::kTcp, 1448});
  h1_->Turn();
  const std::vector<Bytes> datagrams = h2_->ReceiveRaw();
  ASSERT_THAT(datagrams, SizeIs(3));
  h1_->SendRawTo(*h2_, datagrams[0]);
  h1_->SendRawTo(*h2_, datagrams[2]);
  Settle();
  EXPECT_TRUE(h2_->forwarder()->HasWaitingFrames());
  clock_.Advance(Reassembler::kLifetime);
  Settle();
  EXPECT_FALSE(h2_->forwarder()->HasWaitingFrames());
  EXPECT_EQ(h2_->dropped(DropReason::kReassembly), 1u);
  for (const size_t i : {2, 0, 1}) h1_->SendRawTo(*h2_, datagrams[i]);
  Settle();
  const auto got = p2_->TakeTransmitted();
  ASSERT_THAT(got, SizeIs(1)) << "in another order";
  EXPECT_EQ(got[0].bytes, frame);
}

TEST_F(ForwarderLargeTest, RefusesSegmentsThatLie) {
  Connect(kTakesSegments);
  SuperFrameShape shape{.payload = 2000};
  ChecksumRequest request;
  p1_->Inject(MakeSuperFrame(shape, &request), request, {GsoType::kTcp, 1448});
  h1_->Turn();
  const std::vector<Bytes> datagrams = h2_->ReceiveRaw();
  ASSERT_THAT(datagrams, SizeIs(1));
  const auto refuses = [this](const Bytes& datagram) {
    const uint64_t before = h2_->dropped(DropReason::kSegment);
    h1_->SendRawTo(*h2_, datagram);
    Settle();
    return p2_->TakeTransmitted().empty() && h2_->dropped(DropReason::kSegment) == before + 1;
  };
  const auto with = [&datagrams](size_t at, uint8_t value) {
    Bytes changed = datagrams[0];
    changed[at] = value;
    return changed;
  };
  EXPECT_FALSE(refuses(datagrams[0]));
  p2_->TakeTransmitted();
  EXPECT_TRUE(refuses(with(0, 0xc0))) << "a super-frame without a vouched checksum";
  EXPECT_TRUE(refuses(with(0, 0xc8))) << "UDP";
  EXPECT_TRUE(refuses(with(10, 0x30))) << "GSO type 3";
  EXPECT_TRUE(refuses(with(11, 0x23))) << "a checksum start beside the TCP header";
  EXPECT_TRUE(refuses(with(8, 0x7f))) << "a segment larger than the frame";
  EXPECT_TRUE(refuses(with(5, 0x00))) << "another length";
  const uint64_t before = h2_->dropped(DropReason::kSegment);
  h1_->SendRawToGroup(datagrams[0]);
  Settle();
  EXPECT_EQ(h2_->dropped(DropReason::kSegment), before + 1) << "through a group";
  EXPECT_THAT(p2_->TakeTransmitted(), IsEmpty());
}

TEST_F(ForwarderLargeTest, ATrainWaitsForItsPathAsAWhole) {
  Connect(kTakesSegments);
  h1_->ForgetPathTo(*h2_);
  const VPortId peer = h1_->directory()->Find(h2_->address());
  h1_->directory()->SetPath(peer, h2_->address().gid, AhIndex::None());
  SuperFrameShape shape{.payload = 60000};
  ChecksumRequest request;
  const Bytes frame = MakeSuperFrame(shape, &request);
  for (int i = 0; i < 3; ++i) p1_->Inject(frame, request, {GsoType::kTcp, 1448});
  Settle(/*resolve=*/false);
  EXPECT_TRUE(h1_->forwarder()->HasWaitingFrames());
  EXPECT_THAT(p2_->TakeTransmitted(), IsEmpty());
  h1_->SetPathTo(*h2_, peer);
  Settle();
  const auto got = p2_->TakeTransmitted();
  ASSERT_THAT(got, SizeIs(3));
  for (const auto& sent : got) EXPECT_EQ(sent.bytes, frame);
  // They do not wait for ever.
  h1_->directory()->SetPath(peer, h2_->address().gid, AhIndex::None());
  p1_->Inject(frame, request, {GsoType::kTcp, 1448});
  Settle(/*resolve=*/false);
  clock_.Advance(absl::Seconds(1));
  Settle(/*resolve=*/false);
  EXPECT_EQ(h1_->dropped(DropReason::kUnresolved), 1u);
}

TEST_F(ForwarderLargeTest, ATrainFollowsAReplacedHandle) {
  Connect(kTakesSegments);
  OnceAfter replace(Stage::kTransmit, [this] { h1_->ReplacePathTo(*h2_); });
  h1_->forwarder()->SetProbe(&replace);
  SuperFrameShape shape{.payload = 60000};
  ChecksumRequest request;
  const Bytes frame = MakeSuperFrame(shape, &request);
  const auto got = Send(frame, request, {GsoType::kTcp, 1448});
  h1_->forwarder()->SetProbe(nullptr);
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_EQ(got[0].bytes, frame);
}

TEST_F(ForwarderLargeTest, ATrainWithoutRoomInTheSendQueueIsNotBegun) {
  Connect(kTakesSegments, {.mtu = 508});
  SuperFrameShape shape{.payload = 15000};
  ChecksumRequest request;
  const Bytes frame = MakeSuperFrame(shape, &request);
  // The send queue has 256 places; nothing is reaped between the batches.
  for (int i = 0; i < 20; ++i) p1_->Inject(frame, request, {GsoType::kTcp, 1448});
  while (h1_->forwarder()->PollPort(0)) {
  }
  const uint64_t refused = h1_->dropped(DropReason::kSendQueueFull);
  EXPECT_EQ(refused, 20u - 256 / 31);
  Settle();
  EXPECT_THAT(p2_->TakeTransmitted(), SizeIs(20 - refused));
  EXPECT_EQ(h2_->dropped(DropReason::kReassembly), 0u);
}

TEST_F(ForwarderLargeTest, KnownSuperFramesAllocateNothing) {
  Connect(kTakesSegments);
  p2_->SetDiscard(true);
  SuperFrameShape shape{.payload = 65000};
  ChecksumRequest request;
  const Bytes frame = MakeSuperFrame(shape, &request);
  for (const bool cut : {false, true}) {
    const VPortAddress address{.peer = h2_->address()};
    ASSERT_TRUE(h1_->directory()->Announce(h1_->directory()->Find(address.peer), {&address, 1},
                                           cut ? VPortCapabilities() : kTakesSegments));
    for (int round = 0; round < 3; ++round) {
      p1_->Inject(frame, request, {GsoType::kTcp, 1448});
      allocations = 0;
      counting_allocations = round == 2;
      h1_->Turn();
      h2_->Turn();
      counting_allocations = false;
      Settle();
    }
    EXPECT_EQ(allocations, 0u) << "cut " << cut;
  }
}

}  // namespace
}  // namespace eoib
