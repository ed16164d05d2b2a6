// The fixture for scenarios of the vPort protocol between a few simulated agents.
#ifndef EOIB_CONTROL_PROTOCOL_VPORT_PROTOCOL_TEST_FIXTURE_H_
#define EOIB_CONTROL_PROTOCOL_VPORT_PROTOCOL_TEST_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "control/protocol/protocol_simulation_for_test.h"
#include "control/protocol/vport_protocol.h"

namespace eoib {

inline FdbKey Key(int number) {
  return FdbKey(Vid(10), MacAddr::FromUint64(0x0200'5e10'0000 + number));
}

class VPortProtocolTest : public testing::Test {
 protected:
  // Starts `count` hosts, which find each other.
  void StartHosts(size_t count) {
    for (size_t i = 0; i < count; ++i) simulation_.Start(simulation_.AddHost());
    simulation_.Advance(absl::Seconds(2));
  }
  VPortProtocol& engine(size_t host) { return simulation_.engine(host); }
  ProtocolSimulation::Events& events(size_t host) { return simulation_.events(host); }
  const ProtocolSimulation::Host& host(size_t index) { return simulation_.hosts()[index]; }
  void Claim(size_t host, FdbKey key) {
    EXPECT_TRUE(engine(host).Claim(key, 1));
    simulation_.Touch(host);
  }
  void ClaimConfigured(size_t host, FdbKey key) {
    engine(host).ClaimConfigured(key, 1);
    simulation_.Touch(host);
  }
  // Until all changes are announced.
  void LetAnnounce() {
    simulation_.Advance(GroupAnnouncer::kAnnounceWithin + absl::Milliseconds(1));
  }
  const RemoteAgent* View(size_t of, size_t at) {
    const auto found = engine(at).agents().find(host(of).id);
    return found == engine(at).agents().end() ? nullptr : found->second.get();
  }
  // Whether `at` knows exactly what `of` announces.
  bool Knows(size_t at, size_t of) {
    const RemoteAgent* const view = View(of, at);
    return view != nullptr && view->incarnation() == host(of).incarnation &&
           view->view() == engine(of).own().announced();
  }
  VPortMessage MessageFrom(size_t index, VPortMessage::Kind kind) {
    VPortMessage message = engine(index).own().Header(kind);
    return message;
  }
  void Inject(size_t to, const VPortMessage& message, const PeerAddress& source) {
    engine(to).Receive(EncodeVPortMessage(message), source, false);
    simulation_.Touch(to);
  }
  // The same, from an address without a host. Its sender returns the token if it is probed.
  void Speak(size_t to, const VPortMessage& message, const PeerAddress& source) {
    simulation_.TakeToken(source);
    Inject(to, message, source);
    engine(to).Run();
    ReturnToken(to, message, source);
  }
  // The sender of `message` returns the token of the last Probe to `source`, if there was one.
  void ReturnToken(size_t to, const VPortMessage& message, const PeerAddress& source) {
    const absl::optional<uint64_t> token = simulation_.TakeToken(source);
    if (!token) return;
    VPortMessage alive;
    alive.kind = VPortMessage::Kind::kAlive;
    alive.agent = message.agent;
    alive.incarnation = message.incarnation;
    alive.version = message.version;
    alive.sender = source;
    alive.token = *token;
    Inject(to, alive, source);
  }

  ProtocolSimulation simulation_{1};
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_VPORT_PROTOCOL_TEST_FIXTURE_H_
