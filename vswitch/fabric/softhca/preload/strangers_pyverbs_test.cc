// A Python program (python3-pyverbs) on our HCA: group_peer_for_test.py.
#include <string>

#include "vswitch/fabric/softhca/preload/strangers_test_fixture.h"

namespace eoib::softhca {
namespace {

using testing::HasSubstr;

constexpr char kMgid[] = "ff12:e01b:ffff::1";

class StrangersPyverbsTest : public StrangersTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(access("/usr/lib/python3/dist-packages/pyverbs", X_OK), 0)
        << "this test needs apt-get install python3-pyverbs";
    StrangersTest::SetUp();
  }
  std::unique_ptr<Program> Start(const std::string& port,
                                 const std::vector<std::string>& options) const {
    std::vector<std::string> arguments = {"/usr/bin/python3",
                                          EOIB_PRELOAD_SOURCES "/group_peer_for_test.py", kMgid};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return std::make_unique<Program>(directory_, port, arguments);
  }
  static bool Says(const Program& program, const std::string& text) {
    return Eventually([&] {
             return program.output().find(text) != std::string::npos || !program.IsRunning();
           }) &&
           program.output().find(text) != std::string::npos;
  }
  std::string From(const std::string& port, const std::string& text) const {
    return absl::StrCat("from LID ", ConfigOf(port).lid.value(), ": ", text, "\n");
  }
};

TEST_F(StrangersPyverbsTest, MembersOfAGroupReceiveFromEachOther) {
  auto first = Start("host1", {"--join", "--answer", "welcome"});
  ASSERT_TRUE(Says(*first, "ready\n")) << first->output();
  auto second = Start("host2", {"--join", "--send", "hello", "--until", "welcome"});
  EXPECT_EQ(second->Wait(), 0) << second->output() << first->output();
  EXPECT_THAT(second->output(), HasSubstr(From("host1", "welcome")));
  EXPECT_THAT(first->output(), HasSubstr(From("host2", "hello")));
}

TEST_F(StrangersPyverbsTest, AttachingWithoutJoiningReceivesNothing) {
  auto stranger = Start("host1", {"--answer", "not for me"});
  ASSERT_TRUE(Says(*stranger, "ready\n")) << stranger->output();
  auto member = Start("host2", {"--join", "--answer", "welcome"});
  ASSERT_TRUE(Says(*member, "ready\n")) << member->output();
  auto sender = Start("host3", {"--join", "--send", "hello", "--until", "welcome"});
  EXPECT_EQ(sender->Wait(), 0) << sender->output();
  EXPECT_THAT(member->output(), HasSubstr(From("host3", "hello")));
  EXPECT_TRUE(stranger->IsRunning()) << stranger->output();
  EXPECT_EQ(stranger->output(), "ready\n");
  EXPECT_EQ(subnet_.CountersOf("host1")->rcv_packets, 0u);
}

}  // namespace
}  // namespace eoib::softhca
