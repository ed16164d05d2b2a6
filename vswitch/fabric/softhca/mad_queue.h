// MadQueue: the MADs that a port has received and its program has not read yet.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_MAD_QUEUE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_MAD_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/event_fd.h"

namespace eoib::softhca {

// Any thread may call all members.
class MadQueue {
 public:
  // Invalid if no descriptor was left; readable while there are MADs.
  int fd() const { return event_.get(); }

  void Push(absl::Span<const uint8_t> mad) {
    absl::MutexLock lock(&mutex_);
    if (mads_.size() >= kCapacity) return;  // drop it, as a wire might
    mads_.emplace_back(mad.begin(), mad.end());
    RingEventFd(event_.get());
  }
  // Returns false if there is none.
  bool Pop(std::vector<uint8_t>* mad) {
    absl::MutexLock lock(&mutex_);
    if (mads_.empty()) return false;
    *mad = std::move(mads_.front());
    mads_.pop_front();
    if (mads_.empty()) ClearEventFd(event_.get());
    return true;
  }

 private:
  static constexpr size_t kCapacity = 1024;

  const UniqueFd event_ = MakeEventFd();
  absl::Mutex mutex_;
  std::deque<std::vector<uint8_t>> mads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_MAD_QUEUE_H_
