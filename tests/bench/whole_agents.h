// WholeAgents: many agents in this process, on an in-process software subnet, to measure what
// joining a VES costs them all.
#ifndef EOIB_TESTS_BENCH_WHOLE_AGENTS_H_
#define EOIB_TESTS_BENCH_WHOLE_AGENTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "vswitch/base/clock.h"
#include "vswitch/base/temp_dir_for_test.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::bench {

// The control loops run in the caller's thread, each worker in its own.
class WholeAgents {
 public:
  struct Traffic {
    uint64_t group_messages = 0, unicast_messages = 0;
  };

  WholeAgents();
  ~WholeAgents();

  // Starts agent `number`, or starts it again with its state directory. Each has one VES and one
  // vPort.
  void Start(size_t number);
  // Ends it as if its process were killed.
  void Kill(size_t number);
  // Runs all control loops until each agent lists all others as up, with their vPorts, and has all
  // their interfaces' MACs. Ends the process after two minutes.
  void RunUntilAllKnowAll();
  // Sent by the agents that run.
  Traffic traffic() const;

 private:
  class WholeAgent;

  const MonotonicClock clock_;
  const TempDir directory_;  // has the state directories
  softhca::Subnet subnet_;
  std::vector<std::unique_ptr<WholeAgent>> agents_;
};

}  // namespace eoib::bench

#endif  // EOIB_TESTS_BENCH_WHOLE_AGENTS_H_
