#include "gateway/translation/nd_packet.h"

#include <algorithm>
#include <array>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib::translation {
namespace {

constexpr size_t kUnit = 8;  // option lengths count units of 8 bytes (RFC 4861 §4.6)
constexpr size_t kChecksumOffset = kIpv6HeaderSize + 2;
constexpr size_t kMtuOffset = 4;
constexpr size_t kRedirectedHeaderSize = 8;  // of the option, before the packet in it
constexpr uint8_t kHopLimit = 255;

bool IsLinkAddress(NdOptionType type) {
  return type == NdOptionType::kSourceLinkAddress || type == NdOptionType::kTargetLinkAddress;
}

void Append(absl::Span<const uint8_t> bytes, std::vector<uint8_t>* out) { out->insert(out->end(), bytes.begin(), bytes.end()); }

constexpr size_t OptionSize(MacAddr) { return kEthernetLinkAddressOptionSize; }
constexpr size_t OptionSize(const IpoibAddress&) { return kIpoibLinkAddressOptionSize; }

template <typename LinkAddress>
void AppendLinkAddress(NdOptionType type, const LinkAddress& address, std::vector<uint8_t>* out) {
  const size_t at = out->size();
  out->resize(at + OptionSize(address));
  WriteLinkAddressOption(type, address, absl::MakeSpan(*out).subspan(at));
}

void AppendMtu(uint32_t mtu, std::vector<uint8_t>* out) {
  const uint8_t option[kUnit] = {static_cast<uint8_t>(NdOptionType::kMtu), 1};
  Append(option, out);
  WriteWire(be32(mtu), &(*out)[out->size() - kUnit + kMtuOffset]);
}

// Fills in the payload length and the checksum (RFC 4443 §2.3).
void Finish(std::vector<uint8_t>* packet) {
  const auto message = absl::MakeConstSpan(*packet).subspan(kIpv6HeaderSize);
  auto header = ReadWire<Ipv6Wire>(packet->data());
  header.payload_length = static_cast<uint16_t>(message.size());
  WriteWire(header, packet->data());
  WriteWire(be16(0), &(*packet)[kChecksumOffset]);
  const uint16_t addresses = OnesComplementSum(header.destination, OnesComplementSum(header.source));
  const uint16_t sum =
      OnesComplementSum(message, uint32_t{addresses} + kProtocolIcmpv6 + static_cast<uint32_t>(message.size()));
  WriteWire(be16(static_cast<uint16_t>(~sum)), &(*packet)[kChecksumOffset]);
}

// Appends the translation of a link-layer address option. False if the option has the wrong length for its link (`from` is
// absent).
template <typename From, typename To>
bool AppendTranslated(const NdOption& option, const absl::optional<From>& from,
                      absl::FunctionRef<absl::optional<To>(const NdOption&, const From&)> translate,
                      std::vector<uint8_t>* out) {
  if (!from.has_value()) return false;
  if (const absl::optional<To> to = translate(option, *from); to.has_value()) AppendLinkAddress(option.type, *to, out);
  return true;
}

// If the message is longer than the MTU, cuts the packet inside a redirected header option, in units of 8 bytes, or drops the
// option.
void CutRedirectedHeader(size_t at, size_t size, size_t mtu, std::vector<uint8_t>* out) {
  if (out->size() <= mtu || size == 0) return;
  const size_t excess = (out->size() - mtu + kUnit - 1) / kUnit * kUnit;
  const size_t left = excess + kRedirectedHeaderSize + kIpv6HeaderSize > size ? 0 : size - excess;
  const auto begin = out->begin() + static_cast<ptrdiff_t>(at);
  out->erase(begin + static_cast<ptrdiff_t>(left), begin + static_cast<ptrdiff_t>(size));
  if (left > 0) (*out)[at + 1] = static_cast<uint8_t>(left / kUnit);
}

// The common part of both directions; `append_address` translates a link-layer address option.
Drop Translate(absl::Span<const uint8_t> packet, const NdMessage& message, const NdMtus& mtus,
               absl::FunctionRef<bool(const NdOption&)> append_address, std::vector<uint8_t>* out) {
  const size_t fixed = message.message.size() - message.options.bytes().size();
  out->clear();
  Append(packet.first(kIpv6HeaderSize + fixed), out);
  const bool is_advertisement = message.type == NdType::kRouterAdvertisement;
  bool has_mtu = false;
  size_t copy = 0, copy_size = 0;
  for (const NdOption& option : message.options) {
    if (IsSendOption(option.type)) return Drop::kSend;
    const absl::optional<uint32_t> mtu = LinkMtu(option);
    if (IsLinkAddress(option.type)) {
      if (!append_address(option)) return Drop::kBadLinkOption;
    } else if (is_advertisement && mtu.has_value()) {
      has_mtu = true;
      AppendMtu(std::min({*mtu, mtus.from, mtus.to}), out);
    } else {
      if (option.type == NdOptionType::kRedirectedHeader) copy = out->size(), copy_size = option.bytes.size();
      Append(option.bytes, out);
    }
  }
  if (is_advertisement && !has_mtu && mtus.from > mtus.to) AppendMtu(mtus.to, out);
  CutRedirectedHeader(copy, copy_size, mtus.to, out);
  if (out->size() > mtus.to) return Drop::kTooBig;
  Finish(out);
  return Drop::kNone;
}

// Writes the IPv6 header and the fixed part of a message of `type` about `target`.
void Begin(NdType type, uint8_t flags, const Ipv6Addr& source, const Ipv6Addr& destination, const Ipv6Addr& target,
           std::vector<uint8_t>* out) {
  Ipv6Wire header;
  header.version_class_flow = 6u << 28;
  header.next_header = kProtocolIcmpv6;
  header.hop_limit = kHopLimit;
  header.source = source.bytes();
  header.destination = destination.bytes();
  out->assign(kIpv6HeaderSize, 0);
  WriteWire(header, out->data());
  Append(std::array<uint8_t, kUnit>{static_cast<uint8_t>(type), 0, 0, 0, flags}, out);
  Append(target.bytes(), out);
}

}  // namespace

