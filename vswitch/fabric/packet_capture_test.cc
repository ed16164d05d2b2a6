#include "vswitch/fabric/packet_capture.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/base/eventually_for_test.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/wire/ib/erf_for_test.h"
#include "vswitch/wire/ib/ib_headers_for_test.h"

namespace eoib {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class PacketCaptureTest : public testing::Test {
 protected:
  ~PacketCaptureTest() override { unlink(path_.c_str()); }

  static UdPacket Headers(size_t payload_length, uint32_t psn = 0) {
    UdPacket packet;
    packet.slid = Lid(7);
    packet.dlid = 5;
    packet.pkey = PKey(0x8001);
    packet.destination_qpn = Qpn(0x99);
    packet.source_qpn = Qpn(0x48);
    packet.psn = psn;
    packet.payload_length = payload_length;
    return packet;
  }
  static bool Record(PacketCapture* capture, const PacketCapture::Packet& packet,
                     const std::string& payload) {
    return capture->Record(packet, payload.size(), [&payload](uint8_t* to) {
      std::memcpy(to, payload.data(), payload.size());
    });
  }
  static bool Record(PacketCapture* capture, const std::string& payload, uint32_t psn = 0) {
    return Record(capture, {MakeUdHeaders(Headers(payload.size(), psn))}, payload);
  }
  // The thread notices the error within a tick.
  static bool EventuallyFails(const PacketCapture& capture) {
    return Eventually([&capture] { return !capture.report().status.ok(); });
  }

  const std::string path_ =
      absl::StrCat(testing::TempDir(), "/packet_capture_test_", getpid(), ".erf");
};

TEST_F(PacketCaptureTest, WritesWholePackets) {
  auto capture = PacketCapture::Open(path_);
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_TRUE(Record(capture->get(), "one"));
  EXPECT_TRUE(Record(capture->get(), "four"));
  const CaptureReport report = (*capture)->Close();
  EXPECT_TRUE(report.status.ok()) << report.status;
  EXPECT_EQ(report.path, path_);
  EXPECT_EQ(report.packets, 2u);
  EXPECT_EQ(report.missed, 0u);
  const std::vector<ErfRecord> records = ReadErf(path_);
  ASSERT_THAT(records, SizeIs(2));
  for (size_t i = 0; i < 2; ++i) {
    const std::string payload = i == 0 ? "one" : "four";
    EXPECT_EQ(records[i].type, kErfTypeInfiniband);
    EXPECT_EQ(records[i].interface, 0);
    UdView view;
    ASSERT_EQ(ParseUdPacket(records[i].bytes, &view), DropReason::kNone)
        << "lengths and CRCs are right";
    EXPECT_EQ(view.packet, Headers(payload.size()));
    EXPECT_EQ(std::string(view.payload.begin(), view.payload.end()), payload);
  }
}

TEST_F(PacketCaptureTest, APacketWithoutAGrhIsWrittenWithoutIt) {
  auto capture = PacketCapture::Open(path_);
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_TRUE(
      Record(capture->get(), {.headers = MakeUdHeaders(Headers(4)), .global = false}, "four"));
  (*capture)->Close();
  const std::vector<ErfRecord> records = ReadErf(path_);
  ASSERT_THAT(records, SizeIs(1));
  const std::vector<uint8_t>& bytes = records[0].bytes;
  ASSERT_THAT(bytes, SizeIs(sizeof(Lrh) + sizeof(Bth) + sizeof(Deth) + 4 + kIcrcSize + kVcrcSize));
  const auto lrh = ReadWire<Lrh>(bytes.data());
  EXPECT_EQ(lrh.sl_lnh & 3, kLnhIbaLocal);
  EXPECT_EQ(lrh.packet_length.value(), (bytes.size() - kVcrcSize) / 4);
  EXPECT_EQ(ReadWire<Bth>(&bytes[sizeof(Lrh)]).destination_qpn.value(), 0x99u);
}

TEST_F(PacketCaptureTest, AnImmediatePrecedesThePayload) {
  auto capture = PacketCapture::Open(path_);
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_TRUE(Record(capture->get(),
                     {.headers = MakeUdHeaders(Headers(8)), .immediate = be32(0x01020304)},
                     "four"));
  (*capture)->Close();
  const std::vector<ErfRecord> records = ReadErf(path_);
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(ReadWire<UdHeaders>(records[0].bytes.data()).bth.opcode, 0x65)
      << "UD SEND Only with Immediate";
  const uint8_t* behind = records[0].bytes.data() + kUdHeadersSize;
  EXPECT_THAT(std::vector<uint8_t>(behind, behind + 8),
              ElementsAre(1, 2, 3, 4, 'f', 'o', 'u', 'r'));
}

TEST_F(PacketCaptureTest, RebuiltPacketsAreMarked) {
  auto capture = PacketCapture::Open(path_, PacketCapture::Origin::kRebuilt, "rebuilt");
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_TRUE(Record(capture->get(), "one"));
  EXPECT_EQ((*capture)->Close().packets, 1u) << "without the comment";
  const std::vector<ErfRecord> records = ReadErf(path_);
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].type, kErfTypeMeta);
  EXPECT_NE(std::string(records[0].bytes.begin(), records[0].bytes.end()).find("rebuilt"),
            std::string::npos);
  EXPECT_EQ(records[1].type, kErfTypeInfiniband);
  EXPECT_EQ(records[1].interface, 1);
}

