#include "gateway/translation/translator.h"

#include <algorithm>
#include <utility>

#include "gateway/election/hello.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/neighbor_discovery.h"

namespace eoib::translation {
namespace {

// The gateway's own MAC address is made like a station's, with an ordinal that no station reaches.
MacAddr GatewayMac(const IpoibAddress& own) { return StationMac({own.gid(), 0xffff}, 0); }

// Completes a checksum that the sender left to the receiver (NEEDS_CSUM); false if the field is
// outside the payload.
bool FinishChecksum(absl::Span<uint8_t> frame, const ChecksumRequest& request) {
  if (!request.needed) return true;
  const size_t field = size_t{request.start} + request.offset;
  if (request.start < kEthernetHeaderSize || field + sizeof(be16) > frame.size()) return false;
  CompleteChecksum(frame, request);
  return true;
}

}  // namespace

Translator::Translator(const Options& options, const Clock* clock, Sink* sink)
    : state_(options, clock, sink),
      sender_(&state_.output),
      delivery_(&state_),
      querier_(state_.options, &state_.output, &state_.counters, &state_.own_mac),
      arp_(&state_),
      nd_(&state_, &delivery_),
      packets_(&state_, &delivery_, &querier_),
      announcements_(options, clock->Now()) {}

void Translator::Change(const Options& options) {
  state_.Change(options);
  querier_.Change(options);
}

void Translator::FromEthernet(absl::Span<uint8_t> frame, const ChecksumRequest& checksum) {
  state_.now = state_.clock->Now();
  state_.counters.Add(Event::kFramesIn);
  Settle(TranslateFrame(frame, checksum));
}

void Translator::SuperFrameFromEthernet(const EthernetInfo& info, NextPacket next) {
  state_.now = state_.clock->Now();
  state_.counters.Add(Event::kFramesIn);
  Settle(TranslateSuperFrame(info, next));
}

void Translator::FromIpoib(const ipoib::Packet& packet) {
  state_.now = state_.clock->Now();
  state_.counters.Add(Event::kPacketsIn);
  Settle(TranslatePacket(packet));
}

void Translator::CountJoined() {
  for (const Event event : {Event::kPacketsIn, Event::kCrossed, Event::kFramesOut})
    state_.counters.Add(event);
}

Drop Translator::TranslateFrame(absl::Span<uint8_t> frame, const ChecksumRequest& checksum) {
  EthernetInfo info;
  if (ParseEthernet(frame, &info) != DropReason::kNone) return Drop::kMalformed;
  if (const Drop drop = state_.CheckEthernetSource(info.source); drop != Drop::kNone) return drop;
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

// TCP and UDP only, so neither ARP nor neighbour discovery.
Drop Translator::TranslateSuperFrame(const EthernetInfo& info, NextPacket next) {
  if (const Drop drop = state_.CheckEthernetSource(info.source); drop != Drop::kNone) return drop;
  const absl::Span<uint8_t> first = next();
  if (info.ethertype == kEtherTypeIpv4) return packets_.Ipv4FromEthernet(info, first, next);
  if (info.ethertype == kEtherTypeIpv6) return packets_.Ipv6FromEthernet(info, first, next);
  return Drop::kNotIp;
}

Drop Translator::TranslateIpv6Frame(const EthernetInfo& info, absl::Span<uint8_t> payload) {
  NdMessage message;
  const NdVerdict verdict = ParseNeighborDiscovery(payload, &message);
  if (verdict == NdVerdict::kBad) return Drop::kMalformed;
  if (verdict == NdVerdict::kOther) return packets_.Ipv6FromEthernet(info, payload);
  if (info.destination.IsGroup() && message.destination == gateway::kHelloGroup)
    return Drop::kHelloGroup;
  return nd_.FromEthernet(info, payload, message);
}

Drop Translator::TranslatePacket(const ipoib::Packet& packet) {
  // While the link is down, the gateway's own address is unknown, so a looped packet of its own
  // could not be recognized.
  if (!state_.output.link().has_value()) return Drop::kLinkDown;
  if (packet.source.has_value()) {
    if (const Drop drop = state_.CheckStationAddress(*packet.source); drop != Drop::kNone)
      return drop;
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
  return verdict == NdVerdict::kGood ? nd_.FromIpoib(packet, message)
                                     : packets_.Ipv6FromIpoib(packet);
}

void Translator::Settle(Drop drop) {
  if (drop == Drop::kNone) return state_.counters.Add(Event::kCrossed);
  if (drop == Drop::kHeld) return state_.counters.Add(Event::kHeldPackets);
  state_.counters.Add(drop);
}

void Translator::OnLinkState(const absl::optional<ipoib::LinkState>& link) {
  state_.now = state_.clock->Now();
  state_.output.SetLink(link);
  state_.groups.SetLink(link.has_value() ? absl::make_optional(link->link) : absl::nullopt);
  if (link.has_value() && link->own != announced_own_) {
    announced_own_ = link->own;
    state_.own_mac = GatewayMac(link->own);
    state_.stations.Forget(link->own);
    unannounced_ = true;
  }
  AnnounceIfDue();
}

void Translator::SetActive(bool active) {
  if (active == state_.output.is_active()) return;
  state_.now = state_.clock->Now();
  state_.output.SetActive(active);
  ages_from_ = active ? state_.now + state_.options.grace : absl::InfiniteFuture();
  if (!active) announcements_.Stop();
  unannounced_ = true;
  AnnounceIfDue();
}

// Postpones the announcements while the output cannot send.
void Translator::AnnounceIfDue() {
  if (!unannounced_ || state_.output.Obstacle() != Drop::kNone) return;
  unannounced_ = false;
  AnnounceAll();
  querier_.Start(state_.now);
}

void Translator::AnnounceAll() {
  std::vector<Announcement> all;
  state_.stations.ForEachIp([&](const Station&, const IpAddr& ip, absl::Time heard, bool) {
    all.push_back({ip, true, heard});
  });
  state_.neighbors.ForEach([&](const IpAddr& ip, MacAddr, absl::Time heard, bool) {
    all.push_back({ip, false, heard});
  });
  announcements_.Start(std::move(all));
}

// An address that moved to the other side may still be in both tables. Announce it for the side
// that was heard last.
void Translator::Announce(const Announcement& announcement) {
  const IpAddr& ip = announcement.ip;
  const absl::Time here = state_.stations.IpHeard(ip), there = state_.neighbors.Heard(ip);
  if (announcement.of_station ? here == absl::InfinitePast() || here < there
                              : there == absl::InfinitePast() || there < here) {
    return;
  }
  state_.counters.Add(Event::kAnnounced);
  const bool router = state_.IsRouter(ip);
  announcement.of_station
      ? sender_.AnnounceToEthernet(ip, router, state_.stations.FindByIp(ip)->mac)
      : sender_.AnnounceToIpoib(ip, router);
}

void Translator::Tick() {
  state_.now = state_.clock->Now();
  Expire();
  delivery_.Tick();
  state_.liveness.Tick(
      state_.now,
      [this](const IpAddr& target) {
        const Station* const station = state_.stations.FindByIp(target);
        return station == nullptr || state_.now - station->heard < state_.options.suspect_after;
      },
      [this](const Solicitation& solicitation) { SolicitIpoib(solicitation); });
  state_.groups.Tick(state_.now);
  querier_.Tick(state_.now);
  announcements_.Tick(state_.now,
                      [this](const Announcement& announcement) { Announce(announcement); });
}

void Translator::SolicitIpoib(const Solicitation& solicitation) {
  if (state_.output.Obstacle() != Drop::kNone) return;
  const Station* const at =
      solicitation.unicast ? state_.stations.FindByIp(solicitation.target) : nullptr;
  if (at == nullptr &&
      state_.ipoib_limiter.MaySolicit(solicitation.target, solicitation.sender_mac,
                                      SolicitationLimiter::Kind::kOwn, state_.now) != Drop::kNone) {
    return state_.counters.Add(Event::kSuppressed);
  }
  state_.counters.Add(Event::kAsks);
  sender_.SolicitIpoib(solicitation, at);
}

// A gateway that stands by does not hear hosts that talk to each other, because they revalidate by
// unicast. So entries do not age while it stands by.
void Translator::Expire() {
  if (state_.now >= ages_from_) {
    state_.stations.Expire(state_.now);
    state_.neighbors.Expire(state_.now);
  }
  state_.ipoib_limiter.Expire(state_.now);
  state_.ethernet_limiter.Expire(state_.now);
  state_.pending.Expire(state_.now);
}

absl::Time Translator::NextDeadline() const {
  const absl::Time next_ageing =
      std::max(ages_from_, std::min(state_.stations.NextExpiry(), state_.neighbors.NextExpiry()));
  return std::min({next_ageing, state_.ipoib_limiter.NextExpiry(),
                   state_.ethernet_limiter.NextExpiry(), state_.pending.NextExpiry(),
                   state_.resolution.NextDeadline(), state_.liveness.NextDeadline(),
                   state_.groups.NextDeadline(), querier_.NextDeadline(),
                   announcements_.NextDeadline()});
}

SavedTables Translator::Save() const {
  const absl::Time now = state_.clock->Now();
  SavedTables saved;
  saved.stations = state_.stations.Save(now);
  saved.neighbors = state_.neighbors.Save(now);
  state_.on_link.Save(now, &saved);
  for (SavedStation& station : saved.stations) {
    for (SavedIp& ip : station.ips) ip.router = state_.IsRouter(ip.ip);
  }
  for (SavedNeighbor& neighbor : saved.neighbors)
    neighbor.ip.router = state_.IsRouter(neighbor.ip.ip);
  return saved;
}

void Translator::Restore(const SavedTables& saved) {
  state_.now = state_.clock->Now();
  state_.neighbors.Restore(saved.neighbors, state_.now);
  state_.stations.Restore(saved.stations, state_.now,
                          [this](MacAddr mac) { return state_.neighbors.HasMac(mac); });
  state_.ForgetBeyond();
  state_.on_link.Restore(saved, state_.now);
  const auto note = [this](const SavedIp& ip) {
    if (ip.router && ip.ip.is_ipv6()) state_.NoteRouter(ip.ip.ipv6(), true);
  };
  for (const SavedStation& station : saved.stations)
    std::for_each(station.ips.begin(), station.ips.end(), note);
  for (const SavedNeighbor& neighbor : saved.neighbors) note(neighbor.ip);
  unannounced_ = true;
  AnnounceIfDue();
}

void Translator::CopyFrom(const Translator& other) {
  SetActive(other.state_.output.is_active());
  OnLinkState(other.state_.output.link());
  Restore(other.Save());
  state_.CopyFrom(other.state_);
  querier_.CopyFrom(other.querier_);
  packets_.CopyFrom(other.packets_);
}

std::vector<NeighborRow> Translator::Dump() const {
  using Side = NeighborRow::Side;
  const absl::Time now = state_.clock->Now();
  std::vector<NeighborRow> rows;
  state_.stations.ForEachIp([&](const Station& station, const IpAddr& ip, absl::Time heard, bool) {
    rows.push_back({ip, Side::kIpoib, station.mac, station.address(), station.id.ordinal,
                    now - heard, StateOf(heard, state_.ipoib_limiter.IsSilent(ip, now))});
  });
  state_.neighbors.ForEach([&](const IpAddr& ip, MacAddr mac, absl::Time heard, bool) {
    rows.push_back({ip, Side::kEthernet, mac, state_.output.own(), 0, now - heard,
                    StateOf(heard, state_.ethernet_limiter.IsSilent(ip, now))});
  });
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::tie(a.ip, a.side) < std::tie(b.ip, b.side);
  });
  return rows;
}

NeighborRow::State Translator::StateOf(absl::Time heard, bool silent) const {
  if (silent) return NeighborRow::State::kSilent;
  return state_.clock->Now() - heard <= state_.options.alive_for ? NeighborRow::State::kReachable
                                                                 : NeighborRow::State::kStale;
}

}  // namespace eoib::translation
