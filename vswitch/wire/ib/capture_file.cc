#include "vswitch/wire/ib/capture_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {
namespace {

bool IsFifo(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode);
}

// Another user may have made the fifo, to read what we write as root.
absl::Status CheckFifo(int fd, const std::string& path) {
  struct stat info;
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("open capture ", path));
  if (S_ISFIFO(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 0077) == 0)
    return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("open capture ", path,
                   ": another user than this program's could read from this fifo; make it with "
                   "`mkfifo -m 600` as user ",
                   geteuid(), ", or capture to -"));
}

// Does not wait for a reader, neither here nor when writing.
absl::StatusOr<int> OpenFifo(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid() && errno == ENXIO) {
    return absl::FailedPreconditionError(absl::StrCat(
        "open capture ", path, ": no process reads this fifo; start the reader first"));
  }
  if (!fd.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("open capture ", path));
  if (absl::Status status = CheckFifo(fd.get(), path); !status.ok()) return status;
  return fd.release();
}

absl::Status CannotCreate(int error, const std::string& path) {
  if (error != EEXIST) return absl::ErrnoToStatus(error, absl::StrCat("open capture ", path));
  return absl::AlreadyExistsError(
      absl::StrCat("open capture ", path,
                   ": a file or link of that name exists, and a capture overwrites none; remove it "
                   "or choose another path"));
}

bool WaitForReader(int fd, const std::function<bool()>& may_wait) {
  pollfd fifo = {fd, POLLOUT, 0};
  while (poll(&fifo, 1, 100) == 0) {
    if (!may_wait()) return errno = EAGAIN, false;
  }
  return true;
}

}  // namespace

absl::StatusOr<int> OpenCaptureFile(const std::string& path) {
  if (IsFifo(path)) return OpenFifo(path);
  // O_EXCL and O_NOFOLLOW: another user may have placed a file or link here for root to overwrite.
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return CannotCreate(errno, path);
  return fd;
}

absl::Status WriteCaptureFile(int fd, const std::string& path, absl::Span<const uint8_t> bytes,
                              const std::function<bool()>& may_wait) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN && WaitForReader(fd, may_wait)) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, absl::StrCat("write capture ", path));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace eoib
