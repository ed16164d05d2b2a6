#include "control/agent.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "control/log.h"
#include "vswitch/fabric/roce_gid.h"

namespace eoib {
namespace {

// Packet buffers for each VES: both queues of its QP full, and a batch on its way.
constexpr size_t kBuffersPerVes = 512 + 512 + 2 * Forwarder::kBatch + HeldFrames::kCapacity;

constexpr absl::Duration kRebuildAgain = absl::Seconds(1);
// A P_Key that is not there is waited for by event. Not every driver raises one each time.
constexpr absl::Duration kLookForPKeys = absl::Seconds(10);

// What the largest InfiniBand MTU carries, whatever the port's is now: a group may have a larger one when the port comes up.
const size_t kLargestFrame = MtuBytes(static_cast<uint8_t>(IbMtu::k4096)) - kEoibHeaderSize;

// A transaction ID that the SA has not seen from this port: a restarted agent must not take its predecessor's answers.
uint64_t RandomTid() {
  std::random_device random;
  return static_cast<uint64_t>(random()) << 8 | 1;
}

// "20 packets, 0 missed"
std::string Counts(const CaptureReport& capture) {
  return absl::StrCat(capture.packets, " packets, ", capture.missed, " missed");
}

}  // namespace

Agent::Agent(std::unique_ptr<Hca> hca, EventLoop* loop, const Clock* clock)
    : loop_(loop), clock_(clock), hca_(std::move(hca)) {}

absl::StatusOr<std::unique_ptr<Agent>> Agent::Create(const AgentConfig& config, std::unique_ptr<Hca> hca, StateDir* state,
                                                     const PortFactory& make_port, EventLoop* loop, const Clock* clock) {
  auto agent = std::unique_ptr<Agent>(new Agent(std::move(hca), loop, clock));
  absl::Status status = agent->Open(config, state, make_port);
  if (!status.ok()) return status;
  return agent;
}

Agent::~Agent() {
  worker_.reset();
  for (EventLoop::TimerId timer : timers_) loop_->Cancel(timer);
  for (int fd : watched_) loop_->Remove(fd);
  veses_.clear();
  subscriptions_.reset();
  sa_.reset();
  maker_.reset();
  pool_.reset();
  handles_.reset();
  if (pd_ != nullptr) hca_->verbs().dealloc_pd(pd_);
}

absl::Status Agent::Open(const AgentConfig& config, StateDir* state, const PortFactory& make_port) {
  if (absl::Status status = CheckLinkLayer(config); !status.ok()) return status;
  pd_ = hca_->verbs().alloc_pd(hca_->context());
  if (pd_ == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("allocate a protection domain on ", hca_->name()));
  handles_ = std::make_unique<AddressHandles>(hca_.get(), pd_);
  auto pool = BufferPool::Create(hca_.get(), pd_, kBuffersPerVes * config.veses.size(), kLargestFrame);
  if (!pool.ok()) return pool.status();
  pool_ = *std::move(pool);
  if (hca_->mads() != nullptr) {
    sa_ = std::make_unique<SaClient>(hca_->mads(), clock_, SaClient::Options{.first_tid = RandomTid()});
    sa_->OnNotice([this](const Notice& notice) { OnNotice(notice); });
    subscriptions_ = std::make_unique<Subscriptions>(sa_.get(), clock_);
  } else {
    maker_ = std::make_unique<HandleMaker>(handles_.get());
  }
  for (const VesConfig& ves_config : config.veses) {
    auto ves = Ves::Create(
        ves_config, {hca_.get(), pd_, pool_.get(), handles_.get(), sa_.get(), maker_.get(), clock_, [this] { RebuildSoon(); }});
    if (!ves.ok()) return ves.status();
    veses_.push_back(*std::move(ves));
  }
  for (const VPortConfig& vport : config.vports) {
    absl::Status status = OpenVPort(vport, state, make_port);
    if (!status.ok()) return status;
  }
  worker_ = std::make_unique<Worker>();
  for (const std::unique_ptr<Ves>& ves : veses_) {
    absl::Status status = worker_->Add(ves->forwarder());
    if (!status.ok()) return status;
  }
  return WatchDescriptors();
}

// On an Ethernet link layer no HCA looks at P_Keys, and Q_Keys alone keep the VESes apart.
absl::Status Agent::CheckLinkLayer(const AgentConfig& config) const {
  if (hca_->mads() != nullptr) return absl::OkStatus();
  std::map<QKey, const VesConfig*> veses;
  for (const VesConfig& ves : config.veses) {
    const auto [first, fresh] = veses.emplace(QKeyOf(ves), &ves);
    if (fresh) continue;
    return absl::InvalidArgumentError(absl::StrCat("VES ", ves.name, " has the Q_Key ", QKeyOf(ves).ToString(), " of VES ",
                                                   first->second->name, ", and ", hca_->name(),
                                                   " is RoCE, where nothing else keeps them apart; give it another qkey"));
  }
  return absl::OkStatus();
}

absl::Status Agent::OpenVPort(const VPortConfig& config, StateDir* state, const PortFactory& make_port) {
  Ves* ves = FindVes(config.ves);
  if (ves == nullptr) return absl::InvalidArgumentError(absl::StrCat("vPort ", config.name, ": there is no VES ", config.ves));
  MacAddr mac;
  if (config.mac.has_value()) {
    mac = *config.mac;
  } else {
    const absl::StatusOr<MacAddr> kept = state->MacFor(config.name);
    if (!kept.ok()) return kept.status();
    mac = *kept;
  }
  const int ves_mtu = static_cast<int>(ves->forwarder()->mtu()) - kNetdevOverhead;
  absl::StatusOr<VPort> vport = make_port(config, mac, std::min(config.mtu.value_or(ves_mtu), ves_mtu));
  if (!vport.ok()) return vport.status();
  return ves->AddVPort(*std::move(vport));
}

absl::Status Agent::WatchDescriptors() {
  absl::Status status;
  const auto watch = [this, &status](int fd, std::function<void()> handler) {
    status.Update(loop_->Add(fd, EPOLLIN, [handler = std::move(handler)](uint32_t) { handler(); }));
    watched_.push_back(fd);
  };
  for (const std::unique_ptr<Ves>& ves : veses_) watch(ves->punt_fd(), [ves = ves.get()] { ves->RunPunts(); });
  if (maker_ != nullptr) watch(maker_->fd(), [this] { maker_->Run(); });
  if (sa_ != nullptr) watch(sa_->fd(), [this] { sa_->Run(); });
  const int async_fd = hca_->context()->async_fd;
  fcntl(async_fd, F_SETFL, fcntl(async_fd, F_GETFL) | O_NONBLOCK);
  watch(async_fd, [this] { RunAsyncEvents(); });
  return status;
}

void Agent::Start() {
  running_ = true;
  worker_->Start();
  for (const std::unique_ptr<Ves>& ves : veses_) {
    ves->Start();
    timers_.push_back(loop_->AddDeadline([ves = ves.get()] { return ves->NextDeadline(); }, [ves = ves.get()] { ves->Run(); }));
  }
  WaitForPKeys();
  timers_.push_back(loop_->AddDeadline([this] { return rebuild_again_at_; }, [this] { RetryRebuild(); }));
  if (sa_ == nullptr) return;
  timers_.push_back(loop_->AddDeadline([this] { return sa_->NextDeadline(); }, [this] { sa_->Run(); }));
  subscriptions_->Renew();
  timers_.push_back(loop_->AddDeadline([this] { return subscriptions_->NextDeadline(); }, [this] { subscriptions_->Run(); }));
}

void Agent::Stop(std::function<void()> done) {
  running_ = false;
  rebuild_again_at_ = absl::InfiniteFuture();
  worker_->Stop();
  auto waiting = std::make_shared<size_t>(veses_.size() + 1);
  const auto one_done = [waiting, done = std::move(done)] {
    if (--*waiting == 0) done();
  };
  for (const std::unique_ptr<Ves>& ves : veses_) ves->Stop(one_done);
  if (subscriptions_ == nullptr) return one_done();
  subscriptions_->End(one_done);
}

// ---- The subnet -------------------------------------------------------------------------------------------------------

// Events come in groups (a restarted subnet manager raises three), and are answered together, as deep as the deepest.
void Agent::RunAsyncEvents() {
  RefreshDepth depth = RefreshDepth::kNone;
  bool fatal = false;
  ibv_async_event event;
  while (hca_->verbs().get_async_event(hca_->context(), &event) == 0) {
    depth = std::max(depth, Note(event));
    fatal |= event.event_type == IBV_EVENT_DEVICE_FATAL;
    hca_->verbs().ack_async_event(&event);
  }
  // The kernel answers EIO for ever when it has taken the device away from its users (ib_uverbs_disassociate_ucontext).
  const int error = errno;
  if (fatal) return LoseHca(absl::StrCat(hca_->name(), " reports that it is lost"));
  if (error != EAGAIN && error != EINTR) return LoseHca(absl::StrCat(hca_->name(), " is gone: ", strerror(error)));
  if (depth != RefreshDepth::kNone) Refresh(depth);
}

void Agent::LoseHca(const std::string& why) {
  LogWarning(why);
  lost_ = why;
  loop_->Remove(hca_->context()->async_fd);  // which is readable from now on
  rebuild_again_at_ = absl::InfiniteFuture();
  running_ = false;
  for (const std::unique_ptr<Ves>& ves : veses_) ves->OnPortDown(why);
  on_fatal_(why);
}

RefreshDepth Agent::Note(const ibv_async_event& event) {
  if (event.event_type == IBV_EVENT_GID_CHANGE) hca_->OnGidChange();
  for (const std::unique_ptr<Ves>& ves : veses_) ves->NoteLoss(event);
  const RefreshDepth depth = DepthOf(event.event_type);
  if (depth != RefreshDepth::kNone) {
    LogInfo(absl::StrCat(hca_->name(), ": ", EventName(event.event_type), ", ", RefreshDepthName(depth), " refresh"));
  }
  return depth;
}

void Agent::Refresh(RefreshDepth depth) {
  if (!running_) return;
  hca_->OnPortChange();
  if (depth == RefreshDepth::kHeavy) RebuildVeses();
  const absl::StatusOr<HcaPortInfo> port = hca_->QueryPort();
  if (port.ok() && !port->active) {
    const std::string why = PortTrouble(*port);
    LogWarning(absl::StrCat(hca_->name(), ": ", why));
    for (const std::unique_ptr<Ves>& ves : veses_) ves->OnPortDown(why);
    return;  // it will be told when it is active again
  }
  if (depth >= RefreshDepth::kNormal) handles_->Renew();
  for (const std::unique_ptr<Ves>& ves : veses_) ves->Refresh(depth);
  if (subscriptions_ != nullptr) subscriptions_->Renew();
}

// The worker stops for a millisecond meanwhile; what arrives waits in the interfaces and the remaining queue pairs.
void Agent::RebuildVeses() {
  rebuild_again_at_ = absl::InfiniteFuture();
  std::vector<Ves*> concerned;
  for (const std::unique_ptr<Ves>& ves : veses_) {
    if (ves->NeedsRebuild()) concerned.push_back(ves.get());
  }
  if (concerned.empty()) return WaitForPKeys();
  rebuilt_at_ = clock_->Now();
  worker_->Stop();
  for (Ves* ves : concerned) {
    if (!Rebuild(ves).ok()) rebuild_again_at_ = rebuilt_at_ + kRebuildAgain;
  }
  WaitForPKeys();
  worker_->Start();
}

void Agent::WaitForPKeys() {
  const bool waits = std::any_of(veses_.begin(), veses_.end(), [](const auto& ves) { return !ves->has_queue_pair(); });
  if (waits) rebuild_again_at_ = std::min(rebuild_again_at_, clock_->Now() + kLookForPKeys);
}

// A queue pair that fails as soon as it is made must not keep the worker stopped.
void Agent::RebuildSoon() {
  if (running_) rebuild_again_at_ = std::min(rebuild_again_at_, std::max(clock_->Now(), rebuilt_at_ + kRebuildAgain));
}

void Agent::RetryRebuild() {
  rebuild_again_at_ = absl::InfiniteFuture();
  if (std::any_of(veses_.begin(), veses_.end(), [](const auto& ves) { return ves->NeedsRebuild(); })) {
    Refresh(RefreshDepth::kHeavy);
  } else {
    WaitForPKeys();
  }
}

absl::Status Agent::Rebuild(Ves* ves) {
  absl::Status status = ves->Rebuild();
  status.Update(worker_->WatchEndpointOf(ves->forwarder()));
  return status;
}

void Agent::OnNotice(const Notice& notice) {
  if (!running_ || !notice.generic || notice.producer != Notice::kProducerClassManager) return;
  for (const std::unique_ptr<Ves>& ves : veses_) ves->OnNotice(static_cast<SmTrap>(notice.trap), notice.AboutGid());
}

Ves* Agent::FindVes(absl::string_view name) const {
  for (const std::unique_ptr<Ves>& ves : veses_) {
    if (ves->config().name == name) return ves.get();
  }
  return nullptr;
}

// ---- Commands ---------------------------------------------------------------------------------------------------------

std::string Agent::ShowPort() const {
  const absl::StatusOr<HcaPortInfo> port = hca_->QueryPort();
  if (!port.ok()) return std::string(port.status().message());
  const std::string state = port->active ? "active" : PortTrouble(*port);
  const std::string mtu = absl::StrCat(", MTU ", MtuBytes(port->mtu));
  if (!port->ethernet_link_layer) {
    return absl::StrCat(state, ", LID ", port->lid.ToString(), ", SM LID ", port->sm_lid.ToString(), ", GID ",
                        port->gid.ToString(), mtu);
  }
  const absl::StatusOr<ibv_gid_entry> gid = hca_->QueryGidEntry();
  return absl::StrCat(state, ", ", gid.ok() ? RoceGid::FromEntry(*gid).ToString() : gid.status().message(), mtu);
}

std::string Agent::Show() const {
  std::string text = absl::StrCat("HCA ", hca_->name(), ": ", ShowPort(), "\n");
  if (!lost_.empty()) absl::StrAppend(&text, "lost: ", lost_, "\n");
  if (const absl::optional<CaptureReport> capture = hca_->Capture()) {
    absl::StrAppend(&text, "capture to ", capture->path, ": ", Counts(*capture), "\n");
    if (!capture->status.ok()) absl::StrAppend(&text, "  ended: ", capture->status.message(), "\n");
  }
  if (subscriptions_ != nullptr) absl::StrAppend(&text, "notices of the subnet: ", subscriptions_->Show(), "\n");
  for (const std::unique_ptr<Ves>& ves : veses_) absl::StrAppend(&text, ves->Show());
  return text;
}

std::string Agent::HcaCounters() const {
  std::string text = absl::StrCat("HCA ", hca_->name(), "\n");
  for (const Hca::PortCounter& counter : hca_->PortCounters()) {
    absl::StrAppendFormat(&text, "  %-22s %12d  %s\n", counter.name, counter.value, counter.help);
  }
  return text;
}

absl::StatusOr<std::string> Agent::ForVeses(const CommandRegistry::Arguments& arguments,
                                            const std::function<std::string(const Ves&)>& text) const {
  std::string all;
  std::vector<std::string> names;
  for (const std::unique_ptr<Ves>& ves : veses_) {
    names.push_back(ves->config().name);
    if (arguments.empty() || arguments[0] == ves->config().name) all += text(*ves);
  }
  if (!arguments.empty() && FindVes(arguments[0]) == nullptr) {
    return absl::NotFoundError(absl::StrCat("no VES \"", arguments[0], "\"; there is: ", absl::StrJoin(names, ", ")));
  }
  return all;
}

void Agent::RegisterCommands(CommandRegistry* registry) {
  const auto for_veses = [this](std::function<std::string(const Ves&)> text) {
    return [this, text = std::move(text)](const CommandRegistry::Arguments& arguments) { return ForVeses(arguments, text); };
  };
  registry->Register({"show", "", "the HCA port, VESes and vPorts", 0, 0,
                      [this](const CommandRegistry::Arguments&) -> absl::StatusOr<std::string> { return Show(); }});
  registry->Register({"fdb/show", "[VES]", "where each MAC is", 0, 1, for_veses([](const Ves& ves) { return ves.ShowFdb(); })});
  registry->Register(
      {"stats", "[VES]", "counters of forwarders and ports", 0, 1, for_veses([](const Ves& ves) { return ves.Stats(); })});
  registry->Register({"hca", "", "counters of the HCA port", 0, 0,
                      [this](const CommandRegistry::Arguments&) -> absl::StatusOr<std::string> { return HcaCounters(); }});
  registry->Register(
      {"drops", "[VES]", "what was dropped and why", 0, 1, for_veses([](const Ves& ves) { return ves.Drops(); })});
  registry->Register({"capture/start", "PATH", "write every packet of the HCA port to an ERF capture for tshark", 1, 1,
                      [this](const CommandRegistry::Arguments& arguments) -> absl::StatusOr<std::string> {
                        if (!absl::StartsWith(arguments[0], "/")) {
                          return absl::InvalidArgumentError(
                              absl::StrCat("capture to ", arguments[0],
                                           ": name the file by its whole path, from / on: the agent "
                                           "writes it, and has another working directory than you"));
                        }
                        absl::Status status = hca_->StartCapture(arguments[0]);
                        if (!status.ok()) return status;
                        const std::string note = hca_->CaptureNote();
                        return absl::StrCat("capturing to ", arguments[0], "\n", note, note.empty() ? "" : "\n");
                      }});
  registry->Register(
      {"capture/stop", "", "end the capture", 0, 0, [this](const CommandRegistry::Arguments&) -> absl::StatusOr<std::string> {
         const absl::StatusOr<CaptureReport> report = hca_->StopCapture();
         if (!report.ok()) return report.status();
         return absl::StrCat("stopped: ", Counts(*report), " in ", report->path, "\n");
       }});
}

}  // namespace eoib
