#include "vswitch/fabric/softhca/subnet/subnet.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/system_random.h"
#include "vswitch/fabric/softhca/port_name.h"

namespace eoib::softhca {
namespace {

PortConfig DefaultsOf(const Subnet::Options& options) {
  PortConfig config;
  config.gid = Gid::FromPrefixAndGuid(options.gid_prefix, Guid());
  config.mtu = options.mtu;
  config.rate = options.rate;
  return config;
}

absl::Status NoSuchPort(const std::string& what) {
  return absl::NotFoundError(what + ": there is no such port; \"show\" lists them");
}

}  // namespace

class ABSL_SCOPED_LOCKABLE Subnet::Change {
 public:
  explicit Change(Subnet* subnet) ABSL_EXCLUSIVE_LOCK_FUNCTION(subnet->mutex_) : subnet_(subnet) {
    subnet_->mutex_.Lock();
  }
  ~Change() ABSL_UNLOCK_FUNCTION() {
    subnet_->notifier_.TellAgentOutput();
    subnet_->mutex_.Unlock();
    subnet_->queue_.Deliver();
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  Subnet* const subnet_;
};

// The in-process link.
class Subnet::Link final : public SubnetLink {
 public:
  Link(Subnet* subnet, const RegistrationRequest& request) : subnet_(subnet), request_(request) {}
  ~Link() override { Link::Unregister(); }
  bool in_process() const override { return true; }

  absl::Status Register(const std::string& name, const PortResources& resources, PortUse use,
                        PortSink* sink) override {
    if (absl::Status status = CheckPortName(name); !status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    if (session_ != nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("register port ", name, ": this link is already registered"));
    }
    auto session = std::make_shared<PortSession>();
    session->use = use;
    session->sink = sink;
    if (use == PortUse::kOwn) {
      session->doorbell = std::make_shared<UniqueFd>(fcntl(resources.doorbell, F_DUPFD_CLOEXEC, 0));
      if (!session->doorbell->valid()) {
        return absl::ErrnoToStatus(errno, absl::StrCat("duplicate the doorbell of port ", name));
      }
    }
    Change change(subnet_);
    const absl::Status status = subnet_->sessions_.Begin(name, resources, request_, session);
    if (status.ok()) session_ = std::move(session);
    return status;
  }
  void Unregister() override {
    const std::shared_ptr<PortSession> session = Take();
    if (session == nullptr) return;
    subnet_->queue_.Stop(session);
    Change change(subnet_);
    subnet_->sessions_.End(session);
  }
  absl::Status SendMadTo(Lid destination, const Mad& mad) override {
    const std::shared_ptr<PortSession> session = Get();
    if (session == nullptr)
      return absl::FailedPreconditionError("send a MAD: the port is not registered");
    Change change(subnet_);
    return subnet_->sessions_.SendMad(*session, destination, mad);
  }
  absl::Status OpenRing(uint64_t request, Lid destination, RingEnd end) override {
    const std::shared_ptr<PortSession> session = Get();
    if (session == nullptr)
      return absl::FailedPreconditionError("open a ring: the port is not registered");
    Change change(subnet_);
    return subnet_->sessions_.OpenRing(session, request, destination, std::move(end));
  }
  void CloseRing(uint64_t ring) override {
    const std::shared_ptr<PortSession> session = Get();
    if (session == nullptr) return;
    Change change(subnet_);
    subnet_->sessions_.CloseRing(*session, ring);
  }

 private:
  std::shared_ptr<PortSession> Get() {
    absl::MutexLock lock(&mutex_);
    return session_;
  }
  std::shared_ptr<PortSession> Take() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(session_, nullptr);
  }

