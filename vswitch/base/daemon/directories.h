// Functions for directories: create one with its parents; the directory part of a path.
#ifndef EOIB_VSWITCH_BASE_DAEMON_DIRECTORIES_H_
#define EOIB_VSWITCH_BASE_DAEMON_DIRECTORIES_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace eoib {

// Like mkdir -p: creates `path` and its missing parents, all with `mode` (less the umask).
absl::Status MakeDirectories(const std::string& path, mode_t mode);
// The directory part: "/run/eoib" for "/run/eoib/eoibd.ctl", "." for a bare name, "/" for "/name".
std::string DirectoryOf(const std::string& path);

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_DIRECTORIES_H_
