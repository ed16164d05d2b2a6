#include "control/daemon/command_registry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using Arguments = CommandRegistry::Arguments;

CommandRegistry::Command Echo(const std::string& name, const std::string& usage, size_t min, size_t max) {
  return {
      name, usage, "Says what it was given.",
      min,  max,   [name](const Arguments& arguments) {
            return absl::StrCat(name, "(", absl::StrJoin(arguments, ","), ")"); }};
}

std::string RunIn(const CommandRegistry& registry, const std::string& method, const Arguments& arguments) {
  const auto result = registry.Run(method, arguments);
  return result.ok() ? *result : absl::StrCat("error: ", result.status().message());
}

class CommandRegistryTest : public ::testing::Test {
 protected:
  CommandRegistryTest() {
    registry_.Register(Echo("show", "", 0, 0));
    registry_.Register(Echo("fdb/show", "[VES]", 0, 1));
    registry_.Register(Echo("fdb/flush", "VES", 1, 1));
    registry_.Register(Echo("fault/set", "PORT KIND", 2, 2));
    registry_.Register(Echo("fault/set/loss", "PORT PERCENT", 2, 3));
  }
  CommandRegistry registry_;
};

TEST_F(CommandRegistryTest, FindsCommandsAndChecksArguments) {
  const std::string kList = " (use \"list-commands\" to see a list of valid commands)";
  const struct {
    const char* description;
    std::string method;
    Arguments arguments;
    std::string expected;
  } kCases[] = {
      {"one word", "show", {}, "show()"},
      {"with a slash", "fdb/show", {}, "fdb/show()"},
      {"with a slash and an argument", "fdb/show", {"blue"}, "fdb/show(blue)"},
      {"two words", "fdb", {"show"}, "fdb/show()"},
      {"two words and an argument", "fdb", {"show", "blue"}, "fdb/show(blue)"},
      {"the longest name wins", "fault", {"set", "loss", "p1", "5"}, "fault/set/loss(p1,5)"},
      {"an argument that begins like a longer name", "fault/set", {"lossy", "down"}, "fault/set(lossy,down)"},
      {"too many arguments",
       "fdb",
       {"show", "blue", "red"},
       "error: \"fdb/show\" takes 0 to 1 arguments, not 2; usage: fdb/show [VES]"},
      {"too few arguments", "fdb/flush", {}, "error: \"fdb/flush\" takes 1 arguments, not 0; usage: fdb/flush VES"},
      {"no arguments wanted", "show", {"blue"}, "error: \"show\" takes 0 arguments, not 1; usage: show"},
      {"a misspelled word", "shwo", {}, "error: \"shwo\" is not a valid command; did you mean show?" + kList},
      {"a misspelled command of two words",
       "fdb",
       {"shwo"},
       "error: \"fdb\" is not a valid command; did you mean fdb/show?" + kList},
      {"half a command", "fdb", {}, "error: \"fdb\" is not a valid command; did you mean fdb/flush, fdb/show?" + kList},
      {"unlike all", "reboot", {}, "error: \"reboot\" is not a valid command" + kList},
      {"empty", "", {}, "error: \"\" is not a valid command" + kList},
  };
  for (const auto& c : kCases) EXPECT_EQ(c.expected, RunIn(registry_, c.method, c.arguments)) << c.description;
}

TEST_F(CommandRegistryTest, ListsCommandsAsUnixctlDoes) {
  EXPECT_EQ(
      "The available commands are:\n"
      "  fault/set               PORT KIND\n"
      "  fault/set/loss          PORT PERCENT\n"
      "  fdb/flush               VES\n"
      "  fdb/show                [VES]\n"
      "  list-commands\n"
      "  show\n",
      RunIn(registry_, "list-commands", {}));
}

TEST_F(CommandRegistryTest, UnregisterRemovesACommand) {
  registry_.Unregister("show");
  EXPECT_FALSE(registry_.Run("show", {}).ok());
  registry_.Unregister("never-there");
  registry_.Register(Echo("show", "", 0, 0));
  EXPECT_EQ("show()", RunIn(registry_, "show", {}));
}

TEST_F(CommandRegistryTest, AHandlerMayUnregisterItself) {
  const std::string name = "once";
  registry_.Register({.name = name, .handler = [this, name](const Arguments&) {
                        registry_.Unregister(name);
                        return name;
                      }});
  EXPECT_EQ("once", RunIn(registry_, "once", {}));
  EXPECT_FALSE(registry_.Run("once", {}).ok());
}

TEST_F(CommandRegistryTest, ReturnsTheErrorsOfHandlers) {
  registry_.Register({.name = "fail", .handler = [](const Arguments&) -> absl::StatusOr<std::string> {
                        return absl::NotFoundError("no VES blue");
                      }});
  EXPECT_EQ(absl::NotFoundError("no VES blue"), registry_.Run("fail", {}).status());
}

TEST_F(CommandRegistryTest, RegisterChecksThatTheNameIsNew) {
  EXPECT_DEATH(registry_.Register(Echo("show", "", 0, 0)), "check failed");
}

}  // namespace
}  // namespace eoib
