// Counts allocations, for tests of code that must not allocate. Include it in one file of a test
// program only: it replaces operator new. ThreadSanitizer replaces operator new itself, so there
// the counter is a hook.
#ifndef EOIB_VSWITCH_BASE_ALLOCATION_COUNTER_FOR_TEST_H_
#define EOIB_VSWITCH_BASE_ALLOCATION_COUNTER_FOR_TEST_H_

#include <cstddef>
#include <cstdlib>
#include <new>

namespace eoib {

// Allocations of this thread, counted while `counting_allocations` is set.
inline thread_local bool counting_allocations = false;
inline thread_local size_t allocations = 0;

}  // namespace eoib

#ifdef EOIB_SANITIZE_THREAD
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*,
                                                                             size_t),
                                                         void (*free_hook)(const volatile void*));
[[maybe_unused]] inline const int kAllocationHooks = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, size_t) {
      if (eoib::counting_allocations) ++eoib::allocations;
    },
    [](const volatile void*) {});
#else
#pragma GCC diagnostic ignored \
    "-Wmismatched-new-delete"  // both sides are replaced here, so they match
void* operator new(size_t size) {
  if (eoib::counting_allocations) ++eoib::allocations;
  void* memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  return memory;
}
// For std::stable_sort.
void* operator new(size_t size, const std::nothrow_t&) noexcept { return operator new(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif                         // EOIB_SANITIZE_THREAD

#endif  // EOIB_VSWITCH_BASE_ALLOCATION_COUNTER_FOR_TEST_H_
