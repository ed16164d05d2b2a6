#include "vswitch/port/tap_finder.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
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

using FileId = std::pair<dev_t, ino_t>;

absl::optional<FileId> IdOf(const UniqueFd& fd) {
  struct stat status;
  if (!fd.valid() || fstat(fd.get(), &status) != 0) return absl::nullopt;
  return FileId(status.st_dev, status.st_ino);
}

// Any user can make a user namespace with network namespaces, and TAPs with our aliases there.
bool IsOfOurUserNamespace(const UniqueFd& network_namespace) {
  const UniqueFd ours(open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC));
  const UniqueFd owner(ioctl(network_namespace.get(), NS_GET_USERNS));
  const absl::optional<FileId> id = IdOf(owner);
  return id.has_value() && id == IdOf(ours);
}

// Files that are network namespaces: this thread's first, then those with names, then those of
// processes.
std::vector<std::string> NamespaceFiles() {
  std::vector<std::string> files = {"/proc/thread-self/ns/net"};
  const auto add = [&files](const char* directory, bool (*is_right)(char), const char* file) {
    const std::unique_ptr<DIR, int (*)(DIR*)> opened(opendir(directory), closedir);
    if (opened == nullptr) return;
    while (const dirent* entry = readdir(opened.get())) {
      if (is_right(entry->d_name[0]))
        files.push_back(absl::StrCat(directory, "/", entry->d_name, file));
    }
  };
  add(
      "/run/netns", [](char c) { return c != '.'; }, "");
  add(
      "/proc", [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); },
      "/ns/net");
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
  std::set<FileId> seen;
  for (const std::string& file : NamespaceFiles()) {
    auto one = std::make_unique<Namespace>();
    one->fd.reset(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    const absl::optional<FileId> id = IdOf(one->fd);
    if (!id.has_value() || !seen.insert(*id).second) continue;
    const bool is_own = seen.size() == 1;
    if (!is_own && !IsOfOurUserNamespace(one->fd)) continue;
    // In a temporary thread, so that no other thread ends up in that namespace.
    std::thread([&one, is_own] {
      if (is_own || setns(one->fd.get(), CLONE_NEWNET) == 0) one->taps = TapsHere();
    }).join();
    if (!one->taps.empty()) namespaces_.push_back(std::move(one));
  }
  searched_ = clock_->Now();
}

}  // namespace eoib
