// LabelledCounters: counters that a list of rows X(enumerator, label, help) defines. The list makes
// the enum, the counters, their labels and the operator's text (drops_json.h).
//
// One thread writes and reads; other threads get a copy from it.
#ifndef EOIB_GATEWAY_LINK_LABELLED_COUNTERS_H_
#define EOIB_GATEWAY_LINK_LABELLED_COUNTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace eoib::ipoib {

struct CounterInfo {
  const char* label;  // stable: scripts and dashboards use it
  const char* help;   // what happened, and what an operator can do
};

// Defines `enum class Name` with the enumerators of LIST, kCount and the enumerators after LIST;
// and InfoOf(Name).
#define EOIB_DEFINE_LABELLED(Name, LIST, ...)                                                     \
  enum class Name : uint8_t { LIST(EOIB_LABELLED_ENUMERATOR) kCount __VA_OPT__(, ) __VA_ARGS__ }; \
  inline const ::eoib::ipoib::CounterInfo& InfoOf(Name name) {                                    \
    static constexpr ::eoib::ipoib::CounterInfo kInfos[] = {LIST(EOIB_LABELLED_INFO)};            \
    return kInfos[static_cast<size_t>(name)];                                                     \
  }
#define EOIB_LABELLED_ENUMERATOR(name, label, help) name,
#define EOIB_LABELLED_INFO(name, label, help) {label, help},

template <typename Name>
class LabelledCounters {
 public:
  static constexpr size_t kSize = static_cast<size_t>(Name::kCount);

  void Add(Name name, uint64_t count = 1) { values_[static_cast<size_t>(name)] += count; }
  uint64_t operator[](Name name) const { return values_[static_cast<size_t>(name)]; }
  // The sum of the counters from `first` to the one before `end`.
  uint64_t Sum(Name first = Name{}, Name end = Name::kCount) const {
    return std::accumulate(&values_[static_cast<size_t>(first)],
                           values_.data() + static_cast<size_t>(end), uint64_t{0});
  }
  // Calls visit(name, count, info) for each counter that is not 0.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (size_t i = 0; i < kSize; ++i) {
      if (values_[i] != 0) visit(static_cast<Name>(i), values_[i], InfoOf(static_cast<Name>(i)));
    }
  }

 private:
  std::array<uint64_t, kSize> values_{};
};

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_LINK_LABELLED_COUNTERS_H_
