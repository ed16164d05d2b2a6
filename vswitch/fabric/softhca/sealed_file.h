// Memory files that one process makes and another maps. They are sealed against shrinking and growing, so that neither can make
// the other fault.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SEALED_FILE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SEALED_FILE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vswitch/fabric/unique_fd.h"

namespace eoib::softhca {

// Makes a file of zeros and maps it writable. `what` names it in errors: "ring's data".
struct SealedFile {
  enum class Writers { kMaker, kAll };  // who may map it writable from now on: nobody, or all
  UniqueFd fd;
  void* address = nullptr;
};
absl::StatusOr<SealedFile> MakeSealedFile(const char* what, size_t size, SealedFile::Writers writers);
// kInvalidArgument unless a file that a stranger made can be mapped without danger: sealed, of exactly that size, and of
// ordinary pages. (A hole in a file of huge pages is filled only if one is free: reading it may be a SIGBUS.)
absl::Status CheckSealedFile(const char* what, int fd, size_t size);
// Shared with all who map it.
absl::StatusOr<void*> MapFile(const char* what, int fd, size_t size, int protection);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SEALED_FILE_H_
