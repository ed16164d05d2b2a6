// IPv6 neighbour discovery on both links, as far as link-layer addresses travel in it (RFC 4861; RFC 4391 §9.3).
//
// Five ICMPv6 messages end with options, each of whole units of 8 bytes. Those that carry a link-layer address have one unit on
// Ethernet (RFC 2464 §6) and three on IPoIB; the others are the same on both.
#ifndef EOIB_VSWITCH_WIRE_NEIGHBOR_DISCOVERY_H_
#define EOIB_VSWITCH_WIRE_NEIGHBOR_DISCOVERY_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/address.h"
#include "vswitch/wire/ip_address.h"
#include "vswitch/wire/ipoib_address.h"

namespace eoib {

// ICMPv6 types (RFC 4861 §4.1 to §4.5).
enum class NdType : uint8_t {
  kRouterSolicitation = 133,
  kRouterAdvertisement = 134,
  kNeighborSolicitation = 135,
  kNeighborAdvertisement = 136,
  kRedirect = 137,
};

// Options. There are more; they are walked over like these.
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

// True if the option is one of Secure Neighbor Discovery alone: it comes with a signature, so who changes its message breaks
// it. A nonce does not count, because the detection of one's own looped solicitations has it too (RFC 7527 §4.1).
constexpr bool IsSendOption(NdOptionType type) {
  return type >= NdOptionType::kCga && type <= NdOptionType::kCertificate && type != NdOptionType::kNonce;
}

struct NdOption {
  NdOptionType type = NdOptionType::kSourceLinkAddress;
  absl::Span<const uint8_t> bytes;  // all of the option, from its type on: at least 8, in whole units of 8
};

// The options of a message, in their order, each within its bounds. Does not own the bytes.
class NdOptions {
 public:
  class Iterator {
   public:
    explicit Iterator(absl::Span<const uint8_t> rest) : rest_(rest) {}
    NdOption operator*() const;
    Iterator& operator++();
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.rest_.size() == b.rest_.size(); }

   private:
    absl::Span<const uint8_t> rest_;
  };

  NdOptions() = default;
  // Nothing if an option has length 0, reaches beyond the end or ends within its first two bytes: the message is then not to be
  // believed in any part of it (RFC 4861 §4.6, §7.1.1).
  static absl::optional<NdOptions> Parse(absl::Span<const uint8_t> bytes) noexcept;

  Iterator begin() const { return Iterator(bytes_); }
  Iterator end() const { return Iterator(bytes_.last(0)); }
  absl::Span<const uint8_t> bytes() const { return bytes_; }

 private:
  explicit NdOptions(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  absl::Span<const uint8_t> bytes_;
};

// A message and where its parts are. Views of the packet it was read from.
struct NdMessage {
  NdType type = NdType::kRouterSolicitation;
  Ipv6Addr source;                    // of the IPv6 header
  Ipv6Addr destination;               // of the IPv6 header
  Ipv6Addr target;                    // of solicitations and advertisements of neighbours and of redirects; else ::
  absl::Span<const uint8_t> message;  // from the ICMPv6 type to the last option
  NdOptions options;
};

enum class NdVerdict : uint8_t {
  kOther,  // not neighbour discovery
  kBad,    // would be, and no host is to act on it
  kGood,
};

// Reads `packet`, from the IPv6 header on; bytes behind its payload are padding. kGood sets *message. kBad: hop limit other
// than 255, so it may come from beyond the link; a wrong checksum; a code other than 0; shorter than its type asks for; options
// that NdOptions refuses (RFC 4861 §6.1, §7.1, §8.1). What these sections say of the addresses is for the host that believes
// it.
//
// A deliberate divergence: a message behind extension headers, or in a first fragment, is kBad, and so is anything behind more
// than eight of them. RFC 6980 §5 forbids fragments; other headers nobody sends but to hide a message from who looks into it on
// the way (RFC 7113 §2).
NdVerdict ParseNeighborDiscovery(absl::Span<const uint8_t> packet, NdMessage* message) noexcept;

// The address in a source or target link-layer address option of that link; nothing if the option is another, or not of that
// link's length.
absl::optional<MacAddr> EthernetLinkAddress(const NdOption& option) noexcept;    // 8 bytes
absl::optional<IpoibAddress> IpoibLinkAddress(const NdOption& option) noexcept;  // 24 bytes, the two of padding ignored
// The MTU option's number of bytes. Nothing if the option is another, or not of 8 bytes.
absl::optional<uint32_t> LinkMtu(const NdOption& option) noexcept;
// What the nonce option carries: 6 bytes, or 8 more for each further unit. Empty if the option is another.
absl::Span<const uint8_t> Nonce(const NdOption& option) noexcept;

inline constexpr size_t kEthernetLinkAddressOptionSize = 8;
inline constexpr size_t kIpoibLinkAddressOptionSize = 24;

// Writes a link-layer address option to the start of `out`, padding as zero. False, and nothing written, if `type` is no such
// option's or there is not the room.
bool WriteLinkAddressOption(NdOptionType type, MacAddr address, absl::Span<uint8_t> out) noexcept;
bool WriteLinkAddressOption(NdOptionType type, const IpoibAddress& address, absl::Span<uint8_t> out) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_NEIGHBOR_DISCOVERY_H_
