#include "vswitch/base/daemon/command_registry.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using Arguments = CommandRegistry::Arguments;

CommandRegistry::Command Echo(
    const std::string& name, const std::string& usage,
    CommandRegistry::Access access = CommandRegistry::Access::kReadWrite) {
  return {name,
          usage,
          "Says what it was given.",
          access,
          "message",
          [name](const Arguments& arguments) {
            return absl::StrCat(name, "(", absl::StrJoin(arguments, ","), ")");
          }};
}

std::string RunIn(const CommandRegistry& registry, const std::string& method,
                  const Arguments& arguments) {
  const auto result = registry.Run(method, arguments);
  return result.ok() ? *result : absl::StrCat("error: ", result.status().message());
}

class CommandRegistryTest : public ::testing::Test {
 protected:
  CommandRegistryTest() {
    registry_.Register({Echo("show", ""),
                        Echo("fdb/show", "[VES]", CommandRegistry::Access::kReadOnly),
                        Echo("fdb/flush", "VES"), Echo("fault/set", "PORT KIND"),
                        Echo("fault/set/loss", "PORT PERCENT [SEED]")});
  }
  CommandRegistry registry_;
};

TEST_F(CommandRegistryTest, OnlyMarkedCommandsAreReadOnly) {
  const auto run = [&](const std::string& method, const Arguments& arguments) {
    return registry_.Run(method, arguments, CommandRegistry::Access::kReadOnly);
  };
  EXPECT_TRUE(run("fdb/show", {}).ok());
  EXPECT_TRUE(run("fdb", {"show", "blue"}).ok());
  EXPECT_TRUE(run("help", {}).ok());
  EXPECT_TRUE(run("list-commands", {}).ok());
  for (const Arguments& words : std::initializer_list<Arguments>{
           {"show"}, {"fdb/flush", "blue"}, {"fdb", "flush", "blue"}, {"fdb/flush"}}) {
    const auto refused = run(words[0], Arguments(words.begin() + 1, words.end()));
    EXPECT_TRUE(absl::IsPermissionDenied(refused.status())) << absl::StrJoin(words, " ");
  }
  EXPECT_TRUE(registry_.Run("show", {}).ok());
}

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
      {"an argument that begins like a longer name",
       "fault/set",
       {"lossy", "down"},
       "fault/set(lossy,down)"},
      {"too many arguments",
       "fdb",
       {"show", "blue", "red"},
       "error: \"fdb/show\" takes 0 to 1 arguments, not 2; usage: fdb/show [VES]"},
      {"too few arguments",
       "fdb/flush",
       {},
       "error: \"fdb/flush\" takes 1 arguments, not 0; usage: fdb/flush VES"},
      {"no arguments wanted",
       "show",
       {"blue"},
       "error: \"show\" takes 0 arguments, not 1; usage: show"},
      {"a misspelled word",
       "shwo",
       {},
       "error: \"shwo\" is not a valid command; did you mean show?" + kList},
      {"a misspelled command of two words",
       "fdb",
       {"shwo"},
       "error: \"fdb shwo\" is not a valid command; did you mean fdb show?" + kList},
      {"half a command",
       "fdb",
       {},
       "error: \"fdb\" is not a valid command; did you mean fdb flush, fdb show?" + kList},
      {"unlike all", "reboot", {}, "error: \"reboot\" is not a valid command" + kList},
      {"empty", "", {}, "error: \"\" is not a valid command" + kList},
  };
  for (const auto& c : kCases)
    EXPECT_EQ(c.expected, RunIn(registry_, c.method, c.arguments)) << c.description;
}

TEST_F(CommandRegistryTest, TheUsageGivesTheNumberOfArguments) {
  const struct {
    const char* usage;
    size_t fewest, most;
  } kCases[] = {
      {"", 0, 0},
      {"on|off", 1, 1},
      {"VES [NEXT]", 1, 2},
      {"[VES [VLAN MAC]]", 0, 3},
      {"[SOURCE DESTINATION] [-s]", 0, 3},
      {"VES [vlan VID | flush]", 1, 3},
      {"VES VLAN MAC | MAC [dev VPORT] [vlan VLAN]", 1, 5},
      {"NAME KEY=VALUE...", 2, 100},
      {"[WORD...]", 0, 100},
  };
  for (const auto& c : kCases) {
    CommandRegistry registry;
    registry.Register({Echo("run", c.usage)});
    for (size_t count = 0; count <= 100; ++count) {
      EXPECT_EQ(registry.Call("run", Arguments(count, "x")).ok(),
                count >= c.fewest && count <= c.most)
          << c.usage << " with " << count;
    }
  }
  registry_.Register({Echo("run", "NAME KEY=VALUE...")});
  EXPECT_EQ(RunIn(registry_, "run", {"a"}),
            "error: \"run\" takes at least 2 arguments, not 1; usage: run NAME KEY=VALUE...");
}

