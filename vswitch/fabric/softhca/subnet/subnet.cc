#include "vswitch/fabric/softhca/subnet/subnet.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vswitch/fabric/softhca/port_name.h"

namespace eoib::softhca {
namespace {

uint64_t SystemSeed() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

// A write of LIDs costs two disk syncs, and any process that connects can cause one, so writes are rate-limited. If fabricd is
// killed before a write, a new port may take the LID.
constexpr absl::Duration kSaveInterval = absl::Milliseconds(100);
constexpr absl::Duration kSaveRetry = absl::Seconds(1);

// FNV-1a. A port's GUID depends on its name only, so it survives every restart.
uint64_t HashName(absl::string_view name, uint64_t salt) {
  uint64_t hash = 0xcbf2'9ce4'8422'2325ull ^ salt;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100'0000'01b3ull;
  hash ^= hash >> 32;
  return hash * 0x9e37'79b9'7f4a'7c15ull;
}

// A locally administered EUI-64 without the group bit.
Guid LocalGuid(uint64_t hash) { return Guid((hash & 0x00ff'ffff'ffff'ffffull) | 0x0200'0000'0000'0000ull); }

absl::Status DuplicateDoorbell(const std::string& name, int doorbell, std::shared_ptr<UniqueFd>* duplicate) {
  const int fd = fcntl(doorbell, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return absl::InternalError(absl::StrCat("duplicate the doorbell of port ", name, ": ", std::strerror(errno)));
  *duplicate = std::make_shared<UniqueFd>(fd);
  return absl::OkStatus();
}

}  // namespace

// The in-process link. All state is in the Subnet.
class Subnet::Link final : public SubnetLink {
 public:
  Link(Subnet* subnet, const RegistrationWish& wish) : subnet_(subnet), wish_(wish) {}
  ~Link() override { Link::Unregister(); }
  bool in_process() const override { return true; }

  absl::Status Register(const std::string& name, const PortResources& resources, PortUse use, PortSink* sink) override {
    absl::MutexLock lock(&mutex_);
    if (session_ != nullptr) {
      return absl::FailedPreconditionError(absl::StrCat("register port ", name, ": this link is already registered"));
    }
    return subnet_->Register(name, resources, use, wish_, sink, &session_);
  }
  void Unregister() override {
    if (std::shared_ptr<Session> session = Take()) subnet_->Unregister(session);
  }
  absl::Status SendMadTo(Lid destination, const Mad& mad) override { return subnet_->SendMad(session(), destination, mad); }
  absl::Status OpenRing(uint64_t request, Lid destination, RingEnd end) override {
    return subnet_->OpenRing(session(), request, destination, std::move(end));
  }
  void CloseRing(uint64_t ring) override { subnet_->CloseRing(session(), ring); }

 private:
  std::shared_ptr<Session> session() {
    absl::MutexLock lock(&mutex_);
    return session_;
  }
  std::shared_ptr<Session> Take() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(session_, nullptr);
  }

  Subnet* const subnet_;
  const RegistrationWish wish_;
  absl::Mutex mutex_;
  std::shared_ptr<Session> session_ ABSL_GUARDED_BY(mutex_);
};

const ManagedPort* Subnet::PortView::FindByGid(const Gid& gid) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const auto found = subnet_->by_gid_.find(gid);
  return found != subnet_->by_gid_.end() && found->second->config.active ? found->second : nullptr;
}

const ManagedPort* Subnet::PortView::FindByLid(Lid lid) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const auto found = subnet_->by_lid_.find(lid);
  return found != subnet_->by_lid_.end() && found->second->config.active ? found->second : nullptr;
}

std::vector<const ManagedPort*> Subnet::PortView::Active() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::vector<const ManagedPort*> active;
  for (const auto& [lid, port] : subnet_->by_lid_) {
    if (port->config.active) active.push_back(port);
  }
  return active;
}

const ManagedSwitch& Subnet::PortView::Switch() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return subnet_->switch_; }

Subnet::Subnet(Options options)
    : options_(std::move(options)),
      clock_(options_.clock != nullptr ? options_.clock : &system_clock_),
      partitions_(options_.config.partitions),
      random_(options_.seed != 0 ? options_.seed : SystemSeed()),
      agents_(
          &view_, [this](const ManagedPort& port) ABSL_NO_THREAD_SAFETY_ANALYSIS { return ReadCounters(port); }, clock_,
          options_.last_mlid,
          /*first_tid=*/random_()) {
  absl::MutexLock lock(&mutex_);
  // Ring identifiers must not repeat those of a former subnet: ports may still hold its rings.
  next_ring_ = (random_() << 32) + 1;
  switch_.guid = LocalGuid(HashName("", 0));  // a name that no port has
  switch_.gid = Gid::FromPrefixAndGuid(options_.gid_prefix, switch_.guid);
  if (options_.lids == nullptr) return;
  for (const auto& [name, kept] : options_.lids->ports()) MakePort(name, kept);
}

