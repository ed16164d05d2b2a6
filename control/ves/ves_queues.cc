// Ves: its queues.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/ves/ves.h"
#include "vswitch/base/check.h"
#include "vswitch/workers.h"

namespace eoib {
namespace {

// A turn ends after this time, or this number of punts and messages. The loop's other work follows:
// commands, timers, the watchdog, other VESes. The queues of a VES share the time.
constexpr absl::Duration kTurn = absl::Milliseconds(2);
constexpr int kPuntsPerTurn = 256;
// Packet buffers: full send and receive queues of the QP, two batches in the forwarder, whose last
// frames may be large, and all frames that wait for a path or for segments.
constexpr size_t kBuffers = 512 + 512 + 2 * (Forwarder::kBatch + kMaxSegments) +
                            HeldFrames::kMaxBuffers + Forwarder::kReassemblyBuffers;
// Sized for the largest InfiniBand MTU, not the port's present one: the port may come up with a
// larger MTU later.
const size_t kLargestFrame = MtuBytes(static_cast<uint8_t>(IbMtu::k4096)) - kEoibHeaderSize;

static_assert(AgentConfig::kMostWorkers == Ves::kMaxQueues);

}  // namespace

// A flood list has one reader, and a peer that hears no announcement would take the queues for
// hosts between which MACs move.
size_t Ves::WantedQueues() const {
  if (config_.flood == FloodMode::kReplicate || !config_.announce) return 1;
  return std::clamp<size_t>(std::max(config_.queues, context_.workers), 1, kMaxQueues);
}

// A queue without a queue pair and ports.
absl::StatusOr<std::unique_ptr<VesQueue>> Ves::MakeQueue() {
  auto pool = BufferPool::Create(context_.fabric.hca, context_.fabric.pd, kBuffers, kLargestFrame);
  if (!pool.ok()) return pool.status();
  const size_t number = queues_.size();
  const std::string owner =
      absl::StrCat("VES ", config_.name, number == 0 ? "" : absl::StrCat(", queue ", number));
  auto queue = std::make_unique<VesQueue>(
      *std::move(pool), PartitionQueuePair::Options{owner, config_.pkey, {.qkey = QKeyOf(config_)}},
      context_.fabric, gid_);
  queue->forwarder = std::make_unique<Forwarder>(
      forwarding_,
      Forwarder::Dependencies{queue->pool.get(), &fdb_, &directory_, &queue->punts,
                              &queue->messages, &queue->injected, context_.fabric.clock},
      Forwarder::Uplink());
  return queue;
}

absl::Status Ves::AddQueue() {
  auto made = MakeQueue();
  if (!made.ok()) return made.status();
  VesQueue& queue = **made;
  queue.forwarder->SetMtu(forwarder()->mtu());
  queue.forwarder->SetAdmission(config_.vlans, config_.group_fwd_mask);
  queue.forwarder->SetFloodHandle(group_->joined().has_value() ? group_->joined()->ah
                                                               : AhIndex::None());
  queues_.push_back(*std::move(made));
  if (has_queue_pair()) {
    if (absl::Status status = ReplaceQueuePair(queues_.back().get()); !status.ok()) {
      queues_.pop_back();
      return status;
    }
    TellQueues();
  }
  for (VPort& vport : vports_) AddToFurtherQueues(&vport);
  AnnounceAddress();
  return absl::OkStatus();
}

absl::Status Ves::ReplaceQueuePair(VesQueue* queue) {
  const bool is_first = queue == queues_.front().get();
  absl::Status status = queue->queue_pair.Replace([this, queue, is_first](UdEndpoint* endpoint) {
    const PartitionQueuePair& pair = queue->queue_pair;
    queue->forwarder->Rebind(
        {endpoint, {pair.gid(), endpoint->qpn()}, !pair.pkey().IsFullMember()});
    if (!is_first) return;
    resolver_->SetOwn(pair.gid(), pair.pkey());
    group_->Rebind(endpoint, pair.pkey());
  });
  // The membership sets the Q_Key of the first one.
  if (status.ok() && !is_first && group_->joined().has_value())
    status = queue->queue_pair.get()->SetQKey(group_->joined()->qkey);
  return status;
}

// Each forwarder has to recognise what the others have sent to the group.
void Ves::TellQueues() {
  std::vector<Qpn> all;
  for (const auto& queue : queues_) all.push_back(queue->address().qpn);
  for (const auto& queue : queues_)
    queue->forwarder->SetOtherQueues(queues_.size() == 1 ? std::vector<Qpn>() : all);
}

void Ves::AddToFurtherQueues(VPort* vport) {
  const LocalPort& first = forwarder()->ports()[vport->index];
  const MacAddr pinned = vport->config.pin_mac ? vport->port->mac() : MacAddr();
  for (size_t number = 1; number < queues_.size(); ++number) {
    Forwarder& further = *queues_[number]->forwarder;
    if (vport->index < further.ports().size() && further.ports()[vport->index].port != nullptr)
      continue;
    if (vport->further_ports.size() < number) {
      vport->further_ports.push_back(vport->interface->MakeQueue());
      EOIB_CHECK(vport->further_ports.back() != nullptr);
    }
    further.AddFurtherPort(vport->index, first, vport->further_ports[number - 1].get(), pinned);
  }
}

void Ves::RemoveFromQueues(uint32_t index) {
  for (auto queue = queues_.rbegin(); queue != queues_.rend(); ++queue)
    (*queue)->forwarder->RemovePort(index);
}

std::vector<Forwarder*> Ves::forwarders() const {
  std::vector<Forwarder*> all;
  for (const auto& queue : queues_) all.push_back(queue->forwarder.get());
  return all;
}

std::string Ves::ReaderOf(const VPort& vport) const {
  return context_.workers == 1 ? "" : Workers::NameOf(Workers::ReaderOf(vport.index, queues()));
}

void Ves::RetryHeld() {
  for (const auto& queue : queues_) queue->RetryHeld();
}

InjectQueue* Ves::InjectedAt(const PeerAddress& own) {
  const auto at = std::find_if(queues_.begin(), queues_.end(),
                               [&own](const auto& queue) { return queue->address() == own; });
  return &(at == queues_.end() ? queues_.front() : *at)->injected;
}

// Punts come first: a message's sender has a path only after its punt.
bool Ves::HandleNext(VesQueue* queue) {
  Punt punt;
  if (queue->punts.Pop(&punt)) {
    OnPunt(punt);
    return true;
  }
  if (!queue->messages.Pop(&message_)) return false;
  OnMessage(message_, queue->address());
  return true;
}

// The worker also notifies the punt queue when its endpoint has failed.
bool Ves::RunPunts(size_t number) {
  VesQueue* const queue = queues_[number].get();
  queue->punts.Clear();
  const Clock& clock = *context_.fabric.clock;
  const absl::Time end = clock.Now() + kTurn / static_cast<int64_t>(queues_.size());
  bool more = true;
  for (int handled = 0; more && handled < kPuntsPerTurn && (handled == 0 || clock.Now() < end);
       ++handled) {
    more = HandleNext(queue);
  }
  if (more) queue->punts.Notify();  // the loop calls us again
  if (queue->queue_pair.NoteFailure()) context_.on_lost();
  return more;
}

bool Ves::NeedsRebuild() const {
  return std::any_of(queues_.begin(), queues_.end(),
                     [](const auto& queue) { return queue->queue_pair.NeedsReplacement(); });
}

void Ves::NoteLoss(const ibv_async_event& event) {
  for (const auto& queue : queues_) queue->queue_pair.NoteLoss(event);
}

std::string Ves::QpnText() const {
  std::string text;
  for (const auto& queue : queues_)
    absl::StrAppend(&text, text.empty() ? "" : " ", queue->queue_pair.QpnText());
  return text;
}

ForwarderCounters Ves::counters() const {
  ForwarderCounters sum;
  for (const auto& queue : queues_) sum.Add(queue->forwarder->counters());
  return sum;
}

PortCounters Ves::CountersOf(const VPort& vport) const {
  PortCounters sum;
  for (const auto& queue : queues_) sum.Add(*queue->forwarder->ports()[vport.index].counters);
  if (vport.counted != nullptr) sum.Add(*vport.counted);
  return sum;
}

size_t Ves::Buffers(BufferPool::State state) const {
  size_t sum = 0;
  for (const auto& queue : queues_) sum += queue->pool->count(state);
  return sum;
}

}  // namespace eoib
