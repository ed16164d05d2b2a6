#include "vswitch/port/coalescer.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

struct Segment {
  bool ipv6 = false;
  uint32_t sequence = 1000;
  uint32_t acknowledgement = 77;
  uint16_t port = 5001;
  uint16_t window = 500;
  uint8_t flags = 0x10;
  uint8_t ttl = 64;
  uint16_t fragment = 0x4000;
  uint32_t timestamp = 9;
  size_t payload = 100;
  size_t padding = 0;
};

void Put(Bytes* bytes, uint64_t value, int size) {
  for (int i = size - 1; i >= 0; --i) bytes->push_back(static_cast<uint8_t>(value >> (8 * i)));
}

// A frame with TCP timestamps and a prepared checksum. Its payload byte at sequence number n is n
// mod 251.
Bytes Make(const Segment& s, ChecksumRequest* request) {
  Bytes frame = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
  Put(&frame, s.ipv6 ? 0x86dd : 0x0800, 2);
  const size_t tcp_length = 32 + s.payload;
  if (s.ipv6) {
    Put(&frame, 0x60000000, 4);
    Put(&frame, tcp_length, 2);
    Put(&frame, 6, 1);
    Put(&frame, s.ttl, 1);
    for (int i = 0; i < 32; ++i) frame.push_back(static_cast<uint8_t>(i));
  } else {
    Put(&frame, 0x4500, 2);
    Put(&frame, 20 + tcp_length, 2);
    Put(&frame, s.sequence & 0xffff, 2);  // a different identification in each frame
    Put(&frame, s.fragment, 2);
    Put(&frame, s.ttl, 1);
    Put(&frame, 6, 1);
    Put(&frame, 0, 2);
    for (int i = 0; i < 8; ++i) frame.push_back(static_cast<uint8_t>(10 + i));
    const uint16_t sum = static_cast<uint16_t>(~OnesComplementSum({&frame[14], 20}));
    frame[24] = static_cast<uint8_t>(sum >> 8), frame[25] = static_cast<uint8_t>(sum);
  }
  *request = {true, static_cast<uint16_t>(frame.size()), 16};
  Put(&frame, s.port, 2);
  Put(&frame, 80, 2);
  Put(&frame, s.sequence, 4);
  Put(&frame, s.acknowledgement, 4);
  Put(&frame, 0x80, 1);
  Put(&frame, s.flags, 1);
  Put(&frame, s.window, 2);
  Put(&frame, 0, 4);
  Put(&frame, 0x0101080a, 4);
  Put(&frame, s.timestamp, 4);
  Put(&frame, 1, 4);
  for (size_t i = 0; i < s.payload; ++i)
    frame.push_back(static_cast<uint8_t>((s.sequence + i) % 251));
  frame.resize(frame.size() + s.padding, 0);
  AcceptChecksum(absl::MakeSpan(frame), L4Checksum::kTcpOk);
  return frame;
}

bool Add(Coalescer* coalescer, const Segment& segment) {
  ChecksumRequest request;
  const Bytes frame = Make(segment, &request);
  return coalescer->Add(frame, request);
}

Segment After(Segment segment, size_t payload) {
  segment.sequence += static_cast<uint32_t>(segment.payload);
  segment.payload = payload;
  return segment;
}

