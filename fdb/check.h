#ifndef EOIB_FDB_CHECK_H_
#define EOIB_FDB_CHECK_H_

#include <cstdio>
#include <cstdlib>

// EOIB_CHECK(cond): an invariant of the program. When it does not hold, the place and the condition go to standard error and
// the program aborts, in every build.
//
// EOIB_DCHECK(cond): the same, in builds with EOIB_CHECKS only (tests and sanitizer builds). Elsewhere `cond` is compiled but
// not evaluated, so that it costs nothing per frame and its variables count as used.

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

#endif  // EOIB_FDB_CHECK_H_
