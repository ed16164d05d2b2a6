#include "vswitch/fabric/softhca/preload/umad_port.h"

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/event_fd.h"

namespace eoib::softhca {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);  // for the first configuration

}  // namespace

// ---- Life.

UmadPort::UmadPort(std::unique_ptr<SubnetLink> link, std::string name)
    : link_(std::move(link)), name_(std::move(name)) {}

absl::StatusOr<std::unique_ptr<UmadPort>> UmadPort::Open(std::unique_ptr<SubnetLink> link,
                                                         const std::string& name) {
  std::unique_ptr<UmadPort> port(new UmadPort(std::move(link), name));
  if (absl::Status status = port->Start(); !status.ok()) return status;
  return port;
}

absl::Status UmadPort::Start() {
  if (absl::Status status = link_->Register(name_, PortResources(), PortUse::kManage, this);
      !status.ok())
    return status;
  absl::MutexLock lock(&mutex_);
  if (!mutex_.AwaitWithTimeout(absl::Condition(&configured_), kPatience)) {
    return absl::DeadlineExceededError(
        absl::StrCat("open port ", name_, ": the subnet does not configure it"));
  }
  background_ = std::thread(&UmadPort::Background, this);
  return absl::OkStatus();
}

UmadPort::~UmadPort() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (background_.joinable()) background_.join();
  link_->Unregister();
}

PortConfig UmadPort::config() const {
  absl::MutexLock lock(&mutex_);
  return config_;
}

// ---- Calls from programs.

int UmadPort::OpenFile() {
  UniqueFd event = MakeEventFd();
  if (!event.valid()) return -1;
  const int file = event.get();
  absl::MutexLock lock(&mutex_);
  files_[file] = std::move(event);
  agents_.OpenFile(file);
  return file;
}

int UmadPort::CloseFile(int file) {
  absl::MutexLock lock(&mutex_);
  if (files_.count(file) == 0) return EBADF;
  agents_.CloseFile(file);
  files_.erase(file);
  return 0;
}

int UmadPort::Register(int file, const UmadAgents::Registration& registration, int* agent) {
  absl::MutexLock lock(&mutex_);
  return files_.count(file) == 0 ? EBADF : agents_.Register(file, registration, agent);
}

int UmadPort::Unregister(int file, int agent) {
  absl::MutexLock lock(&mutex_);
  return files_.count(file) == 0 ? EBADF : agents_.Unregister(file, agent);
}

int UmadPort::Send(int file, const UmadPacket& packet, absl::Duration timeout, int retries) {
  std::vector<UmadAgents::Outgoing> outgoing;
  {
    absl::MutexLock lock(&mutex_);
    if (files_.count(file) == 0) return EBADF;
    if (const int error = agents_.Send(file, packet, timeout, retries, clock_.Now()); error != 0)
      return error;
    outgoing = agents_.TakeOutgoing();
    has_work_ = true;
  }
  SendOut(outgoing);
  return 0;
}

int UmadPort::Receive(int file, size_t room, UmadPacket* packet) {
  absl::MutexLock lock(&mutex_);
  if (files_.count(file) == 0) return EBADF;
  const UmadPacket* front = agents_.Front(file);
  if (front == nullptr) return EWOULDBLOCK;
  *packet = *front;
  if (front->mad.size() > room) return ENOSPC;
  agents_.Pop(file);
  if (agents_.Front(file) == nullptr) ClearEventFd(file);
  return 0;
}

// A MAD that cannot be sent is lost, as on a cable; its request times out.
void UmadPort::SendOut(const std::vector<UmadAgents::Outgoing>& outgoing) {
  for (const UmadAgents::Outgoing& mad : outgoing)
    link_->SendMadTo(mad.destination, mad.mad).IgnoreError();
}

// ---- Calls from the subnet.

void UmadPort::OnPortConfig(const PortConfig& config) {
  absl::MutexLock lock(&mutex_);
  config_ = config;
  configured_ = true;
}

void UmadPort::OnMad(Lid source, absl::Span<const uint8_t> mad) {
  absl::MutexLock lock(&mutex_);
  agents_.Receive(source, mad);
  WakeReaders();
}

void UmadPort::WakeReaders() {
  for (const auto& [file, event] : files_) {
    if (agents_.Front(file) != nullptr) RingEventFd(file);
  }
}

// ---- The thread.

void UmadPort::Background() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (;;) {
    std::vector<UmadAgents::Outgoing> outgoing;
    {
      absl::MutexLock lock(&mutex_);
      const auto woken = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_ || has_work_; };
      mutex_.AwaitWithTimeout(absl::Condition(&woken), agents_.NextDeadline() - clock_.Now());
      if (stopping_) return;
      has_work_ = false;
      agents_.Run(clock_.Now());
      WakeReaders();
      outgoing = agents_.TakeOutgoing();
    }
    SendOut(outgoing);
  }
}

}  // namespace eoib::softhca
