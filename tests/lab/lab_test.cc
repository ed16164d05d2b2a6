// Tests of the lab itself: a test on a broken lab proves nothing.
#include "tests/lab/lab.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"
#include "tests/lab/frames.h"
#include "tests/lab/packet_socket.h"
#include "tests/lab/sockets.h"
#include "tests/lab/steady_ping.h"
#include "tests/lab/traffic.h"
#include "vswitch/base/child_for_test.h"

namespace eoib::lab {
namespace {

const MacAddr kOne = MacAddr::FromUint64(0x02'00'00'00'00'01);
const MacAddr kTwo = MacAddr::FromUint64(0x02'00'00'00'00'02);

class LabTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(MissingOnThisMachine(), ""); }

  // Adds two hosts and connects them.
  void Connect(const HostOptions& options = {}) {
    a_ = lab_.AddHost("a", options);
    b_ = lab_.AddHost("b", options);
    a_->AddVeth("e0", b_, "e0", 9000);
  }

  Lab lab_;
  Host* a_ = nullptr;
  Host* b_ = nullptr;
};

TEST_F(LabTest, RunReturnsOutputAndExitCode) {
  Host* host = lab_.AddHost("a");
  const RunResult result = host->Run({"sh", "-c", "cat; echo problem >&2; exit 3"}, "input");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "input");
  EXPECT_EQ(result.err, "problem\n");
  EXPECT_EQ(host->Run({"sh", "-c", "kill -9 $$"}).exit_code, 128 + SIGKILL);
  EXPECT_EQ(host->Run({"no-such-program"}).exit_code, 127);
  EXPECT_EQ(host->Run({"sleep", "60"}, "", absl::Milliseconds(20)).exit_code, 128 + SIGKILL);
  const RunResult mute =
      host->Run({"sh", "-c", "exec sleep 60 >&- 2>&-"}, "", absl::Milliseconds(20));
  EXPECT_EQ(mute.exit_code, 128 + SIGKILL) << "after the program has closed its output";
}

TEST_F(LabTest, NewHostHasOnlyAWorkingLoopback) {
  Host* host = lab_.AddHost("a");
  EXPECT_EQ(host->MustIp("-o link").find("2:"), std::string::npos);
  EXPECT_TRUE(host->Run({"ping", "-c", "1", "-W", "1", "127.0.0.1"}).ok());
}

TEST_F(LabTest, BackgroundProcessReportsItsEnd) {
  Host* host = lab_.AddHost("a");
  auto process = host->Start({"sh", "-c", "echo said; exec sleep 60"});
  EXPECT_TRUE(process->Alive());
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return process->Log() == "said\n"; }));
  process->Kill(SIGTERM);
  EXPECT_EQ(process->Wait(), absl::optional<int>(128 + SIGTERM));
  EXPECT_FALSE(process->Alive());
}

TEST_F(LabTest, VethPairCarriesIpv4AndIpv6Pings) {
  Connect({.ipv6 = true});
  a_->AddAddress("e0", "10.0.0.1/24");
  b_->AddAddress("e0", "10.0.0.2/24");
  a_->AddAddress("e0", "fd00::1/64");
  b_->AddAddress("e0", "fd00::2/64");
  // The kernel may report a carrier a second late.
  EXPECT_TRUE(a_->Run({"ping", "-c", "1", "-w", "5", "10.0.0.2"}).ok());
  EXPECT_TRUE(a_->Run({"ping", "-c", "1", "-w", "5", "fd00::2"}).ok());
}

TEST_F(LabTest, PacketSocketKeepsFramesAndTagsUnchanged) {
  Connect();
  PacketSocket a(a_, "e0"), b(b_, "e0");
  const Bytes plain = TestFrame(kTwo, kOne, 7, 200);
  struct {
    const char* description;
    Bytes frame;
  } rows[] = {
      {"untagged", plain},
      {"802.1Q", WithTag(plain, 10, 5)},
      {"priority-tagged", WithTag(plain, 0, 3)},
      {"two 802.1Q tags", WithTag(WithTag(plain, 20), 10)},
      {"802.1ad outside", WithTag(WithTag(plain, 20), 100, 0, 0x88a8)},
      {"drop eligible", WithTag(plain, 0x1000 | 10, 1)},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.description);
    a.Send(row.frame);
    ASSERT_TRUE(b.WaitFor(Any));
    EXPECT_EQ(Hex(b.received()[0]), Hex(row.frame));
    EXPECT_EQ(MarkerOf(b.received()[0]), 7u);
    b.Clear();
  }
  EXPECT_EQ(a.Count(Any), 0u) << "a packet socket must not receive what it sent";
}

