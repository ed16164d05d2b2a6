// Vitals: what processes hold, and what they leave behind outside of themselves.
#ifndef EOIB_TESTS_LAB_VITALS_H_
#define EOIB_TESTS_LAB_VITALS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/lab/lab.h"

namespace eoib::lab {

// Of a living process, from /proc. Memory that it shares with others of its program (text, libraries) is not in it, so that
// the life and death of those do not show.
struct Vitals {
  int64_t descriptors = 0;
  int64_t ring_mappings = 0;  // of memory files
  int64_t anonymous_kib = 0;  // resident
};
Vitals VitalsOf(pid_t pid);

// Whether it has a file of /dev/shm, open or mapped. Its memory is to end with it.
bool UsesDevShm(pid_t pid);

// Unix sockets in the host with a name below `directory`.
int64_t SocketsBelow(const std::string& directory, Host* host);

// The names of the host's interfaces, in a line.
std::string Interfaces(Host* host);

// What is there outside of processes: interfaces of the hosts, their sockets below `directory`, and files there but logs. A
// text, to be compared with another.
std::string OutsideOfProcesses(const std::string& directory, const std::vector<Host*>& hosts);

// The same, once nothing there is under way: no file being replaced, and twenty looks in a row alike. For a text that others
// will be compared with: the connection of a command that has just ended is among the sockets for a moment.
std::string SettledOutsideOfProcesses(const std::string& directory, const std::vector<Host*>& hosts);

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_VITALS_H_
