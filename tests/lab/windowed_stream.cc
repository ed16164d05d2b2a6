#include "tests/lab/windowed_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/lab/process.h"
#include "tests/lab/sockets.h"

namespace eoib::lab {
namespace {

constexpr size_t kPayload = 64;
// Bytes: what this socket drops would look like a loss of the switch.
constexpr int kReceiveBuffer = 8 << 20;

}  // namespace

WindowedStream::WindowedStream(Host* from, const std::string& from_address, Host* to,
                               const std::string& to_address, uint16_t port)
    : out_(UdpSocket(from, from_address, 0)),
      in_(UdpSocket(to, to_address, port)),
      credited_(absl::Now()) {
  SetOption(in_.get(), SOL_SOCKET, SO_RCVBUFFORCE, kReceiveBuffer, "set SO_RCVBUFFORCE");
  SetPeer(out_.get(), to_address, port);
  thread_ = std::thread(&WindowedStream::Run, this);
}

WindowedStream::~WindowedStream() {
  stopping_.store(true);
  thread_.join();
}

double WindowedStream::Measure(uint64_t count) {
  const uint64_t before = received();
  const absl::Time start = absl::Now();
  EXPECT_TRUE(EventuallyTrue(4 * kPatience, [&] { return received() >= before + count; }));
  return static_cast<double>(received() - before) / absl::ToDoubleSeconds(absl::Now() - start);
}

void WindowedStream::Drain() {
  draining_.store(true);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return next_.load() == sent_.load(); }))
      << "the last " << sent_.load() - next_.load() << " datagrams did not arrive";
}

// How many datagrams may be sent now.
uint64_t WindowedStream::Allowed(absl::Time now) {
  const double rate = rate_.load();
  const uint64_t room = kWindow - (sent_.load() - next_.load());
  const absl::Duration since = now - std::exchange(credited_, now);
  if (draining_.load()) return 0;
  if (rate == 0) return room;
  credit_ = std::min<double>(credit_ + rate * absl::ToDoubleSeconds(since), kWindow);
  return std::min(room, static_cast<uint64_t>(credit_));
}

void WindowedStream::SendSome(absl::Time now) {
  for (uint64_t left = Allowed(now); left > 0; --left) {
    uint8_t payload[kPayload] = {};
    const uint64_t number = sent_.load();
    std::memcpy(payload, &number, sizeof(number));
    // Try it again.
    if (send(out_.get(), payload, sizeof(payload), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
    sent_.store(number + 1);
    credit_ = std::max(credit_ - 1, 0.0);
  }
}

void WindowedStream::ReceiveAll() {
  uint64_t number;
  while (recv(in_.get(), &number, sizeof(number), MSG_DONTWAIT | MSG_TRUNC) >=
         static_cast<ssize_t>(sizeof(number))) {
    if (number < next_.load()) continue;  // it was overtaken, and counts as lost
    lost_.fetch_add(number - next_.load());
    received_.fetch_add(1);
    next_.store(number + 1);
  }
}

void WindowedStream::Run() {
  while (!stopping_.load()) {
    SendSome(absl::Now());
    pollfd arrival = {in_.get(), POLLIN, 0};
    poll(&arrival, 1, 1);
    ReceiveAll();
  }
}

}  // namespace eoib::lab
