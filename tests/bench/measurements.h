// Measurements between two hosts of a lab: one TCP stream (iperf3), UDP datagrams, round trips.
#ifndef EOIB_TESTS_BENCH_MEASUREMENTS_H_
#define EOIB_TESTS_BENCH_MEASUREMENTS_H_

#include <memory>
#include <string>

#include "tests/lab/lab.h"

namespace eoib::bench {

// Gives the hosts the addresses SUBNET.1 and SUBNET.2 ("10.1.0.") on `interface`, and waits until they reach each other.
void Connect(lab::Host* one, lab::Host* two, const std::string& interface, const std::string& subnet);

// Sends UDP datagrams of `payload` bytes as fast as one program can to `address`, which is one of `to`'s. Returns the
// thousands per second that arrive.
double DatagramRate(lab::Host* from, lab::Host* to, const std::string& address, int payload, int seconds);

// The median round trip of `pings` pings, 500 a second, in microseconds.
double MedianRoundTrip(lab::Host* from, const std::string& address, int pings);

// One TCP stream of iperf3.
class TcpStream {
 public:
  // Starts the stream to `address`, which is one of `to`'s, for `seconds`.
  TcpStream(lab::Host* from, lab::Host* to, const std::string& address, int seconds);
  // Waits for the end. Returns the gigabits per second that arrived.
  double Finish();

  pid_t sender() const { return client_->pid(); }
  pid_t receiver() const { return server_->pid(); }

 private:
  const int seconds_;
  std::unique_ptr<lab::Process> server_, client_;
};

}  // namespace eoib::bench

#endif  // EOIB_TESTS_BENCH_MEASUREMENTS_H_