TEST(CoalescerTest, SegmentsThatContinueARun) {
  Segment next;
  next.sequence = 1100;
  const auto with = [&next](auto change) {
    Segment segment = next;
    change(&segment);
    return segment;
  };
  const struct {
    const char* description;
    Segment second;  // follows a first one with the defaults
    bool joined;
  } kRows[] = {
      {"the next bytes", next, true},
      {"fewer bytes", with([](Segment* s) { s->payload = 5; }), true},
      {"pushed", with([](Segment* s) { s->flags = 0x18; }), true},
      {"padded", with([](Segment* s) { s->payload = 2, s->padding = 4; }), true},
      {"more bytes than the first", with([](Segment* s) { s->payload = 101; }), false},
      {"a gap", with([](Segment* s) { s->sequence = 1101; }), false},
      {"a repetition", with([](Segment* s) { s->sequence = 1000; }), false},
      {"another connection", with([](Segment* s) { s->port = 5002; }), false},
      {"another acknowledgement", with([](Segment* s) { s->acknowledgement = 78; }), false},
      {"another window", with([](Segment* s) { s->window = 501; }), false},
      {"another timestamp", with([](Segment* s) { s->timestamp = 10; }), false},
      {"another TTL", with([](Segment* s) { s->ttl = 63; }), false},
      {"FIN", with([](Segment* s) { s->flags = 0x11; }), false},
      {"SYN", with([](Segment* s) { s->flags = 0x12; }), false},
      {"congestion echo", with([](Segment* s) { s->flags = 0x50; }), false},
      {"no data", with([](Segment* s) { s->payload = 0; }), false},
      {"may be fragmented", with([](Segment* s) { s->fragment = 0; }), false},
      {"a fragment", with([](Segment* s) { s->fragment = 0x6000; }), false},
      {"the other IP version", with([](Segment* s) { s->ipv6 = true; }), false},
  };
  for (const auto& row : kRows) {
    Coalescer coalescer;
    ASSERT_TRUE(Add(&coalescer, Segment()));
    EXPECT_EQ(Add(&coalescer, row.second), row.joined) << row.description;
    EXPECT_EQ(coalescer.Take().segments, row.joined ? 2u : 1u) << row.description;
  }
}

TEST(CoalescerTest, NothingFollowsAShortOrPushedSegment) {
  for (const bool push : {false, true}) {
    Coalescer coalescer;
    Segment segment;
    ASSERT_TRUE(Add(&coalescer, segment));
    segment = After(segment, push ? 100 : 99);
    if (push) segment.flags = 0x18;
    ASSERT_TRUE(Add(&coalescer, segment));
    segment = After(segment, 10);
    segment.flags = 0x10;
    EXPECT_FALSE(Add(&coalescer, segment));
  }
}

TEST(CoalescerTest, AFrameWithACompleteChecksumIsNotTouched) {
  Coalescer coalescer;
  ChecksumRequest request;
  const Bytes frame = Make(Segment(), &request);
  EXPECT_FALSE(coalescer.Add(frame, ChecksumRequest()));
}

TEST(CoalescerTest, AWrongIpHeaderChecksumIsNotRepaired) {
  Coalescer coalescer;
  ChecksumRequest request;
  Bytes frame = Make(Segment(), &request);
  ++frame[24];
  EXPECT_FALSE(coalescer.Add(frame, request));
}

TEST(CoalescerTest, ARunOfOneLeavesAsItCame) {
  Coalescer coalescer;
  Segment segment;
  segment.payload = 1;
  segment.padding = 3;
  ChecksumRequest request;
  const Bytes frame = Make(segment, &request);
  ASSERT_TRUE(coalescer.Add(frame, request));
  const Coalescer::Joined joined = coalescer.Take();
  EXPECT_EQ(Bytes(joined.frame.begin(), joined.frame.end()), frame);
  EXPECT_EQ(joined.checksum, request);
  EXPECT_FALSE(coalescer.pending());
}

// The joined frame has the fields of one large segment: lengths, IPv4 header checksum,
// pseudo-header sum, data in order.
TEST(CoalescerTest, AJoinedFrameIsOneLargeSegment) {
  for (const bool ipv6 : {false, true}) {
    SCOPED_TRACE(ipv6 ? "IPv6" : "IPv4");
    Coalescer coalescer;
    Segment segment;
    segment.ipv6 = ipv6;
    ASSERT_TRUE(Add(&coalescer, segment));
    for (int i = 0; i < 8; ++i) {
      segment = After(segment, 100);
      ASSERT_TRUE(Add(&coalescer, segment));
    }
    segment = After(segment, 42);
    segment.flags = 0x18;
    ASSERT_TRUE(Add(&coalescer, segment));
    const Coalescer::Joined joined = coalescer.Take();
    EXPECT_EQ(joined.segments, 10u);
    EXPECT_EQ(joined.segment_length, 100);
    EXPECT_EQ(joined.ipv6, ipv6);

    Segment large;
    large.ipv6 = ipv6;
    large.payload = 942;
    large.flags = 0x18;
    ChecksumRequest request;
    Bytes expected = Make(large, &request);
    EXPECT_EQ(joined.checksum, request);
    EXPECT_EQ(joined.header_length, expected.size() - 942);
    EXPECT_EQ(Bytes(joined.frame.begin(), joined.frame.end()), expected);
  }
}

