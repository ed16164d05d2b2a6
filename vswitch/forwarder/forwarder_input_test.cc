// Input from ports and from the fabric: refused frames, sizes, checksums, and forwarding without
// allocations.
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/allocation_counter_for_test.h"
#include "vswitch/base/hex_for_test.h"
#include "vswitch/forwarder/forwarder_test_fixture.h"
#include "vswitch/wire/ib/ib_headers.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct FrameDropRow {
  const char* description;
  Bytes frame;
  DropReason reason;
};

// Makes a datagram from an encapsulation header and a frame.
Bytes Encapsulated(uint32_t header, const Bytes& frame) {
  Bytes datagram(kEoibHeaderSize);
  WriteWire(be32(header), datagram.data());
  datagram.insert(datagram.end(), frame.begin(), frame.end());
  return datagram;
}

TEST_F(ForwarderTest, RefusesFramesFromAPort) {
  Bytes qinq = MakeFrame(kB, kA, -1, 46, 0x88a8);
  qinq[14] = 0, qinq[15] = 5, qinq[16] = 0x88, qinq[17] = 0xb5;
  const FrameDropRow rows[] = {
      {"control messages", MakeFrame(kB, kA, -1, 46, kEtherTypeControl),
       DropReason::kControlEthertype},
      {"control messages behind a tag", MakeFrame(kB, kA, 0, 46, kEtherTypeControl),
       DropReason::kControlEthertype},
      {"control messages behind a provider tag", qinq, DropReason::kControlEthertype},
      {"the alternative header's EtherType", MakeFrame(kB, kA, -1, 46, kEtherTypeAlternative),
       DropReason::kControlEthertype},
      {"pause", MakeFrame(MacAddr::FromUint64(0x0180c2000001), kA, -1, 46, 0x8808),
       DropReason::kLinkLocalControl},
      {"LACP", MakeFrame(MacAddr::FromUint64(0x0180c2000002), kA, -1, 46, 0x8809),
       DropReason::kLinkLocalControl},
      {"group source", MakeFrame(kB, MacAddr::FromUint64(0x010000000001)), DropReason::kBadSource},
      {"zero source", MakeFrame(kB, MacAddr()), DropReason::kBadSource},
      {"reserved VID", MakeFrame(kB, kA, 4095), DropReason::kReservedVid},
      {"runt", Bytes(13, 2), DropReason::kRunt},
      {"one byte above the VES MTU", MakeFrame(kB, kA, -1, kMtu + 1 - 14), DropReason::kTooLarge},
  };
  Host* h1 = AddHost("h1");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  for (const FrameDropRow& row : rows) {
    SCOPED_TRACE(row.description);
    const uint64_t before = h1->dropped(row.reason);
    p1->Inject(row.frame);
    Settle();
    EXPECT_EQ(h1->dropped(row.reason), before + 1);
    EXPECT_THAT(Frames(p2), IsEmpty());
  }
  for (uint64_t passes : {0x0180c2000000, 0x0180c200000e}) {  // STP, LLDP
    p1->Inject(MakeFrame(MacAddr::FromUint64(passes), kA));
    Settle();
    EXPECT_THAT(Frames(p2), SizeIs(1));
  }
}

// A frame from C to B behind tags of VLAN 10 with these TPIDs, outermost first.
Bytes BehindTags(const std::vector<uint16_t>& tpids, uint16_t ethertype) {
  Bytes frame = MakeFrame(kB, kC, -1, 0, tpids[0]);
  for (size_t i = 0; i < tpids.size(); ++i) {
    const uint16_t next = i + 1 < tpids.size() ? tpids[i + 1] : ethertype;
    for (int byte : {0, 10, next >> 8, next & 0xff}) frame.push_back(static_cast<uint8_t>(byte));
  }
  frame.resize(frame.size() + 46);
  return frame;
}

