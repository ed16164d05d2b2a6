// A preload library in front of another libibverbs. While the file named by EOIB_GONE exists, all
// devices are gone: a program that has one open learns it with the next asynchronous event, as
// after an unloaded driver, and ibv_get_device_list finds none.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace {

bool Gone() {
  const char* file = std::getenv("EOIB_GONE");
  return file != nullptr && access(file, F_OK) == 0;
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ibv_device** ibv_get_device_list(int* count) noexcept {
  if (!Gone()) return Next<ibv_device**(int*)>("ibv_get_device_list")(count);
  errno = ENOSYS;  // no kernel module
  return nullptr;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) noexcept {
  const int result =
      Next<int(ibv_context*, ibv_async_event*)>("ibv_get_async_event")(context, event);
  if (result == 0 && Gone()) event->event_type = IBV_EVENT_DEVICE_FATAL;
  return result;
}
}