TEST(CoalescerTest, ARunEndsBeforeTheLengthFieldDoes) {
  Coalescer coalescer;
  Segment segment;
  segment.payload = 4000;
  size_t taken = 0;
  for (; Add(&coalescer, segment); segment = After(segment, 4000)) ++taken;
  EXPECT_EQ(taken, 16u);
  EXPECT_LE(coalescer.Take().frame.size(), 14u + 65535u);
}

// ---- UDP

struct UdpDatagram {
  bool ipv6 = false;
  uint16_t port = 5001;
  uint16_t fragment = 0x4000;
  uint8_t ttl = 64;
  uint16_t identification = 1;
  size_t payload = 64;
  uint8_t fill = 'a';
};

// The frame of a datagram whose payload is `payload`, with a prepared checksum.
Bytes MakeUdp(const UdpDatagram& d, const Bytes& payload, ChecksumRequest* request) {
  Bytes frame = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
  Put(&frame, d.ipv6 ? 0x86dd : 0x0800, 2);
  const size_t length = 8 + payload.size();
  if (d.ipv6) {
    Put(&frame, 0x60000000, 4);
    Put(&frame, length, 2);
    Put(&frame, 17, 1);
    Put(&frame, d.ttl, 1);
    for (int i = 0; i < 32; ++i) frame.push_back(static_cast<uint8_t>(i));
  } else {
    Put(&frame, 0x4500, 2);
    Put(&frame, 20 + length, 2);
    Put(&frame, d.identification, 2);
    Put(&frame, d.fragment, 2);
    Put(&frame, d.ttl, 1);
    Put(&frame, 17, 1);
    Put(&frame, 0, 2);
    for (int i = 0; i < 8; ++i) frame.push_back(static_cast<uint8_t>(10 + i));
    const uint16_t sum = static_cast<uint16_t>(~OnesComplementSum({&frame[14], 20}));
    frame[24] = static_cast<uint8_t>(sum >> 8), frame[25] = static_cast<uint8_t>(sum);
  }
  *request = {true, static_cast<uint16_t>(frame.size()), 6};
  Put(&frame, d.port, 2);
  Put(&frame, 53, 2);
  Put(&frame, length, 2);
  Put(&frame, 0, 2);
  frame.insert(frame.end(), payload.begin(), payload.end());
  AcceptChecksum(absl::MakeSpan(frame), L4Checksum::kUdpOk);
  return frame;
}

bool Add(Coalescer* coalescer, const UdpDatagram& datagram) {
  ChecksumRequest request;
  const Bytes frame = MakeUdp(datagram, Bytes(datagram.payload, datagram.fill), &request);
  return coalescer->Add(frame, request);
}

class UdpCoalescerTest : public testing::Test {
 protected:
  UdpCoalescerTest() { coalescer_.set_joins_udp(true); }

  Coalescer coalescer_;
};

TEST_F(UdpCoalescerTest, DatagramsThatContinueARun) {
  const auto with = [](auto change) {
    UdpDatagram datagram;
    datagram.identification = 2;
    change(&datagram);
    return datagram;
  };
  const struct {
    const char* description;
    UdpDatagram second;
    bool joined;
  } rows[] = {
      {"as long", with([](UdpDatagram*) {}), true},
      {"shorter", with([](UdpDatagram* d) { d->payload = 63; }), true},
      {"longer", with([](UdpDatagram* d) { d->payload = 65; }), false},
      {"empty", with([](UdpDatagram* d) { d->payload = 0; }), false},
      {"another port", with([](UdpDatagram* d) { d->port = 5002; }), false},
      {"another TTL", with([](UdpDatagram* d) { d->ttl = 63; }), false},
      {"may be fragmented", with([](UdpDatagram* d) { d->fragment = 0; }), false},
      {"the other IP version", with([](UdpDatagram* d) { d->ipv6 = true; }), false},
  };
  for (const auto& row : rows) {
    ASSERT_TRUE(Add(&coalescer_, UdpDatagram()));
    EXPECT_EQ(Add(&coalescer_, row.second), row.joined) << row.description;
    EXPECT_EQ(coalescer_.Take().segments, row.joined ? 2u : 1u) << row.description;
  }
}

