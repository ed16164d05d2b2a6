// Ethernet frames for tests. They are built byte by byte, without the switch's own codecs, so that
// an error in a codec cannot hide itself.
//
// Frames begin at the destination MAC and have no FCS and no padding.
#ifndef EOIB_TESTS_LAB_FRAMES_H_
#define EOIB_TESTS_LAB_FRAMES_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "vswitch/base/address.h"

namespace eoib::lab {

using Bytes = std::vector<uint8_t>;
using Ipv4 = std::array<uint8_t, 4>;
using Ipv6 = std::array<uint8_t, 16>;

// Parse text; end the test program if it is wrong.
MacAddr Mac(const std::string& text);
Ipv4 Ip4(const std::string& text);
Ipv6 Ip6(const std::string& text);

inline constexpr uint16_t kTestEtherType = 0x88b6;  // IEEE 802 local experimental 2

Bytes EthernetFrame(MacAddr destination, MacAddr source, uint16_t ethertype, const Bytes& payload);
// `frame` with a tag inserted after its addresses.
Bytes WithTag(const Bytes& frame, uint16_t vid, uint8_t priority = 0, uint16_t tpid = 0x8100);
// `frame` padded with zeros to the minimum: 60 bytes, or 64 if its first tag is 802.1Q.
Bytes Padded(Bytes frame);

// A frame of kTestEtherType that carries `marker`. It is `length` bytes long, at least 18, and
// filled with a pattern that depends on the marker.
Bytes TestFrame(MacAddr destination, MacAddr source, uint32_t marker, size_t length = 100);
// The marker of a TestFrame, with or without tags; 0 for another frame, kDamaged if the pattern is
// wrong.
inline constexpr uint32_t kDamaged = 0xffffffff;
uint32_t MarkerOf(const Bytes& frame);

Bytes ArpRequest(MacAddr sender, Ipv4 sender_ip, Ipv4 target_ip);
Bytes ArpReply(MacAddr sender, Ipv4 sender_ip, MacAddr target, Ipv4 target_ip);
// "request reverse" of `sender` for its own address (RFC 903), as hypervisors announce a moved
// guest.
Bytes RarpRequest(MacAddr sender);
Bytes NeighborSolicitation(MacAddr sender, Ipv6 sender_ip, Ipv6 target_ip);

// The addresses of an IPv4 packet, for both layers.
struct Flow4 {
  MacAddr destination, source;
  Ipv4 source_ip, destination_ip;
};
Bytes IcmpEchoRequest(const Flow4& flow, uint16_t id, uint16_t sequence, const Bytes& payload);
struct Flow6 {
  MacAddr destination, source;
  Ipv6 source_ip, destination_ip;
};
// With ACK and PSH.
Bytes TcpSegment(const Flow4& flow, uint16_t source_port, uint16_t destination_port,
                 const Bytes& payload);
// With one DATA chunk.
Bytes SctpPacket(const Flow4& flow, const Bytes& payload);
Bytes SctpPacket(const Flow6& flow, const Bytes& payload);
Bytes UdpDatagram(const Flow4& flow, uint16_t source_port, uint16_t destination_port,
                  const Bytes& payload);

// Describes wrong checksums in a TCP, UDP, SCTP or ICMP packet over IPv4 or IPv6; "" if all are
// right. Also reports a frame that is cut short or is not IP. Recomputes the checksums from all
// bytes; does not understand fragments.
std::string ChecksumErrors(const Bytes& frame);

// RFC 1071. Returns the value for the checksum field.
uint16_t InternetChecksum(const Bytes& bytes, uint32_t initial = 0);

// For failure messages: 16 bytes on each line.
std::string Hex(const Bytes& bytes);

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_FRAMES_H_