Drop TranslateToIpoib(absl::Span<const uint8_t> packet, const NdMessage& message, const NdMtus& mtus,
                      absl::FunctionRef<absl::optional<IpoibAddress>(const NdOption&, MacAddr)> to_ipoib,
                      std::vector<uint8_t>* out) {
  const auto translate = [&](const NdOption& option, const MacAddr& mac) { return to_ipoib(option, mac); };
  const auto append = [&](const NdOption& option) {
    return AppendTranslated<MacAddr, IpoibAddress>(option, EthernetLinkAddress(option), translate, out);
  };
  return Translate(packet, message, mtus, append, out);
}

Drop TranslateToEthernet(absl::Span<const uint8_t> packet, const NdMessage& message, const NdMtus& mtus,
                         absl::FunctionRef<absl::optional<MacAddr>(const NdOption&, const IpoibAddress&)> to_ethernet,
                         std::vector<uint8_t>* out) {
  const auto append = [&](const NdOption& option) {
    return AppendTranslated<IpoibAddress, MacAddr>(option, IpoibLinkAddress(option), to_ethernet, out);
  };
  return Translate(packet, message, mtus, append, out);
}

template <typename LinkAddress>
void BuildSolicitation(const Ipv6Addr& source, const LinkAddress& link, const Ipv6Addr& target, bool direct,
                       std::vector<uint8_t>* out) {
  Begin(NdType::kNeighborSolicitation, 0, source, direct ? target : SolicitedNodeGroup(target), target, out);
  if (!source.IsUnspecified()) AppendLinkAddress(NdOptionType::kSourceLinkAddress, link, out);
  Finish(out);
}

template <typename LinkAddress>
void BuildAdvertisement(const Ipv6Addr& target, bool router, const LinkAddress& link, std::vector<uint8_t>* out) {
  Begin(NdType::kNeighborAdvertisement, kNaOverride | (router ? kNaRouter : 0), target, kAllNodes, target, out);
  AppendLinkAddress(NdOptionType::kTargetLinkAddress, link, out);
  Finish(out);
}

template void BuildSolicitation(const Ipv6Addr&, const MacAddr&, const Ipv6Addr&, bool, std::vector<uint8_t>*);
template void BuildSolicitation(const Ipv6Addr&, const IpoibAddress&, const Ipv6Addr&, bool, std::vector<uint8_t>*);
template void BuildAdvertisement(const Ipv6Addr&, bool, const MacAddr&, std::vector<uint8_t>*);
template void BuildAdvertisement(const Ipv6Addr&, bool, const IpoibAddress&, std::vector<uint8_t>*);

}  // namespace eoib::translation
