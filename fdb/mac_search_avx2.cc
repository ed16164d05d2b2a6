// Compiled for AVX2 and BMI (fdb/CMakeLists.txt).
#include "fdb/mac_search_loop.h"

#if defined(__AVX2__) && defined(__BMI__) && !defined(EOIB_SANITIZE_THREAD)
#include <immintrin.h>

namespace eoib {
namespace {

struct Avx2 {
  struct Way {
    __attribute__((always_inline)) explicit Way(const MacView& view)
        : add(_mm256_set1_epi64x(static_cast<int64_t>(view.hash->add()))),
          mix(_mm256_set1_epi64x(static_cast<int64_t>(view.hash->mix()))),
          low(_mm256_set1_epi64x(view.map.low)),
          high(_mm256_set1_epi64x(view.map.high)),
          cutoff(_mm256_set1_epi64x(static_cast<int64_t>(view.map.cutoff))),
          buckets(_mm256_set1_epi64x(reinterpret_cast<int64_t>(view.buckets))) {}
    const __m256i add, mix, low, high, cutoff, buckets;
  };
  // Four at a time.
  __attribute__((always_inline)) static void Place(const Way& way, MacBatch* batch, size_t from) {
#pragma GCC unroll 2
    for (size_t i = from; i < from + kSearchGroup; i += 4) {
      // KeyHash::Position.
      const __m256i sum = _mm256_add_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(batch->keys + i)), way.add);
      const __m256i first = _mm256_mul_epu32(sum, _mm256_srli_epi64(sum, 32));
      const __m256i mixed = _mm256_xor_si256(first, way.mix);
      const __m256i second = _mm256_mul_epu32(mixed, _mm256_srli_epi64(mixed, 32));
      const __m256i folded = _mm256_xor_si256(_mm256_xor_si256(second, _mm256_srli_epi64(second, 32)), first);
      const __m256i position = _mm256_blend_epi32(folded, _mm256_setzero_si256(), 0xaa);
      _mm256_store_si256(reinterpret_cast<__m256i*>(batch->positions + i), position);
      // BucketMap::Index.
      const __m256i count_there = _mm256_blendv_epi8(way.high, way.low, _mm256_cmpgt_epi64(way.cutoff, position));
      const __m256i index = _mm256_srli_epi64(_mm256_mul_epu32(position, count_there), 32);
      const __m256i home = _mm256_add_epi64(_mm256_slli_epi64(index, 6), way.buckets);
      _mm256_store_si256(reinterpret_cast<__m256i*>(batch->buckets + i), home);
    }
  }
  __attribute__((always_inline)) static uint32_t Match(const MacBucket& bucket, uint64_t key) {
    const __m256i keys = _mm256_load_si256(reinterpret_cast<const __m256i*>(bucket.keys));
    const __m256i equal = _mm256_cmpeq_epi64(keys, _mm256_set1_epi64x(static_cast<int64_t>(key)));
    return static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(equal)));
  }
};

constexpr MacSearch kAvx2 = SearchOf<Avx2>("AVX2");

}  // namespace

const MacSearch* const kAvx2Search = &kAvx2;

}  // namespace eoib

#else

namespace eoib {
const MacSearch* const kAvx2Search = nullptr;
}  // namespace eoib

#endif
