// Subnet: subnet manager, subnet administrator and switch control of a software fabric. Tests and
// simulations use it in process (Connect); eoib-fabricd offers it over a socket (fabric_server.h).
//
// Any thread may call every member. One mutex guards all tables; calls to ports are queued under it
// and made without it (port_call_queue.h). A call may return while another thread still delivers
// its effects.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "vswitch/base/address.h"
#include "vswitch/base/clock.h"
#include "vswitch/fabric/softhca/soft_port_counters.h"
#include "vswitch/fabric/softhca/subnet/conservation.h"
#include "vswitch/fabric/softhca/subnet/fault_table.h"
#include "vswitch/fabric/softhca/subnet/lid_file.h"
#include "vswitch/fabric/softhca/subnet/mad_agents.h"
#include "vswitch/fabric/softhca/subnet/port_call_queue.h"
#include "vswitch/fabric/softhca/subnet/port_notifier.h"
#include "vswitch/fabric/softhca/subnet/port_sessions.h"
#include "vswitch/fabric/softhca/subnet/port_table.h"
#include "vswitch/fabric/softhca/subnet/ring_table.h"
#include "vswitch/fabric/softhca/subnet/subnet_config.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

class Subnet {
 public:
  struct Options {
    SubnetConfig config = SubnetConfig::Default();
    uint64_t gid_prefix = 0xfe80'0000'0000'0000;
    uint8_t mtu = 5;                              // IbMtu's code: 4096
    uint8_t rate = 3;                             // IBA rate code: 10 Gb/s
    Mlid last_mlid = MulticastGroups::kLastMlid;  // tests use fewer MLIDs
    // For QPN ranges and ring identifiers; 0: from the system.
    uint64_t seed = 0;
    // Null: CLOCK_MONOTONIC. Clock and file outlive the subnet.
    const Clock* clock = nullptr;
    // The LIDs of a former run; null: LIDs are not kept.
    LidFile* lids = nullptr;
  };

  // A port as an operator sees it.
  struct PortStatus {
    std::string name;
    PortConfig config;
    bool alive = false;    // a process owns it
    bool link_up = false;  // set by SetLink; `config.active` needs both
    uint64_t registrations = 0, mads = 0, rings_made = 0, rings_refused = 0;
    size_t rings_out = 0, rings_in = 0;
    absl::optional<SoftPortCounters> counters;
  };
  struct GroupMember {
    std::string port;
    Lid lid;
    uint8_t join_state = 0;
  };
  struct GroupStatus {
    McMemberRecord record;
    std::vector<GroupMember> members;
  };
  struct ServiceStatus {
    std::string port;
    ServiceRecord record;
  };
  struct Subscriptions {
    std::string port;
    std::vector<InformInfo> infos;
  };
  // Counters of MADs. A MAD of a class without an agent counts as malformed with the SA.
  struct MadCounters {
    SaResponder::Counters sa;
    NoticeForwarder::Counters notices;
    SmpResponder::Counters smp;
    PmaResponder::Counters pma;
  };
  struct RingStatus {
    uint64_t ring = 0;
    std::string source, destination;
    uint64_t capacity = 0;
  };

  explicit Subnet(Options options);
  Subnet() : Subnet(Options()) {}
  // All links must be destroyed before.
  ~Subnet();
  Subnet(const Subnet&) = delete;
  Subnet& operator=(const Subnet&) = delete;

  // Makes a link for one port. The subnet outlives it. Its destructor unregisters the port.
  std::unique_ptr<SubnetLink> Connect(const RegistrationRequest& request);
  std::unique_ptr<SubnetLink> Connect() { return Connect(RegistrationRequest()); }

  // Changes while the subnet runs. Each tells the ports that it concerns. kNotFound if no port
  // `name` ever registered.
  absl::Status SetLink(const std::string& name, bool up);
  // kAlreadyExists if another port has that LID.
  absl::Status SetLid(const std::string& name, Lid lid);
  // `name`: a port's, registered or not, or "ALL" (partition_table.h).
  absl::Status AddToPartition(PKey pkey, const std::string& name, Membership membership);
  // kNotFound if it is not a member. Memberships of groups stay, as with OpenSM.
  absl::Status RemoveFromPartition(PKey pkey, const std::string& name);
  // Puts the configuration's partitions in place of all, also of those that were added since.
  // Memberships of groups stay.
  void Reconfigure(const SubnetConfig& config);
  std::vector<Partition> Partitions() const;
  // While the SM is absent, SM and SA do not answer and reports wait; agents of ports still answer.
  void SetSmAbsent(bool absent);
  // Acts like a restarted SM: forgets groups, subscriptions and services, and asks every port to
  // reregister.
  void RestartSm();
  // kAlreadyExists if a port has that LID. Notifies every port.
  absl::Status MoveSm(Lid lid);
  // Asks a port, or "ALL", to rejoin and resubscribe.
  absl::Status Reregister(const std::string& name);

  // Retries unconfirmed reports and segments, and writes LIDs. Call it at NextDeadline, or lost
  // reports and tables are not repeated and LIDs do not survive a restart.
  void Run();
  absl::Time NextDeadline() const;

  std::vector<PortStatus> Ports() const;        // by LID
  std::vector<GroupStatus> Groups() const;      // by MLID
  std::vector<ServiceStatus> Services() const;  // by port GID
  std::vector<RingStatus> Rings() const;
  std::vector<Subscriptions> AllSubscriptions() const;  // by port GID
  MadCounters mad_counters() const;
  bool sm_absent() const;
  Lid sm_lid() const;

  // Faults that receiving ports simulate. The rule with both names goes before the one with the
  // source's, that before the one with the destination's. A new rule replaces the one with the same
  // names; an empty one exempts them. kResourceExhausted above kMaxFaultRules.
  absl::Status SetFault(const Fault& fault);
  // kNotFound if there is none.
  absl::Status ClearFault(const std::string& source, const std::string& destination);
  void ClearFaults();
  std::vector<Fault> Faults() const;

  // A port's counters, also after its death. nullopt if it never registered or has no counters.
  absl::optional<SoftPortCounters> CountersOf(const std::string& name) const;
  Conservation GetConservation() const;

 private:
  class Link;
  // Holds the mutex. Its end tells the ports what has changed.
  class Change;

  void UpdatePKeysOfAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const MonotonicClock system_clock_;
  const Clock* const clock_;
  LidFile* const lids_;
  PortCallQueue queue_;
  mutable absl::Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  PortTable ports_ ABSL_GUARDED_BY(mutex_);
  RingTable rings_ ABSL_GUARDED_BY(mutex_);
  MadAgents agents_ ABSL_GUARDED_BY(mutex_);
  PortNotifier notifier_ ABSL_GUARDED_BY(mutex_);
  FaultTable faults_ ABSL_GUARDED_BY(mutex_);
  ConservationLedger ledger_ ABSL_GUARDED_BY(mutex_);
  PortSessions sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_H_
