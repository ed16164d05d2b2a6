#include "tests/lab/sockets.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace eoib::lab {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress Resolve(const std::string& text, uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(text.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) Die(absl::StrCat(text, ": ", gai_strerror(error)));
  SocketAddress address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

UniqueFd OpenIn(Host* host, int family, int type) {
  UniqueFd fd;
  host->InNamespace([&] { fd.reset(socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); });
  if (!fd.valid()) DieErrno("open a socket on " + host->name());
  return fd;
}

UniqueFd OpenBound(Host* host, const std::string& text, uint16_t port, int type) {
  const SocketAddress address = Resolve(text, port);
  UniqueFd fd = OpenIn(host, address.storage.ss_family, type);
  SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, int{1}, "set SO_REUSEADDR");
  if (bind(fd.get(), address.get(), address.length) != 0)
    DieErrno(absl::StrCat("bind to ", text, " on ", host->name()));
  return fd;
}

bool WaitUntil(int fd, short events, absl::Duration limit) {
  pollfd entry = {fd, events, 0};
  return poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(limit))) == 1;
}

// Byte `i` of the pattern. Its period is prime, so a lost or repeated piece changes the bytes.
uint8_t Pattern(size_t i) { return static_cast<uint8_t>(i % 251); }

constexpr size_t kPiece = 64 << 10;

// Both return false on a socket error; ReceiveSome also at the end of the stream.
bool SendSome(int fd, size_t total, size_t* sent) {
  Bytes piece(std::min(kPiece, total - *sent));
  for (size_t i = 0; i < piece.size(); ++i) piece[i] = Pattern(*sent + i);
  const ssize_t done = send(fd, piece.data(), piece.size(), MSG_NOSIGNAL);
  if (done > 0) *sent += static_cast<size_t>(done);
  return done >= 0 || errno == EAGAIN || errno == EINTR;
}

bool ReceiveSome(int fd, size_t* received, bool* damaged) {
  Bytes piece(kPiece);
  const ssize_t done = recv(fd, piece.data(), piece.size(), 0);
  for (ssize_t i = 0; i < done; ++i) *damaged |= piece[i] != Pattern(*received + i);
  if (done > 0) *received += static_cast<size_t>(done);
  return done > 0 || (done < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace

UniqueFd UdpSocket(Host* host, const std::string& address, uint16_t port) {
  return OpenBound(host, address, port, SOCK_DGRAM);
}

void SetPeer(int socket, const std::string& text, uint16_t port) {
  const SocketAddress address = Resolve(text, port);
  if (connect(socket, address.get(), address.length) != 0) DieErrno("connect to " + text);
}

UniqueFd UdpConnect(Host* host, const std::string& address, uint16_t port) {
  UniqueFd fd = OpenIn(host, Resolve(address, port).storage.ss_family, SOCK_DGRAM);
  SetPeer(fd.get(), address, port);
  return fd;
}

void SendUdp(int socket, const std::string& text, uint16_t port, const Bytes& payload) {
  const SocketAddress address = Resolve(text, port);
  while (sendto(socket, payload.data(), payload.size(), 0, address.get(), address.length) < 0) {
    if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR) DieErrno("send to " + text);
    internal::SleepOnePoll();
  }
}

absl::optional<Bytes> ReceiveUdp(int socket, absl::Duration limit) {
  if (!WaitUntil(socket, POLLIN, limit)) return absl::nullopt;
  Bytes payload(65536);
  const ssize_t got = recv(socket, payload.data(), payload.size(), 0);
  if (got < 0) return absl::nullopt;
  payload.resize(static_cast<size_t>(got));
  return payload;
}

UniqueFd TcpListener(Host* host, const std::string& address, uint16_t port) {
  UniqueFd fd = OpenBound(host, address, port, SOCK_STREAM);
  if (listen(fd.get(), 16) != 0) DieErrno("listen on " + host->name());
  return fd;
}

UniqueFd TcpConnect(Host* host, const std::string& text, uint16_t port, absl::Duration limit) {
  const SocketAddress address = Resolve(text, port);
  UniqueFd fd = OpenIn(host, address.storage.ss_family, SOCK_STREAM);
  int error = connect(fd.get(), address.get(), address.length) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    socklen_t size = sizeof(error);
    if (!WaitUntil(fd.get(), POLLOUT, limit)) {
      error = ETIMEDOUT;
    } else {
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error == 0) return fd;
  ADD_FAILURE() << host->name() << " connects to " << text << ": " << strerror(error);
  return UniqueFd();
}

UniqueFd TcpAccept(int listener, absl::Duration limit) {
  if (!WaitUntil(listener, POLLIN, limit)) return UniqueFd();
  return UniqueFd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

std::string TcpTransfer(int from, int to, size_t bytes, absl::Duration limit) {
  size_t sent = 0, received = 0;
  bool damaged = false;
  const absl::Time deadline = absl::Now() + limit;
  while (received < bytes) {
    if (absl::Now() > deadline)
      return absl::StrCat("only ", received, " of ", bytes, " bytes in time (", sent, " sent)");
    pollfd ends[] = {{sent < bytes ? from : -1, POLLOUT, 0}, {to, POLLIN, 0}};
    if (poll(ends, 2, 1000) < 0 && errno != EINTR) return absl::StrCat("poll: ", strerror(errno));
    if (ends[0].revents != 0 && !SendSome(from, bytes, &sent))
      return absl::StrCat("send: ", strerror(errno));
    if (ends[1].revents != 0 && !ReceiveSome(to, &received, &damaged))
      return absl::StrCat("receive: ", strerror(errno));
  }
  return damaged ? "the bytes are not those that were sent" : "";
}

}  // namespace eoib::lab
