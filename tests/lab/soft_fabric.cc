#include "tests/lab/soft_fabric.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace eoib::lab {
namespace {

std::string QuotedList(const std::vector<std::string>& names) {
  return absl::StrCat("[",
                      absl::StrJoin(names, ", ",
                                    [](std::string* out, const std::string& name) {
                                      absl::StrAppend(out, "\"", name, "\"");
                                    }),
                      "]");
}

std::string ToToml(const std::vector<PartitionSpec>& partitions) {
  std::string toml;
  for (const PartitionSpec& partition : partitions) {
    absl::StrAppend(&toml, "[[partition]]\npkey = ", partition.pkey, "\n");
    if (!partition.full.empty())
      absl::StrAppend(&toml, "full = ", QuotedList(partition.full), "\n");
    if (!partition.limited.empty())
      absl::StrAppend(&toml, "limited = ", QuotedList(partition.limited), "\n");
  }
  return toml;
}

bool Connects(const std::string& path, int type) {
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) Die("path too long for a Unix socket: " + path);
  std::strcpy(address.sun_path, path.c_str());
  return connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

}  // namespace

SoftFabric::SoftFabric(Lab* lab, const std::vector<PartitionSpec>& partitions)
    : host_(lab->AddHost("fabric")), directory_(lab->Path("fabric")) {
  if (mkdir(directory_.c_str(), 0755) != 0) DieErrno("make " + directory_);
  WriteFile(directory_ + "/partitions.toml", ToToml(partitions));
  Start();
}

void SoftFabric::Launch() {
  process_ =
      host_->Start({Binary("eoib-fabricd"), "--rundir=" + directory_, "--statedir=" + directory_,
                    absl::StrCat("--config=", directory_, "/partitions.toml")});
}

void SoftFabric::Start() {
  Launch();
  if (!EventuallyTrue(kPatience, [this] { return !Alive() || Answers(); }) || !Alive()) {
    Die("eoib-fabricd does not come up:\n" + Log());
  }
}

void SoftFabric::Kill(int signal) {
  EXPECT_TRUE(Alive()) << "eoib-fabricd has died:\n" << Log();
  process_->Kill(signal);
}

Argv SoftFabric::DaemonCommand(const std::string& program, const std::string& host) {
  return {Binary(program), "--hca=soft:" + host, "--fabric=" + socket()};
}

void SoftFabric::End() {
  if (!Alive()) return;
  EXPECT_EQ(Stop(), 0) << "eoib-fabricd did not exit with 0:\n" << Log();
}

// Reads the lines "name value meaning" after the line "conservation", which follows the counters of
// the ports.
std::map<std::string, int64_t> SoftFabric::Conservation() {
  std::map<std::string, int64_t> counters;
  bool is_there = false;
  for (absl::string_view line : absl::StrSplit(Ctl({"counters"}).out, '\n')) {
    const std::vector<std::string> words = Words(line);
    int64_t value = 0;
    is_there = is_there || line == "conservation";
    if (is_there && words.size() >= 2 && absl::SimpleAtoi(words[1], &value))
      counters[words[0]] = value;
  }
  return counters;
}

// If both processes of a ring have died, its datagrams stay in in_rings for ever.
void SoftFabric::ExpectConservation() {
  std::map<std::string, int64_t> now;
  const auto is_at_rest = [&] {
    const std::map<std::string, int64_t> before = std::exchange(now, Conservation());
    if (now.count("joint_deaths") == 0 || now != before) return false;
    const bool rings_rest =
        now["in_rings"] == 0 || (now["joint_deaths"] > 0 && now["in_rings"] > 0);
    return now["sending"] == 0 && now["receiving"] == 0 && rings_rest;
  };
  EXPECT_TRUE(EventuallyTrue(kPatience, is_at_rest))
      << "conservation of datagrams: " << Ctl({"counters"}).ToString();
}

int SoftFabric::Stop() {
  Kill(SIGCONT);
  Kill(SIGTERM);
  return process_->Wait().value_or(-1);
}

bool SoftFabric::Answers() const {
  return Connects(socket(), SOCK_SEQPACKET) || Connects(socket(), SOCK_STREAM);
}

RunResult SoftFabric::Ctl(const Argv& command) {
  Argv argv = {Binary("eoibctl"), "-t", directory_ + "/fabricd.ctl"};
  argv.insert(argv.end(), command.begin(), command.end());
  return host_->Run(argv);
}

}  // namespace eoib::lab
