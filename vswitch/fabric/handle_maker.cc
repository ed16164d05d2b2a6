#include "vswitch/fabric/handle_maker.h"

#include <utility>

namespace eoib {

HandleMaker::HandleMaker(AddressHandles* handles) : handles_(handles) {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Work(); });
}

HandleMaker::~HandleMaker() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
  absl::MutexLock lock(&mutex_);
  // Put the handles that no callback will take.
  for (const Made& made : made_) {
    if (made.ah.ok()) handles_->Put(*made.ah);
  }
}

void HandleMaker::Make(const PathKey& key, const PathAttributes& attributes, Done done) {
  absl::MutexLock lock(&mutex_);
  requests_.push_back({key, attributes, std::move(done)});
}

void HandleMaker::Work() {
  absl::MutexLock lock(&mutex_);
  const auto wanted = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return ending_ || !requests_.empty();
  };
  for (;;) {
    mutex_.Await(absl::Condition(&wanted));
    if (ending_) return;
    Request request = std::move(requests_.front());
    requests_.pop_front();
    mutex_.Unlock();
    absl::StatusOr<AhIndex> ah = handles_->Get(request.key, request.attributes);
    mutex_.Lock();
    made_.push_back({std::move(ah), std::move(request.done)});
    RingEventFd(ready_fd_.get());
  }
}

void HandleMaker::Run() {
  ClearEventFd(ready_fd_.get());
  std::vector<Made> made;
  {
    absl::MutexLock lock(&mutex_);
    made.swap(made_);
  }
  for (Made& each : made) each.done(std::move(each.ah));  // may call Make
}

}  // namespace eoib
