#include "gateway/endpoint/neighbor_messages.h"

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib::endpoint {
namespace {

constexpr size_t kMessageOffset = sizeof(Ipv6Wire);
constexpr size_t kFlagsOffset = 4;  // of the message
constexpr size_t kChecksumOffset = 2;
constexpr size_t kTargetOffset = 8;
constexpr size_t kFixedSize = 24;
constexpr size_t kOptionUnit = 8;
constexpr uint8_t kHopLimit = 255;  // RFC 4861 §4.3, §4.4
constexpr uint8_t kRouterFlag = 0x80, kSolicitedFlag = 0x40, kOverrideFlag = 0x20;

// Fills in the payload length and the checksum (RFC 4443 §2.3).
void Finish(Bytes* packet) {
  auto header = ReadWire<Ipv6Wire>(packet->data());
  const size_t length = packet->size() - kMessageOffset;
  header.payload_length = static_cast<uint16_t>(length);
  WriteWire(header, packet->data());
  WriteWire(be16(0), &(*packet)[kMessageOffset + kChecksumOffset]);
  const uint16_t addresses = OnesComplementSum(header.destination, OnesComplementSum(header.source));
  const auto message = absl::MakeConstSpan(*packet).subspan(kMessageOffset);
  const uint16_t sum = OnesComplementSum(message, uint32_t{addresses} + kProtocolIcmpv6 + static_cast<uint32_t>(length));
  WriteWire(be16(static_cast<uint16_t>(~sum)), &(*packet)[kMessageOffset + kChecksumOffset]);
}

Bytes Begin(NdType type, const Ipv6Addr& source, const Ipv6Addr& destination, const Ipv6Addr& target) {
  Bytes packet(kMessageOffset + kFixedSize);
  Ipv6Wire header;
  header.version_class_flow = 0x6000'0000;
  header.next_header = kProtocolIcmpv6;
  header.hop_limit = kHopLimit;
  header.source = source.bytes();
  header.destination = destination.bytes();
  WriteWire(header, packet.data());
  packet[kMessageOffset] = static_cast<uint8_t>(type);
  target.ToWire(&packet[kMessageOffset + kTargetOffset]);
  return packet;
}

void AddLinkAddress(NdOptionType type, const IpoibAddress& address, Bytes* packet) {
  packet->resize(packet->size() + kIpoibLinkAddressOptionSize);
  WriteLinkAddressOption(type, address, absl::MakeSpan(*packet).last(kIpoibLinkAddressOptionSize));
}

void AddNonce(absl::Span<const uint8_t> nonce, Bytes* packet) {
  packet->push_back(static_cast<uint8_t>(NdOptionType::kNonce));
  packet->push_back(static_cast<uint8_t>((nonce.size() + 2 + kOptionUnit - 1) / kOptionUnit));
  packet->insert(packet->end(), nonce.begin(), nonce.end());
}

bool IsLinkAddress(NdOptionType type) {
  return type == NdOptionType::kSourceLinkAddress || type == NdOptionType::kTargetLinkAddress;
}

}  // namespace

Bytes ArpBytes(const IpoibArp& packet) {
  Bytes bytes(IpoibArp::kSize);
  EncodeArp(packet, absl::MakeSpan(bytes));
  return bytes;
}

Bytes SolicitationBytes(const Solicitation& solicitation) {
  Bytes packet = Begin(NdType::kNeighborSolicitation, solicitation.source, solicitation.destination, solicitation.target);
  if (solicitation.source_link.has_value()) {
    AddLinkAddress(NdOptionType::kSourceLinkAddress, *solicitation.source_link, &packet);
  }
  if (!solicitation.nonce.empty()) AddNonce(solicitation.nonce, &packet);
  Finish(&packet);
  return packet;
}

Bytes AdvertisementBytes(const Advertisement& advertisement) {
  Bytes packet = Begin(NdType::kNeighborAdvertisement, advertisement.source, advertisement.destination, advertisement.target);
  packet[kMessageOffset + kFlagsOffset] =
      static_cast<uint8_t>((advertisement.router ? kRouterFlag : 0) | (advertisement.solicited ? kSolicitedFlag : 0) |
                           (advertisement.overrides ? kOverrideFlag : 0));
  if (advertisement.target_link.has_value()) {
    AddLinkAddress(NdOptionType::kTargetLinkAddress, *advertisement.target_link, &packet);
  }
  Finish(&packet);
  return packet;
}

AdvertisementFlags FlagsOf(const NdMessage& message) {
  const uint8_t flags = message.message[kFlagsOffset];
  return {(flags & kRouterFlag) != 0, (flags & kSolicitedFlag) != 0, (flags & kOverrideFlag) != 0};
}

absl::optional<IpoibAddress> FindLinkAddress(const NdMessage& message, NdOptionType type) {
  for (const NdOption option : message.options) {
    if (option.type != type) continue;
    if (const auto address = IpoibLinkAddress(option); address.has_value() && CanBeInterface(*address)) return address;
  }
  return absl::nullopt;
}

Bytes WithoutLinkAddresses(absl::Span<const uint8_t> packet, const NdMessage& message) {
  const auto before_options = packet.first(kMessageOffset + message.message.size() - message.options.bytes().size());
  Bytes stripped(before_options.begin(), before_options.end());
  for (const NdOption option : message.options) {
    if (!IsLinkAddress(option.type)) stripped.insert(stripped.end(), option.bytes.begin(), option.bytes.end());
  }
  Finish(&stripped);
  return stripped;
}

}  // namespace eoib::endpoint
