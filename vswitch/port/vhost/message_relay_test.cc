#include "vswitch/port/vhost/message_relay.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"
#include "vswitch/base/temp_dir_for_test.h"

namespace eoib {
namespace {

using ::testing::HasSubstr;

VhostMessage Message(uint32_t request, std::initializer_list<uint32_t> words = {}) {
  VhostMessage message{};
  message.header = {request, VhostMessageHeader::kVersion,
                    static_cast<uint32_t>(words.size() * sizeof(uint32_t))};
  std::copy(words.begin(), words.end(), reinterpret_cast<uint32_t*>(message.bytes));
  return message;
}

// The last region is of that size.
VhostMessage MemoryTable(uint32_t regions, uint64_t size = 1 << 20) {
  VhostMessage message = Message(5, {regions, 0});
  message.header.size += 32 * regions;
  std::memcpy(message.bytes + message.header.size - 24, &size, sizeof(size));
  return message;
}

TEST(CheckVhostMessageTest, JudgesEachMessage) {
  struct Row {
    VhostMessage message;
    size_t fds;
    std::string wrong;
  };
  VhostMessage other_version = Message(1), answer = Message(1), acknowledged = Message(3);
  other_version.header.flags = 2;
  answer.header.flags |= VhostMessageHeader::kReply;
  acknowledged.header.flags |= VhostMessageHeader::kNeedsReply;
  const Row rows[] = {
      {Message(1), 0, ""},
      {Message(1), 1, "GET_FEATURES with 1 descriptors instead of 0"},
      {other_version, 0, "GET_FEATURES with flags of another version"},
      {answer, 0, "GET_FEATURES with flags of another version"},
      {acknowledged, 0, ""},
      {Message(0), 0, "request 0, which is not for network interfaces"},
      {Message(31, {8, 0, 8, 0, 1}), 0, "request 31, which is not"},
      {Message(0xffffffff), 0, "request 4294967295, which is not"},
      {Message(2, {1}), 0, "SET_FEATURES of a wrong size"},
      {MemoryTable(1), 1, ""},
      {MemoryTable(8), 8, ""},
      {MemoryTable(2), 1, "SET_MEM_TABLE with 1 descriptors instead of 2"},
      {Message(5, {2, 0}), 2, "SET_MEM_TABLE with 2 regions in 8 bytes"},
      {Message(5, {9, 0}), 8, "SET_MEM_TABLE with 9 regions"},
      {Message(5, {0, 0}), 0, "SET_MEM_TABLE with 0 regions"},
      {Message(6, {1, 0, 0, 0}), 1, ""},
      {Message(6, {1, 0, 4096, 0}), 1, "SET_LOG_BASE of more than 1 GB, or behind other bytes"},
      {Message(6, {0, 1, 0, 0}), 1, "SET_LOG_BASE of more than 1 GB"},
      {Message(6, {1, 0, 0, 0}), 0, "SET_LOG_BASE with 0 descriptors instead of 1"},
      {MemoryTable(2, 1ULL << 40), 2,
       "SET_MEM_TABLE of more than four times the memory of this host"},
      {MemoryTable(2, ~0ULL), 2, "SET_MEM_TABLE of more than four times"},
      {Message(8, {31, 4096}), 0, ""},
      {Message(8, {31, 8192}), 0, "SET_VRING_NUM to 8192 entries: a queue has 4096 at most"},
      {Message(8, {32, 256}), 0, "SET_VRING_NUM for queue 32: a vPort has 16 pairs at most"},
      {Message(9, {0, 0, 0, 0}), 0, "SET_VRING_ADDR of a wrong size"},
      {Message(11, {0xffffffff, 0}), 0, "GET_VRING_BASE for queue 4294967295"},
      {Message(12, {0, 0}), 1, ""},
      {Message(12, {0, 0}), 0, "SET_VRING_KICK with 0 descriptors instead of 1"},
      {Message(13, {0x100, 0}), 0, ""},
      {Message(13, {0x100, 0}), 1, "SET_VRING_CALL with 1 descriptors instead of 0"},
      {Message(13, {0xff, 0}), 1, "SET_VRING_CALL for queue 255"},
      {Message(19), 0, "SEND_RARP of a wrong size"},
      {Message(19, {0, 0}), 0, ""},
  };
  for (const Row& row : rows) {
    const std::string wrong = CheckVhostMessage(row.message, row.fds);
    EXPECT_EQ(wrong.empty(), row.wrong.empty()) << wrong << " instead of " << row.wrong;
    EXPECT_THAT(wrong, HasSubstr(row.wrong));
  }
}

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

UniqueFd Listen(const std::string& path) {
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = AddressOf(path);
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(listener.get(), 16), 0);
  return listener;
}

// A program and the library, with a relay in between.
class MessageRelayTest : public testing::Test {
 protected:
  MessageRelayTest() {
    UniqueFd listener = Listen(path_);
    EXPECT_EQ(fcntl(listener.get(), F_SETFL, O_NONBLOCK), 0);
    relay_ = std::make_unique<MessageRelay>(MessageRelay::Options{
        path_, std::move(listener), UniqueFd(fcntl(library_inode_.get(), F_DUPFD_CLOEXEC, 0)),
        [this] { ++refused_; }});
    unlink(inner_path_.c_str());
    ConnectProgram();
  }
  ~MessageRelayTest() override { relay_.reset(); }
  UniqueFd Connected() {
    UniqueFd program(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = AddressOf(path_);
    EXPECT_EQ(connect(program.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
    return program;
  }
  void ConnectProgram() {
    library_.reset();
    program_ = Connected();
    library_ = UniqueFd(accept(library_listener_.get(), nullptr, nullptr));
  }
  void Send(const VhostMessage& message, const std::vector<int>& fds = {}) {
    iovec part{const_cast<VhostMessage*>(&message), sizeof(message.header) + message.header.size};
    alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
    msghdr all{};
    all.msg_iov = &part;
    all.msg_iovlen = 1;
    if (!fds.empty()) {
      all.msg_control = control;
      all.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      *CMSG_FIRSTHDR(&all) = {.cmsg_len = CMSG_LEN(fds.size() * sizeof(int)),
                              .cmsg_level = SOL_SOCKET,
                              .cmsg_type = SCM_RIGHTS};
      std::memcpy(CMSG_DATA(CMSG_FIRSTHDR(&all)), fds.data(), fds.size() * sizeof(int));
    }
    ASSERT_EQ(sendmsg(program_.get(), &all, MSG_NOSIGNAL), static_cast<ssize_t>(part.iov_len));
  }
  // What the library gets next, with its descriptors; empty at the end of the connection.
  std::string LibraryGets(std::vector<UniqueFd>* fds = nullptr) {
    char bytes[2 * sizeof(VhostMessage)];
    iovec part{bytes, sizeof(bytes)};
    alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))];
    msghdr all{};
    all.msg_iov = &part;
    all.msg_iovlen = 1;
    all.msg_control = control;
    all.msg_controllen = sizeof(control);
    const ssize_t size = recvmsg(library_.get(), &all, 0);
    const cmsghdr* const first = CMSG_FIRSTHDR(&all);
    for (size_t i = 0; first != nullptr && CMSG_LEN((i + 1) * sizeof(int)) <= first->cmsg_len;
         ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(first) + i * sizeof(int), sizeof(fd));
      UniqueFd got(fd);
      if (fds != nullptr) fds->push_back(std::move(got));
    }
    return {bytes, bytes + std::max<ssize_t>(size, 0)};
  }
  static std::string BytesOf(const VhostMessage& message) {
    return {reinterpret_cast<const char*>(&message), sizeof(message.header) + message.header.size};
  }
  void ExpectEnd(const std::string& fault) {
    EXPECT_EQ(LibraryGets(), "");
    char byte;
    EXPECT_LE(recv(program_.get(), &byte, 1, 0), 0) << "the program sees the end, too";
    EXPECT_THAT(relay_->fault(), HasSubstr(fault));
    EXPECT_EQ(relay_->fault().empty(), fault.empty());
  }

