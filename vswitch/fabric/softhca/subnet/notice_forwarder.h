// NoticeForwarder: tells ports what happens in a software subnet, if they have asked for it (IBA 1.4 §13.4.8.3, §13.4.11).
//
// A port subscribes to notices by SubnAdmSet(InformInfo). The subnet manager's traps 64 to 67 are then reported to it, and
// each report is repeated until the port confirms it or has been given up.
//
// Who hears what. A report carries a GID, so it goes only to ports that share a partition with the port or group that it is
// about; limited members do not learn of one another. A port with several subscriptions that match is told once. It hears of
// groups that it made or ended itself, as with OpenSM; of its own link it cannot, since subscriptions end with the link.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_NOTICE_FORWARDER_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_NOTICE_FORWARDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "fdb/address.h"
#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/wire/notice.h"
#include "vswitch/wire/sa_mad.h"

namespace eoib::softhca {

// Not thread-safe: the Subnet calls it under its mutex.
class NoticeForwarder {
 public:
  struct Options {
    absl::Duration first_timeout = absl::Milliseconds(500);  // doubled with each repetition
    int transmissions = 4;
    size_t subscriptions_per_port = 32;
    size_t reports_per_port = 1024;  // that wait for their confirmation
    uint64_t first_tid = 1;
  };
  struct Counters {
    uint64_t reports = 0;   // each to one port
    uint64_t repeated = 0;  // transmissions after the first
    uint64_t confirmed = 0;
    uint64_t given_up = 0;   // never confirmed
    uint64_t overflows = 0;  // not made: too many wait for that port
    uint64_t strays = 0;     // confirmations of nothing
  };

  // `ports` outlives the forwarder.
  NoticeForwarder(const ManagedPorts* ports, Options options)
      : ports_(ports), options_(options), next_tid_(options.first_tid) {}
  explicit NoticeForwarder(const ManagedPorts* ports) : NoticeForwarder(ports, Options()) {}

  // SubnAdmSet(InformInfo). kRequestInvalid to unsubscribe what is not subscribed; to subscribe twice is to subscribe once.
  SaStatus Inform(const Gid& port, const InformInfo& info);
  // A trap about the port or group of GID `about`, whose P_Keys are `pkeys`. The first transmission is Run's, at once.
  void Forward(SmTrap trap, const Gid& about, const std::vector<PKey>& pkeys, absl::Time now);
  // A ReportResp of `port`.
  void Confirm(const Gid& port, uint64_t tid);
  // Its subscriptions end, and what it has not confirmed.
  void RemovePort(const Gid& port);
  void Clear();

  // Transmits what is due.
  void Run(absl::Time now, std::vector<OutgoingMad>* out);
  // InfiniteFuture if nothing waits.
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
  std::map<Gid, std::vector<InformInfo>> subscriptions_;  // by port; none is empty
  std::map<uint64_t, Report> reports_;                    // by transaction ID
  std::map<Gid, size_t> waiting_;                         // reports of each port; none is 0
  uint64_t next_tid_;
  Counters counters_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_NOTICE_FORWARDER_H_
