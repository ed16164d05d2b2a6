// Two hosts in network namespaces of their own, with a pair of sockets as the link: real kernels on
// both sides, without InfiniBand.
#include "gateway/host/endpoint.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gateway/host/find_neighbor_for_test.h"
#include "gateway/host/kernel_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/base/seed_for_test.h"
#include "vswitch/base/temp_dir_for_test.h"

namespace eoib::endpoint {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A link of two hosts: each receives the other's packets to its address and to groups that it
// listens to.
class SocketLink final : public ipoib::Interface {
 public:
  SocketLink(int socket, uint32_t qpn, uint32_t mtu = 2044)
      : socket_(socket),
        state_{IpoibAddress(Qpn(qpn), Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000,
                                                             Guid(0x0202'c903'000e'0000 + qpn))),
               {PKey(0xffff)},
               mtu} {}

  absl::optional<ipoib::LinkState> state() const override { return state_; }
  void Send(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) override {
    Write(type, payload, to);
  }
  void SendToGroup(IpoibType type, absl::Span<const uint8_t> payload, const IpoibGroup& group,
                   bool) override {
    Write(type, payload, IpoibAddress::OfGroup(ToMgid(group)));
  }
  bool Reaches(const IpoibGroup&) override { return true; }
  void Listen(const IpoibGroup& group) override {
    absl::MutexLock lock(&mutex_);
    groups_.insert(ToMgid(group));
  }
  void Unlisten(const IpoibGroup& group) override {
    absl::MutexLock lock(&mutex_);
    groups_.erase(ToMgid(group));
  }
  std::set<Mgid> groups() {
    absl::MutexLock lock(&mutex_);
    return groups_;
  }
  void Read(ipoib::Listener* listener) {
    uint8_t buffer[70'000];
    const ssize_t size = recv(socket_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (size < kHeader) return;
    const auto to = IpoibAddress::FromWire(buffer);
    const bool mine = to == state_.own;
    const bool group = to.IsGroup() && (Mgid(to.gid()) == ToMgid(BroadcastGroup(state_.link)) ||
                                        groups().contains(Mgid(to.gid())));
    if (!mine && !group) return;
    const auto type = DecodeIpoibHeader({buffer + 40, 4});
    listener->OnPacket({*type,
                        absl::MakeSpan(buffer + kHeader, static_cast<size_t>(size - kHeader)),
                        IpoibAddress::FromWire(buffer + 20), group});
    listener->OnBatchEnd();
  }
  int fd() const { return socket_.get(); }

 private:
  static constexpr ssize_t kHeader = 44;  // destination, source, IPoIB header

  void Write(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) {
    std::vector<uint8_t> datagram(kHeader);
    to.ToWire(&datagram[0]);
    state_.own.ToWire(&datagram[20]);
    EncodeIpoibHeader(type, &datagram[40]);
    datagram.insert(datagram.end(), payload.begin(), payload.end());
    send(socket_.get(), datagram.data(), datagram.size(), MSG_DONTWAIT);
  }

  const UniqueFd socket_;
  const ipoib::LinkState state_;
  absl::Mutex mutex_;
  std::set<Mgid> groups_ ABSL_GUARDED_BY(mutex_);
};

// An endpoint in a thread and a network namespace of its own.
class Host {
 public:
  Host(int socket, uint32_t qpn, std::vector<std::string> addresses,
       const Endpoint::Options& more = {})
      : link_(socket, qpn), options_(more) {
    thread_ = std::thread([this, addresses] { Main(addresses); });
    started_.WaitForNotification();
  }
  ~Host() {
    loop_.Stop();
    thread_.join();
  }

  // Runs a command there and returns its output; its status must be `status`.
  std::string Run(const std::string& command, int status = 0) {
    std::string output;
    // A thread of its own in that namespace, so that the loop goes on.
    std::thread([&] {
      EXPECT_EQ(setns(namespace_.get(), CLONE_NEWNET), 0);
      FILE* const pipe = popen(absl::StrCat(command, " 2>&1").c_str(), "r");
      char buffer[4096];
      while (size_t size = fread(buffer, 1, sizeof(buffer), pipe)) output.append(buffer, size);
      EXPECT_EQ(WEXITSTATUS(pclose(pipe)), status) << command << "\n" << output;
    }).join();
    return output;
  }
  // Runs `question` in the loop's thread and returns the result.
  template <typename Answer>
  Answer Ask(std::function<Answer(Endpoint&)> question) {
    Answer answer;
    absl::Notification done;
    loop_.Post([&] {
      answer = question(*endpoint_);
      done.Notify();
    });
    done.WaitForNotification();
    return answer;
  }
  bool Await(const std::function<bool(Endpoint&)>& condition) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (absl::Now() < deadline) {
      if (Ask<bool>(condition)) return true;
      absl::SleepFor(absl::Milliseconds(20));
    }
    return false;
  }
  bool AwaitState(const char* address, AddressState state) {
    const IpAddr ip = *IpAddr::Parse(address);
    return Await([&](Endpoint& endpoint) {
      const auto* item = endpoint.host().addresses().Find(ip);
      return item != nullptr && item->state == state;
    });
  }
  bool AwaitGroup(const char* mgid, bool joined) {
    return Await(
        [&](Endpoint&) { return link_.groups().contains(Mgid(*Gid::Parse(mgid))) == joined; });
  }
  // Receives a UDP datagram at port 5555 there; waits five seconds.
  UniqueFd Socket(int family) {
    UniqueFd opened;
    std::thread([&] {
      EXPECT_EQ(setns(namespace_.get(), CLONE_NEWNET), 0);
      opened.reset(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    }).join();
    sockaddr_in6 any{};  // zero is any address, of both families
    any.sin6_family = static_cast<sa_family_t>(family);
    any.sin6_port = htons(5555);
    const int yes = 1;
    const timeval patience{5, 0};
    setsockopt(opened.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    setsockopt(opened.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (family == AF_INET6) setsockopt(opened.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
    EXPECT_EQ(bind(opened.get(), reinterpret_cast<sockaddr*>(&any),
                   family == AF_INET ? sizeof(sockaddr_in) : sizeof(any)),
              0);
    return opened;
  }

 private:
  void Main(const std::vector<std::string>& addresses) {
    ASSERT_EQ(unshare(CLONE_NEWNET), 0)
        << "this test needs namespaces of its own: run it as root (CAP_SYS_ADMIN)";
    namespace_.reset(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    std::mt19937_64 random(SeedForTest());
    Endpoint::Options options = options_;
    options.netdev = "ib0";
    options.random = [&] { return random(); };
    for (const std::string& address : addresses)
      options.addresses.push_back(*InterfaceAddress::Parse(address));
    auto endpoint = Endpoint::Create(options, &link_, &loop_, &clock_);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    endpoint_ = endpoint->get();
    ASSERT_TRUE(
        loop_.Add(link_.fd(), EPOLLIN, [&](uint32_t) { link_.Read(endpoint_->listener()); }).ok());
    started_.Notify();
    loop_.Run();
    loop_.Remove(link_.fd());
  }

  MonotonicClock clock_;
  EventLoop loop_{&clock_};
  SocketLink link_;
  const Endpoint::Options options_;
  Endpoint* endpoint_ = nullptr;
  UniqueFd namespace_;
  absl::Notification started_;
  std::thread thread_;
};

class EndpointTest : public testing::Test {
 protected:
  void Start(std::vector<std::string> a, std::vector<std::string> b,
             const Endpoint::Options& a_more = {}, const Endpoint::Options& b_more = {}) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    a_ = std::make_unique<Host>(sockets[0], 0x48, std::move(a), a_more);
    b_ = std::make_unique<Host>(sockets[1], 0x49, std::move(b), b_more);
  }

  std::unique_ptr<Host> a_, b_;
};

TEST_F(EndpointTest, TwoKernelsPingEachOther) {
  Start({"10.0.0.1/24", "fd00::1/64"}, {"10.0.0.2/24", "fd00::2/64"});
  for (Host* host : {a_.get(), b_.get()}) {
    const char* number = host == a_.get() ? "1" : "2";
    ASSERT_TRUE(host->AwaitState(absl::StrCat("10.0.0.", number).c_str(), AddressState::kAssigned));
    ASSERT_TRUE(host->AwaitState(absl::StrCat("fd00::", number).c_str(), AddressState::kAssigned));
  }
  a_->Run("ping -c 3 -i 0.1 -w 20 10.0.0.2");
  a_->Run("ping -c 3 -i 0.1 -w 20 fd00::2");
  b_->Run("ping -c 1 -w 20 -s 2016 -M do 10.0.0.1");  // 2,044 bytes
  EXPECT_THAT(b_->Run("ping -c 1 -W 2 -s 2017 -M do 10.0.0.1", 1), HasSubstr("2044"));
  b_->Run("ping -c 1 -w 20 -s 9000 10.0.0.1");            // the kernel cuts it
  a_->Run("ping -c 1 -w 20 -I ib0 fe80::202:c903:e:49");  // RFC 4391 §8: the port's
  a_->Run("ping -c 1 -W 2 -b 10.0.0.255", 1);             // no reply, but the host receives it
  EXPECT_GE(
      b_->Ask<uint64_t>([](Endpoint& endpoint) { return endpoint.host().counters().from_link; }),
      9u);
  EXPECT_THAT(a_->Run("ip address show dev ib0"), HasSubstr("mtu 2044"));
  EXPECT_THAT(a_->Run("ping -c 1 -W 20 10.0.0.99", 1), HasSubstr("Destination Host Unreachable"));
  EXPECT_THAT(a_->Run("ping -c 1 -W 20 fd00::99", 1), HasSubstr("Address unreachable"));
}

TEST_F(EndpointTest, AnAddressInUseIsTakenOffTheTun) {
  Start({"10.0.0.1/24", "fd00::1/64"}, {});
  ASSERT_TRUE(a_->AwaitState("10.0.0.1", AddressState::kAssigned));
  ASSERT_TRUE(a_->AwaitState("fd00::1", AddressState::kAssigned));
  b_->Run(
      "ip address add 10.0.0.1/24 dev ib0 && ip address add fd00::1/64 dev ib0 && ip address add "
      "10.0.0.3/24 dev ib0");
  EXPECT_TRUE(b_->AwaitState("10.0.0.1", AddressState::kDuplicate));
  EXPECT_TRUE(b_->AwaitState("fd00::1", AddressState::kDuplicate));
  EXPECT_TRUE(b_->AwaitState("10.0.0.3", AddressState::kAssigned));
  EXPECT_THAT(b_->Run("ip address show dev ib0"), Not(HasSubstr("10.0.0.1/24")));
  EXPECT_THAT(b_->Run("ip address show dev ib0"), Not(HasSubstr("fd00::1/64")));
  a_->Run("ping -c 1 -w 20 10.0.0.3");
}

TEST_F(EndpointTest, AnAddressIsThereAsLongAsItHasALength) {
  Start({"10.0.0.1/24"}, {"10.0.0.2/24"});
  ASSERT_TRUE(a_->AwaitState("10.0.0.1", AddressState::kAssigned));
  ASSERT_TRUE(b_->AwaitState("10.0.0.2", AddressState::kAssigned));
  a_->Run(
      "ip address add 10.0.0.1/16 dev ib0 && ip address del 10.0.0.1/24 dev ib0 && ip address add "
      "10.0.0.3/24 dev ib0");
  // Earlier packets have been handled.
  ASSERT_TRUE(a_->AwaitState("10.0.0.3", AddressState::kAssigned));
  EXPECT_TRUE(a_->AwaitState("10.0.0.1", AddressState::kAssigned));
  b_->Run("ping -c 1 -w 20 10.0.0.1");
  a_->Run("ip address del 10.0.0.1/16 dev ib0");
  EXPECT_TRUE(a_->AwaitState("10.0.0.1", AddressState::kRemoved));
}

TEST_F(EndpointTest, AddressesComeBackAfterTheTunWasDown) {
  Start({"fd00::1/64"}, {"fd00::2/64"});
  ASSERT_TRUE(a_->AwaitState("fd00::1", AddressState::kAssigned));
  ASSERT_TRUE(b_->AwaitState("fd00::2", AddressState::kAssigned));
  b_->Run("ip link set ib0 down");
  ASSERT_TRUE(b_->AwaitState("fd00::2", AddressState::kRemoved));
  b_->Run("ip link set ib0 up");
  ASSERT_TRUE(b_->AwaitState("fd00::2", AddressState::kAssigned));
  a_->Run("ping -c 1 -w 20 fd00::2");
}

TEST_F(EndpointTest, AnAddressThatTheKernelRefusesIsTriedAgainWithTheTun) {
  Start({"fd00::1/64"}, {});
  ASSERT_TRUE(a_->AwaitState("fd00::1", AddressState::kAssigned));
  b_->Run("sysctl -w net.ipv6.conf.ib0.disable_ipv6=1");
  b_->Ask<bool>([](Endpoint& endpoint) {
    endpoint.host().addresses().Want(*InterfaceAddress::Parse("fd00::2/64"),
                                     AddressOrigin::kOperator);
    return true;
  });
  ASSERT_TRUE(b_->AwaitState("fd00::2", AddressState::kRefused));
  b_->Run(
      "sysctl -w net.ipv6.conf.ib0.disable_ipv6=0 && ip link set ib0 down && ip link set ib0 up");
  ASSERT_TRUE(b_->AwaitState("fd00::2", AddressState::kAssigned));
  a_->Run("ping -c 1 -w 20 fd00::2");
}

TEST_F(EndpointTest, PacketsBeyondTheLinkGoToTheRouter) {
  Start({"10.0.0.1/24", "fd00::1/64"}, {"10.0.0.2/24", "fd00::2/64"});
  ASSERT_TRUE(a_->AwaitState("10.0.0.1", AddressState::kAssigned) &&
              a_->AwaitState("fd00::1", AddressState::kAssigned));
  ASSERT_TRUE(b_->AwaitState("10.0.0.2", AddressState::kAssigned) &&
              b_->AwaitState("fd00::2", AddressState::kAssigned));
  b_->Run(
      "ip link set lo up && ip address add 192.0.2.1/32 dev lo && ip address add 2001:db8::1/128 "
      "dev lo");
  // The kernel adds the route to an own IPv6 address a moment after the address.
  b_->Run(
      "timeout 20 sh -c 'until ip -6 route show table local | grep -q 2001:db8::1; do :; done'");
  a_->Run("ping -c 1 -W 1 192.0.2.1", 2);  // no route
  a_->Run("ip route add default via 10.0.0.2 && ip -6 route add default via fd00::2");
  a_->Run("ping -c 1 -w 20 192.0.2.1 && ping -c 1 -w 20 2001:db8::1");
  const auto neighbors = a_->Ask<size_t>([](Endpoint& endpoint) {
    const NeighborCache& cache = endpoint.host().neighbors();
    return FindNeighbor(cache, *IpAddr::Parse("192.0.2.1")).has_value() ? size_t{99} : cache.size();
  });
  EXPECT_LT(neighbors, 99u) << "asked for an address beyond the link";
  // A new route is used at once.
  a_->Run("ip route replace default via 10.0.0.77");
  a_->Run("ping -c 1 -W 1 192.0.2.1", 1);
}

TEST_F(EndpointTest, MembershipsFollowTheKernels) {
  Start({"10.0.0.1/24", "fd00::1/64"}, {"10.0.0.2/24"});
  ASSERT_TRUE(a_->AwaitState("10.0.0.1", AddressState::kAssigned));
  ASSERT_TRUE(b_->AwaitState("10.0.0.2", AddressState::kAssigned));
  EXPECT_TRUE(a_->AwaitGroup("ff12:401b:ffff::1", true));
  EXPECT_TRUE(a_->AwaitGroup("ff12:601b:ffff::1", true));
  EXPECT_TRUE(a_->AwaitGroup("ff12:601b:ffff::1:ff00:1", true));
  UniqueFd ipv4 = a_->Socket(AF_INET), ipv6 = a_->Socket(AF_INET6);
  ip_mreqn join4{};
  inet_pton(AF_INET, "239.1.2.3", &join4.imr_multiaddr);
  join4.imr_ifindex = a_->Ask<int>([](Endpoint& endpoint) { return endpoint.tun().index(); });
  ipv6_mreq join6{};
  inet_pton(AF_INET6, "ff05::123", &join6.ipv6mr_multiaddr);
  join6.ipv6mr_interface = static_cast<unsigned>(join4.imr_ifindex);
  ASSERT_EQ(setsockopt(ipv4.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &join4, sizeof(join4)), 0);
  ASSERT_EQ(setsockopt(ipv6.get(), IPPROTO_IPV6, IPV6_JOIN_GROUP, &join6, sizeof(join6)), 0);
  EXPECT_TRUE(a_->AwaitGroup("ff12:401b:ffff::f01:203", true));
  EXPECT_TRUE(a_->AwaitGroup("ff12:601b:ffff::123", true));
  // Packets to the group arrive.
  b_->Run(
      "ip route add 239.0.0.0/8 dev ib0 && echo hello | timeout 5 socat - "
      "UDP4-DATAGRAM:239.1.2.3:5555");
  char text[16] = {};
  EXPECT_EQ(recv(ipv4.get(), text, sizeof(text), 0), 6);
  EXPECT_STREQ(text, "hello\n");
  ipv4.reset();
  ipv6.reset();
  EXPECT_TRUE(a_->AwaitGroup("ff12:401b:ffff::f01:203", false));
  EXPECT_TRUE(a_->AwaitGroup("ff12:601b:ffff::123", false));
}

// A stock dnsmasq on the one TUN, our client (RFC 4390) on the other.
TEST_F(EndpointTest, DnsmasqLeasesAnAddress) {
  const TempDir directory;
  Endpoint::Options server, client;
  server.host.dhcp_server = true;
  client.dhcp = true;
  client.host_name = "node7";
  Start({"10.0.0.1/24"}, {}, server, client);
  ASSERT_TRUE(a_->AwaitState("10.0.0.1", AddressState::kAssigned));
  const std::string pid = directory.path() + "/pid", leases = directory.path() + "/leases";
  a_->Run(
      absl::StrCat("dnsmasq --conf-file=/dev/null --port=0 --interface=ib0 --bind-interfaces "
                   "--user=root --pid-file=",
                   pid, " --dhcp-leasefile=", leases,
                   " --dhcp-range=10.0.0.50,10.0.0.50,120 --dhcp-option=3,10.0.0.1",
                   " --dhcp-option=6,10.0.0.1 --domain=ib.example"));
  EXPECT_TRUE(b_->AwaitState("10.0.0.50", AddressState::kAssigned));
  EXPECT_TRUE(b_->Await(
      [](Endpoint& endpoint) { return endpoint.dhcp()->client().state() == DhcpState::kBound; }));
  EXPECT_THAT(b_->Run("ip address show dev ib0"), HasSubstr("inet 10.0.0.50/24"));
  EXPECT_THAT(b_->Run("ip address show dev ib0 to 10.0.0.50"), Not(HasSubstr("forever")));
  EXPECT_THAT(b_->Run("ip route"), HasSubstr("default via 10.0.0.1 dev ib0 proto dhcp"));
  EXPECT_THAT(b_->Run("cat " + leases), HasSubstr("10.0.0.50 node7 ff:00:00:ff:ff:00"));
  const std::string show = b_->Ask<std::string>([](Endpoint& endpoint) {
    CommandRegistry registry;
    endpoint.RegisterCommands(&registry);
    return *registry.Run("show", {});
  });
  EXPECT_THAT(show, HasSubstr("name servers 10.0.0.1"));
  EXPECT_THAT(show, HasSubstr("domain ib.example"));
  EXPECT_THAT(show, HasSubstr("address 10.0.0.50/24: assigned, dhcp"));
  b_->Run("ip link set ib0 down && ip link set ib0 up");
  EXPECT_TRUE(b_->Await([&](Endpoint&) {
    return absl::StrContains(b_->Run("ip route"), "default via 10.0.0.1 dev ib0");
  }));
  // The lease is released.
  b_->Ask<bool>([](Endpoint& endpoint) {
    endpoint.Stop([] {});
    return true;
  });
  EXPECT_THAT(b_->Run("ip address show dev ib0"), Not(HasSubstr("10.0.0.50")));
  EXPECT_TRUE(b_->Await([&](Endpoint&) { return b_->Run("cat " + leases).empty(); }));
  a_->Run(absl::StrCat("kill $(cat ", pid, ")"));
}

// The only address to lease is in use by a host without a lease: the client declines it.
TEST_F(EndpointTest, AnAddressInUseIsDeclined) {
  const TempDir directory;
  Endpoint::Options server, client;
  server.host.dhcp_server = true;
  client.dhcp = true;
  Start({"10.0.0.1/24"}, {}, server, client);
  // The server's kernel must not have the address, or the server would know.
  a_->Ask<bool>([](Endpoint& endpoint) {
    endpoint.host().addresses().OnKernelAdded(*InterfaceAddress::Parse("10.0.0.50/24"));
    return true;
  });
  ASSERT_TRUE(a_->AwaitState("10.0.0.1", AddressState::kAssigned));
  ASSERT_TRUE(a_->AwaitState("10.0.0.50", AddressState::kAssigned));
  const std::string pid = directory.path() + "/pid", log = directory.path() + "/log";
  a_->Run(
      absl::StrCat("dnsmasq --conf-file=/dev/null --port=0 --interface=ib0 --bind-interfaces "
                   "--user=root --no-ping --pid-file=",
                   pid, " --log-facility=", log, " --dhcp-leasefile=", directory.path(),
                   "/leases --dhcp-range=10.0.0.50,10.0.0.50,120"));
  EXPECT_TRUE(b_->Await([&](Endpoint&) {
    return absl::StrContains(a_->Run("cat " + log), "DHCPDECLINE(ib0) 10.0.0.50");
  }));
  EXPECT_TRUE(b_->Await(
      [](Endpoint& endpoint) { return endpoint.dhcp()->client().state() == DhcpState::kInit; }));
  EXPECT_THAT(b_->Run("ip address show dev ib0"), Not(HasSubstr("10.0.0.50")));
  a_->Run(absl::StrCat("kill $(cat ", pid, ")"));
}

// A killed program left a TUN with the route of a lease that has ended.
TEST(EndpointStartTest, RemovesTheDefaultRouteOfAFormerLease) {
  for (const bool dhcp : {true, false}) {
    std::thread([dhcp] {
      ASSERT_EQ(unshare(CLONE_NEWNET), 0);
      LeaveTunOfDeadProcess();
      OutputOf(
          "ip address add 10.0.0.2/24 dev ib0 && ip route add default via 10.0.0.1 dev ib0 proto "
          "dhcp metric 1027");
      int sockets[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
      const UniqueFd other(sockets[1]);
      SocketLink link(sockets[0], 0x48);
      const MonotonicClock clock;
      EventLoop loop(&clock);
      Endpoint::Options options;
      options.netdev = "ib0";
      options.dhcp = dhcp;
      options.random = [] { return uint64_t{0}; };
      const auto endpoint = Endpoint::Create(options, &link, &loop, &clock);
      ASSERT_TRUE(endpoint.ok()) << endpoint.status();
      EXPECT_EQ(absl::StrContains(OutputOf("ip route"), "default via 10.0.0.1"), !dhcp);
    }).join();
  }
}

}  // namespace
}  // namespace eoib::endpoint
