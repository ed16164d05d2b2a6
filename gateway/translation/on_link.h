// OnLink: knows the prefixes of the link, and the routers to addresses beyond it. An IPoIB host sends a packet for a remote
// address to the gateway if its router is on Ethernet, so the gateway has to choose the router again. It knows both from its
// configuration, router advertisements (RFC 4861 §4.2, §4.6.2; RFC 4191) and DHCP replies (RFC 2132 §3.3, §3.5).
//
// Owned by the translation, on its thread.
#ifndef EOIB_GATEWAY_TRANSLATION_ON_LINK_H_
#define EOIB_GATEWAY_TRANSLATION_ON_LINK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gateway/translation/options.h"
#include "gateway/translation/saved_tables.h"
#include "vswitch/wire/ip/dhcp4.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/neighbor_discovery.h"

namespace eoib::translation {

class OnLink {
 public:
  enum class Where : uint8_t { kHere, kBeyond, kUnknown };
  // RFC 4191 §2.1, lowest first.
  enum class Preference : int8_t { kLow = -1, kMedium = 0, kHigh = 1, kConfigured = 2 };

  explicit OnLink(const Options& options);
  // Replaces the configured entries; the learned ones stay.
  void Change(const Options& options);

  // kUnknown: no prefix of the address's family is known.
  Where WhereIs(const IpAddr& ip, absl::Time now) const;
  // The best router of that family: reachable before unreachable (RFC 4861 §6.3.6), then by preference. Absent if none is
  // known.
  absl::optional<IpAddr> Router(bool ipv6, absl::FunctionRef<bool(const IpAddr&)> reachable, absl::Time now) const;

  void LearnAdvertisement(const NdMessage& advertisement, absl::Time now);
  // Learns from DHCPOFFER and DHCPACK; ignores other messages.
  void LearnDhcp(const DhcpMessage& reply, absl::Time now);

  // Saves the learned entries that are still valid; configured ones are not saved.
  void Save(absl::Time now, SavedTables* saved) const;
  void Restore(const SavedTables& saved, absl::Time now);

  // See Translator.
  void CopyFrom(const OnLink& other) {
    prefixes_ = other.prefixes_;
    routers_ = other.routers_;
  }

  size_t size() const { return prefixes_.size() + routers_.size(); }

 private:
  struct KnownPrefix {
    Prefix prefix;
    absl::Time until;
    absl::Time heard;
    bool configured = false;
    bool is_configured() const { return configured; }
  };
  struct KnownRouter {
    IpAddr ip;
    Preference preference = Preference::kMedium;
    absl::Time until;
    absl::Time heard;
    bool is_configured() const { return preference == Preference::kConfigured; }
  };

  void LearnPrefix(const Prefix& prefix, absl::Duration lifetime, absl::Time now);
  void LearnRouter(const IpAddr& ip, Preference preference, absl::Duration lifetime, absl::Time now);
  void LearnPrefixOption(const NdOption& option, absl::Time now);
  template <typename Known>
  void Learn(typename std::vector<Known>::iterator known, const Known& learned, std::vector<Known>* table);
  template <typename Known>
  bool MakeRoom(std::vector<Known>* table, absl::Time now) const;

  size_t limit_;
  std::vector<KnownPrefix> prefixes_;
  std::vector<KnownRouter> routers_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_ON_LINK_H_
