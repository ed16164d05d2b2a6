#include "control/agent.h"

#include <limits.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/fdb_commands.h"
#include "control/peer_commands.h"

namespace eoib {
namespace {

// Packet buffers for each VES: full send and receive queues of its QP, two batches in the forwarder, whose last frames may be
// large, and all frames that wait for a path or for segments.
constexpr size_t kBuffersPerVes =
    512 + 512 + 2 * (Forwarder::kBatch + kMaxSegments) + HeldFrames::kMaxBuffers + Forwarder::kReassemblyBuffers;

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof(name) - 1);
  return std::string(name).substr(0, VPortMessage::kMaxHostName);
}

// Sized for the largest InfiniBand MTU, not the port's present one: the port may come up with a larger MTU later.
const size_t kLargestFrame = MtuBytes(static_cast<uint8_t>(IbMtu::k4096)) - kEoibHeaderSize;

}  // namespace

absl::StatusOr<std::unique_ptr<Agent>> Agent::Create(const AgentConfig& config, std::unique_ptr<Hca> hca, StateDir* state,
                                                     const PortFactory& make_port, EventLoop* loop, const Clock* clock) {
  if (absl::Status status = CheckLinkLayer(config, hca.get()); !status.ok()) return status;
  auto agent = std::unique_ptr<Agent>(new Agent(loop));
  auto fabric = FabricPort::Open(std::move(hca), loop, clock);
  if (!fabric.ok()) return fabric.status();
  agent->fabric_ = *std::move(fabric);
  absl::Status status = agent->Open(config, state, make_port);
  if (!status.ok()) return status;
  return agent;
}

Agent::~Agent() {
  worker_.reset();  // first: it runs the forwarders of the VESes
  for (int fd : watched_) loop_->Remove(fd);
  if (fabric_ == nullptr) return;
  for (const std::unique_ptr<Ves>& ves : veses_) fabric_->Remove(ves.get());
  veses_.clear();  // they return their buffers to the pool
  pool_.reset();
}

absl::Status Agent::Open(const AgentConfig& config, StateDir* state, const PortFactory& make_port) {
  const FabricPort::Resources& resources = fabric_->resources();
  auto pool = BufferPool::Create(resources.hca, resources.pd, kBuffersPerVes * config.veses.size(), kLargestFrame);
  if (!pool.ok()) return pool.status();
  pool_ = *std::move(pool);
  const absl::StatusOr<AgentIdentity> identity = LoadAgentIdentity(*state);
  if (!identity.ok()) return identity.status();
  if (config.fdb_limit.has_value()) fdb_budget_ = std::make_unique<FdbBudget>(*config.fdb_limit);
  for (const VesConfig& ves_config : config.veses) {
    auto ves = Ves::Create(
        ves_config, {resources, pool_.get(), [this] { fabric_->RebuildSoon(); }, fdb_budget_.get(), *identity, HostName()});
    if (!ves.ok()) return ves.status();
    fabric_->Add(ves->get());
    veses_.push_back(*std::move(ves));
  }
  for (const VPortConfig& vport : config.vports) {
    absl::Status status = OpenVPort(vport, state, make_port);
    if (!status.ok()) return status;
  }
  return MakeWorker();
}

absl::Status Agent::MakeWorker() {
  worker_ = std::make_unique<Worker>();
  absl::Status status;
  for (const std::unique_ptr<Ves>& ves : veses_) {
    status.Update(worker_->Add(ves->forwarder()));
    status.Update(loop_->Add(ves->punt_fd(), EPOLLIN, [ves = ves.get()](uint32_t) { ves->RunPunts(); }));
    watched_.push_back(ves->punt_fd());
  }
  fabric_->SetWorker({[this] { worker_->Stop(); }, [this](FabricPortClient* client) { return WatchEndpointOf(client); },
                      [this] { worker_->Start(); }});
  return status;
}

