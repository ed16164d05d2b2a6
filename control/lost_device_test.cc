// An agent on libibverbs (the preload library of the software HCA stands in for it) whose device
// disappears and comes back.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/daemon/notify_socket_for_test.h"
#include "vswitch/base/daemon/running_server_for_test.h"
#include "vswitch/base/eventually_for_test.h"

namespace eoib {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

// A child process that logs to a file. The destructor kills it.
class Child {
 public:
  Child(const std::string& log, const std::vector<std::string>& environment,
        const std::string& command)
      : log_(log) {
    std::vector<std::string> words = absl::StrSplit(command, ' ');
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    dup2(fd, STDERR_FILENO);
    for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  // Waits for its exit status; -1 if it does not end.
  int Wait() {
    int status = -1;
    if (!Eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; })) return -1;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void Signal(int number) { kill(pid_, number); }
  bool Alive() { return waitpid(pid_, nullptr, WNOHANG) == 0; }
  std::string Log() const {
    std::ifstream file(log_);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

 private:
  const std::string log_;
  pid_t pid_ = -1;
};

class LostDeviceTest : public ::testing::Test {
 protected:
  LostDeviceTest() : directory_(MakeTemporaryDirectory()), gone_(directory_ + "/gone") {
    std::ofstream(directory_ + "/eoibd.toml")
        << "[[ves]]\nname = \"blue\"\npkey = 0xffff\n[[vport]]\nname = \"v1\"\nves = "
           "\"blue\"\ntype = \"test\"\n";
  }
  std::string Directories() const {
    return absl::StrCat(" --rundir=", directory_, " --statedir=", directory_);
  }
  std::string Eoibctl(const std::string& arguments) const {
    return RunProgram(absl::StrCat(EOIBCTL " --rundir=", directory_, " ", arguments)).out;
  }
  bool Shows(const std::string& part) const {
    return Eventually([&] { return absl::StrContains(Eoibctl("show"), part); });
  }
  void TakeDevicesAway() { std::ofstream(gone_) << "gone\n"; }
  void GiveDevicesBack() { ASSERT_EQ(unlink(gone_.c_str()), 0); }

  const std::string directory_;
  const std::string gone_;
};

TEST_F(LostDeviceTest, LogsTheLossAndForwardsAgainWhenTheDeviceIsBack) {
  Child fabricd(directory_ + "/fabricd.log", {}, EOIB_FABRICD + Directories());
  ASSERT_TRUE(Eventually([&] { return absl::StrContains(Eoibctl("-t fabricd help"), "show"); }))
      << fabricd.Log();
  const NotifySocket service_manager(directory_ + "/notify");
  Child eoibd(directory_ + "/eoibd.log",
              {absl::StrCat("NOTIFY_SOCKET=", service_manager.path()),
               absl::StrCat("LD_PRELOAD=", VANISHING_LIBRARY, ":", EOIB_VERBS_LIBRARY),
               absl::StrCat("EOIB_FABRIC=", directory_, "/fabricd.sock"), "EOIB_PORT=h1",
               absl::StrCat("EOIB_GONE=", gone_)},
              absl::StrCat(EOIBD_VERBS " --hca=verbs:eoib0/1 --config=", directory_, "/eoibd.toml",
                           Directories()));
  ASSERT_TRUE(Shows("HCA eoib0/1: active")) << eoibd.Log();
  EXPECT_THAT(Eoibctl("show"), AllOf(HasSubstr("(full member), QPN 0x"), HasSubstr("not joined: ")))
      << "verbs are there, and no MAD device";

  EXPECT_THAT(service_manager.Take(), Contains("READY=1"));
  TakeDevicesAway();
  Eoibctl("-t fabricd link h1 down");  // any event
  ASSERT_TRUE(Shows("waiting for the HCA: list the InfiniBand devices")) << eoibd.Log();
  EXPECT_TRUE(eoibd.Alive()) << "the same process";
  EXPECT_THAT(service_manager.Take(),
              IsSupersetOf({"STATUS=restarting: eoib0/1 reports that it is lost", "READY=1"}));
  EXPECT_THAT(eoibd.Log(), AllOf(HasSubstr("eoib0/1 reports that it is lost: restarting"),
                                 HasSubstr("modprobe ib_uverbs")));

  Eoibctl("-t fabricd link h1 up");
  GiveDevicesBack();
  ASSERT_TRUE(Shows("HCA eoib0/1: active")) << eoibd.Log();
  EXPECT_THAT(Eoibctl("show"), HasSubstr("vPort v1: test"));

  // Once more: the restart must not add arguments again and again.
  TakeDevicesAway();
  Eoibctl("-t fabricd link h1 down");
  ASSERT_TRUE(Shows("waiting for the HCA")) << eoibd.Log();
  Eoibctl("exit");
  EXPECT_EQ(eoibd.Wait(), 0) << eoibd.Log();
}

TEST_F(LostDeviceTest, ReadsItsFilesAgainWhileItWaitsForTheDevice) {
  Child fabricd(directory_ + "/fabricd.log", {}, EOIB_FABRICD + Directories());
  ASSERT_TRUE(Eventually([&] { return absl::StrContains(Eoibctl("-t fabricd help"), "show"); }))
      << fabricd.Log();
  TakeDevicesAway();
  Child eoibd(directory_ + "/eoibd.log",
              {absl::StrCat("LD_PRELOAD=", VANISHING_LIBRARY, ":", EOIB_VERBS_LIBRARY),
               absl::StrCat("EOIB_FABRIC=", directory_, "/fabricd.sock"), "EOIB_PORT=h1",
               absl::StrCat("EOIB_GONE=", gone_)},
              absl::StrCat(EOIBD_VERBS " --hca=verbs:eoib0/1 --wait_for_hca --config=", directory_,
                           "/eoibd.toml", Directories()));
  ASSERT_TRUE(Shows("waiting for the HCA")) << eoibd.Log();
  const auto logs = [&eoibd](const std::string& line) {
    return Eventually([&] { return absl::StrContains(eoibd.Log(), line); });
  };
  const auto append = [this](const char* text) {
    std::ofstream(directory_ + "/eoibd.toml", std::ios::app) << text;
  };
  append("[[vport]]\nname = \"v2\"\nves = \"blue\"\ntype = \"test\"\n");
  eoibd.Signal(SIGHUP);
  EXPECT_TRUE(logs("configuration changed: add vPort v2")) << eoibd.Log();
  append("[[vport]]\nname = \"v3\"\nves = \"blue\"\ntype = \"test\"\n");
  EXPECT_THAT(Eoibctl("reload"), HasSubstr("add vPort v3"));
  append("nonsense\n");
  eoibd.Signal(SIGHUP);
  EXPECT_TRUE(logs("reload: nothing is changed: ")) << eoibd.Log();
  GiveDevicesBack();
  ASSERT_TRUE(Shows("HCA eoib0/1: active")) << eoibd.Log();
  EXPECT_THAT(Eoibctl("show"),
              AllOf(HasSubstr("vPort v1: "), HasSubstr("vPort v2: "), HasSubstr("vPort v3: ")));
}

}  // namespace
}  // namespace eoib
