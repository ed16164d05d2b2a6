// Traffic: sends numbered datagrams between hosts every few milliseconds and records their arrival
// times, to measure outages.
#ifndef EOIB_TESTS_LAB_TRAFFIC_H_
#define EOIB_TESTS_LAB_TRAFFIC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "tests/lab/lab.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::lab {

// A UDP stream over IPv4 or IPv6 to another host, or to a broadcast address as received by that
// host. Times are on absl::Now's clock; arrival times are the kernel's time stamps. Any thread may
// read; Traffic's thread writes.
class Stream {
 public:
  // When forwarding worked again after `since`: the arrival of the first of ten consecutive
  // datagrams sent after it. Nullopt if there are none so far.
  absl::optional<absl::Time> ForwardsSince(absl::Time since) const;
  // The longest outage after `since`: from the sending of a datagram until it or a later one
  // arrived. Includes loss and delay, but not late sending by the test.
  absl::Duration LongestGap(absl::Time since) const;
  // The number of datagrams sent after `since` that have not arrived although a later one has.
  size_t LostSince(absl::Time since) const;

 private:
  friend class Traffic;
  struct Arrival {
    uint64_t number;
    absl::Time time;
  };

  Stream(Host* from, const std::string& from_address, Host* to, const std::string& to_address,
         uint16_t port);
  // The first arrival of a datagram that was sent at `since` or later.
  std::vector<Arrival>::const_iterator FirstSentAt(absl::Time since) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void SendOne();
  void ReceiveAll();

  UniqueFd out_, in_;
  mutable absl::Mutex mutex_;
  std::vector<absl::Time> sent_ ABSL_GUARDED_BY(mutex_);  // by number
  // By increasing number; overtaken datagrams are left out.
  std::vector<Arrival> arrived_ ABSL_GUARDED_BY(mutex_);
};

// Sends and receives all streams on one thread, from Start to destruction.
class Traffic {
 public:
  // One datagram of each stream every `interval`.
  explicit Traffic(absl::Duration interval = absl::Milliseconds(5)) : interval_(interval) {}
  ~Traffic();

  // Before Start. The hosts must have the addresses.
  Stream* Add(Host* from, const std::string& from_address, Host* to, const std::string& to_address);
  void Start();
  // The longest time after `since` for which the machine did not run our thread: it may not have
  // run the programs under test either. Capped at kMostAllowance, so that a program that hogs the
  // processors does not widen its own bound.
  absl::Duration StallAllowance(absl::Time since) const;
  static constexpr absl::Duration kMostAllowance = absl::Milliseconds(200);

 private:
  void Run();
  void NoteStall(absl::Time due, absl::Time now);
  bool stopping() const;

  const absl::Duration interval_;
  std::vector<std::unique_ptr<Stream>> streams_;
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // End and length.
  std::vector<std::pair<absl::Time, absl::Duration>> stalls_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_TRAFFIC_H_
