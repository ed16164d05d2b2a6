#include "tests/lab/steady_ping.h"

#include <signal.h>

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"

namespace eoib::lab {

SteadyPing::SteadyPing(Host* from, const std::string& to, const std::string& interval)
    : name_(absl::StrCat("the ping from ", from->name(), " to ", to)),
      process_(from->Start({"ping", "-n", "-i", interval, to})) {
  EXPECT_TRUE(EventuallyTrue(kPatience, [this] { return LastAnswered() > 0; })) << name_;
}

int SteadyPing::LastAnswered() const {
  const std::set<int> answered = Answered();
  return answered.empty() ? 0 : *answered.rbegin();
}

PingCounts SteadyPing::End() {
  EXPECT_TRUE(process_->Alive()) << name_ << " has ended";
  process_->Kill(SIGQUIT);  // ping prints how many requests it has sent
  int sent = -1;
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return (sent = Sent()) >= 0; })) << name_;
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return LastAnswered() > sent; }))
      << name_ << " has no answer behind request " << sent;
  process_->Kill(SIGINT);
  EXPECT_EQ(process_->Wait(), absl::optional<int>(0)) << name_;
  return {LastAnswered(), static_cast<int>(Answered().size())};
}

// The log shows which ones are missing; the lab prints it when a test fails.
void SteadyPing::ExpectNoLoss() {
  const PingCounts counts = End();
  EXPECT_GT(counts.received, 0) << name_;
  EXPECT_EQ(counts.lost(), 0) << name_;
}

// Parses "\r19/22 packets, 13% loss, ..." (answers/requests at the signal). -1 if it is not in the
// log yet.
int SteadyPing::Sent() const {
  const std::string log = process_->Log();
  const size_t begin = log.rfind('\r');
  if (begin == std::string::npos) return -1;
  const std::vector<std::string> words =
      absl::StrSplit(log.substr(begin + 1), absl::MaxSplits(absl::ByAnyChar("/ "), 2));
  int sent = -1;
  return words.size() == 3 && absl::SimpleAtoi(words[1], &sent) ? sent : -1;
}

// "64 bytes from 10.0.0.2: icmp_seq=18 ttl=64 time=0.033 ms".
std::set<int> SteadyPing::Answered() const {
  std::set<int> answered;
  const std::string log = process_->Log();
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    const std::vector<absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits("icmp_seq=", 1));
    if (parts.size() != 2 || !absl::StrContains(parts[1], " ttl=")) continue;
    int number = 0;
    if (absl::SimpleAtoi(parts[1].substr(0, parts[1].find(' ')), &number)) answered.insert(number);
  }
  return answered;
}

}  // namespace eoib::lab
