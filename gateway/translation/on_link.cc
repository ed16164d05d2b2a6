#include "gateway/translation/on_link.h"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

#include "vswitch/base/byte_order.h"

namespace eoib::translation {
namespace {

constexpr absl::Duration kDhcpLifetime = absl::Hours(1);  // if the server names no lease time
constexpr uint32_t kInfinity = 0xffff'ffff;               // RFC 4861 §4.6.2, RFC 2131 §3.3

// The start of a router advertisement (RFC 4861 §4.2).
struct AdvertisementWire {
  be32 type_code_checksum;
  uint8_t hop_limit = 0;
  uint8_t flags = 0;
  be16 router_lifetime;
};
static_assert(sizeof(AdvertisementWire) == 8);

// RFC 4861 §4.6.2.
struct PrefixOptionWire {
  uint8_t type = 0;
  uint8_t length = 0;
  uint8_t prefix_length = 0;
  uint8_t flags = 0;
  be32 valid_lifetime;
  be32 preferred_lifetime;
  be32 reserved;
  std::array<uint8_t, Ipv6Addr::kSize> prefix{};
};
static_assert(sizeof(PrefixOptionWire) == 32);
constexpr uint8_t kOnLinkFlag = 0x80;

absl::Duration Lifetime(uint32_t seconds) { return seconds == kInfinity ? absl::InfiniteDuration() : absl::Seconds(seconds); }

// RFC 4861 §6.3.4: a lifetime of 0 ends the entry at once.
absl::Time End(absl::Duration lifetime, absl::Time now) {
  return lifetime == absl::ZeroDuration() ? absl::InfinitePast() : now + lifetime;
}

// RFC 4191 §2.2: a signed number of two bits; the reserved value counts as medium.
OnLink::Preference PreferenceOf(uint8_t flags) {
  const int bits = flags >> 3 & 3;
  return bits == 1 ? OnLink::Preference::kHigh : bits == 3 ? OnLink::Preference::kLow : OnLink::Preference::kMedium;
}

}  // namespace

OnLink::OnLink(const Options& options) : limit_(options.max_prefixes) { Change(options); }

// A configured entry takes the place of a learned one.
void OnLink::Change(const Options& options) {
  limit_ = options.max_prefixes;
  std::erase_if(prefixes_, [](const KnownPrefix& known) { return known.is_configured(); });
  std::erase_if(routers_, [](const KnownRouter& known) { return known.is_configured(); });
  for (const Prefix& prefix : options.prefixes) {
    std::erase_if(prefixes_, [&prefix](const KnownPrefix& known) {
      return !known.is_configured() && known.prefix.length == prefix.length && known.prefix.Contains(prefix.address);
    });
    prefixes_.push_back({prefix, absl::InfiniteFuture(), {}, true});
  }
  for (const IpAddr& ip : options.routers) {
    std::erase_if(routers_, [&ip](const KnownRouter& known) { return !known.is_configured() && known.ip == ip; });
    routers_.push_back({ip, Preference::kConfigured, absl::InfiniteFuture(), {}});
  }
}

OnLink::Where OnLink::WhereIs(const IpAddr& ip, absl::Time now) const {
  // RFC 4291 §2.5.6 and RFC 3927 §2.6.2: routers do not forward link-local addresses.
  if (ip.IsLinkLocal()) return Where::kHere;
  Where where = Where::kUnknown;
  for (const KnownPrefix& known : prefixes_) {
    if (known.until < now || known.prefix.address.is_ipv6() != ip.is_ipv6()) continue;
    if (known.prefix.Contains(ip)) return Where::kHere;
    where = Where::kBeyond;
  }
  return where;
}

absl::optional<IpAddr> OnLink::Router(bool ipv6, absl::FunctionRef<bool(const IpAddr&)> reachable, absl::Time now) const {
  const KnownRouter* best = nullptr;
  bool best_reachable = false;
  for (const KnownRouter& router : routers_) {
    if (router.until < now || router.ip.is_ipv6() != ipv6) continue;
    const bool is_reachable = reachable(router.ip);
    // RFC 4861 §6.3.6: a reachable router before an unreachable one, whatever the preferences.
    if (best != nullptr &&
        (best_reachable > is_reachable || (best_reachable == is_reachable && best->preference >= router.preference))) {
      continue;
    }
    best = &router;
    best_reachable = is_reachable;
  }
  return best == nullptr ? absl::nullopt : absl::make_optional(best->ip);
}

void OnLink::LearnAdvertisement(const NdMessage& advertisement, absl::Time now) {
  const auto wire = ReadWire<AdvertisementWire>(advertisement.message.data());
  // RFC 4861 §6.1.2: a valid advertisement comes from a link-local address.
  if (!advertisement.source.IsLinkLocal()) return;
  LearnRouter(advertisement.source, PreferenceOf(wire.flags), absl::Seconds(wire.router_lifetime.value()), now);
  for (const NdOption& option : advertisement.options) LearnPrefixOption(option, now);
}

void OnLink::LearnPrefixOption(const NdOption& option, absl::Time now) {
  if (option.type != NdOptionType::kPrefixInformation || option.bytes.size() != sizeof(PrefixOptionWire)) return;
  const auto wire = ReadWire<PrefixOptionWire>(option.bytes.data());
  const Ipv6Addr prefix(wire.prefix);
  if ((wire.flags & kOnLinkFlag) == 0 || wire.prefix_length > 128 || prefix.IsLinkLocal() || prefix.IsMulticast()) return;
  LearnPrefix({prefix, wire.prefix_length}, Lifetime(wire.valid_lifetime.value()), now);
}

void OnLink::LearnDhcp(const DhcpMessage& reply, absl::Time now) {
  if (reply.type() != DhcpMessageType::kOffer && reply.type() != DhcpMessageType::kAck) return;
  const auto lease = reply.FindNumber(DhcpOption::kLeaseTime);
  const absl::Duration lifetime = lease.has_value() ? Lifetime(*lease) : kDhcpLifetime;
  const auto mask = reply.FindAddress(DhcpOption::kSubnetMask);
  const Ipv4Addr yours = reply.fields().yours;
  // Ignore a mask with holes. RFC 950 §2.1 only recommends against them, but a Prefix cannot hold one.
  if (mask.has_value() && IpAddr(yours).CanBeHost() && std::countl_one(mask->value()) + std::countr_zero(mask->value()) == 32) {
    LearnPrefix({yours, static_cast<uint8_t>(std::countl_one(mask->value()))}, lifetime, now);
  }
  for (const Ipv4Addr router : reply.FindAddresses(DhcpOption::kRouters)) LearnRouter(router, Preference::kLow, lifetime, now);
}

void OnLink::Save(absl::Time now, SavedTables* saved) const {
  for (const KnownPrefix& known : prefixes_) {
    if (!known.configured && known.until > now) {
      saved->prefixes.push_back({known.prefix.address, known.prefix.length, known.until - now});
    }
  }
  for (const KnownRouter& known : routers_) {
    if (known.preference != Preference::kConfigured && known.until > now) {
      saved->routers.push_back({known.ip, static_cast<int>(known.preference), known.until - now});
    }
  }
}

void OnLink::Restore(const SavedTables& saved, absl::Time now) {
  for (const SavedPrefix& prefix : saved.prefixes) {
    const int longest = prefix.address.is_ipv6() ? 128 : 32;
    if (prefix.length < 0 || prefix.length > longest || prefix.left <= absl::ZeroDuration()) continue;
    LearnPrefix({prefix.address, static_cast<uint8_t>(prefix.length)}, prefix.left, now);
  }
  for (const SavedRouter& router : saved.routers) {
    const bool known =
        router.preference >= static_cast<int>(Preference::kLow) && router.preference <= static_cast<int>(Preference::kHigh);
    if (known && router.left > absl::ZeroDuration())
      LearnRouter(router.ip, static_cast<Preference>(router.preference), router.left, now);
  }
}

// Replaces the entry at `known`, unless it is configured, or adds one if its lifetime is not over.
template <typename Known>
void OnLink::Learn(typename std::vector<Known>::iterator known, const Known& learned, std::vector<Known>* table) {
  if (known != table->end()) {
    if (!known->is_configured()) *known = learned;
  } else if (learned.until > learned.heard && MakeRoom(table, learned.heard)) {
    table->push_back(learned);
  }
}

void OnLink::LearnPrefix(const Prefix& prefix, absl::Duration lifetime, absl::Time now) {
  const auto known = std::find_if(prefixes_.begin(), prefixes_.end(), [&](const KnownPrefix& other) {
    return other.prefix.length == prefix.length && other.prefix.Contains(prefix.address);
  });
  Learn(known, {prefix, End(lifetime, now), now}, &prefixes_);
}

void OnLink::LearnRouter(const IpAddr& ip, Preference preference, absl::Duration lifetime, absl::Time now) {
  if (!ip.CanBeHost()) return;
  const auto known = std::find_if(routers_.begin(), routers_.end(), [&](const KnownRouter& other) { return other.ip == ip; });
  Learn(known, {ip, preference, End(lifetime, now), now}, &routers_);
}

// Makes room for an entry: removes expired ones, and if that is not enough, the learned one that was heard longest ago. False
// if the table is full of configured entries.
template <typename Known>
bool OnLink::MakeRoom(std::vector<Known>* table, absl::Time now) const {
  std::erase_if(*table, [now](const Known& old) { return old.until < now; });
  if (table->size() < limit_) return true;
  const auto goes_before = [](const Known& a, const Known& b) {
    return std::make_tuple(a.is_configured(), a.heard) < std::make_tuple(b.is_configured(), b.heard);
  };
  const auto victim = std::min_element(table->begin(), table->end(), goes_before);
  if (victim == table->end() || victim->is_configured()) return false;
  table->erase(victim);
  return true;
}

}  // namespace eoib::translation
