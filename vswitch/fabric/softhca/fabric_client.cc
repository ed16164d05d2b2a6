#include "vswitch/fabric/softhca/fabric_client.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "vswitch/base/file.h"
#include "vswitch/fabric/softhca/port_name.h"

namespace eoib::softhca {
namespace {

// How often Register calls keep_waiting.
constexpr absl::Duration kAskInterval = absl::Milliseconds(100);

// The thread takes no signals: those belong to the program's own threads, above all in a preloaded
// program, which does not know of this one.
std::thread StartWithoutSignals(std::function<void()> run) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(run));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

FabricClient::FabricClient(Options options)
    : options_(std::move(options)), queue_(options_.queue) {}

FabricClient::~FabricClient() { FabricClient::Unregister(); }

// ---- Any thread.

absl::Status FabricClient::Register(const std::string& name, const PortResources& resources,
                                    PortUse use, PortSink* sink) {
  if (absl::Status status = CheckPortName(name); !status.ok()) return status;
  if (thread_.joinable())
    return absl::FailedPreconditionError(
        absl::StrCat("register port ", name, ": registered already"));
  if (use == PortUse::kOwn && resources.counters == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("register port ", name, ": it shows no counters"));
  }
  name_ = name;
  use_ = use;
  sink_ = sink;
  config_ = PortConfig();
  wake_ = MakeEventFd();
  if (use == PortUse::kOwn) doorbell_ = Duplicate(resources.doorbell);
  counters_ = resources.counters;
  if (!wake_.valid() || (use == PortUse::kOwn && !doorbell_.valid())) {
    return absl::InternalError(
        absl::StrCat("register port ", name, ": duplicate its doorbell: ", std::strerror(errno)));
  }
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = registered_ = ever_registered_ = false;
    result_ = absl::nullopt;
  }
  thread_ = StartWithoutSignals([this] { Run(); });
  const absl::Status result = AwaitAnswer();
  if (!result.ok()) Unregister();
  return result;
}

absl::Status FabricClient::AwaitAnswer() {
  const std::string what = absl::StrCat("register port ", name_, ": eoib-fabricd at ",
                                        options_.socket, " does not answer");
  const absl::Time start = absl::Now();
  while (!AnsweredWithin(options_.keep_waiting ? kAskInterval : options_.wait + options_.answer)) {
    if (!options_.keep_waiting) return absl::DeadlineExceededError(what);
    if (!options_.keep_waiting(what, absl::Now() - start))
      return absl::CancelledError(absl::StrCat(what, "; gave up"));
  }
  absl::MutexLock lock(&mutex_);
  return *result_;
}

bool FabricClient::AnsweredWithin(absl::Duration time) {
  absl::MutexLock lock(&mutex_);
  const auto answered = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return result_.has_value(); };
  return mutex_.AwaitWithTimeout(absl::Condition(&answered), time);
}

void FabricClient::Unregister() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (!thread_.joinable()) return;
  Wake();
  thread_.join();
  thread_ = std::thread();
  sink_ = nullptr;
  doorbell_.reset();
  counters_.reset();
}

absl::Status FabricClient::SendMadTo(Lid destination, const Mad& mad) {
  absl::MutexLock lock(&mutex_);
  if (use_ == PortUse::kQuery) {
    return absl::PermissionDeniedError(
        absl::StrCat("port ", name_, " is registered to be queried only"));
  }
  return Send(EncodeMad(destination, mad));
}

absl::Status FabricClient::OpenRing(uint64_t request, Lid destination, RingEnd end) {
  if (absl::Status status = CheckRingEnd(end); !status.ok()) return status;
  OpenRingMessage message;
  message.destination = destination.value();
  message.request = request;
  message.capacity = end.capacity;
  absl::MutexLock lock(&mutex_);
  if (use_ != PortUse::kOwn)
    return absl::PermissionDeniedError(absl::StrCat("this process does not own port ", name_));
  const absl::Status status = Send(Encode(message, ToDescriptors(std::move(end))));
  if (status.ok()) requests_.insert(request);
  return status;
}

void FabricClient::CloseRing(uint64_t ring) {
  RingMessage message;
  message.ring = ring;
  absl::MutexLock lock(&mutex_);
  Send(Encode(message)).IgnoreError();  // without fabricd the peer sees the liveness descriptor
}

