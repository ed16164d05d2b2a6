// Measures what a virtual machine can have of the switch: packets of 64 bytes between two agents
// from vhost-user port to vhost-user port, from TAP to TAP, and over a kernel VXLAN, in interleaved
// rounds. Then TCP between two emulated guests on the same vhost-user ports, beside the same guests
// on bridges over the TAPs.
//
//   vm_bench OUTPUT.json
//
// DPDK's testpmd drives the packets, through virtio-user ports and packet sockets, because an
// emulated guest would measure QEMU's emulation, as it does with TCP. The environment variables
// EOIB_BENCH_ROUNDS and EOIB_BENCH_SECONDS (of each measurement) set the duration.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/bench/guest_pair.h"
#include "tests/bench/measurements.h"
#include "tests/bench/packet_loop.h"
#include "tests/bench/report.h"
#include "tests/lab/agent.h"
#include "tests/lab/soft_fabric.h"

namespace eoib::bench {
namespace {

using lab::Host;

constexpr int kMtu = 4070;
constexpr int kVxlanOverhead = 50;
// Of a datagram: with headers of UDP, IPv4 and Ethernet 64 bytes.
constexpr int kPayload = 22;
// Packets; each path counts with the number that suits it better.
constexpr int kUnderWay[] = {64, 256};

constexpr Report::RatioSpec kRatios[] = {
    {"vhost_vs_tap", "packets_vhost (kpps)", "packets_tap (kpps)", {.required = 3, .aim = 6}},
    {"vhost_vs_vxlan", "packets_vhost (kpps)", "packets_vxlan (kpps)", {}},
    {"vhost_vs_sockets_on_tap", "packets_vhost (kpps)", "sockets_tap (kpps)", {}},
    {"guest_tcp_vhost_vs_tap", "guest_tcp_vhost (Gb/s)", "guest_tcp_tap (Gb/s)", {}},
};

struct Path {
  std::string name;
  PacketEnd one, two;
};

class VmBench {
 public:
  VmBench() {
    for (const int self : {1, 2}) StartAgent(self);
    for (const auto& agent : agents_) Prefer(agent->pid());
    Host* const one = agents_[0]->host();
    Host* const two = agents_[1]->host();
    Connect(one, two, "t1", "10.1.0.");
    AddVxlan(one, two);
    paths_ = {{"vhost", VirtioUser(one, Socket(1), Mac(1)), VirtioUser(two, Socket(2), Mac(2))},
              {"tap", Interface(one, "t1"), Interface(two, "t1")},
              {"vxlan", Interface(one, "vx0"), Interface(two, "vx0")}};
  }

  void Round(Report* report, int seconds) {
    for (const Path& path : paths_) {
      double most = 0;
      for (const int under_way : kUnderWay) {
        const double rate = CirculatePackets(path.one, path.two, under_way, seconds);
        report->Add(absl::StrCat("packets_", path.name, "_", under_way, " (kpps)"), rate);
        most = std::max(most, rate);
      }
      report->Add(absl::StrCat("packets_", path.name, " (kpps)"), most);
    }
    report->Add("sockets_tap (kpps)", DatagramRate(agents_[0]->host(), agents_[1]->host(),
                                                   "10.1.0.2", kPayload, seconds));
  }

  // After the last Round: the guests take the ports of the generators.
  void StartGuests() {
    for (const auto& agent : agents_) {
      Host* const host = agent->host();
      host->MustIp("tuntap add tap0 mode tap");
      host->MustIp(absl::StrCat("link set tap0 mtu ", kMtu, " up"));
      host->AddBridge("br0", {"t1", "tap0"});
    }
    const auto start = [this](const std::string& name, const lab::Argv& first,
                              const lab::Argv& second) {
      guests_[name] = std::make_unique<GuestPair>(
          &lab_, agents_[0]->host(),
          lab::QemuGuestSpec{.name = name + "1", .mac = Mac(1), .netdev = first},
          agents_[1]->host(),
          lab::QemuGuestSpec{.name = name + "2", .mac = Mac(2), .netdev = second}, kMtu);
    };
    start("vhost", lab::VhostUser(Socket(1)), lab::VhostUser(Socket(2)));
    start("tap", lab::ExistingTap("tap0"), lab::ExistingTap("tap0"));
  }
  void GuestRound(Report* report) {
    for (const auto& [name, pair] : guests_)
      report->Add(absl::StrCat("guest_tcp_", name, " (Gb/s)"), pair->TcpRate());
  }

