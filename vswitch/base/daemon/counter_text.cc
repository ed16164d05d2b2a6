#include "vswitch/base/daemon/counter_text.h"

#include "absl/strings/str_format.h"

namespace eoib {

std::string CountersText(const Json& counters) {
  std::string text;
  for (const auto& [name, count] : counters.items())
    absl::StrAppend(&text, "  ", name, " ", count.dump(), "\n");
  return text;
}

Json ExplainedCounter(absl::string_view name, uint64_t count, absl::string_view explanation) {
  return {{"name", std::string(name)}, {"count", count}, {"explanation", std::string(explanation)}};
}

std::string ExplainedText(const Json& rows, CounterWidths widths) {
  std::string text;
  for (const Json& row : rows) {
    absl::StrAppendFormat(&text, "  %-*s %*s  %s\n", widths.name, TextOf(row, "name"), widths.count,
                          TextOf(row, "count"), TextOf(row, "explanation"));
  }
  return text;
}

std::string CountersAnswerText(const Json& answer) { return CountersText(answer["counters"]); }
std::string DropsAnswerText(const Json& answer) { return ExplainedText(answer["drops"]); }

}  // namespace eoib
