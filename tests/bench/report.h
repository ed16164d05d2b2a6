// Report: what a benchmark measured, as a table for people and as JSON for whoever compares runs.
#ifndef EOIB_TESTS_BENCH_REPORT_H_
#define EOIB_TESTS_BENCH_REPORT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/types/optional.h"

namespace eoib::bench {

// The number in an environment variable, if it is one above 0: how long to measure, how often.
int FromEnvironment(const char* name, int otherwise);

// A benchmark's main: runs `run` with the path of the JSON file to write. The exit status: 1 if a required ratio was missed, 2
// for wrong arguments.
int Main(int argc, char** argv, bool (*run)(const std::string& output));

// Values that were measured in the same rounds. Ratios are formed within a round, so that what slows the machine down for a
// while slows both sides down.
class Report {
 public:
  // `unit` of the absolute figures: "Gb/s".
  Report(std::string name, std::string unit);

  // One measurement of `series`, in the order of the rounds.
  void Add(const std::string& series, double value);
  // `numerator` / `denominator`. `required`: the least median; below it Finish returns false and names it. `aim`: below it the
  // table says so. With `at_most` they are the most, and "below" is above.
  struct Bound {
    absl::optional<double> required;
    absl::optional<double> aim;
    bool at_most = false;
  };
  void Compare(const std::string& ratio, const std::string& numerator, const std::string& denominator, const Bound& bound);
  // The same as a row of a table.
  struct RatioSpec {
    const char* name;
    const char* numerator;
    const char* denominator;
    Bound bound;
  };

  struct Summary {
    double median = 0, min = 0, max = 0;
  };
  // All zero for a series that was not measured.
  Summary Of(const std::string& series) const;

  // Prints the table, with processor, kernel and date, and writes the file. False if a required ratio is not reached or was not
  // measured.
  bool Finish(const std::string& path) const;
  // The parts of Finish, for a benchmark that prints a table of its own. The file has {"ratios": {NAME: {"median", "min",
  // "max", "runs"}}, ...}.
  void PrintHeading() const;
  bool Write(const std::string& path) const;

 private:
  struct Ratio {
    std::string name, numerator, denominator;
    Bound bound;
  };
  std::vector<double> Values(const Ratio& ratio) const;
  bool PrintRatio(const Ratio& ratio) const;

  const std::string name_, unit_;
  std::vector<std::string> order_;
  std::map<std::string, std::vector<double>> series_;
  std::vector<Ratio> ratios_;
};

}  // namespace eoib::bench

#endif  // EOIB_TESTS_BENCH_REPORT_H_