  const TempDir directory_;
  const std::string path_ = directory_.path() + "/program",
                    inner_path_ = directory_.path() + "/library";
  const UniqueFd library_listener_ = Listen(inner_path_);
  const UniqueFd library_inode_{open(inner_path_.c_str(), O_PATH | O_CLOEXEC)};
  UniqueFd program_, library_;
  std::atomic<int> refused_{0};
  std::unique_ptr<MessageRelay> relay_;
};

TEST_F(MessageRelayTest, PassesMessagesAndAnswers) {
  Send(Message(1));
  EXPECT_EQ(LibraryGets(), BytesOf(Message(1)));
  const std::string answer = BytesOf(Message(1, {7, 8}));
  ASSERT_EQ(send(library_.get(), answer.data(), answer.size(), 0),
            static_cast<ssize_t>(answer.size()));
  char got[64];
  ASSERT_EQ(recv(program_.get(), got, sizeof(got), 0), static_cast<ssize_t>(answer.size()));
  EXPECT_EQ(std::string(got, answer.size()), answer);
  program_.reset();
  EXPECT_EQ(LibraryGets(), "");
  EXPECT_EQ(relay_->fault(), "");
}

TEST_F(MessageRelayTest, PassesDescriptors) {
  const UniqueFd memory(memfd_create("guest", 0)), event(eventfd(0, 0));
  Send(MemoryTable(2), {memory.get(), memory.get()});
  std::vector<UniqueFd> fds;
  EXPECT_EQ(LibraryGets(&fds), BytesOf(MemoryTable(2)));
  EXPECT_EQ(fds.size(), 2u);
  fds.clear();
  Send(Message(12, {1, 0}), {event.get()});
  EXPECT_EQ(LibraryGets(&fds), BytesOf(Message(12, {1, 0})));
  ASSERT_EQ(fds.size(), 1u);
  EXPECT_EQ(eventfd_write(fds[0].get(), 3), 0);
  eventfd_t count;
  EXPECT_EQ(eventfd_read(event.get(), &count), 0);
  EXPECT_EQ(count, 3u);
}

