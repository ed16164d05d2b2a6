// Log lines to standard error, in the operator's notation. The data path never logs.
#ifndef EOIB_VSWITCH_BASE_DAEMON_LOG_H_
#define EOIB_VSWITCH_BASE_DAEMON_LOG_H_

#include <functional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/token_bucket.h"

namespace eoib {

// "2026-11-20T23:30:00.123Z eoibd info: text". Thread-safe: one write(2) for each line. If standard
// error is the journal's, the line has a level for it instead of time and name: "<6>text"
// (sd-daemon(3)).
void LogInfo(absl::string_view text);
void LogWarning(absl::string_view text);
// Whether LogInfo writes. Any thread.
void SetLogInfo(bool on);
// Takes the log lines of one thread in place of standard error: `level` is syslog's.
using LogSink = std::function<void(int level, absl::string_view text)>;
// Sends the log lines of the calling thread to `sink` from now on. Null: to standard error. The
// sink outlives its use.
void SetThreadLogSink(const LogSink* sink);
// The name at the head of each line; default "eoib". Before the first thread starts.
void SetLogProgram(absl::string_view name);

// Rate limit: `burst` lines, then one for each `interval`. One thread.
class LogLimiter {
 public:
  LogLimiter(const Clock* clock, int burst, absl::Duration interval)
      : clock_(clock), bucket_(1 / absl::ToDoubleSeconds(interval), burst, clock->Now()) {}
  // Whether a line may be logged. If so, sets *suppressed (if given) to the number refused since
  // the last one.
  bool Allow(int* suppressed = nullptr);

 private:
  const Clock* const clock_;
  TokenBucket bucket_;
  int suppressed_ = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_LOG_H_
