#include "vswitch/fabric/softhca/subnet/fabric_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include "absl/status/statusor.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib::softhca {

bool FabricConnection::was_stuck() const {
  absl::MutexLock lock(&mutex_);
  return stuck_;
}

absl::Status FabricConnection::Register(std::unique_ptr<SubnetLink> link, const std::string& name,
                                        const PortResources& resources, PortUse use) {
  link_ = std::move(link);
  use_ = use;
  const absl::Status status = link_->Register(name, resources, use, this);
  registered_ = status.ok();
  if (registered_) name_ = name;
  return status;
}

void FabricConnection::Post(Packet packet) {
  absl::MutexLock lock(&mutex_);
  if (!broken_) Settle(queue_.Send(socket_.get(), std::move(packet)));
}

void FabricConnection::Mute() {
  absl::MutexLock lock(&mutex_);
  broken_ = true;
}

void FabricConnection::Flush() {
  absl::MutexLock lock(&mutex_);
  if (!broken_) Settle(queue_.Flush(socket_.get()));
}

// ---- PortSink.

void FabricConnection::OnPortConfig(const PortConfig& config) { Post(Encode(ToMessage(config))); }

void FabricConnection::OnMad(Lid source, absl::Span<const uint8_t> mad) {
  const absl::StatusOr<SaHeader> header = DecodeSaHeader(mad);
  absl::MutexLock lock(&mutex_);
  if (broken_) return;
  if (header.ok() && header->method == MadMethod::kReport)
    return PostReport(EncodeMad(source, mad), header->tid);
  // A client may request tables and not read them: keep a few and drop the rest, as on a wire.
  if (mad.size() > kMadSize && queue_.size() >= kTableQueue) return;
  for (; mad.size() > kMaxMadPart && !broken_; mad.remove_prefix(kMaxMadPart)) {
    Settle(queue_.Send(socket_.get(),
                       EncodeMad(source, mad.first(kMaxMadPart), MessageType::kMadPart)));
  }
  if (!broken_) Settle(queue_.Send(socket_.get(), EncodeMad(source, mad)));
}

// Other ports cause reports, and each is repeated. So a waiting report is not queued twice, and
// reports never use the room of messages that must arrive: with a full queue they are dropped, as
// on a wire.
void FabricConnection::PostReport(Packet report, uint64_t tid) {
  if (queue_.size() >= kQueue) return;
  Settle(queue_.SendLatest(socket_.get(), std::move(report), {MessageType::kMad, tid}));
}

void FabricConnection::OnRingOffered(uint64_t ring, const SourceIdentity& source, RingEnd end) {
  SourceMessage message = ToMessage(MessageType::kRingOffered, ring, source);
  message.capacity = end.capacity;
  Post(Encode(message, ToDescriptors(std::move(end))));
}

void FabricConnection::OnSourceChanged(uint64_t ring, const SourceIdentity& source) {
  Post(Encode(ToMessage(MessageType::kSourceChanged, ring, source)));
}

void FabricConnection::OnRingClosed(uint64_t ring) {
  RingMessage message;
  message.type = MessageType::kRingClosed;
  message.ring = ring;
  Post(Encode(message));
}

void FabricConnection::OnRingOpened(uint64_t request, uint64_t ring,
                                    std::shared_ptr<UniqueFd> doorbell) {
  RingOpenedMessage message;
  message.request = request;
  message.ring = ring;
  std::vector<UniqueFd> fds;
  fds.push_back(Duplicate(doorbell->get()));
  // The consumer already has the ring. Its liveness descriptor shows that the producer drops it.
  if (!fds[0].valid()) return OnRingRefused(request);
  Post(Encode(message, std::move(fds)));
}

void FabricConnection::OnRingRefused(uint64_t request) {
  RingOpenedMessage message;
  message.type = MessageType::kRingRefused;
  message.request = request;
  Post(Encode(message));
}

// There may be more groups than room in the queue, and members change as ports like, so only the
// latest list of a group is sent.
void FabricConnection::OnGroup(Mlid mlid, const std::vector<Lid>& members) {
  const PacketQueue::Subject subject(MessageType::kGroup, mlid.value());
  absl::MutexLock lock(&mutex_);
  if (!broken_) Settle(queue_.SendLatest(socket_.get(), Encode(ToMessage(mlid, members)), subject));
}

void FabricConnection::OnFaults(const std::vector<FaultRule>& rules) {
  Post(Encode(ToMessage(rules)));
}

void FabricConnection::Settle(const absl::Status& status) {
  if (!status.ok()) {
    broken_ = true;
    stuck_ = absl::IsResourceExhausted(status);
    queue_.Clear();
    shutdown(socket_.get(), SHUT_RDWR);
    return;
  }
  if (waiting_ == !queue_.empty()) return;
  waiting_ = !queue_.empty();
  epoll_event event{};
  event.events = waiting_ ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = id_;
  epoll_ctl(epoll_, EPOLL_CTL_MOD, socket_.get(), &event);
}

}  // namespace eoib::softhca
