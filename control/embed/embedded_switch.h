// EmbeddedSwitch: an agent on one HCA port inside somebody else's program, with its control thread,
// eoib-ctl.
#ifndef EOIB_CONTROL_EMBED_EMBEDDED_SWITCH_H_
#define EOIB_CONTROL_EMBED_EMBEDDED_SWITCH_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "control/agent.h"
#include "control/embed/burst_port.h"
#include "control/embed/polled_path.h"
#include "control/state/state_dir.h"
#include "vswitch/base/check.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/base/daemon/event_loop.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/fabric/hca.h"

namespace eoib {

inline constexpr VPortKind kEmbeddedVPort{.name = "embedded"};

// Any thread but eoib-ctl calls everything. After a failed check, or when the HCA is lost, the
// switch has failed for good: calls return an error. After a failed check what the switch owns is
// leaked, because its state is unknown.
class EmbeddedSwitch {
 public:
  struct Options {
    std::function<absl::StatusOr<std::unique_ptr<Hca>>()> open_hca;  // called on eoib-ctl
    std::string statedir;                                            // empty: none
    LogSink log = [](int, absl::string_view) {};
  };

  static absl::StatusOr<std::unique_ptr<EmbeddedSwitch>> Open(Options options);
  // Tells the other agents and leaves the groups.
  static void Close(std::unique_ptr<EmbeddedSwitch> closed);
  EmbeddedSwitch(const EmbeddedSwitch&) = delete;
  EmbeddedSwitch& operator=(const EmbeddedSwitch&) = delete;

  // Adds the vPort, and its VES if it is the first one there. kInvalidArgument: the VES has another
  // P_Key now.
  absl::StatusOr<BurstPort*> AddVPort(const VPortConfig& vport, PKey pkey,
                                      const BurstPort::Options& options);
  // With its VES if it is the last one there. The port is gone then.
  void RemoveVPort(const std::string& name);
  absl::StatusOr<std::string> Command(const CommandRegistry::Arguments& words);

  // Calls `work`. A check that fails meanwhile, or an exception such as bad_alloc, makes the switch
  // fail. Returns false if the switch has failed before or now.
  bool Guard(absl::FunctionRef<void()> work) noexcept;
  // Null while all is well. Stays valid.
  const char* failure() const { return failure_.load(std::memory_order_acquire); }
  // Whether the failure is a lost HCA.
  bool is_lost() const { return lost_; }

 private:
  explicit EmbeddedSwitch(Options options) : options_(std::move(options)), loop_(&clock_) {}

  friend std::default_delete<EmbeddedSwitch>;
  ~EmbeddedSwitch() = default;  // the control thread has ended

  void RunControlThread(const std::function<void(absl::Status)>& opened);
  void GiveUp();
  absl::Status OpenAgent();
  absl::Status OnControlThread(const std::function<absl::Status()>& work);
  absl::Status Apply(const AgentConfig& next);
  absl::Status FailureStatus() const;
  enum class FailureKind { kDefect, kLostHca };
  void Fail(const std::string& why, FailureKind kind = FailureKind::kDefect);

  const Options options_;
  const MonotonicClock clock_;
  EventLoop loop_;
  std::thread thread_;
  std::atomic<const char*> failure_{nullptr};
  std::atomic<bool> lost_{false};
  absl::Mutex mutex_;
  std::string failure_text_ ABSL_GUARDED_BY(mutex_);  // set once
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;        // the control thread runs nothing any more

  // Control thread.
  std::unique_ptr<StateDir> state_;
  CommandRegistry commands_;
  std::unique_ptr<Agent> agent_;
  PolledPath* path_ = nullptr;               // the agent's
  std::map<std::string, BurstPort*> ports_;  // by vPort; the agent's
  std::map<std::string, BurstPort::Options> port_options_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_EMBED_EMBEDDED_SWITCH_H_
