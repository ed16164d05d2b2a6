// RebuiltCapture: packets of an endpoint on a FakeHca.
#include "vswitch/fabric/rebuilt_capture.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/base/eventually_for_test.h"
#include "vswitch/fabric/ud_endpoint_test_fixture.h"
#include "vswitch/wire/ib/erf_for_test.h"
#include "vswitch/wire/ib/ib_headers_for_test.h"

namespace eoib {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

const Gid kOwnGid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0xb));
const Gid kPeerGid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0xa));
const Mgid kGroup = Mgid(*Gid::Parse("ff12:e01b:8001:ffff:ffff:ffff::"));
constexpr Mlid kMlid(0xc003);

// While it lives, this process cannot write to files, as with a full disk.
class FilesStayEmpty {
 public:
  FilesStayEmpty() {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit none = {0, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  }
  ~FilesStayEmpty() { EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0); }

 private:
  rlimit before_ = {};
};

class RebuiltCaptureTest : public UdEndpointTest {
 protected:
  RebuiltCaptureTest() {
    hca_.port_attr.lid = 8;
    hca_.port_attr.lmc = 2;
    hca_.pkeys = {0xffff, 0x8005, 0, 0x8001};  // the endpoint's is the fourth
    hca_.gid = kOwnGid;
    endpoint_->Refill();
  }
  ~RebuiltCaptureTest() override { unlink(path_.c_str()); }

  void Start() { ASSERT_TRUE(hca_.StartCapture(path_).ok()); }

  // Stops the capture and returns its packets. Its first record must be the note.
  std::vector<std::vector<uint8_t>> Stop() {
    const absl::StatusOr<CaptureReport> report = hca_.StopCapture();
    EXPECT_TRUE(report.ok()) << report.status();
    return PacketsOf(path_);
  }
  static std::vector<std::vector<uint8_t>> PacketsOf(const std::string& path) {
    std::vector<std::vector<uint8_t>> packets;
    const std::vector<ErfRecord> records = ReadErf(path);
    unlink(path.c_str());  // the next capture overwrites none
    EXPECT_FALSE(records.empty());
    for (size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(records[i].type, i == 0 ? kErfTypeMeta : kErfTypeInfiniband);
      EXPECT_EQ(records[i].interface, 1);
      const std::string text(records[i].bytes.begin(), records[i].bytes.end());
      if (i == 0) {
        EXPECT_THAT(text, HasSubstr(absl::StrCat("fake0/1: ", RebuiltCapture::kNote)));
      } else {
        packets.push_back(records[i].bytes);
      }
    }
    return packets;
  }
  // Stops the capture and returns its only packet.
  UdPacket Only(const std::string& payload) {
    const auto packets = Stop();
    EXPECT_THAT(packets, SizeIs(1));
    UdView view;
    if (packets.size() != 1) return {};
    EXPECT_EQ(ParseUdPacket(packets[0], &view), DropReason::kNone)
        << "nothing in it contradicts itself";
    EXPECT_EQ(std::string(view.payload.begin(), view.payload.end()), payload);
    return view.packet;
  }

  // Sends `payload` and completes the send.
  void SendText(const std::string& payload, AhIndex ah, Qpn qpn) {
    SendRequest request = Request(pool_->Allocate());
    std::memcpy(pool_->Frame(request.buffer) - 4, payload.data(), payload.size());
    request.length = static_cast<uint32_t>(payload.size());
    request.ah = ah;
    request.qpn = qpn;
    ASSERT_EQ(Send({request}), 1u);
    hca_.CompleteSend();
    ASSERT_EQ(Reap(), 1u);
  }

  // A packet from a peer, which the endpoint receives.
  static UdPacket FromPeer() {
    UdPacket packet;
    packet.slid = Lid(0x21);
    packet.dlid = 8 | 3;
    packet.sl = Sl(4);
    packet.sgid = kPeerGid;
    packet.dgid = kOwnGid;
    packet.traffic_class = 0x12;
    packet.flow_label = 0x34567;
    packet.hop_limit = 0x89;
    packet.pkey = PKey(0x8001);
    packet.destination_qpn = Qpn(0x48);
    packet.source_qpn = Qpn(0x77);
    packet.qkey = QKey(0x1234);
    return packet;
  }
  static ibv_wc CompletionOf(const UdPacket& packet) {
    return {.status = IBV_WC_SUCCESS,
            .src_qp = packet.source_qpn.value(),
            .wc_flags = IBV_WC_GRH,
            .slid = packet.slid.value(),
            .sl = packet.sl.value(),
            .dlid_path_bits = static_cast<uint8_t>(packet.dlid & 3)};
  }
  void Receive(const UdPacket& packet, const std::string& payload) {
    Receive(packet, payload, CompletionOf(packet));
  }
  void Receive(UdPacket packet, const std::string& payload, const ibv_wc& wc) {
    std::vector<uint8_t> bytes(kGrhSize, 0xee);
    packet.payload_length = payload.size();
    if ((wc.wc_flags & IBV_WC_GRH) != 0) WriteWire(MakeGrh(packet), bytes.data());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    Deliver(bytes, wc);
  }
  void Deliver(const std::vector<uint8_t>& bytes, const ibv_wc& wc) {
    hca_.Deliver(bytes, wc);
    Datagram datagram;
    ASSERT_EQ(endpoint_->Receive(absl::MakeSpan(&datagram, 1)), 1u);
    pool_->Free(datagram.buffer);
  }

