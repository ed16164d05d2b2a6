// GatewayTest: a gateway between up to three Ethernet hosts and three IPoIB hosts in one IP
// subnet: 10.0.0.N and fd00::N, where N starts at 1 on Ethernet and at 11 on IPoIB.
#ifndef EOIB_TESTS_NETNS_GATEWAY_TEST_FIXTURE_H_
#define EOIB_TESTS_NETNS_GATEWAY_TEST_FIXTURE_H_

#include <signal.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/lab/gateway.h"
#include "tests/lab/ib_fabric.h"
#include "tests/lab/ib_subnet.h"
#include "tests/lab/switch_test.h"
#include "tests/lab/tshark.h"

namespace eoib::lab {

inline constexpr uint16_t kVesPKey = 0x8001, kIpoibPKey = 0x8002;
inline constexpr char kPrefixes[] = "prefixes = [\"10.0.0.0/24\", \"fd00::/64\"]\n";

class GatewayTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    StartFabric(Partitions());
  }
  virtual std::vector<PartitionSpec> Partitions() const {
    return {{.pkey = kVesPKey}, {.pkey = kIpoibPKey, .ipoib = true}};
  }
  void TearDown() override {
    for (auto& gateway : gateways_) {
      if (gateway->Alive()) ExpectConservation(gateway.get());
    }
    for (auto& [number, host] : ipoib_daemons_) {
      if (host->Alive()) ExpectConservation(host.get());
    }
    // The kernel deletes a namespace some time after its last process; until then its interface
    // would answer the next test.
    for (Host* host : kernel_hosts_) host->MustIp("link del ib0");
    for (auto& [number, host] : ipoib_daemons_) ExpectCleanExit(host.get());
    for (auto& gateway : gateways_) ExpectCleanExit(gateway.get());
    SwitchTest::TearDown();
  }

  GatewayDaemon* AddGateway(const std::string& host = "gw",
                            const std::vector<GatewaySpec>& specs = {{.more = kPrefixes}}) {
    gateways_.push_back(
        std::make_unique<GatewayDaemon>(&lab(), &fabric(), lab().AddHost(host), specs));
    return gateways_.back().get();
  }
  // The specification with the addresses 10.0.0.`10 + number` and fd00::`10 + number`.
  static IpoibSpec Numbered(int number, const Argv& more = {}) {
    return {.addresses = {Address(10 + number) + "/24", Address6(10 + number) + "/64"},
            .more = more};
  }
  // Starts eoib-ipoib on a new host s`number`, without waiting.
  IpoibHost* LaunchIpoibHost(int number) { return LaunchIpoibHost(number, Numbered(number)); }
  IpoibHost* LaunchIpoibHost(int number, const IpoibSpec& spec) {
    Host* const host = lab().AddHost(absl::StrCat("s", number), {.ipv6 = true});
    const auto& program = ipoib_daemons_[number] =
        std::make_unique<IpoibHost>(&lab(), &fabric(), host, spec);
    program->Launch();
    return program.get();
  }
  // Starts a gateway with this configuration, and hosts on both sides; waits until all are ready.
  // `more` is for eoib-ipoib.
  void AddHosts(int ethernet, int ipoib, const std::string& configuration = kPrefixes,
                const Argv& more = {}) {
    AddGateway("gw", {{.more = configuration}})->Launch();
    for (int i = 1; i <= ipoib; ++i) AddIpoibHost(i, Numbered(i, more));
    AddNumberedAgents(ethernet, {}, {.ipv6 = true});
    WaitUntilIpoibIsReady();
    gateway()->WaitUntilActive();
  }
  // Adds IPoIB host `number`, the next one. In a virtual machine the first two use the kernel's
  // ib_ipoib; all others eoib-ipoib.
  void AddIpoibHost(int number, const IpoibSpec& spec) {
    ipoib_hosts_.push_back(IsKernelIpoib(number) ? AddKernelIpoibHost(number, spec)
                                                 : LaunchIpoibHost(number, spec)->host());
  }
  void WaitUntilIpoibIsReady() {
    for (auto& [number, host] : ipoib_daemons_) host->WaitUntilReady();
  }
  bool HasKernelIpoib() { return dynamic_cast<IbFabric*>(&fabric()) != nullptr; }
  bool IsKernelIpoib(int number) { return HasKernelIpoib() && number < 3; }
  // Adds host s`number` with an interface ib0 of ib_ipoib.
  Host* AddKernelIpoibHost(int number, const IpoibSpec& spec,
                           const HostOptions& options = {.ipv6 = true}) {
    Host* const host = lab().AddHost(absl::StrCat("s", number), options);
    MakeKernelInterface(host, number, spec);
    kernel_hosts_.push_back(host);
    return host;
  }
  // Deletes and recreates the interface of IPoIB host `number` of AddHosts: it gets another queue
  // pair.
  void ReplaceIpoibInterface(int number) {
    Host* const host = ipoib_host(number);
    if (IsKernelIpoib(number)) {
      host->MustIp("link del ib0");
      return MakeKernelInterface(host, number, Numbered(number));
    }
    IpoibHost* const program = ipoib_daemon(number);
    program->Kill(SIGKILL);
    program->Wait();
    program->Start();
  }
  // The link-layer address of an IPoIB host. The kernel's begins with capability flags (RFC 4755
  // §2), which the gateway does not show.
  std::string IpoibAddressOf(int number) {
    if (!IsKernelIpoib(number)) return ipoib_daemon(number)->Address();
    const std::string link = ipoib_host(number)->MustIp("-o link show ib0");
    const size_t at = link.find("link/infiniband ");
    return at == std::string::npos ? "" : "00" + link.substr(at + 18, 57);
  }

  // Captures at the gateway's port, which carries both encapsulations. tshark checks the capture.
  void StartCapture() { gateway()->MustCtl({"capture", "start", capture_path()}); }
  // Expects that tshark decodes all packets, and at least `least` of either encapsulation.
  void ExpectCaptureDecodes(size_t least);

  GatewayDaemon* gateway(size_t number = 1) { return gateways_[number - 1].get(); }
  // The eoib-ipoib on host s`number`.
  IpoibHost* ipoib_daemon(int number) { return ipoib_daemons_.at(number).get(); }
  Host* ethernet_host(size_t number) { return agents()[number - 1]->host(); }
  // Added by AddHosts or AddIpoibHost.
  Host* ipoib_host(size_t number) { return ipoib_hosts_[number - 1]; }

 private:
  // Makes a child interface of ib_ipoib in the host's namespace, with its addresses, and sets it
  // up.
  void MakeKernelInterface(Host* host, int number, const IpoibSpec& spec) {
    const std::string parent =
        IbSubnet::IpoibInterface(dynamic_cast<IbFabric&>(fabric()).AdapterOf(host->name()));
    const std::string child = absl::StrCat("ibs", number);
    MustRunOnMachine(Words(absl::StrCat("ip link add link ", parent, " name ", child,
                                        " type ipoib pkey 0x", absl::Hex(spec.pkey))));
    MustRunOnMachine(
        Words(absl::StrCat("ip link set ", child, " netns ", host->holder(), " name ib0")));
    host->SetUp("ib0");
    for (const std::string& address : spec.addresses) host->AddAddress("ib0", address);
    if (!EventuallyTrue(kPatience, [&] {
          return absl::StrContains(host->MustIp("link show ib0"), "LOWER_UP");
        })) {
      Die(absl::StrCat("ib0 of ", host->name(),
                       " does not come up: ", host->MustIp("link show ib0")));
    }
  }
  std::string capture_path() { return lab().Path("gateway.erf"); }
  static void ExpectCleanExit(Daemon* daemon) {
    if (!daemon->Alive()) return;
    EXPECT_EQ(daemon->Stop(), 0) << daemon->Log();
  }

  std::vector<std::unique_ptr<GatewayDaemon>> gateways_;
  std::map<int, std::unique_ptr<IpoibHost>> ipoib_daemons_;
  std::vector<Host*> ipoib_hosts_;
  std::vector<Host*> kernel_hosts_;
};

