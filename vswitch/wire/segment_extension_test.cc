#include "vswitch/wire/segment_extension.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "vswitch/base/byte_order.h"
#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/super_frame_for_test.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(SegmentExtensionTest, Decode) {
  const struct {
    const char* description;
    const char* hex;
    bool accepted;
    SegmentExtension extension;
  } kRows[] = {
      {"64 KiB of TCP in datagrams of 4 KiB, MSS 1448",
       "fde80ff405a81022",
       true,
       {65000, 4084, {GsoType::kTcp, 1448}, 34}},
      {"TCP with CWR behind a tag",
       "fde80ff405a89026",
       true,
       {65000, 4084, {GsoType::kTcpEcn, 1448}, 38}},
      {"UDP over IPv6", "800007f404b02036", true, {32768, 2036, {GsoType::kUdp, 1200}, 54}},
      {"a frame of 9,000 bytes with a checksum", "23360ff400000022", true, {9014, 4084, {}, 34}},
      {"without one", "23360ff400000000", true, {9014, 4084, {}, 0}},
      {"the largest start of a checksum", "23360ff400000fff", true, {9014, 4084, {}, 0xfff}},
      {"as many segments as there may be", "0020000100000000", true, {32, 1, {}, 0}},
      {"one more", "0021000100000000", false, {}},
      {"type 3", "fde80ff405a83022", false, {}},
      {"UDP with CWR", "fde80ff405a8a022", false, {}},
      {"CWR alone", "fde80ff405a88022", false, {}},
      {"a segment size without a type", "fde80ff405a80022", false, {}},
      {"a type without a segment size", "fde80ff400001022", false, {}},
      {"no pieces", "fde8000005a81022", false, {}},
      {"shorter than an Ethernet header", "000d0ff400000000", false, {}},
      {"seven bytes", "fde80ff405a810", false, {}},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.description);
    SegmentExtension extension;
    const Bytes bytes = FromHex(row.hex);
    ASSERT_EQ(DecodeSegmentExtension(bytes, &extension), row.accepted);
    if (!row.accepted) continue;
    EXPECT_EQ(extension, row.extension);
    Bytes encoded(kSegmentExtensionSize, 0xee);
    EncodeSegmentExtension(extension, encoded.data());
    EXPECT_EQ(ToHex(encoded), row.hex);
  }
}

class AcceptSuperFrameTest : public testing::Test {
 protected:
  AcceptSuperFrameTest() {
    shape_.payload = 9000;
    frame_ = MakeSuperFrame(shape_, &request_);
    extension_ = {
        static_cast<uint16_t>(frame_.size()), 4084, {GsoType::kTcp, 1448}, request_.start};
  }

  // Offers only the head of the frame, as a receiver has it in one buffer.
  bool Accept(const SegmentExtension& extension, L4Checksum vouched, ChecksumRequest* request) {
    return AcceptSuperFrame(absl::MakeSpan(frame_).first(extension_.piece), extension, vouched,
                            request);
  }
  bool Accepts(const SegmentExtension& extension, L4Checksum vouched) {
    ChecksumRequest request;
    const bool accepted = Accept(extension, vouched, &request);
    EXPECT_FALSE(!accepted && request.needed);
    return accepted;
  }

  SuperFrameShape shape_;
  ChecksumRequest request_;
  Bytes frame_;
  SegmentExtension extension_;
};

TEST_F(AcceptSuperFrameTest, RewritesThePseudoHeaderSum) {
  const Bytes before = frame_;
  WriteWire(be16(0xdead), &frame_[size_t{request_.start} + request_.offset]);
  ChecksumRequest request;
  ASSERT_TRUE(Accept(extension_, L4Checksum::kTcpOk, &request));
  EXPECT_EQ(request, request_);
  EXPECT_EQ(frame_, before);
}

TEST_F(AcceptSuperFrameTest, ALargeFrameThatIsNoSuperFrame) {
  extension_.gso = {};
  EXPECT_TRUE(Accepts(extension_, L4Checksum::kTcpOk));
  extension_.checksum_start = 0;
  EXPECT_FALSE(Accepts(extension_, L4Checksum::kTcpOk));
  const Bytes before = frame_;
  ChecksumRequest request;
  EXPECT_TRUE(Accept(extension_, L4Checksum::kNone, &request));
  EXPECT_FALSE(request.needed);
  EXPECT_EQ(frame_, before) << "nothing is vouched for, so nothing changes";
}

TEST_F(AcceptSuperFrameTest, RefusesADescriptionOfAnotherFrame) {
  const auto changed = [this](auto change) {
    SegmentExtension extension = extension_;
    change(&extension);
    return extension;
  };
  EXPECT_TRUE(Accepts(extension_, L4Checksum::kTcpOk));
  EXPECT_FALSE(Accepts(extension_, L4Checksum::kUdpOk)) << "another protocol";
  EXPECT_FALSE(Accepts(extension_, L4Checksum::kNone)) << "segments need a checksum";
  EXPECT_FALSE(Accepts(changed([](SegmentExtension* e) { ++e->total; }), L4Checksum::kTcpOk))
      << "bytes behind the packet";
  EXPECT_FALSE(Accepts(changed([](SegmentExtension* e) { --e->total; }), L4Checksum::kTcpOk))
      << "the packet is longer";
  EXPECT_FALSE(
      Accepts(changed([](SegmentExtension* e) { ++e->checksum_start; }), L4Checksum::kTcpOk));
  EXPECT_FALSE(Accepts(changed([](SegmentExtension* e) { e->gso.type = GsoType::kUdp; }),
                       L4Checksum::kTcpOk));
  EXPECT_FALSE(Accepts(changed([](SegmentExtension* e) { e->gso.size = 7; }), L4Checksum::kTcpOk))
      << "too small a segment";
  EXPECT_FALSE(
      Accepts(changed([](SegmentExtension* e) { e->gso.size = 9000; }), L4Checksum::kTcpOk))
      << "one segment only";
  frame_[12 + 2 + 20 + 12] = 0xf0;  // a TCP header of 60 bytes is as good as any
  EXPECT_TRUE(Accepts(extension_, L4Checksum::kTcpOk));
  frame_[12 + 2 + 20 + 12] = 0x40;
  EXPECT_FALSE(Accepts(extension_, L4Checksum::kTcpOk)) << "a TCP header of 16 bytes";
}

TEST_F(AcceptSuperFrameTest, UdpHasAtMost128Segments) {
  shape_.udp = true;
  frame_ = MakeSuperFrame(shape_, &request_);
  extension_ = {static_cast<uint16_t>(frame_.size()), 4084, {GsoType::kUdp, 71}, request_.start};
  EXPECT_TRUE(Accepts(extension_, L4Checksum::kUdpOk));
  extension_.gso.size = 70;
  EXPECT_FALSE(Accepts(extension_, L4Checksum::kUdpOk)) << "129 segments";
}

}  // namespace
}  // namespace eoib
