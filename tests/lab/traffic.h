// Traffic: numbered datagrams between hosts, one every few milliseconds, and when each of them arrived: the measure of an
// outage.
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
#include "vswitch/fabric/unique_fd.h"

namespace eoib::lab {

// UDP over IPv4 or IPv6 from one host to another, or to a broadcast address as that other host hears it. Times are of
// absl::Now's clock; arrivals are as the receiver's kernel saw them. Any thread may ask; Traffic's writes.
class Stream {
 public:
  // When forwarding had begun again after `since`: the arrival of the first of ten datagrams in a row that were sent after it.
  // Nothing if there are none so far.
  absl::optional<absl::Time> ForwardsSince(absl::Time since) const;
  // The longest time since `since` that the oldest datagram under way was waited for, until it or a later one arrived. Loss and
  // delay both count; that the test itself sent late does not.
  absl::Duration LongestGap(absl::Time since) const;
  // The number of datagrams sent since `since` that have not arrived though a later one has.
  size_t LostSince(absl::Time since) const;

 private:
  friend class Traffic;
  struct Arrival {
    uint64_t number;
    absl::Time time;
  };

  Stream(Host* from, const std::string& from_address, Host* to, const std::string& to_address, uint16_t port);
  // The first arrival of a datagram that was sent at `since` or later.
  std::vector<Arrival>::const_iterator FirstSentAt(absl::Time since) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void SendOne();
  void ReceiveAll();

  UniqueFd out_, in_;
  mutable absl::Mutex mutex_;
  std::vector<absl::Time> sent_ ABSL_GUARDED_BY(mutex_);  // by number
  std::vector<Arrival> arrived_ ABSL_GUARDED_BY(mutex_);  // numbers increase; what was overtaken is not here
};

// Sends and receives all streams on a thread of its own, from Start to its end.
class Traffic {
 public:
  // One datagram of each stream every `interval`.
  explicit Traffic(absl::Duration interval = absl::Milliseconds(5)) : interval_(interval) {}
  ~Traffic();

  // Before Start. The addresses are the hosts' by then.
  Stream* Add(Host* from, const std::string& from_address, Host* to, const std::string& to_address);
  void Start();
  // The longest time since `since` that the machine kept this thread from its work, at most kMostAllowance: other processes may
  // have had to wait as long. The cap keeps a program under test that hogs the processors from widening its own bound.
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
  std::vector<std::pair<absl::Time, absl::Duration>> stalls_ ABSL_GUARDED_BY(mutex_);  // by their ends
  std::thread thread_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_TRAFFIC_H_
