// A seed for random tests. Each run draws a new one, unless EOIB_TEST_SEED repeats one.
#ifndef EOIB_VSWITCH_BASE_SEED_FOR_TEST_H_
#define EOIB_VSWITCH_BASE_SEED_FOR_TEST_H_

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace eoib {

// The same throughout the program, which prints it once.
inline uint64_t SeedForTest() {
  static const uint64_t seed = [] {
    const char* const text = std::getenv("EOIB_TEST_SEED");
    const uint64_t drawn =
        text != nullptr ? std::strtoull(text, nullptr, 0) : std::random_device()();
    std::printf("EOIB_TEST_SEED=%" PRIu64 "\n", drawn);
    std::fflush(stdout);
    return drawn;
  }();
  return seed;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_SEED_FOR_TEST_H_
