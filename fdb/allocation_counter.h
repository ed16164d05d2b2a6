// Counts a program's allocations, for tests of code that must make none. To be included by one file of a test program: it replaces
// operator new.
#ifndef EOIB_FDB_ALLOCATION_COUNTER_H_
#define EOIB_FDB_ALLOCATION_COUNTER_H_

#include <cstddef>
#include <cstdlib>
#include <new>

namespace eoib {

// Of this thread, while `counting_allocations` is set.
inline thread_local bool counting_allocations = false;
inline thread_local size_t allocations = 0;

}  // namespace eoib

#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // they match: all three are here
void* operator new(size_t size) {
  if (eoib::counting_allocations) ++eoib::allocations;
  void* memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

#endif  // EOIB_FDB_ALLOCATION_COUNTER_H_
