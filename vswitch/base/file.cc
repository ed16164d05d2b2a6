#include "vswitch/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

absl::Status WriteAll(int fd, const std::string& path, absl::string_view text, bool sync) {
  while (!text.empty()) {
    const ssize_t size = ::write(fd, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return absl::ErrnoToStatus(errno, absl::StrCat("write ", path));
    text.remove_prefix(static_cast<size_t>(size));
  }
  if (sync && ::fsync(fd) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("write ", path));
  return absl::OkStatus();
}

// The file to which a symbolic link leads; `path` itself if it is none.
std::string EndOfLink(const std::string& path) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return path;
  const std::unique_ptr<char, void (*)(void*)> target(::realpath(path.c_str(), nullptr), std::free);
  return target == nullptr ? path : target.get();
}

// Gives the new file the owner and mode of the one at `path`, if there is one. A service may not
// change groups; that matters only if the mode treats the group in another way than the rest.
absl::Status KeepOwnerAndMode(const std::string& path, int file) {
  struct stat old, made;
  if (::stat(path.c_str(), &old) != 0 || ::fstat(file, &made) != 0) return absl::OkStatus();
  const bool any_group =
      old.st_uid == made.st_uid && ((old.st_mode & S_IRWXG) >> 3) == (old.st_mode & S_IRWXO);
  if ((old.st_uid != made.st_uid || old.st_gid != made.st_gid) &&
      ::fchown(file, old.st_uid, old.st_gid) != 0 && !any_group) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("keep the owner of ", path, " (`chown ", made.st_uid, ":", made.st_gid,
                            " ", path, "` lets this program write it)"));
  }
  if (::fchmod(file, old.st_mode & 07777) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("keep the mode of ", path));
  return absl::OkStatus();
}

// Makes a rename durable.
absl::Status SyncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const UniqueFd directory(
      ::open(slash == std::string::npos ? "." : path.substr(0, slash + 1).c_str(),
             O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.valid() && ::fsync(directory.get()) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("write the directory of ", path));
}

// For a file that is a mount point, as a container may have it: rename(2) cannot replace that.
// `copy` is a file with the same text, which stays if this one cannot be written to its end, by a
// crash too.
absl::Status WriteInPlace(const std::string& path, absl::string_view text, bool sync,
                          const std::string& copy) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  bool is_ready = file.valid() && (!sync || SyncDirectoryOf(copy).ok());
  if (is_ready &&
      ::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(text.size())) != 0) {
    is_ready = errno != ENOSPC && errno != EDQUOT;  // not all file systems can reserve room
  }
  if (!is_ready) {
    absl::Status status =
        absl::ErrnoToStatus(errno, absl::StrCat("write ", path, ", a mount point, in place"));
    ::unlink(copy.c_str());
    return status;
  }
  absl::Status status = WriteAll(file.get(), path, text, /*sync=*/false);
  if (status.ok() && (::ftruncate(file.get(), static_cast<off_t>(text.size())) != 0 ||
                      (sync && ::fsync(file.get()) != 0))) {
    status = absl::ErrnoToStatus(errno, absl::StrCat("write ", path));
  }
  if (status.ok()) {
    ::unlink(copy.c_str());
    return status;
  }
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), "; this mount point is now damaged: the whole text is in ",
                   copy, "; make room and copy it to ", path));
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t most) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0)
    return absl::Status(absl::ErrnoToStatusCode(errno), std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return absl::InvalidArgumentError("it is a directory; name a file");
  if (!S_ISREG(info.st_mode) || static_cast<size_t>(info.st_size) > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is not a regular file of at most ", most, " bytes"));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad())
    return absl::Status(absl::ErrnoToStatusCode(errno), std::strerror(errno));
  if (absl::StartsWith(text, "\xff\xfe") || absl::StartsWith(text, "\xfe\xff")) {
    return absl::InvalidArgumentError("it is UTF-16 text; write it as UTF-8");
  }
  if (absl::StartsWith(text, "\xef\xbb\xbf")) text.erase(0, 3);
  return text;
}

constexpr absl::string_view kSuffix = ".toml";

std::string DropInDirectoryOf(const std::string& path) {
  if (!absl::EndsWith(path, kSuffix)) return "";
  return absl::StrCat(path.substr(0, path.size() - kSuffix.size()), ".d");
}

absl::StatusOr<std::vector<std::string>> DropInsOf(const std::string& path) {
  std::vector<std::string> paths;
  const std::string directory = DropInDirectoryOf(path);
  if (directory.empty()) return paths;
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(opendir(directory.c_str()), closedir);
  if (opened == nullptr) {
    if (errno == ENOENT || errno == ENOTDIR) return paths;
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("read the configuration's directory ", directory));
  }
  while (const dirent* entry = readdir(opened.get())) {
    const std::string name = entry->d_name;
    if (absl::EndsWith(name, kSuffix) && name[0] != '.')
      paths.push_back(absl::StrCat(directory, "/", name));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

absl::Status ReplaceFile(const std::string& name, absl::string_view text, bool sync) {
  const std::string path = EndOfLink(name);
  const std::string temporary = path + ".new";
  const UniqueFd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("write ", temporary));
  absl::Status status = KeepOwnerAndMode(path, file.get());
  if (status.ok()) status = WriteAll(file.get(), temporary, text, sync);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) == 0)
    return sync ? SyncDirectoryOf(path) : absl::OkStatus();
  if (status.ok() && errno == EBUSY) return WriteInPlace(path, text, sync, temporary);
  if (status.ok()) status = absl::ErrnoToStatus(errno, absl::StrCat("replace ", path));
  ::unlink(temporary.c_str());
  return status;
}

