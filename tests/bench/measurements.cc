#include "tests/bench/measurements.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

namespace eoib::bench {
namespace {

std::unique_ptr<lab::Process> StartServer(lab::Host* host, const std::string& address) {
  auto server = host->Start({"iperf3", "-s", "-1", "--forceflush", "-B", address});
  if (!lab::EventuallyTrue(lab::kPatience, [&] { return absl::StrContains(server->Log(), "Server listening"); })) {
    lab::Die("iperf3 does not listen: " + server->Log());
  }
  return server;
}

// A number in the client's JSON report.
double Figure(const std::string& report, const char* where) {
  const nlohmann::json json = nlohmann::json::parse(report, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json::json_pointer pointer(where);
  if (json.is_discarded() || !json.contains(pointer)) lab::Die("unexpected output of iperf3: " + report);
  return json[pointer].get<double>();
}

}  // namespace

void Connect(lab::Host* one, lab::Host* two, const std::string& interface, const std::string& subnet) {
  one->AddAddress(interface, subnet + "1/24");
  two->AddAddress(interface, subnet + "2/24");
  one->SetUp(interface);
  two->SetUp(interface);
  const lab::RunResult ping = one->Run({"ping", "-n", "-q", "-c", "3", "-i", "0.05", "-W", "5", subnet + "2"});
  if (!ping.ok()) lab::Die(absl::StrCat(interface, ": ", ping.ToString()));
}

TcpStream::TcpStream(lab::Host* from, lab::Host* to, const std::string& address, int seconds)
    : seconds_(seconds), server_(StartServer(to, address)) {
  client_ = from->Start({"iperf3", "-c", address, "-C", "cubic", "-t", absl::StrCat(seconds), "-J"});
}

double TcpStream::Finish() {
  client_->Wait(absl::Seconds(seconds_) + lab::kPatience);
  server_->Wait();
  return Figure(client_->Log(), "/end/sum_received/bits_per_second") / 1e9;
}

double DatagramRate(lab::Host* from, lab::Host* to, const std::string& address, int payload, int seconds) {
  const auto server = StartServer(to, address);
  const auto client =
      from->Start({"iperf3", "-u", "-b", "0", "-l", absl::StrCat(payload), "-c", address, "-t", absl::StrCat(seconds), "-J"});
  client->Wait(absl::Seconds(seconds) + lab::kPatience);
  server->Wait();
  const std::string report = client->Log();
  const double arrived = Figure(report, "/end/sum/packets") - Figure(report, "/end/sum/lost_packets");
  return arrived / Figure(report, "/end/sum/seconds") / 1e3;
}

double MedianRoundTrip(lab::Host* from, const std::string& address, int pings) {
  const std::string text = from->MustRun({"ping", "-n", "-c", absl::StrCat(pings), "-i", "0.002", "-W", "5", address});
  std::vector<double> times;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(" time=", 1));
    double milliseconds = 0;
    if (parts.size() < 2 || !absl::SimpleAtod(parts[1].substr(0, parts[1].find(' ')), &milliseconds)) continue;
    times.push_back(milliseconds * 1000);
  }
  if (times.size() * 10 < static_cast<size_t>(pings) * 9) lab::Die("unexpected output of ping: " + text);
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

}  // namespace eoib::bench