TEST_F(ForwarderTest, RefusesFramesFromAPeer) {
  const MacAddr pause = MacAddr::FromUint64(0x0180c2000001),
                slow = MacAddr::FromUint64(0x0180c2000002);
  const FrameDropRow rows[] = {
      {"a control message", MakeFrame(kB, kC, -1, 46, kEtherTypeControl),
       DropReason::kControlMessage},
      {"a control message behind a tag", MakeFrame(kB, kC, 10, 46, kEtherTypeControl),
       DropReason::kControlEthertype},
      {"a control message behind a priority tag", MakeFrame(kB, kC, 0, 46, kEtherTypeControl),
       DropReason::kControlEthertype},
      {"a control message behind a provider tag", BehindTags({0x88a8}, kEtherTypeControl),
       DropReason::kControlEthertype},
      {"a control message behind two tags", BehindTags({0x8100, 0x8100}, kEtherTypeControl),
       DropReason::kControlEthertype},
      {"a control message behind two kinds of tag", BehindTags({0x88a8, 0x8100}, kEtherTypeControl),
       DropReason::kControlEthertype},
      {"whatever is behind nine tags", BehindTags(std::vector<uint16_t>(9, 0x8100), 0x88b6),
       DropReason::kControlEthertype},
      {"the alternative header's EtherType", MakeFrame(kB, kC, -1, 46, kEtherTypeAlternative),
       DropReason::kControlEthertype},
      {"the alternative header's EtherType behind a tag",
       MakeFrame(kB, kC, 10, 46, kEtherTypeAlternative), DropReason::kControlEthertype},
      {"pause", MakeFrame(pause, kC, -1, 46, 0x8808), DropReason::kLinkLocalControl},
      {"pause behind a tag", MakeFrame(pause, kC, 10, 46, 0x8808), DropReason::kLinkLocalControl},
      {"LACP", MakeFrame(slow, kC, -1, 46, 0x8809), DropReason::kLinkLocalControl},
      {"LACP behind a tag", MakeFrame(slow, kC, 10, 46, 0x8809), DropReason::kLinkLocalControl},
  };
  Host* peer = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p2 = h2->AddPort("p2", Trunk({0, 10}));
  for (const FrameDropRow& row : rows) {
    SCOPED_TRACE(row.description);
    const uint64_t before = h2->dropped(row.reason);
    peer->SendRawToGroup(Encapsulated(0xc0000000, row.frame));
    Settle();
    EXPECT_EQ(h2->dropped(row.reason), before + 1);
    EXPECT_THAT(Frames(p2), IsEmpty());
  }
  EXPECT_EQ(h2->fdb()->size(), 0u) << "nothing is learned from them";
  for (uint64_t passes : {0x0180c2000000, 0x0180c200000e}) {  // STP, LLDP
    peer->SendRawToGroup(Encapsulated(0xc0000000, MakeFrame(MacAddr::FromUint64(passes), kC)));
    Settle();
    EXPECT_THAT(Frames(p2), SizeIs(1));
  }
  const Bytes behind_eight = BehindTags(std::vector<uint16_t>(8, 0x8100), 0x88b6);
  peer->SendRawToGroup(Encapsulated(0xc0000000, behind_eight));
  Settle();
  EXPECT_THAT(Frames(p2), ElementsAre(behind_eight)) << "as many tags as are looked behind";
}

TEST_F(ForwarderTest, TheMaskSaysWhichReservedGroupsPassFromBothSides) {
  for (uint16_t mask : {0x0000, 0x0004, 0x4001, 0x8000, 0xfffd}) {
    Host::Options options;
    options.group_fwd_mask = mask;
    Host* host = AddHost(absl::StrCat("masked", mask), options);
    Host* peer = AddHost(absl::StrCat("peer", mask));
    TestPort* p1 = host->AddPort("p1");
    TestPort* p2 = host->AddPort("p2");
    for (int group = 0; group < 16; ++group) {
      SCOPED_TRACE(absl::StrCat("mask ", mask, ", group ", group));
      const Bytes frame = MakeFrame(MacAddr::FromUint64(0x0180c2000000 + group), kA);
      const bool passes = (mask >> group & 1) != 0;
      const uint64_t before = host->dropped(DropReason::kLinkLocalControl);
      p1->Inject(frame);
      host->Turn();
      EXPECT_THAT(Frames(p2), SizeIs(passes ? 1 : 0));
      peer->SendRawTo(*host, Encapsulated(0xc0000000, frame));
      host->Turn();
      EXPECT_THAT(Frames(p2), SizeIs(passes ? 1 : 0));
      EXPECT_EQ(host->dropped(DropReason::kLinkLocalControl), before + (passes ? 0 : 2));
    }
  }
  Settle();
}

