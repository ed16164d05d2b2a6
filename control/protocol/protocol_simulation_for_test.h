// A simulation of the vPort protocol for tests and benchmarks: many engines, a network that loses,
// delays, reorders, duplicates and partitions, and a fake clock. The same seed gives the same run.
#ifndef EOIB_CONTROL_PROTOCOL_PROTOCOL_SIMULATION_FOR_TEST_H_
#define EOIB_CONTROL_PROTOCOL_PROTOCOL_SIMULATION_FOR_TEST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "control/protocol/vport_protocol.h"
#include "vswitch/base/clock.h"

namespace eoib {

class ProtocolSimulation {
 public:
  struct Network {
    double loss = 0;         // of each copy
    double duplication = 0;  // of each copy
    absl::Duration latency = absl::Microseconds(50);
    // Added at random, so messages overtake each other.
    absl::Duration jitter = absl::ZeroDuration();
  };

  // Sums over all hosts. Bytes are those of payloads.
  struct Traffic {
    uint64_t group_messages = 0, unicast_messages = 0;  // sent, without repetitions
    uint64_t repetitions = 0;                           // group messages that only say the version
    uint64_t bytes = 0, repeated_bytes = 0;             // of both; a group message counts once
    size_t largest = 0;                                 // bytes of a message
    uint64_t copies = 0, copied_bytes = 0;              // that arrived, repetitions included
    // That engines took for them, without the simulation's part.
    absl::Duration engine_time;
  };

  // What an engine told its agent.
  struct Events final : ProtocolEvents {
    Events(ProtocolSimulation* simulation, size_t host) : simulation(simulation), host(host) {}
    void SendToGroup(const std::vector<uint8_t>& payload) override {
      simulation->Multicast(host, payload);
    }
    void SendTo(const PeerAddress& peer, const PeerAddress& from,
                const std::vector<uint8_t>& payload) override {
      simulation->Unicast(host, peer, from, payload);
    }
    size_t Room() const override { return 64; }
    void OnAgent(const RemoteAgent& agent) override { in_use[agent.id()] = agent.InUse(); }
    void OnAgentGone(const RemoteAgent& agent) override { in_use.erase(agent.id()); }
    void OnMac(FdbKey key, const MacClaim& claim) override { macs[key] = claim; }
    void OnMacFree(FdbKey key) override { macs.erase(key); }
    void OnClaimLost(FdbKey key, const MacClaim&, bool duplicate) override {
      ++claims_lost[key];
      if (duplicate) ++duplicates;
    }
    void OnConflict(FdbKey, const MacClaim&) override { ++conflicts; }
    void OnConflictOver(FdbKey) override { --conflicts; }
    void OnCopiedId(const PeerAddress& peer) override { copies.push_back(peer); }
    void OnIdTaken(const PeerAddress& peer) override { id_taken_by = peer; }
    void OnQuestioned(FdbKey) override { ++questioned; }
    void OnNotBehind(FdbKey key, const AgentId& agent) override {
      not_behind.emplace_back(key, agent);
    }

    ProtocolSimulation* const simulation;
    const size_t host;
    std::map<AgentId, std::vector<PeerAddress>> in_use;
    std::map<FdbKey, MacClaim> macs;  // that other agents hold
    std::map<FdbKey, int> claims_lost;
    int duplicates = 0;
    int conflicts = 0;  // that are not over
    int questioned = 0;
    std::vector<std::pair<FdbKey, AgentId>> not_behind;
    std::vector<PeerAddress> copies;          // agents with our id
    absl::optional<PeerAddress> id_taken_by;  // until the host has a new id
    std::vector<PeerAddress> ids_taken_by;    // all of them
  };

  // A host. It keeps its id over a crash, and its GID; each start has another QPN and incarnation.
  struct Host {
    AgentId id;
    Gid gid;
    uint32_t incarnation = 0;
    uint32_t next_qpn = 0x40;
    int side = 0;            // of the partition
    bool multicasts = true;  // its group messages arrive
    PeerAddress address;
    std::vector<PeerAddress> further;  // addresses, of other queues
    std::unique_ptr<Events> events;
    std::unique_ptr<VPortProtocol> engine;  // null: not running
    absl::Time due = absl::InfiniteFuture();
  };

  explicit ProtocolSimulation(uint64_t seed) : random_(seed) {}

  // From now on a message to the group goes as unicast to each agent that its sender knows, as with
  // flood = "replicate".
  void SetReplicates() { replicates_ = true; }
  // Plays service discovery: each host asks the agents that are listed and that it does not know.
  // An agent is listed from its start until it stops; one that crashed stays listed until it starts
  // again.
  void Discover() {
    for (size_t index = 0; index < hosts_.size(); ++index) {
      if (!IsRunning(index)) continue;
      for (const auto& [gid, peer] : listed_) {
        if (gid != hosts_[index].gid) Engage([&, peer = peer] { engine(index).Discover(peer); });
      }
      Touch(index);
    }
  }