TEST_F(MessageRelayTest, EndsAtABadMessage) {
  Send(Message(31, {8, 0, 8, 0, 1}));
  ExpectEnd("request 31, which is not for network interfaces");
}

TEST_F(MessageRelayTest, EndsAtATooLargeMessage) {
  VhostMessage message = Message(5);
  message.header.size = 0xffffffff;
  ASSERT_EQ(send(program_.get(), &message, sizeof(message.header), 0),
            static_cast<ssize_t>(sizeof(message.header)));
  ExpectEnd("a message of 4294967295 bytes");
}

TEST_F(MessageRelayTest, ServesOneProgramAfterAnother) {
  UniqueFd second = Connected();
  char byte;
  EXPECT_EQ(recv(second.get(), &byte, 1, 0), 0) << "refused";
  EXPECT_EQ(refused_, 1);
  Send(Message(1));
  EXPECT_EQ(LibraryGets(), BytesOf(Message(1)));
  for (int i = 0; i < 3; ++i) {
    program_.reset();
    EXPECT_EQ(LibraryGets(), "");
    ConnectProgram();
    Send(Message(3));
    EXPECT_EQ(LibraryGets(), BytesOf(Message(3)));
  }
  relay_->Close();
  EXPECT_EQ(LibraryGets(), "");
}

