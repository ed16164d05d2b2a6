#include "control/daemon/log.h"

#include <unistd.h>

#include <string>
#include <utility>

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

bool LogLimiter::Allow(int* suppressed) {
  if (!bucket_.Take(clock_->Now())) {
    ++suppressed_;
    return false;
  }
  const int before = std::exchange(suppressed_, 0);
  if (suppressed != nullptr) *suppressed = before;
  return true;
}

}  // namespace eoib
