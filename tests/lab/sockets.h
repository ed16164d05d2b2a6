// The kernel's UDP and TCP sockets on a host, used by the test program. Their traffic has the usual
// checksum offloads.
#ifndef EOIB_TESTS_LAB_SOCKETS_H_
#define EOIB_TESTS_LAB_SOCKETS_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "absl/types/optional.h"
#include "tests/lab/frames.h"
#include "tests/lab/lab.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::lab {

// Addresses are numeric, IPv4 or IPv6. If a call of the set-up fails, the test program ends.

template <typename Value>
void SetOption(int fd, int level, int name, const Value& value, const char* what) {
  if (setsockopt(fd, level, name, &value, sizeof(value)) != 0) DieErrno(what);
}

// A UDP socket bound to `address` and `port` (0: any).
UniqueFd UdpSocket(Host* host, const std::string& address, uint16_t port);
void SendUdp(int socket, const std::string& address, uint16_t port, const Bytes& payload);
// Connects a UDP socket to a peer.
void SetPeer(int socket, const std::string& address, uint16_t port);
// A UDP socket that is connected to a peer: only such a socket reports ICMP errors.
UniqueFd UdpConnect(Host* host, const std::string& address, uint16_t port);
// The next datagram; nullopt if none came in time.
absl::optional<Bytes> ReceiveUdp(int socket, absl::Duration limit = kPatience);

UniqueFd TcpListener(Host* host, const std::string& address, uint16_t port);
// If the connection is not made in time, fails the test and returns an invalid descriptor.
UniqueFd TcpConnect(Host* host, const std::string& address, uint16_t port,
                    absl::Duration limit = kPatience);
UniqueFd TcpAccept(int listener, absl::Duration limit = kPatience);
// Sends `bytes` bytes of a pattern from one end and compares them at the other. Returns "", or what
// went wrong.
std::string TcpTransfer(int from, int to, size_t bytes, absl::Duration limit = absl::Seconds(60));

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_SOCKETS_H_
