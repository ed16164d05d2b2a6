// Measures how the vPort protocol grows with the number of agents in a VES: messages, bytes, the
// time until all views are right, and the processor time of an engine.
//
//   scale_bench OUTPUT.json
//
// Engines of the protocol, without their agents, run on a simulated network and clock. Each has a
// vPort with a MAC. Four events are measured, each without loss and with 1 % of the copies lost:
// all agents start at the same moment (also with 5 % lost); one more joins; one restarts; one MAC
// moves. Then 50 whole agents, with workers, on the software fabric and the machine's clock start,
// are joined by one more, and one of them is killed and starts again. The environment variable
// EOIB_BENCH_ROUNDS sets the number of rounds, each with its own seed.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "control/protocol/protocol_simulation_for_test.h"
#include "tests/bench/report.h"
#include "tests/bench/whole_agents.h"
#include "tests/lab/process.h"

namespace eoib::bench {
namespace {

using Traffic = ProtocolSimulation::Traffic;

constexpr size_t kAgents[] = {10, 30, 100, 300, 1000};
constexpr size_t kWholeAgents = 50;
constexpr size_t kFewest = kAgents[0], kMost = kAgents[std::size(kAgents) - 1];
// A share of lost copies, and how series and headings name it. After a cold start of the most
// agents all views have to be right within `required` milliseconds; `aim` is better.
struct Loss {
  double share;
  const char* infix;
  const char* heading;
  double required, aim;
  bool only_cold_start = false;
};
constexpr Loss kLosses[] = {
    {0, "_", "", 0, 0},
    {0.01, "_lossy_", ", 1 % lost", 5000, 2000},
    {0.05, "_lossy5_", ", 5 % lost", 10000, 4000, /*only_cold_start=*/true}};
const char* const kEvents[] = {"cold_start", "join", "restart", "move"};
// What an event's traffic is measured in: a newcomer is answered within a second.
constexpr absl::Duration kWindow = absl::Seconds(2);
constexpr absl::Duration kPatience = absl::Minutes(10);
// LRH, GRH, BTH, DETH, EoIB header, Ethernet header, ICRC, VCRC. The payloads are multiples of 4
// bytes, so two of them pad.
constexpr size_t kHeaders = 8 + 40 + 12 + 8 + 4 + 14 + 2 + 4 + 2;

// A column of the table, and the end of a series' name.
struct Figure {
  const char* name;
  const char* heading;
  const char* format;
};
constexpr Figure kFigures[] = {
    {"group_messages", "group", "%.0f"},
    {"unicast_messages", "unicast", "%.0f"},
    {"bytes", "kB sent", "%.1f"},
    {"delivered_bytes", "kB arrived", "%.0f"},
    {"converged", "right after ms", "%.1f"},
    {"repetitions", "heads", "%.0f"},
    {"cpu", "CPU/engine us", "%.0f"},
};

// "cold_start_lossy_1000_bytes".
std::string SeriesName(const std::string& event, const Loss& loss, size_t agents,
                       const std::string& figure) {
  return absl::StrCat(event, loss.infix, agents, "_", figure);
}

FdbKey MacOf(size_t host) { return FdbKey(Vid(1), MacAddr::FromUint64(0x0200'5e10'0000 + host)); }

// The engines, and the truth about them.
class Ves {
 public:
  Ves(uint64_t seed, const Loss& loss) : simulation_(seed) {
    simulation_.network() = {
        .loss = loss.share, .latency = absl::Microseconds(50), .jitter = absl::Microseconds(50)};
  }

  ProtocolSimulation& simulation() { return simulation_; }
  size_t size() { return simulation_.hosts().size(); }
  void Add() { simulation_.AddHost(); }
  void Start(size_t host) {
    simulation_.Start(host);
    Claim(host, host);
  }
  void Claim(size_t host, size_t mac) {
    if (!simulation_.engine(host).Claim(MacOf(mac), 1)) lab::Die("a MAC is not claimed");
    simulation_.Touch(host);
  }

  // Whether each engine knows all others' state and holders of MACs. Starts where it stopped the
  // last time, because a view that is right stays so after an event.
  bool AllRight() {
    for (; next_ < size() * size(); ++next_) {
      if (!IsRight(next_ / size(), next_ % size())) return false;
    }
    return true;
  }
  void Forget() { next_ = 0; }