TEST_F(LabTest, HostWithoutIpv6SendsNothingByItself) {
  Connect();
  PacketSocket a(a_, "e0"), b(b_, "e0");
  a_->AddAddress("e0", "10.0.0.1/24");
  a.Send(TestFrame(kTwo, kOne, 1));
  ASSERT_TRUE(b.WaitFor(Marked(1)));
  EXPECT_EQ(b.received().size(), 1u);
}

TEST_F(LabTest, KernelAcceptsBuiltPackets) {
  Connect({.ipv6 = true});
  a_->AddAddress("e0", "10.0.0.1/24");
  b_->AddAddress("e0", "10.0.0.2/24");
  b_->AddAddress("e0", "fd00::2/64");
  PacketSocket a(a_, "e0");
  const Flow4 flow = {Mac(b_->Mac("e0")), kOne, Ip4("10.0.0.1"), Ip4("10.0.0.2")};

  a.Send(ArpRequest(kOne, Ip4("10.0.0.1"), Ip4("10.0.0.2")));
  EXPECT_TRUE(
      a.WaitFor(ExactlyFrame(ArpReply(Mac(b_->Mac("e0")), Ip4("10.0.0.2"), kOne, Ip4("10.0.0.1")))))
      << "ARP";
  // The kernel joins the group of a new address a moment later, so ask until it has.
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    a.Send(NeighborSolicitation(kOne, Ip6("fd00::99"), Ip6("fd00::2")));
    const auto is_advertisement = [](const Bytes& f) {
      return OfEtherType(0x86dd)(f) && f.size() > 54 && f[54] == 136;
    };
    return a.WaitFor(is_advertisement, 1, absl::Seconds(1));
  })) << "ND";
  a.Send(IcmpEchoRequest(flow, 1, 2, {1, 2, 3}));
  EXPECT_TRUE(a.WaitFor([](const Bytes& f) {
    return OfEtherType(0x0800)(f) && f.size() > 34 && f[34] == 0;
  })) << "echo reply";

  UniqueFd socket = UdpSocket(b_, "10.0.0.2", 4000);
  Bytes good = UdpDatagram(flow, 4001, 4000, {5, 6, 7});
  EXPECT_EQ(ChecksumErrors(good), "");
  Bytes bad = UdpDatagram(flow, 4001, 4000, {8, 9, 10});
  bad.back() ^= 1;
  EXPECT_EQ(ChecksumErrors(bad), "UDP checksum is wrong; ");
  const uint64_t errors = b_->Counter("Udp", "InCsumErrors");
  a.Send(bad);
  a.Send(good);
  EXPECT_EQ(ReceiveUdp(socket.get()), absl::optional<Bytes>(Bytes{5, 6, 7}));
  EXPECT_EQ(b_->Counter("Udp", "InCsumErrors"), errors + 1);
}

TEST_F(LabTest, TcpTransferArrivesComplete) {
  Connect();
  a_->AddAddress("e0", "10.0.0.1/24");
  b_->AddAddress("e0", "10.0.0.2/24");
  UniqueFd listener = TcpListener(b_, "10.0.0.2", 5000);
  UniqueFd client = TcpConnect(a_, "10.0.0.2", 5000);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), 4 << 20), "");
}

TEST_F(LabTest, SteadyPingCountsLostRequestsOnly) {
  Connect();
  a_->AddAddress("e0", "10.0.0.1/24");
  b_->AddAddress("e0", "10.0.0.2/24");
  SteadyPing lossless(a_, "10.0.0.2");
  lossless.ExpectNoLoss();
  // With a gap: the host ignores echo requests for a while, and its own counters give the number.
  SteadyPing holed(a_, "10.0.0.2");
  const auto lost = [this] {
    return b_->Counter("Icmp", "InEchos") - b_->Counter("Icmp", "OutEchoReps");
  };
  b_->Sysctl("ipv4/icmp_echo_ignore_all", "1");
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return lost() > 2; }));
  b_->Sysctl("ipv4/icmp_echo_ignore_all", "0");
  const PingCounts counts = holed.End();
  EXPECT_GT(counts.lost(), 2);
  EXPECT_EQ(counts.lost(), static_cast<int>(lost()));
}

TEST_F(LabTest, StreamCountsLostDatagramsByNumber) {
  Connect();
  a_->AddAddress("e0", "10.0.0.1/24");
  b_->AddAddress("e0", "10.0.0.2/24");
  Traffic traffic;
  const Stream* stream = traffic.Add(a_, "10.0.0.1", b_, "10.0.0.2");
  traffic.Start();
  const auto forwards_since = [&](absl::Time since) {
    return EventuallyTrue(kPatience, [&] { return stream->ForwardsSince(since).has_value(); });
  };
  // Datagrams sent before the answer to the first ARP request may be lost.
  ASSERT_TRUE(forwards_since(absl::Now()));
  const absl::Time start = absl::Now();
  ASSERT_TRUE(forwards_since(start));
  EXPECT_EQ(stream->LostSince(start), 0u);
  b_->MustIp("link set e0 down");
  const absl::Time down = absl::Now();
  EXPECT_TRUE(
      EventuallyTrue(kPatience, [&] { return absl::Now() > down + absl::Milliseconds(20); }));
  b_->MustIp("link set e0 up");
  const absl::Time up = absl::Now();
  ASSERT_TRUE(forwards_since(up));
  EXPECT_GT(stream->LostSince(start), 1u);
  EXPECT_EQ(stream->LostSince(absl::Now()), 0u);
}

