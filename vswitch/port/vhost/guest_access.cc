#include "vswitch/port/vhost/guest_access.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace eoib {
namespace {

constexpr size_t kLargestPage = size_t{1} << 30;

size_t page_size;  // set before the handler is
struct sigaction former_action;

// Replaces whole pages. Sanitizers intercept mmap, and their code is not safe in a signal handler.
bool MapZeros(uintptr_t start, size_t size) noexcept {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  return syscall(SYS_mmap, start, size, PROT_READ | PROT_WRITE, kFlags, -1, 0) ==
         static_cast<long>(start);
}

// The library maps whole pages for each region.
bool ReplaceRegion(const GuestMemory::Region& region) noexcept {
  const uintptr_t start = reinterpret_cast<uintptr_t>(region.host), end = start + region.size;
  const uintptr_t first = start & ~(page_size - 1);
  return MapZeros(first, ((end + page_size - 1) & ~(page_size - 1)) - first);
}

// The kernel refuses a part of a huge page with EINVAL.
bool ReplacePage(void* address) noexcept {
  for (size_t size = page_size; size <= kLargestPage; size *= 2) {
    if (MapZeros(reinterpret_cast<uintptr_t>(address) & ~(size - 1), size)) return true;
    if (errno != EINVAL) return false;
  }
  return false;
}

void PassOn(int number, siginfo_t* info, void* context) noexcept {
  if ((former_action.sa_flags & SA_SIGINFO) != 0) {
    former_action.sa_sigaction(number, info, context);
  } else if (former_action.sa_handler == SIG_DFL || former_action.sa_handler == SIG_IGN) {
    sigaction(SIGBUS, &former_action, nullptr);  // the access fails once more
  } else {
    former_action.sa_handler(number);
  }
}

}  // namespace

struct BusErrorHandler {
  static void Handle(int number, siginfo_t* info, void* context) noexcept {
    const int error = errno;
    const bool is_lost = info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR;
    if (!is_lost || !GuestAccess::Recover(info->si_addr)) PassOn(number, info, context);
    errno = error;
  }
};

void GuestAccess::CatchLosses() {
  [[maybe_unused]] static const bool installed = [] {
    page_size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = BusErrorHandler::Handle;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGBUS, &action, &former_action) == 0;
  }();
}

bool GuestAccess::Recover(void* address) noexcept {
  if (current_ == nullptr) return false;
  const GuestMemory::Region* const region = current_->regions_.RegionAt(address);
  if ((region == nullptr || !ReplaceRegion(*region)) && !ReplacePage(address)) return false;
  current_->store(true);
  return true;
}

void GuestAccess::BeginOnThread(std::shared_ptr<Lost> lost) {
  thread_local std::shared_ptr<Lost> kept;  // the port may end before the thread
  Begin(lost.get());
  kept = std::move(lost);
}

}  // namespace eoib
