// UmadTransport on a libibumad of this file's own: the functions that would open, read and write
// /dev/infiniband/umadN are defined here, so the linker uses these. Functions that only access
// memory are the library's.
#include "vswitch/fabric/umad_transport.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/umad.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "vswitch/base/unique_fd.h"
#include "vswitch/wire/ib/sa_mad.h"
#include "vswitch/wire/ib/sa_table.h"

namespace eoib {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// The behaviour of /dev/infiniband/umad0.
struct FakeUmad {
  struct Sent {
    std::vector<uint8_t> umad;  // umad header and MAD
    int timeout_ms;
  };
  struct Arrival {
    std::vector<uint8_t> mad;
    uint16_t lid = 0;
    int status = 0;
  };
  int open_error = 0;          // as umad_open_port returns it: -EIO, with the reason in errno
  int register_error = 0;      // for every registration
  bool reports_taken = false;  // another program has this port's reports
  int send_error = 0;          // errno of a write
  int receive_error = EAGAIN;  // errno of a read that finds nothing
  int ports_open = 0;
  UniqueFd fd{eventfd(0, 0)};
  std::vector<bool> registrations;  // with reports or without
  uint8_t rmpp_version = 0;         // in the last one
  std::deque<Arrival> arrivals;
  std::vector<Sent> sent;
};
FakeUmad* device = nullptr;

constexpr int kPortId = 7;
constexpr int kAgent = 3;

int Fail(int error) {
  errno = error;
  return -EIO;
}

class UmadTransportTest : public testing::Test {
 protected:
  UmadTransportTest() { device = &device_; }
  ~UmadTransportTest() override {
    mads_.reset();
    EXPECT_EQ(device_.ports_open, 0);
  }
  absl::Status Open() {
    auto mads = UmadTransport::Open("mlx5_0", 1, [this] { return sm_; });
    if (!mads.ok()) return mads.status();
    mads_ = *std::move(mads);
    return absl::OkStatus();
  }
  static Mad Request(uint64_t tid) {
    Mad mad;
    EncodeSaHeader({.method = MadMethod::kGet, .tid = tid}, &mad);
    return mad;
  }
  static FakeUmad::Arrival From(uint16_t lid, MadMethod method, uint64_t tid) {
    Mad mad;
    EncodeSaHeader({.method = method, .tid = tid}, &mad);
    return {{mad.begin(), mad.end()}, lid};
  }

