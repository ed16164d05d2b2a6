#include "tests/bench/measurements.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "vswitch/base/unique_fd.h"

namespace eoib::bench {
namespace {

std::unique_ptr<lab::Process> StartServer(lab::Host* host, const std::string& address) {
  auto server = host->Start({"iperf3", "-s", "-1", "--forceflush", "-B", address});
  if (!lab::EventuallyTrue(lab::kPatience,
                           [&] { return absl::StrContains(server->Log(), "Server listening"); })) {
    lab::Die("iperf3 does not listen: " + server->Log());
  }
  return server;
}

// A number in the client's JSON report.
double Figure(const std::string& report, const char* where) {
  const nlohmann::json json = nlohmann::json::parse(report, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json::json_pointer pointer(where);
  if (json.is_discarded() || !json.contains(pointer))
    lab::Die("unexpected output of iperf3: " + report);
  return json[pointer].get<double>();
}

// The calling thread runs on this processor only, if there are several.
void PinTo(int processor) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) lab::Die("cannot pin a thread to a processor");
}

}  // namespace

void Connect(lab::Host* one, lab::Host* two, const std::string& interface,
             const std::string& subnet) {
  one->AddAddress(interface, subnet + "1/24");
  two->AddAddress(interface, subnet + "2/24");
  one->SetUp(interface);
  two->SetUp(interface);
  const lab::RunResult ping =
      one->Run({"ping", "-n", "-q", "-c", "3", "-i", "0.05", "-W", "5", subnet + "2"});
  if (!ping.ok()) lab::Die(absl::StrCat(interface, ": ", ping.ToString()));
}

TcpStream::TcpStream(lab::Host* from, lab::Host* to, const std::string& address, int seconds,
                     int streams)
    : seconds_(seconds), server_(StartServer(to, address)) {
  client_ = from->Start({"iperf3", "-c", address, "-C", "cubic", "-t", absl::StrCat(seconds), "-P",
                         absl::StrCat(streams), "-J"});
}

double TcpStream::Finish() {
  client_->Wait(absl::Seconds(seconds_) + lab::kPatience);
  server_->Wait();
  return Figure(client_->Log(), "/end/sum_received/bits_per_second") / 1e9;
}

DatagramLoad SendDatagrams(lab::Host* from, lab::Host* to, const std::string& address, int payload,
                           int seconds, int64_t bits_per_second) {
  const auto server = StartServer(to, address);
  const auto client =
      from->Start({"iperf3", "-u", "-b", absl::StrCat(bits_per_second), "-l", absl::StrCat(payload),
                   "-c", address, "-t", absl::StrCat(seconds), "-J"});
  client->Wait(absl::Seconds(seconds) + lab::kPatience);
  server->Wait();
  const std::string report = client->Log();
  const double sent = Figure(report, "/end/sum/packets"),
               lost = Figure(report, "/end/sum/lost_packets");
  return {(sent - lost) / Figure(report, "/end/sum/seconds") / 1e3, lost / sent};
}

double DatagramRate(lab::Host* from, lab::Host* to, const std::string& address, int payload,
                    int seconds) {
  return SendDatagrams(from, to, address, payload, seconds).delivered;
}

FloodPing PingFlood(lab::Host* from, const std::string& address, int pings) {
  const std::string text = from->MustRun(
      {"taskset", "-c", "0", "ping", "-n", "-q", "-f", "-c", absl::StrCat(pings), address});
  // "rtt min/avg/max/mdev = 0.004/0.005/0.044/0.000 ms, ..."
  const std::vector<std::string> parts = absl::StrSplit(text, "mdev = ");
  const std::vector<std::string> numbers = absl::StrSplit(parts.back(), '/');
  FloodPing result;
  if (parts.size() != 2 || numbers.size() < 4 || !absl::SimpleAtod(numbers[0], &result.min) ||
      !absl::SimpleAtod(numbers[1], &result.mean)) {
    lab::Die("unexpected output of ping: " + text);
  }
  return {result.min * 1000, result.mean * 1000};
}

ResponseTimes RequestAndRespond(lab::Host* from, lab::Host* to, const std::string& address,
                                int requests) {
  constexpr uint16_t kPort = 7007;
  const auto open = [](lab::Host* host) {
    UniqueFd fd;
    host->InNamespace([&fd] { fd = UniqueFd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)); });
    const timeval patience{5, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
  };
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(kPort);
  inet_pton(AF_INET, address.c_str(), &at.sin_addr);
  const UniqueFd client = open(from), server = open(to);
  if (bind(server.get(), reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0)
    lab::Die("bind " + address);
  if (connect(client.get(), reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0)
    lab::Die("connect " + address);
  std::thread responder([&server, requests] {
    PinTo(1);
    char byte;
    sockaddr_in peer{};
    for (int i = 0; i < requests; ++i) {
      socklen_t size = sizeof(peer);
      if (recvfrom(server.get(), &byte, 1, 0, reinterpret_cast<sockaddr*>(&peer), &size) != 1)
        return;
      sendto(server.get(), &byte, 1, 0, reinterpret_cast<sockaddr*>(&peer), size);
    }
  });
  std::vector<double> times;
  std::thread requester([&client, &times, &address, requests] {
    PinTo(0);
    for (int i = 0; i < requests; ++i) {
      char byte = 0;
      const absl::Time begin = absl::Now();
      if (send(client.get(), &byte, 1, 0) != 1 || recv(client.get(), &byte, 1, 0) != 1)
        lab::Die("no response from " + address);
      times.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
    }
  });
  requester.join();
  responder.join();
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[times.size() * 99 / 100]};
}

double BusySeconds() {
  std::ifstream file("/proc/stat");
  std::string cpu;
  double user, nice, system, idle, iowait, irq, softirq;
  file >> cpu >> user >> nice >> system >> idle >> iowait >> irq >> softirq;
  if (!file) lab::Die("unexpected content of /proc/stat");
  return (user + nice + system + irq + softirq) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

absl::Duration ProcessorTime(pid_t process) {
  clockid_t clock;
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0)
    lab::DieErrno("read a process's time");
  return absl::DurationFromTimespec(time);
}

double MedianRoundTrip(lab::Host* from, const std::string& address, int pings) {
  const std::string text =
      from->MustRun({"ping", "-n", "-c", absl::StrCat(pings), "-i", "0.002", "-W", "5", address});
  std::vector<double> times;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(" time=", 1));
    double milliseconds = 0;
    if (parts.size() < 2 ||
        !absl::SimpleAtod(parts[1].substr(0, parts[1].find(' ')), &milliseconds))
      continue;
    times.push_back(milliseconds * 1000);
  }
  if (times.size() * 10 < static_cast<size_t>(pings) * 9)
    lab::Die("unexpected output of ping: " + text);
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

}  // namespace eoib::bench
