// Text of counters in an answer, for renderers.
#ifndef EOIB_VSWITCH_BASE_DAEMON_COUNTER_TEXT_H_
#define EOIB_VSWITCH_BASE_DAEMON_COUNTER_TEXT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "vswitch/base/daemon/answer.h"

namespace eoib {

// Adds each of `counters` (base/counters.h) to an object: {"frames_in": 7, ...}.
template <typename Counters>
void AddCounters(const Counters& counters, Json* json, absl::string_view prefix = "") {
  counters.ForEach([&](const char* name, uint64_t count, const char*) {
    (*json)[absl::StrCat(prefix, name)] = count;
  });
}
// Of such an object: a line "  frames_in 7" for each counter.
std::string CountersText(const Json& counters);

// A row of a list of counters with explanations.
Json ExplainedCounter(absl::string_view name, uint64_t count, absl::string_view explanation);
// A row for each of `counters`.
template <typename Counters>
Json ExplainedCounters(const Counters& counters) {
  Json rows = Json::array();
  counters.ForEach([&](const char* name, uint64_t count, const char* help) {
    rows.push_back(ExplainedCounter(name, count, help));
  });
  return rows;
}
// A row for each of `drops` that is not 0: there are many reasons, and few of them occur.
template <typename Counters>
Json ExplainedDrops(const Counters& drops) {
  Json rows = Json::array();
  drops.ForEach([&](const char* label, uint64_t count, const char* help) {
    if (count != 0) rows.push_back(ExplainedCounter(label, count, help));
  });
  return rows;
}
struct CounterWidths {
  int name = 20;
  int count = 10;
};
// Of such rows: a line for each, in columns.
std::string ExplainedText(const Json& rows, CounterWidths widths = {});

// Of the answers {"counters": {...}} and {"drops": [...]}.
std::string CountersAnswerText(const Json& answer);
std::string DropsAnswerText(const Json& answer);

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_COUNTER_TEXT_H_
