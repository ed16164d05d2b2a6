// FabricClient: a port's link to eoib-fabricd over its socket (fabric_protocol.h).
//
// A stopped fabricd blocks no caller, because messages wait in a bounded queue. The client finds a
// restarted fabricd within 100 ms and registers again, asking for the same LID and QPNs.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_FABRIC_CLIENT_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_FABRIC_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "vswitch/base/address.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/counters_page.h"
#include "vswitch/fabric/softhca/fabric_protocol.h"
#include "vswitch/fabric/softhca/port_messages.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

// Any thread may call all members, but only one thread at a time Register and Unregister. While
// registered, the client's own thread makes all calls to the sink; it takes no signals. It holds no
// mutex during a call, so a sink may send.
//
// Invariants: only the client's thread replaces the socket. Others send on it, under the mutex.
// Each request for a ring that was sent is answered once, also if fabricd goes. What Register sets
// is constant until Unregister has joined the thread.
class FabricClient final : public SubnetLink {
 public:
  struct Options {
    std::string socket = "/run/eoib/fabricd.sock";
    absl::Duration wait = absl::ZeroDuration();  // how long Register waits for an absent fabricd
    // How long it waits for the answer of a present one.
    absl::Duration answer = absl::Seconds(5);
    // If set, Register waits without limit for the answer of a present fabricd, which may be
    // stopped. It calls this every 100 ms with what it waits for and the time waited; false ends
    // the wait with kCancelled.
    std::function<bool(const std::string& what, absl::Duration waited)> keep_waiting;
    absl::Duration first_retry = absl::Milliseconds(20);
    absl::Duration last_retry = absl::Milliseconds(100);
    size_t queue = 1024;  // messages that may wait for a fabricd that does not read
  };

  explicit FabricClient(Options options);
  ~FabricClient() override;

  // Returns with the first answer, after OnPortConfig. kUnavailable if no fabricd appears within
  // Options::wait; the message says what to start. kDeadlineExceeded if it does not answer, unless
  // Options::keep_waiting is set.
  absl::Status Register(const std::string& name, const PortResources& resources, PortUse use,
                        PortSink* sink) override;
  void Unregister() override;
  // kUnavailable while there is no fabricd, or while it refuses the port.
  absl::Status status() const override;
  // kUnavailable while there is no fabricd, or while it refuses the port (the message says why).
  // kResourceExhausted while it does not read.
  absl::Status SendMadTo(Lid destination, const Mad& mad) override;
  absl::Status OpenRing(uint64_t request, Lid destination, RingEnd end) override;
  void CloseRing(uint64_t ring) override;

 private:
  absl::Status AwaitAnswer();
  bool AnsweredWithin(absl::Duration time);

  void Run();
  absl::Status Connect();
  absl::Status SendRegistration();
  // Serves one connection until it ends. Returns the reason.
  absl::Status Serve();
  void WaitForEvents();
  absl::Status ReceiveAll();
  absl::Status Dispatch(Packet packet);
  absl::Status TakeConfig(const Packet& packet);
  absl::Status TakeRegistered(const Packet& packet);
  absl::Status TakeRingOpened(Packet packet);
  absl::Status TakeRingRefused(const Packet& packet);
  bool Lose(const absl::Status& why);
  void Disconnect();
  void Pause(absl::Duration time);
  void Finish(absl::Status result);
  void Wake() { RingEventFd(wake_.get()); }
  bool stopping() const;
  bool was_registered() const;
  absl::Status Send(Packet packet) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WhyNotRegistered() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Forget(uint64_t request);

  const Options options_;
  // Constant while the thread runs.
  std::string name_;
  UniqueFd doorbell_;
  std::shared_ptr<const CountersPage> counters_;
  PortUse use_ = PortUse::kOwn;
  PortSink* sink_ = nullptr;
  UniqueFd wake_;  // an eventfd
  std::thread thread_;

  // Used by the thread only.
  PortConfig config_;  // the last one; a new registration asks for the same LID and QPNs
  PortMessages messages_;

  mutable absl::Mutex mutex_;
  UniqueFd socket_ ABSL_GUARDED_BY(mutex_);          // only the thread changes it
  bool registered_ ABSL_GUARDED_BY(mutex_) = false;  // on this connection
  bool ever_registered_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Why a present fabricd ended the last connection.
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  absl::optional<absl::Status> result_ ABSL_GUARDED_BY(mutex_);  // Register's
  PacketQueue queue_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> requests_ ABSL_GUARDED_BY(mutex_);  // OpenRing's, unanswered
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_FABRIC_CLIENT_H_
