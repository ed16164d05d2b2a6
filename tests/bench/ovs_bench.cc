// Measures a port of type eoib beside Open vSwitch's own way between two hosts, VXLAN over a veth,
// in interleaved rounds. Both are ports of bridges of eoib-vswitchd in user space, which its main
// thread polls.
//
//   ovs_bench OUTPUT.json
//
// The vxlan side has no userspace TSO, because Open vSwitch 3.1 drops super-frames at tunnels.
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/bench/measurements.h"
#include "tests/bench/path_rounds.h"
#include "tests/bench/report.h"
#include "tests/lab/soft_fabric.h"
#include "tests/ovs/vswitch.h"

namespace eoib::bench {
namespace {

using lab::Host;
using lab::VSwitch;

constexpr int kMtu = 4070;
constexpr int kVxlanOverhead = 50;
constexpr int kDatagram = 64;  // bytes of payload
constexpr int kPings = 1000;

const Report::RatioSpec kRatios[] = {
    {"tcp_vs_vxlan", "tcp_eoib (Gb/s)", "tcp_vxlan (Gb/s)", {.required = 3, .aim = 6}},
    {"udp64_vs_vxlan", "udp64_eoib (kpps)", "udp64_vxlan (kpps)", {.required = 1.5, .aim = 2}},
    {"rtt_vs_vxlan", "rtt_eoib (us)", "rtt_vxlan (us)", {}},
};

// Two hosts with a bridge br0 each.
struct BridgePath {
  std::string name, subnet;
  VSwitch* from;
  VSwitch* to;
};

class OvsBench {
 public:
  OvsBench() {
    for (VSwitch* vswitch : {&eoib1_, &eoib2_, &vxlan1_, &vxlan2_}) {
      vswitch->host()->Sysctl("ipv4/tcp_congestion_control", "reno");
      vswitch->AddBridge("br0", 0);
    }
    for (VSwitch* vswitch : {&eoib1_, &eoib2_}) vswitch->AddPort("br0", "eoib0");
    vxlan1_.host()->AddVeth("ou", vxlan2_.host(), "ou", kMtu + kVxlanOverhead);
    AddTunnel(&vxlan1_, 1);
    AddTunnel(&vxlan2_, 2);
    for (const BridgePath& path : paths_) {
      for (VSwitch* vswitch : {path.from, path.to})
        vswitch->Vsctl(absl::StrCat("set Interface br0 mtu_request=", kMtu));
      Connect(path.from->host(), path.to->host(), "br0", path.subnet);
    }
  }

  void Round(Report* report, int seconds) {
    for (const BridgePath& path : paths_) {
      report->Add(
          absl::StrCat("tcp_", path.name, " (Gb/s)"),
          TcpStream(path.from->host(), path.to->host(), path.subnet + "2", seconds).Finish());
    }
    for (const BridgePath& path : paths_) {
      report->Add(
          absl::StrCat("udp64_", path.name, " (kpps)"),
          DatagramRate(path.from->host(), path.to->host(), path.subnet + "2", kDatagram, seconds));
    }
    for (const BridgePath& path : paths_) {
      report->Add(absl::StrCat("rtt_", path.name, " (us)"),
                  MedianRoundTrip(path.from->host(), path.subnet + "2", kPings));
    }
  }

 private:
  static void AddTunnel(VSwitch* vswitch, int self) {
    vswitch->AddBridge("phy", 0);
    vswitch->Vsctl("add-port phy ou");
    vswitch->host()->AddAddress("phy", absl::StrCat("192.168.200.", self, "/24"));
    vswitch->Vsctl(absl::StrCat("set Interface phy mtu_request=", kMtu + kVxlanOverhead));
    vswitch->Vsctl(absl::StrCat(
        "add-port br0 tunnel -- set Interface tunnel type=vxlan options:remote_ip=192.168.200.",
        3 - self));
  }

  static constexpr char kTso[] = "userspace-tso-enable=true";
  lab::Lab lab_;
  lab::SoftFabric fabric_{&lab_, {{}}};
  VSwitch eoib1_{&lab_, &fabric_, lab_.AddHost("e1"), kTso},
      eoib2_{&lab_, &fabric_, lab_.AddHost("e2"), kTso};
  VSwitch vxlan1_{&lab_, &fabric_, lab_.AddHost("x1")},
      vxlan2_{&lab_, &fabric_, lab_.AddHost("x2")};
  const BridgePath paths_[2] = {{"eoib", "10.1.0.", &eoib1_, &eoib2_},
                                {"vxlan", "10.2.0.", &vxlan1_, &vxlan2_}};
};

bool Run(const std::string& output) {
  OvsBench bench;
  return RunRounds("ovs", kRatios, output,
                   [&bench](Report* report, int seconds) { bench.Round(report, seconds); });
}

}  // namespace
}  // namespace eoib::bench

int main(int argc, char** argv) { return eoib::bench::Main(argc, argv, eoib::bench::Run); }