// Only VESes have forwarders on the worker. Other clients (IPoIB links) poll their own endpoints.
absl::Status Agent::WatchEndpointOf(const FabricPortClient* client) {
  const auto ves = std::find_if(veses_.begin(), veses_.end(), [client](const auto& ours) { return ours.get() == client; });
  return ves == veses_.end() ? absl::OkStatus() : worker_->WatchEndpointOf((*ves)->forwarder());
}

// RoCE HCAs do not check P_Keys, so only different Q_Keys keep the VESes apart. An HCA without MADs is RoCE.
absl::Status Agent::CheckLinkLayer(const AgentConfig& config, Hca* hca) {
  if (hca->mads() != nullptr) return absl::OkStatus();
  std::map<QKey, const VesConfig*> veses;
  for (const VesConfig& ves : config.veses) {
    if (ves.flood == FloodMode::kReplicate) {
      return absl::InvalidArgumentError(
          absl::StrCat("VES ", ves.name, " has flood = \"replicate\", and ", hca->name(),
                       " is RoCE, which has no subnet administrator by which agents could find each other; ",
                       "remove it: on RoCE floods go to an IP multicast group, which Ethernet switches serve"));
    }
    const auto [first, fresh] = veses.emplace(QKeyOf(ves), &ves);
    if (fresh) continue;
    return absl::InvalidArgumentError(absl::StrCat("VES ", ves.name, " has the Q_Key ", QKeyOf(ves).ToString(), " of VES ",
                                                   first->second->name, ", and ", hca->name(),
                                                   " is RoCE, where nothing else keeps them apart; give it another qkey"));
  }
  return absl::OkStatus();
}

absl::Status Agent::OpenVPort(const VPortConfig& config, StateDir* state, const PortFactory& make_port) {
  const absl::StatusOr<std::vector<Ves*>> veses = FindVeses(config.ves);
  if (!veses.ok()) return absl::InvalidArgumentError(absl::StrCat("vPort ", config.name, ": ", veses.status().message()));
  Ves* const ves = veses->front();
  MacAddr mac;
  if (config.mac.has_value()) {
    mac = *config.mac;
  } else {
    const absl::StatusOr<MacAddr> kept = state->MacFor(config.name);
    if (!kept.ok()) return kept.status();
    mac = *kept;
  }
  absl::StatusOr<VPort> vport = make_port(config, mac, ves->InterfaceMtu(config), fabric_.get());
  if (!vport.ok()) return vport.status();
  return ves->AddVPort(*std::move(vport));
}

void Agent::Start() {
  worker_->Start();
  fabric_->Start();
}

void Agent::Stop(std::function<void()> done) {
  for (const std::unique_ptr<Ves>& ves : veses_) ves->Leave();
  worker_->Stop();  // it sends what is queued
  fabric_->Stop(std::move(done));
}

absl::StatusOr<std::vector<Ves*>> Agent::FindVeses(const std::string& name) const {
  std::vector<Ves*> found;
  std::vector<std::string> names;
  for (const std::unique_ptr<Ves>& ves : veses_) {
    names.push_back(ves->config().name);
    if (name.empty() || name == ves->config().name) found.push_back(ves.get());
  }
  if (!found.empty()) return found;
  return absl::NotFoundError(absl::StrCat("no VES \"", name, "\"; there is: ", absl::StrJoin(names, ", ")));
}

// ---- Commands ---------------------------------------------------------------------------------------------------------

std::string Agent::Show() const {
  std::string text = fabric_->Show();
  for (const std::unique_ptr<Ves>& ves : veses_) absl::StrAppend(&text, ShowVes(*ves));
  return text;
}

void Agent::RegisterCommands(CommandRegistry* registry) {
  registry->RegisterText("show", "the HCA port, VESes and vPorts", [this] { return Show(); });
  const VesFinder finder = [this](const std::string& name) { return FindVeses(name); };
  RegisterVesCommands(finder, registry);
  RegisterPeerCommands(finder, registry);
  RegisterFdbCommands(finder, registry);
  fabric_->RegisterCommands(registry);
}

}  // namespace eoib