  const std::string path_ =
      absl::StrCat(testing::TempDir(), "/rebuilt_capture_test_", getpid(), ".erf");
};

TEST_F(RebuiltCaptureTest, SentHeadersComeFromTheHandleAndTheQueuePair) {
  const AhIndex ah = *handles_->Get(
      {kPeerGid, 0x21, Sl(5)}, {.traffic_class = 0x12, .hop_limit = 0x40, .flow_label = 0x34567});
  Start();
  SendText("hello", ah, Qpn(0x99));
  UdPacket expected;
  expected.slid = Lid(8);
  expected.dlid = 0x21;
  expected.sl = Sl(5);
  expected.sgid = kOwnGid;
  expected.dgid = kPeerGid;
  expected.traffic_class = 0x12;
  expected.flow_label = 0x34567;
  expected.hop_limit = 0x40;
  expected.pkey = PKey(0x8001);
  expected.destination_qpn = Qpn(0x99);
  expected.source_qpn = Qpn(0x48);
  expected.qkey = QKey(0x1234);
  expected.payload_length = 5;
  EXPECT_EQ(Only("hello"), expected);
  handles_->Put(ah);
}

TEST_F(RebuiltCaptureTest, SentToAGroup) {
  const AhIndex ah = *handles_->Get({kGroup.gid(), kMlid.value(), Sl(0)}, {});
  Start();
  SendText("all", ah, Qpn(Qpn::kMulticast));
  const UdPacket packet = Only("all");
  EXPECT_EQ(packet.dlid, kMlid.value());
  EXPECT_EQ(packet.dgid, kGroup.gid());
  EXPECT_EQ(packet.destination_qpn, Qpn(Qpn::kMulticast));
  handles_->Put(ah);
}

