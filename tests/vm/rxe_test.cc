// The agent on RoCE with stock software below it: libibverbs on the kernel's rdma_rxe, over a veth
// pair. Runs inside a virtual machine (boot.sh) of its own.
//
//      host h1: p1           the machine: eoibd-verbs  eoibd-verbs          host h2: p2
//               |                         |    |       |    |                       |
//               +----------- TAP ---------+   rxva    rxvb  +--------- TAP ---------+
//                                              |       |
//                                              va --- vb      veth pair, MTU 4200: InfiniBand MTU
//                                              4096
//
// rdma_rxe works in the initial network namespace only, so the agents run there; the test moves
// their interfaces to the hosts.
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/agent.h"
#include "tests/lab/fabric.h"
#include "tests/lab/packet_socket.h"
#include "tests/lab/sockets.h"
#include "tests/lab/switch_test.h"
#include "tests/vm/roce_datagram.h"

namespace eoib::lab {
namespace {

using testing::HasSubstr;
using testing::Not;

// The limit for the recovery after a port went down and up. It usually takes a second, but the
// machine is emulated.
constexpr absl::Duration kHealsWithin = absl::Seconds(10);

// A payload length that fits into one Ethernet packet, but not into the agent's buffers.
constexpr size_t kTooLong = 4120;

RunResult OnMachine(const std::string& command, absl::Duration limit = absl::Seconds(60)) {
  return RunOnMachine(Words(command), limit);
}

// The agent sets an interface up last, so one that is up is complete.
bool IsUp(const std::string& interface) {
  return !OnMachine("ip link show up dev " + interface).out.empty();
}

void MustOnMachine(const std::string& command) { MustRunOnMachine(Words(command)); }

// The two RoCE ports: host h1's agent uses rxva/1, h2's rxvb/1.
class RxePorts final : public Fabric {
 public:
  RxePorts() {
    MustOnMachine("ip link add va mtu 4200 type veth peer name vb mtu 4200");
    for (const char* netdev : {"va", "vb"}) {
      // No duplicate address detection, which takes a second each time.
      WriteFile(absl::StrCat("/proc/sys/net/ipv6/conf/", netdev, "/accept_dad"), "0");
      MustOnMachine(absl::StrCat("ip link set ", netdev, " up"));
      MustOnMachine(absl::StrCat("rdma link add rx", netdev, " type rxe netdev ", netdev));
    }
  }
  ~RxePorts() override { OnMachine("ip link delete va"); }  // also deletes vb and the ports

