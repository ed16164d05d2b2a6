// For leak tests: the resources of a process, and what processes leave behind on their hosts.
#ifndef EOIB_TESTS_LAB_RESOURCES_H_
#define EOIB_TESTS_LAB_RESOURCES_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/lab/lab.h"

namespace eoib::lab {

// Resources of a living process, from /proc. Excludes shared memory (text, libraries), so that
// other processes' starts and ends do not change it.
struct ProcessResources {
  int64_t descriptors = 0;
  int64_t ring_mappings = 0;  // mappings of memfds
  int64_t anonymous_kib = 0;  // resident
};
ProcessResources ResourcesOf(pid_t pid);
// A size in /proc/PID/status, such as "VmRSS".
uint64_t StatusKib(pid_t pid, const std::string& name);

// How long the process's first thread was ready to run, and waited for a processor that others had.
absl::Duration WaitForProcessor(pid_t pid);

// Whether it has a file in /dev/shm open or mapped. It must not: such memory would outlive the
// process.
bool UsesDevShm(pid_t pid);

// The number of Unix sockets on the host whose names are below `directory`.
int64_t SocketsBelow(const std::string& directory, Host* host);

// The names of the host's interfaces, in one line.
std::string Interfaces(Host* host);

// Lists what outlives processes, as a text to compare with another one: the hosts' interfaces,
// their sockets below `directory`, and the files there except logs.
std::string Leftovers(const std::string& directory, const std::vector<Host*>& hosts);

// The same, once no file is being replaced and twenty lists in a row are equal. For the first text
// of a comparison: the connection of a command that has just ended counts as a socket for a moment.
std::string SettledLeftovers(const std::string& directory, const std::vector<Host*>& hosts);

// Expects that the leftovers become equal to `before`: sockets of commands disappear a moment
// later.
void ExpectLeftovers(const std::string& before, const std::string& directory,
                     const std::vector<Host*>& hosts);

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_RESOURCES_H_
