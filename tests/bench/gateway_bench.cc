// Measures the traffic between an Ethernet host and an IPoIB host through a gateway. It compares
// it, in interleaved rounds, with the same two network namespaces behind a Linux router (two veth
// pairs), and with two Ethernet hosts of the VES.
//
//   gateway_bench OUTPUT.json
//
// The environment variables EOIB_BENCH_ROUNDS and EOIB_BENCH_SECONDS (of each measurement) set the
// duration. The veths have the MTU of the VES's interface. They carry super-frames of 64 KiB from
// end to end; "frames" is the same routing over veths that carry only frames of the MTU, like the
// gateway's hosts.
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/bench/path_rounds.h"
#include "tests/bench/report.h"
#include "tests/lab/agent.h"
#include "tests/lab/gateway.h"
#include "tests/lab/lab.h"
#include "tests/lab/soft_fabric.h"

namespace eoib::bench {
namespace {

using lab::Host;

constexpr uint16_t kVes = 0x8001, kIpoib = 0x8002;
constexpr int kMtu = 4070;

// The last word of each name is the series to compare the gateway with. More is better, except for
// rtt.
constexpr Report::RatioSpec kRatios[] = {
    {"tcp_vs_route", "tcp_gateway (Gb/s)", "tcp_route (Gb/s)", {}},
    {"tcp_back_vs_route", "tcp_back_gateway (Gb/s)", "tcp_back_route (Gb/s)", {}},
    {"udp_vs_route", "udp_gateway (kpps)", "udp_route (kpps)", {}},
    {"rtt_vs_route", "rtt_gateway (us)", "rtt_route (us)", {}},
    {"tcp_vs_frames", "tcp_gateway (Gb/s)", "tcp_frames (Gb/s)", {}},
    {"tcp_back_vs_frames", "tcp_back_gateway (Gb/s)", "tcp_back_frames (Gb/s)", {}},
    {"tcp_ipv6_vs_frames", "tcp_gateway6 (Gb/s)", "tcp_frames (Gb/s)", {}},
    {"tcp_vs_switch", "tcp_gateway (Gb/s)", "tcp_switch (Gb/s)", {.required = 0.6}},
    {"tcp_back_vs_switch", "tcp_back_gateway (Gb/s)", "tcp_back_switch (Gb/s)", {.required = 0.6}},
    {"udp_vs_switch", "udp_gateway (kpps)", "udp_switch (kpps)", {}},
    {"rtt_vs_switch", "rtt_gateway (us)", "rtt_switch (us)", {}},
};

class GatewayBench {
 public:
  GatewayBench() {
    // The machine's default may be BBR, whose sockets stay paced by timers even if iperf3 chooses
    // another after connect().
    for (Host* host : {ethernet_.host(), second_.host(), station_.host()}) {
      host->Sysctl("ipv4/tcp_congestion_control", "reno");
    }
    gateway_.Launch();
    station_.Launch();
    ethernet_.Start();
    second_.Start();
    gateway_.WaitUntilActive();
    station_.WaitUntilReady();
    ethernet_.host()->AddAddress("v1", "10.0.0.1/24");
    second_.host()->AddAddress("v1", "10.0.0.2/24");
    ethernet_.host()->AddAddress("v1", "fd00::1/64");
    AddRouter("routed", 8);
    AddRouter("frames", 9);
    for (const std::string end : {"left", "right"}) WithoutOffloads(router_, end + "9");
    for (Host* host : {ethernet_.host(), station_.host()}) WithoutOffloads(host, "frames");
    for (const Path& path : paths_)
      path.from->MustRun({"ping", "-n", "-q", "-c", "3", "-i", "0.2", "-W", "5", path.to_address});
  }

  void Round(Report* report, int seconds) { MeasurePaths(paths_, seconds, report); }

 private:
  // Makes a network between each host and the router: 10.`number`.1.0/24 and 10.`number`.2.0/24.
  void AddRouter(const std::string& interface, int number) {
    router_->Sysctl("ipv4/ip_forward", "1");
    const std::string left = absl::StrCat("left", number), right = absl::StrCat("right", number);
    const std::string network = absl::StrCat("10.", number, ".");
    ethernet_.host()->AddVeth(interface, router_, left, kMtu);
    station_.host()->AddVeth(interface, router_, right, kMtu);
    ethernet_.host()->AddAddress(interface, network + "1.1/24");
    router_->AddAddress(left, network + "1.254/24");
    station_.host()->AddAddress(interface, network + "2.1/24");
    router_->AddAddress(right, network + "2.254/24");
    ethernet_.host()->MustIp(absl::StrCat("route add ", network, "2.0/24 via ", network, "1.254"));
    station_.host()->MustIp(absl::StrCat("route add ", network, "1.0/24 via ", network, "2.254"));
  }
  static void WithoutOffloads(Host* host, const std::string& interface) {
    host->MustRun({"ethtool", "-K", interface, "tso", "off", "gso", "off", "gro", "off"});
  }

  lab::Lab lab_;
  lab::SoftFabric fabric_{&lab_, {{kVes}, {kIpoib}}};
  Host* const router_ = lab_.AddHost("router");
  lab::Agent ethernet_{&lab_, &fabric_, lab_.AddHost("h1", {.ipv6 = true}), {}};
  lab::Agent second_{&lab_, &fabric_, lab_.AddHost("h2"), {}};
  lab::GatewayDaemon gateway_{
      &lab_, &fabric_, lab_.AddHost("gw"), {lab::GatewaySpec{.ves_pkey = kVes, .pkey = kIpoib}}};
  lab::IpoibHost station_{&lab_,
                          &fabric_,
                          lab_.AddHost("s1", {.ipv6 = true}),
                          {.pkey = kIpoib, .addresses = {"10.0.0.11/24", "fd00::11/64"}}};
  const Path paths_[5] = {{"gateway", ethernet_.host(), station_.host(), "10.0.0.1", "10.0.0.11"},
                          {"gateway6", ethernet_.host(), station_.host(), "fd00::1", "fd00::11"},
                          {"route", ethernet_.host(), station_.host(), "10.8.1.1", "10.8.2.1"},
                          {"frames", ethernet_.host(), station_.host(), "10.9.1.1", "10.9.2.1"},
                          {"switch", ethernet_.host(), second_.host(), "10.0.0.1", "10.0.0.2"}};
};

bool Run(const std::string& output) {
  GatewayBench bench;
  return RunRounds("gateway", kRatios, output,
                   [&bench](Report* report, int seconds) { bench.Round(report, seconds); });
}

}  // namespace
}  // namespace eoib::bench

int main(int argc, char** argv) { return eoib::bench::Main(argc, argv, eoib::bench::Run); }
