#include "control/subnet/fabric_port.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/base/system_random.h"

namespace eoib {
namespace {

constexpr absl::Duration kRebuildAgain = absl::Seconds(1);
// A P_Key that appears raises an event, but not every driver raises it each time; so also poll.
constexpr absl::Duration kLookForPKeys = absl::Seconds(10);

// A random first transaction ID: a restarted agent must not accept answers to its predecessor's
// requests.
uint64_t RandomTid() { return (SystemRandom() & 0xffff'ffff) << 8 | 1; }

}  // namespace

FabricPort::FabricPort(std::unique_ptr<Hca> hca, EventLoop* loop, const Clock* clock)
    : loop_(loop), clock_(clock), hca_(std::move(hca)) {}

absl::StatusOr<std::unique_ptr<FabricPort>> FabricPort::Open(std::unique_ptr<Hca> hca,
                                                             EventLoop* loop, const Clock* clock) {
  auto port = std::unique_ptr<FabricPort>(new FabricPort(std::move(hca), loop, clock));
  absl::Status status = port->AllocateShared();
  if (status.ok()) status = port->WatchDescriptors();
  if (!status.ok()) return status;
  return port;
}

FabricPort::~FabricPort() {
  for (EventLoop::TimerId timer : timers_) loop_->Cancel(timer);
  for (int fd : watched_) loop_->Remove(fd);
  subscriptions_.reset();  // uses sa_
  sa_.reset();
  maker_.reset();
  handles_.reset();
  if (pd_ != nullptr) hca_->verbs().dealloc_pd(pd_);
}

absl::Status FabricPort::AllocateShared() {
  pd_ = hca_->verbs().alloc_pd(hca_->context());
  if (pd_ == nullptr)
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("allocate a protection domain on ", hca_->name()));
  handles_ = std::make_unique<AddressHandles>(hca_.get(), pd_);
  if (hca_->mads() != nullptr) {
    sa_ = std::make_unique<SaClient>(hca_->mads(), clock_,
                                     SaClient::Options{.first_tid = RandomTid()});
    sa_->OnNotice([this](const Notice& notice) { OnNotice(notice); });
    subscriptions_ = std::make_unique<Subscriptions>(sa_.get(), clock_);
  } else {
    maker_ = std::make_unique<HandleMaker>(handles_.get());
  }
  resources_ = {hca_.get(), pd_, handles_.get(), sa_.get(), maker_.get(), clock_};
  return absl::OkStatus();
}

absl::Status FabricPort::WatchDescriptors() {
  absl::Status status;
  const auto watch = [this, &status](int fd, std::function<void()> handler) {
    status.Update(loop_->Add(fd, EPOLLIN, [handler = std::move(handler)](uint32_t) { handler(); }));
    watched_.push_back(fd);
  };
  if (maker_ != nullptr) watch(maker_->fd(), [this] { maker_->Run(); });
  if (sa_ != nullptr) watch(sa_->fd(), [this] { sa_->Run(); });
  const int async_fd = hca_->context()->async_fd;
  // RunAsyncEvents reads until there are no more events, and must not block then.
  fcntl(async_fd, F_SETFL, fcntl(async_fd, F_GETFL) | O_NONBLOCK);
  watch(async_fd, [this] { RunAsyncEvents(); });
  return status;
}

void FabricPort::Add(FabricPortClient* client) {
  clients_.push_back(client);
  if (!running_) return;
  client->Start();
  WaitForPKeys();
}

bool FabricPort::Has(const FabricPortClient* client) const {
  return std::find(clients_.begin(), clients_.end(), client) != clients_.end();
}

void FabricPort::Remove(FabricPortClient* client) {
  clients_.erase(std::find(clients_.begin(), clients_.end(), client));
}

void FabricPort::Start() {
  running_ = true;
  for (FabricPortClient* client : clients_) client->Start();
  timers_.push_back(
      loop_->AddDeadline([this] { return NextOfClients(); }, [this] { RunClients(); }));
  WaitForPKeys();
  timers_.push_back(
      loop_->AddDeadline([this] { return rebuild_again_at_; }, [this] { RetryRebuild(); }));
  if (sa_ == nullptr) return;
  timers_.push_back(
      loop_->AddDeadline([this] { return sa_->NextDeadline(); }, [this] { sa_->Run(); }));
  subscriptions_->Renew();
  timers_.push_back(loop_->AddDeadline([this] { return subscriptions_->NextDeadline(); },
                                       [this] { subscriptions_->Run(); }));
}

absl::Time FabricPort::NextOfClients() const {
  absl::Time next = absl::InfiniteFuture();
  for (const FabricPortClient* client : clients_) next = std::min(next, client->NextDeadline());
  return next;
}

void FabricPort::RunClients() {
  for (FabricPortClient* client : clients_) {
    if (client->NextDeadline() <= clock_->Now()) client->Run();
  }
}

void FabricPort::Stop(std::function<void()> done) {
  running_ = false;
  rebuild_again_at_ = absl::InfiniteFuture();
  // The clients, and the subscriptions.
  auto waiting = std::make_shared<size_t>(clients_.size() + 1);
  const auto one_done = [waiting, done = std::move(done)] {
    if (--*waiting == 0) done();
  };
  for (FabricPortClient* client : clients_) client->Stop(one_done);
  if (subscriptions_ == nullptr) return one_done();
  subscriptions_->End(one_done);
}

// ---- The subnet ---------------------------------------------------------------------------------

// Events come in groups (a restarted subnet manager raises three). One refresh, as deep as the
// deepest, answers the group.
void FabricPort::RunAsyncEvents() {
  RefreshDepth depth = RefreshDepth::kNone;
  bool fatal = false;
  ibv_async_event event;
  while (hca_->verbs().get_async_event(hca_->context(), &event) == 0) {
    depth = std::max(depth, Note(event));
    fatal |= event.event_type == IBV_EVENT_DEVICE_FATAL;
    hca_->verbs().ack_async_event(&event);
  }
  // After the kernel has removed the device (ib_uverbs_disassociate_ucontext), each read fails with
  // EIO.
  const int error = errno;
  if (fatal) return LoseHca(absl::StrCat(hca_->name(), " reports that it is lost"));
  if (error != EAGAIN && error != EINTR)
    return LoseHca(absl::StrCat(hca_->name(), " is gone: ", strerror(error)));
  if (depth != RefreshDepth::kNone) Refresh(depth);
}

void FabricPort::LoseHca(const std::string& why) {
  LogWarning(why);
  lost_ = why;
  loop_->Remove(hca_->context()->async_fd);  // it stays readable, and the loop would spin
  rebuild_again_at_ = absl::InfiniteFuture();
  running_ = false;
  for (FabricPortClient* client : clients_) client->OnPortDown(why);
  on_fatal_(why);
}

RefreshDepth FabricPort::Note(const ibv_async_event& event) {
  if (event.event_type == IBV_EVENT_GID_CHANGE) hca_->OnGidChange();
  for (FabricPortClient* client : clients_) client->NoteLoss(event);
  const RefreshDepth depth = DepthOf(event.event_type);
  if (depth != RefreshDepth::kNone) {
    LogInfo(absl::StrCat(hca_->name(), ": ", EventName(event.event_type), ", ",
                         RefreshDepthName(depth), " refresh"));
  }
  return depth;
}

void FabricPort::Refresh(RefreshDepth depth) {
  if (!running_) return;
  hca_->OnPortChange();
  if (depth == RefreshDepth::kHeavy) RebuildClients();
  const absl::StatusOr<HcaPortInfo> port = hca_->QueryPort();
  if (port.ok() && !port->active) {
    const std::string why = PortTrouble(*port);
    LogWarning(absl::StrCat(hca_->name(), ": ", why));
    for (FabricPortClient* client : clients_) client->OnPortDown(why);
    return;  // an event comes when the port is active again
  }
  if (depth >= RefreshDepth::kNormal) handles_->Renew();
  for (FabricPortClient* client : clients_) client->Refresh(depth);
  if (subscriptions_ != nullptr) subscriptions_->Renew();
}

// The worker pauses for about a millisecond. Frames that arrive wait in the interfaces and in the
// other queue pairs.
void FabricPort::RebuildClients() {
  rebuild_again_at_ = absl::InfiniteFuture();
  std::vector<FabricPortClient*> concerned;
  std::copy_if(clients_.begin(), clients_.end(), std::back_inserter(concerned),
               [](const FabricPortClient* client) { return client->NeedsRebuild(); });
  if (concerned.empty()) return WaitForPKeys();
  rebuilt_at_ = clock_->Now();
  worker_.pause();
  for (FabricPortClient* client : concerned) {
    absl::Status status = client->Rebuild();
    status.Update(worker_.rebuilt(client));
    if (!status.ok()) rebuild_again_at_ = rebuilt_at_ + kRebuildAgain;
  }
  WaitForPKeys();
  worker_.resume();
}

void FabricPort::WaitForPKeys() {
  const bool waits = std::any_of(clients_.begin(), clients_.end(),
                                 [](const auto* client) { return !client->has_queue_pair(); });
  if (waits) rebuild_again_at_ = std::min(rebuild_again_at_, clock_->Now() + kLookForPKeys);
}

// At most once per kRebuildAgain: a queue pair that fails as soon as it is made must not keep the
// worker paused.
void FabricPort::RebuildSoon() {
  if (running_)
    rebuild_again_at_ =
        std::min(rebuild_again_at_, std::max(clock_->Now(), rebuilt_at_ + kRebuildAgain));
}

void FabricPort::RetryRebuild() {
  rebuild_again_at_ = absl::InfiniteFuture();
  if (std::any_of(clients_.begin(), clients_.end(),
                  [](const auto* client) { return client->NeedsRebuild(); })) {
    Refresh(RefreshDepth::kHeavy);
  } else {
    WaitForPKeys();
  }
}

void FabricPort::OnNotice(const Notice& notice) {
  // Only traps of the subnet manager concern paths and groups.
  if (!running_ || !notice.generic || notice.producer != Notice::kProducerClassManager) return;
  for (FabricPortClient* client : clients_)
    client->OnNotice(static_cast<SmTrap>(notice.trap), notice.AboutGid());
}

}  // namespace eoib
