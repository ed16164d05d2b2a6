#include "gateway/uplink/uplink_election.h"

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

const char* StateName(UplinkElection::State state) {
  constexpr const char* kNames[] = {"down", "listening", "standby", "candidate", "succeeding", "active"};
  return kNames[static_cast<size_t>(state)];
}

UplinkElection::UplinkElection(const Options& options) : options_(options), sequence_(options.first_sequence) {
  for (uint16_t value = 0; value <= Vid::kMax; ++value) {
    if (!options.vlans.Contains(Vid(value))) continue;
    vlans_.push_back({Vid(value)});
    index_[value] = static_cast<uint16_t>(vlans_.size());
  }
}

UplinkElection::State UplinkElection::StateOf(Vid vid) const {
  return vid.IsValid() && index_[vid.value()] != 0 ? vlans_[index_[vid.value()] - 1u].state : State::kDown;
}

VlanSet UplinkElection::In(State state) const {
  VlanSet set;
  for (const Vlan& vlan : vlans_) {
    if (vlan.state == state) set.Add(vlan.vid);
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
  if ((vlan->state == State::kActive) != (state == State::kActive)) ++changes_;
  vlan->state = state;
  vlan->until = until;
  next_until_ = std::min(next_until_, until);
}

void UplinkElection::StandBy(Vlan* vlan, const Gid& other, absl::Time now) {
  vlan->other = other;
  if (vlan->state != State::kStandby) next_hello_ = now;  // only a gateway that has said that it stands by can be a successor
  Enter(vlan, State::kStandby, now + kLease);
}

void UplinkElection::Up(const Gid& own, bool alone, absl::Time now) {
  up_ = true;
  alone_ = alone;
  own_ = own;
  last_run_ = now;
  lease_ = alone_ ? absl::InfiniteFuture() : absl::InfinitePast();
  next_hello_ = alone_ ? absl::InfiniteFuture() : now;
  for (Vlan& vlan : vlans_) {
    alone_ ? Enter(&vlan, State::kActive, absl::InfiniteFuture()) : Enter(&vlan, State::kListening, now + kListen);
  }
}

std::vector<UplinkHello> UplinkElection::Down(absl::Time now) {
  std::map<Gid, std::vector<std::pair<Vid, Claim>>> released;  // by successor
  for (Vlan& vlan : vlans_) {
    if (vlan.state == State::kActive && !alone_) released[SuccessorIn(vlan.vid, now)].emplace_back(vlan.vid, Claim::kRelease);
    vlan.other = Gid();
    Enter(&vlan, State::kDown, absl::InfiniteFuture());
  }
  up_ = false;
  lease_ = absl::InfinitePast();
  next_hello_ = next_until_ = absl::InfiniteFuture();
  std::vector<UplinkHello> hellos;
  for (const auto& [successor, claims] : released) {
    for (UplinkHello& hello : Hellos(claims, successor)) hellos.push_back(std::move(hello));
  }
  return hellos;
}

// The best of the gateways that stand by in this VLAN and were heard lately.
Gid UplinkElection::SuccessorIn(Vid vid, absl::Time now) const {
  const auto rank = [vid](const auto& peer) { return std::make_tuple(peer.second.priority, Weight(peer.first, vid)); };
  auto best = peers_.end();
  for (auto peer = peers_.begin(); peer != peers_.end(); ++peer) {
    if (now >= peer->second.heard + kLease || peer->second.claims[vid.value()] != Claim::kNone) continue;
    if (best == peers_.end() || rank(*peer) > rank(*best)) best = peer;
  }
  return best == peers_.end() ? Gid() : best->first;
}

// A gateway other than `but` that claimed lately to be active in this VLAN; else zero.
Gid UplinkElection::ClaimantIn(Vid vid, const Gid& but, absl::Time now) const {
  for (const auto& [gid, peer] : peers_) {
    if (gid != but && now < peer.heard + kLease && peer.claims[vid.value()] == Claim::kActive) return gid;
  }
  return Gid();
}

void UplinkElection::OnHello(const UplinkHello& hello, absl::Time now) {
  if (!up_ || hello.from == own_) return;
  const auto [known, fresh] = peers_.try_emplace(hello.from);
  Peer& peer = known->second;
  // A much smaller number after a silence is that of a restarted gateway whose clock was set back.
  const bool restarted = now >= peer.heard + kForget && peer.sequence - hello.sequence > kMostHellos;
  if (!fresh && hello.sequence <= peer.sequence && !restarted) return;
  if (fresh) peer.claims.fill(Claim::kListening);
  peer.heard = now;
  peer.priority = hello.priority;
  peer.sequence = hello.sequence;
  peer.uplink = hello.uplink;
  for (const UplinkHello::Run& run : hello.runs) {
    for (uint16_t value = run.first.value(); value <= run.last.value(); ++value) {
      peer.claims[value] = run.claim == Claim::kRelease ? Claim::kListening : run.claim;
      if (index_[value] != 0) OnClaim(&vlans_[index_[value] - 1u], run.claim, hello, now);
    }
  }
}

void UplinkElection::OnClaim(Vlan* vlan, Claim claim, const UplinkHello& hello, absl::Time now) {
  const bool better = IsBetter(hello.from, hello.priority, vlan->vid);
  switch (claim) {
    case Claim::kActive:
      if (vlan->state != State::kActive || better) return StandBy(vlan, hello.from, now);
      next_hello_ = now;  // the other one does not know of this one
      return;
    case Claim::kCandidate:
      if (vlan->state == State::kActive || vlan->state == State::kSucceeding) {
        next_hello_ = now;
      } else if (better) {
        StandBy(vlan, hello.from, now);
      } else if (vlan->state == State::kCandidate) {
        next_hello_ = now;
      }
      return;
    case Claim::kRelease:
      if (vlan->state == State::kActive) return;
      if (hello.successor != own_) return StandBy(vlan, hello.successor, now);
      // Where gateways do not hear each other there may be a second active one, which this one hears.
      if (const Gid second = ClaimantIn(vlan->vid, hello.from, now); second != Gid()) return StandBy(vlan, second, now);
      vlan->other = hello.from;
      return Enter(vlan, State::kSucceeding, now + kGuard);
    case Claim::kNone:
    case Claim::kListening:
      return;
  }
}

// After a pause the hellos of others wait to be read, and so does what they say.
void UplinkElection::NoteLate(absl::Time now) {
  const bool late = now > last_run_ + kInterval + kLate;
  last_run_ = now;
  for (Vlan& vlan : vlans_) {
    const bool lost = vlan.state == State::kActive && now >= lease_ && lease_ != absl::InfinitePast();
    if (lost || (late && vlan.state != State::kActive)) Enter(&vlan, State::kListening, now + (lost ? kListen : kClaim));
  }
}

void UplinkElection::Advance(Vlan* vlan, absl::Time now) {
  if (now < vlan->until) return;
  switch (vlan->state) {
    case State::kListening:
    case State::kStandby:
      Enter(vlan, State::kCandidate, now + kClaim);
      break;
    case State::kCandidate:
    case State::kSucceeding:
      Enter(vlan, State::kActive, absl::InfiniteFuture());
      break;
    case State::kActive:
    case State::kDown:
      return;
  }
  next_hello_ = now;
}

std::vector<UplinkHello> UplinkElection::Run(absl::Time now) {
  if (!up_ || alone_) return {};
  NoteLate(now);
  if (now >= next_until_) {
    for (Vlan& vlan : vlans_) Advance(&vlan, now);
    next_until_ = absl::InfiniteFuture();
    for (const Vlan& vlan : vlans_) next_until_ = std::min(next_until_, vlan.until);
  }
  if (now < next_hello_) return {};
  next_hello_ = now + kInterval;
  lease_ = now + kLease;
  constexpr Claim kClaims[] = {Claim::kListening, Claim::kListening, Claim::kNone,
                               Claim::kCandidate, Claim::kActive,    Claim::kActive};
  std::vector<std::pair<Vid, Claim>> claims;
  for (const Vlan& vlan : vlans_) claims.emplace_back(vlan.vid, kClaims[static_cast<size_t>(vlan.state)]);
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
std::vector<UplinkHello> UplinkElection::Hellos(const std::vector<std::pair<Vid, Claim>>& claims, const Gid& successor) {
  std::vector<UplinkHello> hellos;
  for (const auto& [vid, claim] : claims) {
    if (!hellos.empty()) {
      UplinkHello::Run& last = hellos.back().runs.back();
      if (last.claim == claim && last.last.value() + 1 == vid.value()) {
        last.last = vid;
        continue;
      }
    }
    if (hellos.empty() || hellos.back().runs.size() == UplinkHello::kMaxRuns) hellos.push_back(NewHello(successor));
    hellos.back().runs.push_back({vid, vid, claim});
  }
  return hellos;
}

absl::Time UplinkElection::NextDeadline() const { return std::min(next_hello_, next_until_); }

}  // namespace eoib::gateway