TEST_F(RebuiltCaptureTest, TheQueuePairsQKeyIsTheOneSetLast) {
  ASSERT_TRUE(endpoint_->SetQKey(QKey(0x8000'8001)).ok());
  Start();
  SendText("hello", ah_, Qpn(0x99));
  EXPECT_EQ(Only("hello").qkey, QKey(0x8000'8001));
}

TEST_F(RebuiltCaptureTest, OnlyPostedRequestsAreRecorded) {
  Start();
  hca_.post_room = 2;
  const std::vector<SendRequest> requests = Requests(3);
  EXPECT_EQ(Send(requests), 2u);
  pool_->Free(requests[2].buffer);
  EXPECT_THAT(Stop(), SizeIs(2));
}

TEST_F(RebuiltCaptureTest, ReceivedHeadersComeFromTheCompletionAndTheBuffer) {
  Start();
  Receive(FromPeer(), "hello");
  UdPacket expected = FromPeer();
  expected.payload_length = 5;
  EXPECT_EQ(Only("hello"), expected);
}

TEST_F(RebuiltCaptureTest, ReceivedFromAGroup) {
  ASSERT_TRUE(endpoint_->Attach(kGroup, kMlid).ok());
  UdPacket sent = FromPeer();
  sent.dgid = kGroup.gid();
  Start();
  Receive(sent, "all");
  UdPacket packet = Only("all");
  EXPECT_EQ(packet.dlid, kMlid.value()) << "the completion shows none";
  EXPECT_EQ(packet.destination_qpn, Qpn(Qpn::kMulticast));

  ASSERT_TRUE(endpoint_->Detach(kGroup, kMlid).ok());
  Start();
  Receive(sent, "late");
  EXPECT_EQ(Only("late").dlid, 0) << "the MLID of a group that was left is not known";
}

TEST_F(RebuiltCaptureTest, LoopedBackMulticastIsRecordedOnce) {
  ASSERT_TRUE(endpoint_->Attach(kGroup, kMlid).ok());
  const AhIndex ah = *handles_->Get({kGroup.gid(), kMlid.value(), Sl(0)}, {});
  Start();
  SendText("all", ah, Qpn(Qpn::kMulticast));
  UdPacket looped = FromPeer();
  looped.dgid = kGroup.gid();
  looped.sgid = kOwnGid;
  looped.source_qpn = Qpn(0x48);
  Receive(looped, "all");
  EXPECT_EQ(Only("all").slid, Lid(8));

  Start();
  looped.source_qpn = Qpn(0x77);  // another program's queue pair on this port
  Receive(looped, "another's");
  EXPECT_EQ(Only("another's").source_qpn, Qpn(0x77));
  handles_->Put(ah);
}

// As with several workers: each has an endpoint, and one of them receives floods.
TEST_F(RebuiltCaptureTest, LoopedBackMulticastOfAnotherEndpointIsNotRecordedAgain) {
  auto pool = *BufferPool::Create(&hca_, pd_, kBuffers, kFrameSize);
  hca_.next_qpn = 0x49;
  auto receiver = *UdEndpoint::Create(&hca_, pd_, pool.get(), handles_.get(), options_);
  receiver->Refill();
  UdPacket looped = FromPeer();
  looped.dgid = kGroup.gid();
  looped.sgid = kOwnGid;
  looped.source_qpn = Qpn(0x48);
  std::vector<uint8_t> bytes(kGrhSize + 4);
  looped.payload_length = 4;
  WriteWire(MakeGrh(looped), bytes.data());
  const auto records = [&] {
    Start();
    hca_.Deliver(bytes, CompletionOf(looped));
    Datagram datagram;
    EXPECT_EQ(receiver->Receive(absl::MakeSpan(&datagram, 1)), 1u);
    pool->Free(datagram.buffer);
    return Stop();
  };
  EXPECT_THAT(records(), SizeIs(0));
  endpoint_.reset();
  EXPECT_THAT(records(), SizeIs(1)) << "it may be another program's now";
}

TEST_F(RebuiltCaptureTest, ReceivedWithoutAGrh) {
  Start();
  ibv_wc wc = CompletionOf(FromPeer());
  wc.wc_flags = 0;
  Receive(FromPeer(), "four", wc);
  const auto packets = Stop();
  ASSERT_THAT(packets, SizeIs(1));
  const std::vector<uint8_t>& bytes = packets[0];
  ASSERT_THAT(bytes, SizeIs(sizeof(Lrh) + sizeof(Bth) + sizeof(Deth) + 4 + kIcrcSize + kVcrcSize));
  const auto lrh = ReadWire<Lrh>(bytes.data());
  EXPECT_EQ(lrh.sl_lnh, 4 << 4 | kLnhIbaLocal);
  EXPECT_EQ(lrh.slid.value(), 0x21);
  EXPECT_EQ(lrh.dlid.value(), 8 | 3);
  EXPECT_EQ(lrh.packet_length.value(), (bytes.size() - kVcrcSize) / 4);
  EXPECT_EQ(ReadWire<Bth>(&bytes[sizeof(Lrh)]).destination_qpn.value(), 0x48u);
  EXPECT_EQ(ReadWire<Deth>(&bytes[sizeof(Lrh) + sizeof(Bth)]).source_qpn.value(), 0x77u);
  EXPECT_EQ(std::string(&bytes[28], &bytes[32]), "four");
}

TEST_F(RebuiltCaptureTest, ReceivedWithAnImmediate) {
  Start();
  ibv_wc wc = CompletionOf(FromPeer());
  wc.wc_flags |= IBV_WC_WITH_IMM;
  wc.imm_data = htonl(0x0102'0304);
  Receive(FromPeer(), "four", wc);
  const auto packets = Stop();
  ASSERT_THAT(packets, SizeIs(1));
  EXPECT_EQ(ReadWire<UdHeaders>(packets[0].data()).bth.opcode, 0x65);
  EXPECT_EQ(std::string(&packets[0][kUdHeadersSize], &packets[0][kUdHeadersSize + 8]),
            "\x01\x02\x03\x04"
            "four");
}

// A capture shows even a GRH that the endpoint rejects.
TEST_F(RebuiltCaptureTest, TheGrhIsCopiedFromTheBuffer) {
  std::vector<uint8_t> bytes = Bytes(4);
  Start();
  Deliver(bytes, CompletionOf(FromPeer()));
  const auto packets = Stop();
  ASSERT_THAT(packets, SizeIs(1));
  EXPECT_EQ(std::vector<uint8_t>(&packets[0][sizeof(Lrh)], &packets[0][sizeof(Lrh) + kGrhSize]),
            std::vector<uint8_t>(bytes.begin(), bytes.begin() + kGrhSize));
}

TEST_F(RebuiltCaptureTest, FailedReceivesAreNoPackets) {
  Start();
  Deliver(Bytes(4), {.status = IBV_WC_LOC_PROT_ERR, .wc_flags = IBV_WC_GRH});
  Deliver(std::vector<uint8_t>(39), {.status = IBV_WC_SUCCESS, .wc_flags = IBV_WC_GRH});
  EXPECT_THAT(Stop(), SizeIs(0));
}

// A limited member sends its own P_Key and receives from full members only.
TEST_F(RebuiltCaptureTest, PKeyOfALimitedMember) {
  hca_.pkeys[3] = 0x0001;
  Start();
  SendText("hello", ah_, Qpn(0x99));
  EXPECT_EQ(Only("hello").pkey, PKey(0x0001));
  Start();
  Receive(FromPeer(), "hello");
  EXPECT_EQ(Only("hello").pkey, PKey(0x8001));
}

TEST_F(RebuiltCaptureTest, ReadsThePortAgainWhenItChanges) {
  Start();
  hca_.port_attr.lid = 0x30;
  hca_.pkeys[3] = 0x8007;
  hca_.gid = Gid::FromPrefixAndGuid(0xfec0'0000'0000'0000, Guid(0xb));
  hca_.FailNext("query_port", EIO);
  hca_.OnPortChange();
  SendText("before", ah_, Qpn(0x99));
  hca_.OnPortChange();
  SendText("after", ah_, Qpn(0x99));
  const auto packets = Stop();
  ASSERT_THAT(packets, SizeIs(2));
  UdView before, after;
  ASSERT_EQ(ParseUdPacket(packets[0], &before), DropReason::kNone);
  ASSERT_EQ(ParseUdPacket(packets[1], &after), DropReason::kNone);
  EXPECT_EQ(before.packet.slid, Lid(8)) << "a port that does not answer is as it was";
  EXPECT_EQ(after.packet.slid, Lid(0x30));
  EXPECT_EQ(after.packet.pkey, PKey(0x8007));
  EXPECT_EQ(after.packet.sgid, hca_.gid);
}

TEST_F(RebuiltCaptureTest, AFailedStartSaysWhy) {
  EXPECT_THAT(std::string(hca_.StartCapture("/nonexistent/x.erf").message()),
              HasSubstr("open capture /nonexistent/x.erf: No such file or directory"));
  hca_.FailNext("query_port", EIO);
  EXPECT_THAT(std::string(hca_.StartCapture(path_).message()), HasSubstr("query port fake0/1"));
  hca_.FailNext("query_pkey", EIO, 2);
  EXPECT_THAT(std::string(hca_.StartCapture(path_).message()),
              HasSubstr("query P_Key 2 of port fake0/1"));
  EXPECT_FALSE(hca_.rebuilt_capture()->on());
  EXPECT_FALSE(hca_.Capture().has_value());
  const absl::Status status = hca_.StopCapture().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "stop the capture on fake0/1: none runs");
}

TEST_F(RebuiltCaptureTest, ASecondCaptureReplacesTheFirst) {
  const std::string first = path_ + ".first";
  ASSERT_TRUE(hca_.StartCapture(first).ok());
  SendText("one", ah_, Qpn(0x99));
  Start();
  SendText("second", ah_, Qpn(0x99));
  for (const std::string& path : {std::string("/nonexistent/x.erf"), first, path_}) {
    EXPECT_FALSE(hca_.StartCapture(path).ok()) << path;
  }
  EXPECT_EQ(hca_.Capture()->path, path_) << "one that cannot be started replaces none";
  EXPECT_EQ(Only("second").payload_length, 6u);
  EXPECT_THAT(PacketsOf(first), SizeIs(1));
}

TEST_F(RebuiltCaptureTest, AFullDiskIsReportedAndHarmless) {
  {
    const FilesStayEmpty full;
    Start();
    ASSERT_TRUE(Eventually([this] { return !hca_.Capture()->status.ok(); }));
  }
  for (int i = 0; i < 10; ++i) SendText("hello", ah_, Qpn(0x99));
  Receive(FromPeer(), "hello");
  EXPECT_EQ(hca_.Capture()->missed, 11u);
  EXPECT_EQ(hca_.StopCapture().status().message(),
            absl::StrCat("write capture ", path_, ": File too large"));
  unlink(path_.c_str());
  Start();
  SendText("again", ah_, Qpn(0x99));
  EXPECT_EQ(Only("again").payload_length, 5u);
}

TEST_F(RebuiltCaptureTest, StartsAndStopsWhileAWorkerSends) {
  std::atomic<bool> ending{false};
  std::thread worker([&] {
    while (!ending.load()) {
      SendText("sent", ah_, Qpn(0x99));
      Receive(FromPeer(), "received");
      endpoint_->Refill();
    }
  });
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(hca_.StartCapture(path_).ok());
    EXPECT_TRUE(Eventually([this] { return hca_.Capture()->packets > 10; }));
    hca_.OnPortChange();
    const auto packets = Stop();
    EXPECT_GT(packets.size(), 10u);
    UdView view;
    for (const auto& packet : packets) ASSERT_EQ(ParseUdPacket(packet, &view), DropReason::kNone);
  }
  ending = true;
  worker.join();
}

}  // namespace
}  // namespace eoib
