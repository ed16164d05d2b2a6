// Measures what several workers forward: frames of 64 bytes between test vPorts, with one worker
// and with two.
//
//   workers_bench OUTPUT.json
//
// "local" is one agent with two pairs of vPorts, of which the first sends all it can to the second.
// "fabric" is two agents on an in-process software subnet: two vPorts of the first send flows to
// two of the second. The ports are memory. On a machine that has no processor to spare for each
// worker, only the frames for a second of processor time say something. EOIB_BENCH_ROUNDS and
// EOIB_BENCH_SECONDS set the number and length of the measurements.
#include <time.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "control/agent.h"
#include "control/operator/agent_commands.h"
#include "tests/bench/report.h"
#include "tests/lab/frames.h"
#include "tests/lab/process.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/fabric/softhca/soft_hca.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::bench {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr uint16_t kFlows = 64;
constexpr size_t kPortAt = kEthernetHeaderSize + 20;  // the UDP source port, in a frame

// A vPort at one queue of its VES: it sends while it is open, and counts what it receives.
class StreamPort final : public Port {
 public:
  StreamPort(MacAddr mac, MacAddr to) : mac_(mac) {
    const lab::Flow4 flow{to, mac, {10, 0, 0, 1}, {10, 0, 0, 2}};
    frame_ = lab::UdpDatagram(flow, 1, 2, lab::Bytes(64 - kPortAt - 8));
  }
  void Open() { RingEventFd(event_.get()); }
  void Close() { ClearEventFd(event_.get()); }
  uint64_t delivered() const { return delivered_.load(std::memory_order_relaxed); }

  int receive_fd() const override { return event_.get(); }
  size_t Receive(BufferPool* pool, uint32_t, absl::Span<Frame> out,
                 PortReceiveCounts*) noexcept override {
    size_t received = 0;
    for (; received < out.size(); ++received) {
      const BufferId buffer = pool->Allocate();
      if (buffer.IsNone()) break;
      uint8_t* const data = pool->Frame(buffer);
      std::memcpy(data, frame_.data(), frame_.size());
      WriteWire(be16(static_cast<uint16_t>(1024 + next_++ % kFlows)), data + kPortAt);
      out[received] = {buffer, data, static_cast<uint32_t>(frame_.size()), {}};
    }
    return received;
  }
  DropReason Transmit(const Frame&, bool) noexcept override {
    delivered_.store(delivered() + 1, std::memory_order_relaxed);
    return DropReason::kNone;
  }
  MacAddr mac() const override { return mac_; }

 private:
  const MacAddr mac_;
  const UniqueFd event_{MakeEventFd()};
  std::vector<uint8_t> frame_;
  uint16_t next_ = 0;
  std::atomic<uint64_t> delivered_{0};
};

