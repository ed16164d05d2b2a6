#include "gateway/translation/stations.h"

#include <algorithm>
#include <utility>

namespace eoib::translation {
namespace {

// After this silence, a probe for its address may be the station's own.
constexpr absl::Duration kProbeOf = absl::Seconds(1);

// The finalizer of SplitMix64: each bit of the input changes half of the output's.
constexpr uint64_t Mix(uint64_t x) {
  x += 0x9e37'79b9'7f4a'7c15;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11eb;
  return x ^ (x >> 31);
}

constexpr uint64_t kLocallyAdministered = uint64_t{0x02} << 40;
constexpr uint64_t kGroup = uint64_t{0x01} << 40;

}  // namespace

MacAddr StationMac(const StationId& id, uint32_t salt) {
  const uint64_t hash =
      Mix(Mix(Mix(id.gid.prefix()) ^ id.gid.guid().value()) ^ (uint64_t{salt} << 16 | id.ordinal));
  return MacAddr::FromUint64((hash & 0xffff'ffff'ffff & ~kGroup) | kLocallyAdministered);
}

Stations::Stations(const Options& options, Counters* counters)
    : options_(options),
      counters_(counters),
      stations_(options.max_stations),
      ips_(options.max_station_ips) {}

void Stations::Change(const Options& options) {
  options_ = options;
  stations_.SetLimit(options.max_stations);
  ips_.SetLimit(options.max_station_ips);
  while (stations_.overfull()) EvictStation();
  while (ips_.overfull()) EvictIp();
}

// Both require a full table.
void Stations::EvictStation() {
  Remove(StationId(stations_.Victim()->key));
  counters_->Add(Event::kEvicted);
}
void Stations::EvictIp() {
  ForgetIp(IpAddr(ips_.Victim()->key));
  counters_->Add(Event::kEvicted);
}

const Station* Stations::FindByMac(MacAddr mac) const {
  const auto at = by_mac_.find(mac);
  return at == by_mac_.end() ? nullptr : &stations_.Find(at->second)->value;
}

const Station* Stations::FindByAddress(const IpoibAddress& address) const {
  const auto at = by_address_.find(address);
  return at == by_address_.end() ? nullptr : &stations_.Find(at->second)->value;
}

const Station* Stations::FindByIp(const IpAddr& ip) const {
  const auto* const owner = ips_.Find(ip);
  return owner == nullptr ? nullptr : &stations_.Find(owner->value)->value;
}

absl::Time Stations::IpHeard(const IpAddr& ip) const {
  const auto* const owner = ips_.Find(ip);
  return owner == nullptr ? absl::InfinitePast() : owner->heard;
}

const Station* Stations::Hear(const IpoibAddress& address, absl::Time now, MacTaken taken) {
  Station* const known = HearKnown(address, now);
  return known != nullptr ? known : Create(address, now, taken);
}

const Station* Stations::HearClaim(const IpoibAddress& address, const IpAddr& ip, Claim claim,
                                   absl::Time now, MacTaken taken) {
  const Station* const owner = FindByIp(ip);
  Station* at = HearKnown(address, now);
  if (owner != nullptr && owner != at && ComesBack(*owner, address, claim, now))
    at = Rebind(owner->id, address, now);
  if (at == nullptr) at = Create(address, now, taken);
  if (claim != Claim::kProbe) Assign(ip, at, claim, now);
  return at;
}

void Stations::HearFrom(const Station& station, const IpAddr& ip, absl::Time now) {
  const StationId id = station.id;
  stations_.Confirm(id, now)->value.heard = now;
  if (const auto* const owner = ips_.Find(ip); owner != nullptr && owner->value == id)
    ips_.Confirm(ip, now);
}

bool Stations::Forget(const IpoibAddress& address) {
  const auto at = by_address_.find(address);
  if (at == by_address_.end()) return false;
  Remove(StationId(at->second));
  return true;
}

void Stations::ForgetIps(absl::FunctionRef<bool(const IpAddr&)> goes) {
  std::vector<IpAddr> gone;
  ips_.ForEach([&](const auto& entry) {
    if (goes(entry.key)) gone.push_back(entry.key);
  });
  for (const IpAddr& ip : gone) ForgetIp(ip);
}

void Stations::Expire(absl::Time now) {
  while (const auto* const ip = ips_.SilentSince(now - options_.station_age))
    ForgetIp(IpAddr(ip->key));
  while (const auto* const station = stations_.SilentSince(now - options_.station_age))
    Remove(StationId(station->key));
}

absl::Time Stations::NextExpiry() const {
  return std::min(ips_.oldest(), stations_.oldest()) + options_.station_age;
}

void Stations::ForEachIp(
    absl::FunctionRef<void(const Station&, const IpAddr&, absl::Time, bool)> visit) const {
  ips_.ForEach([&](const auto& entry) {
    visit(stations_.Find(entry.value)->value, entry.key, entry.heard, entry.confirmed);
  });
}

std::vector<SavedStation> Stations::Save(absl::Time now) const {
  std::vector<SavedStation> saved;
  stations_.ForEach([&](const auto& entry) {
    const Station& station = entry.value;
    saved.push_back({station.id.gid, station.id.ordinal, station.qpn, station.mac,
                     now - station.heard, entry.confirmed, SaveIps(station, now)});
  });
  return saved;
}

// In the order in which Restore adds them, so that Save after Restore gives the same.
std::vector<SavedIp> Stations::SaveIps(const Station& station, absl::Time now) const {
  std::vector<SavedIp> saved;
  for (const IpAddr& ip : station.ips) {
    const auto* const entry = ips_.Find(ip);
    saved.push_back({ip, now - entry->heard, entry->confirmed});
  }
  std::stable_sort(saved.begin(), saved.end(),
                   [](const SavedIp& a, const SavedIp& b) { return a.age > b.age; });
  return saved;
}

// An AgedTable takes entries in the order in which they were heard; Save writes the last heard
// first.
void Stations::Restore(const std::vector<SavedStation>& saved, absl::Time now, MacTaken taken) {
  std::vector<const SavedStation*> oldest_first;
  for (auto station = saved.rbegin(); station != saved.rend(); ++station)
    oldest_first.push_back(&*station);
  std::stable_sort(oldest_first.begin(), oldest_first.end(),
                   [](auto* a, auto* b) { return a->age > b->age; });
  std::vector<std::pair<const SavedIp*, StationId>> ips;
  for (const SavedStation* const from : oldest_first) {
    if (!CanRestore(*from, taken)) continue;
    const StationId id{from->gid, from->ordinal};
    Insert({id, from->qpn, from->mac, {}, now - from->age}, now - from->age);
    if (from->confirmed) stations_.Confirm(id, now - from->age);
    for (const SavedIp& ip : from->ips) ips.emplace_back(&ip, id);
  }
  std::stable_sort(ips.begin(), ips.end(),
                   [](const auto& a, const auto& b) { return a.first->age > b.first->age; });
  for (const auto& [ip, id] : ips) RestoreIp(*ip, id, now);
}

bool Stations::CanRestore(const SavedStation& saved, MacTaken taken) const {
  const IpoibAddress address(saved.qpn, saved.gid);
  if (stations_.Find({saved.gid, saved.ordinal}) != nullptr || by_address_.contains(address))
    return false;
  if (saved.mac.IsGroup() || saved.mac.IsZero() || by_mac_.contains(saved.mac) || taken(saved.mac))
    return false;
  return !address.IsGroup() && !saved.gid.IsZero() && saved.ordinal < options_.max_stations_per_gid;
}

void Stations::RestoreIp(const SavedIp& saved, StationId id, absl::Time now) {
  auto* const station = stations_.Find(id);
  if (station == nullptr || ips_.Find(saved.ip) != nullptr || !saved.ip.CanBeHost()) return;
  AddIp(saved.ip, &station->value, now - saved.age);
  if (saved.confirmed) ips_.Confirm(saved.ip, now - saved.age);
}

Station* Stations::HearKnown(const IpoibAddress& address, absl::Time now) {
  const auto at = by_address_.find(address);
  if (at == by_address_.end()) return nullptr;
  Station* const station = &stations_.Hear(at->second, now)->value;
  station->heard = now;
  return station;
}

Station* Stations::Create(const IpoibAddress& address, absl::Time now, MacTaken taken) {
  Station station;
  station.id = {address.gid(), MakeOrdinal(address.gid())};
  station.qpn = address.qpn();
  station.heard = now;
  // Another salt resolves a collision. The result depends on the order of arrival, so MAC addresses
  // are saved.
  for (uint32_t salt = 0;; ++salt) {
    station.mac = StationMac(station.id, salt);
    if (!by_mac_.contains(station.mac) && !taken(station.mac)) break;
  }
  counters_->Add(Event::kLearnedStations);
  return Insert(std::move(station), now);
}

Station* Stations::Insert(Station station, absl::Time now) {
  if (stations_.full()) EvictStation();
  ++changes_;
  ++per_gid_[station.id.gid];
  by_address_[station.address()] = station.id;
  by_mac_[station.mac] = station.id;
  const StationId id = station.id;
  return &stations_.Add(id, std::move(station), now)->value;
}

absl::optional<uint16_t> Stations::FreeOrdinal(const Gid& gid) const {
  const auto count = per_gid_.find(gid);
  if (count == per_gid_.end()) return 0;
  for (size_t ordinal = 0; ordinal < options_.max_stations_per_gid; ++ordinal) {
    const auto number = static_cast<uint16_t>(ordinal);
    if (stations_.Find({gid, number}) == nullptr) return number;
  }
  return absl::nullopt;
}

// At the limit, the longest silent interface of this port is evicted: a port that invents
// interfaces displaces its own.
uint16_t Stations::MakeOrdinal(const Gid& gid) {
  if (const auto free = FreeOrdinal(gid); free.has_value()) return *free;
  StationId oldest{gid, 0};
  for (size_t ordinal = 1; ordinal < options_.max_stations_per_gid; ++ordinal) {
    const StationId id{gid, static_cast<uint16_t>(ordinal)};
    if (stations_.Find(id)->heard < stations_.Find(oldest)->heard) oldest = id;
  }
  Remove(oldest);
  counters_->Add(Event::kEvicted);
  return oldest.ordinal;
}

// True if the sender at `address` is `owner` with another QPN. A sender that already has addresses
// of its own is another interface, which takes the address over. A probe counts only if the owner
// is silent: otherwise it may come from another interface of the same port.
bool Stations::ComesBack(const Station& owner, const IpoibAddress& address, Claim claim,
                         absl::Time now) const {
  const Station* const at = FindByAddress(address);
  if (owner.id.gid != address.gid() || (at != nullptr && !at->ips.empty())) return false;
  return claim != Claim::kProbe || now - owner.heard >= kProbeOf;
}

Station* Stations::Rebind(StationId id, const IpoibAddress& address, absl::Time now) {
  Forget(address);  // the entry that the new QPN got before it claimed an address
  auto* const entry = stations_.Hear(id, now);
  by_address_.erase(entry->value.address());
  entry->value.qpn = address.qpn();
  entry->value.heard = now;
  by_address_[address] = id;
  ++changes_;
  counters_->Add(Event::kMovedStations);
  return &entry->value;
}

void Stations::Assign(const IpAddr& ip, Station* station, Claim claim, absl::Time now) {
  const auto* const owner = ips_.Find(ip);
  if (owner != nullptr && owner->value != station->id) ForgetIp(ip);
  if (ips_.Find(ip) == nullptr) AddIp(ip, station, now);
  claim == Claim::kAnswer ? ips_.Confirm(ip, now) : ips_.Hear(ip, now);
  if (claim == Claim::kAnswer) stations_.Confirm(station->id, now);
}

void Stations::AddIp(const IpAddr& ip, Station* station, absl::Time now) {
  if (station->ips.size() >= options_.max_ips_per_station) ForgetOldestIp(*station);
  if (ips_.full()) EvictIp();
  ++changes_;
  station->ips.push_back(ip);
  ips_.Add(ip, station->id, now);
}

void Stations::ForgetIp(const IpAddr& ip) {
  Station* const station = &stations_.Find(ips_.Find(ip)->value)->value;
  station->ips.erase(std::find(station->ips.begin(), station->ips.end(), ip));
  ips_.Erase(ip);
  ++changes_;
}

void Stations::ForgetOldestIp(const Station& station) {
  const auto heard = [this](const IpAddr& ip) { return ips_.Find(ip)->heard; };
  ForgetIp(IpAddr(
      *std::min_element(station.ips.begin(), station.ips.end(),
                        [&](const IpAddr& a, const IpAddr& b) { return heard(a) < heard(b); })));
  counters_->Add(Event::kEvicted);
}

void Stations::Remove(StationId id) {
  const Station& station = stations_.Find(id)->value;
  for (const IpAddr& ip : station.ips) ips_.Erase(ip);
  by_address_.erase(station.address());
  by_mac_.erase(station.mac);
  if (--per_gid_[id.gid] == 0) per_gid_.erase(id.gid);
  stations_.Erase(id);
  ++changes_;
}

}  // namespace eoib::translation
