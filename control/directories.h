#ifndef EOIB_CONTROL_DIRECTORIES_H_
#define EOIB_CONTROL_DIRECTORIES_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace eoib {

// Makes the directory `path` and those above it that are missing, all with `mode` (less the umask). Succeeds if it is there.
absl::Status MakeDirectories(const std::string& path, mode_t mode);
// "/run/eoib" of "/run/eoib/eoibd.ctl"; "." of a bare name; "/" of "/name".
std::string DirectoryOf(const std::string& path);

}  // namespace eoib

#endif  // EOIB_CONTROL_DIRECTORIES_H_
