// Text of counters in an answer, for renderers.
#ifndef EOIB_VSWITCH_BASE_DAEMON_COUNTER_TEXT_H_
#define EOIB_VSWITCH_BASE_DAEMON_COUNTER_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "vswitch/base/daemon/answer.h"

namespace eoib {

// Of {"frames_in": 7, ...}: a line "  frames_in 7" for each counter.
std::string CountersText(const Json& counters);

// A row of a list of counters with explanations.
Json ExplainedCounter(absl::string_view name, uint64_t count, absl::string_view explanation);
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
