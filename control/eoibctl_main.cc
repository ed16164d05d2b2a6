// eoibctl: the operator's tool. It sends one command to a running program through its control
// socket and prints the answer. Exit status: 0 done, 1 no answer or no output, 2 the command was
// refused or failed.
#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/eoibctl_capture.h"
#include "vswitch/base/daemon/command_client.h"
#include "vswitch/base/daemon/program.h"

DEFINE_string(target, "",
              "the program to ask: NAME of the socket RUNDIR/NAME.ctl, or the PATH of a socket "
              "(default eoibd)");
DEFINE_string(t, "", "short for --target");
DEFINE_string(rundir, "/run/eoib", "the directory of the control sockets");
DEFINE_bool(temporary, false, "add, set, del: change the running program only, not its files");
DEFINE_bool(ours, false, "config save: write what is not saved over what others changed");
DEFINE_bool(theirs, false, "config save: take the files, and undo what is not saved");
DEFINE_bool(yes, false, "exit: do not ask, also on a terminal");
DEFINE_bool(force, false, "capture start: overwrite an existing file");
DEFINE_bool(json, false, "answer in JSON");
DEFINE_bool(j, false, "short for --json");
DEFINE_bool(s, false, "vport show: with counters");
DEFINE_double(timeout, 10, "seconds to wait for the answer");
DECLARE_bool(help);
DECLARE_bool(version);