  Subnet* const subnet_;
  const RegistrationRequest request_;
  absl::Mutex mutex_;
  std::shared_ptr<PortSession> session_ ABSL_GUARDED_BY(mutex_);
};

Subnet::Subnet(Options options)
    : clock_(options.clock != nullptr ? options.clock : &system_clock_),
      lids_(options.lids),
      random_(options.seed != 0 ? options.seed : SystemRandom()),
      ports_(DefaultsOf(options), options.config.partitions, lids_, random_()),
      rings_(random_()),
      agents_(
          &ports_,
          [](const ManagedPort& port) {
            return static_cast<const SubnetPort&>(port).ReadCounters();
          },
          clock_, options.last_mlid, /*first_tid=*/random_()),
      notifier_(&ports_, &rings_, &agents_, &queue_),
      faults_(&ports_, &queue_),
      ledger_(&ports_, rings_.subnet()),
      sessions_(&ports_, &rings_, &agents_, &queue_, &notifier_, &faults_, &ledger_) {}

Subnet::~Subnet() {
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, port] : ports_.by_name()) {
    ABSL_RAW_CHECK(port->owner == nullptr && port->guests.empty(),
                   "a SubnetLink outlives its Subnet");
  }
}

std::unique_ptr<SubnetLink> Subnet::Connect(const RegistrationRequest& request) {
  return std::make_unique<Link>(this, request);
}

// A subnet that cannot write LIDs goes on. They are lost only at a restart, and `show` reports the
// error.
void Subnet::Run() {
  Change change(this);
  if (lids_ != nullptr) lids_->Run(clock_->Now());
  agents_.Run();
}

absl::Time Subnet::NextDeadline() const {
  absl::MutexLock lock(&mutex_);
  return std::min(agents_.NextDeadline(),
                  lids_ != nullptr ? lids_->NextDeadline() : absl::InfiniteFuture());
}

// ---- Ports.

absl::Status Subnet::SetLink(const std::string& name, bool up) {
  Change change(this);
  SubnetPort* port = ports_.Find(name);
  if (port == nullptr) return NoSuchPort(absl::StrCat("set the link of port ", name));
  sessions_.SetLink(port, up);
  return absl::OkStatus();
}

absl::Status Subnet::SetLid(const std::string& name, Lid lid) {
  Change change(this);
  SubnetPort* port = ports_.Find(name);
  if (port == nullptr)
    return NoSuchPort(absl::StrCat("set the LID of port ", name, " to ", lid.ToString()));
  if (lid == port->config.lid) return absl::OkStatus();
  if (absl::Status status = ports_.SetLid(port, lid); !status.ok()) return status;
  sessions_.CloseRingsOf(port);
  notifier_.TellConfig(*port);
  agents_.groups().ReceiversChanged();
  return absl::OkStatus();
}

absl::Status Subnet::AddToPartition(PKey pkey, const std::string& name, Membership membership) {
  Change change(this);
  const absl::Status status = ports_.partitions()->Add(pkey, name, membership);
  if (status.ok()) UpdatePKeysOfAll();
  return status;
}

absl::Status Subnet::RemoveFromPartition(PKey pkey, const std::string& name) {
  Change change(this);
  const absl::Status status = ports_.partitions()->Remove(pkey, name);
  if (status.ok()) UpdatePKeysOfAll();
  return status;
}

void Subnet::Reconfigure(const SubnetConfig& config) {
  Change change(this);
  ports_.partitions()->Replace(config.partitions);
  UpdatePKeysOfAll();
}

void Subnet::UpdatePKeysOfAll() {
  for (const auto& [name, port] : ports_.by_name()) {
    if (!ports_.UpdatePKeys(port.get())) continue;
    notifier_.TellConfig(*port);
    notifier_.TellIdentity(*port);
    agents_.groups().ReceiversChanged();
  }
}

// ---- The subnet manager.

void Subnet::SetSmAbsent(bool absent) {
  Change change(this);
  ports_.set_runs_sm(!absent);
  agents_.Run();  // sends what waited for its return
}

void Subnet::RestartSm() {
  Change change(this);
  agents_.RestartSm();
  notifier_.TellAgentOutput();  // no port may rejoin before it was told that its groups have ended
  for (const auto& [name, port] : ports_.by_name()) ++port->config.reregistrations;
  notifier_.TellAllConfigs();
}

absl::Status Subnet::MoveSm(Lid lid) {
  Change change(this);
  const absl::Status status = ports_.MoveSm(lid);
  if (status.ok()) notifier_.TellAllConfigs();
  return status;
}

absl::Status Subnet::Reregister(const std::string& name) {
  Change change(this);
  if (name != kAllPorts && ports_.Find(name) == nullptr)
    return NoSuchPort(absl::StrCat("reregister port ", name));
  for (const auto& [other, port] : ports_.by_name()) {
    if (name != kAllPorts && name != other) continue;
    ++port->config.reregistrations;
    notifier_.TellConfig(*port);
  }
  return absl::OkStatus();
}

