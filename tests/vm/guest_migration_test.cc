// Linux guests that migrate to another host while they talk: over vhost-user, and over a Linux
// bridge on an eoib TAP. The outage is hardly longer than the machine stands still, and a TCP
// connection lives on.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/sockets.h"
#include "tests/lab/switch_test.h"
#include "tests/lab/traffic.h"
#include "tests/vm/linux_guest.h"

namespace eoib::lab {
namespace {

constexpr char kGuest[] = "10.0.0.2";
constexpr char kMemory[] = "98368K";  // QEMU halts the guest while it goes through the pages
// Beyond the downtime that QEMU reports.
constexpr absl::Duration kAllowed = absl::Milliseconds(50);

enum class Attachment { kVhostUser, kBridge };

// A guest on h1 that migrates to h2, and a station on h3.
class GuestMigrationTest : public SwitchTest, public ::testing::WithParamInterface<Attachment> {
 protected:
  struct Place {
    Host* host;
    std::unique_ptr<Agent> agent;
    Argv netdev;
    std::unique_ptr<LinuxGuest> guest;
  };

  void SetUp() override {
    SwitchTest::SetUp();
    StartFabric({PartitionSpec()});
    for (int i : {0, 1}) AddPlace(i);
    station_ = AddAgent("h3").host();
    station_->AddAddress("v1", "10.0.0.1/24");
  }
  void TearDown() override {
    for (Place& place : places_) {
      place.guest.reset();
      ExpectConservation(place.agent.get());
      EXPECT_EQ(place.agent->Stop(), 0) << place.agent->Log();
    }
    SwitchTest::TearDown();
  }

  void AddPlace(int i) {
    Place& place = places_[i];
    place.host = lab().AddHost(absl::StrCat("h", i + 1));
    const bool bridged = GetParam() == Attachment::kBridge;
    const std::string socket = lab().Path(absl::StrCat("vm", i, ".sock"));
    AgentSpec spec;
    spec.vports = {
        {"v1", "red",
         bridged ? "" : absl::StrCat("type = \"vhost-user\"\nsocket = \"", socket, "\"\n")}};
    place.agent = std::make_unique<Agent>(&lab(), &fabric(), place.host, spec);
    place.agent->Launch();
    place.agent->WaitUntil(
        {"show"}, [](const std::string& show) { return absl::StrContains(show, ": joined"); });
    place.netdev = bridged ? ExistingTap("tap0") : VhostUser(socket);
    if (!bridged) return;
    ASSERT_TRUE(EventuallyTrue(lab::kPatience, [&] { return place.host->HasInterface("v1"); }));
    place.host->MustIp("tuntap add tap0 mode tap");
    for (const char* interface : {"v1", "tap0"}) place.host->SetUp(interface);
    place.host->AddBridge("br0", {"v1", "tap0"});
  }
  LinuxGuest& Boot(int i, const Argv& more) {
    Place& place = places_[i];
    place.guest = std::make_unique<LinuxGuest>(&lab(), place.host,
                                               QemuGuestSpec{.name = absl::StrCat("vm", i),
                                                             .netdev = place.netdev,
                                                             .memory = kMemory,
                                                             .more = more});
    return *place.guest;
  }
  std::string Monitor(const std::string& command) {
    return places_[0]
        .host
        ->Run({"socat", "-t", "5", "-", "UNIX-CONNECT:" + lab().Path("monitor")}, command + "\n")
        .out;
  }

  // Migrates the guest. Returns the downtime that QEMU reports.
  absl::Duration Migrate() {
    const std::string channel = "unix:" + lab().Path("migration");
    Boot(1, {"-incoming", channel});
    EXPECT_TRUE(EventuallyTrue(lab::kPatience, [&] {
      return RunOnMachine({"test", "-S", lab().Path("migration")}).ok();
    }));
    Monitor("migrate -d " + channel);
    std::string status;
    EXPECT_TRUE(EventuallyTrue(LinuxGuest::kPatience, [&] {
      status = Monitor("info migrate");
      return absl::StrContains(status, "Migration status: completed");
    })) << status;
    const std::vector<std::string> words = Words(status);
    const auto label = std::find(words.begin(), words.end(), "downtime:");
    int milliseconds = -1;
    EXPECT_TRUE(words.end() - label > 1 && absl::SimpleAtoi(label[1], &milliseconds)) << status;
    return absl::Milliseconds(milliseconds);
  }

