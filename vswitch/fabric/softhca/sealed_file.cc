#include "vswitch/fabric/softhca/sealed_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace eoib::softhca {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status SystemError(absl::string_view what) {
  return absl::InternalError(absl::StrCat(what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<SealedFile> MakeSealedFile(const char* what, size_t size,
                                          SealedFile::Writers writers) {
  SealedFile file;
  file.fd.reset(memfd_create(what, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int fd = file.fd.get();
  if (fd < 0) return SystemError(absl::StrCat("create a memory file for a ", what));
  if (ftruncate(fd, static_cast<off_t>(size)) != 0)
    return SystemError(absl::StrCat("size the ", what));
  const absl::StatusOr<void*> address = MapFile(what, fd, size, PROT_READ | PROT_WRITE);
  if (!address.ok()) return address.status();
  file.address = *address;
  // The present mapping stays writable. (Before Linux 5.1 others can be writable too, but the maker
  // never reads their bytes back.)
  if (writers == SealedFile::Writers::kMaker) fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
  if (fcntl(fd, F_ADD_SEALS, kSeals) == 0) return file;
  const absl::Status status = SystemError(absl::StrCat("seal the ", what));
  munmap(file.address, size);
  return status;
}

absl::Status CheckSealedFile(const char* what, int fd, size_t size) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return absl::InvalidArgumentError(
        absl::StrCat("map a ", what, ": it is not a sealed memory file"));
  }
  struct stat status;
  if (fstat(fd, &status) != 0 || static_cast<uint64_t>(status.st_size) != size) {
    return absl::InvalidArgumentError(absl::StrCat("map a ", what, ": its size is not ", size));
  }
  struct statfs system;
  if (fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC) {
    return absl::InvalidArgumentError(
        absl::StrCat("map a ", what, ": its pages are not ordinary ones"));
  }
  return absl::OkStatus();
}

absl::StatusOr<void*> MapFile(const char* what, int fd, size_t size, int protection) {
  void* address = mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return SystemError(absl::StrCat("map a ", what));
  return address;
}

}  // namespace eoib::softhca
