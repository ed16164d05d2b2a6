// PartitionTable: the partitions of a software subnet and their members, and the P_Key tables of
// ports that follow from them.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PARTITION_TABLE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PARTITION_TABLE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/softhca/subnet/subnet_config.h"

namespace eoib::softhca {

// Not thread-safe: the Subnet calls it under its mutex.
class PartitionTable {
 public:
  explicit PartitionTable(std::vector<Partition> partitions) : partitions_(std::move(partitions)) {}

  const std::vector<Partition>& partitions() const { return partitions_; }
  // `name`: a port's, or "ALL", which also restores ports that were removed by name.
  absl::Status Add(PKey pkey, const std::string& name, Membership membership);
  // Puts others in place of all partitions. A port's P_Keys that stay keep their indexes.
  void Replace(std::vector<Partition> partitions) { partitions_ = std::move(partitions); }
  // kNotFound if it is not a member. A partition ends with its last member.
  absl::Status Remove(PKey pkey, const std::string& name);
  // Updates the P_Key table of port `name`; returns true if it changed. Queue pairs select
  // partitions by index, so a P_Key keeps its index, and a removed one leaves an invalid entry
  // (0x0000).
  bool Update(const std::string& name, std::vector<PKey>* table) const;

 private:
  const Partition* Find(PKey pkey) const;
  Partition* Find(PKey pkey) { return const_cast<Partition*>(std::as_const(*this).Find(pkey)); }

  std::vector<Partition> partitions_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PARTITION_TABLE_H_
