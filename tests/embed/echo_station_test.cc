// A C program that embeds the switch, with another one and with eoibd.
#include <string>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/frames.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr char kAsker[] = "02:00:00:00:00:01";
constexpr char kStation[] = "02:00:00:00:00:02";

// The parameter is the library that the program has: "shared" or "static".
class EchoStationTest : public SwitchTest, public ::testing::WithParamInterface<const char*> {
 protected:
  static std::string Station() { return std::string(EOIB_STATIONS) + GetParam(); }
  Argv Command(const std::string& hca, const std::string& mac) {
    return {Station(), "soft:" + hca, soft_fabric().socket(), mac};
  }
  // A shell keeps the station's standard input open.
  std::unique_ptr<Process> StartStation(Host* host) {
    return host->Start(Concatenated({"sh", "-c", "sleep infinity | exec \"$@\"", "sh"},
                                    Command(host->name(), kStation)));
  }
};

TEST_P(EchoStationTest, AnswersAnotherProgram) {
  Host* const one = lab().AddHost("one");
  Host* const other = lab().AddHost("other");
  const auto station = StartStation(one);
  const RunResult asked = other->Run(Concatenated(Command("other", kAsker), {kStation}));
  EXPECT_TRUE(asked.ok()) << asked.ToString() << station->Log();
  EXPECT_THAT(asked.out, HasSubstr("hello from 02:00:00:00:00:02")) << asked.ToString();
  EXPECT_THAT(asked.out, ContainsRegex("\ndestination: known at GID .*\nto GID .* QPN 0x"))
      << "of eoib_vport_trace";
}

TEST_P(EchoStationTest, AnswersAStationBehindAnAgent) {
  Agent& agent = AddAgent("h1");
  Host* const host = lab().AddHost("embedder");
  const auto station = StartStation(host);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return agent.KnowsAnnounced(kStation); }))
      << station->Log();
  PacketSocket socket(agent.host(), "v1");
  socket.Send(TestFrame(Mac(kStation), Mac(kAsker), 7));
  EXPECT_TRUE(socket.WaitFor(ExactlyFrame(TestFrame(Mac(kAsker), Mac(kStation), 7))))
      << station->Log();
}

TEST_P(EchoStationTest, EndsWithAMessageThatSaysWhatIsWrong) {
  Host* const host = lab().AddHost("h1");
  const RunResult wrong = host->Run({Station(), "ether:eth0", soft_fabric().socket(), kStation});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err,
              HasSubstr("open HCA \"ether:eth0\": no such kind; this program has soft:, verbs:"));
}

// A program with the static library runs where libeoib is not installed.
TEST_P(EchoStationTest, NeedsTheSharedLibraryOnlyIfLinkedSo) {
  const RunResult needed = lab().AddHost("h1")->Run({"readelf", "--dynamic", Station()});
  EXPECT_EQ(absl::StrContains(needed.out, "libeoib.so.0"), GetParam() == std::string("shared"))
      << needed.ToString();
}

INSTANTIATE_TEST_SUITE_P(Libraries, EchoStationTest, ::testing::Values("shared", "static"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace eoib::lab
