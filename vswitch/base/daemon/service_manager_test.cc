#include "vswitch/base/daemon/service_manager.h"

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/daemon/notify_socket_for_test.h"
#include "vswitch/base/daemon/running_server_for_test.h"

namespace eoib {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kWatchdog = absl::Seconds(30);

// Each test says with Start how the process was started.
class ServiceManagerTest : public ::testing::Test {
 protected:
  ~ServiceManagerTest() override {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
  }

  void Start() {
    setenv("NOTIFY_SOCKET", socket_.path().c_str(), 1);
    manager_ = std::make_unique<ServiceManager>(&loop_);
  }
  void StartWithWatchdog(pid_t pid = getpid()) {
    setenv("WATCHDOG_USEC", absl::StrCat(absl::ToInt64Microseconds(kWatchdog)).c_str(), 1);
    setenv("WATCHDOG_PID", absl::StrCat(pid).c_str(), 1);
    Start();
  }
  std::vector<std::string> Sent() const { return socket_.Take(); }
  std::vector<std::string> SentIn(absl::Duration time) {
    for (const absl::Time end = clock_.Now() + time; clock_.Now() < end;
         clock_.Advance(absl::Milliseconds(500))) {
      loop_.RunOnce(absl::InfinitePast());
    }
    return Sent();
  }

  FakeClock clock_;
  EventLoop loop_{&clock_};
  const NotifySocket socket_{MakeTemporaryDirectory() + "/notify"};
  std::unique_ptr<ServiceManager> manager_;
};

TEST_F(ServiceManagerTest, SendsNothingWithoutAServiceManager) {
  manager_ = std::make_unique<ServiceManager>(&loop_);
  manager_->SetStatus([] { return "forwarding"; });
  manager_->Ready();
  EXPECT_THAT(SentIn(absl::Minutes(1)), IsEmpty());
  manager_->Stopping();
  EXPECT_THAT(Sent(), IsEmpty());
}

TEST_F(ServiceManagerTest, SendsNothingBeforeItIsReady) {
  StartWithWatchdog();
  manager_->SetStatus([] { return "forwarding"; });
  EXPECT_THAT(SentIn(absl::Minutes(1)), IsEmpty());
  manager_->Ready();
  EXPECT_THAT(Sent(), ElementsAre("READY=1"));
}

TEST_F(ServiceManagerTest, SendsTheStatusWhenItChanges) {
  Start();
  std::string status = "VESes joined: 0 of 1";
  manager_->SetStatus([&status] { return status; });
  manager_->Ready();
  EXPECT_THAT(SentIn(absl::Seconds(10)), ElementsAre("READY=1", "STATUS=VESes joined: 0 of 1"));
  status = "VESes joined: 1 of 1";
  EXPECT_THAT(SentIn(absl::Seconds(2)), ElementsAre("STATUS=VESes joined: 1 of 1"));
}

TEST_F(ServiceManagerTest, AStatusIsOneAssignment) {
  Start();
  manager_->SetStatus([] { return "waiting for the HCA\nREADY=1"; });
  manager_->Ready();
  EXPECT_THAT(SentIn(absl::Seconds(1)),
              ElementsAre("READY=1", "STATUS=waiting for the HCA; READY=1"));
}

TEST_F(ServiceManagerTest, SendsThreeSignsOfLifeInATimeout) {
  StartWithWatchdog();
  manager_->Ready();
  ASSERT_THAT(Sent(), ElementsAre("READY=1"));
  EXPECT_THAT(SentIn(kWatchdog), AllOf(SizeIs(3), Each("WATCHDOG=1")));
}

TEST_F(ServiceManagerTest, SendsNoSignOfLifeWithoutAWatchdogOfThisProcess) {
  StartWithWatchdog(getppid());
  manager_->Ready();
  EXPECT_THAT(SentIn(kWatchdog), ElementsAre("READY=1"));
}

TEST_F(ServiceManagerTest, SendsNoSignOfLifeWithoutProgress) {
  StartWithWatchdog();
  bool progress = true;
  manager_->SetProgressCheck([&progress] { return progress; });
  manager_->Ready();
  EXPECT_THAT(SentIn(kWatchdog), Contains("WATCHDOG=1").Times(3));
  progress = false;
  EXPECT_THAT(SentIn(kWatchdog * 2), IsEmpty());
  progress = true;
  EXPECT_THAT(SentIn(kWatchdog), Contains("WATCHDOG=1").Times(3)) << "it was only slow";
}

TEST_F(ServiceManagerTest, IsSilentOnceTheProcessStops) {
  StartWithWatchdog();
  int asked = 0;
  manager_->SetStatus([&asked] { return absl::StrCat("status ", ++asked); });
  manager_->Ready();
  SentIn(absl::Seconds(5));
  manager_->Stopping();
  const int asked_before = asked;
  EXPECT_THAT(SentIn(kWatchdog), ElementsAre("STOPPING=1"));
  EXPECT_EQ(asked, asked_before) << "what the status is about may be gone";
}

// RestartProcess executes the program, which keeps process number and environment.
TEST_F(ServiceManagerTest, TheNextImageOfTheProcessNotifiesAgain) {
  StartWithWatchdog();
  manager_->Ready();
  SentIn(absl::Seconds(5));
  ServiceManager::Restarting("mlx5_0/1 reports that it is lost");
  EXPECT_THAT(Sent(), ElementsAre("STATUS=restarting: mlx5_0/1 reports that it is lost"));
  manager_ = std::make_unique<ServiceManager>(&loop_);
  manager_->Ready();
  EXPECT_THAT(SentIn(kWatchdog),
              AllOf(SizeIs(4), Contains("READY=1"), Contains("WATCHDOG=1").Times(3)));
}

TEST_F(ServiceManagerTest, ManagesWithoutAListener) {
  Start();
  ASSERT_EQ(unlink(socket_.path().c_str()), 0);
  manager_->Ready();
  EXPECT_THAT(SentIn(absl::Seconds(5)), IsEmpty());
}

}  // namespace
}  // namespace eoib