TEST_F(ForwarderTest, TheLargestFrameArrivesWholeAndAFloodMustFitWithItsTag) {
  Host* h1 = AddHost("h1");
  TestPort* p1 = h1->AddPort("p1", Trunk({10}, 0));
  TestPort* access = h1->AddPort("access", Access(10));
  TestPort* p2 = AddHost("h2")->AddPort("p2", Trunk({0, 10}, 0));
  const Bytes largest = MakeFrame(kB, kA, 10, kMtu - 18);
  p1->Inject(largest);
  Settle();
  EXPECT_THAT(Frames(p2), ElementsAre(largest));
  access->Inject(MakeFrame(kB, kC, -1, kMtu - 14));
  Settle();
  EXPECT_THAT(Frames(p2), IsEmpty());
  EXPECT_EQ(h1->dropped(DropReason::kNotSegmentable), 2u) << "to p1 and to the group";
}

TEST_F(ForwarderTest, ShortFramesArePaddedWithZeros) {
  TestPort* p1 = AddHost("h1")->AddPort("p1");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  p1->Inject(MakeFrame(kB, kA, -1, 4));
  Settle();
  Bytes padded = MakeFrame(kB, kA, -1, 4);
  padded.resize(kMinFrameSize, 0);
  EXPECT_THAT(Frames(p2), ElementsAre(padded));
}

struct WireDropRow {
  const char* description;
  uint32_t header;
  DropReason reason;
};

TEST_F(ForwarderTest, HeaderFieldsAtTheirExtremes) {
  const WireDropRow rows[] = {
      {"no signature", 0x00000000, DropReason::kNotEoib},
      {"signature 10", 0x80000000, DropReason::kNotEoib},
      {"version 3", 0xf0000000, DropReason::kBadVersion},
      {"more segments", 0xc0200000, DropReason::kSegment},
      {"last segment", 0xc01f0000, DropReason::kSegment},
      {"segment id alone", 0xc000ffff, DropReason::kSegment},
      {"an extension that no sender writes", 0xc0800000, DropReason::kSegment},
      {"FCS present, which the frame does not end with", 0xc0400000, DropReason::kBadFcs},
      {"FCS of a segment", 0xc0600000, DropReason::kSegment},
      {"reserved checksum status", 0xcc000000, DropReason::kHeaderReserved},
      {"all ones", 0xffffffff, DropReason::kBadVersion},
  };
  Host* peer = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p2 = h2->AddPort("p2");
  for (const WireDropRow& row : rows) {
    SCOPED_TRACE(row.description);
    const uint64_t before = h2->dropped(row.reason);
    peer->SendRawTo(*h2, Encapsulated(row.header, MakeFrame(kB, kA)));
    Settle();
    EXPECT_EQ(h2->dropped(row.reason), before + 1);
    EXPECT_THAT(Frames(p2), IsEmpty());
  }
}

TEST_F(ForwarderTest, AFrameThroughAGroupThatIsNotItsVlansIsDropped) {
  Host* peer = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p2 = h2->AddPort("p2");
  const MacAddr group = MacAddr::FromUint64(0x0100'5e00'0001);
  const AhIndex ah = peer->JoinOtherGroup(group);
  h2->JoinOtherGroup(group);
  peer->SendRaw(Encapsulated(0xc0000000, MakeFrame(group, kA)), ah, Qpn(Qpn::kMulticast));
  Settle();
  EXPECT_EQ(h2->dropped(DropReason::kGroupMismatch), 1u);
  EXPECT_THAT(Frames(p2), IsEmpty());
}

TEST_F(ForwarderTest, AKnownAddressBehindAPortWithoutItsVlanIsNotReached) {
  TestPort* p1 = AddHost("h1")->AddPort("p1", Trunk({10, 20}));
  Host* h2 = AddHost("h2");
  TestPort* p2 = h2->AddPort("p2", Trunk({10}));
  ASSERT_TRUE(h2->fdb()->AddStatic(FdbKey(Vid(20), kB), h2->forwarder()->ports()[0].vport).ok());
  p1->Inject(MakeFrame(kB, kA, 20));
  Settle();
  EXPECT_EQ(h2->dropped(DropReason::kEgressVlan), 1u);
  EXPECT_THAT(Frames(p2), IsEmpty());
}

