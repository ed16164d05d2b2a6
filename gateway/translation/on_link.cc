#include "gateway/translation/on_link.h"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "vswitch/base/byte_order.h"

namespace eoib::translation {
namespace {

constexpr absl::Duration kDhcpLifetime = absl::Hours(1);  // if the server names no lease time
constexpr uint32_t kInfinity = 0xffff'ffff;               // RFC 4861 §4.6.2, RFC 2131 §3.3
// RFC 4862 §5.5.3(e): an advertisement leaves a known prefix two hours, because it may be forged.
constexpr absl::Duration kAdvertisedKeep = absl::Hours(2);

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

absl::Duration Lifetime(uint32_t seconds) {
  return seconds == kInfinity ? absl::InfiniteDuration() : absl::Seconds(seconds);
}

// RFC 4861 §6.3.4: a lifetime of 0 ends the entry at once.
absl::Time End(absl::Duration lifetime, absl::Time now) {
  return lifetime == absl::ZeroDuration() ? absl::InfinitePast()
                                          : now + std::min(lifetime, OnLink::kLongestLifetime);
}

bool IsLongEnough(const Prefix& prefix) {
  return prefix.length >=
         (prefix.address.is_ipv6() ? OnLink::kShortestPrefix6 : OnLink::kShortestPrefix4);
}

bool HasHoles(Ipv4Addr mask) {
  return std::countl_one(mask.value()) + std::countr_zero(mask.value()) != 32;
}

Prefix WithoutHostBits(const Prefix& prefix) {
  if (!prefix.address.is_ipv6()) {
    const uint64_t mask = ~uint64_t{0} << (32 - prefix.length);
    return {Ipv4Addr(static_cast<uint32_t>(prefix.address.ipv4().value() & mask)), prefix.length};
  }
  auto bytes = prefix.address.ipv6().bytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int bits = std::clamp(prefix.length - static_cast<int>(8 * i), 0, 8);
    bytes[i] = static_cast<uint8_t>(bytes[i] & 0xff00 >> bits);
  }
  return {Ipv6Addr(bytes), prefix.length};
}

// RFC 4191 §2.2: a signed number of two bits; the reserved value counts as medium.
OnLink::Preference PreferenceOf(uint8_t flags) {
  const int bits = flags >> 3 & 3;
  return bits == 1   ? OnLink::Preference::kHigh
         : bits == 3 ? OnLink::Preference::kLow
                     : OnLink::Preference::kMedium;
}

}  // namespace

absl::optional<Prefix> Prefix::Parse(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('/', 1));
  const absl::StatusOr<IpAddr> address = IpAddr::Parse(parts.first);
  int length = 0;
  if (!address.ok() || !absl::SimpleAtoi(parts.second, &length)) return absl::nullopt;
  if (length < 0 || length > (address->is_ipv6() ? 128 : 32)) return absl::nullopt;
  return Prefix{*address, static_cast<uint8_t>(length)};
}

OnLink::OnLink(const Options& options) : limit_(options.max_prefixes) { Change(options); }

