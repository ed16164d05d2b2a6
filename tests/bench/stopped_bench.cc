// Measures the cost of a stopped agent to the others: throughput and latency between two hosts,
// while one of them also floods and sends to a third host, whose agent runs or is stopped
// (SIGSTOP), in interleaved rounds.
//
//   stopped_bench OUTPUT.json
//
// B sends to C, which is measured, 2,000 datagrams a second to A, whose agent runs or is stopped,
// and as many broadcasts. The environment variables EOIB_BENCH_ROUNDS and EOIB_BENCH_SECONDS (of
// each measurement) set the duration.
#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/bench/measurements.h"
#include "tests/bench/report.h"
#include "tests/lab/agent.h"
#include "tests/lab/lab.h"
#include "tests/lab/soft_fabric.h"
#include "tests/lab/traffic.h"

namespace eoib::bench {
namespace {

using lab::Agent;
using lab::Host;

constexpr absl::Duration kLoadInterval = absl::Microseconds(500);
constexpr int kPings = 500;

// The average round trip in microseconds, from "rtt min/avg/max/mdev = 0.031/0.052/0.110/0.010 ms".
double RoundTrip(Host* from, const std::string& address) {
  const std::string text = from->MustRun(
      {"ping", "-n", "-q", "-c", absl::StrCat(kPings), "-i", "0.002", "-W", "5", address});
  const size_t at = text.find(" = ");
  const std::vector<std::string> figures =
      absl::StrSplit(at == std::string::npos ? "" : text.substr(at + 3), '/');
  double milliseconds = 0;
  if (!absl::StrContains(text, " 0% packet loss") || figures.size() < 2 ||
      !absl::SimpleAtod(figures[1], &milliseconds)) {
    lab::Die("unexpected output of ping: " + text);
  }
  return milliseconds * 1000;
}

// The processor time of the process so far: the first field of each thread's schedstat, in
// nanoseconds.
absl::Duration ProcessorTime(pid_t pid) {
  int64_t sum = 0;
  for (const auto& thread :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"))) {
    const std::string text = lab::ReadFile(thread.path() / "schedstat");
    int64_t used = 0;
    if (!absl::SimpleAtoi(text.substr(0, text.find(' ')), &used))
      lab::Die("unexpected schedstat: " + text);
    sum += used;
  }
  return absl::Nanoseconds(sum);
}

class StoppedBench {
 public:
  StoppedBench() {
    for (Agent* agent : {&a_, &b_, &c_}) agent->Start();
    a_.host()->AddAddress("v1", "10.0.0.1/24");
    b_.host()->AddAddress("v1", "10.0.0.2/24");
    c_.host()->AddAddress("v1", "10.0.0.3/24");
    // While A is stopped, B must not forget its address, or B would stop sending to it.
    b_.host()->MustIp(absl::StrCat("neighbor replace 10.0.0.1 lladdr ", a_.host()->Mac("v1"),
                                   " dev v1 nud permanent"));
    to_a_ = load_.Add(b_.host(), "10.0.0.2", a_.host(), "10.0.0.1");
    load_.Add(b_.host(), "10.0.0.2", a_.host(), "10.0.0.255");
    load_.Start();
    AwaitA(absl::Now());
  }

  // The processor time of B's agent during the pings, whose number is fixed, as a share of one
  // core.
  void Measure(Report* report, const std::string& how, int seconds) {
    const double gigabits = TcpStream(b_.host(), c_.host(), "10.0.0.3", seconds).Finish();
    const absl::Time start = absl::Now();
    const absl::Duration before = ProcessorTime(b_.pid());
    const double microseconds = RoundTrip(b_.host(), "10.0.0.3");
    const double share = absl::FDivDuration(ProcessorTime(b_.pid()) - before, absl::Now() - start);
    report->Add("tcp_" + how + " (Gb/s)", gigabits);
    report->Add("rtt_" + how + " (us)", microseconds);
    report->Add("cpu_" + how + " (cores)", share);
    std::printf(" %s %.2f Gb/s %.0f us", how.c_str(), gigabits, microseconds);
    std::fflush(stdout);
  }

  void StopA() { a_.Kill(SIGSTOP); }
  void ContinueA() {
    a_.Kill(SIGCONT);
    AwaitA(absl::Now());
  }

 private:
  void AwaitA(absl::Time since) {
    if (!lab::EventuallyTrue(lab::kPatience,
                             [&] { return to_a_->ForwardsSince(since).has_value(); })) {
      lab::Die("A does not receive");
    }
  }

  lab::Lab lab_;
  lab::SoftFabric fabric_{&lab_, {lab::PartitionSpec()}};
  Agent a_{&lab_, &fabric_, lab_.AddHost("a"), {}};
  Agent b_{&lab_, &fabric_, lab_.AddHost("b"), {}};
  Agent c_{&lab_, &fabric_, lab_.AddHost("c"), {}};
  lab::Traffic load_{kLoadInterval};
  lab::Stream* to_a_ = nullptr;
};

bool Run(const std::string& output) {
  const int rounds = FromEnvironment("EOIB_BENCH_ROUNDS", 7),
            seconds = FromEnvironment("EOIB_BENCH_SECONDS", 2);
  StoppedBench bench;
  Report report("stopped", "");
  for (int round = 0; round < rounds; ++round) {
    std::printf("round %d of %d:", round + 1, rounds);
    bench.Measure(&report, "running", seconds);
    bench.StopA();
    bench.Measure(&report, "stopped", seconds);
    bench.ContinueA();
    std::printf("\n");
  }
  report.Compare("stopped_tcp_vs_running", "tcp_stopped (Gb/s)", "tcp_running (Gb/s)",
                 {0.9, absl::nullopt});
  report.Compare("stopped_rtt_vs_running", "rtt_stopped (us)", "rtt_running (us)",
                 {absl::nullopt, absl::nullopt});
  report.Compare("stopped_cpu_vs_running", "cpu_stopped (cores)", "cpu_running (cores)",
                 {absl::nullopt, absl::nullopt});
  return report.Finish(output);
}

}  // namespace
}  // namespace eoib::bench

int main(int argc, char** argv) { return eoib::bench::Main(argc, argv, eoib::bench::Run); }