TEST_F(LabTest, ProgramCrashFailsTheTest) {
  Host* host = lab_.AddHost("a");
  EXPECT_NONFATAL_FAILURE(host->Run({"sh", "-c", "kill -SEGV $$"}), "crashed: sh");
  std::unique_ptr<Process> process = host->Start({"sh", "-c", "kill -ABRT $$"});
  EXPECT_NONFATAL_FAILURE(process->Wait(), "crashed: sh");
  EXPECT_FALSE(host->Run({"sh", "-c", "kill -TERM $$"}).ok()) << "SIGTERM is not a crash";
}

TEST_F(LabTest, BridgeAndMacvlanForward) {
  Connect();
  Host* guest = lab_.AddHost("guest");
  Host* container = lab_.AddHost("container");
  a_->AddVeth("tap0", guest, "eth0", 9000);
  a_->AddBridge("br0", {"e0", "tap0"});
  b_->AddAddress("e0", "10.0.0.2/24");
  guest->AddAddress("eth0", "10.0.0.3/24");
  EXPECT_TRUE(guest->Run({"ping", "-c", "1", "-W", "2", "10.0.0.2"}).ok());
  b_->AddMacvlan("e0", container, "mv0");
  container->AddAddress("mv0", "10.0.0.4/24");
  EXPECT_TRUE(container->Run({"ping", "-c", "1", "-W", "2", "10.0.0.3"}).ok());
}

// Runs in a child, as a test program that will be killed: writes its lab's directory and processes
// to `out`, then waits.
[[noreturn]] void RunDoomedTest(int out) {
  Lab lab;
  Host* host = lab.AddHost("doomed");
  // A grandchild in a session of its own: only the janitor can find it.
  auto process = host->Start({"sh", "-c", "setsid sleep 1000 & echo $!; wait"});
  EventuallyTrue(kPatience, [&] { return absl::StrContains(process->Log(), "\n"); });
  const std::string text =
      absl::StrCat(lab.directory(), " ", host->holder(), " ", process->pid(), " ", process->Log());
  (void)!write(out, text.data(), text.size());
  close(out);
  while (true) pause();
}

bool Running(const std::string& pid) {
  const std::string stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  return !stat.empty() && !absl::StrContains(stat, ") Z ");
}

TEST(LabCrashTest, KilledTestLeavesNothingBehind) {
  ASSERT_EQ(MissingOnThisMachine(), "");
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t test = getpid(), pid = fork();
  if (pid == 0) {
    DieWithTest(test);
    RunDoomedTest(fds[1]);
  }
  ChildForTest doomed(pid);
  close(fds[1]);
  std::string output;
  char bytes[512];
  ssize_t got;
  while (!absl::StrContains(output, "\n") && (got = read(fds[0], bytes, sizeof(bytes))) > 0)
    output.append(bytes, got);
  close(fds[0]);
  const std::vector<std::string> words =
      absl::StrSplit(output, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  ASSERT_EQ(words.size(), 4u) << output;
  EXPECT_TRUE(std::filesystem::exists(words[0]));
  for (int i = 1; i < 4; ++i) EXPECT_TRUE(Running(words[i])) << words[i];

  doomed.Kill();
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return !std::filesystem::exists(words[0]); }));
  for (int i = 1; i < 4; ++i)
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return !Running(words[i]); })) << words[i];
}

// A child that a test forks without the lab.
TEST(LabCrashTest, ForkedChildDiesWithItsTest) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t crashing = fork();
  if (crashing == 0) {
    const pid_t test = getpid(), child = fork();
    if (child == 0) {
      DieWithTest(test);
      const pid_t own = getpid();
      (void)!write(fds[1], &own, sizeof(own));
    }
    while (true) pause();
  }
  ChildForTest crash(crashing);
  pid_t child = 0;
  ASSERT_EQ(read(fds[0], &child, sizeof(child)), ssize_t{sizeof(child)});
  close(fds[0]);
  close(fds[1]);
  EXPECT_TRUE(Running(absl::StrCat(child)));
  crash.Kill();
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return !Running(absl::StrCat(child)); }));
}

}  // namespace
}  // namespace eoib::lab
