#include "vswitch/workers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "vswitch/base/check.h"

namespace eoib {

Workers::Workers(size_t count, bool realtime) {
  while (workers_.size() < count)
    workers_.push_back(std::make_unique<Worker>(NameOf(workers_.size()), realtime));
}

std::string Workers::NameOf(size_t worker) { return absl::StrCat("eoib-worker-", worker); }

absl::Status Workers::Add(Forwarder* forwarder, size_t queue) {
  EOIB_CHECK(queue < workers_.size());
  EOIB_CHECK(forwarder->ports().empty());
  worker_of_[forwarder] = workers_[queue].get();
  return workers_[queue]->Add(forwarder);
}

void Workers::Remove(const Forwarder* forwarder) {
  worker_of_.at(forwarder)->Remove(forwarder);
  worker_of_.erase(forwarder);
}

absl::Status Workers::AddPort(absl::Span<Forwarder* const> queues, uint32_t port) {
  Forwarder* const reader = queues[ReaderOf(port, queues.size())];
  return worker_of_.at(reader)->AddPort(reader, port);
}

void Workers::RemovePort(absl::Span<Forwarder* const> queues, uint32_t port) {
  const Forwarder* const reader = queues[ReaderOf(port, queues.size())];
  worker_of_.at(reader)->RemovePort(reader, port);
}

absl::Status Workers::WatchEndpointOf(const Forwarder* forwarder) {
  return worker_of_.at(forwarder)->WatchEndpointOf(forwarder);
}

void Workers::Start() {
  for (const auto& worker : workers_) worker->Start();
}

// They end together: each may take the whole time for its backlog.
void Workers::Stop(absl::Duration backlog) {
  for (const auto& worker : workers_) worker->BeginStop(backlog);
  for (const auto& worker : workers_) worker->Join();
}

bool Workers::MakesProgress() {
  size_t progressed = 0;  // asks every worker: the question wakes it
  for (const auto& worker : workers_) progressed += worker->MakesProgress();
  return progressed == workers_.size();
}

}  // namespace eoib
