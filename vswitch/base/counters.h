// Counters that a list of rows defines: the list makes the counters, their names in commands and
// metrics, and the operator's text. A list has one of two shapes:
//
//     X(member, help)             for EOIB_COUNTERS: members of a struct, named as the counters are
//     X(enumerator, label, help)  for EOIB_LABELLED: an enum, whose counters LabelledCounters has
//
// Names and labels are stable, because scripts and dashboards use them. A help text says what
// happened, and what an operator can do if that is not obvious.
#ifndef EOIB_VSWITCH_BASE_COUNTERS_H_
#define EOIB_VSWITCH_BASE_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace eoib {

// A counter with one writer. Any thread may read.
class Counter {
 public:
  Counter() = default;
  Counter(const Counter& other) : value_(other.value()) {}  // as it is at this moment
  Counter& operator=(const Counter&) = delete;
  void Add(uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void operator+=(uint64_t n) { Add(n); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }
  explicit operator uint64_t() const { return value(); }

 private:
  std::atomic<uint64_t> value_{0};
};

// A row of the struct `Counters`.
template <typename Counters, typename Value, typename Part = int>
struct CounterRow {
  const char* name;
  Value Counters::*member;
  const char* help;
  Part part = {};  // for the struct's own purposes
};

// In the body of `struct Name`: a member of `Type`, uint64_t or Counter, for each row of LIST. If
// there is another argument, it is the type of a third, optional column.
#define EOIB_COUNTERS(Name, Type, LIST, ...)                                              \
  using Value = Type;                                                                     \
  using Row = ::eoib::CounterRow<Name, Type __VA_OPT__(, ) __VA_ARGS__>;                  \
  LIST(EOIB_COUNTERS_MEMBER)                                                              \
  static absl::Span<const Row> Rows() {                                                   \
    using Self = Name;                                                                    \
    static constexpr Row kRows[] = {LIST(EOIB_COUNTERS_ROW)};                             \
    return kRows;                                                                         \
  }                                                                                       \
  /* Calls visit(name, count, help) for each counter. */                                  \
  template <typename Visit>                                                               \
  void ForEach(Visit visit) const {                                                       \
    for (const Row& row : Rows()) visit(row.name, uint64_t{this->*row.member}, row.help); \
  }
#define EOIB_COUNTERS_MEMBER(member, ...) Value member{};
#define EOIB_COUNTERS_ROW(member, ...) {#member, &Self::member, __VA_ARGS__},

struct CounterInfo {
  const char* label;
  const char* help;
};

// Defines `enum class Name` with the enumerators of LIST, kCount and the enumerators after LIST;
// and InfoOf(Name).
#define EOIB_LABELLED(Name, LIST, ...)                                                            \
  enum class Name : uint8_t { LIST(EOIB_LABELLED_ENUMERATOR) kCount __VA_OPT__(, ) __VA_ARGS__ }; \
  inline const ::eoib::CounterInfo& InfoOf(Name name) {                                           \
    static constexpr ::eoib::CounterInfo kInfos[] = {LIST(EOIB_LABELLED_INFO)};                   \
    return kInfos[static_cast<size_t>(name)];                                                     \
  }
#define EOIB_LABELLED_ENUMERATOR(name, label, help) name,
#define EOIB_LABELLED_INFO(name, label, help) {label, help},

template <typename Name, typename Value = uint64_t>
class LabelledCounters {
 public:
  static constexpr size_t kSize = static_cast<size_t>(Name::kCount);

  void Add(Name name, uint64_t count = 1) { (*this)[name] += count; }
  Value& operator[](Name name) { return values_[static_cast<size_t>(name)]; }
  uint64_t operator[](Name name) const { return uint64_t{values_[static_cast<size_t>(name)]}; }
  // The sum of the counters from `first` to the one before `end`.
  uint64_t Sum(Name first = Name{}, Name end = Name::kCount) const {
    uint64_t sum = 0;
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i)
      sum += uint64_t{values_[i]};
    return sum;
  }
  // Calls visit(label, count, help) for each counter.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (size_t i = 0; i < kSize; ++i) {
      const CounterInfo& info = InfoOf(static_cast<Name>(i));
      visit(info.label, uint64_t{values_[i]}, info.help);
    }
  }

 private:
  std::array<Value, kSize> values_{};
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_COUNTERS_H_
