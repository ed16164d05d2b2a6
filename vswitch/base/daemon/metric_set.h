// MetricSet: the metrics of a program at one moment, and MetricRegistry, which makes them. Each
// component's owner registers a collector for that component's counters, as it registers commands.
#ifndef EOIB_VSWITCH_BASE_DAEMON_METRIC_SET_H_
#define EOIB_VSWITCH_BASE_DAEMON_METRIC_SET_H_

#include <prometheus/metric_family.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace eoib {

class MetricSet {
 public:
  using Labels = std::vector<prometheus::ClientMetric::Label>;
  using Families = std::vector<prometheus::MetricFamily>;

  // Each adds one series. Their metrics are eoib_NAME_total, eoib_NAME, and eoib_NAME_info, whose
  // value is always 1. Use labels whose values the configuration or the code bounds, never
  // addresses.
  void Counter(absl::string_view name, absl::string_view help, Labels labels, uint64_t value);
  void Gauge(absl::string_view name, absl::string_view help, Labels labels, double value);
  void Info(absl::string_view name, absl::string_view help, Labels labels);
  // Adds a Counter with the name PREFIXname for each of `counters` (base/counters.h).
  template <typename All>
  void Counters(absl::string_view prefix, const Labels& labels, const All& counters) {
    counters.ForEach([&](const char* name, uint64_t value, const char* help) {
      Counter(absl::StrCat(prefix, name), help, labels, value);
    });
  }

  // Takes all series, in the order of the metrics' names.
  Families Take();

 private:
  void Add(std::string name, absl::string_view help, prometheus::MetricType type,
           prometheus::ClientMetric series);

  std::map<std::string, prometheus::MetricFamily> families_;
};

// Control thread only.
class MetricRegistry {
 public:
  using Collector = std::function<void(MetricSet*)>;

  MetricRegistry() = default;
  MetricRegistry(const MetricRegistry&) = delete;
  MetricRegistry& operator=(const MetricRegistry&) = delete;

  // `collector` reads counters and returns soon: the control thread waits for it.
  void Register(Collector collector) { collectors_.push_back(std::move(collector)); }
  MetricSet::Families Collect() const;

 private:
  std::vector<Collector> collectors_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_METRIC_SET_H_
