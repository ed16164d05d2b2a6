// Worker: a thread that runs forwarders. It owns their queue pairs, buffers and ports' data sides; nobody else posts, polls,
// reads or writes there.
//
// A turn: take what epoll says is ready, one batch from each ready port and each queue pair, then reclaim. With nothing left
// the worker arms the completion queues, looks once more (an arrival between the last poll and arming raises no event) and
// sleeps. It does not spin: these hosts run virtual machines on the same cores.
#ifndef EOIB_VSWITCH_WORKER_H_
#define EOIB_VSWITCH_WORKER_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "vswitch/fabric/unique_fd.h"
#include "vswitch/forwarder.h"

namespace eoib {

class Worker {
 public:
  Worker();
  // Stops.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // While stopped. `forwarder`, which may have no endpoint yet, outlives the worker's thread.
  absl::Status Add(Forwarder* forwarder);
  // While stopped: `forwarder`, which was added, has another endpoint than before, or none. The former one is destroyed.
  absl::Status WatchEndpointOf(const Forwarder* forwarder);
  // May follow a Stop.
  void Start();
  // Returns when the thread has ended. Any thread but the worker's own.
  void Stop();

 private:
  // What an epoll event means.
  enum class Source : uint32_t { kStop, kFabric, kInjected, kPort };
  struct Event {
    Source source;
    uint32_t forwarder;
    uint32_t port;
  };

  absl::Status Watch(int fd, Event event);
  absl::Status WatchAs(int fd, size_t event);
  void Run();
  void Handle(const Event& event);
  bool PollFabrics();
  void ArmFabrics();
  int SleepMilliseconds() const;

  UniqueFd epoll_;
  UniqueFd stop_event_;
  std::atomic<bool> stopping_{false};
  bool armed_ = false;  // the last ArmFabrics reached every queue
  std::vector<Forwarder*> forwarders_;
  std::vector<Event> events_;
  std::thread thread_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_WORKER_H_