MacAddr MacOf(size_t vport) { return MacAddr::FromUint64(0x02'00'00'00'00'10 + vport); }

class StreamInterface final : public VPortInterface {
 public:
  explicit StreamInterface(std::function<std::unique_ptr<Port>()> make) : make_(std::move(make)) {}
  std::unique_ptr<Port> MakeQueue() override { return make_(); }

 private:
  const std::function<std::unique_ptr<Port>()> make_;
};

// An agent with vPorts, by their numbers. Each sends to the vPort whose number is two more. A
// worker reads a port of each pair.
class Sender {
 public:
  Sender(softhca::Subnet* subnet, const std::string& name, size_t workers,
         const std::vector<size_t>& vports)
      : loop_(&clock_) {
    std::string toml =
        absl::StrCat("workers = ", workers, "\n[[ves]]\nname = \"blue\"\npkey = 0x8001\n");
    for (const size_t vport : vports) {
      absl::StrAppend(&toml, "[[vport]]\nname = \"v", vport,
                      "\"\nves = \"blue\"\ntype = \"test\"\nmac = \"", MacOf(vport).ToString(),
                      "\"\nstatic_macs = [\"", MacOf(vport).ToString(), "\"]\n");
    }
    const auto make_port = [this](const VPortConfig& config, MacAddr, int, const Ves&,
                                  FabricPort*) { return Make(config); };
    agent_ = Agent::Create(ParseConfig(toml, "bench").value(),
                           softhca::OpenSoftHca(subnet->Connect(), name).value(), nullptr,
                           make_port, &loop_, &clock_)
                 .value();
    RegisterAgentCommands(agent_.get(), &commands_);
    agent_->Start();
  }

  void Pump() { loop_.RunOnce(clock_.Now() + absl::Milliseconds(1)); }
  bool Knows(MacAddr mac) {
    return absl::StrContains(commands_.Run("fdb/show", {}).value(), mac.ToString());
  }
  // The first two vPorts send. A worker reads one of the ports of each vPort.
  void Open() {
    for (const size_t index : {0, 1}) {
      for (StreamPort* port : vports_[index]) port->Open();
    }
  }
  void Close() {
    for (const size_t index : {0, 1}) {
      for (StreamPort* port : vports_[index]) port->Close();
    }
  }
  uint64_t delivered() const {
    uint64_t sum = 0;
    for (const auto& ports : vports_) {
      for (const StreamPort* port : ports) sum += port->delivered();
    }
    return sum;
  }

 private:
  absl::StatusOr<VPort> Make(const VPortConfig& config) {
    const MacAddr to = MacAddr::FromUint64(config.mac->ToUint64() + 2);
    const size_t index = vports_.size();
    vports_.emplace_back();
    const auto make = [this, index, mac = *config.mac, to] {
      auto port = std::make_unique<StreamPort>(mac, to);
      vports_[index].push_back(port.get());
      return port;
    };
    VPort vport;
    vport.config = config;
    vport.interface = std::make_shared<StreamInterface>(make);
    vport.port = make();
    return vport;
  }

  const MonotonicClock clock_;
  EventLoop loop_;
  CommandRegistry commands_;
  std::vector<std::vector<StreamPort*>> vports_;  // at each queue of the VES
  std::unique_ptr<Agent> agent_;
};

double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Adds millions of frames for a second, and for a second of all threads' processor time.
void Measure(const std::string& series, const std::vector<Sender*>& agents, absl::Duration time,
             Report* report) {
  const MonotonicClock clock;
  const auto pump_until = [&](absl::Time end) {
    while (clock.Now() < end) {
      for (Sender* agent : agents) agent->Pump();
    }
  };
  agents.front()->Open();
  pump_until(clock.Now() + time / 4);  // a steady state
  const uint64_t before = agents.back()->delivered();
  const double processor = ProcessorSeconds();
  const absl::Time start = clock.Now();
  pump_until(start + time);
  const double frames = static_cast<double>(agents.back()->delivered() - before) * 1e-6;
  const double seconds = absl::ToDoubleSeconds(clock.Now() - start);
  const double processor_seconds = ProcessorSeconds() - processor;
  agents.front()->Close();
  report->Add(series, frames / seconds);
  report->Add(series + "_per_cpu_s", frames / processor_seconds);
}

void MeasureLocal(softhca::Subnet* subnet, size_t workers, absl::Duration time, Report* report) {
  Sender agent(subnet, "local", workers, {0, 1, 2, 3});
  Measure(absl::StrCat("local_", workers), {&agent}, time, report);
}

void MeasureFabric(softhca::Subnet* subnet, size_t workers, absl::Duration time, Report* report) {
  Sender from(subnet, "from", workers, {0, 1}), to(subnet, "to", workers, {2, 3});
  const MonotonicClock clock;
  const absl::Time deadline = clock.Now() + kPatience;
  while (!from.Knows(MacOf(2)) || !from.Knows(MacOf(3))) {
    if (clock.Now() > deadline) lab::Die("the agents do not know each other");
    from.Pump();
    to.Pump();
  }
  Measure(absl::StrCat("fabric_", workers), {&from, &to}, time, report);
}

bool Run(const std::string& output) {
  const int rounds = FromEnvironment("EOIB_BENCH_ROUNDS", 5);
  const absl::Duration time = absl::Seconds(FromEnvironment("EOIB_BENCH_SECONDS", 1));
  softhca::Subnet::Options options;
  options.config =
      softhca::ParseSubnetConfig("[[partition]]\npkey = 0x8001\nfull = [\"ALL\"]\n", "bench")
          .value();
  softhca::Subnet subnet(std::move(options));
  Report report("workers", "million frames a second");
  for (int round = 0; round < rounds; ++round) {
    for (size_t workers : {1, 2}) {
      MeasureLocal(&subnet, workers, time, &report);
      MeasureFabric(&subnet, workers, time, &report);
    }
  }
  for (const char* path : {"local", "fabric"}) {
    for (const char* per : {"", "_per_cpu_s"}) {
      report.Compare(absl::StrCat(path, per, "_two_vs_one"), absl::StrCat(path, "_2", per),
                     absl::StrCat(path, "_1", per), {});
    }
  }
  return report.Finish(output);
}

}  // namespace
}  // namespace eoib::bench

int main(int argc, char** argv) { return eoib::bench::Main(argc, argv, eoib::bench::Run); }