absl::Status FabricClient::Send(Packet packet) {
  if (!registered_) return WhyNotRegistered();
  const bool idle = queue_.empty();
  const absl::Status status = queue_.Send(socket_.get(), std::move(packet));
  // While something waits, the thread polls for room. It also finds a broken socket.
  if (idle && !queue_.empty()) Wake();
  return absl::IsDataLoss(status) ? absl::UnavailableError(status.message()) : status;
}

absl::Status FabricClient::status() const {
  absl::MutexLock lock(&mutex_);
  return registered_ ? absl::OkStatus() : WhyNotRegistered();
}

absl::Status FabricClient::WhyNotRegistered() const {
  if (refusal_.ok())
    return absl::UnavailableError(
        absl::StrCat("there is no eoib-fabricd at ", options_.socket, " now"));
  return absl::UnavailableError(absl::StrCat("eoib-fabricd at ", options_.socket,
                                             " does not take port ", name_,
                                             " back: ", absl::string_view(refusal_.message())));
}

bool FabricClient::stopping() const {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

bool FabricClient::was_registered() const {
  absl::MutexLock lock(&mutex_);
  return ever_registered_;
}

// ---- The thread.

void FabricClient::Run() {
  absl::Time deadline = absl::Now() + options_.wait;
  absl::Duration retry = options_.first_retry;
  while (!stopping()) {
    absl::Status status = Connect();
    if (status.ok()) status = Serve();
    if (stopping()) break;
    // A fabricd that just died, or that takes no connections now, gets the whole wait again.
    const bool was_there = absl::IsDataLoss(status) || absl::IsAborted(status);
    if (was_there) deadline = absl::Now() + options_.wait;
    const bool worth_a_retry = was_there || absl::IsUnavailable(status);
    if (!was_registered() && !(worth_a_retry && absl::Now() < deadline)) {
      Finish(std::move(status));
      break;
    }
    if (Lose(status)) retry = options_.first_retry;
    Pause(retry);
    retry = std::min(2 * retry, options_.last_retry);
  }
  Disconnect();
}

absl::Status FabricClient::Connect() {
  const absl::StatusOr<sockaddr_un> address = UnixAddress(options_.socket);
  if (!address.ok()) return address.status();
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid())
    return absl::InternalError(absl::StrCat("make a socket: ", std::strerror(errno)));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    if (errno == EAGAIN)
      return absl::AbortedError(
          absl::StrCat("eoib-fabricd at ", options_.socket, " takes no connections"));
    return absl::UnavailableError(
        absl::StrCat("register port ", name_, " with eoib-fabricd at ", options_.socket, ": ",
                     std::strerror(errno), "; start eoib-fabricd --rundir ",
                     options_.socket.substr(0, options_.socket.find_last_of('/'))));
  }
  {
    absl::MutexLock lock(&mutex_);
    socket_ = std::move(socket);
  }
  return SendRegistration();
}

absl::Status FabricClient::SendRegistration() {
  RegisterMessage message;
  message.use = static_cast<uint32_t>(use_);
  message.requested_lid = config_.lid.value();
  message.requested_qpn = config_.qpns.first.value();
  message.requested_qpns = config_.qpns.count;
  PutText(name_, message.name, sizeof(message.name));
  std::vector<UniqueFd> fds;
  if (use_ == PortUse::kOwn) {
    fds.push_back(Duplicate(doorbell_.get()));
    fds.push_back(Duplicate(counters_->fd()));
    if (!fds[0].valid() || !fds[1].valid()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("register port ", name_, ": ", kNoDescriptor));
    }
  }
  absl::MutexLock lock(&mutex_);
  return queue_.Send(socket_.get(), Encode(message, std::move(fds)));
}

