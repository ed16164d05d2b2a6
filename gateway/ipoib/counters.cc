#include "gateway/ipoib/counters.h"

#include "absl/strings/str_cat.h"

namespace eoib::ipoib {

std::string StatsText(const Counters& counters, size_t under_way) {
  std::string text;
#define EOIB_X(member, help) absl::StrAppend(&text, "  ", #member, " ", counters.member.value(), "\n");
  EOIB_IPOIB_COUNTERS(EOIB_X)
#undef EOIB_X
  absl::StrAppend(&text, "  under_way ", under_way, "\n  receive_drops ",
                  counters.drops.Sum(DropReason{}, DropReason::kLinkDown), "\n  send_drops ",
                  counters.drops.Sum(DropReason::kLinkDown), "\n");
  return text;
}

}  // namespace eoib::ipoib