TEST_F(PacketCaptureTest, AFileThatCannotBeOpenedIsReported) {
  EXPECT_EQ(PacketCapture::Open("/nonexistent/x.erf").status().message(),
            "open capture /nonexistent/x.erf: No such file or directory");
}

TEST_F(PacketCaptureTest, AFullDiskEndsTheCaptureAndIsReported) {
  auto capture = PacketCapture::Adopt(
      ErfWriter::Adopt(open("/dev/full", O_WRONLY | O_CLOEXEC), "/dev/full"), "/dev/full");
  ASSERT_TRUE(EventuallyFails(*capture)) << "the file's header is too much already";
  EXPECT_FALSE(Record(capture.get(), "one"));
  EXPECT_FALSE(Record(capture.get(), "two"));
  const CaptureReport report = capture->Close();
  EXPECT_EQ(report.status.message(), "write capture /dev/full: No space left on device");
  EXPECT_EQ(report.packets, 0u);
  EXPECT_EQ(report.missed, 2u);
}

TEST_F(PacketCaptureTest, PacketsAfterCloseAreDropped) {
  auto capture = PacketCapture::Open(path_);
  ASSERT_TRUE(capture.ok()) << capture.status();
  (*capture)->Close();
  EXPECT_FALSE(Record(capture->get(), "late"));
  EXPECT_EQ((*capture)->Close().missed, 1u) << "a second time does no harm";
  EXPECT_THAT(ReadErf(path_), SizeIs(0));
}