TEST_F(CommandRegistryTest, ListsCommandsAsUnixctlDoes) {
  EXPECT_EQ(
      "The available commands are:\n"
      "  fault/set               PORT KIND\n"
      "  fault/set/loss          PORT PERCENT [SEED]\n"
      "  fdb/flush               VES\n"
      "  fdb/show                [VES]\n"
      "  help                    [COMMAND...]\n"
      "  list-commands\n"
      "  show\n",
      RunIn(registry_, "list-commands", {}));
}

TEST_F(CommandRegistryTest, HelpExplainsOneCommandOrThoseBelowAName) {
  EXPECT_EQ("show\n    Says what it was given.\n", RunIn(registry_, "help", {"show"}));
  EXPECT_EQ(
      "fdb flush VES\n    Says what it was given.\nfdb show [VES]\n    Says what it was given.\n",
      RunIn(registry_, "help", {"fdb"}));
  EXPECT_EQ(RunIn(registry_, "list-commands", {}), RunIn(registry_, "help", {}));
  EXPECT_EQ(
      "error: \"fdb shwo\" is not a valid command; did you mean fdb show? (use \"list-commands\" "
      "to see a list of valid commands)",
      RunIn(registry_, "help", {"fdb", "shwo"}));
}

TEST_F(CommandRegistryTest, UnregisterRemovesACommand) {
  registry_.Unregister("show");
  EXPECT_FALSE(registry_.Run("show", {}).ok());
  registry_.Unregister("never-there");
  registry_.Register({Echo("show", "")});
  EXPECT_EQ("show()", RunIn(registry_, "show", {}));
}

// Both forms of an answer have the same values.
TEST_F(CommandRegistryTest, AnswersHaveTextAndJson) {
  registry_.Register({{.name = "count", .handler = [](const Arguments&) {
                         return Answer({{"zebra", 1}, {"ape", nullptr}}, [](const Json& json) {
                           return "zebra " + TextOf(json, "zebra") + TextOf(json, "ape");
                         });
                       }}});
  EXPECT_EQ(registry_.Call("count", {})->Text(), "zebra 1");
  EXPECT_EQ(registry_.Call("count", {})->ToJson().dump(), R"({"zebra":1,"ape":null})")
      << "in that order";
  EXPECT_EQ(registry_.Call("show", {})->ToJson().dump(), R"j({"message":"show()"})j");
}

TEST_F(CommandRegistryTest, HelpInJson) {
  EXPECT_EQ(registry_.Call("help", {"fdb", "flush"})->ToJson().dump(),
            R"({"commands":[{"name":"fdb/flush","usage":"VES","help":"Says what it was given.",)"
            R"("read_only":false,"schema":"message"}]})");
  EXPECT_EQ(registry_.Call("help", {})->ToJson(), registry_.Call("list-commands", {})->ToJson());
}

TEST_F(CommandRegistryTest, AHandlerMayUnregisterItself) {
  const std::string name = "once";
  registry_.Register({{.name = name, .handler = [this, name](const Arguments&) {
                         registry_.Unregister(name);
                         return name;
                       }}});
  EXPECT_EQ("once", RunIn(registry_, "once", {}));
  EXPECT_FALSE(registry_.Run("once", {}).ok());
}

TEST_F(CommandRegistryTest, TellsTheObserverWhatMayHaveChangedSomething) {
  std::vector<std::string> told;
  registry_.OnChange([&told](const std::string& command) { told.push_back(command); });
  RunIn(registry_, "fdb/show", {});
  RunIn(registry_, "fdb/flush", {});  // refused
  RunIn(registry_, "fdb", {"flush", "blue"});
  EXPECT_EQ(told, std::vector<std::string>{"fdb flush blue"});
}

TEST_F(CommandRegistryTest, ReturnsTheErrorsOfHandlers) {
  registry_.Register(
      {{.name = "fail", .handler = [](const Arguments&) -> absl::StatusOr<std::string> {
          return absl::NotFoundError("no VES blue");
        }}});
  EXPECT_EQ(absl::NotFoundError("no VES blue"), registry_.Run("fail", {}).status());
}

TEST_F(CommandRegistryTest, RegisterChecksThatTheNameIsNew) {
  EXPECT_DEATH(registry_.Register({Echo("show", "")}), "check failed");
}

}  // namespace
}  // namespace eoib