Subnet::~Subnet() {
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, port] : ports_) {
    ABSL_RAW_CHECK(port->owner == nullptr && port->guests.empty(), "a SubnetLink outlives its Subnet");
  }
}

std::unique_ptr<SubnetLink> Subnet::Connect(const RegistrationWish& wish) { return std::make_unique<Link>(this, wish); }

// ---- Registration.

absl::Status Subnet::Register(const std::string& name, const PortResources& resources, PortUse use,
                              const RegistrationWish& wish, PortSink* sink, std::shared_ptr<Session>* session) {
  if (absl::Status status = CheckPortName(name); !status.ok()) return status;
  auto made = std::make_shared<Session>();
  made->use = use;
  if (use == PortUse::kOwn) {
    if (absl::Status status = DuplicateDoorbell(name, resources.doorbell, &made->doorbell); !status.ok()) return status;
  }
  {
    absl::MutexLock lock(&mutex_);
    if (use == PortUse::kQuery && FindPort(name) == nullptr) {
      return absl::NotFoundError(absl::StrCat("query port ", name, ": there is no such port"));
    }
    Port* port = FindOrMakePort(name, wish);
    if (port == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat("register port ", name, ": no LID is left"));
    }
    made->port = port;
    made->process = next_process_++;
    if (use == PortUse::kOwn) {
      if (absl::Status status = Own(port, wish, made); !status.ok()) return status;
      made->sink = sink;
      SetCounters(port, resources.counters);
      agents_.CountersBegin(*port);
      Activate(port);
    } else {
      made->sink = sink;
      Visit(port, made);
    }
    *session = made;
  }
  Deliver();
  return absl::OkStatus();
}

Subnet::Port* Subnet::FindPort(const std::string& name) const {
  const auto found = ports_.find(name);
  return found == ports_.end() ? nullptr : found->second.get();
}

Subnet::Port* Subnet::FindOrMakePort(const std::string& name, const RegistrationWish& wish) {
  if (Port* port = FindPort(name)) return port;
  const absl::StatusOr<Lid> lid = AllocateLid(wish.lid);
  if (!lid.ok()) return nullptr;
  Port* port = MakePort(name, KeptPort{*lid, MakeGuid(name)});
  Keep(*port);
  return port;
}

Subnet::Port* Subnet::MakePort(const std::string& name, const KeptPort& kept) {
  auto port = std::make_unique<Port>();
  port->name = name;
  port->switch_port = FreeSwitchPort();
  PortConfig& config = port->config;
  config.node_guid = config.port_guid = kept.guid;
  config.gid = Gid::FromPrefixAndGuid(options_.gid_prefix, config.port_guid);
  config.lid = kept.lid;
  config.sm_lid = switch_.lid;
  config.mtu = options_.mtu;
  config.rate = options_.rate;
  UpdatePKeys(port.get());
  by_lid_[config.lid] = port.get();
  by_gid_[config.gid] = port.get();
  return (ports_[name] = std::move(port)).get();
}

uint8_t Subnet::FreeSwitchPort() const {
  std::array<bool, ManagedSwitch::kPorts + 1> taken{};
  for (const auto& [name, port] : ports_) taken[port->switch_port] = true;
  const auto free = std::find(taken.begin() + 1, taken.end(), false);
  return free == taken.end() ? 0 : static_cast<uint8_t>(free - taken.begin());
}

void Subnet::Keep(const Port& port) {
  if (options_.lids != nullptr) options_.lids->Keep(port.name, KeptPort{port.config.lid, port.config.port_guid});
}

bool Subnet::LidIsFree(Lid lid) const { return lid != kSmLid && lid != switch_.lid && by_lid_.count(lid) == 0; }

absl::StatusOr<Lid> Subnet::AllocateLid(Lid wish) {
  if (wish.IsValid() && LidIsFree(wish)) return wish;
  Lid candidate(kSmLid.value() + 1);
  while (candidate.IsValid() && !LidIsFree(candidate)) candidate = Lid(candidate.value() + 1);
  if (!candidate.IsValid()) return absl::ResourceExhaustedError("no LID is left");
  return candidate;
}

Guid Subnet::MakeGuid(const std::string& name) const {
  for (uint64_t salt = 0;; ++salt) {
    const Guid guid = LocalGuid(HashName(name, salt));
    const Gid gid = Gid::FromPrefixAndGuid(options_.gid_prefix, guid);
    if (gid != switch_.gid && by_gid_.count(gid) == 0) return guid;
  }
}

