#include "control/daemon/log.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace eoib {
namespace {

std::string& Program() {
  static std::string* program = new std::string("eoib");
  return *program;
}

void Write(absl::string_view severity, absl::string_view text) {
  const std::string line = absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()), " ",
                                        Program(), " ", severity, ": ", text, "\n");
  // One write for the whole line, so that lines of different threads do not mix.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void LogInfo(absl::string_view text) { Write("info", text); }
void LogWarning(absl::string_view text) { Write("warning", text); }
void SetLogProgram(absl::string_view name) { Program() = std::string(name); }

LogLimiter::LogLimiter(const Clock* clock, int burst, absl::Duration interval)
    : clock_(clock), burst_(burst), interval_(interval), tokens_(burst), refilled_(clock->Now()) {}

bool LogLimiter::Allow(int* suppressed) {
  const int64_t earned = (clock_->Now() - refilled_) / interval_;
  if (earned > 0) {
    tokens_ = static_cast<int>(std::min<int64_t>(burst_, tokens_ + earned));
    refilled_ += interval_ * earned;
  }
  if (tokens_ == 0) {
    ++suppressed_;
    return false;
  }
  --tokens_;
  if (suppressed != nullptr) *suppressed = suppressed_;
  suppressed_ = 0;
  return true;
}

}  // namespace eoib
