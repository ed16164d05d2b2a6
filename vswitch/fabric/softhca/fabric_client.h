// FabricClient: a port's link to eoib-fabricd over its socket (fabric_protocol.h).
//
// fabricd may stop, die and come back: a stopped one blocks nobody, since messages wait in a bounded queue; a restarted one is
// found again within 100 ms, and the port registers anew with the wish to keep its LID and its QPNs.
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
#include "fdb/address.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/softhca/counters_page.h"
#include "vswitch/fabric/softhca/fabric_protocol.h"
#include "vswitch/fabric/softhca/subnet_link.h"
#include "vswitch/fabric/unique_fd.h"

namespace eoib::softhca {

// Members may be called from any thread, but Register and Unregister from one at a time. While registered it runs one thread of
// its own, which makes all calls to the sink and takes no signals.
class FabricClient final : public SubnetLink {
 public:
  struct Options {
    std::string socket = "/run/eoib/fabricd.sock";
    absl::Duration wait = absl::ZeroDuration();  // how long Register waits for a fabricd that is not there
    absl::Duration answer = absl::Seconds(5);    // how long it waits for the answer of one that is
    // If set, Register waits without end for the answer of a fabricd that is there (it may be stopped), and asks this every
    // 100 ms: told what it waits for and how long it has, false ends the wait with kCancelled.
    std::function<bool(const std::string& what, absl::Duration waited)> keep_waiting;
    absl::Duration first_retry = absl::Milliseconds(20);
    absl::Duration last_retry = absl::Milliseconds(100);
    size_t queue = 1024;  // messages that wait for a fabricd which does not read
  };

  explicit FabricClient(Options options);
  ~FabricClient() override;

  // Returns with the first answer: OnPortConfig has been called by then. kUnavailable if there is no fabricd within
  // Options::wait, and the message says what to start; kDeadlineExceeded if it does not answer, unless Options::keep_waiting.
  absl::Status Register(const std::string& name, const PortResources& resources, PortUse use, PortSink* sink) override;
  void Unregister() override;
  // kUnavailable while there is no fabricd, or it refuses the port, and the message says why; kResourceExhausted while it does
  // not read.
  absl::Status SendMadTo(Lid destination, const Mad& mad) override;
  absl::Status OpenRing(uint64_t request, Lid destination, RingEnd end) override;
  void CloseRing(uint64_t ring) override;

 private:
  absl::Status AwaitAnswer();
  bool AnsweredWithin(absl::Duration time);

  void Run();
  absl::Status Connect();
  absl::Status SendRegistration();
  // Serves one connection until it ends; the reason.
  absl::Status Serve();
  void WaitForEvents();
  absl::Status ReceiveAll();
  absl::Status Dispatch(Packet packet);
  absl::Status TakeConfig(const Packet& packet);
  absl::Status TakeRegistered(const Packet& packet);
  absl::Status TakeMad(const Packet& packet);
  absl::Status TakeRingOffered(Packet packet);
  absl::Status TakeSourceChanged(const Packet& packet);
  absl::Status TakeRingOpened(Packet packet);
  absl::Status TakeRingRefused(const Packet& packet);
  absl::Status TakeGroup(const Packet& packet);
  absl::Status TakeFaults(const Packet& packet);
  bool Lose(const absl::Status& why);
  void Disconnect();
  void Pause(absl::Duration time);
  void Finish(absl::Status result);
  void Wake();
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

  // The thread's own.
  PortConfig config_;  // the last one: what a re-registration wishes to keep

  mutable absl::Mutex mutex_;
  UniqueFd socket_ ABSL_GUARDED_BY(mutex_);          // the thread alone changes it
  bool registered_ ABSL_GUARDED_BY(mutex_) = false;  // on this connection
  bool ever_registered_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);                 // how a fabricd that is there has ended the last connection
  absl::optional<absl::Status> result_ ABSL_GUARDED_BY(mutex_);  // of Register
  Outbox outbox_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> requests_ ABSL_GUARDED_BY(mutex_);  // OpenRing's, unanswered
};

// What a main registers for the scheme "soft": opens "soft:NAME", a port of the subnet of whichever fabricd `options` lead to.
HcaRegistry::Opener FabricHcaOpener(const FabricClient::Options& options);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_FABRIC_CLIENT_H_
