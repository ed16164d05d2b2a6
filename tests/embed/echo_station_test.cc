// A C program that embeds the switch, with another one and with eoibd.
#include <string>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/frames.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;

constexpr char kAsker[] = "02:00:00:00:00:01";
constexpr char kStation[] = "02:00:00:00:00:02";

class EchoStationTest : public SwitchTest {
 protected:
  Argv Command(const std::string& hca, const std::string& mac) {
    return {EOIB_ECHO_STATION, "soft:" + hca, soft_fabric().socket(), mac};
  }
  // A shell keeps the station's standard input open.
  std::unique_ptr<Process> StartStation(Host* host) {
    return host->Start(Concatenated({"sh", "-c", "sleep infinity | exec \"$@\"", "sh"}, Command(host->name(), kStation)));
  }
};

TEST_F(EchoStationTest, AnswersAnotherProgram) {
  Host* const one = lab().AddHost("one");
  Host* const other = lab().AddHost("other");
  const auto station = StartStation(one);
  const RunResult asked = other->Run(Concatenated(Command("other", kAsker), {kStation}));
  EXPECT_TRUE(asked.ok()) << asked.ToString() << station->Log();
  EXPECT_THAT(asked.out, HasSubstr("hello from 02:00:00:00:00:02")) << asked.ToString();
}

TEST_F(EchoStationTest, AnswersAStationBehindAnAgent) {
  Agent& agent = AddAgent("h1");
  Host* const host = lab().AddHost("embedder");
  const auto station = StartStation(host);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return agent.KnowsAnnounced(kStation); })) << station->Log();
  PacketSocket socket(agent.host(), "v1");
  socket.Send(TestFrame(Mac(kStation), Mac(kAsker), 7));
  EXPECT_TRUE(socket.WaitFor(ExactlyFrame(TestFrame(Mac(kAsker), Mac(kStation), 7)))) << station->Log();
}

TEST_F(EchoStationTest, EndsWithAMessageThatSaysWhatIsWrong) {
  Host* const host = lab().AddHost("h1");
  const RunResult wrong = host->Run({EOIB_ECHO_STATION, "ether:eth0", soft_fabric().socket(), kStation});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("open HCA \"ether:eth0\": no such kind; this program has soft:, verbs:"));
}

}  // namespace
}  // namespace eoib::lab
