#include "gateway/translation/translator.h"

#include <algorithm>
#include <utility>

#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/neighbor_discovery.h"

namespace eoib::translation {
namespace {

// The gateway's own MAC address is made like a station's, with an ordinal that no station reaches.
MacAddr GatewayMac(const IpoibAddress& own) { return StationMac({own.gid(), 0xffff}, 0); }

// Completes a checksum that the sender left to the receiver (NEEDS_CSUM); false if the field is outside the payload.
bool FinishChecksum(absl::Span<uint8_t> frame, const ChecksumRequest& request) {
  if (!request.needed) return true;
  const size_t field = size_t{request.start} + request.offset;
  if (request.start < kEthernetHeaderSize || field + sizeof(be16) > frame.size()) return false;
  CompleteChecksum(frame, request);
  return true;
}

}  // namespace

Translator::Translator(const Options& options, const Clock* clock, Sink* sink)
    : k_(options, clock, sink),
      questioner_(&k_.output),
      delivery_(&k_),
      querier_(k_.options, &k_.output, &k_.counters, &k_.own_mac),
      arp_(&k_),
      nd_(&k_, &delivery_),
      packets_(&k_, &delivery_, &querier_),
      announcements_(options, clock->Now()) {}

void Translator::FromEthernet(absl::Span<uint8_t> frame, const ChecksumRequest& checksum) {
  k_.now = k_.clock->Now();
  k_.counters.Add(Event::kFramesIn);
  Settle(TranslateFrame(frame, checksum));
}

void Translator::FromIpoib(const ipoib::Packet& packet) {
  k_.now = k_.clock->Now();
  k_.counters.Add(Event::kPacketsIn);
  Settle(TranslatePacket(packet));
}

Drop Translator::TranslateFrame(absl::Span<uint8_t> frame, const ChecksumRequest& checksum) {
  EthernetInfo info;
  if (ParseEthernet(frame, &info) != DropReason::kNone) return Drop::kMalformed;
  if (const Drop drop = k_.CheckEthernetSource(info.source); drop != Drop::kNone) return drop;
  if (info.tagged) return Drop::kNotIp;
  if (!FinishChecksum(frame, checksum)) return Drop::kBadChecksumRequest;
  const absl::Span<uint8_t> payload = frame.subspan(info.payload);
  switch (info.ethertype) {
    case kEtherTypeIpv4:
      return packets_.Ipv4FromEthernet(info, payload);
    case kEtherTypeIpv6:
      return TranslateIpv6Frame(info, payload);
    case kEtherTypeArp:
    case kEtherTypeRarp:
      return arp_.FromEthernet(info, payload);
    case kEtherTypeControl:
    case kEtherTypeAlternative:
      return Drop::kControlEthertype;
  }
  return Drop::kNotIp;
}

Drop Translator::TranslateIpv6Frame(const EthernetInfo& info, absl::Span<uint8_t> payload) {
  NdMessage message;
  const NdVerdict verdict = ParseNeighborDiscovery(payload, &message);
  if (verdict == NdVerdict::kBad) return Drop::kMalformed;
  if (verdict == NdVerdict::kOther) return packets_.Ipv6FromEthernet(info, payload);
  if (info.destination.IsGroup() && message.destination == kHelloGroup) return Drop::kHelloGroup;
  return nd_.FromEthernet(info, payload, message);
}

Drop Translator::TranslatePacket(const ipoib::Packet& packet) {
  // While the link is down, the gateway's own address is unknown, so a looped packet of its own could not be recognized.
  if (!k_.output.link().has_value()) return Drop::kLinkDown;
  if (packet.source.has_value()) {
    if (const Drop drop = k_.CheckStationAddress(*packet.source); drop != Drop::kNone) return drop;
  }
  switch (packet.type) {
    case IpoibType::kIpv4:
      return packets_.Ipv4FromIpoib(packet);
    case IpoibType::kIpv6:
      return TranslateIpv6Packet(packet);
    case IpoibType::kArp:
    case IpoibType::kRarp:
      return arp_.FromIpoib(packet);
  }
  return Drop::kNotIp;
}

Drop Translator::TranslateIpv6Packet(const ipoib::Packet& packet) {
  NdMessage message;
  const NdVerdict verdict = ParseNeighborDiscovery(packet.payload, &message);
  if (verdict == NdVerdict::kBad) return Drop::kMalformed;
  return verdict == NdVerdict::kGood ? nd_.FromIpoib(packet, message) : packets_.Ipv6FromIpoib(packet);
}

void Translator::Settle(Drop drop) {
  if (drop == Drop::kNone) return k_.counters.Add(Event::kCrossed);
  if (drop == Drop::kHeld) return k_.counters.Add(Event::kHeldPackets);
  k_.counters.Add(drop);
}

void Translator::OnLinkState(const absl::optional<ipoib::LinkState>& link) {
  k_.now = k_.clock->Now();
  k_.output.SetLink(link);
  k_.groups.SetLink(link.has_value() ? absl::make_optional(link->link) : absl::nullopt);
  if (link.has_value() && link->own != announced_own_) {
    announced_own_ = link->own;
    k_.own_mac = GatewayMac(link->own);
    k_.stations.Forget(link->own);
    unannounced_ = true;
  }
  AnnounceIfDue();
}

void Translator::SetActive(bool active) {
  if (active == k_.output.is_active()) return;
  k_.now = k_.clock->Now();
  k_.output.SetActive(active);
  ages_from_ = active ? k_.now + k_.options.grace : absl::InfiniteFuture();
  if (!active) announcements_.Stop();
  unannounced_ = true;
  AnnounceIfDue();
}

// Postpones the announcements while the output cannot send.
void Translator::AnnounceIfDue() {
  if (!unannounced_ || k_.output.Obstacle() != Drop::kNone) return;
  unannounced_ = false;
  AnnounceAll();
  querier_.Start(k_.now);
}

void Translator::AnnounceAll() {
  std::vector<Announcement> all;
  k_.stations.ForEachIp([&](const Station&, const IpAddr& ip, absl::Time heard, bool) { all.push_back({ip, true, heard}); });
  k_.neighbors.ForEach([&](const IpAddr& ip, MacAddr, absl::Time heard, bool) { all.push_back({ip, false, heard}); });
  announcements_.Start(std::move(all));
}

// An address that moved to the other side may still be in both tables. Announce it for the side that was heard last.
void Translator::Announce(const Announcement& announcement) {
  const IpAddr& ip = announcement.ip;
  const absl::Time here = k_.stations.IpHeard(ip), there = k_.neighbors.Heard(ip);
  if (announcement.of_station ? here == absl::InfinitePast() || here < there : there == absl::InfinitePast() || there < here) {
    return;
  }
  k_.counters.Add(Event::kAnnounced);
  const bool router = k_.IsRouter(ip);
  announcement.of_station ? questioner_.AnnounceToEthernet(ip, router, k_.stations.FindByIp(ip)->mac)
                          : questioner_.AnnounceToIpoib(ip, router);
}

void Translator::Tick() {
  k_.now = k_.clock->Now();
  Expire();
  delivery_.Tick();
  k_.liveness.Tick(
      k_.now,
      [this](const IpAddr& target) {
        const Station* const station = k_.stations.FindByIp(target);
        return station == nullptr || k_.now - station->heard < k_.options.suspect_after;
      },
      [this](const Question& question) { AskIpoib(question); });
  k_.groups.Tick(k_.now);
  querier_.Tick(k_.now);
  announcements_.Tick(k_.now, [this](const Announcement& announcement) { Announce(announcement); });
}

void Translator::AskIpoib(const Question& question) {
  if (k_.output.Obstacle() != Drop::kNone) return;
  const Station* const at = question.direct ? k_.stations.FindByIp(question.target) : nullptr;
  if (at == nullptr && k_.asks_of_ipoib.MayAsk(question.target, question.asker, Asks::Kind::kOwn, k_.now) != Drop::kNone) {
    return k_.counters.Add(Event::kSuppressed);
  }
  k_.counters.Add(Event::kAsks);
  questioner_.AskIpoib(question, at);
}

// A gateway that stands by does not hear hosts that talk to each other, because they revalidate by unicast. So entries do not
// age while it stands by.
void Translator::Expire() {
  if (k_.now >= ages_from_) {
    k_.stations.Expire(k_.now);
    k_.neighbors.Expire(k_.now);
  }
  k_.asks_of_ipoib.Expire(k_.now);
  k_.asks_of_ethernet.Expire(k_.now);
  k_.pending.Expire(k_.now);
}

absl::Time Translator::NextDeadline() const {
  const absl::Time next_ageing = std::max(ages_from_, std::min(k_.stations.NextExpiry(), k_.neighbors.NextExpiry()));
  return std::min({next_ageing, k_.asks_of_ipoib.NextExpiry(), k_.asks_of_ethernet.NextExpiry(), k_.pending.NextExpiry(),
                   k_.resolver.NextDeadline(), k_.liveness.NextDeadline(), k_.groups.NextDeadline(), querier_.NextDeadline(),
                   announcements_.NextDeadline()});
}

SavedTables Translator::Save() const {
  const absl::Time now = k_.clock->Now();
  SavedTables saved;
  saved.stations = k_.stations.Save(now);
  saved.neighbors = k_.neighbors.Save(now);
  k_.on_link.Save(now, &saved);
  for (SavedStation& station : saved.stations) {
    for (SavedIp& ip : station.ips) ip.router = k_.IsRouter(ip.ip);
  }
  for (SavedNeighbor& neighbor : saved.neighbors) neighbor.ip.router = k_.IsRouter(neighbor.ip.ip);
  return saved;
}

void Translator::Restore(const SavedTables& saved) {
  k_.now = k_.clock->Now();
  k_.neighbors.Restore(saved.neighbors, k_.now);
  k_.stations.Restore(saved.stations, k_.now, [this](MacAddr mac) { return k_.neighbors.HasMac(mac); });
  k_.on_link.Restore(saved, k_.now);
  const auto note = [this](const SavedIp& ip) {
    if (ip.router && ip.ip.is_ipv6()) k_.NoteRouter(ip.ip.ipv6(), true);
  };
  for (const SavedStation& station : saved.stations) std::for_each(station.ips.begin(), station.ips.end(), note);
  for (const SavedNeighbor& neighbor : saved.neighbors) note(neighbor.ip);
  unannounced_ = true;
  AnnounceIfDue();
}

void Translator::Imitate(const Translator& other) {
  SetActive(other.k_.output.is_active());
  OnLinkState(other.k_.output.link());
  Restore(other.Save());
  k_.Imitate(other.k_);
  querier_.Imitate(other.querier_);
  packets_.Imitate(other.packets_);
}

std::vector<NeighborRow> Translator::Dump() const {
  using Side = NeighborRow::Side;
  const absl::Time now = k_.clock->Now();
  std::vector<NeighborRow> rows;
  k_.stations.ForEachIp([&](const Station& station, const IpAddr& ip, absl::Time heard, bool) {
    rows.push_back({ip, Side::kIpoib, station.mac, station.address(), station.id.ordinal, now - heard,
                    StateOf(heard, k_.asks_of_ipoib.IsSilent(ip, now))});
  });
  k_.neighbors.ForEach([&](const IpAddr& ip, MacAddr mac, absl::Time heard, bool) {
    rows.push_back(
        {ip, Side::kEthernet, mac, k_.output.own(), 0, now - heard, StateOf(heard, k_.asks_of_ethernet.IsSilent(ip, now))});
  });
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return std::tie(a.ip, a.side) < std::tie(b.ip, b.side); });
  return rows;
}

NeighborRow::State Translator::StateOf(absl::Time heard, bool silent) const {
  if (silent) return NeighborRow::State::kSilent;
  return k_.clock->Now() - heard <= k_.options.alive_for ? NeighborRow::State::kReachable : NeighborRow::State::kStale;
}

}  // namespace eoib::translation
