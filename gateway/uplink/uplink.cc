#include "gateway/uplink/uplink.h"

#include <sys/epoll.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "control/ves/ves.h"
#include "gateway/uplink/station_adverts.h"
#include "vswitch/base/daemon/counter_text.h"
#include "vswitch/base/ethertype.h"

namespace eoib::gateway {
namespace {

constexpr absl::Duration kAdvertInterval = absl::Milliseconds(10);

template <typename Visit>
void ForEachVlan(const VlanSet& vlans, Visit visit) {
  for (uint16_t value = 0; value <= Vid::kMax; ++value) {
    if (vlans.Contains(Vid(value))) visit(Vid(value));
  }
}

// Hellos are in the first VLAN of the uplink.
Vid HelloVid(const VlanMap& vlans) {
  for (uint16_t value = 0; value <= Vid::kMax; ++value) {
    if (const absl::optional<Vid> wire = vlans.ToWire(Vid(value))) return *wire;
  }
  return Vid();
}

VPortId VPortIn(const Ves& ves, const std::string& name) {
  for (const VPort& vport : ves.vports()) {
    if (vport.config.name == name) return ves.forwarder().ports()[vport.index].vport;
  }
  return VPortId::None();
}

}  // namespace

void Uplinks::Remove(Uplink* uplink) { std::erase(all_, uplink); }

absl::StatusOr<std::vector<Uplink*>> Uplinks::Find(absl::string_view name) const {
  std::vector<Uplink*> found;
  std::copy_if(all_.begin(), all_.end(), std::back_inserter(found),
               [name](const Uplink* uplink) { return name.empty() || uplink->name() == name; });
  if (!found.empty() || name.empty()) return found;
  const auto append_name = [](std::string* out, const Uplink* uplink) {
    absl::StrAppend(out, uplink->name());
  };
  return absl::NotFoundError(
      absl::StrCat("no uplink \"", name, "\"; there is: ", absl::StrJoin(all_, ", ", append_name)));
}

Uplink::Uplink(const UplinkConfig& config, MacAddr own, const Context& context, WireSocket wire)
    : config_(config),
      own_mac_(own),
      hello_vid_(HelloVid(config.vlans)),
      context_(context),
      wire_(std::move(wire)),
      // The time of day, so that a restarted gateway goes on with larger numbers.
      election_({config.ves_pkey, config.name, config.priority, config.vlans.vlans(),
                 static_cast<uint64_t>(absl::GetCurrentTimeNanos())}),
      changes_log_(context.clock, 10, absl::Seconds(1)) {
  context_.registry->Add(this);
}

Uplink::~Uplink() {
  context_.registry->Remove(this);
  context_.loop->Remove(wire_.fd());
}

absl::StatusOr<VPort> Uplink::MakeVPort(const VPortConfig& vport_config, MacAddr own,
                                        const Context& context) {
  const UplinkConfig& config = vport_config.details.As<UplinkConfig>();
  const auto failed = [&config](const absl::Status& status) {
    return absl::Status(status.code(),
                        absl::StrCat("uplink ", config.name, ": ", status.message()));
  };
  auto netdev = NetdevPort::Open(config.netdev);
  if (!netdev.ok()) return failed(netdev.status());
  auto wire = WireSocket::Open(config.netdev, HelloVid(config.vlans));
  if (!wire.ok()) return failed(wire.status());
  auto port = UplinkPort::Create(config, *std::move(netdev), own, context.clock);
  if (!port.ok()) return failed(port.status());
  std::shared_ptr<Uplink> uplink(new Uplink(config, own, context, *std::move(wire)));
  uplink->port_ = port->get();
  const auto on_hello = [uplink = uplink.get()](uint32_t) {
    uplink->wire_.Receive(
        [uplink](absl::Span<const uint8_t> payload) { uplink->OnWireMessage(payload); });
  };
  if (absl::Status status = context.loop->Add(uplink->wire_.fd(), EPOLLIN, on_hello); !status.ok())
    return failed(status);
  VPort vport;
  vport.config = vport_config;
  vport.interface = std::move(uplink);
  vport.port = *std::move(port);
  return vport;
}

absl::Status Uplink::SetLink(bool up) {
  ves_up_ = up;
  check_at_ = absl::InfinitePast();
  return absl::OkStatus();
}

absl::optional<std::string> Uplink::Check() { return port_->netdev()->trouble(); }

std::string Uplink::Describe(uint32_t) {
  const int mtu = static_cast<int>(port_->netdev()->mtu());
  return absl::StrCat("netdev ", config_.netdev, mtu == 0 ? "" : absl::StrCat(", MTU ", mtu));
}

void Uplink::Adjust(const VPortConfig& vport) {
  const UplinkConfig& config = vport.details.As<UplinkConfig>();
  const bool was_alone = IsAlone(election_.own());
  config_ = config;
  election_.SetPriority(config.priority);
  port_->Change(config);
  if (config.edge) wire_forwards_ = true;
  elects_again_ = election_.is_up() && was_alone != IsAlone(election_.own());
  check_at_ = absl::InfinitePast();
}

// ---- The election -------------------------------------------------------------------------------

bool Uplink::IsAlone(const Gid& own) const {
  return std::all_of(config_.peers.begin(), config_.peers.end(),
                     [&own](const Gid& gid) { return gid == own; });
}

// A port that is no edge takes part in a spanning tree: it forwards once the tree has settled.
std::string Uplink::WhyDown(const Ves& ves, absl::Time now) {
  if (std::exchange(elects_again_, false)) return "its peers are others; it elects again";
  port_->netdev()->Check();
  const bool wire_up = port_->netdev()->up() && wire_.Bind();
  if (wire_up && !std::exchange(wire_was_up_, wire_up)) {
    wire_up_since_ = now;
    port_->TakeHeard();
    wire_forwards_ = config_.edge;
  }
  wire_was_up_ = wire_up;
  if (!wire_up)
    return port_->netdev()->trouble().empty() ? "the netdev is down" : port_->netdev()->trouble();
  wire_forwards_ |= port_->TakeHeard() || now >= wire_up_since_ + kForwardDelay;
  if (!wire_forwards_)
    return "it waits for the spanning tree of the wire; if the port there forwards at once, set "
           "edge = true";
  if (!ves_up_ || !ves.has_queue_pair()) return "the VES is down";
  return "";
}

void Uplink::CheckSides(Ves* ves, absl::Time now) {
  if (now < check_at_) return;
  check_at_ = now + kCheckInterval;
  std::string trouble = WhyDown(*ves, now);
  if (trouble.empty() && election_.is_up() && election_.own() != ves->queue_pair().gid())
    trouble = "the port has another GID";
  if (trouble != trouble_) {
    trouble.empty() ? LogInfo(absl::StrCat("uplink ", config_.name, ": both sides are up"))
                    : LogWarning(absl::StrCat("uplink ", config_.name, ": ", trouble));
  }
  trouble_ = trouble;
  if (trouble.empty() == election_.is_up()) return;
  if (trouble.empty()) {
    const Gid own = ves->queue_pair().gid();
    return election_.Up(own, IsAlone(own), now);
  }
  const std::vector<UplinkHello> released = election_.Down(now);
  PublishStates();  // first: a successor begins when it hears of it
  Send(ves, released);
}

void Uplink::Send(Ves* ves, const std::vector<UplinkHello>& hellos) {
  if (hellos.empty()) return;
  for (const UplinkHello& hello : hellos) {
    const std::vector<uint8_t> payload = EncodeUplinkHello(hello);
    ves->SendSpeech(payload);
    wire_.Send(MakeFrame(kUplinkHelloGroup, own_mac_, hello_vid_, kEtherTypeControl, payload));
    counters_.hellos_sent += 2;
  }
}

void Uplink::OnMessage(Ves* ves, absl::Span<const uint8_t> payload, const PeerAddress& from) {
  const absl::optional<UplinkHello> hello = DecodeUplinkHello(payload);
  if (!hello.has_value() || hello->ves.Full() != config_.ves_pkey.Full()) return;
  ++counters_.hellos_from_ves;
  if (hello->from != from.gid) {
    ++counters_.hellos_forged;
    return;
  }
  if (!IsListed(*hello)) return;
  election_.OnHello(*hello, context_.clock->Now());
  PublishStates();
  Inherit(ves);
}

// Any station of the wire may have sent it.
void Uplink::OnWireMessage(absl::Span<const uint8_t> payload) {
  const absl::optional<UplinkHello> hello = DecodeUplinkHello(payload);
  if (!hello.has_value()) {
    ++counters_.hellos_malformed;
    return;
  }
  if (hello->ves.Full() != config_.ves_pkey.Full()) return;
  ++counters_.hellos_from_wire;
  if (IsListed(*hello)) election_.OnWireHello(*hello, context_.clock->Now());
}

bool Uplink::IsListed(const UplinkHello& hello) {
  if (std::find(config_.peers.begin(), config_.peers.end(), hello.from) != config_.peers.end())
    return true;
  ++counters_.hellos_unlisted;
  return false;
}

void Uplink::Run(Ves* ves) {
  const absl::Time now = context_.clock->Now();
  CheckSides(ves, now);
  const std::vector<UplinkHello> hellos = election_.Run(now);
  Send(ves, hellos);
  PublishStates();
  NoteAddresses();
  FollowChanges(ves, now);
  if (now >= advertise_at_) Advertise();
}

absl::Time Uplink::NextDeadline() const {
  const bool changed = !gained_.empty() || !lost_.empty();
  return std::min({check_at_, election_.NextDeadline(), advertise_at_,
                   changed ? follow_at_ : absl::InfiniteFuture()});
}

void Uplink::Leave(Ves* ves) {
  if (!election_.is_up()) return;
  const std::vector<UplinkHello> released = election_.Down(context_.clock->Now());
  PublishStates();
  Send(ves, released);
}

// Tells the port in which VLANs it may forward, and until when.
void Uplink::PublishStates() {
  port_->SetLease(election_.lease());
  const VlanSet active = election_.In(UplinkElection::State::kActive);
  if (active == published_) return;
  ForEachVlan(config_.vlans.vlans(), [&](Vid vid) {
    const bool is = active.Contains(vid);
    if (is == published_.Contains(vid)) return;
    port_->SetActive(vid, is);
    const absl::Time former = election_.Heard(election_.ActiveIn(vid));
    if (is && former != absl::InfinitePast()) last_failover_ = context_.clock->Now() - former;
    (is ? gained_ : lost_).Add(vid);
    ++counters_.vlan_changes;
  });
  published_ = active;
}

// ---- After a failover ---------------------------------------------------------------------------

// A gateway that stops withdraws its MACs a moment after it has released them.
void Uplink::Inherit(Ves* ves) {
  const VlanSet vlans = election_.In(UplinkElection::State::kSucceeding);
  if (vlans.empty()) return;
  for (const auto& [gid, peer] : election_.peers()) {
    for (const FdbKey key : ves->protocol()->MacsBehind(gid, peer.uplink, vlans))
      inherited_.push_back(key);
  }
}

void Uplink::FollowChanges(Ves* ves, absl::Time now) {
  if (now < follow_at_ || (gained_.empty() && lost_.empty())) return;
  follow_at_ = now + kFollowInterval;
  const VPortId own = VPortIn(*ves, config_.name);
  const VlanSet gained = std::exchange(gained_, VlanSet()).CommonWith(published_),
                lost = std::exchange(lost_, VlanSet());
  if (changes_log_.Allow())
    LogInfo(absl::StrCat("uplink ", config_.name, ": active in VLANs ", published_.ToString()));
  if (own.IsNone()) return;
  if (!lost.empty()) ves->protocol()->GiveUp(lost, own);
  if (!gained.empty()) TakeOver(ves, gained);
}

void Uplink::TakeOver(Ves* ves, const VlanSet& vlans) {
  const VPortId own = VPortIn(*ves, config_.name);
  std::vector<FdbKey> keys = std::exchange(inherited_, {});
  for (const auto& [gid, peer] : election_.peers()) {
    for (const FdbKey key : ves->protocol()->MacsBehind(gid, peer.uplink, vlans))
      keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (const FdbKey key : keys) {
    if (!vlans.Contains(key.vid())) continue;
    ves->protocol()->TakeOver(key, own);
    ++counters_.macs_taken_over;
  }
  ves->fdb()->Visit([&](const Fdb::Entry& entry) {
    if (entry.vport != own && vlans.Contains(entry.key.vid())) to_advertise_.push_back(entry.key);
  });
  // Those that this gateway has just claimed are of the wire.
  std::erase_if(to_advertise_,
                [&keys](FdbKey key) { return std::binary_search(keys.begin(), keys.end(), key); });
  advertise_at_ = to_advertise_.empty() ? absl::InfiniteFuture() : absl::InfinitePast();
}

void Uplink::NoteAddresses() {
  UplinkPort::HeardAddress heard;
  while (port_->PopHeard(&heard)) {
    if (addresses_.size() >= kMaxStations && !addresses_.contains(heard.station))
      addresses_.erase(addresses_.begin());
    std::vector<IpAddr>& ips = addresses_[heard.station];
    if (std::find(ips.begin(), ips.end(), heard.ip) != ips.end()) continue;
    if (ips.size() == kMaxAddresses) ips.erase(ips.begin());
    ips.push_back(heard.ip);
  }
}

// Bounded, so that many stations do not delay hellos and the traffic.
void Uplink::Advertise() {
  for (int i = 0; i < kAdvertsATurn && !to_advertise_.empty(); ++i) {
    const FdbKey station = to_advertise_.front();
    to_advertise_.pop_front();
    if (!published_.Contains(station.vid())) continue;
    for (const std::vector<uint8_t>& frame : AdvertsFor(station)) {
      wire_.Send(frame);
      ++counters_.macs_advertised;
    }
  }
  advertise_at_ =
      to_advertise_.empty() ? absl::InfiniteFuture() : context_.clock->Now() + kAdvertInterval;
}

std::vector<std::vector<uint8_t>> Uplink::AdvertsFor(FdbKey station) const {
  const auto known = addresses_.find(station);
  return MakeStationAdverts(station.mac(), *config_.vlans.ToWire(station.vid()),
                            known == addresses_.end() ? std::vector<IpAddr>() : known->second);
}

// ---- For an operator ----------------------------------------------------------------------------

Json Uplink::Show() const {
  using State = UplinkElection::State;
  const absl::Time now = context_.clock->Now();
  Json json = {{"name", config_.name},
               {"ves", config_.ves},
               {"netdev", config_.netdev},
               {"vlans", config_.vlans.ToString()},
               {"priority", config_.priority},
               {"up", election_.is_up()},
               {"active_vlans", published_.ToString()}};
  const VlanSet standby = election_.In(State::kStandby);
  if (!standby.empty()) json["standby_vlans"] = standby.ToString();
  if (!trouble_.empty()) json["trouble"] = trouble_;
  if (last_failover_.has_value())
    json["last_failover_ms"] = absl::ToInt64Milliseconds(*last_failover_);
  if (port_->netdev()->mtu() != 0) json["mtu"] = port_->netdev()->mtu();
  json["peers"] = Json::array();
  for (const Gid& gid : config_.peers) {
    Json peer = {{"gid", gid.ToString()}};
    if (const absl::Time heard = election_.HeardOnWire(gid); heard != absl::InfinitePast()) {
      peer["heard_on_wire_ms"] = absl::ToInt64Milliseconds(now - heard);
    }
    if (const auto known = election_.peers().find(gid); known != election_.peers().end()) {
      peer["heard_ms"] = absl::ToInt64Milliseconds(now - known->second.heard);
      VlanSet active, standby;
      for (uint16_t value = 0; value <= Vid::kMax; ++value) {
        if (known->second.claims[value] == UplinkHello::Claim::kActive) active.Add(Vid(value));
        if (known->second.claims[value] == UplinkHello::Claim::kNone &&
            config_.vlans.vlans().Contains(Vid(value))) {
          standby.Add(Vid(value));
        }
      }
      peer["active_vlans"] = active.ToString();
      peer["standby_vlans"] = standby.ToString();
    }
    json["peers"].push_back(std::move(peer));
  }
  return json;
}

Json Uplink::Counters() const {
  Json counters;
  AddCounters(port_->counters(), &counters);
  AddCounters(counters_, &counters);
  return {{"name", config_.name}, {"counters", std::move(counters)}};
}

void Uplink::Collect(const MetricSet::Labels& labels, MetricSet* metrics) const {
  metrics->Counters("uplink_", labels, port_->counters());
  metrics->Counters("uplink_", labels, counters_);
  size_t active = 0;
  for (uint16_t value = 0; value <= Vid::kMax; ++value)
    active += published_.Contains(Vid(value)) ? 1 : 0;
  metrics->Gauge("uplink_active_vlans", "VLANs in which this gateway forwards", labels,
                 static_cast<double>(active));
}

}  // namespace eoib::gateway
