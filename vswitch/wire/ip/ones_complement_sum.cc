#include "vswitch/wire/ip/ones_complement_sum.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "absl/base/config.h"

namespace eoib {
namespace {

constexpr uint16_t Fold(uint64_t sum) {
  sum = (sum >> 32) + (sum & 0xffff'ffff);
  sum = (sum >> 32) + (sum & 0xffff'ffff);
  sum = (sum >> 16) + (sum & 0xffff);
  sum = (sum >> 16) + (sum & 0xffff);
  return static_cast<uint16_t>((sum >> 16) + (sum & 0xffff));
}

// One's-complement addition of 64-bit numbers, with end-around carry.
uint64_t AddCarry(uint64_t a, uint64_t b) {
  const uint64_t sum = a + b;
  return sum + (sum < b ? 1 : 0);
}

// Reads the 64-bit word at `at`. Copies it to *to, and moves that behind it, if kCopy.
template <bool kCopy>
uint64_t TakeWord(const uint8_t* at, uint8_t** to) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  if (kCopy) {
    std::memcpy(*to, &word, sizeof(word));
    *to += sizeof(word);
  }
  return word;
}

// Sums `bytes` as native 64-bit words, the last one padded with zeros, and copies them to `to` if
// kCopy. Byte order and word size do not matter until the sum is folded (RFC 1071 §2).
template <bool kCopy>
uint64_t SumWords(absl::Span<const uint8_t> bytes, uint8_t* to) {
  const uint8_t* at = bytes.data();
  size_t left = bytes.size();
  uint64_t a = 0, b = 0, c = 0, d = 0;
  for (; left >= 32; at += 32, left -= 32) {  // four independent carry chains run in parallel
    a = AddCarry(a, TakeWord<kCopy>(at, &to));
    b = AddCarry(b, TakeWord<kCopy>(at + 8, &to));
    c = AddCarry(c, TakeWord<kCopy>(at + 16, &to));
    d = AddCarry(d, TakeWord<kCopy>(at + 24, &to));
  }
  for (; left >= 8; at += 8, left -= 8) a = AddCarry(a, TakeWord<kCopy>(at, &to));
  uint64_t tail = 0;
  if (left > 0) std::memcpy(&tail, at, left);
  if (kCopy && left > 0) std::memcpy(to, &tail, left);
  return AddCarry(AddCarry(AddCarry(a, b), AddCarry(c, d)), tail);
}

#ifdef __x86_64__

// Checksums are, beside copies, the only work on each byte of a packet. This is twice as fast as
// SumWords for a packet in the cache.
constexpr size_t kBlock = 128;             // bytes that SumBlocks adds in each step
constexpr size_t kMostBytes = 512 * 1024;  // that its 32-bit counters can add
// Makes 16-bit words signed, as the instruction wants them.
constexpr int64_t kBias = int64_t{1} << 15;

bool HasFastSum() { return __builtin_cpu_supports("avx2") != 0; }

// Adds the 32 bytes at `at` to the eight 32-bit counters, and copies them to `to`.
template <bool kCopy>
__attribute__((target("avx2"), always_inline)) inline void AddWords(const uint8_t* at, uint8_t* to,
                                                                    __m256i* counters) {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  if (kCopy) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
  const __m256i biased = _mm256_xor_si256(words, _mm256_set1_epi16(INT16_MIN));
  *counters = _mm256_add_epi32(*counters, _mm256_madd_epi16(biased, _mm256_set1_epi16(1)));
}

// The sum of `size` bytes as native 16-bit words, which it also copies to `to`, if kCopy. `size` is
// a multiple of kBlock up to kMostBytes.
template <bool kCopy>
__attribute__((target("avx2"))) uint64_t SumBlocks(const uint8_t* at, size_t size, uint8_t* to) {
  __m256i a = {}, b = {}, c = {}, d = {};  // four independent chains run in parallel
  for (const uint8_t* const end = at + size; at != end; at += kBlock) {
    AddWords<kCopy>(at, to, &a);
    AddWords<kCopy>(at + 32, kCopy ? to + 32 : nullptr, &b);
    AddWords<kCopy>(at + 64, kCopy ? to + 64 : nullptr, &c);
    AddWords<kCopy>(at + 96, kCopy ? to + 96 : nullptr, &d);
    if (kCopy) to += kBlock;
  }
  alignas(32) int32_t counters[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(counters),
                     _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d)));
  int64_t sum = static_cast<int64_t>(size / 2) * kBias;
  for (const int32_t counter : counters) sum += counter;
  return static_cast<uint64_t>(sum);
}

#else

constexpr size_t kBlock = 1, kMostBytes = 1;
bool HasFastSum() { return false; }
template <bool kCopy>  // never called
uint64_t SumBlocks(const uint8_t*, size_t, uint8_t*) {
  return 0;
}

#endif

// The same sum as SumWords', when folded.
template <bool kCopy>
uint64_t Sum(absl::Span<const uint8_t> bytes, uint8_t* to) {
  uint64_t sum = 0;
  if (bytes.size() >= kBlock && HasFastSum()) {
    do {
      const size_t size = std::min(bytes.size() / kBlock * kBlock, kMostBytes);
      sum += SumBlocks<kCopy>(bytes.data(), size, to);
      bytes.remove_prefix(size);
      if (kCopy) to += size;
    } while (bytes.size() >= kBlock);
  }
  return AddCarry(sum, SumWords<kCopy>(bytes, to));
}

uint16_t NativeToNetwork(uint16_t value) {
#ifdef ABSL_IS_LITTLE_ENDIAN
  return __builtin_bswap16(value);
#else
  return value;
#endif
}

}  // namespace

uint16_t OnesComplementSum(absl::Span<const uint8_t> bytes, uint32_t initial) noexcept {
  return Fold(uint64_t{NativeToNetwork(Fold(Sum<false>(bytes, nullptr)))} + initial);
}

uint16_t CopyAndSum(absl::Span<const uint8_t> bytes, uint8_t* to) noexcept {
  return NativeToNetwork(Fold(Sum<true>(bytes, to)));
}

}  // namespace eoib
