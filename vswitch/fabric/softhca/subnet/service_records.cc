#include "vswitch/fabric/softhca/subnet/service_records.h"

#include <algorithm>

#include "vswitch/fabric/softhca/subnet/managed_ports.h"

namespace eoib::softhca {
namespace {

constexpr uint64_t kIdentity = service::kId | service::kGid;

// The data components: one bit for each of 16 bytes, then of 8 numbers of 16 bits, 4 of 32 and 2 of
// 64 (table 206).
bool DataIs(const ServiceRecord& record, uint64_t mask, const ServiceRecord& wanted) {
  size_t at = 0;
  int bit = 7;
  for (const auto& [count, size] : {std::pair<int, size_t>{16, 1}, {8, 2}, {4, 4}, {2, 8}}) {
    for (int i = 0; i < count; ++i, ++bit, at += size) {
      if ((mask >> bit & 1) != 0 &&
          !std::equal(&record.data[at], &record.data[at] + size, &wanted.data[at]))
        return false;
    }
  }
  return true;
}

bool RecordIs(const ServiceRecord& record, uint64_t mask, const ServiceRecord& wanted) {
  const auto is = [mask](uint64_t bit, bool equal) { return (mask & bit) == 0 || equal; };
  return is(service::kId, record.id == wanted.id) && is(service::kGid, record.gid == wanted.gid) &&
         is(service::kPKey, record.pkey == wanted.pkey) &&
         is(service::kKey, record.key == wanted.key) &&
         is(service::kName, record.name == wanted.name) && DataIs(record, mask, wanted);
}

// A record without a P_Key concerns all partitions.
bool MaySee(const PortConfig& port, const ServiceRecord& record) {
  return record.pkey == PKey() || IsMemberOfPartition(port, record.pkey);
}

}  // namespace

SaStatus ServiceRecords::Set(const PortConfig& requester, uint64_t mask, ServiceRecord* record) {
  if ((mask & kIdentity) != kIdentity) return SaStatus::kInsufficientComponents;
  if (record->gid != requester.gid) return SaStatus::kInvalidGid;
  if ((mask & service::kPKey) == 0) record->pkey = PKey();
  if (!MaySee(requester, *record)) return SaStatus::kRequestInvalid;
  if ((mask & service::kLease) == 0) record->lease = ServiceRecord::kForever;
  Run();
  const auto known = records_.find(KeyOf(*record));
  if (known == records_.end() && CountOf(requester.gid) >= kMaxPerPort)
    return SaStatus::kNoResources;
  if (known != records_.end() && known->second.record.key != record->key)
    return SaStatus::kRequestInvalid;
  const bool forever = record->lease == ServiceRecord::kForever;
  records_[KeyOf(*record)] = {
      *record, forever ? absl::InfiniteFuture() : clock_->Now() + absl::Seconds(record->lease)};
  return SaStatus::kOk;
}

SaStatus ServiceRecords::Delete(const PortConfig& requester, uint64_t mask, ServiceRecord* record) {
  if ((mask & kIdentity) != kIdentity) return SaStatus::kInsufficientComponents;
  if (record->gid != requester.gid) return SaStatus::kInvalidGid;
  if ((mask & service::kPKey) == 0) record->pkey = PKey();
  const auto known = records_.find(KeyOf(*record));
  if (known == records_.end() || !IsCurrent(known->second)) return SaStatus::kNoRecords;
  if (known->second.record.key != record->key) return SaStatus::kRequestInvalid;
  *record = known->second.record;
  records_.erase(known);
  return SaStatus::kOk;
}

std::vector<ServiceRecord> ServiceRecords::Query(const PortConfig& requester, uint64_t mask,
                                                 const ServiceRecord& wanted) const {
  std::vector<ServiceRecord> found;
  for (const auto& [key, registered] : records_) {
    if (!IsCurrent(registered) || !MaySee(requester, registered.record)) continue;
    if (RecordIs(registered.record, mask, wanted)) found.push_back(Disclosed(registered));
  }
  return found;
}

std::vector<ServiceRecord> ServiceRecords::All() const {
  std::vector<ServiceRecord> all;
  for (const auto& [key, registered] : records_) {
    if (IsCurrent(registered)) all.push_back(Disclosed(registered));
  }
  return all;
}

ServiceRecord ServiceRecords::Disclosed(const Registered& registered) const {
  ServiceRecord record = registered.record;
  record.key = {};
  if (record.lease == ServiceRecord::kForever) return record;
  record.lease = static_cast<uint32_t>(
      absl::ToInt64Seconds(absl::Ceil(registered.until - clock_->Now(), absl::Seconds(1))));
  return record;
}

size_t ServiceRecords::CountOf(const Gid& port) const {
  return static_cast<size_t>(std::count_if(records_.begin(), records_.end(), [&](const auto& at) {
    return at.second.record.gid == port;
  }));
}

void ServiceRecords::RemovePort(const Gid& port) {
  std::erase_if(records_, [&](const auto& at) { return at.second.record.gid == port; });
}

void ServiceRecords::Run() {
  std::erase_if(records_, [this](const auto& at) { return !IsCurrent(at.second); });
}

absl::Time ServiceRecords::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [key, registered] : records_) next = std::min(next, registered.until);
  return next;
}

}  // namespace eoib::softhca
