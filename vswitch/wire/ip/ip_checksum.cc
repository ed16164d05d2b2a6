#include "vswitch/wire/ip/ip_checksum.h"

#include "absl/types/optional.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib {
namespace {

constexpr uint16_t kNoUdpSum = 0;

uint16_t Inverted(uint16_t sum) { return static_cast<uint16_t>(~sum); }

// Where a protocol has its checksum, and what it covers.
struct SumForm {
  size_t field = 0;        // offset of the checksum in a message
  size_t header_size = 0;  // the smallest message
  bool pseudo_header = true;
};

absl::optional<SumForm> FormOf(uint8_t protocol) {
  if (protocol == kProtocolTcp) return SumForm{16, 20};
  if (protocol == kProtocolUdp) return SumForm{6, 8};
  return absl::nullopt;
}

// RFC 792, RFC 3376 §4: ICMP and IGMP have no pseudo-header, and the field follows type and code.
absl::optional<SumForm> FormOf(const Ipv4Packet& packet) {
  if (!packet.fragment.IsWhole()) return absl::nullopt;
  if (packet.protocol == kProtocolIcmp || packet.protocol == kProtocolIgmp)
    return SumForm{2, 8, false};
  return FormOf(packet.protocol);
}

// RFC 4443 §2.3.
absl::optional<SumForm> FormOf(const Ipv6Packet& packet) {
  if (!packet.fragment.IsWhole() || !packet.checksum_covers_addresses) return absl::nullopt;
  if (packet.protocol == kProtocolIcmpv6) return SumForm{2, 4};
  return FormOf(packet.protocol);
}

// True if the message is long enough, and a UDP length is that of the message.
template <typename Packet>
bool HasForm(const Packet& packet, const SumForm& form) {
  if (packet.payload.size() < form.header_size) return false;
  if (packet.protocol != kProtocolUdp) return true;
  return ReadWire<be16>(&packet.payload[kUdpLengthOffset]).value() == packet.payload.size();
}

absl::Span<const uint8_t> AddressesOf(const Ipv4Packet& packet) {
  return packet.bytes.subspan(kIpv4AddressesOffset, kIpv4AddressesSize);
}
absl::Span<const uint8_t> AddressesOf(const Ipv6Packet& packet) {
  return packet.bytes.subspan(kIpv6AddressesOffset, kIpv6AddressesSize);
}

template <typename Packet>
uint16_t PseudoHeaderSumOf(const Packet& packet, const SumForm& form) {
  return form.pseudo_header
             ? PseudoHeaderSum(AddressesOf(packet), packet.protocol, packet.payload.size())
             : 0;
}

// The sum over the message, its checksum included, and over the pseudo-header if there is one.
template <typename Packet>
uint16_t SumOf(const Packet& packet, const SumForm& form) {
  return OnesComplementSum(packet.payload, PseudoHeaderSumOf(packet, form));
}

// `sum_of(packet, form)` is like SumOf. `without_sum`: the verdict on UDP without a checksum.
template <typename Packet, typename Function>
ChecksumVerdict Verify(const Packet& packet, ChecksumVerdict without_sum, Function sum_of) {
  const absl::optional<SumForm> form = FormOf(packet);
  if (!form.has_value()) return ChecksumVerdict::kUnknown;
  if (!HasForm(packet, *form)) return ChecksumVerdict::kWrong;
  const uint16_t field = ReadWire<be16>(&packet.payload[form->field]).value();
  if (packet.protocol == kProtocolUdp && field == kNoUdpSum) return without_sum;
  return sum_of(packet, *form) == kRightSum ? ChecksumVerdict::kRight : ChecksumVerdict::kWrong;
}

// `packet` is the parsed form of `bytes`.
template <typename Packet>
bool Write(const absl::optional<Packet>& packet, absl::Span<uint8_t> bytes) {
  if (!packet.has_value()) return false;
  const absl::optional<SumForm> form = FormOf(*packet);
  if (!form.has_value() || !HasForm(*packet, *form)) return false;
  const size_t field = packet->bytes.size() - packet->payload.size() + form->field;
  // The field counts as zero in its own sum.
  WriteWire(be16(), &bytes[field]);
  const uint16_t sum = Inverted(SumOf(*packet, *form));
  // RFC 768: "If the computed checksum is zero, it is transmitted as all ones".
  const bool avoid_zero = packet->protocol == kProtocolUdp && sum == kNoUdpSum;
  WriteWire(be16(avoid_zero ? kRightSum : sum), &bytes[field]);
  return true;
}

}  // namespace

uint16_t UpdateChecksum(uint16_t checksum, uint16_t before, uint16_t after) noexcept {
  return Inverted(OnesComplementSum({}, uint32_t{Inverted(checksum)} + Inverted(before) + after));
}

uint16_t UpdateUdpChecksum(uint16_t checksum, uint16_t before, uint16_t after) noexcept {
  if (checksum == kNoUdpSum) return kNoUdpSum;
  const uint16_t updated = UpdateChecksum(checksum, before, after);
  return updated == kNoUdpSum ? kRightSum : updated;
}

void WriteIpv4Checksum(absl::Span<uint8_t> header) noexcept {
  WriteWire(be16(), &header[offsetof(Ipv4Wire, checksum)]);
  WriteWire(be16(Inverted(OnesComplementSum(header))), &header[offsetof(Ipv4Wire, checksum)]);
}

// RFC 768: "the transmitter generated no checksum".
ChecksumVerdict VerifyChecksum(const Ipv4Packet& packet) noexcept {
  return Verify(packet, ChecksumVerdict::kUnknown, SumOf<Ipv4Packet>);
}
// A right header, and only such are parsed, adds one's complement's other zero to the packet's sum.
// That makes no difference where a pseudo-header, which is never zero, is added.
ChecksumVerdict VerifyChecksum(const Ipv4Packet& packet, uint16_t sum) noexcept {
  if (!FormOf(packet.protocol).has_value()) return ChecksumVerdict::kUnknown;
  return Verify(packet, ChecksumVerdict::kUnknown,
                [sum](const Ipv4Packet& of, const SumForm& form) {
                  return OnesComplementSum({}, uint32_t{sum} + PseudoHeaderSumOf(of, form));
                });
}
// RFC 8200 §8.1: to be discarded.
ChecksumVerdict VerifyChecksum(const Ipv6Packet& packet) noexcept {
  return Verify(packet, ChecksumVerdict::kWrong, SumOf<Ipv6Packet>);
}

bool WriteChecksum(absl::Span<uint8_t> packet) noexcept {
  if (packet.empty()) return false;
  return packet[0] >> 4 == 4 ? Write(ParseIpv4Packet(packet), packet)
                             : Write(ParseIpv6Packet(packet), packet);
}

}  // namespace eoib