TEST_F(ForwarderTest, RandomDatagramsAreHarmlessAndADropAllocatesNothing) {
  Host* peer = AddHost("h1");
  Host* h2 = AddHost("h2");
  h2->AddPort("p2", Access(10))->SetDiscard(true);
  std::mt19937 random(20);
  size_t dropped = 0, forwarded = 0;
  for (int i = 0; i < 20000; ++i) {
    Bytes datagram(random() % (i % 16 == 0 ? 4096 : 120));
    for (uint8_t& byte : datagram) byte = static_cast<uint8_t>(random());
    // Half get a valid or nearly valid header, and half of these a tag that the port carries.
    if (i % 2 == 0 && datagram.size() >= kEoibHeaderSize) {
      datagram[0] = 0xc0 | (random() % 4 == 0 ? datagram[0] & 0x3f : 0);
      datagram[1] = datagram[2] = datagram[3] = 0;
      if (datagram.size() > 20 && random() % 8 != 0) datagram[10] &= 0xfe;
      if (datagram.size() > 20 && i % 4 == 0)
        datagram[16] = 0x81, datagram[17] = 0, datagram[18] = 0, datagram[19] = 10;
    }
    peer->SendRawTo(*h2, datagram);
    const uint64_t before = h2->counters().forwarded.value(),
                   learned = h2->fdb()->counters().learned;
    counting_allocations = true;
    allocations = 0;
    h2->Turn();
    counting_allocations = false;
    if (h2->counters().forwarded.value() != before)
      ++forwarded;
    else
      ++dropped;
    // Learning a new MAC may allocate its entry.
    if (h2->fdb()->counters().learned == learned) {
      ASSERT_EQ(allocations, 0u) << "datagram " << i;
    }
    Settle();
  }
  clock_.Advance(Reassembler::kLifetime);
  Settle();
  EXPECT_EQ(h2->counters().from_fabric.value(), 20000u);
  EXPECT_GT(dropped, 10000u);
  EXPECT_GT(forwarded, 1000u);
  for (DropReason reason :
       {DropReason::kNotEoib, DropReason::kBadVersion, DropReason::kHeaderReserved,
        DropReason::kRunt, DropReason::kBadSource, DropReason::kNoEgress, DropReason::kSegment}) {
    EXPECT_GT(h2->dropped(reason), 0u) << InfoOf(reason).label;
  }
}

struct SteadyRow {
  const char* description;
  Bytes frame;
  ChecksumRequest request;
};

Bytes PreparedUdp(ChecksumRequest* request);

// For every kind of frame: once its addresses are known, forwarding a batch allocates nothing on
// either side.
TEST_F(ForwarderTest, KnownTrafficAllocatesNothingAndGoesInBatches) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1", Trunk({10, 20}, 10));
  h1->AddPort("p1b", Access(10))->SetDiscard(true);
  TestPort* p2 = h2->AddPort("p2", Access(10));
  h2->AddPort("p2b", Trunk({10, 20}))->SetDiscard(true);
  p2->SetDiscard(true);
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  p1->Inject(MakeFrame(MacAddr::Broadcast(), kA, 20));
  p2->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  Settle();
  SteadyRow rows[] = {
      {"known unicast that gets a tag and loses it again", MakeFrame(kB, kA), {}},
      {"broadcast, to ports and the fabric", MakeFrame(MacAddr::Broadcast(), kA), {}},
      {"unknown unicast, tagged", MakeFrame(kC, kA, 20), {}},
      {"an unfinished checksum", {}, {}},
      {"too large", MakeFrame(kB, kA, -1, kMtu), {}},
  };
  rows[3].frame = PreparedUdp(&rows[3].request);
  for (const SteadyRow& row : rows) {
    SCOPED_TRACE(row.description);
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 64; ++i) p1->Inject(row.frame, row.request);
      const uint64_t before = h1->counters().frames_in.value();
      counting_allocations = round > 0;  // the first round may grow a ring
      allocations = 0;
      h1->forwarder()->PollPort(0);
      h1->forwarder()->Housekeep();
      EXPECT_EQ(h1->counters().frames_in.value(), before + 64) << "one call forwards the batch";
      for (int turn = 0; turn < 3; ++turn) {
        for (Host* host : {h1, h2}) {
          host->forwarder()->PollFabric();
          host->forwarder()->Housekeep();
        }
      }
      counting_allocations = false;
      EXPECT_EQ(allocations, 0u);
      Settle();
    }
  }
}

TEST_F(ForwarderTest, HandingMessagesToAndFromControlAllocatesNothing) {
  Host *h1 = AddHost("h1"), *h2 = AddHost("h2");
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(h1->SendMessage(VPortId::None(), Bytes(1900)));
    counting_allocations = i > 0;  // the first one makes the sender's vPort
    allocations = 0;
    for (Host* host : {h1, h2}) host->Turn();
    counting_allocations = false;
    EXPECT_EQ(allocations, 0u);
    EXPECT_THAT(h2->TakeMessages(), SizeIs(1));
  }
  Settle();
}

