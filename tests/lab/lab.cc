#include "tests/lab/lab.h"

#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <set>
#include <sstream>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "tests/lab/rtnetlink.h"

namespace eoib::lab {
namespace {

namespace fs = std::filesystem;

constexpr char kSanitizedBin[] = "EOIB_SANITIZED_BIN";

bool WriteProc(const std::string& path, const std::string& value) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return fd.valid() &&
         write(fd.get(), value.data(), value.size()) == static_cast<ssize_t>(value.size());
}

bool SetLoopbackUp() {
  UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return fd.valid() && ioctl(fd.get(), SIOCSIFFLAGS, &request) == 0;
}

// By default turns IPv6 off, or only duplicate address detection, which delays each address by a
// second and sends frames.
bool QuietIpv6(const HostOptions& options) {
  for (const char* scope : {"all", "default"}) {
    const std::string base = absl::StrCat("/proc/sys/net/ipv6/conf/", scope, "/");
    if (!WriteProc(base + "accept_dad", options.dad ? "1" : "0")) return false;
    if (!WriteProc(base + "disable_ipv6", options.ipv6 ? "0" : "1")) return false;
  }
  return true;
}

// Closes all descriptors but `keep`, and detaches from the terminal or pipes of the test.
void KeepOnly(std::vector<int> keep) {
  int null = open("/dev/null", O_RDWR);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  keep.insert(keep.end(), {0, 1, 2});
  for (int fd = 3; fd < 4096; ++fd) {
    if (std::find(keep.begin(), keep.end(), fd) == keep.end()) close(fd);
  }
}

// The child that holds a host's namespace open. Writes "" or the failure to `ready`, then waits to
// be killed.
[[noreturn]] void HoldNamespace(int ready, const HostOptions& options, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "lab-host");
  if (getppid() != parent) _exit(1);
  KeepOnly({ready});
  std::string failure;
  if (unshare(CLONE_NEWNET) != 0) {
    failure = absl::StrCat("make a network namespace: ", strerror(errno));
  } else if (!SetLoopbackUp()) {
    failure = absl::StrCat("set lo up: ", strerror(errno));
  } else if (!QuietIpv6(options)) {
    failure = absl::StrCat("configure IPv6 in /proc/sys/net: ", strerror(errno));
  }
  failure.push_back('\n');
  (void)!write(ready, failure.data(), failure.size());
  close(ready);
  while (true) pause();
}

// Reads a descriptor to its end.
std::string ReadAll(int fd) {
  std::string text;
  char bytes[512];
  ssize_t got;
  while ((got = read(fd, bytes, sizeof(bytes))) > 0 || (got < 0 && errno == EINTR)) {
    if (got > 0) text.append(bytes, got);
  }
  return text;
}

