#include "control/embed/burst_port.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/event_fd.h"

namespace eoib {

absl::StatusOr<std::unique_ptr<BurstPort>> BurstPort::Create(const Options& options) {
  auto port = std::unique_ptr<BurstPort>(new BurstPort(options));
  port->state_event_ = MakeEventFd();
  if (!port->state_event_.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("make the descriptors of a vPort: ", strerror(errno)));
  }
  while (port->queues_.size() < options.queues) {
    auto queue = BurstQueue::Create();
    if (!queue.ok()) return queue.status();
    port->queues_.push_back(*std::move(queue));
  }
  return port;
}

std::unique_ptr<Port> BurstPort::MakeQueue() {
  return std::make_unique<LanePort>(&options_, queues_[made_++ % queues_.size()].get());
}

absl::Status BurstPort::SetMtu(int mtu) {
  const auto bytes = static_cast<uint32_t>(mtu);
  if (mtu_.exchange(bytes) != bytes) ChangeState();
  return absl::OkStatus();
}

absl::Status BurstPort::SetLink(bool up) {
  if (carrier_.exchange(up) == up) return absl::OkStatus();
  if (up) carrier_resets_.fetch_add(1);
  ChangeState();
  return absl::OkStatus();
}

void BurstPort::OnFailure() {
  carrier_ = false;
  ChangeState();
}

void BurstPort::ChangeState() {
  changes_.fetch_add(1);
  RingEventFd(state_event_.get());
}

eoib_state BurstPort::State() {
  ClearEventFd(state_event_.get());
  return {sizeof(eoib_state), carrier_.load() ? 1 : 0, mtu_.load(), carrier_resets_.load(),
          changes_.load()};
}

void BurstPort::AddCounters(PortCounters* port, ForwarderCounters* forwarder) const {
  for (const std::unique_ptr<BurstQueue>& queue : queues_) {
    for (const LanePort* const lane : queue->lanes()) lane->AddCounters(port, forwarder);
  }
}

eoib_stats BurstPort::Stats() const {
  PortCounters counters;
  ForwarderCounters of_ves;
  AddCounters(&counters, &of_ves);
  return {sizeof(eoib_stats),
          counters.received.value(),
          counters.received_bytes.value(),
          counters.transmitted.value(),
          counters.transmitted_bytes.value(),
          counters.dropped.value()};
}

void BurstPort::VisitCounters(
    absl::FunctionRef<void(const char* name, uint64_t value)> visit) const {
  PortCounters of_vport;
  ForwarderCounters counters;
  AddCounters(&of_vport, &counters);
  counters.ForEach([&](const char* name, uint64_t count, const char*) { visit(name, count); });
  counters.drops.ForEach([&](const char* label, uint64_t count, const char*) {
    visit(absl::StrCat("drop_", label).c_str(), count);
  });
}

}  // namespace eoib