TEST_F(UdpCoalescerTest, NothingFollowsAShortDatagram) {
  UdpDatagram datagram;
  ASSERT_TRUE(Add(&coalescer_, datagram));
  datagram.payload = 30;
  ASSERT_TRUE(Add(&coalescer_, datagram));
  EXPECT_FALSE(Add(&coalescer_, datagram));
}

TEST_F(UdpCoalescerTest, ARunHasAtMostSixtyFourDatagrams) {
  int taken = 0;
  while (Add(&coalescer_, UdpDatagram())) ++taken;
  EXPECT_EQ(taken, 64);
}

TEST_F(UdpCoalescerTest, NoRunOfTcpAndUdp) {
  ASSERT_TRUE(Add(&coalescer_, UdpDatagram()));
  EXPECT_FALSE(Add(&coalescer_, Segment()));
  coalescer_.Take();
  ASSERT_TRUE(Add(&coalescer_, Segment()));
  EXPECT_FALSE(Add(&coalescer_, UdpDatagram()));
}

TEST_F(UdpCoalescerTest, ALengthThatContradictsIpIsNotRepaired) {
  ChecksumRequest request;
  Bytes frame = MakeUdp({}, Bytes(64, 'a'), &request);
  frame[14 + 20 + 5] -= 1;
  EXPECT_FALSE(coalescer_.Add(frame, request));
}

TEST_F(UdpCoalescerTest, UdpIsLeftAloneWhereTheKernelCannotCutIt) {
  coalescer_.set_joins_udp(false);
  EXPECT_FALSE(Add(&coalescer_, UdpDatagram()));
}

TEST_F(UdpCoalescerTest, AJoinedFrameIsOneLargeDatagram) {
  for (const bool ipv6 : {false, true}) {
    SCOPED_TRACE(ipv6 ? "IPv6" : "IPv4");
    UdpDatagram datagram;
    datagram.ipv6 = ipv6;
    Bytes payload;
    for (const char fill : {'a', 'b', 'c'}) {
      datagram.fill = static_cast<uint8_t>(fill);
      datagram.payload = fill == 'c' ? 10 : 64;
      payload.insert(payload.end(), datagram.payload, datagram.fill);
      ASSERT_TRUE(Add(&coalescer_, datagram));
      ++datagram.identification;
    }
    const Coalescer::Joined joined = coalescer_.Take();
    EXPECT_EQ(joined.segments, 3u);
    EXPECT_EQ(joined.segment_length, 64);
    EXPECT_TRUE(joined.udp);
    EXPECT_EQ(joined.ipv6, ipv6);
    UdpDatagram large;
    large.ipv6 = ipv6;
    ChecksumRequest request;
    const Bytes expected = MakeUdp(large, payload, &request);
    EXPECT_EQ(joined.checksum, request);
    EXPECT_EQ(joined.header_length, expected.size() - payload.size());
    EXPECT_EQ(Bytes(joined.frame.begin(), joined.frame.end()), expected);
  }
}

// Hostile bytes: the coalescer reads within bounds (AddressSanitizer checks) and returns all that
// it took.
TEST(CoalescerTest, RandomDamageIsHarmless) {
  std::mt19937 random(793);
  Coalescer coalescer;
  coalescer.set_joins_udp(true);
  for (int round = 0; round < 50000; ++round) {
    Segment segment;
    UdpDatagram datagram;
    segment.ipv6 = datagram.ipv6 = random() % 2;
    segment.payload = random() % 50;
    ChecksumRequest request;
    Bytes frame = random() % 2 == 0 ? Make(segment, &request)
                                    : MakeUdp(datagram, Bytes(random() % 50, 'a'), &request);
    for (int i = random() % 4; i > 0; --i)
      frame[random() % frame.size()] = static_cast<uint8_t>(random());
    frame.resize(random() % (frame.size() + 1));
    if (random() % 8 == 0) request.start = static_cast<uint16_t>(random());
    const Bytes exact = frame;  // of exact size, for the sanitizer
    coalescer.Add(exact, request);
    if (coalescer.pending() && random() % 3 == 0) {
      EXPECT_GT(coalescer.Take().frame.size(), 0u);
    }
  }
}

}  // namespace
}  // namespace eoib
