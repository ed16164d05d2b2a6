// Lab: a private set of hosts on one machine, for tests that need more than one component.
//
// A host is a network namespace, held by a child process that dies with the test. Programs, sockets and devices live in it. Two
// labs, also of two test programs, never see each other: they share no name outside of their namespaces and temporary
// directories. Nothing stays behind, even if the test is killed: a janitor process outside of its process tree notices the
// test's end, kills what is left in the lab's namespaces and removes its directory.
//
// One thread: the test's main thread, which must outlive everything started (a child dies with the thread that made it).
#ifndef EOIB_TESTS_LAB_LAB_H_
#define EOIB_TESTS_LAB_LAB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/lab/process.h"
#include "vswitch/fabric/unique_fd.h"

namespace eoib::lab {

// What this machine lacks for a lab, in words; empty if nothing. Tests fail with it: a skipped test proves nothing.
std::string MissingOnThisMachine();

struct HostOptions {
  // Without, the kernel sends nothing of its own on an interface that comes up, so that a test can count every frame.
  bool ipv6 = false;
  // Detection of duplicate addresses. It delays every IPv6 address by a second or two.
  bool dad = false;
};

// Its Lab owns it, and outlives it.
class Host {
 public:
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const std::string& name() const { return name_; }
  // The process that holds the namespace: `nsenter -n -t PID` looks around in it.
  pid_t holder() const { return holder_; }
  int network_namespace() const { return namespace_.get(); }

  // Runs a program in the host.
  RunResult Run(const Argv& argv, const std::string& input = "", absl::Duration limit = absl::Seconds(60));
  // The same; a failure ends the test program: for set-up whose failure is not what is tested.
  std::string MustRun(const Argv& argv);
  // MustRun, with `command` split at spaces: MustIp("link set v1 up").
  std::string MustIp(const std::string& arguments);
  // Starts a program in the background; its log is NAME-of-program.N.log in the lab's directory.
  std::unique_ptr<Process> Start(const Argv& argv, const std::vector<std::string>& environment = {});

  // Runs `body` on a thread inside the host's network namespace; sockets that it opens stay the host's.
  void InNamespace(const std::function<void()>& body);

  // Sets /proc/sys/net/PATH: Sysctl("ipv4/ip_forward", "1").
  void Sysctl(const std::string& path, const std::string& value);
  // A counter of /proc/net/snmp ("Udp", "InCsumErrors") or /proc/net/snmp6 ("", "Udp6InCsumErrors").
  uint64_t Counter(const std::string& protocol, const std::string& name);
  // Packets that the kernel dropped at an interface, in both directions: a TAP's queue that is full counts here.
  uint64_t InterfaceDrops(const std::string& interface);

  // Devices. Names are within the host.
  bool HasInterface(const std::string& interface);
  void AddAddress(const std::string& interface, const std::string& prefix);  // "10.0.0.1/24", or IPv6
  void SetUp(const std::string& interface);
  std::string Mac(const std::string& interface);
  // A bridge, up, without delay or snooping that would hide frames, with `members`.
  void AddBridge(const std::string& bridge, const std::vector<std::string>& members);
  // A macvlan in bridge mode on `lower`, named `interface` in `owner` (perhaps this host).
  void AddMacvlan(const std::string& lower, Host* owner, const std::string& interface);
  // A cable from this host's `interface` to `other`'s `other_interface`; both ends up.
  void AddVeth(const std::string& interface, Host* other, const std::string& other_interface, int mtu = 1500);

 private:
  friend class Lab;
  Host(std::string name, std::string directory, const HostOptions& options);

  const std::string name_;
  const std::string directory_;  // of the lab
  pid_t holder_ = -1;
  UniqueFd namespace_;
  int started_ = 0;
};

class Lab {
 public:
  // Aborts the program, saying what is missing, where the machine cannot carry a lab.
  Lab();
  // Kills what runs in the hosts, removes the directory. Prints the logs first if the test has failed.
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  // A new host. The name is for messages and file names; no two the same.
  Host* AddHost(const std::string& name, const HostOptions& options = {});

  // The lab's own directory, under TMPDIR or /tmp; short enough for socket paths.
  const std::string& directory() const { return directory_; }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

 private:
  void StartJanitor();

  std::string directory_;
  UniqueFd janitor_in_;    // the janitor acts at its end
  UniqueFd janitor_done_;  // ends when the janitor has
  std::vector<std::unique_ptr<Host>> hosts_;
};

// The programs under test: EOIB_BIN/NAME, or EOIB_SANITIZED_BIN/NAME if that is set, so that one build's tests look at the
// programs of a sanitizer's. Aborts if neither is set, or if there is no such program.
std::string Binary(const std::string& name);
// Whether they are a sanitizer's: slower, and they keep what they have freed.
bool AreSanitized();

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_LAB_H_
