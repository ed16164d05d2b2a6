// Tells ThreadSanitizer of absl::Mutex. Debian's Abseil is not built for it: the mutex's atomics are in a library that the
// sanitizer does not see into, and every use of a mutex would look like a race. In thread-sanitizer builds the linker sends the
// calls of our objects through these wrappers (--wrap, see the top CMakeLists.txt): what a thread did before it gave the mutex
// up happens before what another does after it took it. Conditions of Await may be evaluated inside these calls by whichever
// thread holds the mutex, which the sanitizer cannot know, so reads in there are not looked at.
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

// Its own search for lock-order cycles keeps a graph under a lock that the sanitizer does not see either, and does not need:
// the sanitizer looks for such cycles itself.
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

// void Mutex::Await(const Condition&): gives the mutex up and takes it again.
extern "C" void __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(void*, const void*);
extern "C" void __wrap__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(void* mutex, const void* condition) {
  __tsan_release(mutex);
  {
    IgnoreReads ignore;
    __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(mutex, condition);
  }
  __tsan_acquire(mutex);
}

// The same, and whether the condition was met in time.
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
EOIB_WRAP_TIMED_AWAIT(_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE, absl::Duration)
EOIB_WRAP_TIMED_AWAIT(_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE, absl::Time)
