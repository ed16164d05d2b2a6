#include "gateway/host/neighbor_messages.h"

#include "vswitch/wire/ip/ip_headers.h"

namespace eoib::endpoint {
namespace {

constexpr size_t kOptionUnit = 8;

void AddNonce(absl::Span<const uint8_t> nonce, Bytes* packet) {
  packet->push_back(static_cast<uint8_t>(NdOptionType::kNonce));
  packet->push_back(static_cast<uint8_t>((nonce.size() + 2 + kOptionUnit - 1) / kOptionUnit));
  packet->insert(packet->end(), nonce.begin(), nonce.end());
}

}  // namespace

Bytes ArpBytes(const IpoibArp& packet) {
  Bytes bytes(IpoibArp::kSize);
  EncodeArp(packet, absl::MakeSpan(bytes));
  return bytes;
}

Bytes SolicitationBytes(const Solicitation& solicitation) {
  Bytes packet;
  StartNeighborMessage(NdType::kNeighborSolicitation, 0, solicitation.source,
                       solicitation.destination, solicitation.target, &packet);
  if (solicitation.source_link.has_value()) {
    AppendLinkAddressOption(NdOptionType::kSourceLinkAddress, *solicitation.source_link, &packet);
  }
  if (!solicitation.nonce.empty()) AddNonce(solicitation.nonce, &packet);
  FinishNeighborMessage(&packet);
  return packet;
}

Bytes AdvertisementBytes(const Advertisement& advertisement) {
  const auto flags = static_cast<uint8_t>((advertisement.router ? kNaRouter : 0) |
                                          (advertisement.solicited ? kNaSolicited : 0) |
                                          (advertisement.overrides ? kNaOverride : 0));
  Bytes packet;
  StartNeighborMessage(NdType::kNeighborAdvertisement, flags, advertisement.source,
                       advertisement.destination, advertisement.target, &packet);
  if (advertisement.target_link.has_value()) {
    AppendLinkAddressOption(NdOptionType::kTargetLinkAddress, *advertisement.target_link, &packet);
  }
  FinishNeighborMessage(&packet);
  return packet;
}

absl::optional<IpoibAddress> FindLinkAddress(const NdMessage& message, NdOptionType type) {
  for (const NdOption option : message.options) {
    if (option.type != type) continue;
    if (const auto address = IpoibLinkAddress(option);
        address.has_value() && CanBeInterface(*address))
      return address;
  }
  return absl::nullopt;
}

Bytes WithoutLinkAddresses(absl::Span<const uint8_t> packet, const NdMessage& message) {
  const auto before_options =
      packet.first(sizeof(Ipv6Wire) + message.message.size() - message.options.bytes().size());
  Bytes stripped(before_options.begin(), before_options.end());
  for (const NdOption option : message.options) {
    if (!IsLinkAddress(option.type))
      stripped.insert(stripped.end(), option.bytes.begin(), option.bytes.end());
  }
  FinishNeighborMessage(&stripped);
  return stripped;
}

}  // namespace eoib::endpoint
