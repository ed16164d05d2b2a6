#include "vswitch/port/interface_state.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace eoib {

std::string NetworkNamespaceName(int own, int other) {
  struct stat mine, theirs;
  if (fstat(own, &mine) != 0 || fstat(other, &theirs) != 0) return "";
  if (mine.st_dev == theirs.st_dev && mine.st_ino == theirs.st_ino) return "";
  std::error_code error;
  for (std::filesystem::directory_iterator at("/run/netns", error), end; !error && at != end;
       at.increment(error)) {
    struct stat named;
    if (stat(at->path().c_str(), &named) != 0) continue;
    if (named.st_dev == theirs.st_dev && named.st_ino == theirs.st_ino)
      return at->path().filename().string();
  }
  return absl::StrCat("net:[", theirs.st_ino, "]");
}

}  // namespace eoib
