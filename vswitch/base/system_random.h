// 64 random bits from the system.
#ifndef EOIB_VSWITCH_BASE_SYSTEM_RANDOM_H_
#define EOIB_VSWITCH_BASE_SYSTEM_RANDOM_H_

#include <cstdint>
#include <random>

namespace eoib {

// Not for the data path: a call may be a system call. Any thread may call it.
inline uint64_t SystemRandom() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_SYSTEM_RANDOM_H_