 private:
  bool IsRight(size_t at, size_t of) {
    if (at == of) return true;
    const ProtocolSimulation::Host& host = simulation_.hosts()[of];
    const auto view = simulation_.engine(at).agents().find(host.id);
    if (view == simulation_.engine(at).agents().end()) return false;
    const OwnAgent& truth = host.engine->own();
    if (view->second->incarnation() != truth.incarnation() ||
        !(view->second->view() == truth.announced()))
      return false;
    if (truth.has_changes() || view->second->InUse() != std::vector{host.address}) return false;
    return std::all_of(
        truth.current().macs.begin(), truth.current().macs.end(), [&](const auto& mac) {
          return simulation_.engine(at).Holder(mac.first) == MacClaim{host.id, mac.second.sequence};
        });
  }

  ProtocolSimulation simulation_;
  size_t next_ = 0;
};

// Lets `event` happen, and reports what it costs until all views are right and all answers are
// sent.
void Measure(const std::string& name, const Loss& loss, size_t agents, Ves* ves,
             const std::function<void()>& event, Report* report) {
  ProtocolSimulation& simulation = ves->simulation();
  const Traffic before = simulation.traffic();
  const absl::Time begin = simulation.clock().Now();
  event();
  ves->Forget();
  if (!simulation.AdvanceUntil([ves] { return ves->AllRight(); }, kPatience))
    lab::Die(name + ": some views stay wrong");
  const absl::Duration converged = simulation.clock().Now() - begin;
  if (converged < kWindow) simulation.Advance(kWindow - converged);
  ves->Forget();
  if (!ves->AllRight()) lab::Die(name + ": some views are wrong again");

  const Traffic& after = simulation.traffic();
  const auto add = [&](const std::string& figure, double value) {
    report->Add(SeriesName(name, loss, agents, figure), value);
  };
  const auto difference = [&](auto member) {
    return static_cast<double>(after.*member - before.*member);
  };
  const double group = difference(&Traffic::group_messages),
               unicast = difference(&Traffic::unicast_messages);
  const double engines = static_cast<double>(ves->size());
  const double nanoseconds = absl::ToDoubleNanoseconds(after.engine_time - before.engine_time);
  add("group_messages", group);
  add("group_messages_per_agent", group / engines);
  add("unicast_messages", unicast);
  add("unicast_messages_per_agent", unicast / engines);
  add("bytes", (difference(&Traffic::bytes) + kHeaders * (group + unicast)) / 1e3);
  add("delivered_bytes",
      (difference(&Traffic::copied_bytes) + kHeaders * difference(&Traffic::copies)) / 1e3);
  add("repetitions", difference(&Traffic::repetitions));
  add("converged", absl::ToDoubleMilliseconds(converged));
  add("cpu", nanoseconds / 1e3 / engines);
  add("cpu_per_copy", nanoseconds / 1e3 / difference(&Traffic::copies));
}

// The four events, one after the other.
void MeasureVes(size_t agents, const Loss& loss, uint64_t seed, Report* report) {
  Ves ves(seed, loss);
  const auto measure = [&](const char* event, const std::function<void()>& happen) {
    Measure(event, loss, agents, &ves, happen, report);
  };
  for (size_t i = 0; i < agents; ++i) ves.Add();
  measure("cold_start", [&] {
    for (size_t i = 0; i < agents; ++i) ves.Start(i);
  });
  if (loss.only_cold_start) return;
  measure("join", [&] {
    ves.Add();
    ves.Start(agents);
  });
  measure("restart", [&] {
    ves.simulation().Crash(agents);
    ves.Start(agents);
  });
  measure("move", [&] { ves.Claim(1, 0); });
}

// The same with whole agents.
void MeasureWholeAgents(Report* report) {
  WholeAgents agents;
  const MonotonicClock clock;
  const auto measure = [&](const std::string& event, const std::function<void()>& happen) {
    const WholeAgents::Traffic before = agents.traffic();
    const absl::Time begin = clock.Now();
    happen();
    agents.RunUntilAllKnowAll();
    const absl::Duration time = clock.Now() - begin;
    const WholeAgents::Traffic after = agents.traffic();
    const auto add = [&](const char* figure, double value) {
      report->Add(SeriesName(absl::StrCat("whole_", event), kLosses[0], kWholeAgents, figure),
                  value);
    };
    add("group_messages", static_cast<double>(after.group_messages - before.group_messages));
    add("unicast_messages", static_cast<double>(after.unicast_messages - before.unicast_messages));
    add("converged", absl::ToDoubleMilliseconds(time));
  };
  measure("cold_start", [&] {
    for (size_t i = 0; i < kWholeAgents; ++i) agents.Start(i);
  });
  measure("join", [&] { agents.Start(kWholeAgents); });
  agents.Kill(kWholeAgents);
  measure("restart", [&] { agents.Start(kWholeAgents); });
}

// All engines run in this one process, so `cpu` depends on memory and its caches; it has no bound.
void AddRatios(Report* report) {
  for (const Loss& loss : kLosses) {
    const bool lossy = loss.share != 0;
    for (const std::string event : kEvents) {
      const auto compare = [&](const std::string& figure, absl::optional<double> most) {
        const std::string name =
            absl::StrCat(event, loss.infix, figure, "_", kMost, "_vs_", kFewest);
        report->Compare(name, SeriesName(event, loss, kMost, figure),
                        SeriesName(event, loss, kFewest, figure),
                        {.required = most, .at_most = true});
      };
      if (loss.only_cold_start && event != kEvents[0]) continue;
      if (event == kEvents[0]) {
        compare("group_messages_per_agent", 2);
        compare("unicast_messages_per_agent", absl::nullopt);
        compare("cpu_per_copy", absl::nullopt);
        if (lossy) {
          report->Compare(
              absl::StrCat(event, loss.infix, kMost, "_seconds"),
              SeriesName(event, loss, kMost, "converged"), "second",
              {.required = loss.required / 1000, .aim = loss.aim / 1000, .at_most = true});
        }
        continue;
      }
      compare("group_messages", lossy ? absl::nullopt : absl::optional<double>(2));
      if (event != "move") compare("unicast_messages_per_agent", 2);
    }
  }
}

// "12 (11-14)", or "12" if all are equal.
std::string Cell(const char* format, const Report::Summary& summary) {
  const auto print = [format](double value) {
    return absl::StrFormat(*absl::ParsedFormat<'f'>::New(format), value);
  };
  const std::string median = print(summary.median), min = print(summary.min),
                    max = print(summary.max);
  return min == max ? median : absl::StrCat(median, " (", min, "-", max, ")");
}

void PrintEvent(const Report& report, const char* event, const Loss& loss) {
  std::printf("%-28s", absl::StrCat(event, loss.heading).c_str());
  for (const Figure& figure : kFigures) std::printf(" %24s", figure.heading);
  for (const size_t agents : kAgents) {
    std::printf("\n%-28s", absl::StrCat(agents, " agents").c_str());
    for (const Figure& figure : kFigures) {
      std::printf(
          " %24s",
          Cell(figure.format, report.Of(SeriesName(event, loss, agents, figure.name))).c_str());
    }
  }
  std::printf("\n\n");
}

void PrintWholeAgents(const Report& report) {
  std::printf("%-28s %24s %24s %24s", absl::StrCat(kWholeAgents, " whole agents").c_str(), "group",
              "unicast", "right after ms");
  for (const char* event : {"cold_start", "join", "restart"}) {
    std::printf("\n%-28s", event);
    for (const char* figure : {"group_messages", "unicast_messages", "converged"}) {
      const std::string series =
          SeriesName(absl::StrCat("whole_", event), kLosses[0], kWholeAgents, figure);
      std::printf(" %24s", Cell("%.0f", report.Of(series)).c_str());
    }
  }
  std::printf("\n\n");
}

bool Run(const std::string& output) {
  const int rounds = FromEnvironment("EOIB_BENCH_ROUNDS", 3);
  Report report("scale", "messages, kB, ms, us");
  for (int round = 0; round < rounds; ++round) {
    for (const size_t agents : kAgents) {
      for (const Loss& loss : kLosses)
        MeasureVes(agents, loss, static_cast<uint64_t>(round) + 1, &report);
    }
    MeasureWholeAgents(&report);
    report.Add("second", 1000);
    std::fprintf(stderr, "round %d of %d\n", round + 1, rounds);
  }
  AddRatios(&report);
  report.PrintHeading();
  std::printf("median (smallest-largest) of %d rounds\n\n", rounds);
  for (const char* event : kEvents) {
    for (const Loss& loss : kLosses) {
      if (!loss.only_cold_start || event == kEvents[0]) PrintEvent(report, event, loss);
    }
  }
  PrintWholeAgents(report);
  return report.Finish(output);
}

}  // namespace
}  // namespace eoib::bench

int main(int argc, char** argv) { return eoib::bench::Main(argc, argv, eoib::bench::Run); }
