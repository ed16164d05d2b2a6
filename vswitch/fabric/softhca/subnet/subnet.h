// Subnet: subnet manager, subnet administrator and switch control of a software fabric.
//
// It knows ports by name, gives them LIDs, GUIDs, P_Key tables and ranges of QPNs, answers their MADs (mad_agents.h), tells all
// of them who is in which multicast group, and introduces a producer of datagrams to its consumer. It never sees a datagram.
// It is used in process (tests, simulations: Connect) and inside eoib-fabricd, which offers Connect over a socket
// (fabric_server.h).
//
// Threads. Every member may be called from any thread. What ports are to be told is queued under the mutex and delivered
// without it, by whichever thread finds nobody else delivering: so every port sees events in the order in which they
// happened, one at a time, and a sink may take its own locks. A call may therefore return while another thread is still
// delivering what the call caused.
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
#include "fdb/address.h"
#include "fdb/clock.h"
#include "vswitch/fabric/softhca/counters_page.h"
#include "vswitch/fabric/softhca/port_counters.h"
#include "vswitch/fabric/softhca/subnet/lid_file.h"
#include "vswitch/fabric/softhca/subnet/mad_agents.h"
#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/fabric/softhca/subnet/subnet_config.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

// What a port would like to keep when it registers with a subnet that was restarted beneath it. Granted where it is free.
struct RegistrationWish {
  Lid lid;        // 0: any
  QpnRange qpns;  // count 0: a new one
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
    Mlid last_mlid = MulticastGroups::kLastMlid;  // tests run out of MLIDs sooner
    uint64_t seed = 0;                            // of QPN ranges and ring identifiers; 0: from the system
    const Clock* clock = nullptr;                 // null: CLOCK_MONOTONIC. Outlives the subnet, as the file does.
    LidFile* lids = nullptr;                      // what a predecessor gave to whom; null: nothing is kept
  };

  // What an operator is shown of a port.
  struct PortStatus {
    std::string name;
    PortConfig config;
    bool alive = false;    // a process owns it
    bool link_up = false;  // as SetLink left it; `config.active` is both
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
  // What became of MADs. Those of a kind that nothing answers count as malformed with the SA.
  struct MadCounters {
    SaResponder::Counters sa;
    NoticeForwarder::Counters notices;
    RmppSender::Counters tables;
    SmpResponder::Counters smp;
    PmaResponder::Counters pma;
  };
  // Where the copies of all datagrams are that ports have posted since this subnet began (README.md, "Conservation"):
  // copies = delivered + dropped + sending + receiving + in_rings + died, unless ports counted before it began.
  struct Conservation {
    uint64_t copies = 0, delivered = 0, dropped = 0;
    int64_t sending = 0, receiving = 0;  // in queues of ports
    int64_t in_rings = 0;
    int64_t died = 0;           // in queues of ports whose processes ended
    uint64_t joint_deaths = 0;  // processes that died while another's port had none: what was between them stays in in_rings
  };
  struct RingStatus {
    uint64_t ring = 0;
    std::string source, destination;
    uint64_t capacity = 0;
  };

  explicit Subnet(Options options);
  Subnet() : Subnet(Options()) {}
  // All links must have been destroyed.
  ~Subnet();
  Subnet(const Subnet&) = delete;
  Subnet& operator=(const Subnet&) = delete;

  // A link for one port. The subnet outlives it. Destroying it unregisters the port.
  std::unique_ptr<SubnetLink> Connect(const RegistrationWish& wish);
  std::unique_ptr<SubnetLink> Connect() { return Connect(RegistrationWish()); }

  // Changes while the subnet runs; each tells the ports it concerns. `name` is kNotFound if no port of it ever registered.
  absl::Status SetLink(const std::string& name, bool up);
  // kAlreadyExists if another port has that LID.
  absl::Status SetLid(const std::string& name, Lid lid);
  // `name`: a port's, registered or not, or "ALL", which also brings back whoever was removed by name. A P_Key that was there
  // before keeps its index in the table, and one that goes leaves an invalid entry (0x0000): queue pairs name partitions by
  // index.
  absl::Status AddToPartition(PKey pkey, const std::string& name, Membership membership);
  // kNotFound if it is not a member. A partition ends with its last member. Memberships of groups stay, as with OpenSM.
  absl::Status RemoveFromPartition(PKey pkey, const std::string& name);
  // While it is absent, nobody answers for the SM and the SA, and reports wait; agents of ports answer.
  void SetSmAbsent(bool absent);
  // As if it had died and started anew: groups and subscriptions are forgotten, and every port is asked to reregister.
  void RestartSm();
  // kAlreadyExists if a port has that LID. Every port hears of it.
  absl::Status MoveSm(Lid lid);
  // Asks a port, or "ALL", to join and subscribe anew.
  absl::Status Reregister(const std::string& name);

  // Repeats what ports have not confirmed in time, and writes LIDs down. Whoever wants reports and tables to survive losses,
  // and LIDs a restart, calls it at NextDeadline.
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

  // Faults that receiving ports simulate (FaultRule), by name: of a port, registered or not, or kAnyPort. Of several rules that
  // fit a datagram the one with both names counts, else the one with its source's, else the one with its destination's. A rule
  // replaces the one of the same names; one that asks for nothing exempts them. kResourceExhausted above kMaxFaultRules.
  struct Fault {
    std::string source, destination;
    FaultRule rule;  // `source` is not used
  };
  static constexpr char kAnyPort[] = "*";
  absl::Status SetFault(const Fault& fault);
  // kNotFound if there is none.
  absl::Status ClearFault(const std::string& source, const std::string& destination);
  void ClearFaults();
  std::vector<Fault> Faults() const;

  // What a port counts, or counted up to its death. Nothing if it never registered or showed no counters.
  absl::optional<PortCounters> CountersOf(const std::string& name) const;
  absl::optional<PortCounters> CountersOf(Lid lid) const;
  Conservation GetConservation() const;

 private:
  class Link;
  struct Port;

  // One registration of one link. `sink` is null once it has ended.
  struct Session {
    Port* port = nullptr;
    PortSink* sink = nullptr;
    PortUse use = PortUse::kOwn;
    uint64_t process = 0;  // a number of its own, not 0
    std::shared_ptr<UniqueFd> doorbell;
  };
  // A name, from its first registration on.
  struct Port : ManagedPort {
    bool link_up = true;
    std::shared_ptr<Session> owner;             // null: no process owns the port
    std::set<std::shared_ptr<Session>> guests;  // processes that use it without owning it
    std::shared_ptr<const CountersPage> counters;
    std::vector<FaultRule> faults;  // that it was told
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
  // The view of ports_ that what answers MADs has; used under mutex_ only.
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

  // What Link calls.
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
  // All rings from and to the port, at both ends.
  void CloseRingsOf(Port* port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if the table changed.
  bool UpdatePKeys(Port* port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UpdateAllPKeys() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Partition* FindPartition(PKey pkey) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Visit(Port* port, const std::shared_ptr<Session>& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Activate(Port* port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether any process wants it up.
  static bool IsUsed(const Port& port);
  // After link_up, owner or guests have changed.
  void UpdateActive(Port* port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  PortCounters ReadCounters(const ManagedPort& port) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetCounters(Port* port, std::shared_ptr<const CountersPage> counters) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Account(const PortCounters& counters, bool ended, Conservation* sum) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountEnd(const Port& ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::string WhyNoRing(const Port* source, const Port* destination, Lid lid);
  static SourceIdentity IdentityOf(const Port& port);

  // Queue what ports are to be told; Deliver runs without the mutex.
  void Tell(const std::shared_ptr<Session>& session, absl::AnyInvocable<void(PortSink*)> call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellConfig(Port* port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellSource(Port* port) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellRingClosed(Port* port, uint64_t ring) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the agents have to say: who is in which group now, and MADs.
  void TellNews() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellMad(const OutgoingMad& outgoing) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellGroup(const Port& port, Mlid mlid, std::shared_ptr<const std::vector<Lid>> members)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<const std::vector<Lid>> ReceiverLids(Mlid mlid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells ports whose rules are others than they were told.
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
  std::map<std::string, std::unique_ptr<Port>> ports_ ABSL_GUARDED_BY(mutex_);  // by name, with those that are kept
  std::map<Lid, Port*> by_lid_ ABSL_GUARDED_BY(mutex_);
  std::map<Gid, Port*> by_gid_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Ring> rings_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_process_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::Time next_save_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // LIDs are not written before
  uint64_t next_ring_ ABSL_GUARDED_BY(mutex_);
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  MadAgents agents_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, std::string>, FaultRule> faults_ ABSL_GUARDED_BY(mutex_);  // by source, destination
  bool told_faults_ ABSL_GUARDED_BY(mutex_) = false;  // some port may have been told of rules
  Conservation of_former_ ABSL_GUARDED_BY(mutex_);    // of registrations whose names have another process now

  std::deque<Delivery> deliveries_ ABSL_GUARDED_BY(mutex_);
  bool delivering_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Session> being_told_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_H_
