// Measurements between two hosts of a lab: TCP streams (iperf3), UDP datagrams, round trips.
#ifndef EOIB_TESTS_BENCH_MEASUREMENTS_H_
#define EOIB_TESTS_BENCH_MEASUREMENTS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "tests/lab/lab.h"

namespace eoib::bench {

// Gives the hosts the addresses SUBNET.1 and SUBNET.2 ("10.1.0.") on `interface`, and waits until
// they reach each other.
void Connect(lab::Host* one, lab::Host* two, const std::string& interface,
             const std::string& subnet);

// Sends UDP datagrams of `payload` bytes as fast as one program can to `address`, which is one of
// `to`'s. Returns the thousands per second that arrive.
double DatagramRate(lab::Host* from, lab::Host* to, const std::string& address, int payload,
                    int seconds);

// The same at `bits_per_second`, in bits of payload; 0: as fast as one program can.
struct DatagramLoad {
  double delivered = 0;  // thousands per second
  double lost = 0;       // share of those that were sent
};
DatagramLoad SendDatagrams(lab::Host* from, lab::Host* to, const std::string& address, int payload,
                           int seconds, int64_t bits_per_second = 0);

// `ping -f` of `pings` pings: the shortest and the mean round trip, in microseconds. The program
// stays on one processor, as in RequestAndRespond.
struct FloodPing {
  double min = 0, mean = 0;
};
FloodPing PingFlood(lab::Host* from, const std::string& address, int pings);

// One datagram at a time goes to `address`, one of `to`'s, and comes back: quantiles of the time
// that takes, in microseconds. The two ends are on different processors, or the scheduler's choice
// would decide.
struct ResponseTimes {
  double p50 = 0, p99 = 0;
};
ResponseTimes RequestAndRespond(lab::Host* from, lab::Host* to, const std::string& address,
                                int requests);

// The processor time that the whole machine has used so far, in seconds.
double BusySeconds();
// The same of one process: all of its threads, in user space and in the kernel.
absl::Duration ProcessorTime(pid_t process);

// The median round trip of `pings` pings, 500 a second, in microseconds.
double MedianRoundTrip(lab::Host* from, const std::string& address, int pings);

// TCP streams of one iperf3, which has a thread for all.
class TcpStream {
 public:
  // Starts the streams to `address`, which is one of `to`'s, for `seconds`.
  TcpStream(lab::Host* from, lab::Host* to, const std::string& address, int seconds,
            int streams = 1);
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
