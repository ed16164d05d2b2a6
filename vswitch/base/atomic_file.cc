#include "vswitch/base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {
namespace {

absl::Status WriteAll(int fd, const std::string& path, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t size = ::write(fd, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return absl::ErrnoToStatus(errno, absl::StrCat("write ", path));
    text.remove_prefix(static_cast<size_t>(size));
  }
  if (::fsync(fd) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("write ", path));
  return absl::OkStatus();
}

}  // namespace

absl::Status ReplaceFile(const std::string& path, absl::string_view text) {
  const std::string temporary = path + ".new";
  const UniqueFd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("write ", temporary));
  absl::Status status = WriteAll(file.get(), temporary, text);
  if (!status.ok()) return status;
  // fsync of the directory makes the rename durable.
  const UniqueFd directory(::open(path.substr(0, path.rfind('/') + 1).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (::rename(temporary.c_str(), path.c_str()) != 0 || !directory.valid() || ::fsync(directory.get()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("replace ", path));
  }
  return absl::OkStatus();
}

}  // namespace eoib
