// A fabricd in a thread, ports that register with it, and the descriptors that they pass.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FABRIC_SOCKET_TEST_FIXTURE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FABRIC_SOCKET_TEST_FIXTURE_H_

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/file.h"
#include "vswitch/base/temp_dir_for_test.h"
#include "vswitch/fabric/softhca/counters_page.h"
#include "vswitch/fabric/softhca/fabric_client.h"
#include "vswitch/fabric/softhca/recording_sink_for_test.h"
#include "vswitch/fabric/softhca/subnet/fabric_server.h"
#include "vswitch/fabric/softhca/subnet/lid_file.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {

class SocketDir {
 public:
  std::string socket() const { return directory_.path() + "/fabricd.sock"; }

 private:
  TempDir directory_;
};

// A Subnet, its server and a thread that runs it, like eoib-fabricd. A paused one acts like a
// stopped process.
class Fabricd {
 public:
  explicit Fabricd(const std::string& socket, Subnet::Options options = {})
      : clock_(options.clock != nullptr ? options.clock : &system_clock_),
        subnet_(std::move(options)),
        wake_(eventfd(0, EFD_CLOEXEC)) {
    auto server = FabricServer::Listen(socket, &subnet_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    Continue();
  }
  ~Fabricd() { Pause(); }

  void Pause() {
    if (!thread_.joinable()) return;
    const uint64_t one = 1;
    EXPECT_EQ(write(wake_.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
    thread_.join();
  }
  void Continue() {
    thread_ = std::thread([this] {
      for (;;) {
        pollfd polled[] = {{server_->fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
        const absl::Duration left = subnet_.NextDeadline() - clock_->Now();
        poll(polled, 2,
             left == absl::InfiniteDuration() ? -1
                                              : static_cast<int>(left / absl::Milliseconds(1)) + 1);
        uint64_t woken;
        if (polled[1].revents != 0) return void(read(wake_.get(), &woken, sizeof(woken)) > 0);
        server_->Run();
        subnet_.Run();
      }
    });
  }
  Subnet* subnet() { return &subnet_; }
  // Use only while paused.
  FabricServer* server() { return server_.get(); }
  FabricServer::Counters counters() {
    Pause();
    const FabricServer::Counters counters = server_->counters();
    Continue();
    return counters;
  }
  size_t clients() {
    Pause();
    const size_t clients = server_->clients();
    Continue();
    return clients;
  }

 private:
  const MonotonicClock system_clock_;
  const Clock* const clock_;
  Subnet subnet_;
  std::unique_ptr<FabricServer> server_;
  UniqueFd wake_;
  std::thread thread_;
};

class TestPort {
 public:
  explicit TestPort(const std::string& socket)
      : TestPort(FabricClient::Options{.socket = socket}) {}
  explicit TestPort(FabricClient::Options options)
      : doorbell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        counters_(CountersPage::Create().value()),
        client_(std::make_unique<FabricClient>(std::move(options))) {}

  absl::Status Register(const std::string& name, PortUse use = PortUse::kOwn) {
    return client_->Register(name, {doorbell_.get(), counters_}, use, &sink_);
  }
  RecordingSink::Record record() const { return sink_.Get(); }
  PortConfig config() const { return sink_.Get().configs.back(); }
  bool WaitFor(std::function<bool(const RecordingSink::Record&)> looks_right) const {
    return sink_.WaitFor(looks_right);
  }
  FabricClient* client() { return client_.get(); }
  CountersPage* counters() { return counters_.get(); }
  int doorbell() const { return doorbell_.get(); }
  void Die() { client_.reset(); }

 private:
  RecordingSink sink_;
  UniqueFd doorbell_;
  std::shared_ptr<CountersPage> counters_;
  std::unique_ptr<FabricClient> client_;
};

inline UniqueFd MakeMemfd(uint64_t size, int seals) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

// The descriptors of a registration.
inline std::vector<UniqueFd> MakePortDescriptors() {
  std::vector<UniqueFd> fds;
  fds.emplace_back(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  fds.push_back(MakeMemfd(CountersPage::kSize, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
  return fds;
}

inline RingEnd MakeRingEnd() {
  RingEnd end;
  end.capacity = 65536;
  end.data = MakeMemfd(end.capacity, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  end.index = MakeMemfd(4096, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  end.space = UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  int pair[2];
  EXPECT_EQ(pipe2(pair, O_CLOEXEC), 0);
  end.liveness = UniqueFd(pair[0]);
  close(pair[1]);
  return end;
}

// Two low descriptors of this process, for TwoDescriptors.
inline UniqueFd g_lowest = Duplicate(STDERR_FILENO), g_second_lowest = Duplicate(STDERR_FILENO);

// While it lives, this process gets at most two more descriptors, too few for a ring; open ones
// keep working. Two, because the sanitizer makes a pipe to inspect an object.
class TwoDescriptors {
 public:
  TwoDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit two = {static_cast<rlim_t>(g_second_lowest.get()) + 1, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &two), 0);
    EXPECT_FALSE(Duplicate(STDERR_FILENO).valid());
    g_lowest.reset();
    g_second_lowest.reset();
  }
  ~TwoDescriptors() {
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0);
    g_lowest = Duplicate(STDERR_FILENO);
    g_second_lowest = Duplicate(STDERR_FILENO);
  }
  TwoDescriptors(const TwoDescriptors&) = delete;
  TwoDescriptors& operator=(const TwoDescriptors&) = delete;

 private:
  rlimit before_;
};

// Registers a port that then reads nothing.
inline UniqueFd RegisterDeafPort(const std::string& socket, const std::string& name) {
  UniqueFd deaf(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const sockaddr_un address = UnixAddress(socket).value();
  EXPECT_EQ(connect(deaf.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  RegisterMessage hello;
  PutText(name, hello.name, sizeof(hello.name));
  PacketQueue queue(1);
  EXPECT_TRUE(queue.Send(deaf.get(), Encode(hello, MakePortDescriptors())).ok());
  return deaf;
}

inline Mad JoinMad(const PortConfig& port, uint64_t tid = 1, MadMethod method = MadMethod::kSet) {
  SaHeader header;
  header.method = method;
  header.attribute = SaAttribute::kMcMemberRecord;
  header.tid = tid;
  header.component_mask = mcm::kMgid | mcm::kPortGid | mcm::kJoinState | mcm::kQKey | mcm::kPKey |
                          mcm::kTrafficClass | mcm::kSl | mcm::kFlowLabel;
  McMemberRecord group;
  group.mgid = Mgid(Gid::Parse("ff12:e01b::1").value());
  group.port_gid = port.gid;
  group.pkey = PKey(0xffff);
  group.join_state = kFullMember;
  Mad mad;
  EncodeSaHeader(header, &mad);
  EncodeMcMemberRecord(group, SaRecord(&mad));
  return mad;
}

// A subscription to all reports.
inline Mad SubscribeMad() {
  SaHeader header;
  header.method = MadMethod::kSet;
  header.attribute = SaAttribute::kInformInfo;
  Mad mad;
  EncodeSaHeader(header, &mad);
  EncodeInformInfo(InformInfo(), SaRecord(&mad));
  return mad;
}

class FabricSocketTest : public ::testing::Test {
 protected:
  FabricSocketTest() : fabricd_(std::make_unique<Fabricd>(dir_.socket())) {}

  SocketDir dir_;
  std::unique_ptr<Fabricd> fabricd_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FABRIC_SOCKET_TEST_FIXTURE_H_
