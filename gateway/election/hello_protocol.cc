#include "gateway/election/hello_protocol.h"

#include <algorithm>
#include <utility>

namespace eoib::gateway {
namespace {

constexpr absl::Duration kForget = absl::Seconds(10);
// A member sends each hello to the hello group first. A hello in the broadcast group within this
// time is a copy of that one.
const absl::Duration kCopy = Election::kInterval / 2;

IpoibGroup HelloGroupOf(const IpoibLink& link) { return *GroupOf(link, kHelloGroup); }

}  // namespace

HelloProtocol::HelloProtocol(const Options& options, ipoib::Interface* link, const Clock* clock,
                             OnOthers on_others)
    : options_(options), link_(link), clock_(clock), on_others_(std::move(on_others)) {}

void HelloProtocol::Change(const Options& options) {
  options_ = options;
  election_.SetPriority(options.priority);
}

bool HelloProtocol::OnPacket(const ipoib::Packet& packet) {
  if (packet.type != IpoibType::kIpv6 || !packet.group || !IsHello(packet.payload)) return false;
  ++counters_.hellos_received;
  OnHello(packet);
  return true;
}

// A multicast datagram has a GRH. The sender's HCA takes the source GID from its table, so an
// unprivileged process cannot forge it. Privileged software can, and then says hello in the name of
// another gateway: neither `peers` nor this check prevents that.
void HelloProtocol::OnHello(const ipoib::Packet& packet) {
  const absl::optional<Election::Hello> hello = DecodeHello(packet.payload, options_.pair);
  if (!hello.has_value() || !state_.has_value() || !packet.source.has_value()) return;
  if (!IsPeer(packet.source->gid())) {
    ++counters_.unlisted_hellos;
    return;
  }
  if (packet.source != hello->from.address) {
    ++counters_.forged_hellos;
    return;
  }
  Remember(*hello, packet.broadcast);
  election_.OnHello(*hello, clock_->Now());
}

bool HelloProtocol::IsPeer(const Gid& gid) const {
  if (!options_.peers.has_value()) return true;
  return std::find(options_.peers->begin(), options_.peers->end(), gid) != options_.peers->end();
}

void HelloProtocol::Remember(const Election::Hello& hello, bool broadcast) {
  const absl::Time now = clock_->Now();
  const IpoibAddress& address = hello.from.address;
  auto* known = others_.Hear(address, now);
  if (known == nullptr) {
    others_.MakeRoom();
    known = others_.Add(address, {}, now);
    TellOthers();
  }
  Other& other = known->value;
  if (!broadcast) {
    other = {now, false};
    return;
  }
  other.outside |= now - other.in_group > kCopy;
  if (hello.claim == Election::Claim::kCandidate) answer_all_until_ = now + Election::kSilence;
}

void HelloProtocol::ForgetSilent() {
  while (const auto* const silent = others_.SilentSince(clock_->Now() - kForget))
    others_.Erase(IpoibAddress(silent->key));
  TellOthers();
}

void HelloProtocol::TellOthers() const {
  std::vector<IpoibAddress> addresses;
  others_.ForEach([&addresses](const auto& other) { addresses.push_back(other.key); });
  on_others_(std::move(addresses));
}

void HelloProtocol::OnLinkState() {
  const absl::optional<ipoib::LinkState> before = std::exchange(state_, link_->state());
  Listen();
  if (state_.has_value() && before.has_value() && before->own == state_->own) return;
  RestartElection();
}

// The join takes a moment, so it begins when the link comes up. A limited member cannot create the
// group, and sends no hellos.
void HelloProtocol::Listen() {
  if (!state_.has_value()) return;  // the interface keeps its groups while the link is down
  const absl::optional<IpoibLink> before = listened_;
  listened_ = state_->limited ? absl::nullopt : absl::make_optional(state_->link);
  if (before.has_value() && before != listened_) link_->Unlisten(HelloGroupOf(*before));
  if (!listened_.has_value()) return;
  if (before != listened_) link_->Listen(HelloGroupOf(*listened_));
  link_->Reaches(HelloGroupOf(*listened_));
}

void HelloProtocol::SetVesUp(bool up) {
  if (std::exchange(ves_up_, up) != up) RestartElection();
}

// A gateway that has lost one side gives way to one that has both. Limited members of the link's
// partition do not hear each other, so two such gateways would both become active.
const char* HelloProtocol::WhyDown() const {
  if (!state_.has_value()) return "the IPoIB link is down";
  if (!ves_up_) return "the VES is down";
  if (!state_->limited) return "";
  return "this port is a limited member of the IPoIB link's partition, and such gateways would not "
         "hear each other: make it a full member (OpenSM: partitions.conf)";
}

void HelloProtocol::RestartElection() {
  if (*WhyDown() == '\0') {
    election_.OnLinkUp({options_.priority, state_->own}, clock_->Now());
  } else {
    election_.OnLinkDown();
  }
}

void HelloProtocol::Run() {
  if (NextForget() <= clock_->Now()) ForgetSilent();
  const absl::optional<Election::Hello> hello = election_.Run(clock_->Now());
  if (hello.has_value() && state_.has_value()) Say(*hello);
}

// Reaches() is true once the SA has made this port a full member of the group, until the port
// learns otherwise.
void HelloProtocol::Say(const Election::Hello& hello) {
  const IpoibGroup group = HelloGroupOf(state_->link);
  const std::vector<uint8_t> packet = EncodeHello(hello, options_.pair);
  in_group_ = link_->Reaches(group);
  if (in_group_) SendTo(group, packet);
  if (NeedsBroadcast()) SendTo(BroadcastGroup(state_->link), packet);
}

void HelloProtocol::SendTo(const IpoibGroup& group, absl::Span<const uint8_t> packet) {
  ++counters_.hellos_sent;
  link_->SendToGroup(IpoibType::kIpv6, packet, group, /*beyond_link=*/false);
}

bool HelloProtocol::NeedsBroadcast() const {
  // While listening, the join may still complete.
  if (!in_group_) return election_.state() != Election::State::kListening;
  if (election_.state() == Election::State::kCandidate && others_.size() != 0) return true;
  bool needed = clock_->Now() < answer_all_until_;
  others_.ForEach([&needed](const auto& other) { needed |= other.value.outside; });
  return needed;
}

absl::Time HelloProtocol::NextForget() const { return others_.oldest() + kForget; }

absl::Time HelloProtocol::NextDeadline() const {
  return std::min(election_.NextDeadline(), NextForget());
}

}  // namespace eoib::gateway