namespace {

using Json = nlohmann::ordered_json;

constexpr int kNoAnswer = 1, kRefused = 2;
constexpr absl::Duration kMonitorInterval = absl::Milliseconds(200);
// If more events wait already. Not zero, so that a flood of events does not take the agent's
// control thread.
constexpr absl::Duration kMonitorPause = absl::Milliseconds(10);

constexpr char kUsage[] =
    "usage: eoibctl [-j] [-t NAME|PATH] [--rundir DIR] [--timeout SECONDS] COMMAND [ARGUMENT...]\n"
    "\n"
    "Sends a command to a running program, eoibd unless -t names another, and prints its answer.\n"
    "  eoibctl help [COMMAND...] lists the commands of the program, or explains one\n"
    "  eoibctl show              VESes and vPorts\n"
    "  eoibctl check [VES]       what a ping needs, and what to do about what is missing\n"
    "  eoibctl fdb show [VES]    where MAC addresses are\n"
    "  eoibctl fdb monitor VES   events of the MAC addresses, until interrupted\n"
    "  eoibctl peers [VES]       the other agents\n"
    "  eoibctl neigh [VES]       the paths to other hosts\n"
    "  eoibctl vport list [VES]  the vPorts of all agents\n"
    "  eoibctl vport show [NAME] [-s]    the vPorts of this host and their interfaces; -s: "
    "counters\n"
    "  eoibctl ves list          the VESes\n"
    "  eoibctl stats [VES]       frames and bytes\n"
    "  eoibctl drops [VES]       dropped frames, by reason\n"
    "  eoibctl hca               counters of the HCA port\n"
    "  eoibctl fdb find MAC, fdb get VES VLAN MAC, fdb add|del MAC dev VPORT [vlan VLAN]\n"
    "  eoibctl capture start PATH [vport=NAME] [mac=MAC] [vlan=VLAN] [snaplen=BYTES] "
    "[limit=SIZE]\n"
    "                          [--force], capture stop [PATH]\n"
    "  eoibctl capture start - | tshark -r -\n"
    "  eoibctl log set LEVEL     info or warning\n"
    "  eoibctl exit [--yes]      stops the program\n"
    "  eoibctl ves|vport add|set|del NAME [KEY=VALUE...] [--temporary]\n"
    "                            change the program and its files; --temporary: not the files\n"
    "  eoibctl reload            apply the configuration files\n"
    "  eoibctl config diff|show, config save [--ours|--theirs]\n"
    "\n"
    "  -j, --json                answer in JSON (control/operator/schema)\n"
    "  -t, --target NAME|PATH    the program: /run/eoib/NAME.ctl, or the path of its socket "
    "(default eoibd)\n"
    "  --rundir DIR              the directory of the sockets (default /run/eoib)\n"
    "  --timeout SECONDS         how long to wait for the answer (default 10)\n"
    "  --                        ends the options\n"
    "\n"
    "Exit status: 0 done, 1 no answer, or it could not be written, 2 the command was refused or "
    "failed.\n";

constexpr char kAgent[] = "eoibd";

std::string Target() {
  if (!FLAGS_t.empty()) return FLAGS_t;
  return FLAGS_target.empty() ? kAgent : FLAGS_target;
}

std::string SocketPath() {
  return eoib::AccessibleSocket(eoib::ControlSocketPath(Target(), FLAGS_rundir));
}
bool WantsJson() { return FLAGS_j || FLAGS_json; }

// Indented for a person; else a line for each answer.
void PrintJson(const Json& json) {
  std::puts(
      json.dump(isatty(STDOUT_FILENO) == 1 ? 2 : -1, ' ', false, Json::error_handler_t::replace)
          .c_str());
}

int Print(const eoib::CommandReply& reply) {
  if (WantsJson() && !reply.is_error) {
    PrintJson(Json::parse(reply.text, nullptr, false));
    return 0;
  }
  std::fputs(reply.text.c_str(), reply.is_error ? stderr : stdout);
  if (reply.is_error && Target() != kAgent &&
      absl::StrContains(reply.text, "is not a valid command")) {
    std::fprintf(stderr, "(asked %s; without -t it asks %s)\n", Target().c_str(), kAgent);
  }
  return reply.is_error ? kRefused : 0;
}

// The program's answer; or nullopt, after printing why there is none.
absl::optional<eoib::CommandReply> Call(const std::string& method,
                                        const std::vector<std::string>& arguments) {
  const auto form = WantsJson() ? eoib::AnswerForm::kJson : eoib::AnswerForm::kText;
  const auto reply =
      eoib::CallCommand(SocketPath(), method, arguments, absl::Seconds(FLAGS_timeout), form);
  if (reply.ok()) return *reply;
  std::fprintf(stderr, "eoibctl: %s\n", std::string(reply.status().message()).c_str());
  return absl::nullopt;
}

// As Monitor, with an event in JSON on each line. These functions end when they cannot write;
// CheckOutputAtExit reports why.
int MonitorJson(const std::vector<std::string>& ves) {
  for (std::vector<std::string> arguments = ves;;) {
    const absl::optional<eoib::CommandReply> reply = Call("fdb/monitor", arguments);
    if (!reply.has_value()) return kNoAnswer;
    if (reply->is_error) return Print(*reply);
    const Json answer = Json::parse(reply->text, nullptr, false);
    arguments = {ves[0], answer["next"].dump()};
    for (const Json& event : answer["events"]) {
      if (std::puts(event.dump(-1, ' ', false, Json::error_handler_t::replace).c_str()) < 0)
        return 0;
    }
    if (std::fflush(stdout) != 0) return 0;
    absl::SleepFor(answer["more"] == true ? kMonitorPause : kMonitorInterval);
  }
}

// `fdb monitor VES`: polls for new events, so that the agent never waits for a slow reader. The
// first line of an answer gives the number of the next event: "more 2000" if there are further
// events already, else "next 17".
int Monitor(const std::vector<std::string>& ves) {
  bool is_history = true;
  for (std::vector<std::string> arguments = ves;;) {
    const absl::optional<eoib::CommandReply> reply = Call("fdb/monitor", arguments);
    if (!reply.has_value()) return kNoAnswer;
    if (reply->is_error) return Print(*reply);
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(reply->text, absl::MaxSplits('\n', 1));
    const std::pair<absl::string_view, absl::string_view> words = absl::StrSplit(parts.first, ' ');
    arguments = {ves[0], std::string(words.second)};
    if (std::fputs(std::string(parts.second).c_str(), stdout) < 0 || std::fflush(stdout) != 0)
      return 0;
    if (is_history && words.first != "more") {
      is_history = false;
      if (std::puts("-- these were the last events; now follow new ones --") < 0 ||
          std::fflush(stdout) != 0)
        return 0;
    }
    absl::SleepFor(words.first == "more" ? kMonitorPause : kMonitorInterval);
  }
}

// `fdb show`: replaces a line "more: fdb show blue 7 02:00:00:00:00:0a" in an answer by the answer
// to that command. The agent sends a large FDB in parts, so that one command does not keep it busy
// for long.
int ShowFdb(const std::vector<std::string>& arguments) {
  absl::optional<std::vector<std::string>> next = arguments;
  std::string rest;  // the parts of answers not yet printed
  while (next.has_value()) {
    const absl::optional<eoib::CommandReply> reply = Call("fdb/show", *next);
    if (!reply.has_value()) return kNoAnswer;
    if (reply->is_error) return Print(*reply);
    next.reset();
    rest.insert(0, reply->text);
    size_t at = 0;
    for (size_t end; at < rest.size() && !next.has_value(); at = end) {
      end = std::min(rest.find('\n', at), rest.size() - 1) + 1;
      const std::string line = rest.substr(at, end - at);
      const std::vector<std::string> words = absl::StrSplit(absl::StripSuffix(line, "\n"), ' ');
      if (words.size() == 6 && words[0] == "more:") {
        next = {words[3], words[4], words[5]};
      } else if (std::fputs(line.c_str(), stdout) < 0) {
        return 0;
      }
    }
    rest.erase(0, at);
  }
  return 0;
}

// As ShowFdb: appends the entries after "next" to those of the VES.
int ShowFdbJson(const std::vector<std::string>& arguments) {
  const absl::optional<eoib::CommandReply> first = Call("fdb/show", arguments);
  if (!first.has_value()) return kNoAnswer;
  if (first->is_error) return Print(*first);
  Json answer = Json::parse(first->text, nullptr, false);
  for (Json& ves : answer["veses"]) {
    while (ves.contains("next")) {
      const Json next = ves["next"];
      ves.erase("next");
      const auto more = Call("fdb/show", {ves["name"].get<std::string>(), next["vlan"].dump(),
                                          next["mac"].get<std::string>()});
      if (!more.has_value()) return kNoAnswer;
      if (more->is_error) return Print(*more);
      const Json part = Json::parse(more->text, nullptr, false)["veses"][0];
      for (const Json& entry : part["entries"]) ves["entries"].push_back(entry);
      if (part.contains("next")) ves["next"] = part["next"];
    }
  }
  PrintJson(answer);
  return 0;
}

int Ask(std::string method, std::vector<std::string> arguments) {
  if (FLAGS_timeout <= 0) {
    std::fprintf(stderr, "eoibctl: --timeout must be above 0: seconds to wait for the answer\n");
    return kNoAnswer;
  }
  if (method == "exit" && !FLAGS_yes && isatty(STDIN_FILENO) == 1) {
    std::fprintf(stderr,
                 "eoibctl: exit stops %s, and takes the carrier of its interfaces; add --yes\n",
                 Target().c_str());
    return kRefused;
  }
  if (FLAGS_force) arguments.push_back("--force");
  if (FLAGS_s) arguments.push_back("-s");
  if (FLAGS_temporary) arguments.push_back("--temporary");
  if (FLAGS_ours) arguments.push_back("--ours");
  if (FLAGS_theirs) arguments.push_back("--theirs");
  if (method == "capture" && arguments.size() >= 2 && arguments[0] == "start" &&
      arguments[1] == "-") {
    return eoib::StreamCapture(SocketPath(), {arguments.begin() + 2, arguments.end()}, Call);
  }
  if (method == "fdb" && !arguments.empty() &&
      (arguments[0] == "monitor" || arguments[0] == "show")) {
    method += "/" + arguments[0];
    arguments.erase(arguments.begin());
  }
  if (method == "fdb/monitor" && arguments.size() == 1)
    return WantsJson() ? MonitorJson(arguments) : Monitor(arguments);
  if (method == "fdb/show") return WantsJson() ? ShowFdbJson(arguments) : ShowFdb(arguments);
  const absl::optional<eoib::CommandReply> reply = Call(method, arguments);
  return reply.has_value() ? Print(*reply) : kNoAnswer;
}

}  // namespace

int main(int argc, char** argv) {
  eoib::CheckOutputAtExit();
  gflags::SetUsageMessage(kUsage);
  // Hide "--" and what follows from gflags, which would move it before the other arguments.
  char** const options_end = std::find_if(
      argv, argv + argc, [](const char* argument) { return argument == std::string("--"); });
  std::vector<std::string> literal(std::min(options_end + 1, argv + argc), argv + argc);
  argc = static_cast<int>(options_end - argv);
  eoib::ParseFlags(&argc, &argv);
  if (FLAGS_help || FLAGS_version) {
    std::fputs(FLAGS_help ? kUsage : "eoibctl " EOIB_VERSION "\n", stdout);
    return 0;
  }
  std::vector<std::string> words(argv + 1, argv + argc);
  words.insert(words.end(), literal.begin(), literal.end());
  if (words.empty()) {
    std::fputs(kUsage, stderr);
    return kRefused;
  }
  return Ask(words.front(), std::vector<std::string>(words.begin() + 1, words.end()));
}
