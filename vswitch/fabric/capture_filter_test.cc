#include "vswitch/fabric/capture_filter.h"

#include <vector>

#include "gtest/gtest.h"
#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/frame_for_test.h"
#include "vswitch/wire/segment_extension.h"

namespace eoib {
namespace {

Bytes Frame(MacAddr to, MacAddr from, uint16_t vid = 0) {
  Bytes frame(12);
  to.ToWire(&frame[0]);
  from.ToWire(&frame[6]);
  if (vid != 0)
    frame.insert(frame.end(),
                 {0x81, 0x00, static_cast<uint8_t>(vid >> 8), static_cast<uint8_t>(vid)});
  frame.insert(frame.end(), {0x88, 0xb6});
  frame.resize(64);
  return frame;
}

Bytes DatagramOf(const Bytes& frame, EoibHeader header = {}) {
  Bytes datagram(kEoibHeaderSize);
  EncodeEoibHeader(header, datagram.data());
  datagram.insert(datagram.end(), frame.begin(), frame.end());
  return datagram;
}

// Segment `number` of a frame that has many.
Bytes Segment(const Bytes& piece, uint8_t number, uint16_t id) {
  Bytes extended(kSegmentExtensionSize);
  EncodeSegmentExtension({.total = 3000, .piece = 1000}, extended.data());
  extended.insert(extended.end(), piece.begin(), piece.end());
  return DatagramOf(
      extended,
      {.extension = true, .more_segments = true, .segment_offset = number, .segment_id = id});
}

UdHeaders Headers(PKey pkey = PKey(0x8001), uint16_t slid = 1, uint32_t source_qpn = 0x48) {
  UdPacket packet;
  packet.slid = Lid(slid);
  packet.pkey = pkey;
  packet.source_qpn = Qpn(source_qpn);
  return MakeUdHeaders(packet);
}

TEST(CaptureFilterTest, EveryPacketPassesWithoutCondition) {
  CaptureFilter filter;
  EXPECT_TRUE(filter.Passes(Headers(), {}));
  EXPECT_TRUE(filter.Passes(Headers(), Bytes(256, 1)));
}

TEST(CaptureFilterTest, OnlyFramesPassACondition) {
  CaptureFilter filter;
  filter.vlan = Vid(0);
  EXPECT_TRUE(filter.Passes(Headers(), DatagramOf(Frame(kA, kB))));
  EXPECT_TRUE(
      filter.Passes(Headers(), DatagramOf(Frame(kA, kB), {.form = HeaderForm::kAlternative})));
  EXPECT_FALSE(filter.Passes(Headers(), {}));
  EXPECT_FALSE(filter.Passes(Headers(), Bytes(256, 1))) << "a MAD";
  EXPECT_FALSE(filter.Passes(Headers(), DatagramOf(Bytes(13))));
}

TEST(CaptureFilterTest, AllConditionsHold) {
  CaptureFilter filter;
  filter.mac = kA;
  filter.vlan = Vid(10);
  EXPECT_TRUE(filter.Passes(Headers(), DatagramOf(Frame(kA, kB, 10))));
  EXPECT_TRUE(filter.Passes(Headers(), DatagramOf(Frame(kB, kA, 10))));
  EXPECT_FALSE(filter.Passes(Headers(), DatagramOf(Frame(kB, kC, 10))));
  EXPECT_FALSE(filter.Passes(Headers(), DatagramOf(Frame(kA, kB, 11))));
  EXPECT_FALSE(filter.Passes(Headers(), DatagramOf(Frame(kA, kB))));
}

TEST(CaptureFilterTest, VPortHasItsMacsAndGroupsInItsVlans) {
  CaptureFilter filter;
  filter.vport.emplace();
  filter.vport->pkey = PKey(0x0001);
  filter.vport->macs = {kA, kB};
  filter.vport->vlans.set(10);
  EXPECT_TRUE(filter.Passes(Headers(), DatagramOf(Frame(kC, kA, 10))));
  EXPECT_TRUE(filter.Passes(Headers(), DatagramOf(Frame(kB, kC, 10))));
  EXPECT_TRUE(filter.Passes(Headers(), DatagramOf(Frame(MacAddr::Broadcast(), kC, 10))));
  EXPECT_FALSE(filter.Passes(Headers(), DatagramOf(Frame(kC, kC, 10))));
  EXPECT_FALSE(filter.Passes(Headers(), DatagramOf(Frame(kC, kA, 11))));
  EXPECT_FALSE(filter.Passes(Headers(PKey(0x8002)), DatagramOf(Frame(kC, kA, 10))))
      << "another VES";
}

TEST(CaptureFilterTest, SegmentsPassWithTheFirstOne) {
  CaptureFilter filter;
  filter.mac = kA;
  const Bytes piece(900, 0xaa);
  EXPECT_FALSE(filter.Passes(Headers(), Segment(piece, 1, 7))) << "nothing is known of this frame";
  EXPECT_TRUE(filter.Passes(Headers(), Segment(Frame(kB, kA), 0, 7)));
  EXPECT_TRUE(filter.Passes(Headers(), Segment(piece, 1, 7)));
  EXPECT_FALSE(filter.Passes(Headers(PKey(0x8001), 2), Segment(piece, 1, 7))) << "of another port";
  EXPECT_FALSE(filter.Passes(Headers(PKey(0x8001), 1, 0x49), Segment(piece, 1, 7)))
      << "of another queue pair";
  EXPECT_FALSE(filter.Passes(Headers(), Segment(Frame(kB, kC), 0, 8)));
  EXPECT_FALSE(filter.Passes(Headers(), Segment(piece, 1, 8)));
  EXPECT_TRUE(filter.Passes(Headers(), Segment(piece, 2, 7)));
}

}  // namespace
}  // namespace eoib
