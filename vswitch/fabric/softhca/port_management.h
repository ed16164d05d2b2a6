// PortManagement: the management half of a port, which carries out what the subnet reports: its
// configuration, rings, groups, faults and MADs.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_PORT_MANAGEMENT_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_PORT_MANAGEMENT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/async_events.h"
#include "vswitch/fabric/softhca/datagram_path.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

// The MADs that a port has received and its program has not read yet. Any thread.
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

// Any thread. `mutex` is the port's.
class PortManagement final : public PortSink {
 public:
  // All outlive the object.
  PortManagement(absl::Mutex* mutex, DatagramPath* path, AsyncEvents* events,
                 const PortEventFds* fds)
      : mutex_(mutex), path_(path), events_(events), fds_(fds) {}

  // Waits for the first configuration. Returns false if there is none in `time`.
  bool AwaitConfig(absl::Duration time) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(mutex_);
    return mutex_->AwaitWithTimeout(absl::Condition(&configured_), time);
  }
  MadQueue& mads() { return mads_; }
  const MadQueue& mads() const { return mads_; }

  void OnPortConfig(const PortConfig& config) override;
  void OnMad(Lid, absl::Span<const uint8_t> mad) override { mads_.Push(mad); }
  void OnRingOffered(uint64_t ring, const SourceIdentity& source, RingEnd end) override;
  void OnSourceChanged(uint64_t ring, const SourceIdentity& source) override;
  void OnRingClosed(uint64_t ring) override;
  void OnRingOpened(uint64_t request, uint64_t ring, std::shared_ptr<UniqueFd> doorbell) override;
  void OnRingRefused(uint64_t request) override;
  void OnGroup(Mlid mlid, const std::vector<Lid>& members) override;
  void OnFaults(const std::vector<FaultRule>& rules) override;
  void OnSubnetLost() override;

 private:
  void ActOnChanges(const PortConfig& before, const PortConfig& after)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MoveToLid(Lid before, Lid after) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RenewRings() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex* const mutex_;
  DatagramPath* const path_ ABSL_PT_GUARDED_BY(mutex_);
  AsyncEvents* const events_ ABSL_PT_GUARDED_BY(mutex_);
  const PortEventFds* const fds_;
  bool configured_ ABSL_GUARDED_BY(mutex_) = false;
  bool subnet_lost_ ABSL_GUARDED_BY(mutex_) = false;
  MadQueue mads_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_PORT_MANAGEMENT_H_
