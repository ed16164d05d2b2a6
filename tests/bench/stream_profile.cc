// Records one TCP stream through two agents with perf; tests/bench/flamegraph.sh runs it and draws
// the result.
//
//   stream_profile PREFIX
//
// Writes PREFIX.data (perf's), PREFIX.pids (a line "PID ROLE" for each process) and PREFIX.json:
// the rate, and the processor time of each agent per frame. The environment variable
// EOIB_BENCH_SECONDS sets the duration.
#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/bench/measurements.h"
#include "tests/bench/report.h"
#include "tests/lab/agent.h"
#include "tests/lab/lab.h"
#include "tests/lab/soft_fabric.h"

namespace eoib::bench {
namespace {

using lab::Agent;
using lab::Host;

// Seconds of the stream before and after the recording.
constexpr int kMargin = 2;

// An agent's counters so far.
struct Work {
  absl::Duration processor;
  uint64_t frames = 0;
};

Work WorkOf(Agent* agent) { return {ProcessorTime(agent->pid()), agent->Stat("frames_in")}; }

// Records all processes on both cores, because the kernel and iperf3 take time, too. The machine
// may have no hardware counters, so the clock triggers the samples.
void Record(const std::string& path, int seconds) {
  lab::MustRunOnMachine({"perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", "1997", "-g",
                         "--call-graph", "fp", "-o", path, "--", "sleep", absl::StrCat(seconds)});
}

bool Run(const std::string& prefix) {
  const int seconds = FromEnvironment("EOIB_BENCH_SECONDS", 10);
  lab::Lab lab;
  lab::SoftFabric fabric(&lab, {{0x8001}});
  Host* one = lab.AddHost("h1");
  Host* two = lab.AddHost("h2");
  Agent agents[] = {{&lab, &fabric, one, {}}, {&lab, &fabric, two, {}}};
  const char* const names[] = {"sender", "receiver"};
  for (Agent& agent : agents) agent.Start();
  Connect(one, two, "v1", "10.1.0.");

  TcpStream stream(one, two, "10.1.0.2", seconds + 2 * kMargin);
  absl::SleepFor(absl::Seconds(kMargin));
  const Work before[] = {WorkOf(&agents[0]), WorkOf(&agents[1])};
  const absl::Time begin = absl::Now();
  Record(prefix + ".data", seconds);
  const absl::Duration elapsed = absl::Now() - begin;
  const Work after[] = {WorkOf(&agents[0]), WorkOf(&agents[1])};

  std::ofstream pids(prefix + ".pids", std::ios::trunc);
  pids << stream.sender() << " iperf3\n" << stream.receiver() << " iperf3\n0 idle\n";
  Report report("stream", "see the names");
  for (int i = 0; i < 2; ++i) {
    const absl::Duration processor = after[i].processor - before[i].processor;
    const auto frames = static_cast<double>(after[i].frames - before[i].frames);
    pids << agents[i].pid() << " " << names[i] << "\n";
    report.Add(absl::StrCat(names[i], "_cores"), absl::FDivDuration(processor, elapsed));
    report.Add(absl::StrCat(names[i], "_ns_a_frame"),
               absl::ToDoubleNanoseconds(processor) / frames);
    report.Add(absl::StrCat(names[i], "_frames_a_second"), frames / absl::ToDoubleSeconds(elapsed));
  }
  report.Add("gigabits_a_second", stream.Finish());
  return report.Finish(prefix + ".json") && pids.flush();
}

}  // namespace
}  // namespace eoib::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s PREFIX\n", argv[0]);
    return 2;
  }
  return eoib::bench::Run(argv[1]) ? 0 : 1;
}
