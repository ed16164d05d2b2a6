// Measures the traffic between a host of a VES and a host of a physical network through an uplink.
// It compares it, in interleaved rounds, with the same two hosts behind a Linux bridge that joins a
// VXLAN and the physical network, and with two hosts of the VES ("switch"), which shows what the
// uplink itself costs.
//
//   uplink_bench OUTPUT.json
//
// The environment variables EOIB_BENCH_ROUNDS and EOIB_BENCH_SECONDS (of each measurement) set the
// duration. Veth pairs are the wires; all interfaces of the hosts have the MTU of the VES's
// interface.
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/bench/measurements.h"
#include "tests/bench/path_rounds.h"
#include "tests/bench/report.h"
#include "tests/lab/agent.h"
#include "tests/lab/daemon.h"
#include "tests/lab/lab.h"
#include "tests/lab/soft_fabric.h"

namespace eoib::bench {
namespace {

using lab::Host;

constexpr int kMtu = 4070;
constexpr int kVxlanOverhead = 50;
constexpr int kPayload = 22;  // with headers of UDP, IPv4 and Ethernet 64 bytes

// More is better, except for rtt.
constexpr Report::RatioSpec kRatios[] = {
    {"tcp_vs_vxlan", "tcp_uplink (Gb/s)", "tcp_vxlan (Gb/s)", {.required = 0.6}},
    {"tcp_back_vs_vxlan", "tcp_back_uplink (Gb/s)", "tcp_back_vxlan (Gb/s)", {.required = 0.6}},
    {"udp_vs_vxlan", "udp_uplink (kpps)", "udp_vxlan (kpps)", {.required = 1.0}},
    {"rtt_vs_vxlan", "rtt_uplink (us)", "rtt_vxlan (us)", {}},
    {"tcp_vs_switch", "tcp_uplink (Gb/s)", "tcp_switch (Gb/s)", {}},
    {"tcp_back_vs_switch", "tcp_back_uplink (Gb/s)", "tcp_back_switch (Gb/s)", {}},
    {"switch_tcp_vs_vxlan", "tcp_switch (Gb/s)", "tcp_vxlan (Gb/s)", {}},
};

class UplinkBench {
 public:
  UplinkBench() {
    for (Host* host : {member_.host(), second_.host(), station_})
      host->Sysctl("ipv4/tcp_congestion_control", "reno");
    AddUplink();
    AddVxlan();
    for (const Path& path : paths_) {
      path.from->MustRun({"ping", "-n", "-q", "-c", "5", "-i", "0.5", "-W", "5", path.to_address});
    }
  }

  void Round(Report* report, int seconds) {
    MeasurePaths(paths_, seconds, report);
    MeasureGateway(report, seconds);
  }

 private:
  // Measures the processor time of the gateway for a frame of 64 bytes, each way, and what one
  // processor carries. Measures the same for a gigabyte of TCP.
  void MeasureGateway(Report* report, int seconds) {
    const Path& path = paths_[0];
    const auto add = [&](const std::string& way, const char* counter, Host* from, Host* to,
                         const std::string& address) {
      const uint64_t before = Stat(counter);
      const absl::Duration used =
          CostOf([&] { DatagramRate(from, to, address, kPayload, seconds); });
      const double each =
          absl::ToDoubleMicroseconds(used) / static_cast<double>(Stat(counter) - before);
      report->Add(absl::StrCat("gateway_frame_", way, " (us)"), each);
      report->Add(absl::StrCat("gateway_frames_", way, "_per_core (kpps)"), 1e3 / each);
    };
    add("to_wire", "to_wire", path.from, path.to, path.to_address);
    add("from_wire", "from_wire", path.to, path.from, path.from_address);
    double rate = 0;  // Gb/s
    const absl::Duration used =
        CostOf([&] { rate = TcpStream(path.from, path.to, path.to_address, seconds).Finish(); });
    report->Add("gateway_tcp (CPU s/GB)", absl::ToDoubleSeconds(used) / (rate / 8 * seconds));
  }
  absl::Duration CostOf(absl::FunctionRef<void()> work) {
    const absl::Duration before = ProcessorTime(gateway_.pid());
    work();
    return ProcessorTime(gateway_.pid()) - before;
  }
  uint64_t Stat(const std::string& name) {
    const std::string stats = gateway_.MustCtl({"uplink", "stats"}),
                      head = absl::StrCat("  ", name, " ");
    const size_t at = stats.find(head);
    if (at == std::string::npos) lab::Die(absl::StrCat("no ", name, " in ", stats));
    return std::stoull(stats.substr(at + head.size()));
  }

