// UdEndpointTest: an endpoint on a FakeHca. At the end it checks that every buffer and object was
// given back.
#ifndef EOIB_VSWITCH_FABRIC_UD_ENDPOINT_TEST_FIXTURE_H_
#define EOIB_VSWITCH_FABRIC_UD_ENDPOINT_TEST_FIXTURE_H_

#include <gtest/gtest.h>
#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/fabric/ud_endpoint.h"

namespace eoib {

class UdEndpointTest : public testing::Test {
 protected:
  static constexpr size_t kFrameSize = 2044;
  static constexpr size_t kBuffers = 100;
  static constexpr int kReceiveDepth = 40;
  static constexpr int kSendDepth = 8;

  static inline const Gid kSgid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0xa));
  static inline const Gid kDgid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0xb));

  // A GRH and `payload` bytes of 0x5a behind it.
  static std::vector<uint8_t> Bytes(size_t payload) {
    std::vector<uint8_t> bytes(kGrhSize + payload, 0x5a);
    kSgid.ToWire(&bytes[8]);
    kDgid.ToWire(&bytes[24]);
    return bytes;
  }

  UdEndpointTest() {
    pool_ = *BufferPool::Create(&hca_, pd_, kBuffers, kFrameSize);
    handles_ = std::make_unique<AddressHandles>(&hca_, pd_);
    ah_ = *handles_->Get({kDgid, 5, Sl(0)}, {});
    endpoint_ = *UdEndpoint::Create(&hca_, pd_, pool_.get(), handles_.get(), options_);
  }
  ~UdEndpointTest() override {
    endpoint_.reset();
    EXPECT_EQ(pool_->count(BufferPool::State::kPosted), 0u);
    EXPECT_EQ(pool_->count(BufferPool::State::kInFlight), 0u);
    handles_->Put(ah_);
    EXPECT_EQ(handles_->Reap(), 0u) << "every send released its handle";
    handles_.reset();
    pool_.reset();
    EXPECT_EQ(hca_.alive(), 0) << "everything is destroyed";
  }

  SendRequest Request(BufferId buffer) const {
    return {buffer, pool_->Frame(buffer) - 4, 64, ah_, Qpn(0x99)};
  }
  std::vector<SendRequest> Requests(size_t count) {
    std::vector<SendRequest> requests;
    for (size_t i = 0; i < count; ++i) requests.push_back(Request(pool_->Allocate()));
    return requests;
  }
  size_t Send(const std::vector<SendRequest>& requests) {
    result_.assign(requests.size(), DropReason::kCount);
    return endpoint_->Send(requests, absl::MakeSpan(result_));
  }
  size_t Reap() { return endpoint_->ReapSends(&failed_); }
  bool Readable() const {
    pollfd fd = {endpoint_->event_fd(), POLLIN, 0};
    return poll(&fd, 1, 0) == 1;
  }

  const UdEndpoint::Options options_ = {.pkey_index = 3,
                                        .qkey = QKey(0x1234),
                                        .receive_depth = kReceiveDepth,
                                        .send_depth = kSendDepth};
  FakeHca hca_;
  ibv_pd* const pd_ = hca_.pd();
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<AddressHandles> handles_;
  AhIndex ah_ = AhIndex::None();
  std::unique_ptr<UdEndpoint> endpoint_;
  std::vector<DropReason> result_;
  size_t failed_ = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_UD_ENDPOINT_TEST_FIXTURE_H_
