// IPv6 neighbour discovery on Ethernet and IPoIB, as far as it carries link-layer addresses (RFC
// 4861; RFC 4391 §9.3).
//
// Five ICMPv6 messages end with options, each a multiple of 8 bytes. A link-layer address option
// has 8 bytes on Ethernet (RFC 2464 §6) and 24 on IPoIB; the other options are the same on both.
#ifndef EOIB_VSWITCH_WIRE_IP_NEIGHBOR_DISCOVERY_H_
#define EOIB_VSWITCH_WIRE_IP_NEIGHBOR_DISCOVERY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/ipoib_address.h"

namespace eoib {

// ICMPv6 types (RFC 4861 §4.1 to §4.5).
enum class NdType : uint8_t {
  kRouterSolicitation = 133,
  kRouterAdvertisement = 134,
  kNeighborSolicitation = 135,
  kNeighborAdvertisement = 136,
  kRedirect = 137,
};

// Option types. The list is not complete; iteration also visits other types.
enum class NdOptionType : uint8_t {
  kSourceLinkAddress = 1,  // RFC 4861 §4.6.1
  kTargetLinkAddress = 2,
  kPrefixInformation = 3,  // §4.6.2
  kRedirectedHeader = 4,   // §4.6.3
  kMtu = 5,                // §4.6.4
  kCga = 11,               // RFC 3971 §5.1
  kRsaSignature = 12,      // §5.2
  kTimestamp = 13,         // §5.3.1
  kNonce = 14,             // §5.3.2, and RFC 7527 §4.1
  kTrustAnchor = 15,       // RFC 3971 §6.4.3
  kCertificate = 16,       // §6.4.4
};

// True if only Secure Neighbor Discovery uses the option: the message is signed, so changing it
// breaks the signature. A nonce does not count, because Enhanced DAD uses it too (RFC 7527 §4.1).
constexpr bool IsSendOption(NdOptionType type) {
  return type >= NdOptionType::kCga && type <= NdOptionType::kCertificate &&
         type != NdOptionType::kNonce;
}

constexpr bool IsLinkAddress(NdOptionType type) {
  return type == NdOptionType::kSourceLinkAddress || type == NdOptionType::kTargetLinkAddress;
}

struct NdOption {
  NdOptionType type = NdOptionType::kSourceLinkAddress;
  // The whole option, from its type on; a multiple of 8 bytes, at least 8.
  absl::Span<const uint8_t> bytes;
};

// The options of a message, in order, each within its bounds. Does not own the bytes.
class NdOptions {
 public:
  class Iterator {
   public:
    explicit Iterator(absl::Span<const uint8_t> rest) : rest_(rest) {}
    NdOption operator*() const;
    Iterator& operator++();
    friend bool operator==(const Iterator& a, const Iterator& b) {
      return a.rest_.size() == b.rest_.size();
    }

   private:
    absl::Span<const uint8_t> rest_;
  };

  NdOptions() = default;
  // Nothing if an option has length 0, reaches beyond the end, or is cut within its first two
  // bytes. The whole message must then be discarded (RFC 4861 §4.6, §7.1.1).
  static absl::optional<NdOptions> Parse(absl::Span<const uint8_t> bytes) noexcept;

  Iterator begin() const { return Iterator(bytes_); }
  Iterator end() const { return Iterator(bytes_.last(0)); }
  absl::Span<const uint8_t> bytes() const { return bytes_; }
  // The first option of that type; one without bytes, which no parser below accepts, if there is
  // none.
  NdOption Find(NdOptionType type) const;

 private:
  explicit NdOptions(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  absl::Span<const uint8_t> bytes_;
};

// A parsed message: views of its packet.
struct NdMessage {
  NdType type = NdType::kRouterSolicitation;
  Ipv6Addr source;       // of the IPv6 header
  Ipv6Addr destination;  // of the IPv6 header
  // In neighbour solicitations and advertisements and redirects; else ::
  Ipv6Addr target;
  absl::Span<const uint8_t> message;  // from the ICMPv6 type to the last option
  NdOptions options;
};

// The flags of a neighbour advertisement (RFC 4861 §4.4).
inline constexpr uint8_t kNaRouter = 0x80;
inline constexpr uint8_t kNaSolicited = 0x40;
inline constexpr uint8_t kNaOverride = 0x20;
inline uint8_t AdvertisementFlags(const NdMessage& advertisement) {
  return advertisement.message[4];
}

enum class NdVerdict : uint8_t {
  kOther,  // not neighbour discovery
  kBad,    // invalid: hosts must ignore it
  kGood,
};

// Parses `packet`, from the IPv6 header on; bytes after its payload are padding. Sets *message if
// kGood. kBad: a hop limit other than 255, so it may come from beyond the link; a wrong checksum; a
// code other than 0; too short for its type; options that NdOptions refuses (RFC 4861 §6.1, §7.1,
// §8.1). It does not check the rules of these sections about addresses.
//
// A deliberate divergence: a message behind extension headers, or in a first fragment, is kBad, and
// so is any packet with more than eight extension headers. RFC 6980 §5 forbids fragments. Other
// headers only serve to hide a message from inspection on the way (RFC 7113 §2).
NdVerdict ParseNeighborDiscovery(absl::Span<const uint8_t> packet, NdMessage* message) noexcept;

// The address in a source or target link-layer address option. Nothing for another option, or one
// of the other link's length.
absl::optional<MacAddr> EthernetLinkAddress(const NdOption& option) noexcept;  // 8 bytes
// 24 bytes; ignores the padding.
absl::optional<IpoibAddress> IpoibLinkAddress(const NdOption& option) noexcept;
// The MTU in an MTU option. Nothing for another option, or one that does not have 8 bytes.
absl::optional<uint32_t> LinkMtu(const NdOption& option) noexcept;
// The nonce in a nonce option: 6 bytes, plus 8 for each further unit. Empty for another option.
absl::Span<const uint8_t> Nonce(const NdOption& option) noexcept;

inline constexpr size_t kEthernetLinkAddressOptionSize = 8;
inline constexpr size_t kIpoibLinkAddressOptionSize = 24;

// Writes a link-layer address option, with zero padding, to the start of `out`. False, with nothing
// written, if `type` is not a link-layer address option or `out` is too short.
bool WriteLinkAddressOption(NdOptionType type, MacAddr address, absl::Span<uint8_t> out) noexcept;
bool WriteLinkAddressOption(NdOptionType type, const IpoibAddress& address,
                            absl::Span<uint8_t> out) noexcept;

// These build a neighbour solicitation or advertisement, a whole IPv6 packet: Start writes it
// without options, Append adds one, Finish fills in the payload length and the checksum (RFC 4443
// §2.3). `flags` are 0 in a solicitation.
void StartNeighborMessage(NdType type, uint8_t flags, const Ipv6Addr& source,
                          const Ipv6Addr& destination, const Ipv6Addr& target,
                          std::vector<uint8_t>* packet);
void AppendLinkAddressOption(NdOptionType type, MacAddr address, std::vector<uint8_t>* packet);
void AppendLinkAddressOption(NdOptionType type, const IpoibAddress& address,
                             std::vector<uint8_t>* packet);
void FinishNeighborMessage(std::vector<uint8_t>* packet);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_NEIGHBOR_DISCOVERY_H_
