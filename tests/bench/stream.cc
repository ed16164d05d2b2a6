#include "tests/bench/stream.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace eoib::bench {

void Connect(lab::Host* one, lab::Host* two, const std::string& interface, const std::string& subnet) {
  one->AddAddress(interface, subnet + "1/24");
  two->AddAddress(interface, subnet + "2/24");
  one->SetUp(interface);
  two->SetUp(interface);
  const lab::RunResult ping = one->Run({"ping", "-n", "-q", "-c", "3", "-i", "0.05", "-W", "5", subnet + "2"});
  if (!ping.ok()) lab::Die(absl::StrCat(interface, ": ", ping.ToString()));
}

Stream::Stream(lab::Host* from, lab::Host* to, const std::string& address, int seconds)
    : seconds_(seconds), server_(to->Start({"iperf3", "-s", "-1", "--forceflush", "-B", address})) {
  if (!lab::EventuallyTrue(lab::kPatience, [&] { return absl::StrContains(server_->Log(), "Server listening"); })) {
    lab::Die("iperf3 does not listen: " + server_->Log());
  }
  client_ = from->Start({"iperf3", "-c", address, "-C", "cubic", "-t", absl::StrCat(seconds), "-J"});
}

double Stream::Finish() {
  client_->Wait(absl::Seconds(seconds_) + lab::kPatience);
  server_->Wait();
  const nlohmann::json result = nlohmann::json::parse(client_->Log(), nullptr, /*allow_exceptions=*/false);
  if (result.is_discarded() || !result.contains("/end/sum_received/bits_per_second"_json_pointer)) {
    lab::Die("iperf3 said " + client_->Log());
  }
  return result["end"]["sum_received"]["bits_per_second"].get<double>() / 1e9;
}

}  // namespace eoib::bench
