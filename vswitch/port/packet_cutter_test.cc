#include "vswitch/port/packet_cutter.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/super_frame_for_test.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

struct Row {
  std::string name;
  SuperFrameShape shape;
  Gso gso;
};

Frame FrameOf(Bytes* bytes, const Row& row, const ChecksumRequest& checksum) {
  Frame frame{BufferId::None(), bytes->data(), static_cast<uint32_t>(bytes->size()), checksum};
  frame.gso = row.gso;
  return frame;
}

// The packet of a right segment, with its checksum complete.
Bytes ExpectedPacket(const Row& row, size_t i) {
  const size_t from = i * row.gso.size;
  Bytes segment =
      ExpectedSegment(row.shape, i, from, std::min<size_t>(from + row.gso.size, row.shape.payload));
  segment.erase(segment.begin(), segment.begin() + (row.shape.vid >= 0 ? 18 : 14));
  EXPECT_TRUE(WriteChecksum(absl::MakeSpan(segment)));
  return segment;
}

TEST(PacketCutterTest, CutsWhatTheSenderMeant) {
  const Row rows[] = {
      {"TCP", {.tcp_options = 12, .payload = 10'000, .tcp_flags = 0x18}, {GsoType::kTcp, 1448}},
      {"TCP over IPv6",
       {.ipv6 = true, .tcp_options = 12, .payload = 10'000},
       {GsoType::kTcp, 1428}},
      {"with a tag", {.vid = 5, .payload = 4000}, {GsoType::kTcp, 1000}},
      {"with IP options", {.ip_options = 8, .payload = 4001}, {GsoType::kTcp, 1000}},
      {"with an extension header",
       {.ipv6 = true, .ip_options = 16, .payload = 4001},
       {GsoType::kTcp, 999}},
      {"CWR, FIN, PSH", {.payload = 3000, .tcp_flags = 0x99}, {GsoType::kTcpEcn, 1000}},
      {"UDP", {.udp = true, .payload = 4500}, {GsoType::kUdp, 1000}},
      {"UDP over IPv6", {.ipv6 = true, .udp = true, .payload = 4500}, {GsoType::kUdp, 1000}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    ChecksumRequest request;
    Bytes bytes = MakeSuperFrame(row.shape, &request);
    const Bytes before = bytes;
    auto cutter = PacketCutter::Of(FrameOf(&bytes, row, request));
    ASSERT_TRUE(cutter.has_value());
    size_t count = 0;
    while (const size_t size = cutter->NextSize()) {
      Bytes room(9000, 0xee);
      const absl::Span<uint8_t> packet = cutter->Next(absl::MakeSpan(room));
      EXPECT_EQ(packet.size(), size);
      EXPECT_EQ(Bytes(packet.begin(), packet.end()), ExpectedPacket(row, count)) << count;
      EXPECT_EQ(room[size], 0xee);
      ++count;
    }
    EXPECT_EQ(count, (row.shape.payload + row.gso.size - 1) / row.gso.size);
    EXPECT_EQ(bytes, before);
  }
}

// Only UDP has 0xffff in place of zero. Receivers accept both, but tshark does not.
TEST(PacketCutterTest, AZeroChecksumOfTcpStaysZero) {
  Row row{"", {.payload = 4000, .sequence = 0}, {GsoType::kTcp, 1000}};
  Bytes room(9000);
  const auto first_checksum = [&] {
    ChecksumRequest request;
    Bytes bytes = MakeSuperFrame(row.shape, &request);
    PacketCutter cutter = *PacketCutter::Of(FrameOf(&bytes, row, request));
    return ReadWire<be16>(&cutter.Next(absl::MakeSpan(room))[20 + 16]).value();
  };
  row.shape.sequence = first_checksum();  // which adds what the sum lacks
  EXPECT_EQ(first_checksum(), 0);
}

// The sum of a packet goes on behind a piece of odd length.
TEST(PacketCutterTest, CutsAcrossPiecesOfAnyLength) {
  FakeHca hca;
  const std::unique_ptr<BufferPool> pool = BufferPool::Create(&hca, hca.pd(), 32, 2044).value();
  std::mt19937 random(SeedForTest());
  for (int round = 0; round < 300; ++round) {
    const Row row{"",
                  {.tcp_options = 12, .payload = 4000 + random() % 2000},
                  {GsoType::kTcp, static_cast<uint16_t>(500 + random() % 1000)}};
    ChecksumRequest request;
    const Bytes bytes = MakeSuperFrame(row.shape, &request);
    const BufferId head = pool->Allocate();
    size_t at = 200 + random() % 400;
    std::copy_n(bytes.begin(), at, pool->Frame(head));
    Frame frame{head, pool->Frame(head), static_cast<uint32_t>(at), request};
    frame.gso = row.gso;
    frame.rest = static_cast<uint32_t>(bytes.size() - at);
    for (BufferId last = head; at != bytes.size(); ++frame.buffers) {
      const size_t length = std::min<size_t>(1 + random() % 2000, bytes.size() - at);
      const BufferId next = pool->Allocate();
      ASSERT_FALSE(next.IsNone());
      std::copy_n(bytes.begin() + static_cast<long>(at), length, pool->Frame(next));
      pool->Append(last, next, pool->Frame(next), static_cast<uint32_t>(length));
      at += length;
      last = next;
    }
    auto cutter = PacketCutter::Of(*pool, frame);
    ASSERT_TRUE(cutter.has_value());
    for (size_t i = 0; cutter->NextSize() != 0; ++i) {
      Bytes room(9000);
      const absl::Span<uint8_t> packet = cutter->Next(absl::MakeSpan(room));
      ASSERT_EQ(Bytes(packet.begin(), packet.end()), ExpectedPacket(row, i)) << i;
    }
    pool->Free(head);
  }
}

// A complete checksum may be wrong, and the packets' would be right.
TEST(PacketCutterTest, RefusesWhatItCannotVouchFor) {
  const Row good{"", {.payload = 4000}, {GsoType::kTcp, 1000}};
  ChecksumRequest request;
  Bytes bytes = MakeSuperFrame(good.shape, &request);
  EXPECT_TRUE(PacketCutter::Of(FrameOf(&bytes, good, request)).has_value());
  EXPECT_FALSE(PacketCutter::Of(FrameOf(&bytes, good, {})).has_value()) << "a complete checksum";
  EXPECT_FALSE(PacketCutter::Of(FrameOf(&bytes, good, {true, request.start, 6})).has_value())
      << "another field";
  EXPECT_FALSE(PacketCutter::Of(FrameOf(&bytes, {"", good.shape, {GsoType::kUdp, 1000}}, request))
                   .has_value());
  EXPECT_FALSE(
      PacketCutter::Of(FrameOf(&bytes, {"", good.shape, {GsoType::kTcp, 0}}, request)).has_value());
  EXPECT_FALSE(PacketCutter::Of(FrameOf(&bytes, {"", good.shape, {}}, request)).has_value())
      << "no super-frame";
  bytes.pop_back();
  EXPECT_FALSE(PacketCutter::Of(FrameOf(&bytes, good, request)).has_value()) << "cut off";
}

}  // namespace
}  // namespace eoib
