// Linux guests that migrate to another host while they talk: over vhost-user, and over a Linux
// bridge on an eoib TAP. The switch knows a guest's new place as soon as the guest runs there, and
// loses nothing from then on; a TCP connection lives on.
#include <poll.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
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
constexpr char kGuestMac[] = "52:54:00:00:00:01";
constexpr char kMemory[] = "98368K";  // QEMU halts the guest while it goes through the pages
// From QEMU's announcement on the bridge to the station.
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
    const Argv trace = {"-msg", "timestamp=on", "-trace", "runstate_set", "-D", TraceOf(i)};
    place.guest = std::make_unique<LinuxGuest>(&lab(), place.host,
                                               QemuGuestSpec{.name = absl::StrCat("vm", i),
                                                             .mac = kGuestMac,
                                                             .netdev = place.netdev,
                                                             .memory = kMemory,
                                                             .more = Concatenated(more, trace)});
    return *place.guest;
  }
  std::string TraceOf(int i) { return lab().Path(absl::StrCat("vm", i, ".trace")); }
  std::string Monitor(const std::string& command) {
    return places_[0]
        .host
        ->Run({"socat", "-t", "5", "-", "UNIX-CONNECT:" + lab().Path("monitor")}, command + "\n")
        .out;
  }

  void Migrate() {
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
  }

  // When QEMU `i` last changed from the state `from`, by its trace:
  // "7@1700000000.123456:runstate_set current_run_state 9 (running) new_state 11 (shutdown)".
  absl::Time Left(int i, absl::string_view from) {
    absl::Time left = absl::InfinitePast();
    const std::string trace = ReadFile(TraceOf(i));
    for (const absl::string_view line : absl::StrSplit(trace, '\n')) {
      const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::ByAnyChar("@:"));
      double seconds = 0;
      if (absl::StrContains(line, absl::StrCat("(", from, ") new_state")) &&
          absl::SimpleAtod(parts[1], &seconds))
        left = absl::UnixEpoch() + absl::Seconds(seconds);
    }
    return left;
  }

  static Argv Tcpdump(const char* interface) {
    return {"tcpdump", "--immediate-mode", "-l", "-tt", "-n", "-e", "-i", interface};
  }
  // A frame as tcpdump saw it. Numbers of echo messages are -1 in other frames.
  struct Frame {
    absl::Time time;
    bool from_guest = false;
    int request = -1;
    int reply = -1;
  };
  // Reads lines such as "1700000000.123456 52:54:00:00:00:01 > 02:00:00:00:00:01, ethertype IPv4
  // (0x0800), length 98: 10.0.0.2 > 10.0.0.1: ICMP echo reply, id 7, seq 2, length 64".
  static std::vector<Frame> Frames(const Process& tcpdump) {
    std::vector<Frame> frames;
    std::string log = tcpdump.Log();
    log.resize(log.rfind('\n') + 1);  // tcpdump may be about to write the rest of the last line
    for (const absl::string_view line : absl::StrSplit(log, '\n')) {
      const std::vector<absl::string_view> parts =
          absl::StrSplit(line, absl::MaxSplits(' ', 2), absl::SkipEmpty());
      double seconds = 0;
      if (parts.size() < 3 || !absl::SimpleAtod(parts[0], &seconds)) continue;
      Frame frame;
      frame.time = absl::UnixEpoch() + absl::Seconds(seconds);
      frame.from_guest = parts[1] == kGuestMac;
      int* const number =
          absl::StrContains(line, "ICMP echo reply") ? &frame.reply : &frame.request;
      if (const size_t at = line.find(", seq "); absl::StrContains(line, "ICMP echo ")) {
        const absl::string_view rest = line.substr(at + strlen(", seq "));
        EXPECT_TRUE(absl::SimpleAtoi(rest.substr(0, rest.find(',')), number)) << line;
      }
      frames.push_back(frame);
    }
    return frames;
  }
  // When the guest's first frame passed at `since` or later.
  static absl::Time FirstOfGuest(const Process& tcpdump, absl::Time since) {
    for (const Frame& frame : Frames(tcpdump)) {
      if (frame.from_guest && frame.time >= since) return frame.time;
    }
    ADD_FAILURE() << "no frame of the guest:\n" << tcpdump.Log();
    return absl::InfiniteFuture();
  }
  static size_t Answers(const std::vector<Frame>& frames) {
    return absl::c_count_if(frames, [](const Frame& frame) { return frame.reply >= 0; });
  }
  static void WaitForAnswers(const Process& tcpdump, size_t count) {
    ASSERT_TRUE(EventuallyTrue(LinuxGuest::kPatience, [&] {
      return Answers(Frames(tcpdump)) >= count;
    })) << tcpdump.Log();
  }
  // The requests that were sent at `since` or later and have no answer, though a later one has.
  static int Lost(const std::vector<Frame>& frames, absl::Time since) {
    std::set<int> answered;
    for (const Frame& frame : frames) {
      if (frame.reply >= 0) answered.insert(frame.reply);
    }
    return static_cast<int>(absl::c_count_if(frames, [&](const Frame& frame) {
      return frame.request >= 0 && frame.time >= since && answered.count(frame.request) == 0 &&
             !answered.empty() && frame.request < *answered.rbegin();
    }));
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

TEST_P(GuestMigrationTest, TheSwitchFollowsAtOnceAndConnectionsLiveOn) {
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

  const auto tcpdump = station_->Start(Tcpdump("v1"));
  const auto ping = station_->Start({"ping", "-q", "-n", "-i", "0.01", kGuest});
  WaitForAnswers(*tcpdump, 300);
  Traffic clock;  // for the time for which this machine runs nobody
  clock.Start();
  const absl::Time start = absl::Now();
  const bool bridged = GetParam() == Attachment::kBridge;
  const auto tap = places_[1].host->Start(Tcpdump(bridged ? "tap0" : "lo"));
  Migrate();
  WaitForAnswers(*tcpdump, Answers(Frames(*tcpdump)) + 300);
  ASSERT_FALSE(HasFailure()) << places_[1].guest->machine().Console()
                             << places_[1].guest->machine().process()->Log();
  const absl::Time resumed = Left(1, "inmigrate");
  const absl::Time known = FirstOfGuest(*tcpdump, resumed);
  std::printf("stood still for %s; the station heard of it %s later\n",
              absl::FormatDuration(resumed - Left(0, "running")).c_str(),
              absl::FormatDuration(known - resumed).c_str());
  EXPECT_EQ(Lost(Frames(*tcpdump), known), 0) << tcpdump->Log();
  if (bridged) {  // QEMU announces the guest at once; behind vhost-user the guest does when it can
    EXPECT_LE(known - FirstOfGuest(*tap, resumed), kAllowed + clock.StallAllowance(start));
  }
  ReadOn(connection.get(), 50);
  EXPECT_TRUE(agent(1).Knows(kGuestMac));
  EXPECT_TRUE(places_[1].agent->Knows(kGuestMac, "vPort v1"));
}

INSTANTIATE_TEST_SUITE_P(Over, GuestMigrationTest,
                         ::testing::Values(Attachment::kVhostUser, Attachment::kBridge),
                         [](const auto& info) {
                           return info.param == Attachment::kBridge ? "Bridge" : "VhostUser";
                         });

}  // namespace
}  // namespace eoib::lab
