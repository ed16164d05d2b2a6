// Measures the forwarder's stages: nanoseconds a frame for each stage, in both directions, with
// 1,000 and with 1,000,000 MACs in the FDB.
//
//   forward_bench OUTPUT.json
//
// One thread polls two agents' data paths on an in-process software subnet: a port of the first
// sends batches of 64 frames, which the second delivers to its port. Half of the MACs are behind
// each agent. Source and destination of a frame are random, so that a large FDB does not fit the
// cache. The ports are memory, not TAPs; the flame graphs show the kernel's cost. The environment
// variable EOIB_BENCH_ROUNDS sets the number of rounds.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/bench/generator_port.h"
#include "tests/bench/report.h"
#include "tests/lab/frames.h"
#include "tests/lab/process.h"
#include "vswitch/forwarder/forwarder_test_fixture.h"

namespace eoib::bench {
namespace {

constexpr size_t kBatch = Forwarder::kBatch;
constexpr size_t kBatches = 500;  // in a measurement
constexpr size_t kWarmUp = 100;   // before it, because other measurements have used the caches
constexpr size_t kMacCounts[] = {1'000, 1'000'000};
constexpr size_t kFrameSizes[] = {64, 1500};
const char* const kStageNames[] = {"receive",      "decapsulate", "parse",   "admit",
                                   "canonicalise", "learn",       "resolve", "transmit",
                                   "flush",        "refill",      "reap"};
static_assert(std::size(kStageNames) == kStages);

int64_t Nanoseconds() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// "1k" or "1M".
std::string CountName(size_t macs) {
  return macs >= 1'000'000 ? absl::StrCat(macs / 1'000'000, "M") : absl::StrCat(macs / 1000, "k");
}

// "from_port_64B_1k_learn".
std::string SeriesName(const std::string& direction, size_t size, const std::string& count,
                       const std::string& what) {
  return absl::StrCat(direction, "_", size, "B_", count, "_", what);
}

// Adds up the time from one stage's end to the next one's.
class StageTimes final : public StageProbe {
 public:
  void Begin() { last_ = Nanoseconds(); }
  void Passed(Stage stage) noexcept override {
    const int64_t now = Nanoseconds();
    nanoseconds_[static_cast<size_t>(stage)] += now - last_;
    last_ = now;
  }
  int64_t operator[](Stage stage) const { return nanoseconds_[static_cast<size_t>(stage)]; }

 private:
  int64_t last_ = 0;
  std::array<int64_t, kStages> nanoseconds_{};
};

// An agent's data path with a port.
struct Agent {
  Agent(softhca::Subnet* subnet, const std::string& name, const Clock* clock, size_t macs)
      : host(subnet, name, clock, {.pkey = softhca::kDefaultPKey, .fdb_limit = macs + 2}) {
    host.forwarder()->AddPort(&port, {});
  }
  VPortId local() { return host.forwarder()->ports()[0].vport; }
  VPortId Find(MacAddr mac) {
    const FdbKey key(Vid(0), mac);
    VPortId found = VPortId::None();
    host.fdb()->Find({&key, 1}, {&found, 1});
    return found;
  }

  GeneratorPort port;
  Host host;
};

// Two agents that know `macs` addresses, half of them behind each agent.
class Pair {
 public:
  explicit Pair(size_t macs)
      : macs_(macs),
        first_(&subnet_, "first", &clock_, macs),
        second_(&subnet_, "second", &clock_, macs) {
    SetFrameSize(64);
    Introduce(&first_, Mac(0));
    Introduce(&second_, Mac(macs / 2));
    Fill(&first_, first_.local(), first_.Find(Mac(macs / 2)));
    Fill(&second_, second_.Find(Mac(0)), second_.local());
  }

  // Bytes from the destination MAC on: a UDP datagram whose checksum is left to the interface, as
  // the kernel does.
  void SetFrameSize(size_t size) {
    const lab::Flow4 flow{MacAddr(), MacAddr(), {10, 0, 0, 1}, {10, 0, 0, 2}};
    first_.port.SetFrame(lab::UdpDatagram(flow, 1, 2, lab::Bytes(size - kHeaders)),
                         {true, kUdpStart, kUdpChecksum});
  }

  // Brings caches, rings and tables into a steady state.
  void WarmUp() {
    Run(kWarmUp, nullptr, nullptr);
    Settle();
  }

  // The nanoseconds of all batches.
  struct Whole {
    int64_t from_port = 0, from_fabric = 0;
    size_t delivered = 0;
  };
  // Sends `batches` batches through both agents; the probes, if any, measure their stages.
  Whole Run(size_t batches, StageTimes* port_times, StageTimes* fabric_times) {
    first_.host.forwarder()->SetProbe(port_times);
    second_.host.forwarder()->SetProbe(fabric_times);
    const size_t before = second_.port.delivered();
    Whole whole;
    for (size_t i = 0; i < batches; ++i) {
      Draw();
      const int64_t begin = Nanoseconds();
      if (port_times != nullptr) port_times->Begin();
      first_.host.forwarder()->PollPort(0);
      first_.host.forwarder()->Housekeep();
      const int64_t middle = Nanoseconds();
      if (fabric_times != nullptr) fabric_times->Begin();
      second_.host.forwarder()->PollFabric();
      second_.host.forwarder()->Housekeep();
      whole.from_port += middle - begin;
      whole.from_fabric += Nanoseconds() - middle;
    }
    whole.delivered = second_.port.delivered() - before;
    return whole;
  }

  size_t macs() const { return macs_; }

 private:
  static constexpr uint16_t kUdpStart = kEthernetHeaderSize + 20, kUdpChecksum = 6;
  static constexpr size_t kHeaders = kUdpStart + 8;

  static MacAddr Mac(size_t index) { return MacAddr::FromUint64(0x02'00'00'00'00'00 + index); }

  // A frame from `mac` behind `agent`: the other agent learns the MAC.
  void Introduce(Agent* agent, MacAddr mac) {
    if (agent == &second_) second_.port.SetFrame(MakeFrame(MacAddr(), MacAddr()), {});
    agent->port.Queue(MacAddr::Broadcast(), mac);
    agent->host.forwarder()->PollPort(0);
    Settle();
  }

  // Polls until nothing moves any more.
  void Settle() {
    while (first_.host.Turn() | second_.host.Turn() | first_.host.ResolvePunts() |
           second_.host.ResolvePunts()) {
    }
  }

  void Fill(Agent* agent, VPortId low, VPortId high) {
    if (low.IsNone() || high.IsNone()) lab::Die("the agents do not know each other");
    for (size_t i = 0; i < macs_; ++i) {
      const VPortId vport = i < macs_ / 2 ? low : high;
      agent->host.fdb()->Learn(
          FdbKey(Vid(0), Mac(i)), vport,
          vport == agent->local() ? FdbOrigin::kLocalLearned : FdbOrigin::kRemoteLearned);
    }
    if (agent->host.fdb()->size() != macs_) lab::Die("the FDB did not take all addresses");
  }

  void Draw() {
    for (size_t i = 0; i < kBatch; ++i)
      first_.port.Queue(Mac(macs_ / 2 + random_() % (macs_ / 2)), Mac(random_() % (macs_ / 2)));
  }

  const size_t macs_;
  std::mt19937_64 random_{1};
  MonotonicClock clock_;
  softhca::Subnet subnet_;
  Agent first_, second_;
};

// The machine's limits: the least cost of a stage that copies a frame or looks up an address.
class Limits {
 public:
  explicit Limits(size_t macs) : lines_(macs), keys_(kBatch), places_(kBatch) {
    for (size_t i = 0; i < macs; ++i) table_[FdbKey(Vid(0), MacAddr::FromUint64(i))] = MacEntry();
  }

  size_t macs() const { return lines_.size(); }
  double Copy(size_t size) {
    return Measure([] {},
                   [&] {
                     for (size_t i = 0; i < kBatch; ++i)
                       std::memcpy(NextBuffer(), template_.data(), size);
                   });
  }
  double HashLookup() {
    return Measure(
        [&] {
          for (FdbKey& key : keys_)
            key = FdbKey(Vid(0), MacAddr::FromUint64(random_() % lines_.size()));
        },
        [&] {
          for (FdbKey key : keys_) sink_ = sink_ + table_.find(key)->second.last_seen;
        });
  }
  double LineRead() {
    return Measure(
        [&] {
          for (size_t& place : places_) place = random_() % lines_.size();
        },
        [&] {
          for (size_t place : places_) sink_ = sink_ + lines_[place].bytes[0];
        });
  }
  double Timestamp() {
    return Measure([] {}, [&] { sink_ = sink_ + static_cast<uint64_t>(Nanoseconds()); });
  }

 private:
  struct alignas(64) Line {
    uint64_t bytes[8] = {};
  };
  static constexpr size_t kBuffers = 1024, kStride = 4160;  // as an agent's pool

  uint8_t* NextBuffer() { return &buffers_[next_++ % kBuffers * kStride]; }

  // Nanoseconds of a 64th of `work`; `prepare` runs before each and does not count.
  template <typename Prepare, typename Work>
  double Measure(Prepare prepare, Work work) {
    int64_t sum = 0;
    for (size_t i = 0; i < kWarmUp + kBatches; ++i) {
      prepare();
      const int64_t begin = Nanoseconds();
      work();
      if (i >= kWarmUp) sum += Nanoseconds() - begin;
    }
    return static_cast<double>(sum) / (kBatches * kBatch);
  }

  std::mt19937_64 random_{2};
  std::vector<Line> lines_;
  absl::flat_hash_map<FdbKey, MacEntry> table_;
  std::vector<FdbKey> keys_;
  std::vector<size_t> places_;
  std::vector<uint8_t> template_ = std::vector<uint8_t>(kStride);
  std::vector<uint8_t> buffers_ = std::vector<uint8_t>(kBuffers * kStride);
  size_t next_ = 0;
  volatile uint64_t sink_ = 0;
};

// The stages of a direction, in order.
struct Direction {
  const char* name;
  std::vector<Stage> stages;
};
const Direction kFromPort = {
    "from_port",
    {Stage::kReceive, Stage::kParse, Stage::kAdmit, Stage::kCanonicalise, Stage::kLearn,
     Stage::kResolve, Stage::kTransmit, Stage::kFlush, Stage::kReap}};
const Direction kFromFabric = {
    "from_fabric",
    {Stage::kReceive, Stage::kDecapsulate, Stage::kParse, Stage::kAdmit, Stage::kLearn,
     Stage::kResolve, Stage::kTransmit, Stage::kFlush, Stage::kRefill, Stage::kReap}};

// The names of a direction's rows: its stages, their sum, and the time of the whole without probes.
std::vector<std::string> RowNames(const Direction& direction) {
  std::vector<std::string> names;
  for (Stage stage : direction.stages) names.push_back(kStageNames[static_cast<size_t>(stage)]);
  names.push_back("sum");
  names.push_back("whole");
  return names;
}

void AddTimes(Report* report, const Direction& direction, size_t size, size_t macs,
              const StageTimes& times, int64_t whole) {
  constexpr double kFrames = kBatches * kBatch;
  const auto add = [&](const std::string& what, int64_t nanoseconds) {
    report->Add(SeriesName(direction.name, size, CountName(macs), what),
                static_cast<double>(nanoseconds) / kFrames);
  };
  int64_t sum = 0;
  for (Stage stage : direction.stages) {
    add(kStageNames[static_cast<size_t>(stage)], times[stage]);
    sum += times[stage];
  }
  add("sum", sum);
  add("whole", whole);
}

// What the switch does with a frame that it has from a port: all stages from its headers to its
// post. Their share of the time without a probe, because the probe's timestamps take time too.
void AddForwardTime(Report* report, size_t macs, const StageTimes& times, int64_t whole) {
  int64_t sum = 0;
  for (Stage stage : kFromPort.stages) sum += times[stage];
  const int64_t forward = sum - times[Stage::kReceive] - times[Stage::kReap];
  const double share = static_cast<double>(forward) / static_cast<double>(sum);
  report->Add("forward_" + CountName(macs),
              share * static_cast<double>(whole) / (kBatches * kBatch));
}

void MeasurePair(Pair* pair, size_t size, Report* report) {
  StageTimes port_times, fabric_times;
  pair->SetFrameSize(size);
  pair->WarmUp();
  const size_t delivered = pair->Run(kBatches, &port_times, &fabric_times).delivered;
  const Pair::Whole whole = pair->Run(kBatches, nullptr, nullptr);
  if (delivered != kBatches * kBatch || whole.delivered != kBatches * kBatch)
    lab::Die("not every frame was delivered");
  AddTimes(report, kFromPort, size, pair->macs(), port_times, whole.from_port);
  if (size == kFrameSizes[0]) AddForwardTime(report, pair->macs(), port_times, whole.from_port);
  AddTimes(report, kFromFabric, size, pair->macs(), fabric_times, whole.from_fabric);
}

void MeasureLimits(Limits* limits, Report* report) {
  const std::string count = CountName(limits->macs());
  report->Add("limit_hash_lookup_" + count, limits->HashLookup());
  report->Add("limit_line_read_" + count, limits->LineRead());
  if (limits->macs() != kMacCounts[0]) return;
  for (size_t size : kFrameSizes)
    report->Add(absl::StrCat("limit_copy_", size, "B"), limits->Copy(size));
  report->Add("limit_timestamp", limits->Timestamp());
}

void AddRatios(Report* report, const Direction& direction, size_t size) {
  const std::string small = CountName(kMacCounts[0]), large = CountName(kMacCounts[1]);
  for (const std::string& row : RowNames(direction)) {
    report->Compare(SeriesName(direction.name, size, row, absl::StrCat(large, "_vs_", small)),
                    SeriesName(direction.name, size, large, row),
                    SeriesName(direction.name, size, small, row), {});
    for (const std::string& count : {small, large}) {
      const char* const kind = row == "whole" ? "_vs_sum" : "_share";
      report->Compare(SeriesName(direction.name, size, count, row + kind),
                      SeriesName(direction.name, size, count, row),
                      SeriesName(direction.name, size, count, "sum"), {});
    }
  }
}

// "12.3 (11.9-14.0)".
std::string Cell(const Report::Summary& summary) {
  return absl::StrFormat("%.1f (%.1f-%.1f)", summary.median, summary.min, summary.max);
}

void PrintDirection(const Report& report, const Direction& direction) {
  std::printf("%-13s", direction.name);
  for (size_t size : kFrameSizes) {
    for (size_t macs : kMacCounts)
      std::printf(" %22s", absl::StrCat(size, " B, ", CountName(macs)).c_str());
  }
  std::printf("\n");
  for (const std::string& row : RowNames(direction)) {
    std::printf("%-13s", row.c_str());
    for (size_t size : kFrameSizes) {
      for (size_t macs : kMacCounts) {
        std::printf(
            " %22s",
            Cell(report.Of(SeriesName(direction.name, size, CountName(macs), row))).c_str());
      }
    }
    std::printf("\n");
  }
  std::printf("\n");
}

void PrintLimits(const Report& report) {
  const std::string small = CountName(kMacCounts[0]), large = CountName(kMacCounts[1]);
  std::printf("%-28s %22s %22s\n", "the machine", (small + " or 64 B").c_str(),
              (large + " or 1500 B").c_str());
  for (const char* limit : {"hash_lookup", "line_read"}) {
    std::printf("%-28s %22s %22s\n", limit,
                Cell(report.Of(absl::StrCat("limit_", limit, "_", small))).c_str(),
                Cell(report.Of(absl::StrCat("limit_", limit, "_", large))).c_str());
  }
  std::printf("%-28s %22s %22s\n", "copy", Cell(report.Of("limit_copy_64B")).c_str(),
              Cell(report.Of("limit_copy_1500B")).c_str());
  std::printf("%-28s %22s\n", "timestamp, one a batch", Cell(report.Of("limit_timestamp")).c_str());
}

bool Run(const std::string& output) {
  const int rounds = FromEnvironment("EOIB_BENCH_ROUNDS", 31);
  std::vector<std::unique_ptr<Pair>> pairs;
  std::vector<std::unique_ptr<Limits>> limits;
  for (size_t macs : kMacCounts) {
    pairs.push_back(std::make_unique<Pair>(macs));
    limits.push_back(std::make_unique<Limits>(macs));
  }
  Report report("forward", "ns a frame");
  for (int round = 0; round < rounds; ++round) {
    for (auto& pair : pairs) {
      for (size_t size : kFrameSizes) MeasurePair(pair.get(), size, &report);
    }
    for (auto& limit : limits) MeasureLimits(limit.get(), &report);
  }
  for (int round = 0; round < rounds; ++round) report.Add("one", 1);
  report.Compare("forward_ns_1M", "forward_1M", "one",
                 {.required = 120, .aim = 80, .at_most = true});
  for (const Direction* direction : {&kFromPort, &kFromFabric}) {
    for (size_t size : kFrameSizes) AddRatios(&report, *direction, size);
  }
  report.PrintHeading();
  std::printf("ns a frame: median (smallest-largest) of %d rounds, by frame size and MACs\n\n",
              rounds);
  for (const Direction* direction : {&kFromPort, &kFromFabric}) PrintDirection(report, *direction);
  PrintLimits(report);
  std::printf("\n");
  const bool reached = report.Judge();
  return report.Write(output) && reached;
}

}  // namespace
}  // namespace eoib::bench

int main(int argc, char** argv) { return eoib::bench::Main(argc, argv, eoib::bench::Run); }