// An IPv4 UDP frame with a prepared checksum: the field has the pseudo-header sum only.
Bytes PreparedUdp(ChecksumRequest* request) {
  Bytes frame = MakeFrame(kB, kA, -1, 0, kEtherTypeIpv4);
  const uint8_t ip[] = {0x45, 0, 0, 60, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2};
  const uint8_t udp[] = {0x12, 0x34, 0x56, 0x78, 0, 40, 0, 0};
  frame.insert(frame.end(), std::begin(ip), std::end(ip));
  const uint16_t ip_sum = ~OnesComplementSum({&frame[14], 20});
  frame[24] = static_cast<uint8_t>(ip_sum >> 8), frame[25] = static_cast<uint8_t>(ip_sum);
  frame.insert(frame.end(), std::begin(udp), std::end(udp));
  for (int i = 0; i < 32; ++i) frame.push_back(static_cast<uint8_t>(i * 7));
  const uint16_t pseudo = OnesComplementSum({&frame[26], 8}, 17 + 40);
  frame[40] = static_cast<uint8_t>(pseudo >> 8), frame[41] = static_cast<uint8_t>(pseudo);
  *request = {true, 34, 6};
  return frame;
}

Bytes WithFcs(Bytes frame) {
  const auto fcs = FinishIcrc(UpdateIcrc(kIcrcSeed, frame));
  frame.insert(frame.end(), fcs.begin(), fcs.end());
  return frame;
}

TEST_F(ForwarderTest, AnFcsIsVerifiedAndStripped) {
  Host* peer = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p2 = h2->AddPort("p2", Trunk({0, 10}));
  const Bytes frames[] = {MakeFrame(kB, kA), MakeFrame(kB, kA, 10), MakeFrame(kB, kA, -1, 4),
                          MakeFrame(kB, kA, -1, 1500)};
  uint64_t dropped = 0;
  for (const Bytes& frame : frames) {
    SCOPED_TRACE(frame.size());
    Bytes with_fcs = WithFcs(frame);
    peer->SendRawTo(*h2, Encapsulated(0xc0400000, with_fcs));
    Settle();
    EXPECT_THAT(Frames(p2), ElementsAre(frame));
    with_fcs[frame.size() / 2] ^= 1;
    peer->SendRawTo(*h2, Encapsulated(0xc0400000, with_fcs));
    Settle();
    EXPECT_EQ(h2->dropped(DropReason::kBadFcs), ++dropped);
    EXPECT_THAT(Frames(p2), IsEmpty());
  }
  peer->SendRawTo(*h2, Encapsulated(0xc0400000, {0, 0, 0}));
  peer->SendRawTo(*h2, Encapsulated(0xc0400000, WithFcs(Bytes(13))));
  Settle();
  EXPECT_EQ(h2->dropped(DropReason::kBadFcs), dropped + 1) << "less than an FCS";
  EXPECT_EQ(h2->dropped(DropReason::kRunt), 1u) << "less than a header, without the FCS";
}

TEST_F(ForwarderTest, AnFcsCoversAFrameWhoseChecksumIsNotInIt) {
  Host* peer = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p2 = h2->AddPort("p2");
  ChecksumRequest request;
  const Bytes frame = PreparedUdp(&request);
  peer->SendRawTo(*h2, Encapsulated(0xc8400000, WithFcs(frame)));
  Settle();
  const auto sent = p2->TakeTransmitted();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].bytes, frame);
  EXPECT_EQ(sent[0].checksum, request);
}

bool UdpSumVerifies(const Bytes& frame, size_t ip) {
  return OnesComplementSum({&frame[ip + 20], 40},
                           OnesComplementSum({&frame[ip + 12], 8}, 17 + 40)) == 0xffff;
}

