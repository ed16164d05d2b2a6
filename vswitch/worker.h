// Worker: a thread that runs forwarders, of several VESes. It owns their queue pairs, buffers and
// the data sides of their ports; no other thread posts, polls, reads or writes there.
//
// In each turn it asks epoll, handles one batch from each ready port and each queue pair, and reaps
// completed sends. When idle, it may poll for a moment, or pause (idle_policy.h). Then it arms the
// completion queues, polls once more (an arrival between the last poll and arming raises no event)
// and sleeps. These hosts run virtual machines on the same cores.
//
// While a forwarder's send queue is congested, its ports are not read: their frames wait, and are
// dropped if need be, at their sources.
#ifndef EOIB_VSWITCH_WORKER_H_
#define EOIB_VSWITCH_WORKER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/forwarder/forwarder.h"
#include "vswitch/idle_policy.h"
#include "vswitch/worker_priority.h"

namespace eoib {

// The members work as those of DataPath.
//
// Threads: the control thread calls everything. Between Start and Join the forwarders and the
// events belong to the worker's thread, so control calls Add, Remove, AddPort, RemovePort and
// WatchEndpointOf only while the worker is stopped.
//
// Invariants: epoll reports the index of an event in events_, so an index is reused only after its
// descriptor has left epoll. The worker owns neither forwarders nor ports; control removes a
// forwarder or port before it destroys it.
class Worker final {
 public:
  // `name` is that of the thread, at most 15 bytes. A worker that is `realtime` pauses, and runs
  // ahead of programs, while many small frames come.
  explicit Worker(std::string name = "eoib-worker", bool realtime = false);
  // Calls Stop.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // With all ports that it has.
  absl::Status Add(Forwarder* forwarder);
  // These do nothing about a forwarder or a port that was not added.
  void Remove(const Forwarder* forwarder);
  absl::Status AddPort(Forwarder* forwarder, uint32_t port);
  void RemovePort(const Forwarder* forwarder, uint32_t port);
  absl::Status WatchEndpointOf(const Forwarder* forwarder);
  void Start();
  // Stop returns when the thread has ended. Any thread but the worker's own may call it. It is
  // BeginStop and Join.
  void Stop(absl::Duration backlog = absl::ZeroDuration());
  void BeginStop(absl::Duration backlog);
  void Join();
  bool MakesProgress();

 private:
  // The meaning of an epoll event.
  enum class Source : uint32_t { kUnused, kStop, kWatchdog, kFabric, kInjected, kPort };
  struct Event {
    Source source = Source::kUnused;
    Forwarder* forwarder = nullptr;
    uint32_t port = 0;
  };

  // A socket's receive buffer takes some 250 small ones.
  static constexpr uint64_t kFramesBeforeYield = 128;
  static constexpr int kInjectedATurn = 4;  // messages and frames of control
  static constexpr int kBatchesATurn = 4;   // from each queue pair

  size_t NewEvent(const Event& event);
  absl::Status Watch(int fd, const Event& event);
  absl::Status WatchAs(int fd, size_t event);
  void Forget(size_t event, int fd);
  void Run();
  bool IsToStop(bool busy) const;
  bool Turn(int sleep_milliseconds);
  bool WaitBeforeSleep();
  void AdjustPriority();
  PortTraffic TrafficAtPorts() const;
  void YieldToReaders();
  void Housekeep();
  void Handle(size_t index);
  void PausePort(size_t event);
  void ResumePorts();
  void WatchPort(size_t event, uint32_t conditions);
  static void PollInjected(Forwarder* forwarder);
  bool PollFabrics();
  void ArmFabrics();
  int SleepMilliseconds() const;

  const std::string name_;
  const bool realtime_;
  UniqueFd epoll_;
  UniqueFd stop_event_;
  UniqueFd watchdog_event_;
  std::atomic<bool> stopping_{false};
  absl::Time stop_by_;                  // also with a backlog. Set before stopping_
  std::atomic<bool> progressed_{true};  // since the last MakesProgress
  bool armed_ = false;                  // the last ArmFabrics armed every queue
  IdlePolicy idle_{false};
  PollWindow poll_window_;
  WorkerPriority priority_;
  uint64_t frames_at_yield_ = 0;
  const MonotonicClock clock_;
  std::vector<Forwarder*> forwarders_;
  std::vector<Event> events_;
  std::vector<size_t> paused_;  // indexes of events of ports
  std::thread thread_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_WORKER_H_
