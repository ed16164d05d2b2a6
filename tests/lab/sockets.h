// Kernel sockets in a host, used from the test: traffic with the checksum offloads that programs get.
#ifndef EOIB_TESTS_LAB_SOCKETS_H_
#define EOIB_TESTS_LAB_SOCKETS_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"
#include "tests/lab/frames.h"
#include "tests/lab/lab.h"
#include "vswitch/fabric/unique_fd.h"

namespace eoib::lab {

// Addresses are numeric, IPv4 or IPv6. Everything here ends the test program where the kernel refuses what set-up needs.

// A UDP socket bound to `address` and `port` (0: any).
UniqueFd UdpSocket(Host* host, const std::string& address, uint16_t port);
void SendUdp(int socket, const std::string& address, uint16_t port, const Bytes& payload);
// Gives a UDP socket a peer.
void SetPeer(int socket, const std::string& address, uint16_t port);
// One that has a peer: only such a socket hears of ICMP errors.
UniqueFd UdpConnect(Host* host, const std::string& address, uint16_t port);
// Nothing if none came in time.
absl::optional<Bytes> ReceiveUdp(int socket, absl::Duration limit = kPatience);

UniqueFd TcpListener(Host* host, const std::string& address, uint16_t port);
// Invalid, and a failed test that says why, if the connection is not made in time.
UniqueFd TcpConnect(Host* host, const std::string& address, uint16_t port, absl::Duration limit = kPatience);
UniqueFd TcpAccept(int listener, absl::Duration limit = kPatience);
// Sends `bytes` of a pattern from one end and reads them at the other; "" or what went wrong.
std::string TcpTransfer(int from, int to, size_t bytes, absl::Duration limit = absl::Seconds(60));

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_SOCKETS_H_
