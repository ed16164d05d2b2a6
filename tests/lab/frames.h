// Ethernet frames for tests, built byte by byte and apart from the switch's own codecs, so that an error there cannot hide
// here.
//
// Frames are from the destination MAC on, without FCS and without padding.
#ifndef EOIB_TESTS_LAB_FRAMES_H_
#define EOIB_TESTS_LAB_FRAMES_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "fdb/address.h"

namespace eoib::lab {

using Bytes = std::vector<uint8_t>;
using Ipv4 = std::array<uint8_t, 4>;
using Ipv6 = std::array<uint8_t, 16>;

// From text; ends the test if it is none.
MacAddr Mac(const std::string& text);
Ipv4 Ip4(const std::string& text);
Ipv6 Ip6(const std::string& text);

inline constexpr uint16_t kTestEtherType = 0x88b6;  // IEEE 802 local experimental 2

Bytes EthernetFrame(MacAddr destination, MacAddr source, uint16_t ethertype, const Bytes& payload);
// `frame` with an 802.1Q tag (or one of another `tpid`) behind its addresses.
Bytes WithTag(const Bytes& frame, uint16_t vid, uint8_t priority = 0, uint16_t tpid = 0x8100);
// With zeros up to the minimum: 60 bytes, 64 if its first tag is 802.1Q.
Bytes Padded(Bytes frame);

// A frame of kTestEtherType that says `marker` and is `length` bytes long, 18 at least, filled with a pattern that depends on
// the marker.
Bytes TestFrame(MacAddr destination, MacAddr source, uint32_t marker, size_t length = 100);
// The marker of a TestFrame, also behind tags; 0 if it is none, kDamaged if its bytes are not what was sent.
inline constexpr uint32_t kDamaged = 0xffffffff;
uint32_t MarkerOf(const Bytes& frame);

Bytes ArpRequest(MacAddr sender, Ipv4 sender_ip, Ipv4 target_ip);
Bytes ArpReply(MacAddr sender, Ipv4 sender_ip, MacAddr target, Ipv4 target_ip);
Bytes NeighborSolicitation(MacAddr sender, Ipv6 sender_ip, Ipv6 target_ip);

// IP endpoints of a packet.
struct Flow4 {
  MacAddr destination, source;
  Ipv4 source_ip, destination_ip;
};
Bytes IcmpEchoRequest(const Flow4& flow, uint16_t id, uint16_t sequence, const Bytes& payload);
Bytes UdpDatagram(const Flow4& flow, uint16_t source_port, uint16_t destination_port, const Bytes& payload);

// What of an IPv4 or IPv6 TCP, UDP or ICMP packet's checksums is wrong, in words; "" if all are right, also if the frame is cut
// short or no IP at all (then it says so). Recomputed from every byte; fragments are not read.
std::string ChecksumErrors(const Bytes& frame);

// RFC 1071; the value to put into the field.
uint16_t InternetChecksum(const Bytes& bytes, uint32_t initial = 0);

// For failure messages: 16 bytes a line.
std::string Hex(const Bytes& bytes);

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_FRAMES_H_
