#include "vswitch/base/daemon/directories.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace eoib {

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status MakeDirectories(const std::string& path, mode_t mode) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("make directory ", path, ": a file of that name is in the way"));
  }
  if (errno == ENOENT && path != "/" && path != ".") {
    absl::Status above = MakeDirectories(DirectoryOf(path), mode);
    if (!above.ok()) return above;
  }
  if (::mkdir(path.c_str(), mode) == 0 || errno == EEXIST) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("make directory ", path));
}

}  // namespace eoib
