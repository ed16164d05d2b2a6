// Measures what a user can have between two hosts: eoib, kernel VXLAN with super-frames from end to
// end and on a true wire, Open vSwitch's VXLAN in user space, and a bare veth, in interleaved
// rounds between the same two network namespaces.
//
//   net_bench OUTPUT.json
//
// Interfaces stand directly on the TAP or tunnel. EOIB_BENCH_ROUNDS and EOIB_BENCH_SECONDS (of each
// measurement) set the duration. README.md ("net") has the table.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bench/measurements.h"
#include "tests/bench/net_paths.h"
#include "tests/bench/report.h"

namespace eoib::bench {
namespace {

using Bound = Report::Bound;

constexpr int kDatagram = 64;  // bytes of payload
constexpr int kPings = 20'000;
constexpr int kRequests = 10'000;
constexpr double kTolerableLoss = 0.001;
constexpr int kLosses[] = {1'000, 10'000};  // datagrams of a million

// More is better.
Bound AtLeast(double required, double aim) { return {required, aim}; }
// Less is better.
Bound AtMost(double required, double aim) { return {required, aim, /*at_most=*/true}; }

const Report::RatioSpec kRatios[] = {
    {"tcp1_vs_vxlan", "tcp1_eoib", "tcp1_vxlan", AtLeast(0.45, 0.65)},
    {"tcp4_vs_vxlan", "tcp4_eoib", "tcp4_vxlan", AtLeast(0.4, 0.55)},
    {"tcp1_vs_vxlan_wire", "tcp1_eoib", "tcp1_vxlan_wire", AtLeast(1.4, 2.0)},
    {"tcp1_1500_vs_vxlan_wire_1500", "tcp1_eoib_1500", "tcp1_vxlan_wire_1500", AtLeast(3, 4.5)},
    {"tcp1_vs_ovs", "tcp1_eoib", "tcp1_ovs", AtLeast(9, 14)},
    {"tcp1_vs_veth", "tcp1_eoib", "tcp1_veth", {}},
    {"udp64_vs_vxlan", "udp64_eoib", "udp64_vxlan", AtLeast(1.4, 2.2)},
    {"udp64_loss", "udp64_loss_eoib", "one", AtMost(0.15, 0.05)},
    {"udp64_lossless_vs_vxlan", "udp64_lossless_eoib", "udp64_lossless_vxlan", {}},
    {"ping_avg_vs_vxlan", "ping_avg_eoib", "ping_avg_vxlan", AtMost(4, 2)},
    {"rr_p50_vs_vxlan", "rr_p50_eoib", "rr_p50_vxlan", AtMost(1.2, 0.7)},
    {"cpu_per_gb_vs_vxlan", "cpu_per_gb_eoib", "cpu_per_gb_vxlan", AtMost(2, 1.3)},
    {"tcp_loss_1000_vs_vxlan", "tcp_loss_1000_eoib", "tcp_loss_1000_vxlan", {}},
    {"tcp_loss_10000_vs_vxlan", "tcp_loss_10000_eoib", "tcp_loss_10000_vxlan", {}},
};

// One round over all paths. A measurement goes over all paths before the next one starts, so that
// they see the same machine.
class Round {
 public:
  Round(NetPaths* paths, int seconds, Report* report)
      : paths_(paths), seconds_(seconds), report_(report) {}

  void MeasureAll() {
    report_->Add("one", 1);
    for (const NetPath& path : paths_->paths()) MeasureTcp(path, 1);
    for (const NetPath& path : paths_->paths()) MeasureTcp(path, 4);
    for (const NetPath& path : paths_->paths()) MeasureDatagrams(path);
    paths_->SeparateProcessors(true);
    for (const NetPath& path : paths_->paths()) MeasureTimes(path);
    paths_->SeparateProcessors(false);
    for (const char* name : {"eoib", "vxlan"}) MeasureLosslessRate(paths_->path(name));
    for (const int loss : kLosses) {
      for (const char* name : {"eoib", "vxlan"}) MeasureTcpWithLoss(paths_->path(name), loss);
    }
  }

 private:
  static std::string To(const NetPath& path) { return path.subnet + "2"; }
  double Tcp(const NetPath& path, int streams) {
    return TcpStream(paths_->one(), paths_->two(), To(path), seconds_, streams).Finish();
  }
  void Add(const std::string& figure, const NetPath& path, double value) {
    report_->Add(absl::StrCat(figure, "_", path.name), value);
  }

