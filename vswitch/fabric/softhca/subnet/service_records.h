// ServiceRecords: the services that the ports of a software subnet have registered (IBA 1.4
// §15.2.5.15).
//
// A record belongs to the port of its GID: only that port registers and deletes it, and it ends
// with its lease or when the port goes. A port sees the records of its own partitions.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SERVICE_RECORDS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SERVICE_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "vswitch/base/clock.h"
#include "vswitch/fabric/softhca/subnet_link.h"
#include "vswitch/wire/ib/sa_mad.h"
#include "vswitch/wire/ib/service_record.h"

namespace eoib::softhca {

// Not thread-safe: the Subnet calls it under its mutex.
class ServiceRecords {
 public:
  static constexpr size_t kMaxPerPort = 256;

  // `clock` outlives the object.
  explicit ServiceRecords(const Clock* clock) : clock_(clock) {}

  // Set and Delete by the port of `requester`; the record becomes the answer's. Set replaces the
  // record with the same service ID, GID and P_Key, if its key is the same. Without a lease it
  // holds forever.
  SaStatus Set(const PortConfig& requester, uint64_t mask, ServiceRecord* record);
  SaStatus Delete(const PortConfig& requester, uint64_t mask, ServiceRecord* record);
  // The records that match the components of `wanted` and that `requester` may see, without their
  // keys. Leases are what is left.
  std::vector<ServiceRecord> Query(const PortConfig& requester, uint64_t mask,
                                   const ServiceRecord& wanted) const;
  // All records.
  std::vector<ServiceRecord> All() const;
  // Ends the records of a port that went down or away.
  void RemovePort(const Gid& port);
  // Forgets everything, like a restarted subnet manager.
  void Clear() { records_.clear(); }
  // Ends the records whose lease is over. Other members leave them out before that.
  void Run();
  absl::Time NextDeadline() const;

 private:
  using Key = std::tuple<Gid, uint64_t, uint16_t>;  // GID, service ID, P_Key
  struct Registered {
    ServiceRecord record;
    absl::Time until;
  };

  static Key KeyOf(const ServiceRecord& record) {
    return {record.gid, record.id, record.pkey.value()};
  }
  bool IsCurrent(const Registered& registered) const { return clock_->Now() < registered.until; }
  ServiceRecord Disclosed(const Registered& registered) const;
  size_t CountOf(const Gid& port) const;

  const Clock* const clock_;
  std::map<Key, Registered> records_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SERVICE_RECORDS_H_
