// OnLink: knows the prefixes of the link, and the routers to addresses beyond it. An IPoIB host
// sends a packet for a remote address to the gateway if its router is on Ethernet, so the gateway
// has to choose the router again. It knows both from its configuration, router advertisements (RFC
// 4861 §4.2, §4.6.2; RFC 4191) and DHCP replies (RFC 2132 §3.3, §3.5).
//
// Any host can send an advertisement or a reply. So nothing is learned for an address family that
// has a configured prefix or router, and what is learned has bounds: kShortestPrefix,
// kLongestLifetime.
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

  // Shorter prefixes are not learned: a link has no 0.0.0.0/1.
  static constexpr uint8_t kShortestPrefix4 = 8, kShortestPrefix6 = 16;
  // A learned entry ends at this time after it was last heard, whatever its lifetime.
  static constexpr absl::Duration kLongestLifetime = absl::Hours(24);

  // A row of `gateway route show`: a prefix, or a router to everything else.
  struct Row {
    enum class Source : uint8_t { kConfigured, kDhcp, kAdvertisement };
    absl::optional<Prefix> prefix;  // without host bits
    IpAddr router;                  // if there is no prefix
    Source source = Source::kConfigured;
    absl::Duration left;  // the remaining lifetime; InfiniteDuration() if it is configured
  };

  explicit OnLink(const Options& options);
  // Replaces the configured entries. Forgets the learned ones of the families that are configured
  // now.
  void Change(const Options& options);

  // Whether the family has a configured prefix or router, so that nothing is learned for it.
  bool IsConfigured(bool ipv6) const { return configured_[ipv6]; }

  // kUnknown: no prefix of the address's family is known.
  Where WhereIs(const IpAddr& ip, absl::Time now) const;
  // The best router of that family: reachable before unreachable (RFC 4861 §6.3.6), then by
  // preference. Absent if none is known.
  absl::optional<IpAddr> Router(bool ipv6, absl::FunctionRef<bool(const IpAddr&)> reachable,
                                absl::Time now) const;

  // Requires a valid advertisement (RFC 4861 §6.1.2).
  void LearnAdvertisement(const NdMessage& advertisement, absl::Time now);
  // Learns from DHCPOFFER and DHCPACK; ignores other messages, and those without the address of a
  // server or a client, or without a mask. The caller checks that a client has asked.
  void LearnDhcp(const DhcpMessage& reply, absl::Time now);
  // Forgets the learned entries; returns their number.
  size_t Flush();
  // The valid entries, prefixes first.
  std::vector<Row> Dump(absl::Time now) const;

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
    bool is_ipv6() const { return prefix.address.is_ipv6(); }
  };
  struct KnownRouter {
    IpAddr ip;
    Preference preference = Preference::kMedium;
    absl::Time until;
    absl::Time heard;
    bool is_configured() const { return preference == Preference::kConfigured; }
    bool is_ipv6() const { return ip.is_ipv6(); }
  };

  // A known entry keeps `keep` of its remaining lifetime, also if the new lifetime is shorter.
  void LearnPrefix(const Prefix& prefix, absl::Duration lifetime, absl::Duration keep,
                   absl::Time now);
  void LearnRouter(const IpAddr& ip, Preference preference, absl::Duration lifetime,
                   absl::Duration keep, absl::Time now);
  void LearnPrefixOption(const NdOption& option, absl::Time now);
  template <typename Known>
  void Learn(typename std::vector<Known>::iterator known, Known learned, absl::Duration keep,
             std::vector<Known>* table);
  template <typename Known>
  void MakeRoom(bool ipv6, std::vector<Known>* table, absl::Time now) const;

  size_t limit_;             // of each table, for each family
  bool configured_[2] = {};  // IPv4, IPv6
  std::vector<KnownPrefix> prefixes_;
  std::vector<KnownRouter> routers_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_ON_LINK_H_