  FakeUmad device_;
  absl::StatusOr<SmAddress> sm_ = SmAddress{Lid(1), Sl(2)};
  std::unique_ptr<MadTransport> mads_;
  std::vector<uint8_t> mad_;
};

TEST_F(UmadTransportTest, SendsToThePresentLidOfTheSm) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(mads_->ReceivesReports());
  ASSERT_TRUE(mads_->Send(Request(0xabcdef)).ok());
  sm_ = SmAddress{Lid(9), Sl(0)};
  ASSERT_TRUE(mads_->Send(Request(0xabcdef)).ok());
  ASSERT_TRUE(mads_->Reply(Request(0x1234'5678)).ok());
  ASSERT_EQ(device_.sent.size(), 3u);
  struct Row {
    uint16_t lid;
    uint8_t sl;
    uint64_t tid;
    bool answered;
  };
  const Row rows[] = {
      {1, 2, 0x00ab'cdef, true}, {9, 0, 0x01ab'cdef, true}, {9, 0, 0x1234'5678, false}};
  for (size_t i = 0; i < std::size(rows); ++i) {
    FakeUmad::Sent& sent = device_.sent[i];
    const ib_mad_addr_t* to = umad_get_mad_addr(sent.umad.data());
    EXPECT_EQ(ntohs(to->lid), rows[i].lid);
    EXPECT_EQ(to->sl, rows[i].sl);
    EXPECT_EQ(ntohl(to->qpn), 1u);
    EXPECT_EQ(ntohl(to->qkey), 0x8001'0000u);
    EXPECT_EQ(sent.timeout_ms > 0, rows[i].answered)
        << "or the kernel would not deliver what comes";
    Mad mad;
    std::memcpy(mad.data(), umad_get_mad(sent.umad.data()), kMadSize);
    EXPECT_EQ(DecodeSaHeader(mad)->tid, rows[i].tid)
        << "each request is a new one to the kernel; a reply is not";
  }
}

TEST_F(UmadTransportTest, TheDescriptorIsClosedOnExec) {
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(mads_->fd(), device_.fd.get());
  EXPECT_EQ(fcntl(mads_->fd(), F_GETFD), FD_CLOEXEC);
}

TEST_F(UmadTransportTest, WithoutASubnetManagerTheErrorSaysWhatToCheck) {
  ASSERT_TRUE(Open().ok());
  sm_ = SmAddress();
  const absl::Status none = mads_->Send(Request(1));
  EXPECT_EQ(none.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(none.message()),
              AllOf(StartsWith("ask the SA on port mlx5_0/1"), HasSubstr("OpenSM")));
  sm_ = absl::InternalError("query port mlx5_0/1: Input/output error");
  EXPECT_EQ(mads_->Send(Request(1)), sm_.status());
  EXPECT_FALSE(mads_->lost()) << "the subnet is no business of the device's";
}

TEST_F(UmadTransportTest, ADeviceThatCannotBeOpenedYieldsAdvice) {
  struct Row {
    int error;
    const char* advice;
  };
  const Row rows[] = {{ENOENT, "modprobe ib_umad"}, {EACCES, "may not open /dev/infiniband/umadN"}};
  for (const Row& row : rows) {
    device_.open_error = row.error;
    const std::string message(Open().message());
    EXPECT_THAT(message, StartsWith("open the MAD device of port mlx5_0/1: "));
    EXPECT_THAT(message, HasSubstr(row.advice));
  }
}

TEST_F(UmadTransportTest, AnotherProgramMayReceiveTheReports) {
  device_.reports_taken = true;
  ASSERT_TRUE(Open().ok());
  EXPECT_FALSE(mads_->ReceivesReports());
  EXPECT_EQ(device_.registrations, (std::vector<bool>{true, false}));
}

TEST_F(UmadTransportTest, AFailedRegistrationIsReportedAndClosesThePort) {
  device_.register_error = EPERM;
  EXPECT_EQ(Open().message(),
            "register for SA management datagrams on port mlx5_0/1: Operation not permitted");
  EXPECT_EQ(device_.ports_open, 0);
}

TEST_F(UmadTransportTest, ReceivesResponsesFromAnywhereAndReportsFromTheSmOnly) {
  ASSERT_TRUE(Open().ok());
  device_.arrivals = {From(1, MadMethod::kGetResp, 1), From(66, MadMethod::kReport, 2),
                      From(1, MadMethod::kReport, 3), From(5, MadMethod::kGetResp, 4)};
  for (const uint64_t tid : {1, 3, 4}) {
    ASSERT_TRUE(mads_->Receive(&mad_));
    EXPECT_EQ(DecodeSaHeader(mad_)->tid, tid);
  }
  EXPECT_FALSE(mads_->Receive(&mad_));
  sm_ = absl::InternalError("query port");
  device_.arrivals = {From(1, MadMethod::kReport, 5)};
  EXPECT_FALSE(mads_->Receive(&mad_)) << "the sender cannot be checked";
  EXPECT_FALSE(mads_->lost()) << "there was nothing, that is all";
}

TEST_F(UmadTransportTest, SkipsRequestsThatTheKernelReturnsAndMadsWithoutHeaders) {
  ASSERT_TRUE(Open().ok());
  FakeUmad::Arrival given_up = From(1, MadMethod::kGet, 1);
  given_up.status = ETIMEDOUT;
  given_up.mad.resize(24);
  FakeUmad::Arrival cut = From(1, MadMethod::kGetResp, 2);
  cut.mad.resize(kSaRecordOffset - 1);
  device_.arrivals = {given_up, cut, From(1, MadMethod::kGetResp, 4)};
  ASSERT_TRUE(mads_->Receive(&mad_));
  EXPECT_EQ(DecodeSaHeader(mad_)->tid, 4u);
}

// The kernel acknowledges the segments of a table for an agent that registers with RMPP, and
// delivers them as one MAD.
TEST_F(UmadTransportTest, ATableOfAnyLengthIsReceivedWhole) {
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(device_.rmpp_version, 1);
  const SaHeader header = {.method = MadMethod::kGetTableResp, .tid = 5};
  for (const size_t length : {size_t{0}, size_t{64}, size_t{200'000}, size_t{320}}) {
    const std::vector<uint8_t> table = EncodeSaTable(header, std::vector<uint8_t>(length, 7));
    device_.arrivals = {{table, 1}, From(1, MadMethod::kGetResp, 6)};
    ASSERT_TRUE(mads_->Receive(&mad_)) << length;
    EXPECT_EQ(mad_, table) << length;
    ASSERT_TRUE(mads_->Receive(&mad_)) << length;
    EXPECT_EQ(mad_.size(), kMadSize) << length;
  }
}

TEST_F(UmadTransportTest, ARemovedDeviceIsLost) {
  ASSERT_TRUE(Open().ok());
  device_.send_error = ENETUNREACH;
  EXPECT_EQ(mads_->Send(Request(1)).message(),
            "send a MAD to LID 0x1 on port mlx5_0/1: Network is unreachable");
  EXPECT_FALSE(mads_->lost());
  device_.send_error = EIO;
  EXPECT_FALSE(mads_->Send(Request(1)).ok());
  EXPECT_TRUE(mads_->lost());

  device_.send_error = 0;
  ASSERT_TRUE(Open().ok());
  device_.receive_error = EIO;
  EXPECT_FALSE(mads_->Receive(&mad_));
  EXPECT_TRUE(mads_->lost());
}

}  // namespace
}  // namespace eoib

// ---- The functions of libibumad that do I/O.

extern "C" {

int umad_init() { return 0; }

int umad_open_port(const char*, int) {
  if (eoib::device->open_error != 0) return eoib::Fail(eoib::device->open_error);
  ++eoib::device->ports_open;
  return eoib::kPortId;
}

int umad_close_port(int) {
  --eoib::device->ports_open;
  return 0;
}

int umad_get_fd(int) { return eoib::device->fd.get(); }

int umad_register(int, int, int, uint8_t rmpp_version, long method_mask[16 / sizeof(long)]) {
  const bool reports = method_mask != nullptr;
  eoib::device->rmpp_version = rmpp_version;
  eoib::device->registrations.push_back(reports);
  if (eoib::device->register_error != 0) {
    errno = eoib::device->register_error;
    return -EPERM;
  }
  return reports && eoib::device->reports_taken ? -EPERM : eoib::kAgent;
}

int umad_unregister(int, int) { return 0; }

int umad_send(int, int, void* umad, int length, int timeout_ms, int) {
  if (eoib::device->send_error != 0) return eoib::Fail(eoib::device->send_error);
  const auto* bytes = static_cast<const uint8_t*>(umad);
  eoib::device->sent.push_back(
      {{bytes, bytes + umad_size() + static_cast<size_t>(length)}, timeout_ms});
  return 0;
}

// umad_recv(3): a MAD that does not fit stays queued, its length is returned, and the result is
// -ENOSPC.
int umad_recv(int, void* umad, int* length, int) {
  if (eoib::device->arrivals.empty()) {
    errno = eoib::device->receive_error;
    return -errno;
  }
  const eoib::FakeUmad::Arrival arrival = eoib::device->arrivals.front();
  const bool fits = static_cast<int>(arrival.mad.size()) <= *length;
  *length = static_cast<int>(arrival.mad.size());
  if (!fits) return -ENOSPC;
  eoib::device->arrivals.pop_front();
  auto* header = static_cast<ib_user_mad_t*>(umad);
  *header = {};
  header->status = static_cast<uint32_t>(arrival.status);
  header->addr.lid = htons(arrival.lid);
  std::memcpy(umad_get_mad(umad), arrival.mad.data(), arrival.mad.size());
  return eoib::kAgent;
}
}
