// The IP codecs of a gateway or a host in user space: packets, checksums, fragments, ICMP errors,
// group reports, UDP, DHCP.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/dhcp4.h"
#include "vswitch/wire/ip/dhcp4_writer.h"
#include "vswitch/wire/ip/group_report.h"
#include "vswitch/wire/ip/icmp_error.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_fragment.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ip_packet.h"
#include "vswitch/wire/ip/ones_complement_sum.h"
#include "vswitch/wire/ip/segment_run.h"
#include "vswitch/wire/ip/udp.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr Ipv4Addr kRouter4(0xc000'02fe);
constexpr Ipv6Addr kRouter6({0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe});

void Require(bool condition) {
  if (!condition) std::abort();
}

Bytes Copy(absl::Span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

bool IsWithin(absl::Span<const uint8_t> part, absl::Span<const uint8_t> whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

absl::optional<Ipv4Packet> ParseAs(absl::Span<const uint8_t> bytes, const Ipv4Packet&) {
  return ParseIpv4Packet(bytes);
}
absl::optional<Ipv6Packet> ParseAs(absl::Span<const uint8_t> bytes, const Ipv6Packet&) {
  return ParseIpv6Packet(bytes);
}

// A written checksum is right, and equals a right one that was there, except for the two zeros of
// one's complement.
template <typename Packet>
void CheckSums(const Packet& packet) {
  const ChecksumVerdict verdict = VerifyChecksum(packet);
  Bytes copy = Copy(packet.bytes);
  if (!WriteChecksum(absl::MakeSpan(copy))) {
    Require(verdict != ChecksumVerdict::kRight && copy == Copy(packet.bytes));
    return;
  }
  const auto written = ParseAs(copy, packet);
  Require(written.has_value() && VerifyChecksum(*written) == ChecksumVerdict::kRight);
  const auto differs = std::mismatch(copy.begin(), copy.end(), packet.bytes.begin()).first;
  if (verdict != ChecksumVerdict::kRight || differs == copy.end()) return;
  const auto field = static_cast<size_t>(differs - copy.begin());
  Require(copy[field] == 0 || copy[field] == 0xff);
}

// After a change of a word, the updated checksum equals the recomputed one.
void CheckUpdate(absl::Span<const uint8_t> bytes) {
  if (bytes.size() < 4) return;
  Bytes copy = Copy(bytes);
  const auto before = static_cast<uint16_t>(~OnesComplementSum(copy));
  std::swap(copy[0], copy[1]);
  const auto after = static_cast<uint16_t>(~OnesComplementSum(copy));
  const uint16_t updated =
      UpdateChecksum(before, ReadWire<be16>(&bytes[0]).value(), ReadWire<be16>(&copy[0]).value());
  Require(updated == after || (updated ^ after) == 0xffff);
}

// The options of later fragments are among those of the first.
void CheckOptions(const Ipv4Packet& part, const Ipv4Packet& whole) {
  Require(part.options.size() <= whole.options.size());
  if (part.fragment.offset == whole.fragment.offset) Require(part.options == whole.options);
}

// The concatenated fragments are the original packet.
void CheckFragments(const Ipv4Packet& packet, size_t mtu) {
  Bytes together;
  size_t parts = 0;
  bool more = true;
  const FragmentVerdict verdict = FragmentIpv4(packet, mtu, [&](absl::Span<const uint8_t> bytes) {
    const auto part = ParseIpv4Packet(bytes);
    Require(more && part.has_value() && bytes.size() <= mtu && part->bytes.size() == bytes.size());
    Require(part->fragment.offset == packet.fragment.offset + together.size() &&
            part->fragment.id == packet.fragment.id);
    Require(part->source == packet.source && part->destination == packet.destination &&
            part->protocol == packet.protocol);
    CheckOptions(*part, packet);
    together.insert(together.end(), part->payload.begin(), part->payload.end());
    more = part->fragment.more;
    ++parts;
  });
  const bool fits = packet.bytes.size() <= mtu;
  Require((verdict == FragmentVerdict::kDone) == (parts > 0));
  Require(!fits || (parts == 1 && verdict == FragmentVerdict::kDone));
  Require(fits || (verdict == FragmentVerdict::kDontFragment) == packet.dont_fragment);
  if (parts > 0)
    Require(absl::MakeConstSpan(together) == packet.payload && more == packet.fragment.more);
}

// An error is a packet to the sender, with right checksums and a permitted size, that ends with the
// start of the original packet.
template <typename Packet>
void CheckError(absl::Span<const uint8_t> error, const Packet& about, size_t headers,
                size_t limit) {
  if (error.empty()) return;
  const auto packet = ParseAs(error, about);
  Require(packet.has_value() && packet->bytes.size() == error.size() &&
          VerifyChecksum(*packet) == ChecksumVerdict::kRight);
  Require(error.size() <= limit && packet->destination == about.source &&
          packet->fragment.IsWhole());
  const auto original = error.subspan(headers);
  Require(original == about.bytes.first(original.size()));
  Require(original.size() == about.bytes.size() || error.size() == limit);
}

// There is no error about an error, so two nodes cannot go on for ever.
template <typename Packet, typename Build>
void CheckNoErrorAbout(absl::Span<const uint8_t> error, const Packet& kind, Build build) {
  if (error.empty()) return;
  const auto packet = ParseAs(error, kind);
  IcmpErrorBuffer out;
  Require(packet.has_value() && build(*packet, &out).empty());
}

void CheckErrors(const Ipv4Packet& packet, size_t mtu) {
  constexpr size_t kHeaders = 28, kLimit = 576;
  const auto unreachable = [](const Ipv4Packet& about, IcmpErrorBuffer* out) {
    return BuildHostUnreachable(about, kRouter4, out);
  };
  IcmpErrorBuffer out;
  const auto needed = BuildFragmentationNeeded(packet, mtu, kRouter4, &out);
  CheckError(needed, packet, kHeaders, kLimit);
  Require(needed.empty() || packet.bytes.size() > mtu);
  CheckError(unreachable(packet, &out), packet, kHeaders, kLimit);
  CheckNoErrorAbout(unreachable(packet, &out), packet, unreachable);
}

void CheckErrors(const Ipv6Packet& packet, size_t mtu) {
  constexpr size_t kHeaders = 48, kLimit = 1280;
  const auto unreachable = [](const Ipv6Packet& about, IcmpErrorBuffer* out) {
    return BuildAddressUnreachable(about, kRouter6, out);
  };
  IcmpErrorBuffer out;
  const auto too_big = BuildPacketTooBig(packet, mtu, kRouter6, &out);
  CheckError(too_big, packet, kHeaders, kLimit);
  Require(too_big.empty() || packet.bytes.size() > mtu);
  CheckError(unreachable(packet, &out), packet, kHeaders, kLimit);
  CheckNoErrorAbout(unreachable(packet, &out), packet, unreachable);
}

void CheckGroupIn(Ipv4Addr group) { Require(group.IsMulticast()); }
void CheckGroupIn(const Ipv6Addr& group) {
  Require(group.IsMulticast() && (group.bytes()[1] & 0xf) >= 2);
}

template <typename Packet, typename Message>
void CheckGroups(const Packet& packet, Message* message) {
  const GroupVerdict verdict = ParseGroupMessage(packet, message);
  if (verdict == GroupVerdict::kOther || verdict == GroupVerdict::kBad) return;
  Require(VerifyChecksum(packet) == ChecksumVerdict::kRight && message->message == packet.payload);
  Require(message->source == packet.source && message->destination == packet.destination);
  if (verdict == GroupVerdict::kQuery) return;
  size_t groups = 0;
  ForEachGroup(*message, [&](const auto& group, bool) {
    CheckGroupIn(group);
    ++groups;
  });
  Require(groups <= message->message.size() / 8 + 1);
}

// A parsed message that is written again parses to the same fields and options, in order.
void CheckDhcp(absl::Span<const uint8_t> payload) {
  const auto message = DhcpMessage::Parse(payload);
  if (!message.has_value()) return;
  Bytes out(payload.size() + 1024);
  DhcpWriter writer(message->fields(), absl::MakeSpan(out));
  std::vector<std::pair<DhcpOption, Bytes>> options, again;
  message->ForEachOption([&](DhcpOption option, absl::Span<const uint8_t> value) {
    Require(IsWithin(value, payload) && option != DhcpOption::kPad && option != DhcpOption::kEnd);
    if (option == DhcpOption::kOverload) return;  // a written message has none
    writer.Add(option, value);
    options.emplace_back(option, Copy(value));
  });
  const auto written = writer.Finish();
  const auto read = DhcpMessage::Parse(written);
  Require(read.has_value() && read->fields() == message->fields() &&
          read->type() == message->type());
  read->ForEachOption([&](DhcpOption option, absl::Span<const uint8_t> value) {
    again.emplace_back(option, Copy(value));
  });
  Require(options == again);
  for (const auto& [option, value] : options) {
    Require(read->FindOption(option) == message->FindOption(option) &&
            read->FindOption(option)->size() >= value.size());
    Require(read->FindNumber(option) == message->FindNumber(option));
    Require(read->FindAddresses(option) == message->FindAddresses(option));
    Require(read->FindAddress(option).has_value() != read->FindAddresses(option).empty());
  }
}

// A writer stays within its buffer and reports a lack of room.
void CheckWriter(absl::Span<const uint8_t> value) {
  Bytes out(240 + value.size() % 512), more(1 << 17);
  DhcpWriter small(IpoibDhcpRequest(1, Ipv4Addr()), absl::MakeSpan(out)),
      large(DhcpFields(), absl::MakeSpan(more));
  for (DhcpWriter* writer : {&small, &large}) {
    writer->Add(DhcpMessageType::kDiscover);
    writer->Add(DhcpOption::kClientIdentifier, DhcpClientIdentifier(1, DuidOf(Guid(value.size()))));
    writer->Add(DhcpOption::kVendorClass, value);
    writer->AddAddress(DhcpOption::kRequestedAddress, Ipv4Addr(1));
    writer->AddNumber16(DhcpOption::kMaximumMessageSize, 1500);
  }
  small.Finish();
  const auto message = DhcpMessage::Parse(large.Finish());
  Require(message.has_value() && message->FindOption(DhcpOption::kVendorClass) == Copy(value));
}

// Setting the broadcast flag changes nothing else, and a right checksum stays right, a wrong one
// wrong.
void CheckAskForBroadcast(const Ipv4Packet& packet) {
  Bytes copy = Copy(packet.bytes);
  if (!AskForBroadcast(absl::MakeSpan(copy))) return Require(copy == Copy(packet.bytes));
  const auto asked = ParseIpv4Packet(copy);
  Require(asked.has_value() && VerifyChecksum(*asked) == VerifyChecksum(packet));
  Require(!AskForBroadcast(absl::MakeSpan(copy)));
}

void CheckUdp(const Ipv4Packet& packet) {
  const auto datagram = ParseUdp(packet);
  if (!datagram.has_value()) return;
  Require(IsWithin(datagram->payload, packet.payload));
  const Udp4Headers headers{packet.source, packet.destination, datagram->source_port,
                            datagram->destination_port};
  Bytes out(kUdp4HeadersSize + datagram->payload.size());
  Require(BuildUdp4(headers, datagram->payload, absl::MakeSpan(out).first(out.size() - 1)).empty());
  const auto built = ParseIpv4Packet(BuildUdp4(headers, datagram->payload, absl::MakeSpan(out)));
  Require(built.has_value() && VerifyChecksum(*built) == ChecksumVerdict::kRight &&
          ParseUdp(*built)->payload == datagram->payload);
  CheckDhcp(datagram->payload);
}

// `number` chooses an MTU.
void CheckIpv4(absl::Span<const uint8_t> bytes, size_t number) {
  const auto packet = ParseIpv4Packet(bytes);
  if (!packet.has_value()) return;
  Require(IsWithin(packet->bytes, bytes) && IsWithin(packet->payload, packet->bytes));
  Require(packet->header().size() == 20 + packet->options.size());
  CheckSums(*packet);
  const ChecksumVerdict given_sum = VerifyChecksum(*packet, OnesComplementSum(packet->bytes));
  Require(given_sum == VerifyChecksum(*packet) ||
          (given_sum == ChecksumVerdict::kUnknown && packet->protocol <= 2));
  for (const size_t mtu :
       {number % 100, 68 + number, packet->bytes.size() - 1, packet->bytes.size()}) {
    CheckFragments(*packet, mtu);
    CheckErrors(*packet, mtu);
  }
  CheckUdp(*packet);
  CheckAskForBroadcast(*packet);
  IgmpMessage message;
  CheckGroups(*packet, &message);
}

// A packet that can be joined is one that a host accepts, if its checksum is right. It continues a
// run of its own only at the next sequence number, and the joined packet has both payloads.
void CheckSegment(absl::Span<const uint8_t> bytes) {
  const auto segment = SegmentRun::Parse(bytes);
  if (!segment.has_value()) return;
  Require(segment->l4 < segment->payload && segment->payload < segment->end &&
          segment->end <= bytes.size());
  const auto verdict = segment->ipv6 ? VerifyChecksum(*ParseIpv6Packet(bytes))
                                     : VerifyChecksum(*ParseIpv4Packet(bytes));
  Require(SegmentRun::HasRightChecksum(bytes, *segment) == (verdict == ChecksumVerdict::kRight));
  SegmentRun run;
  run.Begin(bytes, *segment);
  Bytes next = Copy(bytes);
  if (!segment->udp) {
    uint8_t* const sequence = &next[segment->l4 + size_t{4}];
    WriteWire(be32(ReadWire<be32>(sequence).value() + segment->payload_length()), sequence);
  }
  const bool fits = segment->end + segment->payload_length() <= 65535;
  Require(run.IsContinuedBy(next, *segment) == (fits && !segment->push));
  if (!fits || segment->push) return;
  run.Continue(next, *segment);
  Bytes joined = Copy(run.Headers());
  Require(joined.size() == segment->payload);
  for (const Bytes& part : {Copy(bytes), next})
    joined.insert(joined.end(), part.begin() + segment->payload, part.begin() + segment->end);
  Require(joined.size() == run.size() && WriteChecksum(absl::MakeSpan(joined)));
  const auto whole = SegmentRun::Parse(joined);
  Require(whole.has_value() && whole->end == joined.size() &&
          SegmentRun::HasRightChecksum(joined, *whole));
}

void CheckIpv6(absl::Span<const uint8_t> bytes, size_t number) {
  const auto packet = ParseIpv6Packet(bytes);
  if (!packet.has_value()) return;
  Require(IsWithin(packet->bytes, bytes) && IsWithin(packet->payload, packet->bytes));
  Require(IsWithin(packet->hop_by_hop, packet->bytes) &&
          packet->bytes.size() - packet->payload.size() >= 40);
  CheckSums(*packet);
  for (const size_t mtu : {number % 100, 1280 + number}) CheckErrors(*packet, mtu);
  MldMessage message;
  CheckGroups(*packet, &message);
}

// Repairs what a fuzzer cannot guess: lengths, checksums, and the TTL of IGMP.
void CheckRepairedIpv4(absl::Span<const uint8_t> bytes, size_t number) {
  if (bytes.size() < sizeof(Ipv4Wire)) return;
  Bytes copy = Copy(bytes.first(std::min<size_t>(bytes.size(), 0xffff)));
  auto header = ReadWire<Ipv4Wire>(copy.data());
  const size_t words = std::clamp<size_t>(header.version_ihl & 0xf, 5, copy.size() / 4);
  header.version_ihl = static_cast<uint8_t>(4 << 4 | std::min<size_t>(words, 15));
  header.total_length = static_cast<uint16_t>(copy.size());
  if (header.protocol == kProtocolIgmp) header.ttl = 1;
  WriteWire(header, copy.data());
  WriteIpv4Checksum(absl::MakeSpan(copy).first(size_t{4} * (header.version_ihl & 0xf)));
  WriteChecksum(absl::MakeSpan(copy));
  CheckSegment(copy);
  CheckIpv4(copy, number);
}

void CheckRepairedIpv6(absl::Span<const uint8_t> bytes, size_t number) {
  if (bytes.size() < sizeof(Ipv6Wire)) return;
  Bytes copy = Copy(bytes.first(std::min(bytes.size(), sizeof(Ipv6Wire) + 0xffff)));
  auto header = ReadWire<Ipv6Wire>(copy.data());
  header.version_class_flow = (header.version_class_flow.value() & 0x0fff'ffff) | 6u << 28;
  header.payload_length = static_cast<uint16_t>(copy.size() - sizeof(header));
  if (header.next_header == kProtocolHopByHop) header.hop_limit = 1;
  WriteWire(header, copy.data());
  WriteChecksum(absl::MakeSpan(copy));
  CheckSegment(copy);
  CheckIpv6(copy, number);
}

}  // namespace
}  // namespace eoib

// The input is an IP packet, used as it is and repaired. It also serves as a DHCP message.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace eoib;  // NOLINT: the entry point has no namespace
  const auto bytes = absl::MakeConstSpan(data, size);
  const size_t number = size == 0 ? 0 : 8 * data[size - 1] + size % 8;
  CheckUpdate(bytes);
  CheckDhcp(bytes);
  CheckWriter(bytes);
  CheckSegment(bytes);
  CheckIpv4(bytes, number);
  CheckIpv6(bytes, number);
  CheckRepairedIpv4(bytes, number);
  CheckRepairedIpv6(bytes, number);
  return 0;
}
