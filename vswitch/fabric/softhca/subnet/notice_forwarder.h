// NoticeForwarder: reports events of a software subnet to the ports that subscribed to them
// (IBA 1.4 §13.4.8.3, §13.4.11).
//
// A report goes only to ports that share a partition with the port or group that it is about. As
// with OpenSM, a port gets reports of groups that it created or deleted itself. It gets none of its
// own link, because subscriptions end with the link.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_NOTICE_FORWARDER_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_NOTICE_FORWARDER_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/fabric/softhca/subnet/outgoing_mad.h"
#include "vswitch/wire/ib/notice.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib::softhca {

// Not thread-safe: the Subnet calls it under its mutex.
class NoticeForwarder {
 public:
  struct Options {
    absl::Duration first_timeout = absl::Milliseconds(500);  // doubled with each repetition
    int transmissions = 4;
    uint64_t first_tid = 1;
  };
  struct Counters {
    uint64_t reports = 0;   // one for each port
    uint64_t repeated = 0;  // transmissions after the first
    uint64_t confirmed = 0;
    uint64_t given_up = 0;  // not confirmed after all retries
  };

  // `ports` outlives the forwarder.
  NoticeForwarder(const ManagedPorts* ports, Options options)
      : ports_(ports), options_(options), next_tid_(options.first_tid) {}
  explicit NoticeForwarder(const ManagedPorts* ports) : NoticeForwarder(ports, Options()) {}

  // SubnAdmSet(InformInfo). kRequestInvalid if a port unsubscribes without a subscription; a
  // repeated subscription has no effect.
  SaStatus Inform(const Gid& port, const InformInfo& info);
  // Reports a trap about the port or group `about`, whose P_Keys are `pkeys`. The next Run makes
  // the first transmission.
  void Forward(SmTrap trap, const Gid& about, const std::vector<PKey>& pkeys, absl::Time now);
  // Handles a ReportResp of `port`.
  void Confirm(const Gid& port, uint64_t tid);
  // Removes the port's subscriptions and unconfirmed reports.
  void RemovePort(const Gid& port);
  void Clear();

  // Transmits what is due.
  void Run(absl::Time now, std::vector<OutgoingMad>* out);
  // InfiniteFuture if no report waits.
  absl::Time NextDeadline() const;

  const std::map<Gid, std::vector<InformInfo>>& subscriptions() const { return subscriptions_; }
  const Counters& counters() const { return counters_; }

 private:
  struct Report {
    Gid to;
    Mad mad;
    int transmissions_left;
    absl::Duration timeout;
    absl::Time deadline;
  };

  bool Wants(const Gid& port, const Notice& notice) const;
  void StartReport(const Gid& to, const Notice& notice, absl::Time now);

  const ManagedPorts* const ports_;
  const Options options_;
  std::map<Gid, std::vector<InformInfo>> subscriptions_;  // by port; no empty entries
  std::map<uint64_t, Report> reports_;                    // by transaction ID
  uint64_t next_tid_;
  Counters counters_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_NOTICE_FORWARDER_H_
