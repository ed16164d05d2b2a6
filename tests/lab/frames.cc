#include "tests/lab/frames.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/lab/process.h"

namespace eoib::lab {
namespace {

void Put16(Bytes* bytes, uint16_t value) {
  bytes->push_back(value >> 8);
  bytes->push_back(value & 0xff);
}

void Put32(Bytes* bytes, uint32_t value) {
  Put16(bytes, value >> 16);
  Put16(bytes, value & 0xffff);
}

template <typename Range>
void PutAll(Bytes* bytes, const Range& range) {
  bytes->insert(bytes->end(), range.begin(), range.end());
}

void Set16(Bytes* bytes, size_t at, uint16_t value) {
  (*bytes)[at] = value >> 8;
  (*bytes)[at + 1] = value & 0xff;
}

uint16_t Get16(const Bytes& bytes, size_t at) {
  return static_cast<uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

Bytes Slice(const Bytes& bytes, size_t from, size_t length) {
  return Bytes(bytes.begin() + from, bytes.begin() + from + length);
}

// The sum of the pseudo-header's words (RFC 768, RFC 8200 §8.1). `addresses`: source and
// destination.
uint32_t PseudoHeaderSum(const Bytes& addresses, uint8_t protocol, size_t length) {
  uint32_t sum = protocol + static_cast<uint32_t>(length);
  for (size_t i = 0; i < addresses.size(); i += 2) sum += Get16(addresses, i);
  return sum;
}

Bytes Ipv4Packet(const Flow4& flow, uint8_t protocol, const Bytes& l4) {
  Bytes ip = {0x45, 0};
  Put16(&ip, static_cast<uint16_t>(20 + l4.size()));
  Put32(&ip, 0x00004000);  // identification 0, don't fragment
  ip.push_back(64);
  ip.push_back(protocol);
  Put16(&ip, 0);
  PutAll(&ip, flow.source_ip);
  PutAll(&ip, flow.destination_ip);
  Set16(&ip, 10, InternetChecksum(ip));
  PutAll(&ip, l4);
  return EthernetFrame(flow.destination, flow.source, 0x0800, ip);
}

Bytes Ipv6Packet(const Flow6& flow, uint8_t protocol, const Bytes& l4) {
  Bytes ip;
  Put32(&ip, 0x60000000);
  Put16(&ip, static_cast<uint16_t>(l4.size()));
  ip.push_back(protocol);
  ip.push_back(64);
  PutAll(&ip, flow.source_ip);
  PutAll(&ip, flow.destination_ip);
  PutAll(&ip, l4);
  return EthernetFrame(flow.destination, flow.source, 0x86dd, ip);
}

// RFC 9260 Appendix A, bit by bit, over a packet whose own checksum counts as zero. As its bytes
// stand in the packet.
Bytes SctpChecksum(Bytes sctp) {
  std::fill_n(sctp.begin() + 8, 4, 0);
  uint32_t crc = 0xffffffff;
  for (const uint8_t byte : sctp) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  crc = ~crc;
  return {static_cast<uint8_t>(crc), static_cast<uint8_t>(crc >> 8),
          static_cast<uint8_t>(crc >> 16), static_cast<uint8_t>(crc >> 24)};
}

Bytes Sctp(const Bytes& payload) {
  Bytes sctp;
  Put16(&sctp, 5000);
  Put16(&sctp, 5001);
  Put32(&sctp, 7);  // verification tag
  Put32(&sctp, 0);
  Put16(&sctp, 0x0003);  // DATA, first and last fragment
  Put16(&sctp, static_cast<uint16_t>(16 + payload.size()));
  for (int i = 0; i < 3; ++i) Put32(&sctp, 1);  // TSN, stream, protocol
  PutAll(&sctp, payload);
  sctp.resize((sctp.size() + 3) / 4 * 4);
  const Bytes checksum = SctpChecksum(sctp);
  std::copy(checksum.begin(), checksum.end(), sctp.begin() + 8);
  return sctp;
}

Bytes Arp(uint16_t operation, MacAddr sender, Ipv4 sender_ip, MacAddr target, Ipv4 target_ip) {
  Bytes arp;
  Put16(&arp, 1);
  Put16(&arp, 0x0800);
  arp.push_back(6);
  arp.push_back(4);
  Put16(&arp, operation);
  PutAll(&arp, sender.bytes());
  PutAll(&arp, sender_ip);
  PutAll(&arp, target.bytes());
  PutAll(&arp, target_ip);
  return arp;
}

// The offset of the EtherType behind all tags; 0 if the frame ends before it.
size_t EtherTypeOffset(const Bytes& frame) {
  size_t at = 12;
  while (frame.size() >= at + 2 && (Get16(frame, at) == 0x8100 || Get16(frame, at) == 0x88a8))
    at += 4;
  return frame.size() >= at + 2 ? at : 0;
}

uint8_t PatternByte(uint32_t marker, size_t i) {
  return static_cast<uint8_t>(marker * 7 + i * 13 + (i >> 8));
}

std::string L4ChecksumError(const Bytes& addresses, uint8_t protocol, const Bytes& l4) {
  if (protocol == 132)
    return l4.size() >= 12 && Slice(l4, 8, 4) == SctpChecksum(l4) ? "" : "SCTP checksum is wrong; ";
  const char* name = protocol == 6    ? "TCP"
                     : protocol == 17 ? "UDP"
                     : protocol == 58 ? "ICMPv6"
                     : protocol == 1  ? "ICMP"
                                      : "";
  if (*name == 0) return absl::StrCat("IP protocol ", protocol, " is not checked here; ");
  // None (RFC 768)
  if (protocol == 17 && l4.size() >= 8 && Get16(l4, 6) == 0 && addresses.size() == 8) return "";
  const uint32_t pseudo = protocol == 1 ? 0 : PseudoHeaderSum(addresses, protocol, l4.size());
  return InternetChecksum(l4, pseudo) == 0 ? "" : absl::StrCat(name, " checksum is wrong; ");
}

std::string Ipv4Errors(const Bytes& ip) {
  const size_t header = (ip[0] & 15) * 4u;
  const size_t total = Get16(ip, 2);
  if (header < 20 || total < header || ip.size() < total) return "IPv4 packet is cut short; ";
  std::string errors;
  if (InternetChecksum(Slice(ip, 0, header)) != 0) errors = "IPv4 header checksum is wrong; ";
  return errors + L4ChecksumError(Slice(ip, 12, 8), ip[9], Slice(ip, header, total - header));
}

std::string Ipv6Errors(const Bytes& ip) {
  const size_t length = Get16(ip, 4);
  if (ip.size() < 40 + length) return "IPv6 packet is cut short; ";
  return L4ChecksumError(Slice(ip, 8, 32), ip[6], Slice(ip, 40, length));
}

}  // namespace

MacAddr Mac(const std::string& text) {
  auto mac = MacAddr::Parse(text);
  if (!mac.ok()) Die(mac.status().ToString());
  return *mac;
}

Ipv4 Ip4(const std::string& text) {
  Ipv4 address;
  if (inet_pton(AF_INET, text.c_str(), address.data()) != 1) Die("not an IPv4 address: " + text);
  return address;
}

Ipv6 Ip6(const std::string& text) {
  Ipv6 address;
  if (inet_pton(AF_INET6, text.c_str(), address.data()) != 1) Die("not an IPv6 address: " + text);
  return address;
}

Bytes EthernetFrame(MacAddr destination, MacAddr source, uint16_t ethertype, const Bytes& payload) {
  Bytes frame;
  PutAll(&frame, destination.bytes());
  PutAll(&frame, source.bytes());
  Put16(&frame, ethertype);
  PutAll(&frame, payload);
  return frame;
}

Bytes WithTag(const Bytes& frame, uint16_t vid, uint8_t priority, uint16_t tpid) {
  Bytes tag;
  Put16(&tag, tpid);
  Put16(&tag, static_cast<uint16_t>(priority << 13 | vid));
  Bytes tagged = frame;
  tagged.insert(tagged.begin() + 12, tag.begin(), tag.end());
  return tagged;
}

Bytes Padded(Bytes frame) {
  const size_t minimum = frame.size() >= 14 && Get16(frame, 12) == 0x8100 ? 64 : 60;
  if (frame.size() < minimum) frame.resize(minimum);
  return frame;
}

Bytes TestFrame(MacAddr destination, MacAddr source, uint32_t marker, size_t length) {
  if (length < 18) Die("a test frame has at least 18 bytes");
  Bytes payload;
  Put32(&payload, marker);
  for (size_t i = 18; i < length; ++i) payload.push_back(PatternByte(marker, i));
  return EthernetFrame(destination, source, kTestEtherType, payload);
}

uint32_t MarkerOf(const Bytes& frame) {
  const size_t at = EtherTypeOffset(frame);
  if (at == 0 || frame.size() < at + 6 || Get16(frame, at) != kTestEtherType) return 0;
  const uint32_t marker = static_cast<uint32_t>(Get16(frame, at + 2)) << 16 | Get16(frame, at + 4);
  const size_t tags = at - 12;
  bool padding = frame.size() <= 64;  // a short frame may end in zeros
  for (size_t i = at + 6; i < frame.size(); ++i) {
    if (frame[i] != PatternByte(marker, i - tags) && !(padding && frame[i] == 0)) return kDamaged;
  }
  return marker;
}

Bytes ArpRequest(MacAddr sender, Ipv4 sender_ip, Ipv4 target_ip) {
  return EthernetFrame(MacAddr::Broadcast(), sender, 0x0806,
                       Arp(1, sender, sender_ip, MacAddr(), target_ip));
}

Bytes ArpReply(MacAddr sender, Ipv4 sender_ip, MacAddr target, Ipv4 target_ip) {
  return EthernetFrame(target, sender, 0x0806, Arp(2, sender, sender_ip, target, target_ip));
}

Bytes RarpRequest(MacAddr sender) {
  return EthernetFrame(MacAddr::Broadcast(), sender, 0x8035, Arp(3, sender, {}, sender, {}));
}

Bytes NeighborSolicitation(MacAddr sender, Ipv6 sender_ip, Ipv6 target_ip) {
  // RFC 4861 §4.3, sent to the solicited-node group (RFC 4291 §2.7.1), mapped to Ethernet as in RFC
  // 2464 §7.
  Ipv6 group = Ip6("ff02::1:ff00:0");
  std::memcpy(&group[13], &target_ip[13], 3);
  Bytes nd = {135, 0, 0, 0, 0, 0, 0, 0};
  PutAll(&nd, target_ip);
  nd.push_back(1);  // option: source link-layer address, 8 bytes
  nd.push_back(1);
  PutAll(&nd, sender.bytes());
  Bytes addresses(sender_ip.begin(), sender_ip.end());
  PutAll(&addresses, group);
  Set16(&nd, 2, InternetChecksum(nd, PseudoHeaderSum(addresses, 58, nd.size())));
  Bytes ip = {0x60, 0, 0, 0};
  Put16(&ip, static_cast<uint16_t>(nd.size()));
  ip.push_back(58);
  ip.push_back(255);
  PutAll(&ip, addresses);
  PutAll(&ip, nd);
  std::array<uint8_t, 6> mac = {0x33, 0x33, group[12], group[13], group[14], group[15]};
  return EthernetFrame(MacAddr(mac), sender, 0x86dd, ip);
}

Bytes IcmpEchoRequest(const Flow4& flow, uint16_t id, uint16_t sequence, const Bytes& payload) {
  Bytes icmp = {8, 0, 0, 0};
  Put16(&icmp, id);
  Put16(&icmp, sequence);
  PutAll(&icmp, payload);
  Set16(&icmp, 2, InternetChecksum(icmp));
  return Ipv4Packet(flow, 1, icmp);
}

Bytes TcpSegment(const Flow4& flow, uint16_t source_port, uint16_t destination_port,
                 const Bytes& payload) {
  Bytes tcp;
  Put16(&tcp, source_port);
  Put16(&tcp, destination_port);
  Put32(&tcp, 1000);  // sequence
  Put32(&tcp, 1);     // acknowledgement
  Put16(&tcp, 0x5018);
  Put16(&tcp, 1000);  // window
  Put32(&tcp, 0);
  PutAll(&tcp, payload);
  Bytes addresses(flow.source_ip.begin(), flow.source_ip.end());
  PutAll(&addresses, flow.destination_ip);
  Set16(&tcp, 16, InternetChecksum(tcp, PseudoHeaderSum(addresses, 6, tcp.size())));
  return Ipv4Packet(flow, 6, tcp);
}

Bytes SctpPacket(const Flow4& flow, const Bytes& payload) {
  return Ipv4Packet(flow, 132, Sctp(payload));
}
Bytes SctpPacket(const Flow6& flow, const Bytes& payload) {
  return Ipv6Packet(flow, 132, Sctp(payload));
}

Bytes UdpDatagram(const Flow4& flow, uint16_t source_port, uint16_t destination_port,
                  const Bytes& payload) {
  Bytes udp;
  Put16(&udp, source_port);
  Put16(&udp, destination_port);
  Put16(&udp, static_cast<uint16_t>(8 + payload.size()));
  Put16(&udp, 0);
  PutAll(&udp, payload);
  Bytes addresses(flow.source_ip.begin(), flow.source_ip.end());
  PutAll(&addresses, flow.destination_ip);
  const uint16_t sum = InternetChecksum(udp, PseudoHeaderSum(addresses, 17, udp.size()));
  Set16(&udp, 6, sum == 0 ? 0xffff : sum);
  return Ipv4Packet(flow, 17, udp);
}

std::string ChecksumErrors(const Bytes& frame) {
  const size_t at = EtherTypeOffset(frame);
  if (at == 0) return "frame is cut short; ";
  const Bytes ip = Slice(frame, at + 2, frame.size() - at - 2);
  if (Get16(frame, at) == 0x0800)
    return ip.size() < 20 ? "IPv4 packet is cut short; " : Ipv4Errors(ip);
  if (Get16(frame, at) == 0x86dd)
    return ip.size() < 40 ? "IPv6 packet is cut short; " : Ipv6Errors(ip);
  return "no IP packet; ";
}

uint16_t InternetChecksum(const Bytes& bytes, uint32_t initial) {
  uint64_t sum = initial;
  for (size_t i = 0; i < bytes.size(); ++i) sum += i % 2 == 0 ? bytes[i] << 8 : bytes[i];
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

std::string Hex(const Bytes& bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    char byte[8];
    std::snprintf(byte, sizeof(byte), "%s%02x", i == 0 ? "" : i % 16 == 0 ? "\n" : " ", bytes[i]);
    text += byte;
  }
  return text;
}

}  // namespace eoib::lab
