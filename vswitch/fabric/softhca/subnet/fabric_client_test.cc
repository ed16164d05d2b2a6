// FabricClient: registration, retries, and the fabricd that it waits for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "vswitch/base/file.h"
#include "vswitch/fabric/softhca/subnet/fabric_socket_test_fixture.h"

namespace eoib::softhca {
namespace {

using ::testing::HasSubstr;

// The other end of a client's connection, played by the test.
class FakeFabricd {
 public:
  explicit FakeFabricd(const std::string& path)
      : listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = UnixAddress(path).value();
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
  }
  // Waits for a client's registration.
  RegisterMessage Accept() {
    client_.reset(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    pollfd polled{client_.get(), POLLIN, 0};
    EXPECT_EQ(poll(&polled, 1, 10'000), 1);
    return Decode<RegisterMessage>(ReceivePacket(client_.get()).value(), kRegisterDescriptors)
        .value();
  }
  void Admit() {
    Send(ToMessage(PortConfig()));
    Send(RegisteredMessage());
  }
  template <typename Message>
  void Send(const Message& message, std::vector<UniqueFd> fds = {}) {
    EXPECT_TRUE(PacketQueue(1).Send(client_.get(), Encode(message, std::move(fds))).ok());
  }

 private:
  const UniqueFd listener_;
  UniqueFd client_;
};

TEST(FabricClientTest, NoFabricdIsUnavailable) {
  SocketDir dir;
  TestPort h1(dir.socket());
  const absl::Status status = h1.Register("h1");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("start eoib-fabricd --rundir /tmp/"));
  EXPECT_EQ(h1.client()->SendMad(Mad{}).code(), absl::StatusCode::kUnavailable);
}

// It used to end the registration, and the next one, while a peer had something to send.
TEST(FabricClientTest, AMessageWhoseDescriptorsFindNoRoomCostsItsRingOnly) {
  SocketDir dir;
  FakeFabricd fabricd(dir.socket());
  TestPort h1(dir.socket());
  std::thread admitting([&] {
    fabricd.Accept();
    fabricd.Admit();
  });
  const absl::Status registered = h1.Register("h1");
  admitting.join();
  ASSERT_TRUE(registered.ok()) << registered;
  ASSERT_TRUE(h1.client()->OpenRing(5, Lid(2), MakeRingEnd()).ok());
  SourceMessage offer = ToMessage(MessageType::kRingOffered, 7, SourceIdentity());
  offer.capacity = 65536;
  RingOpenedMessage opened;
  opened.request = 5;
  std::vector<UniqueFd> ring = ToDescriptors(MakeRingEnd()), doorbell;
  // One is correct, but would fit.
  for (int i = 0; i < 3; ++i) doorbell.emplace_back(eventfd(0, EFD_CLOEXEC));
  {
    const TwoDescriptors too_few;
    fabricd.Send(offer, std::move(ring));
    fabricd.Send(opened, std::move(doorbell));
    EXPECT_TRUE(h1.WaitFor(
        [](const auto& record) { return record.offers.size() == 1 && record.opened.size() == 1; }));
  }
  EXPECT_FALSE(h1.record().offers[7]->end.data.valid());
  EXPECT_EQ(h1.record().opened[5].second, nullptr);
  offer.ring = 8;
  fabricd.Send(offer, ToDescriptors(MakeRingEnd()));
  EXPECT_TRUE(h1.WaitFor([](const auto& record) { return record.offers.size() == 2; }))
      << "on the same connection";
  EXPECT_TRUE(h1.record().offers[8]->end.liveness.valid());
  EXPECT_EQ(h1.record().lost, 0);
}

// Its fabricd was replaced by one that refuses it: "there is no eoib-fabricd" would mislead an
// operator.
TEST(FabricClientTest, ASendAfterARefusedRegistrationNamesTheReason) {
  SocketDir dir;
  auto fabricd = std::make_unique<Fabricd>(dir.socket());
  TestPort h1(dir.socket());
  ASSERT_TRUE(h1.Register("h1").ok());
  fabricd.reset();
  ASSERT_TRUE(h1.WaitFor([](const auto& record) { return record.lost == 1; }));
  const auto said = [&] { return std::string(h1.client()->SendMad(Mad{}).message()); };
  EXPECT_THAT(said(), HasSubstr("there is no eoib-fabricd"));
  {
    FakeFabricd another(dir.socket());
    for (int i = 0; i < 2; ++i) {  // the second attempt follows the first refusal
      another.Accept();
      RegisteredMessage refusal;
      refusal.code = static_cast<uint32_t>(absl::StatusCode::kFailedPrecondition);
      PutText("too old", refusal.text, sizeof(refusal.text));
      another.Send(refusal);
    }
    EXPECT_THAT(said(), HasSubstr("does not take port h1 back: too old"));
  }
  unlink(dir.socket().c_str());
  fabricd = std::make_unique<Fabricd>(dir.socket());
  EXPECT_TRUE(h1.WaitFor([](const auto& record) { return record.configs.size() == 2; }));
  EXPECT_TRUE(h1.client()->SendMad(Mad{}).ok());
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
  TestPort h1(
      FabricClient::Options{.socket = dir.socket(),
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
  TestPort h1(FabricClient::Options{
      .socket = dir.socket(),
      .keep_waiting = [](const std::string&, absl::Duration) { return false; }});
  EXPECT_EQ(h1.Register("h1").code(), absl::StatusCode::kCancelled);
}

TEST(FabricClientTest, AStoppedFabricdThatDiesIsWaitedForLikeOneThatIsNotThere) {
  SocketDir dir;
  auto fabricd = std::make_unique<Fabricd>(dir.socket());
  fabricd->Pause();
  constexpr absl::Duration kWait = absl::Seconds(1);  // longer than starting another one takes
  bool died = false;
  TestPort h1(FabricClient::Options{.socket = dir.socket(),
                                    .wait = kWait,
                                    .keep_waiting = [&](const std::string&, absl::Duration waited) {
                                      // The first wait is over by then, so a new one has begun.
                                      if (waited > 2 * kWait && !std::exchange(died, true)) {
                                        fabricd.reset();
                                        fabricd = std::make_unique<Fabricd>(dir.socket());
                                      }
                                      return true;
                                    }});
  EXPECT_TRUE(h1.Register("h1").ok());
  EXPECT_TRUE(died);
}

TEST(FabricClientTest, AFabricdThatTakesNoConnectionsIsThere) {
  SocketDir dir;
  Fabricd fabricd(dir.socket());
  fabricd.Pause();
  const sockaddr_un address = UnixAddress(dir.socket()).value();
  std::vector<UniqueFd> queued;  // until the kernel's backlog is full
  do {
    queued.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  } while (connect(queued.back().get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)) == 0);
  ASSERT_EQ(errno, EAGAIN);
  int asked = 0;
  TestPort h1(FabricClient::Options{.socket = dir.socket(),
                                    .wait = absl::Milliseconds(150),
                                    .keep_waiting = [&](const std::string&, absl::Duration) {
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