void OnLink::Change(const Options& options) {
  limit_ = options.max_prefixes;
  configured_[false] = configured_[true] = false;
  for (const Prefix& prefix : options.prefixes) configured_[prefix.address.is_ipv6()] = true;
  for (const IpAddr& ip : options.routers) configured_[ip.is_ipv6()] = true;
  const auto goes = [this](const auto& known) {
    return known.is_configured() || IsConfigured(known.is_ipv6());
  };
  std::erase_if(prefixes_, goes);
  std::erase_if(routers_, goes);
  for (const Prefix& prefix : options.prefixes)
    prefixes_.push_back({prefix, absl::InfiniteFuture(), {}, true});
  for (const IpAddr& ip : options.routers) {
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

absl::optional<IpAddr> OnLink::Router(bool ipv6, absl::FunctionRef<bool(const IpAddr&)> reachable,
                                      absl::Time now) const {
  const KnownRouter* best = nullptr;
  bool best_reachable = false;
  for (const KnownRouter& router : routers_) {
    if (router.until < now || router.ip.is_ipv6() != ipv6) continue;
    const bool is_reachable = reachable(router.ip);
    // RFC 4861 §6.3.6: a reachable router before an unreachable one, whatever the preferences.
    if (best != nullptr &&
        (best_reachable > is_reachable ||
         (best_reachable == is_reachable && best->preference >= router.preference))) {
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
  LearnRouter(advertisement.source, PreferenceOf(wire.flags),
              absl::Seconds(wire.router_lifetime.value()), absl::ZeroDuration(), now);
  for (const NdOption& option : advertisement.options) LearnPrefixOption(option, now);
}

void OnLink::LearnPrefixOption(const NdOption& option, absl::Time now) {
  if (option.type != NdOptionType::kPrefixInformation ||
      option.bytes.size() != sizeof(PrefixOptionWire))
    return;
  const auto wire = ReadWire<PrefixOptionWire>(option.bytes.data());
  const Ipv6Addr prefix(wire.prefix);
  if ((wire.flags & kOnLinkFlag) == 0 || wire.prefix_length > 128 || prefix.IsLinkLocal() ||
      prefix.IsMulticast())
    return;
  LearnPrefix({prefix, wire.prefix_length}, Lifetime(wire.valid_lifetime.value()), kAdvertisedKeep,
              now);
}

void OnLink::LearnDhcp(const DhcpMessage& reply, absl::Time now) {
  if (reply.type() != DhcpMessageType::kOffer && reply.type() != DhcpMessageType::kAck) return;
  // RFC 2131 §4.3.1: both messages have one.
  const auto server = reply.FindAddress(DhcpOption::kServerIdentifier);
  const auto mask = reply.FindAddress(DhcpOption::kSubnetMask);
  const IpAddr yours = reply.fields().yours;
  if (!server.has_value() || !IpAddr(*server).CanBeHost() || !yours.CanBeHost()) return;
  // Ignore a mask with holes. RFC 950 §2.1 only recommends against them, but a Prefix cannot hold
  // one.
  if (!mask.has_value() || HasHoles(*mask)) return;
  const Prefix prefix{yours, static_cast<uint8_t>(std::countl_one(mask->value()))};
  if (!IsLongEnough(prefix)) return;
  const auto lease = reply.FindNumber(DhcpOption::kLeaseTime);
  const absl::Duration lifetime = lease.has_value() ? Lifetime(*lease) : kDhcpLifetime;
  // A lease is one client's. A shorter one says nothing about the link.
  LearnPrefix(prefix, lifetime, absl::InfiniteDuration(), now);
  for (const Ipv4Addr router : reply.FindAddresses(DhcpOption::kRouters)) {
    if (prefix.Contains(router))
      LearnRouter(router, Preference::kLow, lifetime, absl::InfiniteDuration(), now);
  }
}

size_t OnLink::Flush() {
  const auto learned = [](const auto& known) { return !known.is_configured(); };
  return std::erase_if(prefixes_, learned) + std::erase_if(routers_, learned);
}

std::vector<OnLink::Row> OnLink::Dump(absl::Time now) const {
  std::vector<Row> rows;
  const auto add = [&](const auto& known, const absl::optional<Prefix>& prefix,
                       const IpAddr& router) {
    if (known.until < now) return;
    const Row::Source learned = known.is_ipv6() ? Row::Source::kAdvertisement : Row::Source::kDhcp;
    rows.push_back({prefix, router, known.is_configured() ? Row::Source::kConfigured : learned,
                    known.until - now});
  };
  for (const KnownPrefix& known : prefixes_) add(known, WithoutHostBits(known.prefix), IpAddr());
  for (const KnownRouter& known : routers_) add(known, absl::nullopt, known.ip);
  return rows;
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
    if (prefix.length < 0 || prefix.length > longest || prefix.left <= absl::ZeroDuration())
      continue;
    LearnPrefix({prefix.address, static_cast<uint8_t>(prefix.length)}, prefix.left,
                absl::ZeroDuration(), now);
  }
  for (const SavedRouter& router : saved.routers) {
    const bool known = router.preference >= static_cast<int>(Preference::kLow) &&
                       router.preference <= static_cast<int>(Preference::kHigh);
    if (!known || router.left <= absl::ZeroDuration()) continue;
    LearnRouter(router.ip, static_cast<Preference>(router.preference), router.left,
                absl::ZeroDuration(), now);
  }
}

// Replaces the entry at `known`, or adds one if its lifetime is not over.
template <typename Known>
void OnLink::Learn(typename std::vector<Known>::iterator known, Known learned, absl::Duration keep,
                   std::vector<Known>* table) {
  if (IsConfigured(learned.is_ipv6())) return;
  const absl::Time now = learned.heard;
  if (known != table->end()) {
    if (keep > absl::ZeroDuration())
      learned.until = std::max(learned.until, std::min(known->until, now + keep));
    *known = learned;
  } else if (learned.until > now) {
    MakeRoom(learned.is_ipv6(), table, now);
    table->push_back(learned);
  }
}

void OnLink::LearnPrefix(const Prefix& prefix, absl::Duration lifetime, absl::Duration keep,
                         absl::Time now) {
  if (!IsLongEnough(prefix)) return;
  const auto known =
      std::find_if(prefixes_.begin(), prefixes_.end(), [&](const KnownPrefix& other) {
        return other.prefix.length == prefix.length && other.prefix.Contains(prefix.address);
      });
  Learn(known, {prefix, End(lifetime, now), now}, keep, &prefixes_);
}

void OnLink::LearnRouter(const IpAddr& ip, Preference preference, absl::Duration lifetime,
                         absl::Duration keep, absl::Time now) {
  if (!ip.CanBeHost()) return;
  const auto known = std::find_if(routers_.begin(), routers_.end(),
                                  [&](const KnownRouter& other) { return other.ip == ip; });
  Learn(known, {ip, preference, End(lifetime, now), now}, keep, &routers_);
}

// Makes room for a learned entry: removes expired ones, and if that is not enough, the one of that
// family that was heard longest ago. So a host that invents entries of one family does not displace
// the other's. Requires a family without configured entries.
template <typename Known>
void OnLink::MakeRoom(bool ipv6, std::vector<Known>* table, absl::Time now) const {
  std::erase_if(*table, [now](const Known& old) { return old.until < now; });
  const auto of_family = [ipv6](const Known& known) { return known.is_ipv6() == ipv6; };
  if (static_cast<size_t>(std::count_if(table->begin(), table->end(), of_family)) < limit_) return;
  const auto goes_before = [&](const Known& a, const Known& b) {
    return std::make_tuple(!of_family(a), a.heard) < std::make_tuple(!of_family(b), b.heard);
  };
  table->erase(std::min_element(table->begin(), table->end(), goes_before));
}

}  // namespace eoib::translation