  void AddUplink() {
    appliance_->AddVeth("e1", station_, "eth0", kMtu);
    station_->AddAddress("eth0", "10.0.0.101/24");
    lab::WriteFile(gateway_.directory() + "/uplink.toml",
                   "[[ves]]\nname = \"red\"\npkey = 0x8001\n"
                   "[[uplink]]\nname = \"up0\"\nves = \"red\"\nnetdev = \"e1\"\nvlans = [0]\n");
    gateway_.Launch();
    gateway_.WaitUntil({"uplink", "show"}, [](const std::string& show) {
      return show.find("active in VLANs 0;") != std::string::npos;
    });
    member_.Start();
    second_.Start();
    member_.host()->AddAddress("v1", "10.0.0.1/24");
    second_.host()->AddAddress("v1", "10.0.0.2/24");
  }
  // The member and the bridge are the two ends of the VXLAN.
  void AddVxlan() {
    member_.host()->AddVeth("under", bridge_, "under", kMtu + kVxlanOverhead);
    member_.host()->AddAddress("under", "10.8.0.1/24");
    bridge_->AddAddress("under", "10.8.0.2/24");
    AddTunnel(member_.host(), "10.8.0.1", "10.8.0.2");
    AddTunnel(bridge_, "10.8.0.2", "10.8.0.1");
    member_.host()->AddAddress("vx0", "10.9.0.1/24");
    bridge_->AddVeth("wire", station_, "eth1", kMtu);
    bridge_->AddBridge("br0", {"vx0", "wire"});
    station_->AddAddress("eth1", "10.9.0.101/24");
  }
  static void AddTunnel(Host* host, const std::string& local, const std::string& remote) {
    host->MustIp(absl::StrCat("link add vx0 type vxlan id 7 dstport 4789 local ", local, " remote ",
                              remote));
    host->MustIp(absl::StrCat("link set vx0 mtu ", kMtu, " up"));
  }

  lab::Lab lab_;
  lab::SoftFabric fabric_{&lab_, {{0x8001}}};
  Host* const station_ = lab_.AddHost("c1");
  Host* const bridge_ = lab_.AddHost("bridge");
  Host* const appliance_ = lab_.AddHost("gw");
  lab::Agent member_{&lab_, &fabric_, lab_.AddHost("h1"), {}};
  lab::Agent second_{&lab_, &fabric_, lab_.AddHost("h2"), {}};
  lab::Daemon gateway_{&lab_,
                       &fabric_,
                       appliance_,
                       "eoib-gateway",
                       {absl::StrCat("--statedir=", lab_.Path("gw"), "/state"),
                        absl::StrCat("--config=", lab_.Path("gw"), "/uplink.toml")}};
  const Path paths_[3] = {{"uplink", member_.host(), station_, "10.0.0.1", "10.0.0.101"},
                          {"vxlan", member_.host(), station_, "10.9.0.1", "10.9.0.101"},
                          {"switch", member_.host(), second_.host(), "10.0.0.1", "10.0.0.2"}};
};

bool Run(const std::string& output) {
  UplinkBench bench;
  return RunRounds("uplink", kRatios, output,
                   [&bench](Report* report, int seconds) { bench.Round(report, seconds); });
}

}  // namespace
}  // namespace eoib::bench

int main(int argc, char** argv) { return eoib::bench::Main(argc, argv, eoib::bench::Run); }
