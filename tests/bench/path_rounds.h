// Rounds that measure several paths between hosts, one after the other, so that a busy machine
// treats them alike.
#ifndef EOIB_TESTS_BENCH_PATH_ROUNDS_H_
#define EOIB_TESTS_BENCH_PATH_ROUNDS_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "tests/bench/report.h"
#include "tests/lab/lab.h"

namespace eoib::bench {

// A path from one host to another, and their addresses on it.
struct Path {
  std::string name;
  lab::Host* from;
  lab::Host* to;
  std::string from_address, to_address;
};

// One round: for each path P tcp_P and tcp_back_P (Gb/s) of one stream each way, udp_P (kpps) of
// datagrams that have 64 bytes with their headers, and rtt_P (us). Each measurement takes
// `seconds`.
void MeasurePaths(absl::Span<const Path> paths, int seconds, Report* report);

// Runs `round` as often, and for as long, as EOIB_BENCH_ROUNDS and EOIB_BENCH_SECONDS say, then
// compares and writes the report. False if a required ratio is missed.
bool RunRounds(const std::string& name, absl::Span<const Report::RatioSpec> ratios,
               const std::string& output,
               absl::FunctionRef<void(Report* report, int seconds)> round);

}  // namespace eoib::bench

#endif  // EOIB_TESTS_BENCH_PATH_ROUNDS_H_
