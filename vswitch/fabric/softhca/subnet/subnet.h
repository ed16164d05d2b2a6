// Subnet: subnet manager, subnet administrator and switch control of a software fabric.
//
// It knows ports by name. It assigns LIDs, GUIDs, P_Key tables and ranges of QPNs, answers MADs (mad_agents.h), tells all
// ports the members of multicast groups, and connects producers of datagrams to consumers. It never sees a datagram. Tests and
// simulations use it in process (Connect); eoib-fabricd offers it over a socket (fabric_server.h).
//
// Threads. Any thread may call every member. Calls to ports are queued under the mutex and delivered without it, by one thread
// at a time. So every port sees events in order and one at a time, and a sink may take its own locks. A call may return while
// another thread still delivers its effects.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "vswitch/base/address.h"
#include "vswitch/base/clock.h"
#include "vswitch/fabric/softhca/counters_page.h"
#include "vswitch/fabric/softhca/port_counters.h"
#include "vswitch/fabric/softhca/subnet/lid_file.h"
#include "vswitch/fabric/softhca/subnet/mad_agents.h"
#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/fabric/softhca/subnet/subnet_config.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

// A request to keep a LID and QPNs when a port registers with a restarted subnet. Granted if free.
struct RegistrationWish {
  Lid lid;        // 0: any
  QpnRange qpns;  // count 0: a new range
};

class Subnet {
 public:
  static constexpr uint64_t kDefaultGidPrefix = 0xfe80'0000'0000'0000;
  static constexpr Lid kSmLid = ManagedSwitch::kDefaultLid;  // until MoveSm
  static constexpr uint32_t kQpnsPerPort = 4096;

  struct Options {
    SubnetConfig config = SubnetConfig::Default();
    uint64_t gid_prefix = kDefaultGidPrefix;
    uint8_t mtu = 5;                              // IbMtu's code: 4096
    uint8_t rate = 3;                             // IBA rate code: 10 Gb/s
    Mlid last_mlid = MulticastGroups::kLastMlid;  // tests use fewer MLIDs
    uint64_t seed = 0;                            // for QPN ranges and ring identifiers; 0: from the system
    const Clock* clock = nullptr;                 // null: CLOCK_MONOTONIC. Clock and file outlive the subnet.
    LidFile* lids = nullptr;                      // the LIDs of a former run; null: LIDs are not kept
  };

  // A port as an operator sees it.
  struct PortStatus {
    std::string name;
    PortConfig config;
    bool alive = false;    // a process owns it
    bool link_up = false;  // set by SetLink; `config.active` needs both
    uint64_t registrations = 0, mads = 0, rings_made = 0, rings_refused = 0;
    size_t rings_out = 0, rings_in = 0;
    absl::optional<PortCounters> counters;
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
  // The whereabouts of all datagram copies posted since this subnet started (README.md, "Conservation"): copies = delivered +
  // dropped + sending + receiving + in_rings + died, unless ports counted before the start.
  struct Conservation {
    uint64_t copies = 0, delivered = 0, dropped = 0;
    int64_t sending = 0, receiving = 0;  // in queues of ports
    int64_t in_rings = 0;
    int64_t died = 0;           // in queues of ports whose processes ended
    uint64_t joint_deaths = 0;  // deaths while another port had no process: copies between the two stay in in_rings
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
  std::unique_ptr<SubnetLink> Connect(const RegistrationWish& wish);
  std::unique_ptr<SubnetLink> Connect() { return Connect(RegistrationWish()); }

