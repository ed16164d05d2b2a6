// Whether a sanitizer instruments this build, for tests that then do less of the same: an
// instrumented program takes 5 to 30 times as long.
#ifndef EOIB_VSWITCH_BASE_SANITIZER_FOR_TEST_H_
#define EOIB_VSWITCH_BASE_SANITIZER_FOR_TEST_H_

namespace eoib {

#if defined(EOIB_SANITIZE_ADDRESS) || defined(EOIB_SANITIZE_THREAD)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_SANITIZER_FOR_TEST_H_
