// Compiled for AVX2 and BMI (fdb/CMakeLists.txt).
#include "fdb/mac_search_loop.h"

#if defined(__AVX2__) && defined(__BMI__) && !defined(EOIB_SANITIZE_THREAD)
#include <immintrin.h>

namespace eoib {
namespace {

struct Avx2 {
  // Four at a time.
  __attribute__((always_inline)) static void Place(const MacView& view, const uint64_t* keys, size_t count, Places* places) {
    const __m256i add = _mm256_set1_epi64x(static_cast<int64_t>(view.hash->add()));
    const __m256i mix = _mm256_set1_epi64x(static_cast<int64_t>(view.hash->mix()));
    const __m256i low = _mm256_set1_epi64x(view.map.low), high = _mm256_set1_epi64x(view.map.high);
    const __m256i cutoff = _mm256_set1_epi64x(static_cast<int64_t>(view.map.cutoff));
    const __m256i buckets = _mm256_set1_epi64x(reinterpret_cast<int64_t>(view.buckets));
    for (size_t i = 0; i < count; i += 4) {
      // KeyHash::Position.
      const __m256i sum = _mm256_add_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys + i)), add);
      const __m256i first = _mm256_mul_epu32(sum, _mm256_srli_epi64(sum, 32));
      const __m256i mixed = _mm256_xor_si256(first, mix);
      const __m256i second = _mm256_mul_epu32(mixed, _mm256_srli_epi64(mixed, 32));
      const __m256i folded = _mm256_xor_si256(_mm256_xor_si256(second, _mm256_srli_epi64(second, 32)), first);
      const __m256i position = _mm256_blend_epi32(folded, _mm256_setzero_si256(), 0xaa);
      _mm256_store_si256(reinterpret_cast<__m256i*>(places->positions + i), position);
      // BucketMap::Index.
      const __m256i count_there = _mm256_blendv_epi8(high, low, _mm256_cmpgt_epi64(cutoff, position));
      const __m256i index = _mm256_srli_epi64(_mm256_mul_epu32(position, count_there), 32);
      const __m256i home = _mm256_add_epi64(_mm256_slli_epi64(index, 6), buckets);
      _mm256_store_si256(reinterpret_cast<__m256i*>(places->homes + i), home);
      __builtin_prefetch(places->homes[i]);
      __builtin_prefetch(places->homes[i + 1]);
      __builtin_prefetch(places->homes[i + 2]);
      __builtin_prefetch(places->homes[i + 3]);
    }
  }
  __attribute__((always_inline)) static uint32_t Match(const MacBucket& bucket, uint64_t key) {
    const __m256i keys = _mm256_load_si256(reinterpret_cast<const __m256i*>(bucket.keys));
    const __m256i equal = _mm256_cmpeq_epi64(keys, _mm256_set1_epi64x(static_cast<int64_t>(key)));
    return static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(equal)));
  }
};

constexpr MacSearch kAvx2{"AVX2", FindChunk<Avx2>, TouchChunk<Avx2>, PrefetchChunk<Avx2>};

}  // namespace

const MacSearch* const kAvx2Search = &kAvx2;

}  // namespace eoib

#else

namespace eoib {
const MacSearch* const kAvx2Search = nullptr;
}  // namespace eoib

#endif
