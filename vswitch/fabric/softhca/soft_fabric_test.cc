// Ports in several processes on a fabricd: sockets, death, restart.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "vswitch/base/child_for_test.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/temp_dir_for_test.h"
#include "vswitch/fabric/softhca/fabric_client.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"
#include "vswitch/fabric/softhca/subnet/fabric_server.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {
namespace {

std::unique_ptr<SoftNode> Open(const std::string& socket, const std::string& name) {
  FabricClient::Options options;
  options.socket = socket;
  SoftPort::Options port;
  port.outbound.idle_close = absl::Hours(1);  // tests count rings and may be slow
  absl::StatusOr<std::unique_ptr<Hca>> hca =
      OpenSoftHca(std::make_unique<FabricClient>(options), name, port);
  EXPECT_TRUE(hca.ok()) << hca.status();
  return std::make_unique<SoftNode>(*std::move(hca));
}

// A fabricd in a thread.
class Fabricd {
 public:
  explicit Fabricd(const std::string& socket)
      : server_(FabricServer::Listen(socket, &subnet_).value()) {
    thread_ = std::thread([this] {
      while (!stop_) {
        pollfd ready = {server_->fd(), POLLIN, 0};
        if (poll(&ready, 1, 10) == 1) server_->Run();
      }
    });
  }
  ~Fabricd() {
    stop_ = true;
    thread_.join();
  }
  const Subnet& subnet() const { return subnet_; }

 private:
  Subnet subnet_;
  std::unique_ptr<FabricServer> server_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

size_t OpenDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

class SoftFabricTest : public testing::Test {
 protected:
  const TempDir directory_;  // outlives its contents
  SoftFabricTest() {
    socket_ = directory_.path() + "/fabricd.sock";
    fabricd_ = std::make_unique<Fabricd>(socket_);
  }
  static void Exchange(SoftNode* a, SoftNode* b) {
    for (const auto& [from, to] : {std::make_pair(a, b), std::make_pair(b, a)}) {
      ASSERT_EQ(from->Send(to->GlobalAddress(), "hello"), 0);
      EXPECT_EQ(from->PollSend().status, IBV_WC_SUCCESS);
      const SoftNode::Received got = to->Receive();
      EXPECT_EQ(got.payload, "hello");
      EXPECT_EQ(got.wc.slid, from->config().lid.value());
      ASSERT_EQ(to->PostReceive(got.wc.wr_id), 0);
    }
  }

