// Tests of the kernel module simib with third-party programs: OpenSM, infiniband-diags, libibverbs'
// examples and the kernel's IPoIB work on it as on InfiniBand hardware. No code of eoib runs here.
// Runs in a virtual machine (boot.sh).
//
// All tests share one subnet and four hosts, each with the IPoIB interface of one adapter. Each
// test leaves them as it found them; the last one unloads the module.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/ib_subnet.h"
#include "tests/lab/lab.h"
#include "tests/lab/process.h"
#include "tests/lab/sockets.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kAdapters = 4;
constexpr uint16_t kBlue = 0x8001, kRed = 0x8002;

std::vector<IbPartition> Partitions() {
  IbPartition all{0xffff};
  IbPartition blue{kBlue};
  blue.mtu = 2048;
  IbPartition red{kRed};
  red.full = {0};
  red.limited = {1, 2};
  return {all, blue, red};
}

// The subnet, and hosts h0 to h3 with the interfaces ib0 to ib3 and the addresses 10.0.0.K and
// fd00::K.
class SimibEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    lab_ = std::make_unique<Lab>();
    IbSubnetOptions options;
    options.adapters = kAdapters;
    options.partitions = Partitions();
    subnet_ = std::make_unique<IbSubnet>(lab_->directory(), options);
    subnet_->Start();
    HostOptions with_ipv6;
    with_ipv6.ipv6 = true;
    for (int k = 0; k < kAdapters; ++k)
      hosts_.push_back(lab_->AddHost(absl::StrCat("h", k), with_ipv6));
    for (int k = 0; k < kAdapters; ++k) PlugIpoib(k);
  }

  void TearDown() override {
    subnet_.reset();
    ExpectNoKernelWarnings();
    lab_.reset();
  }

  // Moves the kernel's interface of adapter K to host K.
  void PlugIpoib(int k) {
    MustRunOnMachine({"ip", "link", "set", subnet_->IpoibInterface(k), "netns",
                      absl::StrCat(hosts_[k]->holder()), "name", absl::StrCat("ib", k)});
    hosts_[k]->AddAddress(absl::StrCat("ib", k), absl::StrCat("10.0.0.", k + 1, "/24"));
    hosts_[k]->AddAddress(absl::StrCat("ib", k), absl::StrCat("fd00::", k + 1, "/64"));
    hosts_[k]->SetUp(absl::StrCat("ib", k));
  }

  IbSubnet& subnet() { return *subnet_; }
  Host* host(int k) { return hosts_[k]; }

 private:
  void ExpectNoKernelWarnings() {
    const std::string messages = hosts_[0]->MustRun({"dmesg"});
    for (absl::string_view line : absl::StrSplit(messages, '\n')) {
      for (const char* warning : {"WARNING: ", "BUG: ", "Oops", "detected stall", "Call Trace"}) {
        EXPECT_FALSE(absl::StrContains(line, warning)) << line;
      }
    }
  }

  std::unique_ptr<Lab> lab_;
  std::unique_ptr<IbSubnet> subnet_;
  std::vector<Host*> hosts_;
};

SimibEnvironment* const environment =
    static_cast<SimibEnvironment*>(::testing::AddGlobalTestEnvironment(new SimibEnvironment));

IbSubnet& Subnet() { return environment->subnet(); }
Host* H(int k) { return environment->host(k); }

// The output of a program that must succeed. The diagnostics see all adapters from any host.
std::string Output(const Argv& argv) { return H(0)->MustRun(argv); }

std::string LidText(int adapter) { return absl::StrCat(IbSubnet::Lid(adapter)); }
std::string GuidText(int adapter) {
  return absl::StrFormat("0x%016x", IbSubnet::PortGuid(adapter));
}

bool HasCarrier(int k) {
  return absl::StrContains(H(k)->MustIp(absl::StrCat("-o link show dev ib", k)), "LOWER_UP");
}

