#include "gateway/translation/nd_packet.h"

#include <algorithm>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/ip_headers.h"

namespace eoib::translation {
namespace {

constexpr size_t kUnit = 8;  // option lengths count units of 8 bytes (RFC 4861 §4.6)
constexpr size_t kMtuOffset = 4;
constexpr size_t kRedirectedHeaderSize = 8;  // of the option, before the packet in it

void Append(absl::Span<const uint8_t> bytes, std::vector<uint8_t>* out) {
  out->insert(out->end(), bytes.begin(), bytes.end());
}

void AppendMtu(uint32_t mtu, std::vector<uint8_t>* out) {
  const uint8_t option[kUnit] = {static_cast<uint8_t>(NdOptionType::kMtu), 1};
  Append(option, out);
  WriteWire(be32(mtu), &(*out)[out->size() - kUnit + kMtuOffset]);
}

// Appends the translation of a link-layer address option. False if the option has the wrong length
// for its link (`from` is absent).
template <typename From, typename Translation>
bool AppendTranslated(const NdOption& option, const absl::optional<From>& from,
                      Translation translate, std::vector<uint8_t>* out) {
  if (!from.has_value()) return false;
  if (const auto to = translate(*from); to.has_value())
    AppendLinkAddressOption(option.type, *to, out);
  return true;
}

// If the message is longer than the MTU, cuts the packet inside a redirected header option, in
// units of 8 bytes, or drops the option.
void CutRedirectedHeader(size_t at, size_t size, size_t mtu, std::vector<uint8_t>* out) {
  if (out->size() <= mtu || size == 0) return;
  const size_t excess = (out->size() - mtu + kUnit - 1) / kUnit * kUnit;
  const size_t left = excess + kRedirectedHeaderSize + sizeof(Ipv6Wire) > size ? 0 : size - excess;
  const auto begin = out->begin() + static_cast<ptrdiff_t>(at);
  out->erase(begin + static_cast<ptrdiff_t>(left), begin + static_cast<ptrdiff_t>(size));
  if (left > 0) (*out)[at + 1] = static_cast<uint8_t>(left / kUnit);
}

// The common part of both directions; `append_address` translates a link-layer address option.
Drop Translate(absl::Span<const uint8_t> packet, const NdMessage& message, const NdMtus& mtus,
               absl::FunctionRef<bool(const NdOption&)> append_address, std::vector<uint8_t>* out) {
  const size_t fixed = message.message.size() - message.options.bytes().size();
  out->clear();
  Append(packet.first(sizeof(Ipv6Wire) + fixed), out);
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
      if (option.type == NdOptionType::kRedirectedHeader)
        copy = out->size(), copy_size = option.bytes.size();
      Append(option.bytes, out);
    }
  }
  if (is_advertisement && !has_mtu && mtus.from > mtus.to) AppendMtu(mtus.to, out);
  CutRedirectedHeader(copy, copy_size, mtus.to, out);
  if (out->size() > mtus.to) return Drop::kTooBig;
  FinishNeighborMessage(out);
  return Drop::kNone;
}

}  // namespace

Drop TranslateToIpoib(absl::Span<const uint8_t> packet, const NdMessage& message,
                      const NdMtus& mtus,
                      absl::FunctionRef<absl::optional<IpoibAddress>(MacAddr)> to_ipoib,
                      std::vector<uint8_t>* out) {
  const auto append = [&](const NdOption& option) {
    return AppendTranslated(option, EthernetLinkAddress(option), to_ipoib, out);
  };
  return Translate(packet, message, mtus, append, out);
}

Drop TranslateToEthernet(
    absl::Span<const uint8_t> packet, const NdMessage& message, const NdMtus& mtus,
    absl::FunctionRef<absl::optional<MacAddr>(const IpoibAddress&)> to_ethernet,
    std::vector<uint8_t>* out) {
  const auto append = [&](const NdOption& option) {
    return AppendTranslated(option, IpoibLinkAddress(option), to_ethernet, out);
  };
  return Translate(packet, message, mtus, append, out);
}

}  // namespace eoib::translation
