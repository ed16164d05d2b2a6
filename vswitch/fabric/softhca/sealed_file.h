// Memory files that one process makes and another maps. They are sealed against shrinking and
// growing, so that neither process can make the other fault (SIGBUS).
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SEALED_FILE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SEALED_FILE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::softhca {

// A file of zeros, mapped writable. `what` names it in error messages: "ring's data".
struct SealedFile {
  enum class Writers { kMaker, kAll };  // kMaker: no further writable mappings
  UniqueFd fd;
  void* address = nullptr;
};
absl::StatusOr<SealedFile> MakeSealedFile(const char* what, size_t size,
                                          SealedFile::Writers writers);
// kInvalidArgument unless a file from another process is safe to map: sealed, of exactly this size,
// and with ordinary pages. (Reading a hole in a file of huge pages may raise SIGBUS, because it is
// filled only if a huge page is free.)
absl::Status CheckSealedFile(const char* what, int fd, size_t size);
// Maps the file MAP_SHARED.
absl::StatusOr<void*> MapFile(const char* what, int fd, size_t size, int protection);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SEALED_FILE_H_