// Each reader holds a write lock on one byte of this range, far behind the end of the file. A local
// user who may only read the file cannot take such a lock, and his read locks are not looked for.
constexpr off_t kReaders = off_t{1} << 40, kMostReaders = 64;

UniqueFd LockAsReader(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  for (off_t i = 0; file.valid() && i < kMostReaders; ++i) {
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = kReaders + i;
    lock.l_len = 1;
    if (::fcntl(file.get(), F_OFD_SETLK, &lock) == 0) return file;
  }
  return UniqueFd();
}

bool HasOtherReaders(const UniqueFd& own) {
  struct flock lock = {};
  lock.l_type = F_RDLCK;  // conflicts with write locks only
  lock.l_whence = SEEK_SET;
  lock.l_start = kReaders;
  lock.l_len = kMostReaders;
  return own.valid() && ::fcntl(own.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

absl::StatusOr<UniqueFd> LockStateDirectory(const std::string& path) {
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid())
    return absl::ErrnoToStatus(errno, absl::StrCat("open state directory ", path));
  if (::flock(directory.get(), LOCK_EX | LOCK_NB) == 0) return directory;
  if (errno != EWOULDBLOCK)
    return absl::ErrnoToStatus(errno, absl::StrCat("lock state directory ", path));
  return absl::AlreadyExistsError(absl::StrCat(
      "lock state directory ", path,
      ": another program uses it; stop that one, or give this one its own (--statedir)"));
}

std::string PeerProgram(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0)
    return "another program";
  std::string name;
  std::getline(std::ifstream(absl::StrCat("/proc/", peer.pid, "/comm")), name);
  return absl::StrCat(name.empty() ? "a program" : absl::CHexEscape(name), " (process ", peer.pid,
                      ")");
}

absl::StatusOr<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  if (path.empty() || path.size() >= sizeof(address.sun_path) ||
      path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket ", path, ": the path of a socket has 1 to ",
                     sizeof(address.sun_path) - 1, " bytes, this one ", path.size()));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// EAGAIN means a full backlog, so that program is alive.
absl::Status RemoveStaleSocket(const std::string& path, int type) {
  const absl::StatusOr<sockaddr_un> address = UnixAddress(path);
  if (!address.ok()) return address.status();
  const std::string what = absl::StrCat("listen on socket ", path);
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0)
    return errno == ENOENT ? absl::OkStatus() : absl::ErrnoToStatus(errno, what);
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(
        what, ": a file that is no socket is in the way; remove it if no other program needs it"));
  }
  const UniqueFd probe(::socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!probe.valid()) return absl::ErrnoToStatus(errno, what);
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0 ||
      errno == EAGAIN) {
    return absl::AlreadyExistsError(
        absl::StrCat(what, ": ", PeerProgram(probe.get()),
                     " serves it already; stop that program first, or give this one another name"));
  }
  if (errno != ECONNREFUSED || (::unlink(path.c_str()) != 0 && errno != ENOENT))
    return absl::ErrnoToStatus(errno, what);
  return absl::OkStatus();
}

}  // namespace eoib