bool Pings(int from, const std::string& to, const std::vector<std::string>& more = {}) {
  Argv argv = {"ping", "-n", "-q", "-c", "1", "-W", "1"};
  argv.insert(argv.end(), more.begin(), more.end());
  argv.push_back(to);
  return H(from)->Run(argv).ok();
}

// Retries, since the first ping has to wait for joins and paths.
bool EventuallyPings(int from, const std::string& to, const std::vector<std::string>& more = {}) {
  return EventuallyTrue(kPatience, [&] { return Pings(from, to, more); });
}

TEST(Simib, DiagnosticsAgreeWithSysfs) {
  const std::string nodes = Output({"saquery", "NodeRecord"});
  const std::string topology = Output({"ibnetdiscover"});
  EXPECT_THAT(topology, ContainsRegex("Switch[^\n]*\"S-0253494d4942ff00\""));
  for (int k = 0; k < kAdapters; ++k) {
    const std::string guid = GuidText(k), lid = LidText(k);
    EXPECT_EQ(IbSubnet::SmLid(k), IbSubnet::Lid(0));
    EXPECT_THAT(Output({"ibstat", IbSubnet::Device(k)}),
                AllOf(HasSubstr("State: Active"), HasSubstr("Base lid: " + lid + "\n"),
                      HasSubstr("SM lid: " + LidText(0) + "\n"), HasSubstr("Port GUID: " + guid),
                      HasSubstr("Rate: 40")));
    EXPECT_THAT(nodes, ContainsRegex(
                           absl::StrCat("lid\\.+", lid, "\n([^\n]+\n)+[^\n]*port_guid\\.+", guid)));
    EXPECT_THAT(topology, HasSubstr(absl::StrCat("(", guid.substr(3), ") \t\t# \"simib", k,
                                                 "\" lid ", lid, " 4xQDR")));
    // By LID, and then by directed route.
    EXPECT_THAT(Output({"smpquery", "portinfo", lid}), ContainsRegex("\nLid:\\.+" + lid + "\n"));
    EXPECT_THAT(Output({"smpquery", "nodeinfo", lid}), HasSubstr(guid));
  }
  EXPECT_THAT(Output({"sminfo"}), HasSubstr(absl::StrCat("sm lid ", LidText(0), " sm guid 0x")));
  EXPECT_THAT(Output({"smpquery", "-C", "simib1", "-D", "nodedesc", "0,1"}),
              HasSubstr("simib switch"));
}

TEST(Simib, PKeyTablesMatchOpenSmConfiguration) {
  auto pkeys = [](int k) {
    std::vector<uint16_t> values;
    for (const auto& [index, pkey] : IbSubnet::PKeys(k)) values.push_back(pkey);
    return values;
  };
  EXPECT_THAT(pkeys(0), ::testing::UnorderedElementsAre(0xffff, kBlue, kRed));
  EXPECT_THAT(pkeys(1), ::testing::UnorderedElementsAre(0xffff, kBlue, kRed & 0x7fff));
  EXPECT_THAT(pkeys(3), ::testing::UnorderedElementsAre(0xffff, kBlue));
}

TEST(Simib, IbvDevinfoDescribesThePort) {
  EXPECT_THAT(Output({"ibv_devinfo", "-v", "-d", "simib1"}),
              AllOf(HasSubstr("PORT_ACTIVE (4)"), ContainsRegex("link_layer:[\t ]*InfiniBand"),
                    ContainsRegex("port_lid:[\t ]*" + LidText(1) + "\n"),
                    ContainsRegex("active_mtu:[\t ]*4096 \\(5\\)"),
                    HasSubstr("GID[  0]:\t\tfe80:0000:0000:0000:0253:494d:4942:0101")));
}

// Whether a socket listens on that TCP port of the host, IPv4 or IPv6.
bool Listens(Host* host, int port) {
  const std::string sockets = host->MustRun({"cat", "/proc/net/tcp", "/proc/net/tcp6"});
  for (absl::string_view line : absl::StrSplit(sockets, '\n')) {
    const std::vector<std::string> words = Words(line);
    constexpr char kListen[] = "0A";
    if (words.size() > 3 && words[3] == kListen &&
        absl::EndsWith(words[1], absl::StrFormat(":%04X", port)))
      return true;
  }
  return false;
}

