#include "control/agent.h"

#include <limits.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/state/saved_identity.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/workers.h"

namespace eoib {
namespace {

std::string HostName(absl::string_view agent) {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof(name) - 1);
  return absl::StrCat(name, agent.empty() ? "" : "/", agent).substr(0, VPortMessage::kMaxHostName);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Agent>> Agent::Create(const AgentConfig& config,
                                                     std::unique_ptr<Hca> hca, StateDir* state,
                                                     const PortFactory& make_port, EventLoop* loop,
                                                     const Clock* clock,
                                                     std::unique_ptr<DataPath> data_path,
                                                     absl::string_view name) {
  if (absl::Status status = CheckLinkLayer(config, hca.get()); !status.ok()) return status;
  auto agent = std::unique_ptr<Agent>(new Agent(loop, state, make_port, HostName(name)));
  auto fabric = FabricPort::Open(std::move(hca), loop, clock);
  if (!fabric.ok()) return fabric.status();
  agent->fabric_ = *std::move(fabric);
  agent->config_.workers = config.workers;
  agent->has_workers_ = data_path == nullptr;
  agent->worker_ = data_path != nullptr
                       ? std::move(data_path)
                       : std::make_unique<Workers>(config.workers, config.realtime);
  if (absl::Status status = agent->Open(); !status.ok()) return status;
  if (absl::Status status = agent->Apply(config); !status.ok()) return status;
  return agent;
}

Agent::~Agent() {
  loop_->Cancel(lost_timer_);
  loop_->Cancel(identity_timer_);
  worker_.reset();  // first: it runs the forwarders of the VESes
  if (fabric_ == nullptr) return;
  for (const std::unique_ptr<Ves>& ves : veses_) {
    for (const auto& queue : ves->queues()) loop_->Remove(queue->punts.fd());
    fabric_->Remove(ves.get());
  }
  veses_.clear();
}

absl::Status Agent::Open() {
  identity_ = state_ == nullptr ? NewAgentIdentity() : LoadAgentIdentity(*state_);
  fabric_->SetWorker({[this] { worker_->Stop(absl::ZeroDuration()); },
                      [this](FabricPortClient* client) { return WatchEndpointOf(client); },
                      [this] { worker_->Start(); }});
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Ves>> Agent::MakeVes(const VesConfig& config) {
  std::shared_ptr<uint32_t>& last_version = last_versions_[config.pkey.Full()];
  if (last_version == nullptr) last_version = std::make_shared<uint32_t>(0);
  return Ves::Create(
      config, {fabric_->resources(), [this] { fabric_->RebuildSoon(); }, config_.workers, identity_,
               host_, last_version, [this](const PeerAddress& peer) { OnIdTaken(peer); }});
}

// The VESes may not be called from here. Several of them may find the same.
void Agent::OnIdTaken(const PeerAddress& peer) {
  if (identity_timer_ != 0) return;
  identity_timer_ = loop_->CallAt(loop_->Now(), [this, peer] {
    identity_timer_ = 0;
    TakeNewIdentity(peer);
  });
}

void Agent::TakeNewIdentity(const PeerAddress& peer) {
  const AgentId former = identity_.id;
  identity_ = state_ == nullptr ? NewAgentIdentity() : RenewAgentIdentity(*state_);
  for (const std::unique_ptr<Ves>& ves : veses_) ves->TakeIdentity(identity_);
  LogWarning(absl::StrCat(
      "another agent has the id ", former.ToShortString(), " of this one, as GID ",
      peer.gid.ToString(), " QPN ", peer.qpn.ToString(), " proved: this agent has the id ",
      identity_.id.ToShortString(), " from now on, and keeps its MACs; ", kCopyAdvice));
}

absl::Status Agent::Watch(Ves* ves) {
  absl::Status status;
  for (size_t queue = 0; queue < ves->queues().size(); ++queue)
    status.Update(WatchQueue(ves, queue));
  return status;
}

absl::Status Agent::WatchQueue(Ves* ves, size_t queue) {
  absl::Status status = worker_->Add(ves->forwarder(queue), queue);
  status.Update(loop_->Add(ves->queues()[queue].punts.fd(), EPOLLIN,
                           [ves, queue](uint32_t) { ves->RunPunts(queue); }));
  return status;
}

void Agent::Unwatch(Ves* ves) {
  for (const auto& queue : ves->queues()) {
    loop_->Remove(queue->punts.fd());
    worker_->Remove(queue->forwarder.get());
  }
}

absl::Status Agent::AddPort(Ves* ves, uint32_t port) {
  return worker_->AddPort(ves->queues().forwarders(), port);
}

void Agent::RemovePort(Ves* ves, uint32_t port) {
  worker_->RemovePort(ves->queues().forwarders(), port);
}

// Only VESes have forwarders on the worker. Other clients (IPoIB links) poll their own endpoints.
absl::Status Agent::WatchEndpointOf(const FabricPortClient* client) {
  const auto ves = std::find_if(veses_.begin(), veses_.end(),
                                [client](const auto& ours) { return ours.get() == client; });
  absl::Status status;
  if (ves == veses_.end()) return status;
  for (const auto& queue : (*ves)->queues())
    status.Update(worker_->WatchEndpointOf(queue->forwarder.get()));
  return status;
}

// RoCE HCAs do not check P_Keys, so only different Q_Keys keep the VESes apart. An HCA without MADs
// is RoCE.
absl::Status Agent::CheckLinkLayer(const AgentConfig& config, Hca* hca) {
  if (hca->mads() != nullptr) return absl::OkStatus();
  std::map<QKey, const VesConfig*> veses;
  for (const VesConfig& ves : config.veses) {
    if (ves.flood == FloodMode::kReplicate) {
      return absl::InvalidArgumentError(absl::StrCat(
          "VES ", ves.name, " has flood = \"replicate\", and ", hca->name(),
          " is RoCE, which has no subnet administrator by which agents could find each other; ",
          "remove it: on RoCE floods go to an IP multicast group, which Ethernet switches serve"));
    }
    const auto [first, fresh] = veses.emplace(QKeyOf(ves), &ves);
    if (fresh) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("VES ", ves.name, " has the Q_Key ", QKeyOf(ves).ToString(), " of VES ",
                     first->second->name, ", and ", hca->name(),
                     " is RoCE, where nothing else keeps them apart; give it another qkey"));
  }
  return absl::OkStatus();
}

absl::StatusOr<VPort> Agent::MakeVPort(const VPortConfig& config, const Ves& ves) {
  MacAddr mac;
  if (config.mac.has_value()) {
    mac = *config.mac;
  } else if (config.kind->has_mac && state_ != nullptr) {
    const absl::StatusOr<MacAddr> kept = state_->MacFor(config.name);
    if (!kept.ok()) return kept.status();
    mac = *kept;
  }
  return make_port_(config, mac, ves.vports().InterfaceMtu(config), ves, fabric_.get());
}

void Agent::Start() {
  worker_->Start();
  started_ = true;
  look_for_lost_at_ = loop_->Now();
  lost_timer_ =
      loop_->AddDeadline([this] { return look_for_lost_at_; }, [this] { RemakeLostInterfaces(); });
  fabric_->Start();
}

void Agent::Stop(std::function<void()> done) {
  started_ = false;
  loop_->Cancel(lost_timer_);
  for (const std::unique_ptr<Ves>& ves : veses_) ves->Leave();
  worker_->Stop(absl::ZeroDuration());  // it sends what is queued
  fabric_->Stop(std::move(done));
}

// A VES without vPorts joins nothing.
std::string Agent::StatusLine() const {
  size_t used = 0, joined = 0, vports = 0;
  for (const std::unique_ptr<Ves>& ves : veses_) {
    vports += ves->vports().size();
    used += ves->vports().empty() ? 0 : 1;
    joined += ves->group().joined().has_value() ? 1 : 0;
  }
  return absl::StrCat("VESes joined: ", joined, " of ", used, "; vPorts: ", vports);
}

}  // namespace eoib