ino_t NamespaceOf(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

// Kills all processes in the given network namespaces. Repeats until none is left: one may fork
// while /proc is read.
void KillAllIn(const std::set<ino_t>& namespaces) {
  for (int round = 0; round < 10; ++round) {
    int killed = 0;
    DIR* proc = opendir("/proc");
    if (proc == nullptr) return;
    while (dirent* entry = readdir(proc)) {
      int pid = 0;
      if (!absl::SimpleAtoi(entry->d_name, &pid) || pid == getpid()) continue;
      const ino_t inode = NamespaceOf(absl::StrCat("/proc/", pid, "/ns/net"));
      if (inode == 0 || namespaces.count(inode) == 0) continue;
      kill(pid, SIGKILL);
      ++killed;
    }
    closedir(proc);
    if (killed == 0) return;
    internal::SleepOnePoll();
  }
}

// The janitor: reads lines "PID of a holder" from `in` and opens each namespace, so that its inode
// number is not reused by another lab. It confirms each line by a byte to `done`. When `in` ends,
// the test has ended or was killed, and it cleans up.
[[noreturn]] void RunJanitor(int in, int done, const std::string& directory) {
  prctl(PR_SET_NAME, "lab-janitor");
  setsid();
  KeepOnly({in, done});
  std::set<ino_t> namespaces;
  std::string line;
  char byte;
  ssize_t got;
  while ((got = read(in, &byte, 1)) == 1 || (got < 0 && errno == EINTR)) {
    if (got != 1) continue;
    if (byte != '\n') {
      line.push_back(byte);
      continue;
    }
    int fd = open(absl::StrCat("/proc/", line, "/ns/net").c_str(), O_RDONLY);
    struct stat status;
    if (fd >= 0 && fstat(fd, &status) == 0) namespaces.insert(status.st_ino);
    line.clear();
    (void)!write(done, "\n", 1);
  }
  KillAllIn(namespaces);
  std::error_code ignored;
  fs::remove_all(directory, ignored);
  _exit(0);
}

bool Installed(const std::string& program) {
  for (absl::string_view directory : absl::StrSplit("/usr/sbin:/usr/bin:/sbin:/bin", ':')) {
    if (access(absl::StrCat(directory, "/", program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

bool CanOpenTun() { return UniqueFd(open("/dev/net/tun", O_RDWR | O_CLOEXEC)).valid(); }

// Tries in a child, so that the test itself stays in its namespace.
bool CanMakeNamespaces() {
  pid_t pid = fork();
  if (pid == 0) _exit(unshare(CLONE_NEWNET) == 0 ? 0 : 1);
  int status = 1;
  return pid > 0 && waitpid(pid, &status, 0) == pid && ExitCode(status) == 0;
}

std::string Tail(const std::string& text, size_t length) {
  return text.size() <= length ? text : "[...]\n" + text.substr(text.size() - length);
}

void PrintLogs(const std::string& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() != ".log") continue;
    const std::string text = ReadFile(entry.path());
    if (!text.empty())
      std::cerr << "--- " << entry.path().filename().string() << "\n" << Tail(text, 6000) << "\n";
  }
}

}  // namespace

std::string MissingOnThisMachine() {
  std::vector<std::string> missing;
  if (geteuid() != 0) missing.push_back("root (labs make network namespaces)");
  if (!CanMakeNamespaces()) missing.push_back("network namespaces (unshare(CLONE_NEWNET) fails)");
  if (!CanOpenTun()) missing.push_back("/dev/net/tun (modprobe tun)");
  struct {
    const char* program;
    const char* package;
  } needed[] = {{"ip", "iproute2"},
                {"ping", "iputils-ping"},
                {"ethtool", "ethtool"},
                {"ndisc6", "ndisc6"},
                {"tshark", "tshark"},
                {"iperf3", "iperf3"},
                {"radvd", "radvd"},
                {"dnsmasq", "dnsmasq-base"},
                {"dhclient", "isc-dhcp-client"},
                {"arping", "iputils-arping"},
                {"ovs-appctl", "openvswitch-common"}};
  for (const auto& row : needed) {
    if (!Installed(row.program))
      missing.push_back(absl::StrCat(row.program, " (apt-get install ", row.package, ")"));
  }
  return absl::StrJoin(missing, "; ");
}

std::string Binary(const std::string& name) {
  const char* directory = std::getenv(AreSanitized() ? kSanitizedBin : "EOIB_BIN");
  if (directory == nullptr)
    Die("EOIB_BIN is not set: run the test through ctest, or set it to BUILD/bin");
  const std::string path = absl::StrCat(directory, "/", name);
  if (access(path.c_str(), X_OK) != 0) DieErrno("run " + path);
  return path;
}

bool AreSanitized() { return std::getenv(kSanitizedBin) != nullptr; }

Host::Host(std::string name, std::string directory, const HostOptions& options)
    : name_(std::move(name)), directory_(std::move(directory)), has_ipv6_(options.ipv6) {
  Pipe ready = MakePipe();
  const pid_t parent = getpid();
  holder_ = fork();
  if (holder_ < 0) DieErrno("fork");
  if (holder_ == 0) HoldNamespace(ready.write.get(), options, parent);
  ready.write.reset();
  const std::string failure(absl::StripAsciiWhitespace(ReadAll(ready.read.get())));
  if (!failure.empty()) Die(absl::StrCat("host ", name_, ": ", failure));
  namespace_.reset(open(absl::StrCat("/proc/", holder_, "/ns/net").c_str(), O_RDONLY | O_CLOEXEC));
  if (!namespace_.valid()) DieErrno("open the namespace of host " + name_);
}

Host::~Host() {
  kill(holder_, SIGKILL);
  waitpid(holder_, nullptr, 0);
}

RunResult Host::Run(const Argv& argv, const std::string& input, absl::Duration limit) {
  SpawnOptions options;
  options.argv = argv;
  options.network_namespace = network_namespace();
  return RunToEnd(std::move(options), input, limit);
}

std::string Host::MustRun(const Argv& argv) {
  RunResult result = Run(argv);
  if (!result.ok())
    Die(absl::StrCat("on ", name_, ": ", absl::StrJoin(argv, " "), ": ", result.ToString()));
  return result.out;
}

std::string Host::MustIp(const std::string& arguments) { return MustRun(Words("ip " + arguments)); }

std::unique_ptr<Process> Host::Start(const Argv& argv,
                                     const std::vector<std::string>& environment) {
  SpawnOptions options;
  options.argv = argv;
  options.network_namespace = network_namespace();
  options.environment = environment;
  const std::string program = fs::path(argv[0]).filename();
  return std::make_unique<Process>(
      std::move(options),
      absl::StrCat(directory_, "/", name_, ".", program, ".", started_++, ".log"));
}

void Host::InNamespace(const std::function<void()>& body) {
  std::thread([&] {
    if (setns(network_namespace(), CLONE_NEWNET) != 0)
      DieErrno("enter the namespace of host " + name_);
    body();
  }).join();
}

void Host::Sysctl(const std::string& path, const std::string& value) {
  InNamespace([&] {
    if (!WriteProc("/proc/sys/net/" + path, value))
      DieErrno(absl::StrCat("set net/", path, " on ", name_));
  });
}

uint64_t Host::Counter(const std::string& protocol, const std::string& name) {
  std::string text;
  InNamespace([&] {
    text =
        ReadFile(protocol.empty() ? "/proc/thread-self/net/snmp6" : "/proc/thread-self/net/snmp");
  });
  std::vector<std::string> names;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words = Words(line);
    uint64_t value = 0;
    if (protocol.empty() && words.size() == 2 && words[0] == name &&
        absl::SimpleAtoi(words[1], &value))
      return value;
    if (protocol.empty() || words.empty() || words[0] != protocol + ":") continue;
    // /proc/net/snmp has a line of names, then a line of values.
    if (names.empty()) {
      names = words;
      continue;
    }
    for (size_t i = 1; i < words.size() && i < names.size(); ++i) {
      if (names[i] == name && absl::SimpleAtoi(words[i], &value)) return value;
    }
  }
  Die(absl::StrCat("no counter ", protocol, " ", name, " on ", name_));
}

// proc(5), /proc/net/dev: "v1: ", then eight counters of reception and eight of transmission; the
// fourth of each is "drop".
uint64_t Host::InterfaceDrops(const std::string& interface) {
  std::string text;
  InNamespace([&] { text = ReadFile("/proc/thread-self/net/dev"); });
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" :"), absl::SkipEmpty());
    uint64_t received = 0, sent = 0;
    if (words.size() < 17 || words[0] != interface) continue;
    if (absl::SimpleAtoi(words[4], &received) && absl::SimpleAtoi(words[12], &sent))
      return received + sent;
  }
  Die(absl::StrCat("no counters of ", interface, " on ", name_));
}

