#include "vswitch/base/daemon/log.h"

#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"

namespace eoib {
namespace {

std::string& Program() {
  static std::string* program = new std::string("eoib");
  return *program;
}

std::atomic<bool> info_is_on{true};
thread_local const LogSink* thread_sink = nullptr;

// systemd sets JOURNAL_STREAM to the device and inode of the stream that it connected.
bool IsJournal() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat status;
  return stream != nullptr && fstat(STDERR_FILENO, &status) == 0 &&
         absl::StrCat(status.st_dev, ":", status.st_ino) == stream;
}

void Write(int level, absl::string_view severity, absl::string_view text) {
  text = absl::StripTrailingAsciiWhitespace(text);
  if (thread_sink != nullptr) return (*thread_sink)(level, text);
  static const bool is_journal = IsJournal();
  std::string line;
  if (is_journal) {
    // Each line of a text needs a level.
    line = absl::StrCat("<", level, ">",
                        absl::StrReplaceAll(text, {{"\n", absl::StrCat("\n<", level, ">")}}), "\n");
  } else {
    line = absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()),
                        " ", Program(), " ", severity, ": ", text, "\n");
  }
  // One write for the whole line, so that lines of different threads do not mix.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void LogInfo(absl::string_view text) {
  if (info_is_on.load(std::memory_order_relaxed)) Write(LOG_INFO, "info", text);
}
void LogWarning(absl::string_view text) { Write(LOG_WARNING, "warning", text); }
void SetLogInfo(bool on) { info_is_on.store(on, std::memory_order_relaxed); }
void SetThreadLogSink(const LogSink* sink) { thread_sink = sink; }
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
