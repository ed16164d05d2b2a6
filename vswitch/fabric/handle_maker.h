// HandleMaker: makes address handles on threads of its own, for where making one waits for the network.
//
// On an Ethernet link layer the kernel finds a peer's MAC by neighbour discovery while it makes the handle
// (ib_resolve_eth_dmac): a second for a neighbour that is cold, and for one that is gone a second until it fails. Control has
// other things to do meanwhile, and peers that are gone must not hold up many that are there; hence several threads.
//
// Everything is called by one thread, control.
#ifndef EOIB_VSWITCH_FABRIC_HANDLE_MAKER_H_
#define EOIB_VSWITCH_FABRIC_HANDLE_MAKER_H_

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "vswitch/fabric/address_handles.h"
#include "vswitch/fabric/unique_fd.h"

namespace eoib {

class HandleMaker {
 public:
  static constexpr int kThreads = 4;
  // Of AddressHandles::Get. Who is told of a handle is its user.
  using Done = std::function<void(absl::StatusOr<AhIndex> ah)>;

  // `handles` outlives the object.
  explicit HandleMaker(AddressHandles* handles);
  // Waits for those that are being made. Who has not been told yet never is; handles that are ready are put back.
  ~HandleMaker();
  HandleMaker(const HandleMaker&) = delete;
  HandleMaker& operator=(const HandleMaker&) = delete;

  // Run calls `done`, once.
  void Make(const PathKey& key, const PathAttributes& attributes, Done done);

  // Readable when there is something to tell; then Run.
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
  const UniqueFd ready_fd_;
  absl::Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Request> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<Made> made_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_HANDLE_MAKER_H_