  std::string socket_;
  std::unique_ptr<Fabricd> fabricd_;
};

TEST_F(SoftFabricTest, RingsOutliveFabricdAndItsSuccessorLearnsOfThem) {
  auto a = Open(socket_, "a"), b = Open(socket_, "b");
  Exchange(a.get(), b.get());
  const Lid lid = a->config().lid;
  const QpnRange qpns = a->config().qpns;
  fabricd_.reset();
  Exchange(a.get(), b.get());
  fabricd_ = std::make_unique<Fabricd>(socket_);
  for (SoftNode* node : {a.get(), b.get()}) {
    ibv_async_event event{};
    while (event.event_type != IBV_EVENT_CLIENT_REREGISTER) {
      ASSERT_EQ(node->verbs().get_async_event(node->hca().context(), &event), 0);
    }
  }
  EXPECT_EQ(a->config().lid, lid);
  EXPECT_EQ(a->config().qpns.first, qpns.first);
  Exchange(a.get(), b.get());
  EXPECT_TRUE(Eventually([&] {
    a->Poll();
    b->Poll();
    return fabricd_->subnet().Rings().size() == 2 && a->port().rings().inbound == 1 &&
           b->port().rings().inbound == 1;
  })) << "known rings in place of unknown ones";
  Exchange(a.get(), b.get());
  EXPECT_EQ(a->counters().xmit_discards + b->counters().xmit_discards, 0u);
}

// Not a test: the child process of the next tests. It sends to the given address and receives until
// it is killed.
TEST(SoftFabricChild, DISABLED_SendsForEver) {
  const char* socket = std::getenv("SOFT_FABRIC_TEST_SOCKET");
  ASSERT_NE(socket, nullptr);
  auto node = Open(socket, "child");
  const Destination to = {
      static_cast<uint16_t>(std::atoi(std::getenv("SOFT_FABRIC_TEST_LID"))),
      Qpn(static_cast<uint32_t>(std::atoi(std::getenv("SOFT_FABRIC_TEST_QPN")))), 0x1234,
      absl::nullopt};
  for (;;) {
    node->Send(to, std::string(3000, 'c'));
    node->PollSend();
    while (const auto got = node->Poll()) node->PostReceive(got->wc.wr_id);
  }
}

pid_t StartChild(const std::string& socket, const Destination& to) {
  const std::string lid = std::to_string(to.dlid), qpn = std::to_string(to.qpn.value());
  const pid_t test = getpid(), child = fork();
  if (child != 0) return child;
  DieWithTest(test);
  setenv("SOFT_FABRIC_TEST_SOCKET", socket.c_str(), 1);
  setenv("SOFT_FABRIC_TEST_LID", lid.c_str(), 1);
  setenv("SOFT_FABRIC_TEST_QPN", qpn.c_str(), 1);
  execl("/proc/self/exe", "child", "--gtest_filter=SoftFabricChild.DISABLED_SendsForEver",
        "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
  _exit(127);
}

TEST_F(SoftFabricTest, AKilledProcessHarmsNoOtherAndItsNameIsFreeAgain) {
  auto a = Open(socket_, "a"), b = Open(socket_, "b");
  Exchange(a.get(), b.get());  // b's ring to a exists from now on
  for (const bool fabricd_dies_first : {false, true}) {
    SCOPED_TRACE(fabricd_dies_first);
    const uint64_t before = a->counters().rcv_delivered;
    ChildForTest child(StartChild(socket_, a->Address()));
    const auto receive = [&] {
      // Bounded, because the sender may be faster.
      for (int i = 0; i < 256; ++i) {
        const auto got = a->Poll();
        if (!got.has_value()) break;
        a->PostReceive(got->wc.wr_id);
      }
    };
    EXPECT_TRUE(Eventually([&] {
      receive();
      return a->counters().rcv_delivered > before + 100;
    }));
    if (fabricd_dies_first) fabricd_.reset();
    child.Kill();
    EXPECT_TRUE(Eventually([&] {
      receive();
      return a->port().rings().inbound == 1;  // b's only
    }));
    receive();  // the rest of the child's ring
    Exchange(a.get(), b.get());
  }
}

// The other ends count what is in the rings of a process when it dies. Nothing that it posted and
// took before is missing or counted twice.
TEST_F(SoftFabricTest, AKilledProcessLeavesNothingUncounted) {
  auto a = Open(socket_, "a");
  for (int round = 1; round <= 10; ++round) {
    SCOPED_TRACE(round);
    ChildForTest child(StartChild(socket_, a->Address()));
    const auto exchange = [&] {
      for (int i = 0; i < 64; ++i) {
        const auto got = a->Poll();
        if (!got.has_value()) break;
        a->PostReceive(got->wc.wr_id);
        a->Send({got->wc.slid, Qpn(got->wc.src_qp), 0x1234, absl::nullopt}, std::string(1000, 'a'));
        a->PollSend();
      }
    };
    const uint64_t before = a->counters().rcv_delivered;
    EXPECT_TRUE(Eventually([&] {
      exchange();
      return a->counters().rcv_delivered > before + 100;
    }));
    child.Kill();
    Conservation now;
    EXPECT_TRUE(Eventually([&] {
      exchange();
      now = fabricd_->subnet().GetConservation();
      return now.sending == 0 && now.receiving == 0 && now.in_rings == 0;
    })) << now.sending
        << " in queues of senders, " << now.in_rings << " in rings, " << now.receiving
        << " in queues of receivers";
    EXPECT_EQ(now.joint_deaths, 0u);
    EXPECT_EQ(now.copies, now.delivered + now.dropped + static_cast<uint64_t>(now.died));
    if (HasFailure()) return;  // what is missing stays so
  }
}

// ---- As many processes as a fabricd takes.

constexpr int kProcesses = 64;

// Each message is a line of words.
void Say(FILE* to, const std::string& line) {
  std::fprintf(to, "%s\n", line.c_str());
  std::fflush(to);
}
std::string Hear(FILE* from) {
  char line[4096];
  if (std::fgets(line, sizeof(line), from) == nullptr) return "";
  return std::string(absl::StripAsciiWhitespace(line));
}

// One of many processes: sends to all others until each has answered, and answers every sender.
class Member {
 public:
  Member(SoftNode* node, std::vector<Destination> all)
      : node_(node), all_(std::move(all)), answered_(all_.size()), met_(all_.size()) {}

  bool done() const { return answers_ == all_.size() && meetings_ == all_.size(); }
  void Greet() {
    for (size_t i = 0; i < all_.size(); ++i) {
      if (!answered_[i]) Send(i, "hello");
    }
  }
  void Receive() {
    while (const absl::optional<SoftNode::Received> got = node_->Poll()) {
      const size_t from = Find(*got);
      ASSERT_LT(from, all_.size());
      if (got->payload == "hello") {
        meetings_ += met_[from] ? 0 : 1;
        met_[from] = true;
        Send(from, "answer");
      } else {
        answers_ += answered_[from] ? 0 : 1;
        answered_[from] = true;
      }
      ASSERT_EQ(node_->PostReceive(got->wc.wr_id), 0);
    }
  }

 private:
  void Send(size_t to, const std::string& payload) {
    ASSERT_EQ(node_->Send(all_[to], payload), 0);
    node_->PollSend();
  }
  size_t Find(const SoftNode::Received& got) const {
    size_t i = 0;
    while (i < all_.size() && (all_[i].dlid != got.wc.slid || all_[i].qpn != Qpn(got.wc.src_qp)))
      ++i;
    return i;
  }

  SoftNode* const node_;
  const std::vector<Destination> all_;
  std::vector<bool> answered_, met_;
  size_t answers_ = 0, meetings_ = 0;
};

// Not a test: one process of the next test. It says its address, reads all others', says "done"
// with the number of its descriptors, and goes on answering until its input ends.
TEST(SoftFabricChild, DISABLED_MeetsAllOthers) {
  const char* socket = std::getenv("SOFT_FABRIC_TEST_SOCKET");
  const char* name = std::getenv("SOFT_FABRIC_TEST_NAME");
  ASSERT_TRUE(socket != nullptr && name != nullptr);
  FILE* to = fdopen(std::atoi(std::getenv("SOFT_FABRIC_TEST_FD")), "w");
  auto node = Open(socket, name);
  Say(to, absl::StrCat(node->config().lid.value(), " ", node->qpn().value()));
  std::vector<Destination> all;
  for (int i = 0; i < kProcesses; ++i) {
    const std::vector<std::string> words = absl::StrSplit(Hear(stdin), ' ');
    ASSERT_EQ(words.size(), 2u);
    all.push_back({static_cast<uint16_t>(std::stoi(words[0])),
                   Qpn(static_cast<uint32_t>(std::stoi(words[1]))), 0x1234, absl::nullopt});
  }
  Member member(node.get(), all);
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  // 64 processes share the processors, so do not greet again before the others could answer.
  const MonotonicClock clock;
  absl::Time next_greeting = absl::InfinitePast();
  for (bool said = false; poll(&input, 1, 10) == 0;) {
    if (clock.Now() >= next_greeting) {
      member.Greet();
      next_greeting = clock.Now() + absl::Milliseconds(500);
    }
    ASSERT_NO_FATAL_FAILURE(member.Receive());
    if (member.done() && !std::exchange(said, true))
      Say(to, absl::StrCat("done ", OpenDescriptors()));
  }
}

// The parent's handle of such a process.
class Process {
 public:
  Process(const std::string& socket, const std::string& name) {
    int input[2], output[2];
    EXPECT_EQ(pipe2(input, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(output, O_CLOEXEC), 0);
    const pid_t test = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      DieWithTest(test);
      dup2(input[0], STDIN_FILENO);
      fcntl(output[1], F_SETFD, 0);
      setenv("SOFT_FABRIC_TEST_SOCKET", socket.c_str(), 1);
      setenv("SOFT_FABRIC_TEST_NAME", name.c_str(), 1);
      setenv("SOFT_FABRIC_TEST_FD", std::to_string(output[1]).c_str(), 1);
      execl("/proc/self/exe", "child", "--gtest_filter=SoftFabricChild.DISABLED_MeetsAllOthers",
            "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
      _exit(127);
    }
    close(input[0]);
    close(output[1]);
    to_ = fdopen(input[1], "w");
    from_ = fdopen(output[0], "r");
  }
  ~Process() {
    if (to_ != nullptr) End();
    std::fclose(from_);
  }
  FILE* to() const { return to_; }
  // Returns its next line; nullopt if none comes within a minute.
  std::string HearLine() {
    pollfd said = {fileno(from_), POLLIN, 0};
    return poll(&said, 1, 60'000) > 0 ? Hear(from_) : "";
  }
  // Closes its input, so that it ends, and returns the exit status.
  int End() {
    std::fclose(std::exchange(to_, nullptr));
    int status = -1;
    if (!Eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; })) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
    }
    return status;
  }

 private:
  pid_t pid_;
  FILE* to_;
  FILE* from_;
};

TEST_F(SoftFabricTest, SixtyFourProcessesMeetEachOtherAndTheNextIsRefused) {
  const MonotonicClock clock;
  const absl::Time begin = clock.Now();
  std::vector<std::unique_ptr<Process>> processes;
  for (int i = 0; i < kProcesses; ++i)
    processes.push_back(std::make_unique<Process>(socket_, absl::StrCat("p", i)));
  std::vector<std::string> addresses;
  for (const auto& process : processes) addresses.push_back(process->HearLine());
  ASSERT_THAT(addresses, testing::Not(testing::Contains("")));

  const absl::Status refused =
      OpenSoftHca(std::make_unique<FabricClient>(FabricClient::Options{.socket = socket_}),
                  "one-more")
          .status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("64 processes"));

  for (const auto& process : processes) Say(process->to(), absl::StrJoin(addresses, "\n"));
  for (const auto& process : processes) {
    const std::vector<std::string> words = absl::StrSplit(process->HearLine(), ' ');
    ASSERT_EQ(words[0], "done");
    // Two descriptors for the ring to each other process, two for the ring from it, and some of its
    // own.
    EXPECT_LT(std::stoi(words.at(1)), 4 * kProcesses + 50);
  }
  EXPECT_EQ(fabricd_->subnet().Rings().size(), static_cast<size_t>(kProcesses * (kProcesses - 1)));
  for (const auto& process : processes) EXPECT_EQ(process->End(), 0);
  EXPECT_LT(clock.Now() - begin, absl::Seconds(60));
  EXPECT_TRUE(Eventually([&] { return fabricd_->subnet().Rings().empty(); }));
  for (const Subnet::PortStatus& port : fabricd_->subnet().Ports()) {
    EXPECT_FALSE(port.alive);
    // The counters of ended processes can still be read.
    EXPECT_GE(port.counters.value_or(SoftPortCounters()).rcv_delivered,
              static_cast<uint64_t>(2 * kProcesses));
  }
}

}  // namespace
}  // namespace eoib::softhca