  Argv DaemonCommand(const std::string&, const std::string& host) override {
    return {"nsenter", "--net=/proc/1/ns/net", Binary("eoibd-verbs"),
            "--hca=verbs:" + PortOf(host)};
  }
  static std::string PortOf(const std::string& host) { return host == "h1" ? "rxva/1" : "rxvb/1"; }
};

// Two hosts and their agents, shared by all tests, because they take seconds to start in an
// emulation. Host hN has pN in the VES red, qN in blue, and rN in green, whose Q_Key differs
// between the hosts. pN has 10.0.0.N and fd00::N.
struct TwoHosts {
  TwoHosts() {
    for (size_t number : {1, 2}) {
      AgentSpec spec;
      spec.veses = {{"red", 0x8001},
                    {"blue", 0x8002},
                    {"green", 0x8003, absl::StrCat("qkey = ", 0x8000'1110 + number, "\n")}};
      spec.vports = {{absl::StrCat("p", number), "red"},
                     {absl::StrCat("q", number), "blue"},
                     {absl::StrCat("r", number), "green"}};
      Host* host = lab.AddHost(absl::StrCat("h", number), {.ipv6 = true});
      agents.push_back(std::make_unique<Agent>(&lab, &ports, host, spec));
      agents.back()->Launch();
    }
    for (size_t number : {1, 2}) MoveInterfaces(number);
  }
  ~TwoHosts() {
    for (const std::unique_ptr<Agent>& agent : agents) ExpectConservation(agent.get());
    for (const std::unique_ptr<Agent>& agent : agents) {
      EXPECT_EQ(agent->Stop(), 0) << "eoibd on " << agent->host()->name()
                                  << " did not exit with 0:\n"
                                  << agent->Log();
    }
    EXPECT_THAT(ReadFile("/proc/net/igmp6"), Not(HasSubstr("ff12e01b"))) << "a group was not left";
  }

  // Moves the interfaces of a started agent to its host.
  void MoveInterfaces(size_t number) {
    Agent* agent = agents[number - 1].get();
    for (const VPortSpec& vport : agent->spec().vports) {
      const std::string move =
          absl::StrCat("ip link set ", vport.name, " netns ", agent->host()->holder());
      const auto moved = [&] { return IsUp(vport.name) && OnMachine(move).ok(); };
      if (!EventuallyTrue(kPatience, [&] { return !agent->Alive() || moved(); }) ||
          !agent->Alive()) {
        Die("eoibd did not create " + vport.name + ":\n" + agent->Log());
      }
    }
    agent->WaitUntilReady();
    agent->host()->AddAddress(absl::StrCat("p", number), absl::StrCat("10.0.0.", number, "/24"));
    agent->host()->AddAddress(absl::StrCat("p", number), absl::StrCat("fd00::", number, "/64"));
  }

  Lab lab;
  RxePorts ports;
  std::vector<std::unique_ptr<Agent>> agents;
};

class RxeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { hosts = std::make_unique<TwoHosts>(); }
  static void TearDownTestSuite() { hosts.reset(); }
  // If the test has failed, prints the counters of the agents and of the kernel.
  void TearDown() override {
    if (!HasFailure()) return;
    for (const std::unique_ptr<Agent>& agent : hosts->agents) {
      for (const char* command : {"show", "stats", "drops"}) {
        ADD_FAILURE() << agent->host()->name() << ": " << agent->Ctl({command}).out;
      }
    }
    ADD_FAILURE() << OnMachine(
                         "grep -rH . /sys/class/infiniband/rxva/ports/1/hw_counters "
                         "/sys/class/infiniband/rxvb/ports/1/hw_counters")
                         .out
                  << ReadFile("/proc/net/snmp6") << OnMachine("ip -s link").out
                  << OnMachine("ip -6 neigh").out;
  }

  static Agent& agent(size_t number) { return *hosts->agents[number - 1]; }
  static Host* host(size_t number) { return agent(number).host(); }
  // Pings until three answers have come. Without a deadline ping would count an answer as lost that
  // takes twice as long as the ones before, which happens in an emulation.
  static RunResult Ping(size_t from, const std::string& to, const Argv& more = {}) {
    Argv argv = {"ping", "-n", "-q", "-c", "3", "-i", "0.05", "-w", "20", to};
    argv.insert(argv.end(), more.begin(), more.end());
    return host(from)->Run(argv);
  }
  static void ExpectPing(size_t from, const std::string& to, const Argv& more = {}) {
    const RunResult ping = Ping(from, to, more);
    EXPECT_TRUE(ping.ok()) << "ping from h" << from << " to " << to << ": " << ping.ToString();
  }
  // A datagram from an attacker on h1's side to h2's queue pair of red.
  static RoceDatagram DatagramToTwo(size_t payload) {
    RoceDatagram datagram;
    datagram.source = Gid::Parse(agent(1).Shown("GID 0 ")).value();
    datagram.destination = Gid::Parse(agent(2).Shown("GID 0 ")).value();
    datagram.source_qpn = Qpn(0x123);
    datagram.destination_qpn = Qpn::Parse(agent(2).Shown("QPN ")).value();
    datagram.qkey = QKey(0x8000'8001);
    datagram.payload = Bytes(payload, 0x5a);
    return datagram;
  }
  static bool HasCarrier(size_t number) {
    return !absl::StrContains(host(number)->MustIp(absl::StrCat("link show p", number)),
                              "NO-CARRIER");
  }

  static std::unique_ptr<TwoHosts> hosts;
};
std::unique_ptr<TwoHosts> RxeTest::hosts;

const MacAddr kOne = MacAddr::FromUint64(0x02'aa'00'00'00'01);
const MacAddr kTwo = MacAddr::FromUint64(0x02'aa'00'00'00'02);

// The first ping's ARP request floods; the reply waits until the kernel has resolved the other
// port's neighbour entry.
TEST_F(RxeTest, HostsReachEachOther) {
  ExpectPing(1, Address(2));
  ExpectPing(2, Address6(1));
  ExpectPing(1, Address(2), {"-M", "do", "-s", "4042"});  // 4,070 bytes of IP

  const UniqueFd listener = TcpListener(host(2), Address(2), 7000);
  const UniqueFd client = TcpConnect(host(1), Address(2), 7000);
  ASSERT_TRUE(client.valid());
  const UniqueFd server = TcpAccept(listener.get());
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), 1 << 20), "");
  EXPECT_EQ(TcpTransfer(server.get(), client.get(), 1 << 20), "");

  EXPECT_TRUE(agent(1).Knows(host(2)->Mac("p2"), "GID fe80"));
  EXPECT_TRUE(agent(2).Knows(host(1)->Mac("p1"), "GID fe80"));
  EXPECT_THAT(agent(1).MustCtl({"show"}), HasSubstr("HCA rxva/1: active, GID 0 fe80"));
  EXPECT_THAT(agent(1).MustCtl({"show"}), HasSubstr("RoCE v2 on va, MTU 4096"));

  const RunResult capture = agent(1).Ctl({"capture", "start", "/dev/null"});
  EXPECT_FALSE(capture.ok());
  EXPECT_THAT(capture.out + capture.err, HasSubstr("tcpdump -i va udp port 4791"));
}

TEST_F(RxeTest, UnknownUnicastFloodsAndKnownUnicastDoesNot) {
  PacketSocket one(host(1), "p1"), two(host(2), "p2");
  const uint64_t flooded = agent(1).Stat("flooded_unknown");
  one.Send(TestFrame(kTwo, kOne, 1));
  ASSERT_TRUE(two.WaitFor(Marked(1)));
  EXPECT_EQ(agent(1).Stat("flooded_unknown"), flooded + 1);
  EXPECT_TRUE(agent(2).Knows("02:aa:00:00:00:01", "QPN"));

  two.Send(TestFrame(kOne, kTwo, 2));
  ASSERT_TRUE(one.WaitFor(Marked(2)));
  for (uint32_t marker = 3; marker < 20; ++marker)
    one.Send(TestFrame(kTwo, kOne, marker, 60 + marker));
  for (uint32_t marker = 3; marker < 20; ++marker)
    EXPECT_TRUE(two.WaitFor(Marked(marker))) << marker;
  EXPECT_EQ(two.Markers().size(), 18u);
  EXPECT_EQ(agent(1).Stat("flooded_unknown"), flooded + 1)
      << "frames to a known MAC must not flood";
}

// With its header the frame fills the port's MTU; rdma_rxe silently drops a longer one. The tag,
// with priority 1, exists on the fabric only.
TEST_F(RxeTest, LargestFrameArrives) {
  host(1)->MustIp("link set p1 mtu 4074");  // a packet socket sends one tag at most
  PacketSocket one(host(1), "p1"), two(host(2), "p2");
  const Bytes frame = TestFrame(MacAddr::Broadcast(), kOne, 100, 4088);
  one.Send(WithTag(frame, 0, 1));
  EXPECT_TRUE(two.WaitFor(ExactlyFrame(frame)));
}

TEST_F(RxeTest, IpMulticastReachesItsReceiver) {
  host(1)->MustIp("route add 239.0.0.0/8 dev p1");
  const UniqueFd receiver = UdpSocket(host(2), "0.0.0.0", 7001);
  host(2)->InNamespace([&] {
    ip_mreqn request = {};
    request.imr_multiaddr.s_addr = htonl(0xef01'0203);
    request.imr_ifindex = static_cast<int>(if_nametoindex("p2"));
    ASSERT_EQ(setsockopt(receiver.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof(request)),
              0);
  });
  const UniqueFd sender = UdpSocket(host(1), Address(1), 0);
  const Bytes payload(1000, 0x5a);
  SendUdp(sender.get(), "239.1.2.3", 7001, payload);
  EXPECT_EQ(ReceiveUdp(receiver.get()), payload);
}

TEST_F(RxeTest, PortDownAndUpRecoversWithinSeconds) {
  ExpectPing(1, Address(2));
  MustOnMachine("ip link set va down");
  for (size_t number : {1, 2}) {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return !HasCarrier(number); }))
        << "the interface must lose its carrier";
    EXPECT_THAT(agent(number).MustCtl({"show"}), HasSubstr("not joined: the port is down"));
    EXPECT_THAT(agent(number).Log(), HasSubstr("the port is down"));
  }
  MustOnMachine("ip link set va up");
  const absl::Time up = absl::Now();
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return HasCarrier(1) && HasCarrier(2); }));
  ExpectPing(2, Address(1));
  EXPECT_LE(absl::Now() - up, kHealsWithin);
}

