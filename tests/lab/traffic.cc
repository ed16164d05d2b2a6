#include "tests/lab/traffic.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "absl/time/clock.h"
#include "tests/lab/sockets.h"

namespace eoib::lab {
namespace {

constexpr size_t kInARow = 10;
// Large, so that the datagrams for a stopped peer fill its ring soon.
constexpr size_t kBurstPayload = 1400;
constexpr uint16_t kFirstPort = 7000;
constexpr int kBurstReceiveBuffer = 8 << 20;  // bytes

absl::Time ArrivalTime(msghdr* message) {
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_TIMESTAMPNS) continue;
    timespec time;
    std::memcpy(&time, CMSG_DATA(header), sizeof(time));
    return absl::TimeFromTimespec(time);
  }
  Die("a datagram has no time stamp");
}

}  // namespace

// ---- Stream.

Stream::Stream(Host* from, const std::string& from_address, Host* to, const std::string& to_address,
               uint16_t port)
    : out_(UdpSocket(from, from_address, 0)), in_(UdpSocket(to, to_address, port)) {
  SetOption(out_.get(), SOL_SOCKET, SO_BROADCAST, int{1}, "set SO_BROADCAST");
  SetOption(in_.get(), SOL_SOCKET, SO_TIMESTAMPNS, int{1}, "set SO_TIMESTAMPNS");
  // What waits for a worker comes at once, and what this socket drops would look like a loss of the
  // switch.
  SetOption(in_.get(), SOL_SOCKET, SO_RCVBUFFORCE, kBurstReceiveBuffer, "set SO_RCVBUFFORCE");
  SetPeer(out_.get(), to_address, port);
}

// A datagram that the kernel refuses counts as lost.
void Stream::SendOne() {
  uint8_t payload[kBurstPayload] = {};
  {
    absl::MutexLock lock(&mutex_);
    const uint64_t number = sent_.size();
    std::memcpy(payload, &number, sizeof(number));
    sent_.push_back(absl::Now());
  }
  (void)!send(out_.get(), payload, sizeof(payload), MSG_NOSIGNAL);
}

void Stream::ReceiveAll() {
  uint64_t number;
  alignas(cmsghdr) char control[64];
  iovec part = {&number, sizeof(number)};  // the kernel discards the rest
  for (;;) {
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (recvmsg(in_.get(), &message, MSG_DONTWAIT) < 0) return;
    absl::MutexLock lock(&mutex_);
    if (arrived_.empty() || number > arrived_.back().number)
      arrived_.push_back({number, ArrivalTime(&message)});
  }
}

std::vector<Stream::Arrival>::const_iterator Stream::FirstSentAt(absl::Time since) const {
  return std::partition_point(arrived_.begin(), arrived_.end(),
                              [&](const Arrival& arrival) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                                return sent_[arrival.number] < since;
                              });
}

size_t Stream::LostSince(absl::Time since) const {
  absl::MutexLock lock(&mutex_);
  const size_t arrived = arrived_.end() - FirstSentAt(since);
  if (arrived == 0) return 0;
  const size_t first_sent = std::lower_bound(sent_.begin(), sent_.end(), since) - sent_.begin();
  return arrived_.back().number + 1 - first_sent - arrived;
}

absl::optional<absl::Time> Stream::ForwardsSince(absl::Time since) const {
  absl::MutexLock lock(&mutex_);
  size_t in_a_row = 0;
  const auto first = FirstSentAt(since);
  for (auto arrival = first; arrival != arrived_.end(); ++arrival) {
    const bool follows = in_a_row > 0 && arrival->number == (arrival - 1)->number + 1;
    in_a_row = follows ? in_a_row + 1 : 1;
    if (in_a_row == kInARow) return (arrival - (kInARow - 1))->time;
  }
  return absl::nullopt;
}

absl::Duration Stream::LongestGap(absl::Time since) const {
  absl::MutexLock lock(&mutex_);
  absl::Duration longest;
  uint64_t next = 0;  // the oldest datagram that has not arrived
  for (const Arrival& arrival : arrived_) {
    longest = std::max(longest, arrival.time - std::max(sent_[next], since));
    next = arrival.number + 1;
  }
  if (next < sent_.size()) longest = std::max(longest, absl::Now() - std::max(sent_[next], since));
  return longest;
}

// ---- Traffic.

Traffic::~Traffic() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

Stream* Traffic::Add(Host* from, const std::string& from_address, Host* to,
                     const std::string& to_address) {
  const uint16_t port = static_cast<uint16_t>(kFirstPort + streams_.size());
  streams_.emplace_back(new Stream(from, from_address, to, to_address, port));
  return streams_.back().get();
}

void Traffic::Start() { thread_ = std::thread(&Traffic::Run, this); }

bool Traffic::stopping() const {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

void Traffic::NoteStall(absl::Time due, absl::Time now) {
  if (now - due < absl::Milliseconds(10)) return;
  absl::MutexLock lock(&mutex_);
  stalls_.emplace_back(now, now - due);
}

absl::Duration Traffic::StallAllowance(absl::Time since) const {
  absl::MutexLock lock(&mutex_);
  absl::Duration longest;
  for (const auto& [end, stall] : stalls_) {
    if (end >= since) longest = std::max(longest, stall);
  }
  return std::min(longest, kMostAllowance);
}

void Traffic::Run() {
  std::vector<pollfd> sockets;
  for (const std::unique_ptr<Stream>& stream : streams_)
    sockets.push_back({stream->in_.get(), POLLIN, 0});
  absl::Time next = absl::Now();
  while (!stopping()) {
    const absl::Time now = absl::Now();
    if (now >= next) {
      NoteStall(next, now);
      for (const std::unique_ptr<Stream>& stream : streams_) stream->SendOne();
      next = now + interval_;
    }
    const timespec wait = absl::ToTimespec(std::max(next - absl::Now(), absl::ZeroDuration()));
    ppoll(sockets.data(), sockets.size(), &wait, nullptr);
    for (const std::unique_ptr<Stream>& stream : streams_) stream->ReceiveAll();
  }
}

}  // namespace eoib::lab
