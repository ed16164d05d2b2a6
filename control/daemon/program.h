// Shared parts of our daemons' mains: flags, --help, locks, descriptor limit, signals.
#ifndef EOIB_CONTROL_DAEMON_PROGRAM_H_
#define EOIB_CONTROL_DAEMON_PROGRAM_H_

#include "vswitch/base/unique_fd.h"

namespace eoib {

// Parses gflags. --help prints only the flags of the file `source` ("eoibd_main"), without gflags' own. Returns -1 to go on,
// or the exit status after --help, --version, or an argument that is no flag.
int ParseFlags(int argc, char** argv, const char* usage, const char* source);

// Turns off Abseil's deadlock detection, which Debian's build runs at every lock by default. It is useful in tests only.
void UsePlainLocks();

// Raises the descriptor limit to the hard limit. Each peer on the software fabric takes four descriptors, each interface a
// few. The usual limit of 1,024 exists for select(), which we do not call.
void RaiseDescriptorLimit();

// Blocks SIGTERM and SIGINT and returns a signalfd for them; ignores SIGPIPE. Call before any thread starts, so that all
// threads inherit the mask.
UniqueFd TerminationSignals();

// The same for SIGHUP, which stops none of our programs.
UniqueFd HangupSignals();

}  // namespace eoib

#endif  // EOIB_CONTROL_DAEMON_PROGRAM_H_
