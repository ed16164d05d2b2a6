#include "gateway/hello_protocol.h"

#include <algorithm>
#include <utility>

namespace eoib::gateway {
namespace {

constexpr absl::Duration kForget = absl::Seconds(10);

}  // namespace

HelloProtocol::HelloProtocol(const Options& options, ipoib::Interface* link, const Clock* clock, OnOthers on_others)
    : options_(options), link_(link), clock_(clock), on_others_(std::move(on_others)) {}

bool HelloProtocol::OnPacket(const ipoib::Packet& packet) {
  if (packet.type != IpoibType::kIpv6 || !packet.group || !IsHello(packet.payload)) return false;
  OnHello(packet);
  return true;
}

// Through a group everything comes with a GRH, which the sender's HCA made: so a source GID is not forged.
void HelloProtocol::OnHello(const ipoib::Packet& packet) {
  const absl::optional<Election::Hello> hello = DecodeHello(packet.payload, options_.pair);
  if (!hello.has_value() || !state_.has_value() || !packet.source.has_value()) return;
  if (!IsPeer(packet.source->gid())) {
    ++counters_.unlisted;
    return;
  }
  if (packet.source != hello->from.address) {
    ++counters_.forged;
    return;
  }
  Remember(hello->from.address);
  election_.OnHello(*hello, clock_->Now());
}

bool HelloProtocol::IsPeer(const Gid& gid) const {
  if (!options_.peers.has_value()) return true;
  return std::find(options_.peers->begin(), options_.peers->end(), gid) != options_.peers->end();
}

void HelloProtocol::Remember(const IpoibAddress& other) {
  if (others_.Hear(other, clock_->Now()) != nullptr) return;
  others_.MakeRoom();
  others_.Add(other, {}, clock_->Now());
  TellOthers();
}

void HelloProtocol::ForgetSilent() {
  while (const auto* const silent = others_.SilentSince(clock_->Now() - kForget)) others_.Erase(IpoibAddress(silent->key));
  TellOthers();
}

void HelloProtocol::TellOthers() const {
  std::vector<IpoibAddress> addresses;
  others_.ForEach([&addresses](const auto& other) { addresses.push_back(other.key); });
  on_others_(std::move(addresses));
}

void HelloProtocol::OnLinkState() {
  const absl::optional<ipoib::LinkState> before = std::exchange(state_, link_->state());
  if (state_.has_value() && before.has_value() && before->own == state_->own) return;
  RestartElection();
}

void HelloProtocol::SetVesUp(bool up) {
  if (std::exchange(ves_up_, up) != up) RestartElection();
}

// A gateway that has lost one of its two sides gives way to one that has both. Limited members of the link's partition do not
// hear each other: of two such gateways, each would think that it is alone.
const char* HelloProtocol::WhyDown() const {
  if (!state_.has_value()) return "the IPoIB link is down";
  if (!ves_up_) return "the VES is down";
  if (!state_->limited) return "";
  return "this port is a limited member of the IPoIB link's partition, and such gateways would not hear each other: make it a "
         "full member (OpenSM: partitions.conf)";
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

void HelloProtocol::Say(const Election::Hello& hello) { link_->Broadcast(IpoibType::kIpv6, EncodeHello(hello, options_.pair)); }

absl::Time HelloProtocol::NextForget() const { return others_.oldest() + kForget; }

absl::Time HelloProtocol::NextDeadline() const { return std::min(election_.NextDeadline(), NextForget()); }

}  // namespace eoib::gateway
