#include "vswitch/fabric/mads_when_there.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <deque>
#include <string>

namespace eoib {
namespace {

// A MAD device that tests create, fill and remove.
class FakeMads final : public MadTransport {
 public:
  explicit FakeMads(int* alive) : alive_(alive) { ++*alive_; }
  ~FakeMads() override { --*alive_; }
  absl::Status Send(const Mad&) override {
    ++sent;
    return is_lost ? absl::InternalError("send: Input/output error") : absl::OkStatus();
  }
  absl::Status Reply(const Mad& mad) override { return Send(mad); }
  bool ReceivesReports() const override { return reports; }
  bool Receive(std::vector<uint8_t>* mad) override {
    if (arrived.empty()) return false;
    *mad = arrived.front();
    arrived.pop_front();
    return true;
  }
  int fd() const override { return event_.get(); }
  bool lost() const override { return is_lost; }

  void Arrive() {
    arrived.emplace_back();
    eventfd_write(event_.get(), 1);
  }

  int sent = 0;
  bool reports = true;
  bool is_lost = false;
  std::deque<std::vector<uint8_t>> arrived;

 private:
  int* const alive_;
  const UniqueFd event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

class MadsWhenThereTest : public testing::Test {
 protected:
  bool Readable() {
    pollfd fd = {mads_.fd(), POLLIN, 0};
    return poll(&fd, 1, 0) == 1;
  }
  absl::StatusOr<std::unique_ptr<MadTransport>> Open() {
    if (!there_.ok()) return there_;
    auto mads = std::make_unique<FakeMads>(&alive_);
    device_ = mads.get();
    return mads;
  }

  absl::Status there_ = absl::NotFoundError("open umad0: No such file or directory");
  int alive_ = 0;
  FakeMads* device_ = nullptr;  // opened last
  MadsWhenThere mads_{[this] { return Open(); }};
  Mad mad_{};
  std::vector<uint8_t> received_;
};

TEST_F(MadsWhenThereTest, SaysWhyItIsNotThere) {
  const absl::Status status = mads_.Send(mad_);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << "whoever asked may ask again";
  EXPECT_EQ(status.message(), "open umad0: No such file or directory");
  EXPECT_FALSE(mads_.Receive(&received_));
  EXPECT_EQ(mads_.Reply(mad_).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(mads_.ReceivesReports()) << "as far as anybody knows";
  EXPECT_FALSE(Readable());
}

TEST_F(MadsWhenThereTest, OpensItWhenItIsThere) {
  EXPECT_FALSE(mads_.Send(mad_).ok());
  there_ = absl::OkStatus();
  EXPECT_TRUE(mads_.Send(mad_).ok());
  EXPECT_TRUE(mads_.Send(mad_).ok());
  EXPECT_TRUE(mads_.Reply(mad_).ok());
  EXPECT_EQ(device_->sent, 3) << "on one device";
  device_->reports = false;
  EXPECT_FALSE(mads_.ReceivesReports());
  device_->Arrive();
  EXPECT_TRUE(Readable());
  EXPECT_TRUE(mads_.Receive(&received_));
  EXPECT_FALSE(mads_.Receive(&received_));
}

// A lost device stays readable, and a waiting program must not spin.
TEST_F(MadsWhenThereTest, LetsGoOfADeviceThatIsLostAndTakesTheNext) {
  const auto by_sending = [this] { EXPECT_FALSE(mads_.Send(mad_).ok()); };
  const auto by_replying = [this] { EXPECT_FALSE(mads_.Reply(mad_).ok()); };
  const auto by_receiving = [this] { EXPECT_FALSE(mads_.Receive(&received_)); };
  const std::pair<const char*, std::function<void()>> rows[] = {
      {"send", by_sending}, {"reply", by_replying}, {"receive", by_receiving}};
  for (const auto& [how, find_out] : rows) {
    SCOPED_TRACE(how);
    there_ = absl::OkStatus();
    ASSERT_TRUE(mads_.Send(mad_).ok());
    device_->Arrive();
    device_->arrived.clear();
    ASSERT_TRUE(Readable());
    device_->is_lost = true;
    there_ = absl::NotFoundError("gone");
    find_out();
    EXPECT_EQ(alive_, 0);
    EXPECT_FALSE(Readable());
    EXPECT_EQ(mads_.Send(mad_).message(), "gone");
  }
}

}  // namespace
}  // namespace eoib
