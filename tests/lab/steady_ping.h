// SteadyPing: a ping in the background of something, for as long as that takes, and what it lost.
#ifndef EOIB_TESTS_LAB_STEADY_PING_H_
#define EOIB_TESTS_LAB_STEADY_PING_H_

#include <memory>
#include <set>
#include <string>

#include "tests/lab/lab.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {

// The order of requests and answers is kept where it is used: what has no answer, though a later request has one, is lost.
// Those behind the last answer are under way, however long that takes, and are not counted. For fewer than 65,536 requests.
class SteadyPing {
 public:
  // Returns when there is an answer: nothing that is done from now on escapes it.
  SteadyPing(Host* from, const std::string& to, const std::string& interval = "0.01");

  // The number of the last request that is answered so far; 0 if none is.
  int LastAnswered() const;
  // Ends it, as soon as a request is answered that was sent after the call; a failed test if none is. Counts the requests up to
  // the last that is answered.
  PingCounts End();
  // Ends it, and expects that none was lost.
  void ExpectNoLoss();

 private:
  int Sent() const;
  std::set<int> Answered() const;

  const std::string name_;
  const std::unique_ptr<Process> process_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_STEADY_PING_H_
