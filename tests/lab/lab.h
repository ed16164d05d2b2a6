// Lab: a private set of hosts on one machine, for tests that need more than one component.
//
// A host is a network namespace, held open by a child process that dies with the test. Programs,
// sockets and devices live in it. Labs do not interfere, even those of different test programs:
// they share nothing outside their namespaces and temporary directories. Nothing is left behind,
// even if the test is killed: a janitor process outside the test's process tree notices the end of
// the test, kills the remaining processes in the lab's namespaces and removes its directory.
//
// One thread: the test's main thread, because a child dies with the thread that started it.
#ifndef EOIB_TESTS_LAB_LAB_H_
#define EOIB_TESTS_LAB_LAB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/lab/process.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::lab {

// Lists the requirements of a lab that this machine lacks; empty if none. If it is not empty, tests
// fail: a skipped test proves nothing.
std::string MissingOnThisMachine();

struct HostOptions {
  // Off by default: then the kernel sends nothing when an interface comes up, and a test can count
  // every frame.
  bool ipv6 = false;
  // Duplicate address detection. It delays every IPv6 address by a second or two.
  bool dad = false;
};

// Owned by its Lab.
class Host {
 public:
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const std::string& name() const { return name_; }
  bool has_ipv6() const { return has_ipv6_; }
  // The process that holds the namespace; for debugging, `nsenter -n -t PID` enters it.
  pid_t holder() const { return holder_; }
  int network_namespace() const { return namespace_.get(); }

  // Runs a program on the host, to its end.
  RunResult Run(const Argv& argv, const std::string& input = "",
                absl::Duration limit = absl::Seconds(60));
  // The same, for set-up: a failure ends the test program.
  std::string MustRun(const Argv& argv);
  // MustRun of ip(8), with the arguments split at spaces: MustIp("link set v1 up").
  std::string MustIp(const std::string& arguments);
  // Starts a program in the background; its log is NAME-of-program.N.log in the lab's directory.
  std::unique_ptr<Process> Start(const Argv& argv,
                                 const std::vector<std::string>& environment = {});

  // Runs `body` on a thread in the host's network namespace. Sockets that it opens stay in that
  // namespace.
  void InNamespace(const std::function<void()>& body);

  // Sets /proc/sys/net/PATH: Sysctl("ipv4/ip_forward", "1").
  void Sysctl(const std::string& path, const std::string& value);
  // A counter of /proc/net/snmp ("Udp", "InCsumErrors") or /proc/net/snmp6 ("",
  // "Udp6InCsumErrors").
  uint64_t Counter(const std::string& protocol, const std::string& name);
  // Packets that the kernel dropped at an interface, in both directions. Includes those that found
  // a TAP's queue full.
  uint64_t InterfaceDrops(const std::string& interface);

  // Devices, by their names on the host.
  bool HasInterface(const std::string& interface);
  void AddAddress(const std::string& interface,
                  const std::string& prefix);  // "10.0.0.1/24", or IPv6
  void SetUp(const std::string& interface);
  std::string Mac(const std::string& interface);
  // Adds a bridge with `members` and sets it up. No forward delay and no multicast snooping, which
  // would hide frames.
  void AddBridge(const std::string& bridge, const std::vector<std::string>& members);
  // Adds a macvlan in bridge mode on `lower`; it becomes `interface` on `owner`, which may be this
  // host.
  void AddMacvlan(const std::string& lower, Host* owner, const std::string& interface);
  // Adds a veth pair from this host's `interface` to `other`'s `other_interface`, and sets both up.
  void AddVeth(const std::string& interface, Host* other, const std::string& other_interface,
               int mtu = 1500);

 private:
  friend class Lab;
  Host(std::string name, std::string directory, const HostOptions& options);

  const std::string name_;
  const std::string directory_;  // of the lab
  const bool has_ipv6_;
  pid_t holder_ = -1;
  UniqueFd namespace_;
  int started_ = 0;
};

class Lab {
 public:
  // Ends the program with a message if the machine lacks something.
  Lab();
  // Kills all processes of the hosts and removes the directory. If the test has failed, prints the
  // logs first.
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  // Adds a host. Its name appears in messages and file names, and must be unique.
  Host* AddHost(const std::string& name, const HostOptions& options = {});

  // The lab's directory, below TMPDIR or /tmp; short enough for socket paths.
  const std::string& directory() const { return directory_; }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

 private:
  void StartJanitor();

  std::string directory_;
  UniqueFd janitor_in_;    // closing it starts the janitor's clean-up
  UniqueFd janitor_done_;  // reaches its end when the janitor has finished
  std::vector<std::unique_ptr<Host>> hosts_;
};

// The path of a program under test: EOIB_BIN/NAME, or EOIB_SANITIZED_BIN/NAME if that is set, so
// that the tests of one build can run the programs of a sanitizer build. Ends the program if
// neither is set, or if the file is missing.
std::string Binary(const std::string& name);
// Whether the programs are from a sanitizer build: slower, and they keep freed memory for a while.
bool AreSanitized();

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_LAB_H_
