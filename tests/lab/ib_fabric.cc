#include "tests/lab/ib_fabric.h"

#include <algorithm>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/lab/process.h"
#include "vswitch/base/temp_dir_for_test.h"

namespace eoib::lab {
namespace {

constexpr char kAll[] = "ALL";

std::unique_ptr<IbSubnet> MakeSubnet(const std::string& directory) {
  IbSubnetOptions options;
  options.adapters = IbFabric::kAdapters;
  options.partitions = {};
  auto subnet = std::make_unique<IbSubnet>(directory, options);
  subnet->Start();
  return subnet;
}

// The adapter of host hN; -1 for other names.
int NumberedAdapter(absl::string_view host) {
  int number = 0;
  const bool numbered = absl::ConsumePrefix(&host, "h") && absl::SimpleAtoi(host, &number);
  return numbered && number >= 1 && number <= IbFabric::kAdapters ? number - 1 : -1;
}

}  // namespace

IbSubnet& IbFabric::subnet() {
  static const TempDir directory;
  static const std::unique_ptr<IbSubnet> subnet = MakeSubnet(directory.path());
  return *subnet;
}

IbFabric::IbFabric(const std::vector<PartitionSpec>& partitions) {
  const std::vector<IbPartition> translated = Translate(partitions);
  if (translated == subnet().partitions()) return;
  subnet().SetPartitions(translated);
  subnet().Wait();
}

std::vector<IbPartition> IbFabric::Translate(const std::vector<PartitionSpec>& partitions) {
  const auto adapters = [this](const std::vector<std::string>& hosts) {
    std::vector<int> numbers;
    for (const std::string& host : hosts)
      numbers.push_back(host == kAll ? IbPartition::kAll : AdapterOf(host));
    return numbers;
  };
  std::vector<IbPartition> translated;
  for (const PartitionSpec& partition : partitions) {
    IbPartition ours;
    ours.pkey = partition.pkey;
    ours.full = adapters(partition.full);
    ours.limited = adapters(partition.limited);
    ours.ipoib = partition.ipoib;
    translated.push_back(ours);
  }
  return translated;
}

int IbFabric::AdapterOf(const std::string& host) {
  const auto known = adapters_.find(host);
  if (known != adapters_.end()) return known->second;
  const auto taken = [this](int candidate) {
    return std::any_of(adapters_.begin(), adapters_.end(),
                       [&](const auto& entry) { return entry.second == candidate; });
  };
  int adapter = NumberedAdapter(host);
  if (taken(adapter)) adapter = -1;
  // From the last one down, to leave the first ones to the numbered hosts.
  for (int candidate = kAdapters - 1; adapter < 0 && candidate >= 0; --candidate) {
    if (!taken(candidate)) adapter = candidate;
  }
  if (adapter < 0) Die("no adapter is left for host " + host);
  return adapters_[host] = adapter;
}

Argv IbFabric::DaemonCommand(const std::string& program, const std::string& host) {
  return {Binary(program), absl::StrCat("--hca=verbs:", IbSubnet::Device(AdapterOf(host)), "/1")};
}

}  // namespace eoib::lab
