#include "tests/bench/path_rounds.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "tests/bench/measurements.h"

namespace eoib::bench {
namespace {

constexpr int kPayload = 22;  // with headers of UDP, IPv4 and Ethernet 64 bytes
constexpr int kPings = 500;

}  // namespace

void MeasurePaths(absl::Span<const Path> paths, int seconds, Report* report) {
  for (const Path& path : paths) {
    report->Add(absl::StrCat("tcp_", path.name, " (Gb/s)"),
                TcpStream(path.from, path.to, path.to_address, seconds).Finish());
  }
  for (const Path& path : paths) {
    report->Add(absl::StrCat("tcp_back_", path.name, " (Gb/s)"),
                TcpStream(path.to, path.from, path.from_address, seconds).Finish());
  }
  for (const Path& path : paths) {
    report->Add(absl::StrCat("udp_", path.name, " (kpps)"),
                DatagramRate(path.from, path.to, path.to_address, kPayload, seconds));
  }
  for (const Path& path : paths) {
    report->Add(absl::StrCat("rtt_", path.name, " (us)"),
                MedianRoundTrip(path.from, path.to_address, kPings));
  }
}

bool RunRounds(const std::string& name, absl::Span<const Report::RatioSpec> ratios,
               const std::string& output,
               absl::FunctionRef<void(Report* report, int seconds)> round) {
  const int rounds = FromEnvironment("EOIB_BENCH_ROUNDS", 5),
            seconds = FromEnvironment("EOIB_BENCH_SECONDS", 2);
  Report report(name, "");
  for (int i = 0; i < rounds; ++i) {
    std::printf("round %d of %d\n", i + 1, rounds);
    std::fflush(stdout);
    round(&report, seconds);
  }
  for (const Report::RatioSpec& ratio : ratios)
    report.Compare(ratio.name, ratio.numerator, ratio.denominator, ratio.bound);
  return report.Finish(output);
}

}  // namespace eoib::bench