absl::Status Subnet::Own(Port* port, const RegistrationWish& wish, const std::shared_ptr<Session>& session) {
  if (port->owner != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat("register port ", port->name, ": a living process has registered it"));
  }
  const absl::StatusOr<QpnRange> qpns = AllocateQpns(wish.qpns, port->config.qpns);
  if (!qpns.ok()) return qpns.status();
  port->config.qpns = *qpns;
  port->owner = session;
  ++port->registrations;
  return absl::OkStatus();
}

// Ranges are aligned, so two of them are equal or disjoint. The first and the last are reserved, since they contain the
// special QPNs 0, 1 and 0xffffff. `former` is the range of the name's last registration; the next one must not get it.
absl::StatusOr<QpnRange> Subnet::AllocateQpns(const QpnRange& wish, const QpnRange& former) {
  constexpr uint32_t kSlots = (Qpn::kMax + 1) / kQpnsPerPort;
  const uint32_t wished = wish.first.value();
  const bool in_order = wish.count == kQpnsPerPort && wished % kQpnsPerPort == 0 && wished >= kQpnsPerPort &&
                        wished < (kSlots - 1) * kQpnsPerPort;
  if (in_order && QpnsAreFree(wished)) return wish;
  uint32_t slot = static_cast<uint32_t>(random_() % (kSlots - 2));
  for (uint32_t tried = 0; tried < kSlots - 2; ++tried, ++slot) {
    const uint32_t first = (1 + slot % (kSlots - 2)) * kQpnsPerPort;
    const bool is_former = former.count != 0 && former.first.value() == first;
    if (!is_former && QpnsAreFree(first)) return QpnRange{Qpn(first), kQpnsPerPort};
  }
  return absl::ResourceExhaustedError("register a port: no range of QPNs is left");
}

bool Subnet::QpnsAreFree(uint32_t first) const {
  return std::none_of(ports_.begin(), ports_.end(), [first](const auto& entry) {
    return entry.second->owner != nullptr && entry.second->config.qpns.first.value() == first;
  });
}

// Tells a newly registered port everything, its configuration first.
void Subnet::Activate(Port* port) {
  const bool was_active = port->config.active;
  UpdateActive(port);
  if (was_active) agents_.PortInService(*port);  // guests kept it up, but only now can it receive datagrams
  TellConfig(port);
  TellFaults(port);
  TellChangedFaults();  // a rule may name it as a source
  for (const auto& [mgid, group] : agents_.groups().groups()) {
    TellGroup(*port, group.record.mlid, ReceiverLids(group.record.mlid));
  }
  TellNews();
}

void Subnet::Visit(Port* port, const std::shared_ptr<Session>& session) {
  port->guests.insert(session);
  const bool was_active = port->config.active;
  UpdateActive(port);
  if (port->config.active == was_active) {
    Tell(session, [config = port->config](PortSink* to) { to->OnPortConfig(config); });
  } else {
    TellConfig(port);
  }
  TellNews();
}

bool Subnet::IsUsed(const Port& port) {
  const auto wants_it_up = [](const std::shared_ptr<Session>& guest) { return guest->use == PortUse::kManage; };
  return port.owner != nullptr || std::any_of(port.guests.begin(), port.guests.end(), wants_it_up);
}

void Subnet::UpdateActive(Port* port) {
  const bool active = port->link_up && IsUsed(*port);
  if (active == port->config.active) return;
  port->config.active = active;
  active ? agents_.PortInService(*port) : agents_.PortOutOfService(*port);
}

void Subnet::Unregister(const std::shared_ptr<Session>& session) {
  {
    absl::MutexLock lock(&mutex_);
    session->sink = nullptr;
    if (session->use == PortUse::kOwn) {
      Disown(session->port);
    } else {
      Leave(session->port, session);
    }
    // Another thread may be calling the sink.
    const auto not_being_told = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return being_told_ != session; };
    mutex_.Await(absl::Condition(&not_being_told));
  }
  Deliver();
}

void Subnet::CloseRingsOf(Port* port) {
  for (auto ring = rings_.begin(); ring != rings_.end();) {
    const auto current = ring++;
    if (current->second.source != port && current->second.destination != port) continue;
    TellRingClosed(current->second.source, current->first);
    TellRingClosed(current->second.destination, current->first);
    rings_.erase(current);
  }
}

void Subnet::Disown(Port* port) {
  CloseRingsOf(port);
  port->owner = nullptr;
  CountEnd(*port);
  // Its memberships end, even if a guest keeps the port up.
  if (std::exchange(port->config.active, false)) agents_.PortOutOfService(*port);
  UpdateActive(port);
  TellConfig(port);  // for its guests
  TellNews();
}

