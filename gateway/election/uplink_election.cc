#include "gateway/election/uplink_election.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace eoib::gateway {
namespace {

// Spreads the VLANs over gateways of one priority.
uint64_t Weight(const Gid& gid, Vid vid) {
  uint64_t hash = gid.prefix() ^ (gid.guid().value() + vid.value() * 0x9e37'79b9'7f4a'7c15u);
  hash = (hash ^ hash >> 30) * 0xbf58'476d'1ce4'e5b9u;
  hash = (hash ^ hash >> 27) * 0x94d0'49bb'1331'11ebu;
  return hash ^ hash >> 31;
}

}  // namespace

UplinkElection::UplinkElection(const Options& options)
    : options_(options), sequence_(options.first_sequence) {
  for (uint16_t value = 0; value <= Vid::kMax; ++value) {
    if (!options.vlans.Contains(Vid(value))) continue;
    vlans_.push_back({Vid(value)});
    index_[value] = static_cast<uint16_t>(vlans_.size());
  }
}

UplinkElection::State UplinkElection::StateOf(Vid vid) const {
  return vid.IsValid() && index_[vid.value()] != 0
             ? vlans_[index_[vid.value()] - 1u].contest.state()
             : State::kDown;
}

VlanSet UplinkElection::In(State state) const {
  VlanSet set;
  for (const Vlan& vlan : vlans_) {
    if (vlan.contest.state() == state) set.Add(vlan.vid);
  }
  return set;
}

Gid UplinkElection::ActiveIn(Vid vid) const {
  return vid.IsValid() && index_[vid.value()] != 0 ? vlans_[index_[vid.value()] - 1u].other : Gid();
}

// Whether that gateway is preferred to this one.
bool UplinkElection::IsBetter(const Gid& gid, uint8_t priority, Vid vid) const {
  if (priority != options_.priority) return priority > options_.priority;
  const uint64_t theirs = Weight(gid, vid), ours = Weight(own_, vid);
  return theirs != ours ? theirs > ours : gid < own_;
}

void UplinkElection::Enter(Vlan* vlan, State state, absl::Time until) {
  vlan->contest.Enter(state, until);
  next_until_ = std::min(next_until_, until);
}

void UplinkElection::StandBy(Vlan* vlan, const Gid& other, absl::Time now) {
  vlan->other = other;
  // Only a gateway that has said that it stands by can be a successor.
  if (vlan->contest.state() != State::kStandby) next_hello_ = now;
  vlan->contest.StandBy(now + kLease);
  next_until_ = std::min(next_until_, vlan->contest.until());
}

void UplinkElection::Up(const Gid& own, bool alone, absl::Time now) {
  up_ = true;
  alone_ = alone;
  own_ = own;
  last_run_ = now;
  lease_ = alone_ ? absl::InfiniteFuture() : absl::InfinitePast();
  next_hello_ = alone_ ? absl::InfiniteFuture() : now;
  wire_peers_.clear();
  handle_wire_at_ = absl::InfiniteFuture();
  for (Vlan& vlan : vlans_) {
    alone_ ? Enter(&vlan, State::kActive) : Enter(&vlan, State::kListening, now + kListen);
  }
}

std::vector<UplinkHello> UplinkElection::Down(absl::Time now) {
  std::map<Gid, std::vector<std::pair<Vid, Claim>>> released;  // by successor
  for (Vlan& vlan : vlans_) {
    if (vlan.contest.state() == State::kActive && !alone_)
      released[SuccessorIn(vlan.vid, now)].emplace_back(vlan.vid, Claim::kRelease);
    vlan.other = Gid();
    Enter(&vlan, State::kDown);
  }
  up_ = false;
  lease_ = absl::InfinitePast();
  next_hello_ = next_until_ = handle_wire_at_ = absl::InfiniteFuture();
  std::vector<UplinkHello> hellos;
  for (const auto& [successor, claims] : released) {
    for (UplinkHello& hello : Hellos(claims, successor)) hellos.push_back(std::move(hello));
  }
  return hellos;
}

// The best of the gateways that stand by in this VLAN and were heard lately.
Gid UplinkElection::SuccessorIn(Vid vid, absl::Time now) const {
  const auto rank = [vid](const auto& peer) {
    return std::make_tuple(peer.second.priority, Weight(peer.first, vid));
  };
  auto best = peers_.end();
  for (auto peer = peers_.begin(); peer != peers_.end(); ++peer) {
    if (now >= peer->second.heard + kLease || peer->second.claims[vid.value()] != Claim::kNone)
      continue;
    if (best == peers_.end() || rank(*peer) > rank(*best)) best = peer;
  }
  return best == peers_.end() ? Gid() : best->first;
}

// A gateway other than `but` that claimed lately, on either side, to be active in this VLAN; else
// zero.
Gid UplinkElection::ClaimantIn(Vid vid, const Gid& but, absl::Time now) const {
  for (const auto& [gid, peer] : peers_) {
    if (gid != but && now < peer.heard + kLease && peer.claims[vid.value()] == Claim::kActive)
      return gid;
  }
  for (const auto& [gid, peer] : wire_peers_) {
    if (gid != but && now < peer.active[vid.value()] + kLease) return gid;
  }
  return Gid();
}

absl::Time UplinkElection::Heard(const Gid& gid) const {
  const auto peer = peers_.find(gid);
  return std::max(peer == peers_.end() ? absl::InfinitePast() : peer->second.heard,
                  HeardOnWire(gid));
}

absl::Time UplinkElection::HeardOnWire(const Gid& gid) const {
  const auto peer = wire_peers_.find(gid);
  return peer == wire_peers_.end() ? absl::InfinitePast() : peer->second.heard;
}

void UplinkElection::OnHello(const UplinkHello& hello, absl::Time now) {
  if (!up_ || hello.from == own_) return;
  HandleWire(now);  // what came before it
  const auto [known, fresh] = peers_.try_emplace(hello.from);
  Peer& peer = known->second;
  // A much smaller number after a silence is that of a restarted gateway whose clock was set back.
  const bool restarted =
      now >= peer.heard + kForget && peer.sequence - hello.sequence > kMostHellos;
  if (!fresh && hello.sequence <= peer.sequence && !restarted) return;
  if (fresh) peer.claims.fill(Claim::kListening);
  peer.heard = now;
  peer.priority = hello.priority;
  peer.sequence = hello.sequence;
  peer.uplink = hello.uplink;
  for (const UplinkHello::Run& run : hello.runs) {
    for (uint16_t value = run.first.value(); value <= run.last.value(); ++value) {
      peer.claims[value] = run.claim == Claim::kRelease ? Claim::kListening : run.claim;
      if (index_[value] == 0) continue;
      Vlan* const vlan = &vlans_[index_[value] - 1u];
      run.claim == Claim::kRelease ? OnRelease(vlan, hello, now)
                                   : OnClaim(vlan, run.claim, hello.from, hello.priority, now);
    }
  }
}

void UplinkElection::OnWireHello(const UplinkHello& hello, absl::Time now) {
  if (!up_ || alone_ || hello.from == own_) return;
  const auto [known, fresh] = wire_peers_.try_emplace(hello.from);
  WirePeer& peer = known->second;
  if (fresh) peer.active.fill(absl::InfinitePast());
  peer.heard = now;
  // A gateway may have released a VLAN since it sent a hello that is not later than one of the VES.
  const auto in_ves = peers_.find(hello.from);
  const bool is_in_ves = in_ves != peers_.end() && now < in_ves->second.heard + kForget;
  if (is_in_ves && hello.sequence <= in_ves->second.sequence) return;
  peer.priority = std::max(peer.priority, hello.priority);
  for (const UplinkHello::Run& run : hello.runs) {
    if (run.claim == Claim::kActive) peer.claims_active.AddRange(run.first, run.last);
    if (run.claim == Claim::kCandidate) peer.claims_candidate.AddRange(run.first, run.last);
  }
  handle_wire_at_ = std::max(now, wire_handled_ + kMinInterval);
}

// Handles all hellos that have come over the wire, as if each gateway had sent one hello with all
// its claims.
void UplinkElection::HandleWire(absl::Time now) {
  if (handle_wire_at_ == absl::InfiniteFuture()) return;
  handle_wire_at_ = absl::InfiniteFuture();
  wire_handled_ = now;
  for (auto& [gid, peer] : wire_peers_) {
    for (Vlan& vlan : vlans_) {
      if (peer.claims_active.Contains(vlan.vid)) {
        peer.active[vlan.vid.value()] = now;
        OnClaim(&vlan, Claim::kActive, gid, peer.priority, now);
      } else if (peer.claims_candidate.Contains(vlan.vid)) {
        OnClaim(&vlan, Claim::kCandidate, gid, peer.priority, now);
      }
    }
    peer.claims_active = peer.claims_candidate = VlanSet::None();
    peer.priority = 0;
  }
}

void UplinkElection::OnClaim(Vlan* vlan, Claim claim, const Gid& from, uint8_t priority,
                             absl::Time now) {
  if (claim != Claim::kActive && claim != Claim::kCandidate) return;
  const Contest::Reaction reaction =
      vlan->contest.OnHello(claim == Claim::kActive, IsBetter(from, priority, vlan->vid));
  if (reaction == Contest::Reaction::kGiveWay) StandBy(vlan, from, now);
  if (reaction == Contest::Reaction::kObject) next_hello_ = now;
}

void UplinkElection::OnRelease(Vlan* vlan, const UplinkHello& hello, absl::Time now) {
  if (vlan->contest.state() == State::kActive) return;
  if (hello.successor != own_) return StandBy(vlan, hello.successor, now);
  // Where gateways do not hear each other there may be a second active one, which this one hears.
  if (const Gid second = ClaimantIn(vlan->vid, hello.from, now); second != Gid())
    return StandBy(vlan, second, now);
  vlan->other = hello.from;
  Enter(vlan, State::kSucceeding, now + kGuard);
}

// After a pause the hellos of others wait to be read, and so does what they say.
void UplinkElection::NoteLate(absl::Time now) {
  const bool late = now > last_run_ + kInterval + kLate;
  last_run_ = now;
  for (Vlan& vlan : vlans_) {
    const bool lost =
        vlan.contest.state() == State::kActive && now >= lease_ && lease_ != absl::InfinitePast();
    if (lost || (late && vlan.contest.state() != State::kActive))
      Enter(&vlan, State::kListening, now + (lost ? kListen : kClaim));
  }
}

std::vector<UplinkHello> UplinkElection::Run(absl::Time now) {
  if (!up_ || alone_) return {};
  if (now >= std::min(handle_wire_at_, next_until_)) HandleWire(now);
  NoteLate(now);
  if (now >= next_until_) {
    next_until_ = absl::InfiniteFuture();
    for (Vlan& vlan : vlans_) {
      if (vlan.contest.Advance(now, kClaim)) next_hello_ = now;
      next_until_ = std::min(next_until_, vlan.contest.until());
    }
  }
  if (now < HelloDeadline()) return {};
  next_hello_ = now + kInterval;
  lease_ = now + kLease;
  constexpr Claim kClaims[] = {Claim::kListening, Claim::kListening, Claim::kNone,
                               Claim::kCandidate, Claim::kActive,    Claim::kActive};
  std::vector<std::pair<Vid, Claim>> claims;
  for (const Vlan& vlan : vlans_)
    claims.emplace_back(vlan.vid, kClaims[static_cast<size_t>(vlan.contest.state())]);
  return Hellos(claims);
}

UplinkHello UplinkElection::NewHello(const Gid& successor) {
  UplinkHello hello;
  hello.ves = options_.ves;
  hello.from = own_;
  hello.priority = options_.priority;
  hello.sequence = ++sequence_;
  hello.successor = successor;
  hello.uplink = options_.uplink;
  return hello;
}

// One hello, or several if it has too many runs.
std::vector<UplinkHello> UplinkElection::Hellos(const std::vector<std::pair<Vid, Claim>>& claims,
                                                const Gid& successor) {
  std::vector<UplinkHello> hellos;
  for (const auto& [vid, claim] : claims) {
    if (!hellos.empty()) {
      UplinkHello::Run& last = hellos.back().runs.back();
      if (last.claim == claim && last.last.value() + 1 == vid.value()) {
        last.last = vid;
        continue;
      }
    }
    if (hellos.empty() || hellos.back().runs.size() == UplinkHello::kMaxRuns)
      hellos.push_back(NewHello(successor));
    hellos.back().runs.push_back({vid, vid, claim});
  }
  return hellos;
}

// The last hello began the lease.
absl::Time UplinkElection::HelloDeadline() const {
  return std::max(next_hello_, lease_ - kLease + kMinInterval);
}

absl::Time UplinkElection::NextDeadline() const {
  return std::min({HelloDeadline(), next_until_, handle_wire_at_});
}

}  // namespace eoib::gateway
