#include "vswitch/fabric/softhca/subnet/port_call_queue.h"

#include <utility>

namespace eoib::softhca {

void PortCallQueue::Push(const std::shared_ptr<PortSession>& session, Call call) {
  if (session == nullptr) return;
  absl::MutexLock lock(&mutex_);
  queue_.push_back(Queued{session, std::move(call)});
}

void PortCallQueue::Deliver() {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(delivering_, true)) return;
  }
  Queued next;
  PortSink* sink = nullptr;
  while (Take(&next, &sink)) next.call(sink);
}

bool PortCallQueue::Take(Queued* queued, PortSink** sink) {
  absl::MutexLock lock(&mutex_);
  while (!queue_.empty()) {
    *queued = std::move(queue_.front());
    queue_.pop_front();
    *sink = queued->session->sink;
    being_called_ = queued->session;
    if (*sink != nullptr) return true;
  }
  being_called_ = nullptr;
  delivering_ = false;
  return false;
}

void PortCallQueue::Stop(const std::shared_ptr<PortSession>& session) {
  absl::MutexLock lock(&mutex_);
  session->sink = nullptr;
  const auto not_being_called = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return being_called_ != session;
  };
  mutex_.Await(absl::Condition(&not_being_called));
}

}  // namespace eoib::softhca
