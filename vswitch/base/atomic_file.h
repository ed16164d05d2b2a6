// ReplaceFile: replaces a file so that a crash leaves either the old or the new content, never a mixture.
#ifndef EOIB_VSWITCH_BASE_ATOMIC_FILE_H_
#define EOIB_VSWITCH_BASE_ATOMIC_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace eoib {

// Writes `text` beside `path` (PATH.new, mode 0600), syncs it, renames it to `path` and syncs the directory.
absl::Status ReplaceFile(const std::string& path, absl::string_view text);

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_ATOMIC_FILE_H_