// Expects that ibv_ud_pingpong succeeds at both ends.
void ExpectUdPingPong(const std::vector<std::string>& options) {
  constexpr int kPort = 18515;
  auto argv = [&](int adapter) {
    Argv argv = {"ibv_ud_pingpong",        "-e", "-n", "100", "-p", absl::StrCat(kPort), "-d",
                 IbSubnet::Device(adapter)};
    argv.insert(argv.end(), options.begin(), options.end());
    return argv;
  };
  std::unique_ptr<Process> server = H(0)->Start(argv(1));
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return Listens(H(0), kPort); })) << server->Log();
  Argv client = argv(2);
  client.push_back("127.0.0.1");
  RunResult result = H(0)->Run(client);
  EXPECT_TRUE(result.ok()) << result.ToString();
  EXPECT_THAT(result.out, HasSubstr("100 iters"));
  EXPECT_EQ(server->Wait(), 0) << server->Log();
}

TEST(Simib, UdPingPong) { ExpectUdPingPong({}); }
TEST(Simib, UdPingPongWithGrh) { ExpectUdPingPong({"-g", "0"}); }
TEST(Simib, UdPingPongOfOneByte) { ExpectUdPingPong({"-s", "1"}); }
TEST(Simib, UdPingPongOfFullMtu) { ExpectUdPingPong({"-s", "4096", "-g", "0"}); }

TEST(Simib, IpoibPing) {
  EXPECT_TRUE(EventuallyPings(1, "10.0.0.3"));
  EXPECT_TRUE(EventuallyPings(1, "fd00::3"));
  EXPECT_TRUE(Pings(2, "10.0.0.2"));
}

TEST(Simib, IpoibCarriesFullMtu) {
  EXPECT_THAT(H(1)->MustIp("-o link show dev ib1"), HasSubstr("mtu 4092"));
  EXPECT_TRUE(EventuallyPings(1, "10.0.0.3", {"-M", "do", "-s", absl::StrCat(4092 - 28)}));
  EXPECT_FALSE(Pings(1, "10.0.0.3", {"-M", "do", "-s", absl::StrCat(4092 - 27)}));
}

// Only h2 joins the group.
TEST(Simib, IpoibMulticastReachesMembersOnly) {
  constexpr uint16_t kPort = 5000;
  const std::string group = "239.1.2.3";
  UniqueFd receiver = UdpSocket(H(2), group, kPort);
  UniqueFd bystander = UdpSocket(H(3), group, kPort);
  H(2)->MustIp("route add 239.0.0.0/8 dev ib2");
  H(1)->MustIp("route add 239.0.0.0/8 dev ib1");
  H(2)->InNamespace([&] {
    ip_mreqn request{};
    inet_pton(AF_INET, group.c_str(), &request.imr_multiaddr);
    inet_pton(AF_INET, "10.0.0.3", &request.imr_address);
    ASSERT_EQ(setsockopt(receiver.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof(request)),
              0);
  });
  UniqueFd sender = UdpSocket(H(1), "10.0.0.2", 0);
  const Bytes payload = {'h', 'e', 'l', 'l', 'o'};
  absl::optional<Bytes> received;
  // Retry until the switch's multicast table has the group.
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    SendUdp(sender.get(), group, kPort, payload);
    received = ReceiveUdp(receiver.get(), absl::Milliseconds(100));
    return received.has_value();
  }));
  EXPECT_EQ(received, payload);
  EXPECT_FALSE(ReceiveUdp(bystander.get(), absl::ZeroDuration()).has_value());
  H(2)->MustIp("route del 239.0.0.0/8 dev ib2");
  H(1)->MustIp("route del 239.0.0.0/8 dev ib1");
}

