// HandleMaker: makes address handles on its own threads, because making one may wait for the
// network.
//
// On an Ethernet link layer the kernel resolves a peer's MAC by neighbour discovery inside
// create_ah (ib_resolve_eth_dmac). Discovery takes up to a second for a cold neighbour, and fails
// after a second for an absent one. There are several threads, so that absent peers do not delay
// the others.
//
// Threads: control calls all members.
#ifndef EOIB_VSWITCH_FABRIC_HANDLE_MAKER_H_
#define EOIB_VSWITCH_FABRIC_HANDLE_MAKER_H_

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/fabric/address_handles.h"

namespace eoib {

class HandleMaker {
 public:
  static constexpr int kThreads = 4;
  // The result of AddressHandles::Get. The callback's owner becomes a user of the handle and must
  // Put it.
  using Done = std::function<void(absl::StatusOr<AhIndex> ah)>;

  // `handles` outlives the object.
  explicit HandleMaker(AddressHandles* handles);
  // Waits for the handles that are being made. Callbacks that have not run never run; finished
  // handles are put back.
  ~HandleMaker();
  HandleMaker(const HandleMaker&) = delete;
  HandleMaker& operator=(const HandleMaker&) = delete;

  // Starts making a handle. Run calls `done` once.
  void Make(const PathKey& key, const PathAttributes& attributes, Done done);

  // Readable when results are waiting; then call Run.
  int fd() const { return ready_fd_.get(); }
  void Run();

 private:
  struct Request {
    PathKey key;
    PathAttributes attributes;
    Done done;
  };
  struct Made {
    absl::StatusOr<AhIndex> ah;
    Done done;
  };

  void Work();

  AddressHandles* const handles_;
  const UniqueFd ready_fd_ = MakeEventFd();
  absl::Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Request> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<Made> made_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_HANDLE_MAKER_H_
