// WindowedStream: small datagrams from one host to another, at a rate or as fast as they arrive, to
// load a vPort with a known part of what it can forward.
//
// Not more datagrams are under way than fit the queues on the way. So a busy machine slows the
// stream down and loses nothing, and every loss is the switch's.
#ifndef EOIB_TESTS_LAB_WINDOWED_STREAM_H_
#define EOIB_TESTS_LAB_WINDOWED_STREAM_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "tests/lab/lab.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::lab {

// Its thread sends and receives from construction to destruction. Any thread may call the members.
class WindowedStream {
 public:
  // Less than the queue of a TAP (500 frames) and the receives of a queue pair (512).
  static constexpr uint64_t kWindow = 256;

  // A UDP stream between two addresses. The hosts must have them, and `port` is free.
  WindowedStream(Host* from, const std::string& from_address, Host* to,
                 const std::string& to_address, uint16_t port);
  ~WindowedStream();
  WindowedStream(const WindowedStream&) = delete;
  WindowedStream& operator=(const WindowedStream&) = delete;

  // Datagrams a second. At first there is no limit but the window.
  void SetRate(double per_second) { rate_.store(per_second); }
  uint64_t received() const { return received_.load(); }
  // Datagrams that have not arrived although a later one has.
  uint64_t lost() const { return lost_.load(); }
  // Waits until it has received `count` more. Returns the rate; fails the test if they do not come
  // in time.
  double Measure(uint64_t count);
  // Sends no more, and waits until the last one has arrived. Fails the test if it does not.
  void Drain();

 private:
  void Run();
  void SendSome(absl::Time now);
  void ReceiveAll();
  uint64_t Allowed(absl::Time now);

  UniqueFd out_, in_;
  std::atomic<double> rate_{0};  // 0: no limit
  std::atomic<bool> draining_{false}, stopping_{false};
  // next_: the number behind the last that arrived.
  std::atomic<uint64_t> sent_{0}, received_{0}, lost_{0}, next_{0};
  // For the rate: what may be sent, up to a window.
  double credit_ = 0;
  absl::Time credited_;
  std::thread thread_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_WINDOWED_STREAM_H_
