#include "vswitch/base/daemon/metric_set.h"

#include "absl/strings/str_cat.h"
#include "vswitch/base/check.h"

namespace eoib {

using prometheus::ClientMetric;
using prometheus::MetricType;

void MetricSet::Counter(absl::string_view name, absl::string_view help, Labels labels,
                        uint64_t value) {
  ClientMetric series;
  series.label = std::move(labels);
  series.counter.value = static_cast<double>(value);
  Add(absl::StrCat("eoib_", name, "_total"), help, MetricType::Counter, std::move(series));
}

void MetricSet::Gauge(absl::string_view name, absl::string_view help, Labels labels, double value) {
  ClientMetric series;
  series.label = std::move(labels);
  series.gauge.value = value;
  Add(absl::StrCat("eoib_", name), help, MetricType::Gauge, std::move(series));
}

void MetricSet::Info(absl::string_view name, absl::string_view help, Labels labels) {
  Gauge(absl::StrCat(name, "_info"), help, std::move(labels), 1);
}

void MetricSet::Add(std::string name, absl::string_view help, MetricType type,
                    ClientMetric series) {
  prometheus::MetricFamily& family = families_[name];
  if (family.metric.empty()) {
    family.name = std::move(name);
    family.help = std::string(help);
    family.type = type;
  }
  EOIB_CHECK(family.type == type);
  family.metric.push_back(std::move(series));
}

MetricSet::Families MetricSet::Take() {
  Families families;
  families.reserve(families_.size());
  for (auto& [name, family] : families_) families.push_back(std::move(family));
  families_.clear();
  return families;
}

MetricSet::Families MetricRegistry::Collect() const {
  MetricSet set;
  for (const Collector& collector : collectors_) collector(&set);
  return set.Take();
}

}  // namespace eoib
