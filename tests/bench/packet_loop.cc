#include "tests/bench/packet_loop.h"

#include <signal.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace eoib::bench {
namespace {

constexpr absl::Duration kStart = absl::Seconds(30);
constexpr size_t kWarmUp = 2;  // figures at the start

// Each generator polls, on a processor of its own.
std::unique_ptr<lab::Process> StartEnd(const PacketEnd& end, int processor, int under_way,
                                       const lab::Argv& more) {
  const std::string processors = absl::StrCat("0@", processor, ",1@", processor);
  const lab::Argv command = {"stdbuf",
                             "-oL",
                             "dpdk-testpmd",
                             "--no-huge",
                             "-m",
                             "128",
                             "--no-pci",
                             "--no-telemetry",
                             "--no-shconf",
                             "--log-level=*:error",
                             "--lcores=" + processors,
                             "--vdev=" + end.device,
                             "--",
                             "--forward-mode=macswap",
                             "--port-topology=loop",
                             "--no-mlockall",
                             "--stats-period=1",
                             "--rxd=1024",
                             "--txd=1024",
                             "--total-num-mbufs=8192",
                             absl::StrCat("--burst=", under_way)};
  auto process = end.host->Start(lab::Concatenated(command, more));
  if (!lab::EventuallyTrue(kStart,
                           [&] { return absl::StrContains(process->Log(), "NIC statistics"); })) {
    lab::Die(absl::StrCat("dpdk-testpmd on ", end.device, " does not start: ", process->Log()));
  }
  return process;
}

// The packets per second that it has received, one figure a second.
std::vector<double> Rates(const std::string& log) {
  std::vector<double> rates;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    const std::vector<std::string> words = lab::Words(line);
    double rate = 0;
    if (words.size() >= 2 && words[0] == "Rx-pps:" && absl::SimpleAtod(words[1], &rate))
      rates.push_back(rate);
  }
  return rates;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

}  // namespace

PacketEnd VirtioUser(lab::Host* host, const std::string& socket, const std::string& mac) {
  return {host, absl::StrCat("net_virtio_user0,path=", socket, ",queue_size=1024,mac=", mac), mac};
}

PacketEnd Interface(lab::Host* host, const std::string& interface) {
  return {host, absl::StrCat("net_af_packet0,qdisc_bypass=1,iface=", interface),
          host->Mac(interface)};
}

double CirculatePackets(const PacketEnd& one, const PacketEnd& two, int under_way, int seconds) {
  const auto reflector = StartEnd(two, 1, under_way, {});
  const size_t before = Rates(reflector->Log()).size();
  const auto generator =
      StartEnd(one, 0, under_way, {"--tx-first", "--txpkts=64", "--eth-peer=0," + two.mac});
  const size_t count = kWarmUp + static_cast<size_t>(seconds);
  if (!lab::EventuallyTrue(absl::Seconds(4 * count) + lab::kPatience,
                           [&] { return Rates(generator->Log()).size() >= count; })) {
    lab::Die("dpdk-testpmd measures nothing: " + generator->Log());
  }
  std::vector<double> there = Rates(generator->Log()), back = Rates(reflector->Log());
  for (const auto& process : {generator.get(), reflector.get()}) {
    process->Kill(SIGINT);
    process->Wait();
  }
  there.erase(there.begin(), there.begin() + kWarmUp);
  back.erase(back.begin(),
             back.begin() + static_cast<ptrdiff_t>(std::min(back.size() - 1, before + kWarmUp)));
  return (Median(there) + Median(back)) / 1e3;
}

}  // namespace eoib::bench
