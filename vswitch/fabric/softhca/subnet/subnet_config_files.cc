#include "vswitch/fabric/softhca/subnet/subnet_config_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/file.h"

namespace eoib::softhca {
namespace {

constexpr size_t kMaxConfigSize = 4 << 20;
constexpr absl::string_view kSuffix = ".toml";
constexpr char kSavedHeader[] =
    "# Written by `eoibctl -t fabricd config save`. A partition here replaces the one of the other "
    "files.\n";

absl::StatusOr<std::string> DirectoryOf(const std::string& path) {
  if (absl::EndsWith(path, kSuffix))
    return absl::StrCat(path.substr(0, path.size() - kSuffix.size()), ".d");
  return absl::InvalidArgumentError(absl::StrCat(
      "save ", path, ": its name does not end in .toml, so it has no drop-ins; rename it"));
}

absl::StatusOr<SubnetConfig> ReadPartitionFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxConfigSize);
  if (text.ok()) return ParsePartitions(*text, path);
  return absl::Status(
      text.status().code(),
      absl::StrCat(
          "open partition file ", path, ": ", text.status().message(),
          "; write it ([[partition]] with pkey, full, limited) or start without --config"));
}

void Replace(const Partition& partition, std::vector<Partition>* partitions) {
  const auto old =
      std::find_if(partitions->begin(), partitions->end(),
                   [&partition](const Partition& one) { return one.pkey == partition.pkey; });
  const bool has_members = partition.all != Membership::kNone || !partition.listed.empty();
  if (old == partitions->end()) {
    if (has_members) partitions->push_back(partition);
  } else if (has_members || partition.pkey == kDefaultPKey) {
    *old = partition;
  } else {
    partitions->erase(old);
  }
}

// The partitions of the file and its drop-ins. `with_saved`: also those of saved.toml.
absl::StatusOr<SubnetConfig> LoadFiles(const std::string& path, bool with_saved) {
  absl::StatusOr<SubnetConfig> config = ReadPartitionFile(path);
  absl::StatusOr<std::vector<std::string>> drop_ins = DropInsOf(path);
  if (!config.ok()) return config;
  if (!drop_ins.ok()) return drop_ins.status();
  const auto saved = std::stable_partition(
      drop_ins->begin(), drop_ins->end(),
      [](const std::string& one) { return !absl::EndsWith(one, "/saved.toml"); });
  for (auto drop_in = drop_ins->begin(); drop_in != (with_saved ? drop_ins->end() : saved);
       ++drop_in) {
    const absl::StatusOr<SubnetConfig> more = ReadPartitionFile(*drop_in);
    if (!more.ok()) return more;
    for (const Partition& partition : more->partitions) Replace(partition, &config->partitions);
  }
  AddDefaultPartition(&*config);
  return config;
}

const Partition* FindPartition(const std::vector<Partition>& partitions, PKey pkey) {
  const auto found = std::find_if(partitions.begin(), partitions.end(),
                                  [pkey](const Partition& one) { return one.pkey == pkey; });
  return found == partitions.end() ? nullptr : &*found;
}

// The partitions for saved.toml: those that differ from the other files. One without members
// removes a partition.
std::vector<Partition> Overrides(const std::vector<Partition>& files,
                                 const std::vector<Partition>& partitions) {
  std::vector<Partition> overrides;
  for (const Partition& partition : partitions) {
    const Partition* const old = FindPartition(files, partition.pkey);
    if (old == nullptr || *old != partition) overrides.push_back(partition);
  }
  for (const Partition& old : files) {
    if (FindPartition(partitions, old.pkey) == nullptr)
      overrides.push_back({old.pkey, Membership::kNone, {}});
  }
  return overrides;
}

}  // namespace

absl::StatusOr<SubnetConfig> LoadSubnetConfig(const std::string& path) {
  return LoadFiles(path, /*with_saved=*/true);
}

absl::StatusOr<std::string> SaveSubnetConfig(const std::string& path,
                                             const std::vector<Partition>& partitions) {
  const absl::StatusOr<std::string> directory = DirectoryOf(path);
  if (!directory.ok()) return directory.status();
  const absl::StatusOr<SubnetConfig> files = LoadFiles(path, /*with_saved=*/false);
  if (!files.ok()) return files.status();
  const std::vector<Partition> overrides = Overrides(files->partitions, partitions);
  const std::string saved = absl::StrCat(*directory, "/saved.toml");
  if (overrides.empty()) {
    if (unlink(saved.c_str()) == 0 || errno == ENOENT) return saved;
    // EBUSY: a mount point, to be empty.
    if (errno != EBUSY) return absl::ErrnoToStatus(errno, absl::StrCat("remove ", saved));
  }
  if (mkdir(directory->c_str(), 0755) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("make the directory ", *directory));
  }
  if (absl::Status status = ReplaceFile(saved, absl::StrCat(kSavedHeader, ToToml(overrides)));
      !status.ok())
    return status;
  return saved;
}

}  // namespace eoib::softhca