 private:
  std::string Socket(int self) const { return lab_.Path(absl::StrCat("vm", self, ".sock")); }
  static std::string Mac(int self) { return absl::StrCat("02:00:00:00:00:0", self); }

  // A generator that only receives would never be learned.
  void StartAgent(int self) {
    lab::AgentSpec spec;
    spec.veses = {{"vm", 0x8001}, {"tap", 0x8002}};
    spec.vports = {{"m1", "vm",
                    absl::StrCat("type = \"vhost-user\"\nsocket = \"", Socket(self),
                                 "\"\nstatic_macs = [\"", Mac(self), "\"]\n")},
                   {"t1", "tap"}};
    Host* const host = lab_.AddHost(absl::StrCat("h", self));
    agents_.push_back(std::make_unique<lab::Agent>(&lab_, &fabric_, host, spec));
    agents_.back()->Launch();
    if (!lab::EventuallyTrue(lab::kPatience, [&] { return host->HasInterface("t1"); })) {
      lab::Die("the agent makes no TAP: " + agents_.back()->Log());
    }
  }
  // A generator that polls would take whole time slices, with nothing to do, from the agent that
  // shares its processor.
  static void Prefer(pid_t process) {
    for (const auto& task :
         std::filesystem::directory_iterator(absl::StrCat("/proc/", process, "/task"))) {
      const auto thread = static_cast<id_t>(std::stoi(task.path().filename().string()));
      if (setpriority(PRIO_PROCESS, thread, -10) != 0)
        lab::DieErrno("give an agent a higher priority");
    }
  }
  void AddVxlan(Host* one, Host* two) {
    one->AddVeth("under", two, "under", kMtu + kVxlanOverhead);
    for (Host* host : {one, two}) {
      const int self = host == one ? 1 : 2;
      host->AddAddress("under", absl::StrCat("192.168.200.", self, "/24"));
      host->MustIp(absl::StrCat("link add vx0 mtu ", kMtu,
                                " type vxlan id 7 dstport 4789 local 192.168.200.", self,
                                " remote 192.168.200.", 3 - self, " dev under"));
    }
    Connect(one, two, "vx0", "10.2.0.");
  }

  lab::Lab lab_;
  lab::SoftFabric fabric_{&lab_, {{0x8001}, {0x8002}}};
  std::vector<std::unique_ptr<lab::Agent>> agents_;
  std::vector<Path> paths_;
  std::map<std::string, std::unique_ptr<GuestPair>> guests_;
};

bool Run(const std::string& output) {
  const int rounds = FromEnvironment("EOIB_BENCH_ROUNDS", 5),
            seconds = FromEnvironment("EOIB_BENCH_SECONDS", 2);
  VmBench bench;
  Report report("vm", "");
  for (int round = 0; round < rounds; ++round) {
    std::printf("round %d of %d\n", round + 1, rounds);
    std::fflush(stdout);
    bench.Round(&report, seconds);
  }
  bench.StartGuests();
  for (int round = 0; round < rounds; ++round) bench.GuestRound(&report);
  for (const Report::RatioSpec& ratio : kRatios)
    report.Compare(ratio.name, ratio.numerator, ratio.denominator, ratio.bound);
  return report.Finish(output);
}

}  // namespace
}  // namespace eoib::bench

int main(int argc, char** argv) { return eoib::bench::Main(argc, argv, eoib::bench::Run); }
