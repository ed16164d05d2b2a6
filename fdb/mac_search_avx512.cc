// Compiled for AVX-512F, AVX-512VL and BMI (fdb/CMakeLists.txt).
#include "fdb/mac_search_loop.h"

#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__BMI__) && !defined(EOIB_SANITIZE_THREAD)
#include <immintrin.h>

namespace eoib {
namespace {

struct Avx512 {
  struct Way {
    __attribute__((always_inline)) explicit Way(const MacView& view)
        : add(_mm512_set1_epi64(static_cast<int64_t>(view.hash->add()))),
          mix(_mm512_set1_epi64(static_cast<int64_t>(view.hash->mix()))),
          low(_mm512_set1_epi64(view.map.low)),
          high(_mm512_set1_epi64(view.map.high)),
          cutoff(_mm512_set1_epi64(static_cast<int64_t>(view.map.cutoff))),
          buckets(_mm512_set1_epi64(reinterpret_cast<int64_t>(view.buckets))) {}
    const __m512i add, mix, low, high, cutoff, buckets;
  };
  // A group at a time.
  __attribute__((always_inline)) static void Place(const Way& way, MacBatch* batch, size_t from) {
    // KeyHash::Position.
    const __m512i sum = _mm512_add_epi32(_mm512_loadu_si512(batch->keys + from), way.add);
    const __m512i first = _mm512_mul_epu32(sum, _mm512_srli_epi64(sum, 32));
    const __m512i mixed = _mm512_xor_si512(first, way.mix);
    const __m512i second = _mm512_mul_epu32(mixed, _mm512_srli_epi64(mixed, 32));
    const __m512i folded = _mm512_xor_si512(_mm512_xor_si512(second, _mm512_srli_epi64(second, 32)), first);
    const __m512i position = _mm512_maskz_mov_epi32(0x5555, folded);
    _mm512_store_si512(batch->positions + from, position);
    // BucketMap::Index.
    const __m512i count_there = _mm512_mask_mov_epi64(way.high, _mm512_cmplt_epu64_mask(position, way.cutoff), way.low);
    const __m512i index = _mm512_srli_epi64(_mm512_mul_epu32(position, count_there), 32);
    _mm512_store_si512(batch->buckets + from, _mm512_add_epi64(_mm512_slli_epi64(index, 6), way.buckets));
  }
  __attribute__((always_inline)) static uint32_t Match(const MacBucket& bucket, uint64_t key) {
    const __m256i keys = _mm256_load_si256(reinterpret_cast<const __m256i*>(bucket.keys));
    return _mm256_cmpeq_epi64_mask(keys, _mm256_set1_epi64x(static_cast<int64_t>(key)));
  }
};

constexpr MacSearch kAvx512 = SearchOf<Avx512>("AVX-512");

}  // namespace

const MacSearch* const kAvx512Search = &kAvx512;

}  // namespace eoib

#else

namespace eoib {
const MacSearch* const kAvx512Search = nullptr;
}  // namespace eoib

#endif