  // Changes while the subnet runs. Each notifies the affected ports. kNotFound if no port `name` ever registered.
  absl::Status SetLink(const std::string& name, bool up);
  // kAlreadyExists if another port has that LID.
  absl::Status SetLid(const std::string& name, Lid lid);
  // `name`: a port's, registered or not, or "ALL", which also restores ports that were removed by name. Queue pairs select
  // partitions by index, so a P_Key keeps its index in the table, and a removed one leaves an invalid entry (0x0000).
  absl::Status AddToPartition(PKey pkey, const std::string& name, Membership membership);
  // kNotFound if it is not a member. A partition ends with its last member. Memberships of groups stay, as with OpenSM.
  absl::Status RemoveFromPartition(PKey pkey, const std::string& name);
  // While the SM is absent, SM and SA do not answer and reports wait; agents of ports still answer.
  void SetSmAbsent(bool absent);
  // Acts like a restarted SM: forgets groups and subscriptions and asks every port to reregister.
  void RestartSm();
  // kAlreadyExists if a port has that LID. Notifies every port.
  absl::Status MoveSm(Lid lid);
  // Asks a port, or "ALL", to rejoin and resubscribe.
  absl::Status Reregister(const std::string& name);

  // Retries unconfirmed reports and segments, and writes LIDs. Call it at NextDeadline, or lost reports and tables are not
  // repeated and LIDs do not survive a restart.
  void Run();
  absl::Time NextDeadline() const;

  std::vector<PortStatus> Ports() const;    // by LID
  std::vector<GroupStatus> Groups() const;  // by MLID
  std::vector<RingStatus> Rings() const;
  std::vector<Subscriptions> AllSubscriptions() const;  // by port GID
  MadCounters mad_counters() const;
  SaResponder::Counters SaCounters() const { return mad_counters().sa; }
  bool sm_absent() const;
  Lid sm_lid() const;

  // Faults that receiving ports simulate (FaultRule), by name: a port's, registered or not, or kAnyPort. The rule with both
  // names goes before the one with the source's, that before the one with the destination's. A new rule replaces the one with
  // the same names; an empty one exempts them. kResourceExhausted above kMaxFaultRules.
  struct Fault {
    std::string source, destination;
    FaultRule rule;  // its `source` is not used
  };
  static constexpr char kAnyPort[] = "*";
  absl::Status SetFault(const Fault& fault);
  // kNotFound if there is none.
  absl::Status ClearFault(const std::string& source, const std::string& destination);
  void ClearFaults();
  std::vector<Fault> Faults() const;

  // A port's counters, also after its death. nullopt if it never registered or has no counters.
  absl::optional<PortCounters> CountersOf(const std::string& name) const;
  absl::optional<PortCounters> CountersOf(Lid lid) const;
  Conservation GetConservation() const;

 private:
  class Link;
  struct Port;

  // One registration of one link. `sink` is null after it has ended.
  struct Session {
    Port* port = nullptr;
    PortSink* sink = nullptr;
    PortUse use = PortUse::kOwn;
    uint64_t process = 0;  // unique; not 0
    std::shared_ptr<UniqueFd> doorbell;
  };
  // A port, from the first registration of its name on.
  struct Port : ManagedPort {
    bool link_up = true;
    std::shared_ptr<Session> owner;             // null: no process owns the port
    std::set<std::shared_ptr<Session>> guests;  // processes that use it without owning it
    std::shared_ptr<const CountersPage> counters;
    std::vector<FaultRule> faults;  // the last ones sent to it
    uint64_t registrations = 0, mads = 0, rings_made = 0, rings_refused = 0;
  };
  struct Ring {
    Port* source;
    Port* destination;
    uint64_t capacity;
  };
  struct Delivery {
    std::shared_ptr<Session> session;
    absl::AnyInvocable<void(PortSink*)> call;
  };
  // The view of ports_ for the MAD agents. Used under mutex_ only.
  class PortView : public ManagedPorts {
   public:
    explicit PortView(const Subnet* subnet) : subnet_(subnet) {}
    const ManagedPort* FindByGid(const Gid& gid) const override;
    const ManagedPort* FindByLid(Lid lid) const override;
    std::vector<const ManagedPort*> Active() const override;
    const ManagedSwitch& Switch() const override;

   private:
    const Subnet* const subnet_;
  };