bool Host::HasInterface(const std::string& interface) {
  bool has = false;
  InNamespace([&] { has = HasLink(interface); });
  return has;
}

void Host::AddAddress(const std::string& interface, const std::string& prefix) {
  InNamespace([&] { AddInterfaceAddress(interface, prefix); });
}

void Host::SetUp(const std::string& interface) {
  InNamespace([&] { SetLinkUp(interface); });
}

std::string Host::Mac(const std::string& interface) {
  const std::vector<std::string> words =
      absl::StrSplit(MustIp(absl::StrCat("-o link show dev ", interface)), absl::ByAnyChar(" \n\\"),
                     absl::SkipEmpty());
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "link/ether") return words[i + 1];
  }
  Die(absl::StrCat(interface, " on ", name_, " has no MAC address"));
}

void Host::AddBridge(const std::string& bridge, const std::vector<std::string>& members) {
  MustIp(absl::StrCat("link add ", bridge,
                      " type bridge forward_delay 0 stp_state 0 mcast_snooping 0"));
  for (const std::string& member : members)
    MustIp(absl::StrCat("link set ", member, " master ", bridge));
  SetUp(bridge);
}

void Host::AddMacvlan(const std::string& lower, Host* owner, const std::string& interface) {
  // The kernel creates the device directly in the namespace of the holder's PID.
  MustIp(absl::StrCat("link add link ", lower, " name ", interface, " netns ", owner->holder(),
                      " type macvlan mode bridge"));
  owner->SetUp(interface);
}

void Host::AddVeth(const std::string& interface, Host* other, const std::string& other_interface,
                   int mtu) {
  MustIp(absl::StrCat("link add ", interface, " mtu ", mtu, " type veth peer name ",
                      other_interface, " mtu ", mtu, " netns ", other->holder()));
  SetUp(interface);
  other->SetUp(other_interface);
}

Lab::Lab() {
  const std::string missing = MissingOnThisMachine();
  if (!missing.empty()) Die("this machine lacks: " + missing);
  const char* base = std::getenv("TMPDIR");
  std::string pattern = absl::StrCat(base != nullptr ? base : "/tmp", "/eoib-lab.XXXXXX");
  if (mkdtemp(pattern.data()) == nullptr) DieErrno("make a directory " + pattern);
  directory_ = pattern;
  StartJanitor();
}

void Lab::StartJanitor() {
  Pipe in = MakePipe(), done = MakePipe();
  pid_t pid = fork();
  if (pid < 0) DieErrno("fork");
  if (pid == 0) {
    // A double fork: killing the test with all its children must not kill the janitor.
    if (fork() == 0) RunJanitor(in.read.get(), done.write.get(), directory_);
    _exit(0);
  }
  waitpid(pid, nullptr, 0);
  janitor_in_ = std::move(in.write);
  janitor_done_ = std::move(done.read);
}

Lab::~Lab() {
  if (::testing::Test::HasFailure()) PrintLogs(directory_);
  janitor_in_.reset();
  ReadAll(janitor_done_.get());
  hosts_.clear();
}

Host* Lab::AddHost(const std::string& name, const HostOptions& options) {
  hosts_.emplace_back(new Host(name, directory_, options));
  const std::string line = absl::StrCat(hosts_.back()->holder(), "\n");
  if (write(janitor_in_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    DieErrno("tell the janitor");
  // A holder that dies before the janitor has opened its namespace would leave the namespace's
  // processes behind.
  char confirmed;
  if (read(janitor_done_.get(), &confirmed, 1) != 1) DieErrno("wait for the janitor");
  return hosts_.back().get();
}

}  // namespace eoib::lab
