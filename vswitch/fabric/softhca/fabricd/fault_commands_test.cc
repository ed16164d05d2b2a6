#include "vswitch/fabric/softhca/fabricd/fault_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "vswitch/fabric/softhca/soft_hca.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"

namespace eoib::softhca {
namespace {

using testing::HasSubstr;

std::vector<std::string> Words(absl::string_view text) {
  return absl::StrSplit(text, ' ', absl::SkipEmpty());
}

TEST(FaultCommandsTest, FaultsAreFormattedAsTheyAreParsed) {
  const char* const kRows[] = {
      "a b",
      "* * loss 1000",
      "a * loss 1000000 seed 7",
      "* b duplicate 5 reorder 6 delay 2ms",
      "a b loss 1 duplicate 2 reorder 3 delay 1.5s seed 18446744073709551615",
  };
  for (const char* row : kRows) {
    const absl::StatusOr<Fault> fault = ParseFault(Words(row));
    ASSERT_TRUE(fault.ok()) << row << ": " << fault.status();
    EXPECT_EQ(FormatFault(*fault), row);
  }
}

TEST(FaultCommandsTest, AnInvalidWordIsNamed) {
  struct Row {
    const char* words;
    const char* error;
  };
  constexpr Row kRows[] = {
      {"a", "a source and a destination"},
      {"a b loss", "loss: needs a value"},
      {"a b loss some", "loss some: must be a number"},
      {"a b loss -1", "loss -1: must be a number"},
      {"a b delay 5", "delay 5: must be a duration"},
      {"a b gloss 5", "gloss: must be loss, duplicate"},
  };
  for (const Row& row : kRows) {
    EXPECT_THAT(std::string(ParseFault(Words(row.words)).status().message()), HasSubstr(row.error))
        << row.words;
  }
}

class FaultCommandsRun : public testing::Test {
 protected:
  FaultCommandsRun() { RegisterFaultCommands(&subnet_, &registry_); }
  // Returns the answer, or the error's message.
  std::string Run(const std::string& method, absl::string_view arguments = "") {
    const absl::StatusOr<std::string> answer = registry_.Run(method, Words(arguments));
    return answer.ok() ? *answer : std::string(answer.status().message());
  }

  Subnet subnet_;
  CommandRegistry registry_;
};

TEST_F(FaultCommandsRun, FaultsAreSetShownAndCleared) {
  EXPECT_EQ(Run("fault", "a b loss 5"), "ok\n");
  EXPECT_EQ(Run("fault", "* b delay 2ms"), "ok\n");
  EXPECT_EQ(Run("fault", "show"), "* b delay 2ms\na b loss 5\n");
  EXPECT_EQ(Run("fault", "a b loss 6"), "ok\n");
  EXPECT_EQ(Run("fault/show"), "* b delay 2ms\na b loss 6\n");
  EXPECT_EQ(Run("fault/clear", "a b"), "ok\n");
  EXPECT_THAT(Run("fault/clear", "a b"), HasSubstr("there are none"));
  EXPECT_THAT(Run("fault/clear", "a"), HasSubstr("must name a source and a destination"));
  EXPECT_EQ(Run("fault/clear"), "ok\n");
  EXPECT_EQ(Run("fault/show"), "");
  EXPECT_THAT(Run("fault", "a b loss 1000001"), HasSubstr("parts per million"));
  EXPECT_THAT(Run("fault", "a b delay 2s"), HasSubstr("0 to 1s"));
}

// A line of the answer, with its alignment.
std::string Line(const std::string& name, uint64_t value) {
  return absl::StrFormat("\n  %-26s %12u  ", name, value);
}

TEST_F(FaultCommandsRun, CountersAreShownAlsoOfTheDead) {
  EXPECT_THAT(Run("counters"), testing::StartsWith("conservation\n"));
  EXPECT_THAT(Run("counters", "a"), HasSubstr("no process has registered it"));
  auto a = std::make_unique<SoftNode>(OpenSoftHca(subnet_.Connect(), "a").value());
  auto b = std::make_unique<SoftNode>(OpenSoftHca(subnet_.Connect(), "b").value());
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(a->Send(b->Address(), "12345"), 0);
    b->Receive();
  }
  const auto of_a =
      testing::AllOf(testing::StartsWith("a\n"), HasSubstr(Line("xmit_packets", 3)),
                     HasSubstr(Line("xmit_bytes", 15)), HasSubstr(Line("rcv_delivered", 0)),
                     testing::Not(HasSubstr("b\n")));
  const auto of_b = testing::AllOf(testing::StartsWith("b\n"), HasSubstr(Line("xmit_packets", 0)),
                                   HasSubstr(Line("rcv_delivered", 3)));
  const auto expect_counters = [&] {
    EXPECT_THAT(Run("counters", "a"), of_a);
    EXPECT_THAT(Run("counters", "b"), of_b);
    const std::string all = Run("counters");
    EXPECT_THAT(all, testing::StartsWith(Run("counters", "a") + Run("counters", "b") +
                                         "conservation" + Line("copies", 3)));
    EXPECT_THAT(all, testing::AllOf(HasSubstr(Line("delivered", 3)), HasSubstr(Line("in_rings", 0)),
                                    HasSubstr(Line("died", 0))));
  };
  {
    SCOPED_TRACE("alive");
    expect_counters();
  }
  a.reset();
  b.reset();
  SCOPED_TRACE("dead");
  expect_counters();
}

}  // namespace
}  // namespace eoib::softhca