  void MeasureTcp(const NetPath& path, int streams) {
    const double before = BusySeconds();
    const double gigabits = Tcp(path, streams);
    const double busy = BusySeconds() - before;
    Add(absl::StrCat("tcp", streams), path, gigabits);
    if (streams == 1) Add("cpu_per_gb", path, busy / (gigabits / 8 * seconds_));
  }

  void MeasureDatagrams(const NetPath& path) {
    const DatagramLoad load =
        SendDatagrams(paths_->one(), paths_->two(), To(path), kDatagram, seconds_);
    Add("udp64", path, load.delivered);
    Add("udp64_loss", path, load.lost);
  }

  void MeasureTimes(const NetPath& path) {
    const FloodPing ping = PingFlood(paths_->one(), To(path), kPings);
    Add("ping_min", path, ping.min);
    Add("ping_avg", path, ping.mean);
    const ResponseTimes times =
        RequestAndRespond(paths_->one(), paths_->two(), To(path), kRequests);
    Add("rr_p50", path, times.p50);
    Add("rr_p99", path, times.p99);
  }

  // The highest rate at which at most kTolerableLoss is lost, to an eighth, in thousands of
  // datagrams a second.
  void MeasureLosslessRate(const NetPath& path) {
    double good = 0, bad = 256;
    for (int step = 0; step < 5; ++step) {
      const double rate = (good + bad) / 2;
      const auto bits = static_cast<int64_t>(rate * 1e3 * kDatagram * 8);
      const DatagramLoad load =
          SendDatagrams(paths_->one(), paths_->two(), To(path), kDatagram, 1, bits);
      // The sender may be too slow for the rate; then a higher one would be no other.
      (load.lost <= kTolerableLoss ? good : bad) =
          load.lost <= kTolerableLoss ? std::min(rate, load.delivered) : rate;
      if (load.lost <= kTolerableLoss && load.delivered < rate * 0.95) break;
    }
    Add("udp64_lossless", path, good);
  }

  void MeasureTcpWithLoss(const NetPath& path, int per_million) {
    paths_->LoseDatagrams(path, per_million);
    Add(absl::StrCat("tcp_loss_", per_million), path, Tcp(path, 1));
    paths_->LoseDatagrams(path, 0);
  }

  NetPaths* const paths_;
  const int seconds_;
  Report* const report_;
};

// A column of the table.
struct Figure {
  const char* series;
  const char* heading;
  const char* format;
};
constexpr Figure kFigures[] = {{"tcp1", "TCP x1", "%.1f"},        {"tcp4", "TCP x4", "%.1f"},
                               {"udp64", "UDP kpps", "%.0f"},     {"udp64_loss", "lost", "%.2f"},
                               {"ping_min", "ping min", "%.0f"},  {"ping_avg", "avg us", "%.0f"},
                               {"rr_p50", "r-r p50", "%.0f"},     {"rr_p99", "p99 us", "%.0f"},
                               {"cpu_per_gb", "CPU s/GB", "%.2f"}};

void PrintTable(const Report& report, const std::vector<NetPath>& paths) {
  std::printf("medians\n%-16s", "");
  for (const Figure& figure : kFigures) std::printf(" %10s", figure.heading);
  for (const NetPath& path : paths) {
    std::printf("\n%-16s", path.name.c_str());
    for (const Figure& figure : kFigures) {
      const double median = report.Of(absl::StrCat(figure.series, "_", path.name)).median;
      char text[32];
      std::snprintf(text, sizeof(text), figure.format, median);
      std::printf(" %10s", text);
    }
  }
  std::printf("\n\n");
}

bool Run(const std::string& output) {
  const int rounds = FromEnvironment("EOIB_BENCH_ROUNDS", 5),
            seconds = FromEnvironment("EOIB_BENCH_SECONDS", 2);
  NetPaths paths;
  Report report("net", "Gb/s, thousands a second, us, s");
  for (int round = 0; round < rounds; ++round) {
    Round(&paths, seconds, &report).MeasureAll();
    std::fprintf(stderr, "round %d of %d\n", round + 1, rounds);
  }
  for (const Report::RatioSpec& ratio : kRatios)
    report.Compare(ratio.name, ratio.numerator, ratio.denominator, ratio.bound);
  PrintTable(report, paths.paths());
  return report.Finish(output);
}

}  // namespace
}  // namespace eoib::bench

int main(int argc, char** argv) { return eoib::bench::Main(argc, argv, eoib::bench::Run); }
