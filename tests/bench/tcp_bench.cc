// Measures TCP throughput between two hosts over eoib vPorts and over kernel VXLAN, between the same network namespaces, at
// the same inner MTUs, in interleaved rounds.
//
//   tcp_bench OUTPUT.json
//
// The underlay of VXLAN is a veth pair whose MTU is the inner one plus VXLAN's 50 bytes, as a user would set it. The
// environment variables EOIB_BENCH_ROUNDS and EOIB_BENCH_SECONDS (of each measurement) set the duration.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bench/measurements.h"
#include "tests/bench/report.h"
#include "tests/lab/agent.h"
#include "tests/lab/lab.h"
#include "tests/lab/soft_fabric.h"

namespace eoib::bench {
namespace {

using lab::Agent;
using lab::Host;

// The required ratios, and the aims.
const Report::RatioSpec kRatios[] = {
    {"tcp_4074_vs_vxlan", "eoib_4074", "vxlan_4074", {absl::nullopt, 0.5}},
    {"tcp_1500_vs_vxlan", "eoib_1500", "vxlan_1500", {absl::nullopt, absl::nullopt}},
};

// A path between the hosts: an interface with an address on each.
struct Path {
  std::string series;
  std::string subnet;  // "10.1.0."; the hosts are .1 and .2
  std::string interface;
};

void AddVxlan(Host* one, Host* two, const Path& path, int number, int mtu) {
  const std::string underlay = absl::StrCat("u", number);
  one->AddVeth(underlay, two, underlay, mtu + 50);
  one->AddAddress(underlay, absl::StrCat("192.168.", number, ".1/24"));
  two->AddAddress(underlay, absl::StrCat("192.168.", number, ".2/24"));
  for (Host* host : {one, two}) {
    const int self = host == one ? 1 : 2;
    host->MustIp(absl::StrCat("link add ", path.interface, " mtu ", mtu, " type vxlan id ", number,
                              " dstport 4789 local 192.168.", number, ".", self, " remote 192.168.", number, ".", 3 - self,
                              " dev ", underlay));
  }
}

bool Run(const std::string& output) {
  const int rounds = FromEnvironment("EOIB_BENCH_ROUNDS", 7), seconds = FromEnvironment("EOIB_BENCH_SECONDS", 2);
  const Path paths[] = {{"eoib_4074", "10.1.0.", "v4074"},
                        {"vxlan_4074", "10.2.0.", "x4074"},
                        {"eoib_1500", "10.3.0.", "v1500"},
                        {"vxlan_1500", "10.4.0.", "x1500"}};
  lab::Lab lab;
  lab::SoftFabric fabric(&lab, {{0x8001}, {0x8002}});
  lab::AgentSpec spec;
  spec.veses = {{"large", 0x8001}, {"small", 0x8002}};
  spec.vports = {{"v4074", "large"}, {"v1500", "small", "mtu = 1500\n"}};
  Host* one = lab.AddHost("h1");
  Host* two = lab.AddHost("h2");
  Agent first(&lab, &fabric, one, spec), second(&lab, &fabric, two, spec);
  first.Start();
  second.Start();
  AddVxlan(one, two, paths[1], 1, 4074);
  AddVxlan(one, two, paths[3], 2, 1500);
  for (const Path& path : paths) Connect(one, two, path.interface, path.subnet);

  Report report("tcp", "Gb/s");
  for (int round = 0; round < rounds; ++round) {
    std::printf("round %d of %d:", round + 1, rounds);
    for (const Path& path : paths) {
      const double value = TcpStream(one, two, path.subnet + "2", seconds).Finish();
      report.Add(path.series, value);
      std::printf(" %s %.2f", path.series.c_str(), value);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
  for (const Report::RatioSpec& ratio : kRatios) report.Compare(ratio.name, ratio.numerator, ratio.denominator, ratio.bound);
  return report.Finish(output);
}

}  // namespace
}  // namespace eoib::bench

int main(int argc, char** argv) { return eoib::bench::Main(argc, argv, eoib::bench::Run); }
