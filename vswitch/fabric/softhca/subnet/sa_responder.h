// SaResponder: the subnet administrator of a software subnet (IBA 1.4 §15.2.5). It takes a MAD and
// returns the answer:
//
//       Set, Delete      MCMemberRecord (multicast_groups.h), ServiceRecord (service_records.h);
//       Set of InformInfo
//                        (notice_forwarder.h)
//       Get, GetTable    MCMemberRecord, ServiceRecord, PathRecord (sa_paths.h), NodeRecord,
//       PortInfoRecord, P_KeyTableRecord Get              ClassPortInfo
//
// It refuses other methods and attributes, and tells a port only of its own partitions (README.md).
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SA_RESPONDER_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SA_RESPONDER_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/fabric/softhca/subnet/multicast_groups.h"
#include "vswitch/fabric/softhca/subnet/notice_forwarder.h"
#include "vswitch/fabric/softhca/subnet/service_records.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib::softhca {

// Not thread-safe: the Subnet calls it under its mutex.
class SaResponder {
 public:
  struct Counters {
    uint64_t requests = 0;   // answered, with whatever status
    uint64_t errors = 0;     // of these, answered with a status other than 0
    uint64_t tables = 0;     // of these, answered with a table
    uint64_t malformed = 0;  // dropped
  };

  // All of them outlive the responder.
  SaResponder(const ManagedPorts* ports, MulticastGroups* groups, NoticeForwarder* notices,
              ServiceRecords* services)
      : ports_(ports), groups_(groups), notices_(notices), services_(services) {}

  // Returns the answer to `mad` from the port of `requester`, a MAD or a whole table, or nullopt if
  // the MAD was dropped. A table longer than kMaxMad is refused with "no resources".
  absl::optional<std::vector<uint8_t>> Respond(const PortConfig& requester, const Mad& mad);
  const Counters& counters() const { return counters_; }

 private:
  using Records = std::vector<uint8_t>;

  SaStatus Dispatch(const PortConfig& requester, const SaHeader& request, const Mad& mad,
                    Records* records);
  SaStatus DispatchMcMember(const PortConfig& requester, const SaHeader& request, const Mad& mad,
                            Records* records);
  SaStatus DispatchService(const PortConfig& requester, const SaHeader& request, const Mad& mad,
                           Records* records);
  SaStatus DispatchQuery(const PortConfig& requester, const SaHeader& request, const Mad& mad,
                         Records* records) const;

  SaStatus Inform(const PortConfig& requester, const Mad& mad, Records* records);
  SaStatus FindGroups(const PortConfig& requester, const SaHeader& request, const Mad& mad,
                      Records* records) const;
  SaStatus FindServices(const PortConfig& requester, const SaHeader& request, const Mad& mad,
                        Records* records) const;
  SaStatus FindPaths(const PortConfig& requester, const SaHeader& request, const Mad& mad,
                     Records* records) const;
  SaStatus FindNodes(const PortConfig& requester, const SaHeader& request, const Mad& mad,
                     Records* records) const;
  SaStatus FindPortInfos(const PortConfig& requester, const SaHeader& request, const Mad& mad,
                         Records* records) const;
  SaStatus FindPKeyTables(const PortConfig& requester, const SaHeader& request, const Mad& mad,
                          Records* records) const;
  std::vector<const ManagedPort*> VisiblePorts(const PortConfig& requester) const;

  const ManagedPorts* const ports_;
  MulticastGroups* const groups_;
  NoticeForwarder* const notices_;
  ServiceRecords* const services_;
  Counters counters_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SA_RESPONDER_H_