inline void GatewayTest::ExpectCaptureDecodes(size_t least) {
  gateway()->MustCtl({"capture", "stop"});
  Argv argv = TsharkOf(capture_path());
  for (const char* preference :
       {"ip.check_checksum:TRUE", "tcp.check_checksum:TRUE", "udp.check_checksum:TRUE",
        "ip.defragment:FALSE", "ipv6.defragment:FALSE"}) {
    argv.insert(argv.end(), {"-o", preference});
  }
  argv.insert(argv.end(), {"-T", "fields"});
  for (const char* field :
       {"infiniband.bth.p_key", "frame.protocols", "_ws.malformed", "infiniband.eoib.tcp_chk",
        "ip.checksum.status", "tcp.checksum.status", "udp.checksum.status", "icmp.checksum.status",
        "icmpv6.checksum.status", "infiniband.eoib.ms", "infiniband.eoib.ip_seg_offset",
        // To tell which one it is.
        "frame.number", "ip.src", "ipv6.src", "tcp.seq_raw", "tcp.len", "tcp.checksum"}) {
    argv.insert(argv.end(), {"-e", field});
  }
  const RunResult tshark = gateway()->host()->Run(argv);
  ASSERT_TRUE(tshark.ok()) << tshark.err;
  size_t ves = 0, ipoib = 0;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(tshark.out, '\n', absl::SkipEmpty()))) {
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    ASSERT_EQ(fields.size(), 17u) << line;
    if (fields[1] == "erf") continue;  // the comment record of a capture on real verbs
    const bool is_ves = fields[0] == absl::StrCat(kVesPKey);
    ++(is_ves ? ves : ipoib);
    EXPECT_TRUE(is_ves || fields[0] == absl::StrCat(kIpoibPKey)) << line;
    // tshark does not know the extension of segments. A super-frame here has more than one.
    const bool segment =
        fields[9] == "1" || !(fields[10].empty() || fields[10] == "0x0000" || fields[10] == "0");
    if (is_ves && segment) continue;
    const bool decodes =
        absl::StartsWith(fields[1], is_ves ? "erf:infiniband:infiniband.eoib:eth:ethertype:"
                                           : "erf:infiniband:ethertype:");
    EXPECT_TRUE(decodes) << line;
    EXPECT_EQ(fields[2], "") << line;
    // Then TCP and UDP checksums are not complete.
    const bool vouched = is_ves && fields[3] != "0x0000";
    for (size_t i = 4; i < 9; ++i) {
      // Linux writes a sum of zero so where it has to finish one (skb_checksum_help), which is the
      // same number; tshark wants zero (RFC 1624).
      if (i == 5 && fields[16] == "0xffff") continue;
      const bool bad = absl::StrContains(fields[i], '0');
      EXPECT_FALSE(bad && (i == 4 || !vouched || i > 6)) << line;
    }
  }
  EXPECT_GE(ves, least);
  EXPECT_GE(ipoib, least);
}

}  // namespace eoib::lab

#endif  // EOIB_TESTS_NETNS_GATEWAY_TEST_FIXTURE_H_