// An IPoIB child interface in a partition, with the address 10.0.1.K+1. Deleted by the destructor.
class Child {
 public:
  Child(int k, uint16_t pkey) : host_(H(k)), name_(absl::StrFormat("ib%d.%04x", k, pkey)) {
    host_->MustIp(
        absl::StrFormat("link add link ib%d name %s type ipoib pkey 0x%04x", k, name_, pkey));
    host_->AddAddress(name_, absl::StrCat("10.0.1.", k + 1, "/24"));
    host_->SetUp(name_);
  }
  ~Child() { host_->MustIp("link del " + name_); }

  std::string Show() { return host_->MustIp("-o link show dev " + name_); }

 private:
  Host* const host_;
  const std::string name_;
};

TEST(Simib, IpoibChildHasMtuOfItsPartition) {
  Child first(1, kBlue), second(2, kBlue);
  EXPECT_TRUE(EventuallyPings(1, "10.0.1.3"));
  EXPECT_THAT(first.Show(), HasSubstr("mtu 2044"));
  EXPECT_TRUE(Pings(1, "10.0.1.3", {"-M", "do", "-s", absl::StrCat(2044 - 28)}));
  EXPECT_FALSE(Pings(1, "10.0.1.3", {"-M", "do", "-s", absl::StrCat(2044 - 27)}));
}

// IBA 10.9.3.
TEST(Simib, LimitedMembersReachFullMembersOnly) {
  Child full(0, kRed), limited(1, kRed), other(2, kRed);
  EXPECT_TRUE(EventuallyPings(1, "10.0.1.1"));
  EXPECT_TRUE(EventuallyPings(2, "10.0.1.1"));
  EXPECT_TRUE(EventuallyPings(0, "10.0.1.2"));
  EXPECT_TRUE(Pings(0, "10.0.1.3"));
  EXPECT_FALSE(Pings(1, "10.0.1.3"));
  EXPECT_FALSE(Pings(2, "10.0.1.2"));
  EXPECT_GT(IbSubnet::Drops(2)["pkey"], 0u);
}

// TcpTransfer compares every byte.
TEST(Simib, IpoibTcpTransfer) {
  UniqueFd listener = TcpListener(H(2), "10.0.0.3", 5001);
  UniqueFd client = TcpConnect(H(1), "10.0.0.3", 5001);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  ASSERT_TRUE(server.valid());
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), 2 << 20), "");
}

// TCP must retransmit what the `drop` knob loses.
TEST(Simib, IpoibTcpSurvivesLoss) {
  UniqueFd listener = TcpListener(H(2), "10.0.0.3", 5002);
  UniqueFd client = TcpConnect(H(1), "10.0.0.3", 5002);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  const uint64_t before = IbSubnet::Drops(1)["knob"];
  Subnet().SetLoss(1, 20);
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), 200 << 10), "");
  Subnet().SetLoss(1, 0);
  EXPECT_GT(IbSubnet::Drops(1)["knob"], before);
}

TEST(Simib, PulledCableIsReportedAndPluggedCableRecovers) {
  std::vector<uint16_t> lids;
  for (int k = 0; k < kAdapters; ++k) lids.push_back(IbSubnet::Lid(k));
  std::unique_ptr<Process> watch = H(0)->Start({"stdbuf", "-oL", "ibv_asyncwatch", "-d", "simib1"});
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return absl::StrContains(watch->Log(), "simib1"); }))
      << watch->Log();

  Subnet().SetCable(1, false);
  EXPECT_TRUE(EventuallyTrue(kPatience, [] { return !HasCarrier(1); }));
  EXPECT_EQ(IbSubnet::State(1), 1);
  EXPECT_EQ(IbSubnet::Port(1, "phys_state"), "2: Polling");
  EXPECT_FALSE(Pings(1, "10.0.0.3"));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(watch->Log(), "IBV_EVENT_PORT_ERR");
  })) << watch->Log();
  // The subnet manager learns of it from the switch's trap.
  EXPECT_TRUE(EventuallyTrue(kPatience, [] {
    return !absl::StrContains(Output({"saquery", "NodeRecord"}), GuidText(1));
  }));

  Subnet().SetCable(1, true);
  Subnet().Wait();
  EXPECT_TRUE(EventuallyTrue(kPatience, [] { return HasCarrier(1); }));
  EXPECT_TRUE(EventuallyPings(1, "10.0.0.3"));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(watch->Log(), "IBV_EVENT_PORT_ACTIVE");
  })) << watch->Log();
  for (int k = 0; k < kAdapters; ++k) EXPECT_EQ(IbSubnet::Lid(k), lids[k]);
}