  // Called by Link.
  absl::Status Register(const std::string& name, const PortResources& resources, PortUse use, const RegistrationWish& wish,
                        PortSink* sink, std::shared_ptr<Session>* session);
  void Unregister(const std::shared_ptr<Session>& session);
  absl::Status SendMad(const std::shared_ptr<Session>& session, Lid destination, const Mad& mad);
  absl::Status OpenRing(const std::shared_ptr<Session>& session, uint64_t request, Lid destination, RingEnd end);
  void CloseRing(const std::shared_ptr<Session>& session, uint64_t ring);

  absl::Duration SaveLids() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Port* FindOrMakePort(const std::string& name, const RegistrationWish& wish) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Port* MakePort(const std::string& name, const KeptPort& kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint8_t FreeSwitchPort() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Keep(const Port& port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Port* FindPort(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool LidIsFree(Lid lid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Lid> AllocateLid(Lid wish) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Guid MakeGuid(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<QpnRange> AllocateQpns(const QpnRange& wish, const QpnRange& former) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool QpnsAreFree(uint32_t first) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Own(Port* port, const RegistrationWish& wish, const std::shared_ptr<Session>& session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(Port* port, const std::shared_ptr<Session>& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Disown(Port* port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Closes all rings from and to the port, at both ends.
  void CloseRingsOf(Port* port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns true if the table changed.
  bool UpdatePKeys(Port* port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UpdateAllPKeys() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Partition* FindPartition(PKey pkey) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Visit(Port* port, const std::shared_ptr<Session>& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Activate(Port* port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if some process wants the port up.
  static bool IsUsed(const Port& port);
  // Call after link_up, owner or guests have changed.
  void UpdateActive(Port* port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  PortCounters ReadCounters(const ManagedPort& port) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetCounters(Port* port, std::shared_ptr<const CountersPage> counters) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Account(const PortCounters& counters, bool ended, Conservation* sum) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountEnd(const Port& ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::string WhyNoRing(const Port* source, const Port* destination, Lid lid);
  static SourceIdentity IdentityOf(const Port& port);

  // The Tell functions queue calls to ports; Deliver makes them without the mutex.
  void Tell(const std::shared_ptr<Session>& session, absl::AnyInvocable<void(PortSink*)> call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellConfig(Port* port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellSource(Port* port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellRingClosed(Port* port, uint64_t ring) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Queues what the agents produced: changed groups and MADs.
  void TellNews() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellMad(const OutgoingMad& outgoing) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellGroup(const Port& port, Mlid mlid, std::shared_ptr<const std::vector<Lid>> members)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<const std::vector<Lid>> ReceiverLids(Mlid mlid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the ports whose rules differ from the last ones sent.
  void TellChangedFaults() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellFaults(Port* port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<FaultRule> FaultsTo(const std::string& destination) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const FaultRule* FindFault(const std::string& source, const std::string& destination) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Deliver() ABSL_LOCKS_EXCLUDED(mutex_);
  bool TakeDelivery(Delivery* delivery, PortSink** sink) ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  const MonotonicClock system_clock_;
  const Clock* const clock_;
  const PortView view_{this};
  mutable absl::Mutex mutex_;
  ManagedSwitch switch_ ABSL_GUARDED_BY(mutex_);
  std::vector<Partition> partitions_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<Port>> ports_ ABSL_GUARDED_BY(mutex_);  // by name; includes ports of the LID file
  std::map<Lid, Port*> by_lid_ ABSL_GUARDED_BY(mutex_);
  std::map<Gid, Port*> by_gid_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Ring> rings_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_process_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::Time next_save_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // do not write LIDs before
  uint64_t next_ring_ ABSL_GUARDED_BY(mutex_);
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  MadAgents agents_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, std::string>, FaultRule> faults_ ABSL_GUARDED_BY(mutex_);  // by source, destination
  bool told_faults_ ABSL_GUARDED_BY(mutex_) = false;  // some port may have rules
  Conservation of_former_ ABSL_GUARDED_BY(mutex_);    // of processes that a later one of the same port replaced

  std::deque<Delivery> deliveries_ ABSL_GUARDED_BY(mutex_);
  bool delivering_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Session> being_told_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_H_