TEST_F(ForwarderTest, AnUnfinishedChecksumTravelsAsVouchedForAndIsFinishedAtTheEnd) {
  Host* h1 = AddHost("h1");
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1", Access(10));
  TestPort* trunk = h2->AddPort("trunk", Trunk({10}));
  TestPort* access = h2->AddPort("access", Access(10));
  ChecksumRequest request;
  const Bytes frame = PreparedUdp(&request);
  p1->Inject(frame, request);
  Settle();
  EXPECT_EQ(h1->counters().checksums_vouched.value(), 1u);
  const struct {
    TestPort* port;
    size_t ip;
  } rows[] = {{trunk, 18}, {access, 14}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.port->name());
    auto sent = row.port->TakeTransmitted();
    ASSERT_THAT(sent, SizeIs(1));
    EXPECT_EQ(sent[0].checksum, (ChecksumRequest{true, static_cast<uint16_t>(row.ip + 20), 6}));
    EXPECT_FALSE(UdpSumVerifies(sent[0].bytes, row.ip));
    CompleteChecksum(absl::MakeSpan(sent[0].bytes), sent[0].checksum);
    EXPECT_TRUE(UdpSumVerifies(sent[0].bytes, row.ip));
  }
}

// The alternative header cannot vouch, so the fabric's copy has a complete checksum. The copy for a
// local port need not.
TEST_F(ForwarderTest, TheAlternativeHeaderCarriesFinishedChecksums) {
  Host::Options alternative;
  alternative.header_form = HeaderForm::kAlternative;
  Host* h1 = AddHost("h1", alternative);
  Host* h2 = AddHost("h2");
  TestPort* p1 = h1->AddPort("p1", Access(10));
  TestPort* local = h1->AddPort("local", Access(10));
  ChecksumRequest request;
  const Bytes frame = PreparedUdp(&request);
  p1->Inject(frame, request);
  h1->Turn();
  const std::vector<Bytes> datagrams = h2->ReceiveRaw();
  ASSERT_THAT(datagrams, SizeIs(1));
  EXPECT_EQ(ToHex(absl::MakeConstSpan(datagrams[0]).first(kEoibHeaderSize)), "89190000");
  const Bytes sent(datagrams[0].begin() + kEoibHeaderSize, datagrams[0].end());
  EXPECT_TRUE(UdpSumVerifies(sent, 18));
  EXPECT_EQ(h1->counters().checksums_vouched.value(), 0u);
  const auto copies = local->TakeTransmitted();
  ASSERT_THAT(copies, SizeIs(1));
  EXPECT_EQ(copies[0].bytes, frame);
  EXPECT_EQ(copies[0].checksum, request);
}

TEST_F(ForwarderTest, AgentsOfBothHeadersUnderstandEachOther) {
  Host::Options alternative;
  alternative.header_form = HeaderForm::kAlternative;
  TestPort* p1 = AddHost("h1", alternative)->AddPort("p1");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  ChecksumRequest request;
  const Bytes prepared = PreparedUdp(&request);  // from A to B
  for (int round = 0; round < 2; ++round) {      // unknown, then known
    p1->Inject(prepared, request);
    Settle();
    const auto sent = p2->TakeTransmitted();
    ASSERT_THAT(sent, SizeIs(1));
    EXPECT_FALSE(sent[0].checksum.needed);
    EXPECT_TRUE(UdpSumVerifies(sent[0].bytes, 14));
    p2->Inject(MakeFrame(kA, kB));
    Settle();
    EXPECT_THAT(Frames(p1), ElementsAre(MakeFrame(kA, kB)));
  }
}

TEST_F(ForwarderTest, AWrongChecksumIsDeliveredAsItIsAndNeverMarkedValid) {
  TestPort* p1 = AddHost("h1")->AddPort("p1");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  ChecksumRequest request;
  Bytes frame = PreparedUdp(&request);
  frame[40] = 0xba, frame[41] = 0xad;
  p1->Inject(frame);  // no request: the sender claims that the sum is complete
  Settle();
  auto sent = p2->TakeTransmitted();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].bytes, frame);
  EXPECT_FALSE(sent[0].checksum.needed);
}

TEST_F(ForwarderTest, AChecksumRequestThatIsNotTcpOrUdpIsFinishedBeforeTheFabric) {
  Host* h1 = AddHost("h1");
  TestPort* p1 = h1->AddPort("p1");
  TestPort* p2 = AddHost("h2")->AddPort("p2");
  p1->Inject(MakeFrame(kB, kA), ChecksumRequest{true, 20, 4});
  Settle();
  auto sent = p2->TakeTransmitted();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_FALSE(sent[0].checksum.needed);
  EXPECT_NE(sent[0].bytes, MakeFrame(kB, kA));
  EXPECT_EQ(h1->counters().checksums_vouched.value(), 0u);
}

}  // namespace
}  // namespace eoib