TEST(Simib, PartitionsCanChangeWhileInUse) {
  std::vector<IbPartition> fewer = Partitions();
  fewer.pop_back();
  Subnet().SetPartitions(fewer);
  Subnet().Wait();
  EXPECT_EQ(IbSubnet::PKeys(1).size(), 2u);
  Subnet().SetPartitions(Partitions());
  Subnet().Wait();
  EXPECT_EQ(IbSubnet::PKeys(1).size(), 3u);
}

TEST(Simib, StandbySubnetManagerTakesOver) {
  const uint16_t lid = IbSubnet::Lid(2);
  Subnet().StartSm(3);
  ASSERT_TRUE(EventuallyTrue(kPatience, [] {
    return absl::StrContains(H(0)->Run({"sminfo", LidText(3)}).out, "SMINFO_STANDBY");
  })) << Subnet().SmLog(3);
  Subnet().KillSm(0, SIGKILL);
  EXPECT_TRUE(EventuallyTrue(kPatience, [] { return IbSubnet::SmLid(2) == IbSubnet::Lid(3); }))
      << Subnet().SmLog(3);
  Subnet().Wait();
  EXPECT_EQ(IbSubnet::Lid(2), lid);
  EXPECT_TRUE(EventuallyPings(1, "10.0.0.3"));
  Subnet().StopSm(3);
  Subnet().Start();
  EXPECT_TRUE(EventuallyTrue(kPatience, [] { return IbSubnet::SmLid(2) == IbSubnet::Lid(0); }));
}

// Unloads the module while interfaces are up and carry traffic and programs have the device open;
// then loads it again.
TEST(Simib, ModuleUnloadsUnderTrafficAndLoadsAgain) {
  const uint16_t lid = IbSubnet::Lid(1);
  std::unique_ptr<Process> watch = H(0)->Start({"stdbuf", "-oL", "ibv_asyncwatch", "-d", "simib1"});
  std::unique_ptr<Process> flood = H(1)->Start({"ping", "-n", "-q", "-f", "10.0.0.3"});
  std::unique_ptr<Process> verbs =
      H(0)->Start({"ibv_ud_pingpong", "-e", "-n", "100000000", "-d", "simib1", "-p", "18516"});
  ASSERT_TRUE(EventuallyTrue(kPatience, [] { return Listens(H(0), 18516); })) << verbs->Log();
  std::unique_ptr<Process> peer = H(0)->Start(
      {"ibv_ud_pingpong", "-e", "-n", "100000000", "-d", "simib2", "-p", "18516", "127.0.0.1"});
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return absl::StrContains(watch->Log(), "simib1"); }))
      << watch->Log();
  ASSERT_TRUE(
      EventuallyTrue(kPatience, [] { return !Listens(H(0), 18516); }));  // the two have connected

  Subnet().Unload();
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(watch->Log(), "IBV_EVENT_DEVICE_FATAL");
  })) << watch->Log();
  EXPECT_FALSE(H(1)->HasInterface("ib1"));
  EXPECT_NE(verbs->Wait().value_or(0), 0) << "its completion queue was destroyed";
  EXPECT_NE(peer->Wait().value_or(0), 0);

  Subnet().Load();
  Subnet().Start();
  EXPECT_EQ(IbSubnet::Lid(1), lid);
  for (int k = 0; k < kAdapters; ++k) environment->PlugIpoib(k);
  EXPECT_TRUE(EventuallyPings(1, "10.0.0.3"));
}

}  // namespace
}  // namespace eoib::lab
