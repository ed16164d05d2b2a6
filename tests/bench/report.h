// Report: the results of a benchmark, as a table for people and as JSON for the comparison of runs.
#ifndef EOIB_TESTS_BENCH_REPORT_H_
#define EOIB_TESTS_BENCH_REPORT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/types/optional.h"

namespace eoib::bench {

// The positive number in an environment variable, such as a duration or a number of rounds; else
// `otherwise`.
int FromEnvironment(const char* name, int otherwise);

// A benchmark's main: calls `run` with the path of the JSON file to write. The exit status is 1 if
// a required ratio was missed, 2 for wrong arguments.
int Main(int argc, char** argv, bool (*run)(const std::string& output));

// Values that were measured in the same rounds. Ratios are formed within a round, so that a
// temporary slowdown of the machine affects both sides.
class Report {
 public:
  // `unit` is that of the absolute figures, such as "Gb/s".
  Report(std::string name, std::string unit);

  // One measurement of `series`, in the order of the rounds.
  void Add(const std::string& series, double value);
  // Reports `numerator` / `denominator`. `required` is the smallest allowed median: Finish returns
  // false and names a ratio below it. `aim` is only printed if missed. With `at_most` both are
  // upper bounds.
  struct Bound {
    absl::optional<double> required;
    absl::optional<double> aim;
    bool at_most = false;
  };
  void Compare(const std::string& ratio, const std::string& numerator,
               const std::string& denominator, const Bound& bound);
  // The arguments of Compare, as a row of a table.
  struct RatioSpec {
    const char* name;
    const char* numerator;
    const char* denominator;
    Bound bound;
  };

  struct Summary {
    double median = 0, min = 0, max = 0;
  };
  // The summary of a series; all zero if it was not measured.
  Summary Of(const std::string& series) const;

  // Prints the table with processor, kernel and date, and writes the file. False if a required
  // ratio was missed or not measured.
  bool Finish(const std::string& path) const;
  // The parts of Finish, for a benchmark that prints a table of its own. The file has {"ratios":
  // {NAME: {"median", "min", "max", "runs"}}, ...}.
  void PrintHeading() const;
  // Prints the ratios that have a bound. False if a required one was missed or not measured.
  bool Judge() const;
  bool Write(const std::string& path) const;

 private:
  struct Ratio {
    std::string name, numerator, denominator;
    Bound bound;
  };
  std::vector<double> Values(const Ratio& ratio) const;
  bool PrintRatio(const Ratio& ratio) const;
  bool Judge(const std::vector<Ratio>& ratios) const;

  const std::string name_, unit_;
  std::vector<std::string> order_;
  std::map<std::string, std::vector<double>> series_;
  std::vector<Ratio> ratios_;
};

}  // namespace eoib::bench

#endif  // EOIB_TESTS_BENCH_REPORT_H_