  // Gives a running host a further address, which receives no groups. Returns it.
  PeerAddress AddAddress(size_t index) {
    Host& host = hosts_[index];
    host.further.push_back({host.gid, Qpn(host.next_qpn++)});
    by_address_[host.further.back()] = index;
    std::vector<AgentAddress> addresses = {{host.address, true}};
    for (const PeerAddress& address : host.further) addresses.push_back({address, false});
    Engage([&] { host.engine->SetAddresses(addresses); });
    Touch(index);
    return host.further.back();
  }

  FakeClock& clock() { return clock_; }
  Network& network() { return network_; }
  std::vector<Host>& hosts() { return hosts_; }
  VPortProtocol& engine(size_t host) { return *hosts_[host].engine; }
  Events& events(size_t host) { return *hosts_[host].events; }
  const Traffic& traffic() const { return traffic_; }
  size_t Random(size_t below) {
    return std::uniform_int_distribution<size_t>(0, below - 1)(random_);
  }
  bool Chance(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
  }

  // Adds a host, which does not run yet.
  size_t AddHost() {
    const size_t index = hosts_.size();
    AgentId::Bytes id{};
    for (uint8_t& byte : id) byte = static_cast<uint8_t>(random_());
    Host host;
    host.id = AgentId(id);
    host.gid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x1000 + index));
    hosts_.push_back(std::move(host));
    return index;
  }

  // Starts the agent of a host, with one vPort.
  void Start(size_t index) {
    Host& host = hosts_[index];
    ++host.incarnation;
    host.address = {host.gid, Qpn(host.next_qpn++)};
    by_address_[host.address] = index;
    listed_[host.gid] = host.address;
    host.events = std::make_unique<Events>(this, index);
    VPortProtocol::Options options;
    options.id = host.id;
    options.incarnation = host.incarnation;
    options.host = absl::StrCat("host", index);
    host.engine = std::make_unique<VPortProtocol>(options, host.events.get(), &clock_,
                                                  [this] { return random_(); });
    host.engine->SetAddresses({{host.address, true}});
    host.engine->SetVPort({1, absl::StrCat("port", index), {{Vid(0), Vid(0)}}});
    Touch(index);
  }
  void Crash(size_t index) {
    Host& host = hosts_[index];
    by_address_.erase(host.address);
    for (const PeerAddress& address : host.further) by_address_.erase(address);
    host.further.clear();
    host.engine.reset();
    host.events.reset();
  }
  void Stop(size_t index) {
    hosts_[index].engine->Leave();
    listed_.erase(hosts_[index].gid);
    Crash(index);
  }
  bool IsRunning(size_t index) const { return hosts_[index].engine != nullptr; }

  // Takes the token of the last Probe to `peer`, where no host is; nothing if there was none since
  // the last call.
  absl::optional<uint64_t> TakeToken(const PeerAddress& peer) {
    const auto at = tokens_.find(peer);
    if (at == tokens_.end()) return absl::nullopt;
    const uint64_t token = at->second;
    tokens_.erase(at);
    return token;
  }

  // Lets time pass, with all messages and deadlines on the way.
  void Advance(absl::Duration time) {
    const absl::Time end = clock_.Now() + time;
    for (;;) {
      RunDue();
      const absl::Time next = std::min(NextEvent(), end);
      // The clock counts nanoseconds, a deadline may lie between two.
      if (next > clock_.Now())
        clock_.Advance(absl::Ceil(next - clock_.Now(), absl::Nanoseconds(1)));
      if (next >= end && NextEvent() > end) return;
      Deliver();
    }
  }
  // Until `done`, at most for `time`. Returns whether it was done.
  template <typename Done>
  bool AdvanceUntil(Done done, absl::Duration time) {
    const absl::Time end = clock_.Now() + time;
    while (!done()) {
      if (clock_.Now() >= end) return false;
      Advance(absl::Milliseconds(1));
    }
    return true;
  }

 private:
  struct InFlight {
    absl::Time at;
    uint64_t order;
    size_t to;
    PeerAddress to_address;  // zero for the group
    PeerAddress from;
    std::shared_ptr<const std::vector<uint8_t>> payload;
    bool operator<(const InFlight& other) const {
      return std::pair(other.at, other.order) < std::pair(at, order);
    }
  };

  // Calls an engine, and adds up its time.
  template <typename Call>
  void Engage(Call call) {
    sending_ = absl::ZeroDuration();
    const absl::Time begin = wall_clock_.Now();
    call();
    traffic_.engine_time += wall_clock_.Now() - begin - sending_;
  }
  void Multicast(size_t from, const std::vector<uint8_t>& payload) {
    const absl::Time begin = wall_clock_.Now();
    const auto shared = std::make_shared<const std::vector<uint8_t>>(payload);
    traffic_.largest = std::max(traffic_.largest, payload.size());
    const bool repeats = payload.size() == VPortMessage::kHeaderSize;
    ++(repeats ? traffic_.repetitions : traffic_.group_messages);
    (repeats ? traffic_.repeated_bytes : traffic_.bytes) += payload.size();
    if (replicates_) {
      Replicate(from, shared);
    } else {
      for (size_t to = 0; to < hosts_.size(); ++to) {
        if (to != from && hosts_[from].multicasts)
          Post(hosts_[from].address, from, to, PeerAddress(), shared);
      }
    }
    sending_ += wall_clock_.Now() - begin;
  }
  void Replicate(size_t from, const std::shared_ptr<const std::vector<uint8_t>>& payload) {
    for (const auto& [id, agent] : hosts_[from].engine->agents()) {
      for (const auto& [peer, address] : agent->addresses()) {
        const auto to = by_address_.find(peer);
        if (address.confirmed && to != by_address_.end())
          Post(hosts_[from].address, from, to->second, peer, payload);
      }
    }
  }
  void Unicast(size_t from, const PeerAddress& peer, const PeerAddress& source,
               const std::vector<uint8_t>& payload) {
    ++traffic_.unicast_messages;
    traffic_.bytes += payload.size();
    traffic_.largest = std::max(traffic_.largest, payload.size());
    const auto to = by_address_.find(peer);
    if (to == by_address_.end()) return NoteToken(peer, payload);
    Post(source, from, to->second, peer, std::make_shared<const std::vector<uint8_t>>(payload));
  }
  void NoteToken(const PeerAddress& peer, const std::vector<uint8_t>& payload) {
    const absl::StatusOr<VPortMessage> message = DecodeVPortMessage(payload);
    if (message.ok() && message->kind == VPortMessage::Kind::kProbe) tokens_[peer] = message->token;
  }
  void Post(const PeerAddress& source, size_t from, size_t to, const PeerAddress& to_address,
            std::shared_ptr<const std::vector<uint8_t>> payload) {
    if (hosts_[from].side != hosts_[to].side) return;
    for (int copies = Chance(network_.duplication) ? 2 : 1; copies > 0; --copies) {
      if (Chance(network_.loss)) continue;
      absl::Duration delay = network_.latency;
      if (network_.jitter > absl::ZeroDuration())
        delay += network_.jitter * std::uniform_real_distribution<double>(0, 1)(random_);
      in_flight_.push({clock_.Now() + delay, order_++, to, to_address, source, payload});
    }
  }
  void Deliver() {
    while (!in_flight_.empty() && in_flight_.top().at <= clock_.Now()) {
      const InFlight message = in_flight_.top();
      in_flight_.pop();
      Host& host = hosts_[message.to];
      const bool by_group = message.to_address == PeerAddress();
      if (host.engine == nullptr || (!by_group && !by_address_.contains(message.to_address)))
        continue;
      ++traffic_.copies;
      traffic_.copied_bytes += message.payload->size();
      Engage([&] {
        host.engine->Receive(*message.payload, message.from, by_group, message.to_address);
      });
      touched_.push_back(message.to);
    }
  }
  void TakeNewId(Host* host) {
    host->events->ids_taken_by.push_back(*std::exchange(host->events->id_taken_by, absl::nullopt));
    AgentId::Bytes id{};
    for (uint8_t& byte : id) byte = static_cast<uint8_t>(random_());
    host->id = AgentId(id);
    host->incarnation = 1;
    Engage([&] { host->engine->TakeIdentity(host->id, host->incarnation); });
  }
  // Runs the engines that are due. Asking all of them each time would take too long, so the next
  // deadline of each is kept.
  void RunDue() {
    std::vector<size_t> run = std::move(touched_);
    touched_.clear();
    for (auto at = due_.begin(); at != due_.end() && at->first <= clock_.Now(); ++at)
      run.push_back(at->second);
    std::sort(run.begin(), run.end());
    run.erase(std::unique(run.begin(), run.end()), run.end());
    for (const size_t host : run) {
      if (hosts_[host].engine != nullptr) Engage([&] { hosts_[host].engine->Run(); });
      if (hosts_[host].engine != nullptr && hosts_[host].events->id_taken_by)
        TakeNewId(&hosts_[host]);
      Plan(host);
    }
  }
  void Plan(size_t index) {
    Host& host = hosts_[index];
    due_.erase({host.due, index});
    host.due = host.engine == nullptr ? absl::InfiniteFuture() : host.engine->NextDeadline();
    if (host.due != absl::InfiniteFuture()) due_.emplace(host.due, index);
  }
  absl::Time NextEvent() const {
    const absl::Time due = due_.empty() ? absl::InfiniteFuture() : due_.begin()->first;
    return in_flight_.empty() ? due : std::min(due, in_flight_.top().at);
  }

 public:
  // Call it after changing an engine directly.
  void Touch(size_t host) { touched_.push_back(host); }

 private:
  std::mt19937_64 random_;
  FakeClock clock_;
  Network network_;
  std::vector<Host> hosts_;
  std::map<PeerAddress, size_t> by_address_;
  std::map<Gid, PeerAddress> listed_;
  std::map<PeerAddress, uint64_t> tokens_;  // of the last Probe to each address without a host
  bool replicates_ = false;
  std::priority_queue<InFlight> in_flight_;
  std::set<std::pair<absl::Time, size_t>> due_;
  std::vector<size_t> touched_;
  uint64_t order_ = 0;
  MonotonicClock wall_clock_;
  absl::Duration sending_;  // of an engine's call: the simulation's part
  Traffic traffic_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_PROTOCOL_SIMULATION_FOR_TEST_H_
