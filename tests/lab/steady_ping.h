// SteadyPing: a ping that runs in the background while a test does something, and counts its
// losses.
#ifndef EOIB_TESTS_LAB_STEADY_PING_H_
#define EOIB_TESTS_LAB_STEADY_PING_H_

#include <memory>
#include <set>
#include <string>

#include "tests/lab/lab.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {

// For paths that keep the order of packets: a request is lost if it has no answer and a later one
// has. Requests after the last answer are still under way and do not count. For fewer than 65,536
// requests.
class SteadyPing {
 public:
  // Returns after the first answer, so that it sees everything that the test does from then on.
  SteadyPing(Host* from, const std::string& to, const std::string& interval = "0.01");

  // The number of the last answered request; 0 if there is none.
  int LastAnswered() const;
  // Stops it as soon as a request that was sent after the call is answered; fails the test if none
  // is. Counts the requests up to the last answered one.
  PingCounts End();
  // Stops it in the same way, and expects no loss.
  void ExpectNoLoss();

 private:
  int Sent() const;
  std::set<int> Answered() const;

  const std::string name_;
  const std::unique_ptr<Process> process_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_STEADY_PING_H_
