#include "vswitch/port/vhost/message_relay.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace eoib {
namespace {

// What a request carries. The queue's number is in the first four bytes, or the first one if a
// descriptor belongs to it.
struct Request {
  enum class Queue : uint8_t { kNone, kNumber, kNumberAndDescriptor };

  uint32_t number;
  const char* name;
  uint32_t bytes = 0;
  Queue queue = Queue::kNone;
};

constexpr uint32_t kSetMemoryTable = 5, kSetLogBase = 6, kSetLogFd = 7, kSetQueueSize = 8;

// The requests of a network interface whose memory is shared once (QEMU,
// docs/interop/vhost-user.rst). Without those for in-flight buffers, post-copy migration, device
// IOTLBs and the like, none of which the library is told to offer.
constexpr Request kRequests[] = {
    {1, "GET_FEATURES"},
    {2, "SET_FEATURES", 8},
    {3, "SET_OWNER"},
    {4, "RESET_OWNER"},
    {kSetMemoryTable, "SET_MEM_TABLE", 8},  // and 32 for each region
    {kSetLogBase, "SET_LOG_BASE", 16},
    {kSetLogFd, "SET_LOG_FD"},
    {kSetQueueSize, "SET_VRING_NUM", 8, Request::Queue::kNumber},
    {9, "SET_VRING_ADDR", 40, Request::Queue::kNumber},
    {10, "SET_VRING_BASE", 8, Request::Queue::kNumber},
    {11, "GET_VRING_BASE", 8, Request::Queue::kNumber},
    {12, "SET_VRING_KICK", 8, Request::Queue::kNumberAndDescriptor},
    {13, "SET_VRING_CALL", 8, Request::Queue::kNumberAndDescriptor},
    {14, "SET_VRING_ERR", 8, Request::Queue::kNumberAndDescriptor},
    {15, "GET_PROTOCOL_FEATURES"},
    {16, "SET_PROTOCOL_FEATURES", 8},
    {17, "GET_QUEUE_NUM"},
    {18, "SET_VRING_ENABLE", 8, Request::Queue::kNumber},
    {19, "SEND_RARP", 8},
    {20, "NET_SET_MTU", 8},
    {39, "SET_STATUS", 8},
    {40, "GET_STATUS"},
};
constexpr uint32_t kRegionBytes = 32;
constexpr uint32_t kNoDescriptor = 0x100;  // beside the number of a queue

const Request* Find(uint32_t number) {
  const auto* const at =
      std::find_if(std::begin(kRequests), std::end(kRequests),
                   [number](const Request& one) { return one.number == number; });
  return at == std::end(kRequests) ? nullptr : at;
}

uint32_t WordAt(const VhostMessage& message, size_t at) {
  uint32_t word;
  std::memcpy(&word, message.bytes + at, sizeof(word));
  return word;
}

uint64_t LongAt(const VhostMessage& message, size_t at) {
  uint64_t number;
  std::memcpy(&number, message.bytes + at, sizeof(number));
  return number;
}

// Whether the regions of a memory table leave addresses for other machines.
bool IsAffordable(const VhostMessage& table, size_t regions) {
  static const uint64_t most = 4 * static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                               static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t sum = 0;
  for (size_t i = 0; i < regions; ++i) {
    const size_t region = 8 + i * kRegionBytes;
    // Its size, and where it is in its file.
    for (const size_t number : {region + 8, region + 24}) {
      if (LongAt(table, number) > most - sum) return false;
      sum += LongAt(table, number);
    }
  }
  return true;
}

// Whether the kernel alone answers accesses to the file: an eventfd.
bool IsEvent(int fd) {
  constexpr char kEvent[] = "anon_inode:[eventfd]";
  std::array<char, sizeof(kEvent)> link;
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return readlink(path.c_str(), link.data(), link.size()) == sizeof(kEvent) - 1 &&
         std::memcmp(link.data(), kEvent, sizeof(kEvent) - 1) == 0;
}

// The same: a file in memory or in huge pages. Only those have seals, and asking for them asks no
// file system.
bool IsMemory(int fd) { return fcntl(fd, F_GET_SEALS) >= 0; }

// Does not wait for room in the queue of a program that listens.
UniqueFd ConnectTo(const std::string& path) {
  UniqueFd made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (connect(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    made.reset();
  return made;
}

}  // namespace

std::string VhostRequestName(uint32_t request) {
  const Request* const known = Find(request);
  return known == nullptr ? "request " + std::to_string(request) : known->name;
}

std::string CheckVhostMessage(const VhostMessage& message, size_t fds) {
  const Request* const request = Find(message.header.request);
  const std::string name = VhostRequestName(message.header.request);
  if (request == nullptr) return name + ", which is not for network interfaces";
  constexpr uint32_t kFlags = VhostMessageHeader::kVersionMask | VhostMessageHeader::kNeedsReply;
  if ((message.header.flags & VhostMessageHeader::kVersionMask) != VhostMessageHeader::kVersion ||
      (message.header.flags & ~kFlags) != 0) {
    return name + " with flags of another version of the protocol";
  }
  if (message.header.size < request->bytes || message.header.size > VhostMessage::kMostBytes)
    return name + " of a wrong size";
  size_t expected =
      message.header.request == kSetLogBase || message.header.request == kSetLogFd ? 1 : 0;
  if (message.header.request == kSetLogBase &&
      (LongAt(message, 0) > MessageRelay::kLargestLog || LongAt(message, 8) != 0)) {
    return name + " of more than 1 GB, or behind other bytes of its file";
  }
  if (message.header.request == kSetMemoryTable) {
    expected = WordAt(message, 0);
    if (expected == 0 || expected > VhostMessage::kMostFds ||
        message.header.size < request->bytes + expected * kRegionBytes) {
      return name + " with " + std::to_string(expected) + " regions in " +
             std::to_string(message.header.size) + " bytes";
    }
    if (!IsAffordable(message, expected))
      return name + " of more than four times the memory of this host";
  }
  if (request->queue != Request::Queue::kNone) {
    const uint32_t word = WordAt(message, 0);
    const bool takes_fd = request->queue == Request::Queue::kNumberAndDescriptor;
    const uint32_t queue = takes_fd ? word & (kNoDescriptor - 1) : word;
    if (queue >= 2 * MessageRelay::kMostPairs) {
      return name + " for queue " + std::to_string(queue) + ": a vPort has " +
             std::to_string(MessageRelay::kMostPairs) + " pairs at most";
    }
    if (takes_fd) expected = (word & kNoDescriptor) != 0 ? 0 : 1;
    if (message.header.request == kSetQueueSize &&
        WordAt(message, 4) > MessageRelay::kLargestQueue) {
      return name + " to " + std::to_string(WordAt(message, 4)) + " entries: a queue has " +
             std::to_string(MessageRelay::kLargestQueue) + " at most";
    }
  }
  if (fds != expected)
    return name + " with " + std::to_string(fds) + " descriptors instead of " +
           std::to_string(expected);
  return "";
}

// What the thread and the relay's owner share. The thread does all the work.
struct MessageRelay::State {
  using Clock = std::chrono::steady_clock;
  static constexpr int kRetry = 1000;  // milliseconds

  explicit State(Options given)
      : options(std::move(given)), stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void Run() {
    while (!IsStopped()) {
      UniqueFd next = options.listener.valid() ? Accept() : Connect();
      const bool served = next.valid() && Serve(std::move(next));
      if (!served || !options.listener.valid()) Wait(-1, kRetry);
    }
    options.listener.reset();  // with the programs that wait there, and what they have sent
  }
  bool IsStopped() {
    const std::lock_guard<std::mutex> lock(mutex);
    return stopped;
  }
  // Waits for a program at the listener, for the end, or for the time.
  void Wait(int fd, int milliseconds) {
    std::array<pollfd, 2> waiting = {{{stop.get(), POLLIN, 0}, {fd, POLLIN, 0}}};
    poll(waiting.data(), waiting.size(), milliseconds);
  }
  UniqueFd Accept() {
    Wait(options.listener.get(), -1);
    return UniqueFd(accept4(options.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  UniqueFd Connect() const {
    UniqueFd socket = ConnectTo(options.path);
    if (socket.valid()) fcntl(socket.get(), F_SETFL, 0);
    return socket;
  }

  // Serves a program until the end of its connection. False if the library cannot be reached.
  bool Serve(UniqueFd accepted) {
    UniqueFd inner = ConnectTo("/proc/self/fd/" + std::to_string(options.library.get()));
    if (!inner.valid() || fcntl(inner.get(), F_SETFL, 0) != 0) return false;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (stopped) return false;
      fault.clear();
      program = std::move(accepted);
      library = std::move(inner);
    }
    Relay();
    shutdown(program.get(), SHUT_RDWR);
    shutdown(library.get(), SHUT_WR);
    // The next program waits until the library has forgotten this one.
    std::array<uint8_t, 64> rest;
    while (recv(library.get(), rest.data(), rest.size(), 0) > 0) {
    }
    UniqueFd ends[2];
    {
      const std::lock_guard<std::mutex> lock(mutex);
      ends[0] = std::move(program);
      ends[1] = std::move(library);
    }
    return true;  // what the program has sent, and nobody has read, may hold up this thread
  }

  // One direction at a time. While the program does not read an answer, the library gets no further
  // message.
  void Relay() {
    while (true) {
      std::array<pollfd, 3> waiting = {{{library.get(), POLLIN, 0},
                                        {program.get(), POLLIN, 0},
                                        {options.listener.get(), POLLIN, 0}}};
      if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
      if (waiting[0].revents != 0) {
        if (!PassAnswer()) return;
      } else if (waiting[1].revents != 0) {
        if (!PassMessage()) return;
      } else if (waiting[2].revents != 0) {
        RefuseNext();
      }
    }
  }
  void RefuseNext() {
    const UniqueFd next(accept4(options.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::lock_guard<std::mutex> lock(mutex);
    if (next.valid() && !stopped && options.refused != nullptr) options.refused();
  }
  // Ends the connection because of what the program sent.
  bool Fail(std::string what) {
    const std::lock_guard<std::mutex> lock(mutex);
    fault = std::move(what);
    return false;
  }
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex);
    stopped = true;
    eventfd_write(stop.get(), 1);
    for (const UniqueFd* one : {&program, &library}) {
      if (one->valid()) shutdown(one->get(), SHUT_RDWR);
    }
  }

  bool PassAnswer() {
    std::array<uint8_t, sizeof(VhostMessage)> bytes;
    const ssize_t size = recv(library.get(), bytes.data(), bytes.size(), 0);
    return size > 0 && SendAll(program.get(), bytes.data(), static_cast<size_t>(size), {});
  }

  // False at the end of the connection.
  bool PassMessage() {
    VhostMessage message{};
    std::vector<UniqueFd> fds;
    if (!ReceiveHeader(&message.header, &fds)) return false;
    const uint32_t size = message.header.size;
    if (size > sizeof(message.bytes))
      return Fail("a message of " + std::to_string(size) + " bytes");
    if (size != 0 &&
        recv(program.get(), message.bytes, size, MSG_WAITALL) != static_cast<ssize_t>(size))
      return false;
    if (std::string wrong = CheckVhostMessage(message, fds.size()); !wrong.empty())
      return Fail(std::move(wrong));
    const bool memory =
        message.header.request == kSetMemoryTable || message.header.request == kSetLogBase;
    for (const UniqueFd& fd : fds) {
      if (memory ? IsMemory(fd.get()) : IsEvent(fd.get())) continue;
      return Fail(
          VhostRequestName(message.header.request) +
          (memory ? " with a file that is neither in memory (memfd, /dev/shm) nor in huge pages"
                  : " with a descriptor that is no eventfd"));
    }
    KeepPace();
    return SendAll(library.get(), &message, sizeof(message.header) + size, fds);
  }

  bool ReceiveHeader(VhostMessageHeader* header, std::vector<UniqueFd>* fds) {
    iovec part{header, sizeof(*header)};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(VhostMessage::kMostFds * sizeof(int))> control;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = recvmsg(program.get(), &message, MSG_WAITALL | MSG_CMSG_CLOEXEC);
    for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
      if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
      for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= at->cmsg_len; ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(at) + i * sizeof(int), sizeof(fd));
        fds->emplace_back(fd);
      }
    }
    return size == sizeof(*header) && (message.msg_flags & MSG_CTRUNC) == 0;
  }

  // In one piece, so that the library finds all of a message that it began to read.
  static bool SendAll(int socket, const void* bytes, size_t size,
                      const std::vector<UniqueFd>& fds) {
    iovec part{const_cast<void*>(bytes), size};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(VhostMessage::kMostFds * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      for (size_t i = 0; i < fds.size(); ++i) {
        const int fd = fds[i].get();
        std::memcpy(CMSG_DATA(header) + i * sizeof(int), &fd, sizeof(fd));
      }
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  }

  // Waits while the program is faster than kPerSecond, after kBurst messages.
  void KeepPace() {
    constexpr auto kEach = std::chrono::nanoseconds(std::chrono::seconds(1)) / kPerSecond;
    const Clock::time_point now = Clock::now();
    next = std::max(next, now - kBurst * kEach) + kEach;
    if (next > now) std::this_thread::sleep_until(next);
  }

  Options options;
  const UniqueFd stop;     // readable: the end
  Clock::time_point next;  // when the next message is due, at kPerSecond

  std::mutex mutex;
  UniqueFd program, library;  // the thread's; it takes the mutex to change them, others to use them
  std::string fault;          // guarded by the mutex, as is the next one
  bool stopped = false;
};

MessageRelay::MessageRelay(Options options) : state_(std::make_shared<State>(std::move(options))) {
  std::thread([state = state_] { state->Run(); }).detach();
}

void MessageRelay::Close() { state_->Close(); }

std::string MessageRelay::fault() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->fault;
}

}  // namespace eoib
