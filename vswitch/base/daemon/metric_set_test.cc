#include "vswitch/base/daemon/metric_set.h"

#include <prometheus/text_serializer.h>

#include "gtest/gtest.h"

namespace eoib {
namespace {

std::string Text(const MetricSet::Families& families) {
  return prometheus::TextSerializer().Serialize(families);
}

TEST(MetricSetTest, NamesFollowPrometheusConventions) {
  MetricSet set;
  set.Gauge("fdb_entries", "MACs", {{"ves", "blue"}}, 3);
  set.Counter("drops", "dropped frames", {{"ves", "blue"}, {"reason", "runt"}}, uint64_t{1} << 52);
  set.Counter("drops", "dropped frames", {{"ves", "red"}, {"reason", "runt"}}, 0);
  set.Info("build", "the version", {{"version", "1.0"}});
  EXPECT_EQ(Text(set.Take()),
            "# HELP eoib_build_info the version\n"
            "# TYPE eoib_build_info gauge\n"
            "eoib_build_info{version=\"1.0\"} 1\n"
            "# HELP eoib_drops_total dropped frames\n"
            "# TYPE eoib_drops_total counter\n"
            "eoib_drops_total{ves=\"blue\",reason=\"runt\"} 4503599627370496\n"
            "eoib_drops_total{ves=\"red\",reason=\"runt\"} 0\n"
            "# HELP eoib_fdb_entries MACs\n"
            "# TYPE eoib_fdb_entries gauge\n"
            "eoib_fdb_entries{ves=\"blue\"} 3\n");
}

TEST(MetricRegistryTest, CollectsFromEachCollectorAnew) {
  MetricRegistry registry;
  uint64_t count = 1;
  registry.Register([&count](MetricSet* set) { set->Counter("a", "first", {}, count); });
  registry.Register([](MetricSet* set) { set->Gauge("b", "second", {}, 2.5); });
  ASSERT_EQ(registry.Collect().size(), 2u);
  count = 7;
  const MetricSet::Families families = registry.Collect();
  ASSERT_EQ(families.size(), 2u);
  EXPECT_EQ(families[0].metric.at(0).counter.value, 7);
  EXPECT_EQ(families[1].metric.at(0).gauge.value, 2.5);
}

}  // namespace
}  // namespace eoib
