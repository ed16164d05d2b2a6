#include "vswitch/base/daemon/control_socket_path.h"

#include <unistd.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace eoib {

std::string ControlSocketPath(absl::string_view target, absl::string_view rundir) {
  if (absl::StrContains(target, '/')) return std::string(target);
  const std::string path = absl::StrCat(rundir, "/", target, ".ctl"),
                    agent = absl::StrCat(rundir, "/eoibd.", target, ".ctl");
  return access(path.c_str(), F_OK) != 0 && access(agent.c_str(), F_OK) == 0 ? agent : path;
}

absl::StatusOr<std::string> OwnControlSocket(absl::string_view rundir, absl::string_view program,
                                             absl::string_view name) {
  if (name.find_first_of("/ \t\n") != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--name=\"", name, "\": write a name without '/' and blanks, such as vm-host-3"));
  }
  return absl::StrCat(rundir, "/", program, name.empty() ? "" : ".", name, ".ctl");
}

std::string ReadOnlySocketOf(absl::string_view path) {
  return absl::StrCat(absl::StripSuffix(path, ".ctl"), ".ro.ctl");
}

bool IsReadOnlySocket(absl::string_view path) { return absl::EndsWith(path, ".ro.ctl"); }

// To connect one needs permission to write (unix(7)).
std::string AccessibleSocket(const std::string& path) {
  if (access(path.c_str(), W_OK) == 0 || errno != EACCES) return path;
  const std::string read_only = ReadOnlySocketOf(path);
  return access(read_only.c_str(), W_OK) == 0 ? read_only : path;
}

}  // namespace eoib