// The VESes' flood groups share the low 32 bits, so the multicast MAC; and their agents have the
// same GIDs.
TEST_F(RxeTest, VesesAreIsolatedFromEachOther) {
  PacketSocket red1(host(1), "p1"), red2(host(2), "p2"), blue1(host(1), "q1"), blue2(host(2), "q2");
  red1.Send(TestFrame(MacAddr::Broadcast(), kOne, 1));
  ASSERT_TRUE(red2.WaitFor(Marked(1)));
  blue2.Send(TestFrame(MacAddr::Broadcast(), kOne, 2));
  ASSERT_TRUE(blue1.WaitFor(Marked(2)));
  red2.Send(TestFrame(kOne, kTwo, 3));
  ASSERT_TRUE(red1.WaitFor(Marked(3)));
  blue1.Send(TestFrame(kOne, kTwo, 4));
  ASSERT_TRUE(blue2.WaitFor(Marked(4))) << "the same MAC is on another host in the other VES";
  EXPECT_EQ(
      red1.Count(Marked(2)) + red2.Count(Marked(2)) + red1.Count(Marked(4)) + red2.Count(Marked(4)),
      0u);
  EXPECT_EQ(blue1.Count(Marked(1)) + blue2.Count(Marked(1)) + blue1.Count(Marked(3)) +
                blue2.Count(Marked(3)),
            0u);
}

