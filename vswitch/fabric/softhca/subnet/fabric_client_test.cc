// FabricClient, and who it waits for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "vswitch/fabric/softhca/subnet/fabric_socket_test_fixture.h"

namespace eoib::softhca {
namespace {

using ::testing::HasSubstr;

TEST(FabricClientTest, NoFabricdIsUnavailable) {
  SocketDir dir;
  TestPort h1(dir.socket());
  const absl::Status status = h1.Register("h1");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("start eoib-fabricd --rundir /tmp/"));
  EXPECT_EQ(h1.client()->SendMad(Mad{}).code(), absl::StatusCode::kUnavailable);
}

TEST(FabricClientTest, AClientWaitsForFabricdIfAskedTo) {
  SocketDir dir;
  TestPort h1(FabricClient::Options{.socket = dir.socket(), .wait = absl::Seconds(30)});
  absl::Status status;
  std::thread registering([&] { status = h1.Register("h1"); });
  Fabricd fabricd(dir.socket());
  registering.join();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(FabricClientTest, AFabricdThatDoesNotAnswerIsADeadline) {
  SocketDir dir;
  Fabricd fabricd(dir.socket());
  fabricd.Pause();
  TestPort h1(FabricClient::Options{.socket = dir.socket(), .answer = absl::Milliseconds(50)});
  EXPECT_EQ(h1.Register("h1").code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(FabricClientTest, AFabricdThatIsStoppedIsWaitedForAsLongAsTheCallerLikes) {
  SocketDir dir;
  Fabricd fabricd(dir.socket());
  fabricd.Pause();
  std::atomic<int> asked{0};
  TestPort h1(FabricClient::Options{.socket = dir.socket(),
                                    .answer = absl::Milliseconds(1),
                                    .keep_waiting = [&](const std::string& what, absl::Duration waited) {
                                      EXPECT_THAT(what, HasSubstr(dir.socket()));
                                      EXPECT_GT(waited, absl::ZeroDuration());
                                      if (++asked == 2) fabricd.Continue();
                                      return true;
                                    }});
  EXPECT_TRUE(h1.Register("h1").ok());
  EXPECT_GE(asked, 2);
}

TEST(FabricClientTest, WaitingForAStoppedFabricdEndsWhenTheCallerSaysSo) {
  SocketDir dir;
  Fabricd fabricd(dir.socket());
  fabricd.Pause();
  TestPort h1(
      FabricClient::Options{.socket = dir.socket(), .keep_waiting = [](const std::string&, absl::Duration) { return false; }});
  EXPECT_EQ(h1.Register("h1").code(), absl::StatusCode::kCancelled);
}

TEST(FabricClientTest, AStoppedFabricdThatDiesIsWaitedForLikeOneThatIsNotThere) {
  SocketDir dir;
  auto fabricd = std::make_unique<Fabricd>(dir.socket());
  fabricd->Pause();
  constexpr absl::Duration kWait = absl::Milliseconds(150);
  int asked = 0;
  TestPort h1(
      FabricClient::Options{.socket = dir.socket(), .wait = kWait, .keep_waiting = [&](const std::string&, absl::Duration) {
                              // Twice the wait has passed by then: it begins anew.
                              if (++asked == 3) {
                                fabricd.reset();
                                fabricd = std::make_unique<Fabricd>(dir.socket());
                              }
                              return true;
                            }});
  EXPECT_TRUE(h1.Register("h1").ok());
}

TEST(FabricClientTest, AFabricdThatTakesNoConnectionsIsThere) {
  SocketDir dir;
  Fabricd fabricd(dir.socket());
  fabricd.Pause();
  const sockaddr_un address = UnixAddress(dir.socket()).value();
  std::vector<UniqueFd> queued;  // until the kernel's backlog is full
  do {
    queued.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  } while (connect(queued.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  ASSERT_EQ(errno, EAGAIN);
  int asked = 0;
  TestPort h1(FabricClient::Options{
      .socket = dir.socket(), .wait = absl::Milliseconds(150), .keep_waiting = [&](const std::string&, absl::Duration) {
        if (++asked == 4) {
          queued.clear();
          fabricd.Continue();
        }
        return true;
      }});
  EXPECT_TRUE(h1.Register("h1").ok());
}

}  // namespace
}  // namespace eoib::softhca