// The pipe has no reader: the buffers fill up, further packets are dropped, and Record returns.
TEST_F(PacketCaptureTest, ASlowFileDelaysNoCaller) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  UniqueFd reader(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader.valid());
  auto capture = PacketCapture::Adopt(
      ErfWriter::Adopt(open(path_.c_str(), O_WRONLY | O_CLOEXEC), path_), path_);
  const std::string payload(4096, 'x');
  constexpr size_t kTries = 5 * PacketCapture::kCapacity / 4096;
  size_t accepted = 0;
  for (size_t i = 0; i < kTries; ++i) accepted += Record(capture.get(), payload) ? 1 : 0;
  EXPECT_GE(accepted, PacketCapture::kCapacity / 4096 / 2);
  EXPECT_LE(accepted, 2 * PacketCapture::kCapacity / 4096 + 64)
      << "two buffers, and what is in the pipe";

  std::vector<uint8_t> file;
  std::thread drain([&] {
    for (;;) {
      pollfd fd = {reader.get(), POLLIN, 0};
      if (poll(&fd, 1, 30'000) != 1) return;
      uint8_t block[65536];
      const ssize_t n = read(reader.get(), block, sizeof(block));
      if (n == 0 || (n < 0 && errno != EAGAIN)) return;
      if (n > 0) file.insert(file.end(), block, block + n);
    }
  });
  const CaptureReport report = capture->Close();
  drain.join();
  EXPECT_TRUE(report.status.ok()) << report.status;
  EXPECT_EQ(report.packets, accepted);
  EXPECT_EQ(report.missed, kTries - accepted);
  EXPECT_THAT(ParseErf(file), SizeIs(accepted));
}

// Its reader does not read: Close gives up what the fifo does not take, instead of waiting.
TEST_F(PacketCaptureTest, AStoppedCaptureDoesNotWaitForTheReaderOfAFifo) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(std::string(PacketCapture::Open(path_).status().message()),
              HasSubstr("no process reads this fifo"));
  UniqueFd reader(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  auto capture = PacketCapture::Open(path_);
  ASSERT_TRUE(capture.ok()) << capture.status();
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(Record(capture->get(), std::string(4096, 'x')));
  const CaptureReport report = (*capture)->Close();
  EXPECT_EQ(report.status.code(), absl::StatusCode::kUnavailable) << report.status;
}

TEST_F(PacketCaptureTest, TheReaderOfAFifoEndsTheCapture) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  UniqueFd reader(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  auto capture = PacketCapture::Open(path_);
  ASSERT_TRUE(capture.ok()) << capture.status();
  reader.reset();
  Record(capture->get(), "one");
  ASSERT_TRUE(EventuallyFails(**capture));
  EXPECT_THAT(std::string((*capture)->Close().status.message()), HasSubstr("Broken pipe"));
}

TEST_F(PacketCaptureTest, OnlyPacketsThatPassTheFilterAreRecorded) {
  CaptureOptions options = path_;
  options.filter.vlan = Vid(0);
  auto capture = PacketCapture::Open(options);
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_TRUE(Record(capture->get(), "no frame"));
  EXPECT_TRUE(Record(capture->get(), std::string("\xc0\0\0\0", 4) + std::string(60, 'x')));
  const CaptureReport report = (*capture)->Close();
  EXPECT_EQ(report.packets, 1u);
  EXPECT_EQ(report.missed, 0u);
  EXPECT_THAT(ReadErf(path_), SizeIs(1));
}

TEST_F(PacketCaptureTest, LongPacketsAreShortened) {
  CaptureOptions options = path_;
  options.snap_length = 100;
  auto capture = PacketCapture::Open(options);
  ASSERT_TRUE(capture.ok()) << capture.status();
  Record(capture->get(), std::string(2000, 'x'));
  Record(capture->get(), "four");
  (*capture)->Close();
  const std::vector<ErfRecord> records = ReadErf(path_);
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_THAT(records[0].bytes, SizeIs(100));
  EXPECT_EQ(records[0].bytes[99], 'x');
  EXPECT_EQ(records[0].wire_length, kUdHeadersSize + 2000 + kIcrcSize + kVcrcSize);
  UdView view;
  EXPECT_EQ(ParseUdPacket(records[1].bytes, &view), DropReason::kNone) << "whole, with its CRCs";
}

TEST_F(PacketCaptureTest, TheLimitEndsTheCapture) {
  const size_t packet = ErfWriter::kRecordOverhead + kUdHeadersSize + 4 + kIcrcSize + kVcrcSize;
  CaptureOptions options = path_;
  options.limit = 24 + 3 * packet;  // with the file header
  auto capture = PacketCapture::Open(options);
  ASSERT_TRUE(capture.ok()) << capture.status();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Record(capture->get(), "four"));
  ASSERT_TRUE(Eventually([&capture] { return (*capture)->report().full; }));
  EXPECT_TRUE(Record(capture->get(), "four")) << "not missed: the limit allows no more";
  const CaptureReport report = (*capture)->Close();
  EXPECT_TRUE(report.full);
  EXPECT_TRUE(report.status.ok()) << report.status;
  EXPECT_EQ(report.packets, 3u);
  EXPECT_EQ(report.missed, 0u);
  EXPECT_THAT(ReadErf(path_), SizeIs(3));
}

TEST_F(PacketCaptureTest, SeveralThreadsMayRecord) {
  auto capture = PacketCapture::Open(path_);
  ASSERT_TRUE(capture.ok()) << capture.status();
  constexpr uint32_t kThreads = 3, kPackets = 2000;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&capture, i] {
      for (uint32_t j = 0; j < kPackets; ++j)
        EXPECT_TRUE(Record(capture->get(), absl::StrCat(i, " ", j), i * kPackets + j));
    });
  }
  for (std::thread& thread : threads) thread.join();
  (*capture)->Close();
  const std::vector<ErfRecord> records = ReadErf(path_);
  ASSERT_THAT(records, SizeIs(kThreads * kPackets));
  std::vector<uint32_t> next(kThreads);
  for (const ErfRecord& record : records) {
    UdView view;
    ASSERT_EQ(ParseUdPacket(record.bytes, &view), DropReason::kNone);
    const uint32_t thread = view.packet.psn / kPackets;
    EXPECT_EQ(view.packet.psn % kPackets, next[thread]++) << "each thread's in order";
    EXPECT_EQ(std::string(view.payload.begin(), view.payload.end()),
              absl::StrCat(thread, " ", view.packet.psn % kPackets));
  }
}

}  // namespace
}  // namespace eoib