// A queue pair in a VES's group with another Q_Key neither receives its frames nor reaches it,
// although rdma_rxe checks no P_Key.
TEST_F(RxeTest, WrongQKeyReceivesNothing) {
  PacketSocket red1(host(1), "p1"), red2(host(2), "p2"), green1(host(1), "r1"),
      green2(host(2), "r2");
  green1.Send(TestFrame(MacAddr::Broadcast(), kOne, 1));
  green2.Send(TestFrame(MacAddr::Broadcast(), kTwo, 2));
  red1.Send(TestFrame(MacAddr::Broadcast(), kOne, 3));
  ASSERT_TRUE(red2.WaitFor(Marked(3))) << "sent after the other two";
  red2.Send(TestFrame(MacAddr::Broadcast(), kTwo, 4));
  ASSERT_TRUE(red1.WaitFor(Marked(4)));
  EXPECT_EQ(green1.Count(Marked(2)), 0u);
  EXPECT_EQ(green2.Count(Marked(1)), 0u);
  for (size_t number : {1, 2}) {
    EXPECT_GE(agent(number).Stat("new_peers", "red"), 1u);
    EXPECT_EQ(agent(number).Stat("new_peers", "green"), 0u);
  }
}

// A restarted agent has another queue pair at the same GID.
TEST_F(RxeTest, KilledAgentIsFoundAgain) {
  ExpectPing(1, Address(2));
  if (HasFailure()) return;
  const std::string mac = host(2)->Mac("p2");
  agent(2).Kill(SIGKILL);
  for (const char* left : {"p2", "q2", "r2"}) {
    // The restarted agent does not find interfaces in another namespace.
    host(2)->MustIp(absl::StrCat("link delete ", left));
  }
  agent(2).Launch();
  hosts->MoveInterfaces(2);
  EXPECT_EQ(host(2)->Mac("p2"), mac);
  ExpectPing(1, Address(2));
  EXPECT_TRUE(agent(1).Knows(mac, "GID fe80"));
}

// A datagram longer than any HCA sends, and than the receive buffers: rdma_rxe puts the queue pair
// into the error state, without an event.
TEST_F(RxeTest, QueuePairInErrorStateIsRecreated) {
  ExpectPing(1, Address(2));
  const uint64_t dropped = agent(2).Drop("not_eoib");
  SendRoce("va", DatagramToTwo(64));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return agent(2).Drop("not_eoib") > dropped; }))
      << "the forged datagram must arrive";
  const std::string before = agent(2).Shown("QPN ");
  SendRoce("va", DatagramToTwo(kTooLong));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return agent(2).Shown("QPN ") != before; }))
      << agent(2).Log();
  ExpectPing(1, Address(2));
  EXPECT_EQ(agent(2).Drop("receive_error"), 1u);
}

TEST_F(RxeTest, UnusableGidIsRefused) {
  MustOnMachine("ip address add 192.0.2.1/24 dev va");
  WriteFile(hosts->lab.Path("eoibd.toml"), ToToml(AgentSpec()));
  const auto run = [&](const std::string& gid) {
    return OnMachine(absl::StrCat(Binary("eoibd-verbs"), " --hca=verbs:rxva/1?gid=", gid,
                                  " --rundir=", hosts->lab.directory(),
                                  " --statedir=", hosts->lab.directory(),
                                  " --config=", hosts->lab.Path("eoibd.toml")));
  };
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return absl::StrContains(run("1").err, "IPv4"); }))
      << run("1").ToString();
  EXPECT_THAT(
      run("1").err,
      HasSubstr(
          "use GID 1 of port rxva/1: it is an IPv4 address, which cannot send to a VES's groups"));
  EXPECT_THAT(
      run("7").err,
      HasSubstr("use GID 7 of port rxva/1: there is none at that index; there is GID 0 fe80"));
}

}  // namespace
}  // namespace eoib::lab