  // When answers to `ping -D` arrived: "[1700000000.123456] 64 bytes ...".
  static std::vector<absl::Time> Answers(const Process& ping) {
    std::vector<absl::Time> times;
    for (const absl::string_view line : absl::StrSplit(ping.Log(), '\n')) {
      double seconds = 0;
      if (!absl::StrContains(line, "bytes from") ||
          !absl::SimpleAtod(line.substr(1, line.find(']') - 1), &seconds))
        continue;
      times.push_back(absl::UnixEpoch() + absl::Seconds(seconds));
    }
    return times;
  }
  static absl::Duration LongestGap(const std::vector<absl::Time>& times, size_t begin, size_t end) {
    absl::Duration longest;
    for (size_t i = begin + 1; i < end; ++i) longest = std::max(longest, times[i] - times[i - 1]);
    return longest;
  }
  static void WaitForAnswers(const Process& ping, size_t count) {
    ASSERT_TRUE(EventuallyTrue(LinuxGuest::kPatience, [&] {
      return Answers(ping).size() >= count;
    })) << ping.Log();
  }

  // Reads `count` further lines of the connection, which count up by one.
  void ReadOn(int connection, int count) {
    char byte = 0;
    for (std::string line; count > 0;) {
      pollfd waiting{connection, POLLIN, 0};
      ASSERT_EQ(
          poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(LinuxGuest::kPatience))), 1)
          << "after " << number_;
      ASSERT_EQ(recv(connection, &byte, 1, 0), 1) << "after " << number_;
      if (byte != '\n') {
        line += byte;
        continue;
      }
      ASSERT_EQ(line, absl::StrCat(++number_));
      line.clear();
      --count;
    }
  }

  Place places_[2];
  Host* station_ = nullptr;
  int number_ = 0;
};

TEST_P(GuestMigrationTest, OutageIsTheDowntimeAndConnectionsLiveOn) {
  LinuxGuest& guest =
      Boot(0, {"-monitor", absl::StrCat("unix:", lab().Path("monitor"), ",server=on,wait=off")});
  ASSERT_TRUE(guest.IsReady()) << guest.machine().Console();
  guest.MustRun(absl::StrCat("ip addr add ", kGuest,
                             "/24 dev eth0 && ip link set eth0 up && ping -c 3 -i 0.1 10.0.0.1"));
  const UniqueFd listener = TcpListener(station_, "10.0.0.1", 5001);
  guest.MustRun(
      "(i=0; while :; do i=$((i+1)); echo $i; usleep 20000; done) | nc 10.0.0.1 5001 >/dev/null "
      "2>&1 &");
  const UniqueFd connection = TcpAccept(listener.get());
  ASSERT_TRUE(connection.valid());
  ReadOn(connection.get(), 10);

  const auto ping = station_->Start({"stdbuf", "-oL", "ping", "-D", "-n", "-i", "0.01", kGuest});
  WaitForAnswers(*ping, 300);
  const size_t before = Answers(*ping).size();
  Traffic clock;  // for the time for which this machine runs nobody
  clock.Start();
  const absl::Time start = absl::Now();
  const absl::Duration downtime = Migrate();
  const size_t completed = Answers(*ping).size();
  WaitForAnswers(*ping, completed + 300);
  ASSERT_FALSE(HasFailure()) << places_[1].guest->machine().Console()
                             << places_[1].guest->machine().process()->Log();
  const std::vector<absl::Time> answers = Answers(*ping);
  // The emulated machine also stands still now and then on a busy processor.
  const absl::Duration usual = std::min(LongestGap(answers, 0, before), Traffic::kMostAllowance);
  const absl::Duration outage = LongestGap(answers, before, answers.size());
  RecordProperty("downtime_ms", static_cast<int>(absl::ToInt64Milliseconds(downtime)));
  RecordProperty("outage_ms", static_cast<int>(absl::ToInt64Milliseconds(outage)));
  std::printf("downtime %s, outage %s, longest gap before %s\n",
              absl::FormatDuration(downtime).c_str(), absl::FormatDuration(outage).c_str(),
              absl::FormatDuration(usual).c_str());
  EXPECT_LE(outage, downtime + kAllowed + usual + clock.StallAllowance(start));
  ReadOn(connection.get(), 50);
  EXPECT_TRUE(agent(1).Knows("52:54:00:00:00:01"));
  EXPECT_TRUE(places_[1].agent->Knows("52:54:00:00:00:01", "vPort v1"));
}

INSTANTIATE_TEST_SUITE_P(Over, GuestMigrationTest,
                         ::testing::Values(Attachment::kVhostUser, Attachment::kBridge),
                         [](const auto& info) {
                           return info.param == Attachment::kBridge ? "Bridge" : "VhostUser";
                         });

}  // namespace
}  // namespace eoib::lab
