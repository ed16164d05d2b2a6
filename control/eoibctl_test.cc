// Tests of the program eoibctl, at the path EOIBCTL.
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/daemon/running_server_for_test.h"

namespace eoib {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

class EoibctlTest : public ::testing::Test {
 protected:
  EoibctlTest() : rundir_(MakeTemporaryDirectory()) {
    for (const char* program : {"eoibd", "fabricd"}) {
      auto& registry = program == std::string("eoibd") ? eoibd_ : fabricd_;
      registry.Register({{.name = "fdb/show",
                          .usage = "[VES]",
                          .handler = [program](const CommandRegistry::Arguments& arguments) {
                            return absl::StrCat(program, ": fdb of ",
                                                arguments.empty() ? "all" : arguments[0]);
                          }}});
    }
  }
  ProgramResult Eoibctl(const std::string& arguments) const {
    return RunProgram(absl::StrCat(EOIBCTL " --rundir=", rundir_, " ", arguments));
  }

  std::string rundir_;
  CommandRegistry eoibd_, fabricd_;
};

TEST_F(EoibctlTest, SendsTheCommandToItsTarget) {
  const RunningServer eoibd(rundir_ + "/eoibd.ctl", &eoibd_),
      fabricd(rundir_ + "/fabricd.ctl", &fabricd_);
  const std::string kCommands =
      "The available commands are:\n  fdb/show                [VES]\n  help                    "
      "[COMMAND...]\n  list-commands\n";
  const struct {
    const char* description;
    std::string arguments;
    int exit_status;
    std::string out;
    std::string err;
  } kCases[] = {
      {"two words", "fdb show", 0, "eoibd: fdb of all\n", ""},
      {"with an argument", "fdb show blue", 0, "eoibd: fdb of blue\n", ""},
      {"with a slash", "fdb/show blue", 0, "eoibd: fdb of blue\n", ""},
      {"another target", "-t fabricd fdb show", 0, "fabricd: fdb of all\n", ""},
      {"another target, in the long form", "--target=fabricd fdb show", 0, "fabricd: fdb of all\n",
       ""},
      {"a target by its path", "-t " + rundir_ + "/fabricd.ctl fdb show", 0,
       "fabricd: fdb of all\n", ""},
      {"options behind the command", "fdb show blue -t fabricd", 0, "fabricd: fdb of blue\n", ""},
      {"an argument like an option", "fdb show -- -t", 0, "eoibd: fdb of -t\n", ""},
      {"help", "help", 0, kCommands, ""},
      {"help of another target", "-t fabricd help", 0, kCommands, ""},
      {"an unknown command of another target", "-t fabricd reboot", 2, "",
       "\"reboot\" is not a valid command (use \"list-commands\" to see a list of valid commands)\n"
       "(asked fabricd; without -t it asks eoibd)\n"},
      {"an unknown command", "fdb shwo", 2, "",
       "\"fdb shwo\" is not a valid command; did you mean fdb show? (use \"list-commands\" to see "
       "a list of valid commands)\n"},
  };
  for (const auto& c : kCases) {
    const ProgramResult result = Eoibctl(c.arguments);
    EXPECT_EQ(c.exit_status, result.exit_status) << c.description;
    EXPECT_EQ(c.out, result.out) << c.description;
    EXPECT_EQ(c.err, result.err) << c.description;
  }
}

// The further answers are inserted in place, so that the next VES comes after all of the first.
TEST_F(EoibctlTest, FdbShowJoinsTheAnswersOfALargeFdb) {
  CommandRegistry registry;
  registry.Register(
      {{.name = "fdb/show",
        .usage = "[VES VLAN MAC]",
        .handler = [](const CommandRegistry::Arguments& arguments) -> absl::StatusOr<std::string> {
          if (arguments.empty()) return std::string("VES a\n1\nmore: fdb show a 0 m1\nVES b\n9\n");
          if (arguments[2] == "m1") return std::string("2\nmore: fdb show a 0 m2\n");
          if (arguments[2] == "m2") return std::string("3\n");
          return absl::NotFoundError(arguments[2]);
        }}});
  const RunningServer eoibd(rundir_ + "/eoibd.ctl", &registry);
  EXPECT_EQ(Eoibctl("fdb show").out, "VES a\n1\n2\n3\nVES b\n9\n");
}

TEST_F(EoibctlTest, AnswersInJson) {
  eoibd_.Register({{.name = "ves/list", .handler = [](const CommandRegistry::Arguments&) {
                      return Answer(
                          {{"zebra", 1}, {"ape", {{{"name", "blue"}}}}},
                          [](const Json& json) { return TextOf(json, "zebra") + " zebras"; });
                    }}});
  eoibd_.Register(
      {{.name = "fail", .handler = [](const CommandRegistry::Arguments&) -> absl::StatusOr<Answer> {
          return absl::InternalError("broken");
        }}});
  eoibd_.Register(
      {{.name = "ping", .handler = [](const CommandRegistry::Arguments&) { return "pong\n"; }}});
  const RunningServer eoibd(rundir_ + "/eoibd.ctl", &eoibd_);
  EXPECT_EQ(Eoibctl("ves list").out, "1 zebras\n");
  for (const char* option : {"-j", "--json"}) {
    EXPECT_EQ(Eoibctl(absl::StrCat(option, " ves list")).out,
              "{\"zebra\":1,\"ape\":[{\"name\":\"blue\"}]}\n")
        << "in that order";
  }
  EXPECT_EQ(Eoibctl("ping -j").out, "{\"message\":\"pong\"}\n");
  const ProgramResult failed = Eoibctl("-j fail");
  EXPECT_EQ(failed.exit_status, 2);
  EXPECT_EQ(failed.out + failed.err, "broken\n");
}

// An FDB of the entries 1 to 3 in VES a, which comes in parts, and 9 in VES b.
TEST_F(EoibctlTest, FdbShowJoinsTheAnswersOfALargeFdbInJson) {
  CommandRegistry registry;
  const auto part = [](const char* name, int entry, bool has_more) {
    Json ves = {{"name", name}, {"entries", Json::array({{{"vlan", entry}}})}};
    if (has_more) ves["next"] = {{"vlan", entry}, {"mac", "m"}};
    return ves;
  };
  registry.Register(
      {{.name = "fdb/show",
        .usage = "[VES VLAN MAC]",
        .handler = [part](const CommandRegistry::Arguments& arguments) {
          const int next = arguments.empty() ? 1 : std::stoi(arguments[1]) + 1;
          Json veses = Json::array({part("a", next, next < 3)});
          if (arguments.empty()) veses.push_back(part("b", 9, false));
          return Answer({{"veses", veses}}, [](const Json&) { return std::string(); });
        }}});
  const RunningServer eoibd(rundir_ + "/eoibd.ctl", &registry);
  EXPECT_EQ(Eoibctl("-j fdb show").out,
            "{\"veses\":[{\"name\":\"a\",\"entries\":[{\"vlan\":1},{\"vlan\":2},{\"vlan\":3}]},"
            "{\"name\":\"b\",\"entries\":[{\"vlan\":9}]}]}\n");
}

TEST_F(EoibctlTest, ReportsAProgramThatDoesNotRun) {
  const ProgramResult result = Eoibctl("show");
  EXPECT_EQ(1, result.exit_status);
  EXPECT_EQ("", result.out);
  EXPECT_THAT(result.err, StartsWith("eoibctl: connect to " + rundir_ +
                                     "/eoibd.ctl: there is no such socket: eoibd does not run"));
}

TEST_F(EoibctlTest, ExplainsItself) {
  const ProgramResult help = Eoibctl("--help");
  EXPECT_EQ(0, help.exit_status);
  EXPECT_THAT(help.out, StartsWith("usage: eoibctl "));
  const ProgramResult bare = Eoibctl("");
  EXPECT_EQ(2, bare.exit_status);
  EXPECT_EQ(help.out, bare.err);
  const ProgramResult version = Eoibctl("--version");
  EXPECT_EQ(0, version.exit_status);
  EXPECT_THAT(version.out, HasSubstr("eoibctl "));
  const ProgramResult wrong = Eoibctl("--timeout=long show");
  EXPECT_EQ(1, wrong.exit_status);
  EXPECT_THAT(wrong.err, HasSubstr("'timeout'\nsee eoibctl --help\n"));
}

// For the shell command `eoibctl ARGUMENTS >/dev/full`: as on a full disk.
TEST_F(EoibctlTest, OutputThatCannotBeWrittenIsAnError) {
  const std::string text(100'000, 'x');
  eoibd_.Register(
      {{.name = "long", .handler = [&text](const CommandRegistry::Arguments&) { return text; }}});
  const auto monitor = [](const CommandRegistry::Arguments&) {
    return Answer({{"next", 1}, {"more", false}, {"events", Json::array({"moved"})}},
                  [](const Json&) { return std::string("next 1\nmoved\n"); });
  };
  eoibd_.Register({{.name = "fdb/monitor", .usage = "VES [NEXT]", .handler = monitor}});
  const RunningServer eoibd(rundir_ + "/eoibd.ctl", &eoibd_);
  for (const char* arguments :
       {"--help", "-h", "--version", "help", "list-commands", "fdb show", "-j help", "long",
        "-j long", "fdb monitor blue", "-j fdb monitor blue"}) {
    const ProgramResult result = RunProgram(
        absl::StrCat("{ ", EOIBCTL " --rundir=", rundir_, " ", arguments, " >/dev/full; }"));
    EXPECT_EQ(result.exit_status, 1) << arguments;
    EXPECT_THAT(
        result.err,
        MatchesRegex(
            "eoibctl: write to standard output: (No space left on device|it failed; [^\n]*)\n"))
        << arguments;
  }
  EXPECT_EQ(RunProgram(absl::StrCat("{ ", EOIBCTL " --rundir=", rundir_, " fdb shwo >/dev/full; }"))
                .exit_status,
            2)
      << "there is no output";
  const ProgramResult closed =
      RunProgram(absl::StrCat("{ ", EOIBCTL " --rundir=", rundir_, " help >&-; }"));
  EXPECT_EQ(closed.exit_status, 1);
  EXPECT_THAT(closed.err, HasSubstr("write to standard output: Bad file descriptor"));
}

// The pipe has no reader from the start. By default SIGPIPE ends the program; here it is ignored,
// as in a service of systemd.
TEST_F(EoibctlTest, APipeThatClosesEarlyIsNoError) {
  eoibd_.Register({{.name = "long", .handler = [](const CommandRegistry::Arguments&) {
                      return std::string(100'000, 'x');
                    }}});
  const RunningServer eoibd(rundir_ + "/eoibd.ctl", &eoibd_);
  for (const char* arguments : {"help", "long"}) {
    const ProgramResult result = RunProgram(
        absl::StrCat("sh -c 'cd ", rundir_,
                     "; rm -f pipe; mkfifo pipe; exec 3<>pipe 4>pipe 3<&-; trap \"\" PIPE; ",
                     EOIBCTL " --rundir=. ", arguments, " >&4'"));
    EXPECT_EQ(result.exit_status, 0) << arguments;
    EXPECT_EQ(result.err, "") << arguments;
  }
}

}  // namespace
}  // namespace eoib
