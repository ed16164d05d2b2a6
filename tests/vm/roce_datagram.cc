#include "tests/vm/roce_datagram.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

#include "tests/lab/process.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::lab {
namespace {

constexpr uint16_t kRocePort = 4791;
constexpr uint8_t kUdSendOnly = 0x64;
constexpr uint16_t kDefaultPKey = 0xffff;

void Append(Bytes* bytes, uint64_t value, int size) {
  for (int shift = 8 * (size - 1); shift >= 0; shift -= 8)
    bytes->push_back(static_cast<uint8_t>(value >> shift));
}

// IBA 1.4 §9.2 (BTH) and §9.3.2 (DETH).
Bytes Headers(const RoceDatagram& datagram) {
  Bytes headers = {kUdSendOnly, 0};
  Append(&headers, kDefaultPKey, 2);
  Append(&headers, datagram.destination_qpn.value(), 4);
  Append(&headers, 0, 4);  // PSN
  Append(&headers, datagram.qkey.value(), 4);
  Append(&headers, datagram.source_qpn.value(), 4);
  return headers;
}

uint32_t Crc32(const Bytes& bytes) {
  uint32_t crc = 0xffff'ffff;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb8'8320 : 0);
  }
  return ~crc;
}

// The invariant CRC (annex A17.3.3). It covers eight bytes in place of the LRH, the IPv6, UDP and
// InfiniBand headers with all ones in the variable fields, and the payload.
uint32_t InvariantCrc(const RoceDatagram& datagram, uint16_t source_port) {
  const Bytes headers = Headers(datagram);
  const size_t udp_length = 8 + headers.size() + datagram.payload.size() + 4;
  Bytes covered(8, 0xff);
  covered.insert(covered.end(), {0x6f, 0xff, 0xff, 0xff});  // version; traffic class, flow label
  Append(&covered, udp_length, 2);
  covered.insert(covered.end(), {IPPROTO_UDP, 0xff});  // next header; hop limit
  for (const Gid& gid : {datagram.source, datagram.destination}) {
    covered.insert(covered.end(), gid.bytes().begin(), gid.bytes().end());
  }
  Append(&covered, source_port, 2);
  Append(&covered, kRocePort, 2);
  Append(&covered, udp_length, 2);
  Append(&covered, 0xffff, 2);  // checksum
  const size_t bth = covered.size();
  covered.insert(covered.end(), headers.begin(), headers.end());
  covered[bth + 4] = 0xff;  // FECN, BECN and reserved bits, above the destination QPN
  covered.insert(covered.end(), datagram.payload.begin(), datagram.payload.end());
  return Crc32(covered);
}

sockaddr_in6 AddressOf(const Gid& gid, uint16_t port, const std::string& netdev) {
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  gid.ToWire(&address.sin6_addr);
  address.sin6_scope_id = if_nametoindex(netdev.c_str());
  return address;
}

}  // namespace

void SendRoce(const std::string& netdev, const RoceDatagram& datagram) {
  const UniqueFd fd(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 source = AddressOf(datagram.source, 0, netdev);
  socklen_t length = sizeof(source);
  if (!fd.valid() || bind(fd.get(), reinterpret_cast<sockaddr*>(&source), length) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&source), &length) != 0) {
    DieErrno("bind a UDP socket to " + datagram.source.ToString());
  }
  Bytes bytes = Headers(datagram);
  bytes.insert(bytes.end(), datagram.payload.begin(), datagram.payload.end());
  const uint32_t crc = InvariantCrc(datagram, ntohs(source.sin6_port));
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<uint8_t>(crc >> shift));
  const sockaddr_in6 destination = AddressOf(datagram.destination, kRocePort, netdev);
  if (sendto(fd.get(), bytes.data(), bytes.size(), 0,
             reinterpret_cast<const sockaddr*>(&destination), sizeof(destination)) < 0) {
    DieErrno("send a RoCE datagram to " + datagram.destination.ToString());
  }
}

}  // namespace eoib::lab
