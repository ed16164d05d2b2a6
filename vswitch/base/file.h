// Functions for the files of a program: configuration, state and sockets.
#ifndef EOIB_VSWITCH_BASE_FILE_H_
#define EOIB_VSWITCH_BASE_FILE_H_

#include <sys/un.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {

// Reads a regular file of text, for every file that an operator may edit: a byte order mark, which
// editors on Windows write, is left out. kNotFound if there is no file; kInvalidArgument if it is
// another kind of file, longer than `most` bytes, or UTF-16. The message is the reason alone.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t most);

// The directory of the drop-ins of a configuration file NAME.toml: NAME.d beside it. Empty if the
// file has another ending: it has no drop-ins.
std::string DropInDirectoryOf(const std::string& path);
// The paths of the drop-ins NAME.d/*.toml, in the order of their names. None if there is no such
// directory.
absl::StatusOr<std::vector<std::string>> DropInsOf(const std::string& path);

// Replaces the file so that a crash leaves either the old or the new content: writes `text` beside
// it (PATH.new) and renames that to its name. A symbolic link stays, with the file at its end
// replaced. The file keeps its mode and owner (its group where the program may, or else the mode
// must give the group what it gives everybody); a new one is the owner's alone. `sync`: the new
// content is on disk when this returns, so it survives a crash of the machine.
//
// A file that is a mount point is written in place. If that fails after it began, PATH.new remains,
// with all of `text`, and the error names it; every other failure leaves the old content and no
// PATH.new.
absl::Status ReplaceFile(const std::string& path, absl::string_view text, bool sync = true);

// A lock by which the programs that may write a file know of each other. Without a lock if that
// fails, as for a file that the program may only read.
// Lock it again after the file was replaced.
UniqueFd LockAsReader(const std::string& path);
// Whether another program has such a lock, on a file that was not replaced since.
bool HasOtherReaders(const UniqueFd& own);

// Locks a state directory, until the descriptor is closed. kAlreadyExists if another program has
// locked it.
absl::StatusOr<UniqueFd> LockStateDirectory(const std::string& path);

// kInvalidArgument if the path does not fit, or has a zero byte: a leading one would name an
// abstract socket.
absl::StatusOr<sockaddr_un> UnixAddress(const std::string& path);
// The program at the other end of a Unix socket: "eoibctl (process 4711)".
std::string PeerProgram(int fd);
// Removes the socket file of a program that has died, before another listens there. `type`:
// SOCK_STREAM or SOCK_SEQPACKET. kAlreadyExists if a living program listens; the message names it.
absl::Status RemoveStaleSocket(const std::string& path, int type);

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_FILE_H_
