#include "vswitch/port/tap_finder.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <set>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

constexpr absl::Duration kValid = absl::Seconds(1);

// Files that are network namespaces: this thread's first, then those with names, then those of processes.
std::vector<std::string> NamespaceFiles() {
  std::vector<std::string> files = {"/proc/thread-self/ns/net"};
  const auto add = [&files](const char* directory, bool (*is_right)(char), const char* file) {
    const std::unique_ptr<DIR, int (*)(DIR*)> opened(opendir(directory), closedir);
    if (opened == nullptr) return;
    while (const dirent* entry = readdir(opened.get())) {
      if (is_right(entry->d_name[0])) files.push_back(absl::StrCat(directory, "/", entry->d_name, file));
    }
  };
  add(
      "/run/netns", [](char c) { return c != '.'; }, "");
  add(
      "/proc", [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }, "/ns/net");
  return files;
}

std::vector<NetdevInfo> TapsHere() {
  std::vector<NetdevInfo> taps;
  const UniqueFd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!netlink.valid()) return taps;
  VisitNetdevs(netlink.get(), [&taps](const NetdevInfo& info) {
    if (info.kind == "tun" && !info.alias.empty()) taps.push_back(info);
  });
  return taps;
}

}  // namespace

absl::optional<TapFinder::Found> TapFinder::Find(const std::string& alias) {
  if (clock_->Now() - searched_ > kValid) Search();
  for (const std::unique_ptr<Namespace>& one : namespaces_) {
    for (const NetdevInfo& info : one->taps) {
      if (info.alias == alias) return Found{one->fd.get(), info};
    }
  }
  return absl::nullopt;
}

std::vector<NetdevInfo> TapFinder::FindAll(const std::string& prefix) {
  if (clock_->Now() - searched_ > kValid) Search();
  std::vector<NetdevInfo> found;
  for (const std::unique_ptr<Namespace>& one : namespaces_) {
    for (const NetdevInfo& info : one->taps) {
      if (absl::StartsWith(info.alias, prefix)) found.push_back(info);
    }
  }
  return found;
}

void TapFinder::Search() {
  namespaces_.clear();
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const std::string& file : NamespaceFiles()) {
    auto one = std::make_unique<Namespace>();
    one->fd.reset(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status;
    if (!one->fd.valid() || fstat(one->fd.get(), &status) != 0) continue;
    if (!seen.emplace(status.st_dev, status.st_ino).second) continue;
    // In a temporary thread, so that no other thread ends up in that namespace.
    std::thread([&one, is_own = seen.size() == 1] {
      if (is_own || setns(one->fd.get(), CLONE_NEWNET) == 0) one->taps = TapsHere();
    }).join();
    if (!one->taps.empty()) namespaces_.push_back(std::move(one));
  }
  searched_ = clock_->Now();
}

}  // namespace eoib
