// Annotates absl::Mutex for ThreadSanitizer. Debian's Abseil is not instrumented, so every use of a
// mutex would look like a race. In thread-sanitizer builds the linker routes our calls through
// these wrappers (--wrap, see the top CMakeLists.txt): they tell the sanitizer that an unlock
// happens before the next lock. Any thread that holds the mutex may evaluate the conditions of
// Await inside these calls, which the sanitizer cannot know, so it ignores reads there.
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);

namespace {

class IgnoreReads {
 public:
  IgnoreReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~IgnoreReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

// Turns off Abseil's own deadlock detection: its graph has a lock that the sanitizer does not see,
// and the sanitizer detects lock-order cycles itself.
[[maybe_unused]] const bool kNoCycleSearch = [] {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return true;
}();

}  // namespace

#define EOIB_LOCK(symbol)                        \
  extern "C" void __real_##symbol(void*);        \
  extern "C" void __wrap_##symbol(void* mutex) { \
    __real_##symbol(mutex);                      \
    __tsan_acquire(mutex);                       \
  }
#define EOIB_UNLOCK(symbol)                      \
  extern "C" void __real_##symbol(void*);        \
  extern "C" void __wrap_##symbol(void* mutex) { \
    __tsan_release(mutex);                       \
    IgnoreReads ignore;                          \
    __real_##symbol(mutex);                      \
  }

EOIB_LOCK(_ZN4absl7debian35Mutex4LockEv)
EOIB_UNLOCK(_ZN4absl7debian35Mutex6UnlockEv)
EOIB_LOCK(_ZN4absl7debian35Mutex10ReaderLockEv)
EOIB_UNLOCK(_ZN4absl7debian35Mutex12ReaderUnlockEv)

// bool Mutex::TryLock()
extern "C" bool __real__ZN4absl7debian35Mutex7TryLockEv(void*);
extern "C" bool __wrap__ZN4absl7debian35Mutex7TryLockEv(void* mutex) {
  const bool locked = __real__ZN4absl7debian35Mutex7TryLockEv(mutex);
  if (locked) __tsan_acquire(mutex);
  return locked;
}

// void Mutex::Await(const Condition&): releases the mutex and takes it again.
extern "C" void __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(void*, const void*);
extern "C" void __wrap__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(void* mutex,
                                                                      const void* condition) {
  __tsan_release(mutex);
  {
    IgnoreReads ignore;
    __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(mutex, condition);
  }
  __tsan_acquire(mutex);
}

// The same; returns whether the condition became true in time.
#define EOIB_WRAP_TIMED_AWAIT(symbol, Limit)                                         \
  extern "C" bool __real_##symbol(void*, const void*, Limit);                        \
  extern "C" bool __wrap_##symbol(void* mutex, const void* condition, Limit limit) { \
    __tsan_release(mutex);                                                           \
    bool met;                                                                        \
    {                                                                                \
      IgnoreReads ignore;                                                            \
      met = __real_##symbol(mutex, condition, limit);                                \
    }                                                                                \
    __tsan_acquire(mutex);                                                           \
    return met;                                                                      \
  }
EOIB_WRAP_TIMED_AWAIT(_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE,
                      absl::Duration)
EOIB_WRAP_TIMED_AWAIT(_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE,
                      absl::Time)
