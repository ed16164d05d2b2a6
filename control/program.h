// What the mains of our daemons do alike: flags, help, signals to end.
#ifndef EOIB_CONTROL_PROGRAM_H_
#define EOIB_CONTROL_PROGRAM_H_

#include "vswitch/fabric/unique_fd.h"

namespace eoib {

// Parses gflags. --help prints the flags of `source` ("eoibd_main") alone, not gflags' own two dozen. Returns -1 to go on, or
// the exit status: after --help, --version, or an argument that is no flag.
int ParseFlags(int argc, char** argv, const char* usage, const char* source);

// Locks without a search for deadlocks at each, which Abseil as Debian builds it makes by default; that is for tests.
void UsePlainLocks();

// As many descriptors as the system lets this process have. Each peer on the software fabric costs four, each interface some;
// the usual 1,024 are for the sake of select(), which none of ours calls.
void RaiseDescriptorLimit();

// SIGTERM and SIGINT as a descriptor that becomes readable; SIGPIPE is ignored. Before any thread starts, so that all inherit
// the mask.
UniqueFd TerminationSignals();

// SIGHUP, which ends no program of ours, in the same way.
UniqueFd HangupSignals();

}  // namespace eoib

#endif  // EOIB_CONTROL_PROGRAM_H_
