#include "tests/lab/resources.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace eoib::lab {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Lines(const std::string& path) {
  return absl::StrSplit(ReadFile(path), '\n');
}

std::string ProcPath(pid_t pid, const char* file) { return absl::StrCat("/proc/", pid, "/", file); }

int64_t CountContaining(const std::vector<std::string>& lines, const std::string& text) {
  return std::count_if(lines.begin(), lines.end(),
                       [&](const std::string& line) { return absl::StrContains(line, text); });
}

}  // namespace

// Parses a line "RssAnon:     1234 kB".
uint64_t StatusKib(pid_t pid, const std::string& name) {
  for (const std::string& line : Lines(ProcPath(pid, "status"))) {
    const std::vector<std::string> words = Words(line);
    uint64_t value = 0;
    if (words.size() == 3 && words[0] == name + ":" && absl::SimpleAtoi(words[1], &value))
      return value;
  }
  Die(absl::StrCat("no ", name, " in ", ProcPath(pid, "status")));
}

ProcessResources ResourcesOf(pid_t pid) {
  ProcessResources resources;
  std::error_code error;
  const auto descriptors = fs::directory_iterator(ProcPath(pid, "fd"), error);
  if (error) Die(absl::StrCat("look at process ", pid, ": ", error.message()));
  resources.descriptors = std::distance(begin(descriptors), end(descriptors));
  resources.ring_mappings = CountContaining(Lines(ProcPath(pid, "maps")), "/memfd:");
  resources.anonymous_kib = static_cast<int64_t>(StatusKib(pid, "RssAnon"));
  return resources;
}

absl::Duration WaitForProcessor(pid_t pid) {
  const std::vector<std::string> words = Words(ReadFile(absl::StrCat("/proc/", pid, "/schedstat")));
  int64_t nanoseconds = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[1], &nanoseconds))
    Die("/proc/PID/schedstat has not three numbers");
  return absl::Nanoseconds(nanoseconds);
}

bool UsesDevShm(pid_t pid) {
  for (const auto& entry : fs::directory_iterator(ProcPath(pid, "fd"))) {
    std::error_code closed_meanwhile;
    if (absl::StartsWith(fs::read_symlink(entry.path(), closed_meanwhile).string(), "/dev/shm/"))
      return true;
  }
  return CountContaining(Lines(ProcPath(pid, "maps")), " /dev/shm/") != 0;
}

int64_t SocketsBelow(const std::string& directory, Host* host) {
  int64_t count = 0;
  host->InNamespace(
      [&] { count = CountContaining(Lines("/proc/thread-self/net/unix"), " " + directory + "/"); });
  return count;
}

std::string Interfaces(Host* host) {
  std::string names;
  for (absl::string_view line :
       absl::StrSplit(host->MustIp("-o link show"), '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::MaxSplits(' ', 2));  // "2: v1: <...>"
    absl::StrAppend(&names, words.at(1), " ");
  }
  return names;
}

std::string Leftovers(const std::string& directory, const std::vector<Host*>& hosts) {
  std::string text;
  for (Host* host : hosts) {
    absl::StrAppend(&text, host->name(), ": interfaces ", Interfaces(host), ", sockets ",
                    SocketsBelow(directory, host), "\n");
  }
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.path().extension() != ".log") files.push_back(entry.path().string() + "\n");
  }
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) text += file;
  return text;
}

std::string SettledLeftovers(const std::string& directory, const std::vector<Host*>& hosts) {
  std::string text;
  int alike = 0;
  const bool settled = EventuallyTrue(kPatience, [&] {
    const std::string now = Leftovers(directory, hosts);
    alike = now == text && !absl::StrContains(now, ".new\n") ? alike + 1 : 0;
    text = now;
    return alike == 20;
  });
  if (!settled) Die("wait until the list of leftovers stops changing; the last list:\n" + text);
  return text;
}

void ExpectLeftovers(const std::string& before, const std::string& directory,
                     const std::vector<Host*>& hosts) {
  std::string now;
  EXPECT_TRUE(
      EventuallyTrue(kPatience, [&] { return (now = Leftovers(directory, hosts)) == before; }))
      << "before:\n"
      << before << "after:\n"
      << now;
}

}  // namespace eoib::lab
