#include "gateway/ipoib/counters.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace eoib::ipoib {
namespace {

struct Row {
  DropSide side;
  const char* label;
  const char* help;
};
constexpr Row kReasons[] = {
#define EOIB_X(name, side, label, help) {DropSide::side, label, help},
    EOIB_IPOIB_DROP_REASONS(EOIB_X)
#undef EOIB_X
};

}  // namespace

uint64_t Counters::DropSum(DropSide side) const {
  uint64_t sum = 0;
  for (size_t i = 0; i < drops.size(); ++i) {
    if (kReasons[i].side == side) sum += drops[i].value();
  }
  return sum;
}

std::string StatsText(const Counters& counters, size_t under_way) {
  std::string text;
#define EOIB_X(member, help) absl::StrAppend(&text, "  ", #member, " ", counters.member.value(), "\n");
  EOIB_IPOIB_COUNTERS(EOIB_X)
#undef EOIB_X
  absl::StrAppend(&text, "  under_way ", under_way, "\n  receive_drops ", counters.DropSum(DropSide::kReceived),
                  "\n  send_drops ", counters.DropSum(DropSide::kToSend), "\n");
  return text;
}

std::string DropsText(const Counters& counters) {
  std::string text;
  for (size_t i = 0; i < counters.drops.size(); ++i) {
    const uint64_t count = counters.drops[i].value();
    if (count != 0) absl::StrAppendFormat(&text, "  %-20s %10d  %s\n", kReasons[i].label, count, kReasons[i].help);
  }
  return text;
}

}  // namespace eoib::ipoib
