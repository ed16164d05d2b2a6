// EOIB_CHECK(cond): an invariant of the program. If it fails, the program prints the place and the condition on standard error
// and aborts, in every build.
//
// EOIB_DCHECK(cond): the same, only in builds with EOIB_CHECKS (tests and sanitizers). Other builds compile `cond` but do not
// evaluate it, so it costs nothing per frame and its variables count as used.
#ifndef EOIB_VSWITCH_BASE_CHECK_H_
#define EOIB_VSWITCH_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace eoib {
namespace internal {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace internal
}  // namespace eoib

#define EOIB_CHECK(cond)                                               \
  (__builtin_expect(static_cast<bool>(cond), 1) ? static_cast<void>(0) \
                                                : ::eoib::internal::CheckFailed(__FILE__, __LINE__, #cond))

#ifdef EOIB_CHECKS
#define EOIB_DCHECK(cond) EOIB_CHECK(cond)
#else
#define EOIB_DCHECK(cond) static_cast<void>(sizeof(static_cast<bool>(cond)))
#endif

#endif  // EOIB_VSWITCH_BASE_CHECK_H_
