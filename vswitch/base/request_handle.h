// RequestHandle: the requester's end of a request whose answer comes later, by a callback.
//
// A requester that is destroyed, or has lost interest, must not be called any more. It keeps the
// handle as a member: destroying it, Cancel and a new Await make the callback do nothing. The
// request itself goes on.
//
// Threads: the callback and all members run on one thread.
#ifndef EOIB_VSWITCH_BASE_REQUEST_HANDLE_H_
#define EOIB_VSWITCH_BASE_REQUEST_HANDLE_H_

#include <memory>
#include <utility>

namespace eoib {

class RequestHandle {
 public:
  RequestHandle() = default;
  ~RequestHandle() { Cancel(); }
  RequestHandle(RequestHandle&&) = default;
  RequestHandle& operator=(RequestHandle&& other) noexcept {
    Cancel();
    pending_ = std::move(other.pending_);
    return *this;
  }

  // Returns the callback for a request. It calls `done` with the answer, once. An answer after
  // Cancel goes to `late`, which may give back what the answer owns.
  template <typename Done, typename Late>
  auto Await(Done done, Late late) {
    Cancel();
    pending_ = std::make_shared<bool>(true);
    return [pending = pending_, done = std::move(done), late = std::move(late)](auto&&... answer) {
      if (std::exchange(*pending, false)) {
        done(std::forward<decltype(answer)>(answer)...);
      } else {
        late(std::forward<decltype(answer)>(answer)...);
      }
    };
  }
  template <typename Done>
  auto Await(Done done) {
    return Await(std::move(done), [](auto&&...) {});
  }

  void Cancel() {
    if (pending_ != nullptr) *pending_ = false;
  }
  // Whether an answer is still to come.
  bool pending() const { return pending_ != nullptr && *pending_; }

 private:
  std::shared_ptr<bool> pending_;  // shared with the callback
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_REQUEST_HANDLE_H_
