// KeyHash: maps a key to its position in the table, by a secret of this process.
#ifndef EOIB_FDB_KEY_HASH_H_
#define EOIB_FDB_KEY_HASH_H_

#include <array>
#include <bit>
#include <cstdint>
#include <random>

#include "absl/numeric/int128.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/system_random.h"

namespace eoib {

// A keyed hash of 60 bits to a position: a 32-bit fraction of the hash space. It has two rounds,
// each the 128-bit product of two words that a secret changes; with one round, consecutive keys
// clump under some secrets. Without the secret a sender cannot choose MACs that collide.
// Consecutive MACs, which vendors hand out, spread like random ones (mac_table_test.cc).
//
// Each position has one detour, a second place. Positions that agree in their low bits (the tag)
// share its distance, so all keys that took the same detour out of a bucket are in two or three
// adjacent buckets.
class KeyHash {
 public:
  static constexpr int kTags = 16;

  explicit KeyHash(uint64_t seed) {
    std::mt19937_64 random(seed);
    first_ = random();
    second_ = random();
    // Far enough that a detour leaves the bucket, except in a table of very few buckets.
    for (uint32_t& distance : distances_)
      distance = 0x2000'0000 + static_cast<uint32_t>(random() % 0xc000'0000);
  }
  // A seed that all tables of this process share.
  static uint64_t ProcessSeed() {
    static const uint64_t seed = SystemRandom();
    return seed;
  }

  uint32_t Position(uint64_t key) const {
    const absl::uint128 first = Product(key ^ first_, std::rotl(key, 32) ^ second_);
    const absl::uint128 second =
        Product(absl::Uint128Low64(first) ^ second_, absl::Uint128High64(first) ^ first_);
    return static_cast<uint32_t>(absl::Uint128High64(second) ^ absl::Uint128Low64(second));
  }
  uint32_t Position(FdbKey key) const { return Position(key.packed()); }

  static constexpr uint32_t Tag(uint32_t position) { return position % kTags; }
  uint32_t Detour(uint32_t position) const { return position + distances_[Tag(position)]; }
  uint32_t distance(uint32_t tag) const { return distances_[tag]; }

 private:
  static absl::uint128 Product(uint64_t a, uint64_t b) {
    return absl::uint128(a) * absl::uint128(b);
  }

  uint64_t first_, second_;
  std::array<uint32_t, kTags> distances_;
};

}  // namespace eoib

#endif  // EOIB_FDB_KEY_HASH_H_