// Until the library has closed a connection, it would refuse the next one.
TEST_F(MessageRelayTest, TheNextProgramWaitsForTheLibrary) {
  program_.reset();
  UniqueFd next = Connected();
  EXPECT_EQ(LibraryGets(), "");
  pollfd waiting{library_listener_.get(), POLLIN, 0};
  EXPECT_EQ(poll(&waiting, 1, 50), 0);
  library_.reset();
  EXPECT_EQ(poll(&waiting, 1, 20'000), 1);
  EXPECT_EQ(refused_, 0);
}

TEST_F(MessageRelayTest, ConnectsToAProgramThatListens) {
  const std::string path = directory_.path() + "/listening";
  relay_ = std::make_unique<MessageRelay>(MessageRelay::Options{
      path, UniqueFd(), UniqueFd(fcntl(library_inode_.get(), F_DUPFD_CLOEXEC, 0)), nullptr});
  const UniqueFd listener = Listen(path);
  program_ = UniqueFd(accept(listener.get(), nullptr, nullptr));
  library_ = UniqueFd(accept(library_listener_.get(), nullptr, nullptr));
  Send(Message(1));
  EXPECT_EQ(LibraryGets(), BytesOf(Message(1)));
}

// Files whose owner answers when he likes: an access, or even closing them, could wait for him.
TEST_F(MessageRelayTest, EndsAtAFileThatAnotherProgramServes) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  Send(Message(13, {0, 0}), {writer.get()});
  ExpectEnd("SET_VRING_CALL with a descriptor that is no eventfd");
}

TEST_F(MessageRelayTest, EndsAtMemoryThatAFileSystemServes) {
  const UniqueFd file(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file.valid());
  Send(MemoryTable(1), {file.get()});
  ExpectEnd(
      "SET_MEM_TABLE with a file that is neither in memory (memfd, /dev/shm) nor in huge pages");
}

// The library does not see a half of a message, and the relay can be destroyed.
TEST_F(MessageRelayTest, WaitsForTheRestOfAMessageItself) {
  const VhostMessage message = Message(8, {0, 256});
  const auto* const bytes = reinterpret_cast<const char*>(&message);
  for (size_t sent = 0; sent < sizeof(message.header) + message.header.size; ++sent) {
    pollfd waiting{library_.get(), POLLIN, 0};
    EXPECT_EQ(poll(&waiting, 1, 0), 0);
    ASSERT_EQ(send(program_.get(), bytes + sent, 1, 0), 1);
  }
  EXPECT_EQ(LibraryGets(), BytesOf(message));
  ASSERT_EQ(send(program_.get(), bytes, sizeof(message.header) + 1, 0), 13);
  relay_.reset();
  EXPECT_EQ(LibraryGets(), "");
}

// The program reads no answer. The library can send all of them, because it gets no further
// message.
TEST_F(MessageRelayTest, KeepsMessagesBackFromALibraryWhoseAnswersAreNotRead) {
  ASSERT_EQ(fcntl(library_.get(), F_SETFL, O_NONBLOCK), 0);
  ASSERT_EQ(fcntl(program_.get(), F_SETFL, O_NONBLOCK), 0);
  const VhostMessage message = Message(1);
  const std::string answer = BytesOf(Message(1, {0, 0}));
  size_t answers = 0;
  for (int idle = 0; idle < 100;) {
    send(program_.get(), &message, sizeof(message.header), 0);
    VhostMessage got;
    if (recv(library_.get(), &got, sizeof(got.header), 0) !=
        static_cast<ssize_t>(sizeof(got.header))) {
      pollfd waiting{library_.get(), POLLIN, 0};
      idle = poll(&waiting, 1, 5) == 0 ? idle + 1 : 0;
      continue;
    }
    ++answers;
    ASSERT_EQ(send(library_.get(), answer.data(), answer.size(), 0),
              static_cast<ssize_t>(answer.size()))
        << answers;
  }
  EXPECT_GT(answers, 100u);
}

TEST_F(MessageRelayTest, KeepsThePace) {
  const auto start = std::chrono::steady_clock::now();
  constexpr int kMore = 100;
  for (int i = 0; i < MessageRelay::kBurst + kMore; ++i) {
    Send(Message(1));
    EXPECT_EQ(LibraryGets(), BytesOf(Message(1)));
  }
  EXPECT_GE(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(1000 * (kMore - 1) / MessageRelay::kPerSecond));
}

// Whatever the program sends, the library gets whole messages that pass the check.
TEST_F(MessageRelayTest, RandomBytesReachTheLibraryAsGoodMessagesOnly) {
  std::mt19937 engine(static_cast<uint32_t>(SeedForTest()));
  const auto random = [&engine] { return static_cast<uint32_t>(engine()); };
  for (int round = 0; round < 200; ++round) {
    ConnectProgram();
    for (int i = 0; i < 5; ++i) {
      VhostMessage message{};
      message.header = {random() % 45, random() % 16,
                        random() % 8 == 0 ? random() % 300 : random() % 6 * 8};
      for (uint8_t& byte : message.bytes)
        byte = static_cast<uint8_t>(random() % 8 == 0 ? random() : 0);
      const size_t size =
          sizeof(message.header) + std::min<size_t>(message.header.size, sizeof(message.bytes));
      if (send(program_.get(), &message, size, MSG_NOSIGNAL) < 0) break;
    }
    shutdown(program_.get(), SHUT_WR);
    while (true) {
      VhostMessage message{};
      if (recv(library_.get(), &message.header, sizeof(message.header), 0) !=
          static_cast<ssize_t>(sizeof(message.header)))
        break;
      ASSERT_LE(message.header.size, sizeof(message.bytes));
      ASSERT_EQ(recv(library_.get(), message.bytes, message.header.size, 0),
                static_cast<ssize_t>(message.header.size));
      ASSERT_EQ(CheckVhostMessage(message, 0), "");
    }
  }
}

}  // namespace
}  // namespace eoib