void Subnet::Leave(Port* port, const std::shared_ptr<Session>& session) {
  port->guests.erase(session);
  const bool was_active = port->config.active;
  UpdateActive(port);
  if (port->config.active != was_active) TellConfig(port);
  TellNews();
}

// ---- MADs and rings.

absl::Status Subnet::SendMad(const std::shared_ptr<Session>& session, Lid destination, const Mad& mad) {
  if (session == nullptr) return absl::FailedPreconditionError("send a MAD: the port is not registered");
  if (session->use == PortUse::kQuery) {
    return absl::PermissionDeniedError("send a MAD: the port is registered to be queried only");
  }
  {
    absl::MutexLock lock(&mutex_);
    Port* port = session->port;
    // As on a cable, a MAD without a receiver is lost, and the sender times out.
    if (session->sink == nullptr || !port->config.active) return absl::OkStatus();
    ++port->mads;
    agents_.Receive(*port, session->process, destination, mad);
    TellNews();
  }
  Deliver();
  return absl::OkStatus();
}

absl::Status Subnet::OpenRing(const std::shared_ptr<Session>& session, uint64_t request, Lid destination, RingEnd end) {
  if (session == nullptr) return absl::FailedPreconditionError("open a ring: the port is not registered");
  if (session->use != PortUse::kOwn) return absl::PermissionDeniedError("open a ring: this process does not own the port");
  {
    absl::MutexLock lock(&mutex_);
    if (session->sink == nullptr) return absl::FailedPreconditionError("open a ring: the port is not registered");
    Port* source = session->port;
    const auto found = by_lid_.find(destination);
    Port* target = found == by_lid_.end() ? nullptr : found->second;
    const std::string why = WhyNoRing(source, target, destination);
    if (why.empty()) {
      const uint64_t ring = next_ring_++;
      rings_[ring] = Ring{source, target, end.capacity};
      ++source->rings_made;
      Tell(target->owner, [ring, identity = IdentityOf(*source), end = std::move(end)](PortSink* to) mutable {
        to->OnRingOffered(ring, identity, std::move(end));
      });
      Tell(session,
           [request, ring, doorbell = target->owner->doorbell](PortSink* to) { to->OnRingOpened(request, ring, doorbell); });
    } else {
      ++source->rings_refused;
      Tell(session, [request, why](PortSink* to) { to->OnRingRefused(request, why); });
    }
  }
  Deliver();
  return absl::OkStatus();
}

std::string Subnet::WhyNoRing(const Port* source, const Port* destination, Lid lid) {
  if (!source->config.active) return absl::StrCat("port ", source->name, " is down");
  if (destination == nullptr) return absl::StrCat("no port has LID ", lid.ToString());
  if (destination->owner == nullptr) return absl::StrCat("no process runs port ", destination->name);
  if (!destination->config.active) return absl::StrCat("port ", destination->name, " is down");
  return "";
}

void Subnet::CloseRing(const std::shared_ptr<Session>& session, uint64_t ring) {
  if (session == nullptr || session->use != PortUse::kOwn) return;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = rings_.find(ring);
    if (session->sink == nullptr || found == rings_.end()) return;
    const Ring closed = found->second;
    if (session->port != closed.source && session->port != closed.destination) return;
    rings_.erase(found);
    TellRingClosed(session->port == closed.source ? closed.destination : closed.source, ring);
  }
  Deliver();
}

// A subnet that cannot write LIDs goes on. They are lost only at a restart, and `show` reports the error.
void Subnet::Run() {
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = clock_->Now();
    if (options_.lids != nullptr && options_.lids->unsaved() && now >= next_save_) next_save_ = now + SaveLids();
    agents_.Run();
    TellNews();
  }
  Deliver();
}

// Returns the time until the next call, if there is something to save then.
absl::Duration Subnet::SaveLids() {
  LidFile& lids = *options_.lids;
  const bool was_writing = lids.writing();
  lids.CollectWrite();
  if (lids.writing()) return kSaveInterval;
  if (was_writing && !lids.status().ok()) return kSaveRetry;
  if (lids.unsaved()) lids.StartSave();
  return kSaveInterval;
}

absl::Time Subnet::NextDeadline() const {
  absl::MutexLock lock(&mutex_);
  const bool saves = options_.lids != nullptr && options_.lids->unsaved();
  return std::min(agents_.NextDeadline(), saves ? next_save_ : absl::InfiniteFuture());
}

PortCounters Subnet::ReadCounters(const ManagedPort& port) const {
  const std::shared_ptr<const CountersPage>& counters = static_cast<const Port&>(port).counters;
  return counters == nullptr ? PortCounters() : counters->Load();
}

}  // namespace eoib::softhca