// ---- Faults.

absl::Status Subnet::SetFault(const Fault& fault) {
  Change change(this);
  return faults_.Set(fault);
}

absl::Status Subnet::ClearFault(const std::string& source, const std::string& destination) {
  Change change(this);
  return faults_.Clear(source, destination);
}

void Subnet::ClearFaults() {
  Change change(this);
  faults_.ClearAll();
}

// ---- For an operator or a test.

std::vector<Subnet::PortStatus> Subnet::Ports() const {
  absl::MutexLock lock(&mutex_);
  std::vector<PortStatus> ports;
  for (const auto& [lid, port] : ports_.by_lid()) {
    PortStatus& status = ports.emplace_back();
    status.name = port->name;
    status.config = port->config;
    status.alive = port->owner != nullptr;
    status.link_up = port->link_up;
    status.registrations = port->registrations;
    status.mads = port->mads;
    status.rings_made = port->rings_made;
    status.rings_refused = port->rings_refused;
    if (port->counters != nullptr) status.counters = port->counters->Load();
    for (const auto& [ring, ends] : rings_.rings()) {
      status.rings_out += ends.source == port;
      status.rings_in += ends.destination == port;
    }
  }
  return ports;
}

std::vector<Partition> Subnet::Partitions() const {
  absl::MutexLock lock(&mutex_);
  return ports_.partitions()->partitions();
}

std::vector<Subnet::GroupStatus> Subnet::Groups() const {
  absl::MutexLock lock(&mutex_);
  std::vector<GroupStatus> groups;
  for (const auto& [mgid, group] : agents_.groups().groups()) {
    GroupStatus& status = groups.emplace_back();
    status.record = group.record;
    for (const auto& [gid, bits] : group.members) {
      const SubnetPort* port = ports_.AtGid(gid);
      status.members.push_back(GroupMember{port->name, port->config.lid, bits});
    }
  }
  std::sort(groups.begin(), groups.end(),
            [](const auto& a, const auto& b) { return a.record.mlid < b.record.mlid; });
  return groups;
}

std::vector<Subnet::ServiceStatus> Subnet::Services() const {
  absl::MutexLock lock(&mutex_);
  std::vector<ServiceStatus> services;
  for (const ServiceRecord& record : agents_.services().All())
    services.push_back({ports_.AtGid(record.gid)->name, record});
  return services;
}

std::vector<Subnet::RingStatus> Subnet::Rings() const {
  absl::MutexLock lock(&mutex_);
  std::vector<RingStatus> rings;
  for (const auto& [ring, ends] : rings_.rings()) {
    rings.push_back(RingStatus{ring, ends.source->name, ends.destination->name, ends.capacity});
  }
  return rings;
}

std::vector<Subnet::Subscriptions> Subnet::AllSubscriptions() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Subscriptions> all;
  for (const auto& [gid, infos] : agents_.notices().subscriptions())
    all.push_back({ports_.AtGid(gid)->name, infos});
  return all;
}

Subnet::MadCounters Subnet::mad_counters() const {
  absl::MutexLock lock(&mutex_);
  return MadCounters{agents_.sa().counters(), agents_.notices().counters(),
                     agents_.smp().counters(), agents_.pma().counters()};
}

bool Subnet::sm_absent() const {
  absl::MutexLock lock(&mutex_);
  return !ports_.Switch().runs_sm;
}

Lid Subnet::sm_lid() const {
  absl::MutexLock lock(&mutex_);
  return ports_.Switch().lid;
}

std::vector<Fault> Subnet::Faults() const {
  absl::MutexLock lock(&mutex_);
  return faults_.All();
}

absl::optional<SoftPortCounters> Subnet::CountersOf(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  const SubnetPort* port = ports_.Find(name);
  if (port == nullptr || port->counters == nullptr) return absl::nullopt;
  return port->counters->Load();
}

Conservation Subnet::GetConservation() const {
  absl::MutexLock lock(&mutex_);
  return ledger_.Sum();
}

}  // namespace eoib::softhca
