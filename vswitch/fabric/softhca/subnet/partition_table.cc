#include "vswitch/fabric/softhca/subnet/partition_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "vswitch/fabric/softhca/port_name.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {
namespace {

// Removes the ports that are excluded from "ALL".
void ForgetExclusions(Partition* partition) {
  std::erase_if(partition->listed,
                [](const auto& entry) { return entry.second == Membership::kNone; });
}

void AddMember(const std::string& name, Membership membership, Partition* partition) {
  if (name != kAllPorts) {
    partition->listed[name] = membership;
    return;
  }
  partition->all = membership;
  ForgetExclusions(partition);  // "ALL" includes ports that were removed by name
}

void RemoveMember(const std::string& name, Partition* partition) {
  (name == kAllPorts ? partition->all : partition->listed[name]) = Membership::kNone;
  if (partition->all == Membership::kNone) ForgetExclusions(partition);
}

}  // namespace

const Partition* PartitionTable::Find(PKey pkey) const {
  const auto found = std::find_if(
      partitions_.begin(), partitions_.end(),
      [pkey](const Partition& partition) { return partition.pkey.SamePartition(pkey); });
  return found == partitions_.end() ? nullptr : &*found;
}

absl::Status PartitionTable::Add(PKey pkey, const std::string& name, Membership membership) {
  if (!pkey.IsValid())
    return absl::InvalidArgumentError(absl::StrCat("P_Key ", pkey.ToString(), " is not valid"));
  if (name != kAllPorts) {
    if (absl::Status status = CheckPortName(name); !status.ok()) return status;
  }
  Partition* partition = Find(pkey);
  if (partition == nullptr) {
    if (partitions_.size() >= kMaxPKeys) {
      return absl::ResourceExhaustedError(absl::StrCat("add partition ", pkey.Full().ToString(),
                                                       ": there are ", kMaxPKeys, " already"));
    }
    partition = &partitions_.emplace_back();
    partition->pkey = pkey.Full();
  }
  AddMember(name, membership, partition);
  return absl::OkStatus();
}

absl::Status PartitionTable::Remove(PKey pkey, const std::string& name) {
  Partition* partition = Find(pkey);
  const Membership had = partition == nullptr ? Membership::kNone
                         : name == kAllPorts  ? partition->all
                                              : partition->Of(name);
  if (had == Membership::kNone) {
    return absl::NotFoundError(absl::StrCat("remove ", name, " from partition ",
                                            pkey.Full().ToString(), ": it is not a member"));
  }
  RemoveMember(name, partition);
  // The default partition stays, because it is the first entry of P_Key tables.
  std::erase_if(partitions_, [](const Partition& each) {
    return each.all == Membership::kNone && each.listed.empty() && each.pkey != kDefaultPKey;
  });
  return absl::OkStatus();
}

bool PartitionTable::Update(const std::string& name, std::vector<PKey>* table) const {
  const std::vector<PKey> before = *table;
  for (PKey& entry : *table) {
    const Partition* partition = entry.IsValid() ? Find(entry) : nullptr;
    entry = partition == nullptr ? PKey() : partition->PKeyOf(name).value_or(PKey());
  }
  for (const Partition& partition : partitions_) {
    const absl::optional<PKey> pkey = partition.PKeyOf(name);
    if (!pkey.has_value() || std::find(table->begin(), table->end(), *pkey) != table->end())
      continue;
    const auto hole = std::find(table->begin(), table->end(), PKey());
    hole == table->end() ? table->push_back(*pkey) : void(*hole = *pkey);
  }
  return *table != before;
}

}  // namespace eoib::softhca
