#include "control/embed/embedded_switch.h"

#include <pthread.h>
#include <signal.h>
#ifdef EOIB_SANITIZE_ADDRESS
#include <sanitizer/lsan_interface.h>
#endif

#include <algorithm>
#include <exception>
#include <future>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/operator/agent_commands.h"

namespace eoib {
namespace {

// How long the SA may take for the groups that are left.
constexpr absl::Duration kLongestStop = absl::Seconds(1);

// Signals are for the program's own threads, but SIGBUS is for the thread that accesses lost memory
// of a virtual machine.
std::thread StartWithoutSignals(std::function<void()> run) {
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(run));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

// The state of its agent is unknown, and threads of the agent may still run.
void Leak(std::unique_ptr<EmbeddedSwitch> failed) {
  [[maybe_unused]] const EmbeddedSwitch* const leaked = failed.release();
#ifdef EOIB_SANITIZE_ADDRESS
  __lsan_ignore_object(leaked);
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddedSwitch>> EmbeddedSwitch::Open(Options options) {
  auto made = std::unique_ptr<EmbeddedSwitch>(new EmbeddedSwitch(std::move(options)));
  const auto opened = std::make_shared<std::promise<absl::Status>>();
  made->thread_ = StartWithoutSignals([self = made.get(), opened] {
    self->RunControlThread([opened](absl::Status result) { opened->set_value(std::move(result)); });
  });
  absl::Status status = opened->get_future().get();
  if (status.ok()) return made;
  made->thread_.join();
  if (made->failure() != nullptr) Leak(std::move(made));
  return status;
}

void EmbeddedSwitch::Close(std::unique_ptr<EmbeddedSwitch> closed) {
  EmbeddedSwitch* const self = closed.get();
  self->loop_.Post([self] {
    self->loop_.CallAt(self->loop_.Now() + kLongestStop, [self] { self->loop_.Stop(); });
    self->agent_->Stop([self] { self->loop_.Stop(); });
  });
  self->thread_.join();
  if (self->failure() != nullptr && !self->is_lost()) Leak(std::move(closed));
}

void EmbeddedSwitch::RunControlThread(const std::function<void(absl::Status)>& opened) {
  pthread_setname_np(pthread_self(), "eoib-ctl");
  SetThreadLogSink(&options_.log);
  absl::Status status;
  if (!Guard([this, &status] { status = OpenAgent(); })) status = FailureStatus();
  const bool ok = status.ok();
  opened(std::move(status));
  if (!ok) return;
  Guard([this] { loop_.Run(); });
  Guard([this] { agent_.reset(); });
  if (failure() != nullptr) GiveUp();
  absl::MutexLock lock(&mutex_);
  ended_ = true;
}

void EmbeddedSwitch::GiveUp() {
  LogWarning(absl::StrCat("the switch has failed: ", failure()));
  if (agent_ == nullptr) return;
  path_->Abandon();
  for (const auto& [name, port] : ports_) port->OnFailure();
}

absl::Status EmbeddedSwitch::OpenAgent() {
  if (!options_.statedir.empty()) {
    auto state = StateDir::Open(options_.statedir);
    if (!state.ok()) return state.status();
    state_ = *std::move(state);
  }
  auto hca = options_.open_hca();
  if (!hca.ok()) return hca.status();
  auto path = std::make_unique<PolledPath>(&loop_);
  path_ = path.get();
  const auto make_port = [this](const VPortConfig& config, MacAddr, int mtu, const Ves&,
                                FabricPort*) -> absl::StatusOr<VPort> {
    auto made = BurstPort::Create(port_options_.at(config.name));
    if (!made.ok()) return made.status();
    ports_[config.name] = made->get();
    VPort vport;
    vport.config = config;
    vport.interface = *std::move(made);
    vport.port = vport.interface->MakeQueue();
    if (absl::Status status = vport.interface->SetMtu(mtu); !status.ok()) return status;
    return vport;
  };
  auto agent =
      Agent::Create({}, *std::move(hca), state_.get(), make_port, &loop_, &clock_, std::move(path));
  if (!agent.ok()) return agent.status();
  agent_ = *std::move(agent);
  RegisterAgentCommands(agent_.get(), &commands_);
  agent_->OnFatal([this](const std::string& why) { Fail(why, FailureKind::kLostHca); });
  agent_->Start();
  return absl::OkStatus();
}

bool EmbeddedSwitch::Guard(absl::FunctionRef<void()> work) noexcept {
  if (failure() != nullptr) return false;
  const CheckFailureCatcher catcher;
  try {
    work();
    return failure() == nullptr;
  } catch (const CheckFailure& failure) {
    Fail(failure.text);
  } catch (const std::exception& error) {
    Fail(error.what());
  }
  return false;
}

absl::Status EmbeddedSwitch::FailureStatus() const { return absl::InternalError(failure()); }

void EmbeddedSwitch::Fail(const std::string& why, FailureKind kind) {
  absl::MutexLock lock(&mutex_);
  if (kind == FailureKind::kDefect) lost_ = false;  // also if a check fails after the loss
  if (failure_.load() != nullptr) return;
  lost_ = kind == FailureKind::kLostHca;
  failure_text_ = why;
  failure_.store(failure_text_.c_str(), std::memory_order_release);
  loop_.Stop();
}

absl::Status EmbeddedSwitch::OnControlThread(const std::function<absl::Status()>& work) {
  struct Task {
    absl::Status status;
    bool done = false;
  };
  const auto task = std::make_shared<Task>();  // it may outlive this call, in a loop that has ended
  loop_.Post([this, task, &work] {
    absl::Status status;
    if (!Guard([&] { status = work(); })) status = FailureStatus();
    absl::MutexLock lock(&mutex_);
    task->status = std::move(status);
    task->done = true;
  });
  absl::MutexLock lock(&mutex_);
  const auto over = [this, &task]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return task->done || ended_; };
  mutex_.Await(absl::Condition(&over));
  return task->done ? std::move(task->status) : FailureStatus();
}

absl::StatusOr<BurstPort*> EmbeddedSwitch::AddVPort(const VPortConfig& vport, PKey pkey,
                                                    const BurstPort::Options& options) {
  BurstPort* port = nullptr;
  const absl::Status status = OnControlThread([&]() -> absl::Status {
    AgentConfig next = agent_->config();
    if (FindVPort(next, vport.name) != nullptr) {
      return absl::AlreadyExistsError(
          absl::StrCat("there is a vPort ", vport.name, " on this HCA port"));
    }
    for (const VesConfig& ves : next.veses) {
      if (ves.name == vport.ves && ves.pkey != pkey) {
        return absl::InvalidArgumentError(
            absl::StrCat("VES ", ves.name, " has P_Key ", ves.pkey.ToString(),
                         " at another vPort of this program; give both the same"));
      }
      if (ves.name != vport.ves && ves.pkey.Full() == pkey.Full()) {
        return absl::InvalidArgumentError(
            absl::StrCat("P_Key ", pkey.ToString(), " is that of VES ", ves.name,
                         " of this program; give another one, or that VES"));
      }
    }
    auto of_vport = std::find_if(next.veses.begin(), next.veses.end(),
                                 [&](const VesConfig& ves) { return ves.name == vport.ves; });
    if (of_vport == next.veses.end()) {
      of_vport = next.veses.emplace(of_vport);
      of_vport->name = vport.ves;
      of_vport->pkey = pkey;
    }
    of_vport->queues = std::max(of_vport->queues, options.queues);
    next.vports.push_back(vport);
    port_options_[vport.name] = options;
    absl::Status applied = agent_->Apply(next);
    if (applied.ok()) {
      port = ports_.at(vport.name);
    } else {
      ports_.erase(vport.name);
    }
    return applied;
  });
  if (!status.ok()) return status;
  return port;
}

void EmbeddedSwitch::RemoveVPort(const std::string& name) {
  OnControlThread([this, &name] {
    AgentConfig next = agent_->config();
    std::erase_if(next.vports, [&name](const VPortConfig& vport) { return vport.name == name; });
    std::erase_if(next.veses, [&next](const VesConfig& ves) {
      return std::none_of(next.vports.begin(), next.vports.end(),
                          [&ves](const VPortConfig& vport) { return vport.ves == ves.name; });
    });
    ports_.erase(name);
    return agent_->Apply(next);
  }).IgnoreError();
}

absl::StatusOr<std::string> EmbeddedSwitch::Command(const CommandRegistry::Arguments& words) {
  std::string answer;
  const absl::Status status = OnControlThread([&]() -> absl::Status {
    const absl::StatusOr<std::string> result =
        commands_.Run(words[0], {words.begin() + 1, words.end()});
    if (result.ok()) answer = *result;
    return result.status();
  });
  if (!status.ok()) return status;
  return answer;
}

}  // namespace eoib
