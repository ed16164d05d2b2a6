// rdma_cm is not supported on the software HCA: librdmacm uses its own kernel device
// (/dev/infiniband/rdma_cm), which does not know our devices. libeoib-verbs.so replaces the
// functions that programs call first and fails them with a message, before librdmacm waits for
// anything.
#include <cerrno>
#include <cstdio>

#include "vswitch/fabric/softhca/preload/exported.h"

namespace {

int NotSupported(const char* function) {
  std::fprintf(stderr,
               "libeoib-verbs: %s: rdma_cm is not supported; use the program without it (perftest: "
               "without -R)\n",
               function);
  errno = EOPNOTSUPP;
  return -1;
}

void* NullNotSupported(const char* function) {
  NotSupported(function);
  return nullptr;
}

}  // namespace

EOIB_EXPORTED(void*, "rdma_create_event_channel", create_event_channel, ()) {
  return NullNotSupported("rdma_create_event_channel");
}
EOIB_EXPORTED(int, "rdma_create_id", create_id, (void*, void**, void*, int)) {
  return NotSupported("rdma_create_id");
}
EOIB_EXPORTED(int, "rdma_create_ep", create_ep, (void**, void*, void*, void*)) {
  return NotSupported("rdma_create_ep");
}
EOIB_EXPORTED(int, "rdma_getaddrinfo", getaddrinfo,
              (const char*, const char*, const void*, void**)) {
  return NotSupported("rdma_getaddrinfo");
}
EOIB_EXPORTED(void**, "rdma_get_devices", get_devices, (int* count)) {
  if (count != nullptr) *count = 0;
  return static_cast<void**>(NullNotSupported("rdma_get_devices"));
}
