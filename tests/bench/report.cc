#include "tests/bench/report.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace eoib::bench {
namespace {

using Summary = Report::Summary;

Summary Summarise(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

std::string Processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (absl::StartsWith(line, "model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

std::string Machine() {
  return absl::StrCat(Processor(), ", ", std::thread::hardware_concurrency(), " cores");
}

std::string Kernel() {
  utsname names;
  return uname(&names) == 0 ? names.release : "unknown kernel";
}

std::string Date() {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::Now(), absl::UTCTimeZone());
}

nlohmann::json ToJson(const std::vector<double>& values) {
  const Summary summary = Summarise(values);
  return {{"median", summary.median},
          {"min", summary.min},
          {"max", summary.max},
          {"runs", values.size()},
          {"values", values}};
}

}  // namespace

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  int value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) && value > 0 ? value : otherwise;
}

int Main(int argc, char** argv, bool (*run)(const std::string& output)) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s OUTPUT.json\n", argv[0]);
    return 2;
  }
  return run(argv[1]) ? 0 : 1;
}

Report::Report(std::string name, std::string unit)
    : name_(std::move(name)), unit_(std::move(unit)) {}

void Report::Add(const std::string& series, double value) {
  if (series_.count(series) == 0) order_.push_back(series);
  series_[series].push_back(value);
}

void Report::Compare(const std::string& ratio, const std::string& numerator,
                     const std::string& denominator, const Bound& bound) {
  ratios_.push_back({ratio, numerator, denominator, bound});
}

std::vector<double> Report::Values(const Ratio& ratio) const {
  const auto above = series_.find(ratio.numerator), below = series_.find(ratio.denominator);
  std::vector<double> values;
  if (above == series_.end() || below == series_.end()) return values;
  for (size_t i = 0; i < std::min(above->second.size(), below->second.size()); ++i) {
    if (below->second[i] > 0) values.push_back(above->second[i] / below->second[i]);
  }
  return values;
}

bool Report::PrintRatio(const Ratio& ratio) const {
  const std::vector<double> values = Values(ratio);
  const Summary summary = Summarise(values);
  const auto holds = [&](double bound) {
    return !values.empty() &&
           (ratio.bound.at_most ? summary.median <= bound : summary.median >= bound);
  };
  const char* const beyond = ratio.bound.at_most ? "ABOVE the " : "BELOW the ";
  std::string verdict;
  bool reached = true;
  if (ratio.bound.required) {
    reached = holds(*ratio.bound.required);
    verdict = absl::StrCat(reached ? "" : beyond, "required ", *ratio.bound.required);
  }
  if (ratio.bound.aim) {
    const std::string side = absl::AsciiStrToLower(beyond);
    absl::StrAppend(&verdict, verdict.empty() ? "" : ", ", holds(*ratio.bound.aim) ? "" : side,
                    "aim ", *ratio.bound.aim);
  }
  std::printf("%-32s %10.3f %10.3f %10.3f %6zu  %s\n", ratio.name.c_str(), summary.median,
              summary.min, summary.max, values.size(), verdict.c_str());
  return reached;
}

Report::Summary Report::Of(const std::string& series) const {
  const auto found = series_.find(series);
  return found == series_.end() ? Summary() : Summarise(found->second);
}

void Report::PrintHeading() const {
  std::printf("\n%s: %s, Linux %s, %s\n\n", name_.c_str(), Machine().c_str(), Kernel().c_str(),
              Date().c_str());
}

bool Report::Finish(const std::string& path) const {
  PrintHeading();
  std::printf("%-32s %10s %10s %10s %6s\n", unit_.c_str(), "median", "min", "max", "runs");
  for (const std::string& series : order_) {
    const Summary summary = Of(series);
    std::printf("%-32s %10.3f %10.3f %10.3f %6zu\n", series.c_str(), summary.median, summary.min,
                summary.max, series_.at(series).size());
  }
  std::printf("\n");
  const bool reached = Judge(ratios_);
  return Write(path) && reached;
}

bool Report::Judge() const {
  std::vector<Ratio> bounded;
  for (const Ratio& ratio : ratios_) {
    if (ratio.bound.required || ratio.bound.aim) bounded.push_back(ratio);
  }
  return Judge(bounded);
}

bool Report::Judge(const std::vector<Ratio>& ratios) const {
  std::printf("%-32s %10s %10s %10s %6s\n", "ratio", "median", "min", "max", "runs");
  std::string missed;
  for (const Ratio& ratio : ratios) {
    if (!PrintRatio(ratio)) absl::StrAppend(&missed, " ", ratio.name);
  }
  if (!missed.empty()) std::fprintf(stderr, "required and missed:%s\n", missed.c_str());
  return missed.empty();
}

bool Report::Write(const std::string& path) const {
  nlohmann::json json = {{"name", name_},          {"unit", unit_},
                         {"processor", Machine()}, {"kernel", Kernel()},
                         {"date", Date()},         {"ratios", nlohmann::json::object()}};
  for (const std::string& series : order_) json["series"][series] = ToJson(series_.at(series));
  for (const Ratio& ratio : ratios_) json["ratios"][ratio.name] = ToJson(Values(ratio));
  std::ofstream file(path, std::ios::trunc);
  file << json.dump(2) << "\n";
  if (!file.flush()) {
    std::fprintf(stderr, "write %s failed\n", path.c_str());
    return false;
  }
  std::printf("\nwritten to %s\n", path.c_str());
  return true;
}

}  // namespace eoib::bench
