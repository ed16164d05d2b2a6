#include "fdb/mac_search_loop.h"

namespace eoib {
namespace {

struct Plain {
  static void Place(const MacView& view, const uint64_t* keys, size_t count, Places* places) {
    for (size_t i = 0; i < count; ++i) {
      const uint32_t position = view.hash->Position(keys[i]);
      places->positions[i] = position;
      places->homes[i] = view.buckets + view.map.Index(position);
      __builtin_prefetch(places->homes[i]);
    }
  }
  static uint32_t Match(const MacBucket& bucket, uint64_t key) { return bucket.Match(key); }
};

constexpr MacSearch kPlain{"plain", FindChunk<Plain>, TouchChunk<Plain>, PrefetchChunk<Plain>};

}  // namespace

const MacSearch* const kPlainSearch = &kPlain;

}  // namespace eoib
