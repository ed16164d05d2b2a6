// RunDaemon: the main function that all our daemons share.
#ifndef EOIB_VSWITCH_BASE_DAEMON_PROGRAM_H_
#define EOIB_VSWITCH_BASE_DAEMON_PROGRAM_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace eoib {

struct DaemonInfo {
  const char* name;         // "eoibd": in log lines and messages
  const char* description;  // one line, for --help
  const char* source;       // "eoibd_main": -h and --help print the flags of this file only
};

// What -h prints: the description and the flags, with their defaults. --help prints the list of
// gflags.
std::string Usage(const DaemonInfo& info);

// Parses the flags, prepares the process and calls `run`. Prints its error, unless that is
// kCancelled: a signal ended the start. Returns the exit status.
int RunDaemon(const DaemonInfo& info, int argc, char** argv,
              const std::function<absl::Status()>& run);

// Makes the end of the process (exit, also by gflags, or a return from main) check that all of
// standard output was written, as close_stdout of gnulib does for coreutils: otherwise it prints
// the reason, and the exit status is 1. A reader that closes its pipe early (EPIPE) is no error.
// Call first in main.
void CheckOutputAtExit();

// Parses gflags and removes them from the arguments. A mistake in them ends the program with a
// message that names --help.
void ParseFlags(int* argc, char*** argv);

// Raises the descriptor limit to the hard limit. Each peer on the software fabric takes four
// descriptors, each interface a few. The usual limit of 1,024 exists for select(), which we do not
// call.
void RaiseDescriptorLimit();

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_PROGRAM_H_
