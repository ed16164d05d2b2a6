// Fuzzes the partition file: no crash, the same result from a file, and an accepted configuration
// keeps the promises of subnet_config.h.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "vswitch/base/check.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/port_name.h"
#include "vswitch/fabric/softhca/subnet/subnet_config_files.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {
namespace {

void CheckPartition(const Partition& partition) {
  for (const auto& [name, membership] : partition.listed) {
    EOIB_CHECK(CheckPortName(name).ok() && partition.Of(name) == membership);
    const absl::optional<PKey> pkey = partition.PKeyOf(name);
    EOIB_CHECK(pkey.has_value() == (membership != Membership::kNone));
    EOIB_CHECK(!pkey.has_value() || pkey->IsFullMember() == (membership == Membership::kFull));
  }
  const absl::optional<PKey> stranger = partition.PKeyOf("a port that is not listed");
  EOIB_CHECK(stranger.has_value() == (partition.all != Membership::kNone));
  EOIB_CHECK(!stranger.has_value() || stranger->SamePartition(partition.pkey));
}

size_t Lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

// A line for each partition that differs.
void CheckDiff(const std::vector<Partition>& partitions) {
  EOIB_CHECK(DiffPartitions(partitions, partitions).empty());
  EOIB_CHECK(Lines(DiffPartitions({}, partitions)) == partitions.size());
  EOIB_CHECK(Lines(DiffPartitions(partitions, {})) == partitions.size());
  std::vector<Partition> changed = partitions;
  changed[0].all = changed[0].all == Membership::kFull ? Membership::kLimited : Membership::kFull;
  const std::string diff = DiffPartitions(partitions, changed);
  EOIB_CHECK(Lines(diff) == 1 && absl::StrContains(diff, changed[0].ToString()));
}

void CheckAccepted(const SubnetConfig& config) {
  EOIB_CHECK(!config.partitions.empty() && config.partitions.size() <= kMaxPKeys);
  std::set<PKey> pkeys;
  for (const Partition& partition : config.partitions) {
    EOIB_CHECK(partition.pkey.IsValid() && partition.pkey.IsFullMember() &&
               pkeys.insert(partition.pkey).second);
    CheckPartition(partition);
  }
  EOIB_CHECK(pkeys.count(kDefaultPKey) == 1);
  CheckDiff(config.partitions);
  EOIB_CHECK(ParseSubnetConfig(ToToml(config.partitions), "again")->partitions ==
             config.partitions);
}

// Loads the same text from a file.
absl::StatusOr<SubnetConfig> ParseFile(absl::string_view text, std::string* path) {
  const UniqueFd file(memfd_create("fuzz", MFD_CLOEXEC));
  EOIB_CHECK(write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  *path = absl::StrCat("/proc/self/fd/", file.get());
  return LoadSubnetConfig(*path);
}

}  // namespace
}  // namespace eoib::softhca

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace eoib::softhca;  // NOLINT: the entry point has no namespace
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  std::string path;
  const auto loaded = ParseFile(text, &path);
  // The file is closed.
  EOIB_CHECK(LoadSubnetConfig(path).status().code() == absl::StatusCode::kNotFound);
  const auto parsed = ParseSubnetConfig(text, path);
  // The reader of files refuses UTF-16 by name, which is no TOML to the parser, and takes off one
  // byte order mark.
  const bool is_utf16 = absl::StartsWith(text, "\xff\xfe") || absl::StartsWith(text, "\xfe\xff");
  if (is_utf16) {
    EOIB_CHECK(!parsed.ok() && !loaded.ok());
  } else {
    const absl::string_view rest = absl::StripPrefix(text, "\xef\xbb\xbf");
    EOIB_CHECK(loaded.status() == ParseSubnetConfig(rest, path).status());
  }
  if (parsed.ok()) {
    CheckAccepted(*parsed);
  } else {
    EOIB_CHECK(absl::StartsWith(parsed.status().message(), path + ":"));
  }
  return 0;
}
