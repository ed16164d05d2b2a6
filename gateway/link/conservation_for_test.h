// Conservation laws: equations between the counters of a `stats` command, and a check of them. Test
// only.
#ifndef EOIB_GATEWAY_LINK_CONSERVATION_FOR_TEST_H_
#define EOIB_GATEWAY_LINK_CONSERVATION_FOR_TEST_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace eoib::ipoib {

using Numbers = std::map<std::string, uint64_t>;

// The laws of Counters (counters.h).
inline const std::vector<std::string>& LinkLaws() {
  static const auto& laws = *new std::vector<std::string>(
      {"link.arrived = link.received + link.receive_drops",
       "link.requested = link.sent + link.send_drops + link.under_way"});
  return laws;
}

// The lines "name value" of `text`, with `prefix` before each name.
inline Numbers ParseNumbers(absl::string_view text, absl::string_view prefix = "") {
  Numbers numbers;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint64_t value = 0;
    if (words.size() == 2 && absl::SimpleAtoi(words[1], &value))
      numbers[absl::StrCat(prefix, words[0])] = value;
  }
  return numbers;
}

// The laws, each "a + b = c + d", that do not hold, with their numbers. A law that names an unknown
// counter does not hold.
inline std::string BrokenLaws(const Numbers& numbers, const std::vector<std::string>& laws) {
  std::string broken;
  for (const std::string& law : laws) {
    uint64_t sums[2] = {0, 0};
    bool known = true;
    std::string told;
    int side = 0;
    for (absl::string_view word : absl::StrSplit(law, ' ')) {
      if (word == "=") side = 1;
      const auto found = numbers.find(std::string(word));
      absl::StrAppend(&told, " ", word);
      if (word == "=" || word == "+") continue;
      known &= found != numbers.end();
      if (!known) break;
      sums[side] += found->second;
      absl::StrAppend(&told, " (", found->second, ")");
    }
    if (!known || sums[0] != sums[1])
      absl::StrAppend(&broken, known ? "not conserved:" : "no such counter:", told, "\n");
  }
  return broken;
}

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_LINK_CONSERVATION_FOR_TEST_H_