absl::Status FabricClient::Serve() {
  while (!stopping()) {
    WaitForEvents();
    absl::Status status = ReceiveAll();
    if (!status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    status = queue_.Flush(socket_.get());
    if (!status.ok()) return status;
  }
  return absl::CancelledError("unregistered");
}

void FabricClient::WaitForEvents() {
  pollfd polled[2];
  {
    absl::MutexLock lock(&mutex_);
    polled[0] =
        pollfd{socket_.get(), static_cast<short>(queue_.empty() ? POLLIN : POLLIN | POLLOUT), 0};
  }
  polled[1] = pollfd{wake_.get(), POLLIN, 0};
  poll(polled, 2, -1);
  if (polled[1].revents != 0) ClearEventFd(wake_.get());
}

absl::Status FabricClient::ReceiveAll() {
  int socket;
  {
    absl::MutexLock lock(&mutex_);
    socket = socket_.get();
  }
  while (!stopping()) {
    absl::StatusOr<Packet> packet = ReceivePacket(socket);
    if (absl::IsUnavailable(packet.status())) return absl::OkStatus();
    if (!packet.ok()) return packet.status();
    if (absl::Status status = Dispatch(*std::move(packet)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void FabricClient::Pause(absl::Duration time) {
  pollfd woken{wake_.get(), POLLIN, 0};
  poll(&woken, 1, static_cast<int>(absl::ToInt64Milliseconds(time)));
}

void FabricClient::Finish(absl::Status result) {
  absl::MutexLock lock(&mutex_);
  if (!result_.has_value()) result_ = std::move(result);
}

void FabricClient::Disconnect() {
  absl::MutexLock lock(&mutex_);
  registered_ = false;
  socket_.reset();
  queue_.Clear();
  requests_.clear();
}

// The connection is lost: fails the open requests, then tells the port. Returns whether it was
// registered.
bool FabricClient::Lose(const absl::Status& why) {
  std::set<uint64_t> unanswered;
  bool registered;
  {
    absl::MutexLock lock(&mutex_);
    registered = registered_;
    // A fabricd that is absent or has ended gives no reason.
    refusal_ = absl::IsUnavailable(why) || absl::IsDataLoss(why) ? absl::OkStatus() : why;
    unanswered.swap(requests_);
  }
  Disconnect();
  messages_.Reset();
  for (const uint64_t request : unanswered) sink_->OnRingRefused(request);
  if (registered) sink_->OnSubnetLost();
  return registered;
}

absl::Status FabricClient::Dispatch(Packet packet) {
  switch (packet.type()) {
    case MessageType::kRegistered:
      return TakeRegistered(packet);
    case MessageType::kPortConfig:
      return TakeConfig(packet);
    case MessageType::kRingOpened:
      return TakeRingOpened(std::move(packet));
    case MessageType::kRingRefused:
      return TakeRingRefused(packet);
    default:
      return messages_.Deliver(std::move(packet), sink_);
  }
}

absl::Status FabricClient::TakeRegistered(const Packet& packet) {
  const absl::StatusOr<RegisteredMessage> message = Decode<RegisteredMessage>(packet);
  if (!message.ok()) return message.status();
  const absl::Status status(static_cast<absl::StatusCode>(message->code),
                            TextOf(message->text, sizeof(message->text)));
  if (!status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  registered_ = ever_registered_ = true;
  result_ = absl::OkStatus();
  return absl::OkStatus();
}

absl::Status FabricClient::TakeConfig(const Packet& packet) {
  const absl::StatusOr<PortConfigMessage> message = Decode<PortConfigMessage>(packet);
  if (!message.ok()) return message.status();
  const absl::StatusOr<PortConfig> config = FromMessage(*message);
  if (!config.ok()) return config.status();
  config_ = *config;
  {
    // fabricd configures only registered ports. From now on the port may send.
    absl::MutexLock lock(&mutex_);
    registered_ = ever_registered_ = true;
  }
  sink_->OnPortConfig(config_);
  return absl::OkStatus();
}

bool FabricClient::Forget(uint64_t request) {
  absl::MutexLock lock(&mutex_);
  return requests_.erase(request) != 0;
}

absl::Status FabricClient::TakeRingOpened(Packet packet) {
  const absl::StatusOr<RingOpenedMessage> message =
      Decode<RingOpenedMessage>(packet, packet.fds_lost ? 0 : 1);
  if (!message.ok()) return message.status();
  std::shared_ptr<UniqueFd> doorbell;
  if (!packet.fds_lost) doorbell = std::make_shared<UniqueFd>(std::move(packet.fds[0]));
  // Only requests of this connection count: Lose has failed the others.
  if (Forget(message->request))
    sink_->OnRingOpened(message->request, message->ring, std::move(doorbell));
  return absl::OkStatus();
}

absl::Status FabricClient::TakeRingRefused(const Packet& packet) {
  const absl::StatusOr<RingOpenedMessage> message = Decode<RingOpenedMessage>(packet);
  if (message.ok() && Forget(message->request)) sink_->OnRingRefused(message->request);
  return message.status();
}

}  // namespace eoib::softhca
