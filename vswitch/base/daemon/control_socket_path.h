// The paths of control sockets.
#ifndef EOIB_VSWITCH_BASE_DAEMON_CONTROL_SOCKET_PATH_H_
#define EOIB_VSWITCH_BASE_DAEMON_CONTROL_SOCKET_PATH_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace eoib {

// The socket of a program: `target` itself if it contains a slash, else RUNDIR/TARGET.ctl; or that
// of the agent with this
// --name, RUNDIR/eoibd.TARGET.ctl, if only that exists.
std::string ControlSocketPath(absl::string_view target, absl::string_view rundir);

// The socket of this `program` with this --name, which may be empty. kInvalidArgument: the name
// cannot be part of a file's.
absl::StatusOr<std::string> OwnControlSocket(absl::string_view rundir, absl::string_view program,
                                             absl::string_view name);

// "RUNDIR/eoibd.ro.ctl" for "RUNDIR/eoibd.ctl".
std::string ReadOnlySocketOf(absl::string_view path);
bool IsReadOnlySocket(absl::string_view path);

// `path`; or its read-only socket, if this user may not connect to `path` but to that.
std::string AccessibleSocket(const std::string& path);

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_CONTROL_SOCKET_PATH_H_
