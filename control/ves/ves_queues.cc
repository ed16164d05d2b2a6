#include "control/ves/ves_queues.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "vswitch/base/check.h"
#include "vswitch/base/daemon/log.h"

namespace eoib {
namespace {

// Packet buffers: full send and receive queues of the QP, two batches in the forwarder, whose last
// frames may be large, and all frames that wait for a path or for segments.
constexpr size_t kBuffers = 512 + 512 + 2 * (Forwarder::kBatch + kMaxSegments) +
                            HeldFrames::kMaxBuffers + Forwarder::kReassemblyBuffers;
// Sized for the largest InfiniBand MTU, not the port's present one: the port may come up with a
// larger MTU later.
const size_t kLargestFrame = MtuBytes(static_cast<uint8_t>(IbMtu::k4096)) - kEoibHeaderSize;

static_assert(AgentConfig::kMostWorkers == VesQueues::kMost);

}  // namespace

absl::StatusOr<VesQueue*> VesQueues::Add() {
  auto pool = BufferPool::Create(fabric_.hca, fabric_.pd, kBuffers, kLargestFrame);
  if (!pool.ok()) return pool.status();
  const std::string owner =
      absl::StrCat("VES ", options_.ves, empty() ? "" : absl::StrCat(", queue ", size()));
  auto queue = std::make_unique<VesQueue>(
      *std::move(pool), PartitionQueuePair::Options{owner, options_.pkey, {.qkey = options_.qkey}},
      fabric_, options_.gid);
  queue->forwarder = std::make_unique<Forwarder>(
      options_.forwarding,
      Forwarder::Dependencies{queue->pool.get(), fdb_, directory_, &queue->punts, &queue->messages,
                              &queue->injected, fabric_.clock},
      Forwarder::Uplink());
  queues_.push_back(std::move(queue));
  return queues_.back().get();
}

std::vector<Forwarder*> VesQueues::forwarders() const {
  std::vector<Forwarder*> all;
  for (const auto& queue : queues_) all.push_back(queue->forwarder.get());
  return all;
}

std::vector<PeerAddress> VesQueues::addresses() const {
  std::vector<PeerAddress> all;
  for (const auto& queue : queues_) all.push_back(queue->address());
  return all;
}

void VesQueues::TellQpns() {
  std::vector<Qpn> all;
  for (const auto& queue : queues_) all.push_back(queue->address().qpn);
  for (const auto& queue : queues_)
    queue->forwarder->SetOtherQueues(size() == 1 ? std::vector<Qpn>() : all);
}

void VesQueues::SetMtu(uint32_t mtu) {
  for (const auto& queue : queues_) queue->forwarder->SetMtu(mtu);
}

void VesQueues::SetAdmission(const VesConfig& config) {
  for (const auto& queue : queues_)
    queue->forwarder->SetAdmission(config.vlans, config.group_fwd_mask);
}

void VesQueues::FollowGroup(const absl::optional<GroupMembership::Joined>& joined) {
  for (const auto& queue : queues_) {
    queue->forwarder->SetFloodHandle(joined.has_value() ? joined->ah : AhIndex::None());
    if (queue == queues_.front() || !joined.has_value() || queue->queue_pair.get() == nullptr)
      continue;
    const absl::Status status = queue->queue_pair.get()->SetQKey(joined->qkey);
    if (!status.ok()) LogWarning(status.message());
  }
}

void VesQueues::AddToFurther(VPort* vport) {
  const LocalPort& port = first().forwarder->ports()[vport->index];
  const MacAddr pinned = vport->config.pin_mac ? vport->port->mac() : MacAddr();
  for (size_t number = 1; number < size(); ++number) {
    Forwarder& further = *queues_[number]->forwarder;
    if (vport->index < further.ports().size() && further.ports()[vport->index].port != nullptr)
      continue;
    if (vport->further_ports.size() < number) {
      vport->further_ports.push_back(vport->interface->MakeQueue());
      EOIB_CHECK(vport->further_ports.back() != nullptr);
    }
    further.AddFurtherPort(vport->index, port, vport->further_ports[number - 1].get(), pinned);
  }
}

void VesQueues::RemovePort(uint32_t index) {
  for (auto queue = queues_.rbegin(); queue != queues_.rend(); ++queue)
    (*queue)->forwarder->RemovePort(index);
}

void VesQueues::RetryHeld() {
  for (const auto& queue : queues_) {
    queue->injected.RetryHeld();
    queue->injected.Notify();
  }
}

InjectQueue* VesQueues::InjectedAt(const PeerAddress& own) {
  const auto at = std::find_if(queues_.begin(), queues_.end(),
                               [&own](const auto& queue) { return queue->address() == own; });
  return &(at == queues_.end() ? queues_.front() : *at)->injected;
}

bool VesQueues::NeedReplacement() const {
  return std::any_of(queues_.begin(), queues_.end(),
                     [](const auto& queue) { return queue->queue_pair.NeedsReplacement(); });
}

void VesQueues::NoteLoss(const ibv_async_event& event) {
  for (const auto& queue : queues_) queue->queue_pair.NoteLoss(event);
}

std::string VesQueues::QpnText() const {
  std::string text;
  for (const auto& queue : queues_)
    absl::StrAppend(&text, text.empty() ? "" : " ", queue->queue_pair.QpnText());
  return text;
}

ForwarderCounters VesQueues::counters() const {
  ForwarderCounters sum;
  for (const auto& queue : queues_) sum.Add(queue->forwarder->counters());
  return sum;
}

PortCounters VesQueues::CountersOf(const VPort& vport) const {
  PortCounters sum;
  for (const auto& queue : queues_) sum.Add(*queue->forwarder->ports()[vport.index].counters);
  if (vport.counted != nullptr) sum.Add(*vport.counted);
  return sum;
}

size_t VesQueues::Buffers(BufferPool::State state) const {
  size_t sum = 0;
  for (const auto& queue : queues_) sum += queue->pool->count(state);
  return sum;
}

}  // namespace eoib
