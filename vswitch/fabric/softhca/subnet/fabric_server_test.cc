// FabricServer: its socket, and clients that break the protocol.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/base/file.h"
#include "vswitch/fabric/softhca/ring_memory.h"
#include "vswitch/fabric/softhca/subnet/fabric_socket_test_fixture.h"

namespace eoib::softhca {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(FabricSocketTest, MalformedMessagesDisconnectTheirSenderOnly) {
  TestPort bystander(dir_.socket());
  ASSERT_TRUE(bystander.Register("bystander").ok());
  const Lid lid = bystander.config().lid;
  const auto raw = [](uint32_t type, size_t size) {
    Packet packet;
    packet.bytes.assign(size, '\0');
    if (size >= sizeof(type)) std::memcpy(packet.bytes.data(), &type, sizeof(type));
    return packet;
  };
  const auto one_fd = [](UniqueFd fd) {
    std::vector<UniqueFd> fds;
    fds.push_back(std::move(fd));
    return fds;
  };
  const auto ring = [lid](std::function<void(RingEnd*)> spoil) {
    RingEnd end = MakeRingEnd();
    spoil(&end);
    OpenRingMessage message;
    message.destination = lid.value();
    message.capacity = end.capacity;
    return Encode(message, ToDescriptors(std::move(end)));
  };
  struct Row {
    const char* description;
    bool registered;
    std::function<Packet()> make;
  };
  const int kBothSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const Row kRows[] = {
      {"one byte", false, [&] { return raw(0, 1); }},
      {"an unknown type", true, [&] { return raw(999, 64); }},
      {"a MAD before registration", false, [&] { return EncodeMad(Lid(), Mad{}); }},
      {"a MAD to a multicast LID", true, [&] { return EncodeMad(Lid(0xc001), Mad{}); }},
      {"a short MAD", true, [&] { return raw(static_cast<uint32_t>(MessageType::kMad), 100); }},
      {"a long MAD", true, [&] { return EncodeMad(Lid(), std::vector<uint8_t>(kMadSize + 1)); }},
      {"a part of a MAD", true, [&] { return EncodeMad(Lid(), Mad{}, MessageType::kMadPart); }},
      {"a MAD with a descriptor", true,
       [&] {
         Packet packet = EncodeMad(Lid(), Mad{});
         packet.fds = one_fd(UniqueFd(eventfd(0, 0)));
         return packet;
       }},
      {"an oversized message", true,
       [&] { return raw(static_cast<uint32_t>(MessageType::kMad), kMaxMessage + 1); }},
      {"a second registration", true,
       [&] { return Encode(RegisterMessage(), MakePortDescriptors()); }},
      {"a registration without a doorbell", false, [&] { return Encode(RegisterMessage()); }},
      {"a doorbell that is a file", false,
       [&] {
         std::vector<UniqueFd> fds = MakePortDescriptors();
         fds[0].reset(open("/dev/null", O_RDWR | O_CLOEXEC));
         return Encode(RegisterMessage(), std::move(fds));
       }},
      {"counters that may shrink", false,
       [&] {
         std::vector<UniqueFd> fds = MakePortDescriptors();
         fds[1] = MakeMemfd(CountersPage::kSize, F_SEAL_GROW | F_SEAL_SEAL);
         return Encode(RegisterMessage(), std::move(fds));
       }},
      {"counters of another size", false,
       [&] {
         std::vector<UniqueFd> fds = MakePortDescriptors();
         fds[1] = MakeMemfd(2 * CountersPage::kSize, kBothSeals | F_SEAL_SEAL);
         return Encode(RegisterMessage(), std::move(fds));
       }},
      {"fabricd's own message", true, [&] { return Encode(FaultsMessage()); }},
      {"a ring without descriptors", true, [&] { return Encode(OpenRingMessage()); }},
      {"a ring of an odd size", true,
       [&] { return ring([](RingEnd* end) { end->capacity = 65535; }); }},
      {"a ring of no size", true, [&] { return ring([](RingEnd* end) { end->capacity = 0; }); }},
      {"a ring larger than any of ours", true,
       [&] {
         return ring([=](RingEnd* end) {
           end->capacity = 2 * RingMemory::kMaxShared;
           end->data = MakeMemfd(end->capacity, kBothSeals | F_SEAL_SEAL);
         });
       }},
      {"memory larger than its ring", true,
       [&] {
         return ring(
             [=](RingEnd* end) { end->data = MakeMemfd(131072, kBothSeals | F_SEAL_SEAL); });
       }},
      {"a ring larger than its memory", true,
       [&] { return ring([](RingEnd* end) { end->capacity = 131072; }); }},
      {"data that may shrink", true,
       [&] {
         return ring([](RingEnd* end) { end->data = MakeMemfd(65536, F_SEAL_GROW | F_SEAL_SEAL); });
       }},
      {"data that may grow", true,
       [&] {
         return ring(
             [](RingEnd* end) { end->data = MakeMemfd(65536, F_SEAL_SHRINK | F_SEAL_SEAL); });
       }},
      {"an index that may shrink", true,
       [&] {
         return ring([](RingEnd* end) { end->index = MakeMemfd(4096, F_SEAL_GROW | F_SEAL_SEAL); });
       }},
      {"an empty index", true,
       [&] { return ring([=](RingEnd* end) { end->index = MakeMemfd(0, kBothSeals); }); }},
      {"data that is no memory file", true,
       [&] {
         return ring(
             [](RingEnd* end) { end->data = UniqueFd(open("/dev/zero", O_RDWR | O_CLOEXEC)); });
       }},
      {"space that is no eventfd", true,
       [&] { return ring([](RingEnd* end) { end->space = MakeMemfd(8, F_SEAL_GROW); }); }},
      {"a ring to a multicast LID", true,
       [&] {
         OpenRingMessage message;
         message.destination = 0xc001;
         message.capacity = 65536;
         return Encode(message, ToDescriptors(MakeRingEnd()));
       }},
  };
  const sockaddr_un address = UnixAddress(dir_.socket()).value();
  uint64_t malformed = 0;
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.description);
    const UniqueFd client(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
    PacketQueue queue(4);
    if (row.registered) {
      RegisterMessage hello;
      PutText("mallory", hello.name, sizeof(hello.name));
      ASSERT_TRUE(queue.Send(client.get(), Encode(hello, MakePortDescriptors())).ok());
    }
    ASSERT_TRUE(queue.Send(client.get(), row.make()).ok());
    // The connection ends, whatever came before.
    for (;;) {
      pollfd polled{client.get(), POLLIN, 0};
      ASSERT_EQ(poll(&polled, 1, 10'000), 1);
      if (absl::IsDataLoss(ReceivePacket(client.get()).status())) break;
    }
    EXPECT_EQ(fabricd_->counters().malformed, ++malformed);
  }
  EXPECT_EQ(bystander.record().lost, 0);
  EXPECT_THAT(bystander.record().offers, IsEmpty());
  TestPort another(dir_.socket());
  EXPECT_TRUE(another.Register("another").ok());
}

// Even if its registration has another length than ours.
TEST_F(FabricSocketTest, AnotherProtocolVersionIsRefusedWithAReason) {
  const sockaddr_un address = UnixAddress(dir_.socket()).value();
  RegisterMessage hello;
  hello.use = static_cast<uint32_t>(PortUse::kQuery);
  hello.version = kProtocolVersion + 1;
  for (const size_t size : {sizeof(hello), sizeof(hello) + 8, size_t{8}}) {
    const UniqueFd client(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
    Packet packet = Encode(hello);
    packet.bytes.resize(size);
    PacketQueue queue(1);
    ASSERT_TRUE(queue.Send(client.get(), std::move(packet)).ok());
    pollfd polled{client.get(), POLLIN, 0};
    ASSERT_EQ(poll(&polled, 1, 10'000), 1);
    const auto answer = Decode<RegisteredMessage>(ReceivePacket(client.get()).value());
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_THAT(
        TextOf(answer->text, sizeof(answer->text)),
        HasSubstr(absl::StrCat("version ", kProtocolVersion, ", not ", kProtocolVersion + 1)));
  }
}

TEST(FabricServerSocketTest, OneFabricdAPath) {
  SocketDir dir;
  Subnet subnet;
  auto first = FabricServer::Listen(dir.socket(), &subnet);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(FabricServer::Listen(dir.socket(), &subnet).status().code(),
            absl::StatusCode::kAlreadyExists);
  first->reset();
  EXPECT_TRUE(FabricServer::Listen(dir.socket(), &subnet).ok());
}

TEST(FabricServerSocketTest, AStaleSocketIsReplacedAndALivingOneIsNot) {
  SocketDir dir;
  Subnet subnet;
  const sockaddr_un address = UnixAddress(dir.socket()).value();
  {
    const UniqueFd other(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(other.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(other.get(), 1), 0);
    EXPECT_EQ(FabricServer::Listen(dir.socket(), &subnet).status().code(),
              absl::StatusCode::kAlreadyExists);
  }
  EXPECT_TRUE(FabricServer::Listen(dir.socket(), &subnet).ok());
}

// A process that may connect can register any port, in all partitions. Members of the group eoib
// may only read.
TEST(FabricServerSocketTest, OnlyItsUserMayConnect) {
  SocketDir dir;
  Subnet subnet;
  const auto server = FabricServer::Listen(dir.socket(), &subnet);
  ASSERT_TRUE(server.ok()) << server.status();
  struct stat info;
  ASSERT_EQ(stat(dir.socket().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST(FabricServerSocketTest, ARemovedSocketIsMadeAgain) {
  SocketDir dir;
  Subnet subnet;
  const auto server = FabricServer::Listen(dir.socket(), &subnet);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_FALSE(*(*server)->RestoreSocket()) << "it is there";
  const sockaddr_un address = UnixAddress(dir.socket()).value();
  const auto connect_client = [&address](const UniqueFd& client) {
    return connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  };
  const UniqueFd former(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const UniqueFd later(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect_client(former), 0);
  (*server)->Run();
  ASSERT_EQ(unlink(dir.socket().c_str()), 0);
  EXPECT_NE(connect_client(later), 0);
  EXPECT_TRUE((*server)->RestoreSocket().value());
  struct stat info;
  ASSERT_EQ(stat(dir.socket().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(connect_client(later), 0);
  (*server)->Run();
  EXPECT_EQ((*server)->clients(), 2u);
}

TEST(FabricServerSocketTest, AFileInTheWayIsLeftAlone) {
  SocketDir dir;
  Subnet subnet;
  const UniqueFd file(open(dir.socket().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.valid());
  EXPECT_EQ(FabricServer::Listen(dir.socket(), &subnet).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(access(dir.socket().c_str(), F_OK), 0);
}

// The descriptor limit is the process's, so no other thread may need descriptors meanwhile.
TEST(FabricServerSocketTest, WithoutDescriptorsItRefusesAndDoesNotSpin) {
  SocketDir dir;
  Subnet subnet;
  auto server = FabricServer::Listen(dir.socket(), &subnet);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto has_work = [&] {
    pollfd polled{(*server)->fd(), POLLIN, 0};
    return poll(&polled, 1, 0) > 0;
  };
  const auto ended = [](const UniqueFd& client) {
    return absl::IsDataLoss(ReceivePacket(client.get()).status());
  };
  const sockaddr_un address = UnixAddress(dir.socket()).value();
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 3; ++i)
    clients.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = 128;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  std::vector<UniqueFd> hoard;
  for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) hoard.emplace_back(fd);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(
        connect(clients[i].get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  EXPECT_TRUE(has_work());
  (*server)->Run();
  EXPECT_FALSE(has_work());
  EXPECT_TRUE(ended(clients[0]));
  EXPECT_TRUE(ended(clients[1]));
  EXPECT_EQ((*server)->counters().refused, 2u);

  hoard.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_EQ(connect(clients[2].get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            0);
  (*server)->Run();
  EXPECT_FALSE(ended(clients[2]));
  EXPECT_EQ((*server)->clients(), 1u);
}

TEST(FabricServerSocketTest, PathsMustFit) {
  Subnet subnet;
  EXPECT_EQ(FabricServer::Listen("/tmp/" + std::string(120, 'x'), &subnet).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace eoib::softhca
