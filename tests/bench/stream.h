// Stream: one TCP stream from a host of a lab to another, as iperf3 makes it; and what else is measured between two hosts.
#ifndef EOIB_TESTS_BENCH_STREAM_H_
#define EOIB_TESTS_BENCH_STREAM_H_

#include <memory>
#include <string>

#include "tests/lab/lab.h"

namespace eoib::bench {

// Gives the hosts the addresses SUBNET.1 and SUBNET.2 ("10.1.0.") on `interface`, and waits until they reach each other.
void Connect(lab::Host* one, lab::Host* two, const std::string& interface, const std::string& subnet);

// Thousands of UDP datagrams a second that arrive, of those that one program sends as fast as it can: to `address`, which is
// one of `to`'s, with `payload` bytes each.
double DatagramRate(lab::Host* from, lab::Host* to, const std::string& address, int payload, int seconds);

// Microseconds: the median round trip of so many pings, 500 a second.
double MedianRoundTrip(lab::Host* from, const std::string& address, int pings);

class Stream {
 public:
  // Starts it: to `address`, which is one of `to`'s, for so many seconds.
  Stream(lab::Host* from, lab::Host* to, const std::string& address, int seconds);
  // Waits for its end. Gigabits a second that arrived.
  double Finish();

  pid_t sender() const { return client_->pid(); }
  pid_t receiver() const { return server_->pid(); }

 private:
  const int seconds_;
  std::unique_ptr<lab::Process> server_, client_;
};

}  // namespace eoib::bench

#endif  // EOIB_TESTS_BENCH_STREAM_H_
