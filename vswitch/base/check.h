// EOIB_CHECK(cond): an invariant of the program. If it fails, the program prints the place and the
// condition on standard error and aborts, in every build.
//
// A program that embeds the switch must not be ended by it: under a CheckFailureCatcher, the failed
// check throws a CheckFailure instead. What it left behind is in an unknown state, and must not be
// used, nor destroyed.
//
// EOIB_DCHECK(cond): the same, only in builds with EOIB_CHECKS (tests and sanitizers). Other builds
// compile `cond` but do not evaluate it, so it costs nothing per frame and its variables count as
// used.
#ifndef EOIB_VSWITCH_BASE_CHECK_H_
#define EOIB_VSWITCH_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace eoib {

struct CheckFailure {
  std::string text;
};

namespace internal {

inline thread_local bool check_failures_throw = false;

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition) {
  if (check_failures_throw) {
    throw CheckFailure{std::string(file) + ":" + std::to_string(line) +
                       ": check failed: " + condition};
  }
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace internal

// From construction to destruction, failed checks of this thread throw.
class CheckFailureCatcher {
 public:
  CheckFailureCatcher() : before_(std::exchange(internal::check_failures_throw, true)) {}
  ~CheckFailureCatcher() { internal::check_failures_throw = before_; }
  CheckFailureCatcher(const CheckFailureCatcher&) = delete;
  CheckFailureCatcher& operator=(const CheckFailureCatcher&) = delete;

 private:
  const bool before_;
};

}  // namespace eoib

#define EOIB_CHECK(cond)                        \
  (__builtin_expect(static_cast<bool>(cond), 1) \
       ? static_cast<void>(0)                   \
       : ::eoib::internal::CheckFailed(__FILE__, __LINE__, #cond))

#ifdef EOIB_CHECKS
#define EOIB_DCHECK(cond) EOIB_CHECK(cond)
#else
#define EOIB_DCHECK(cond) static_cast<void>(sizeof(static_cast<bool>(cond)))
#endif

#endif  // EOIB_VSWITCH_BASE_CHECK_H_
