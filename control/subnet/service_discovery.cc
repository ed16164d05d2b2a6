#include "control/subnet/service_discovery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/base/daemon/log.h"

namespace eoib {
namespace {

constexpr uint64_t kServicePrefix = 0x0265'6f69'6200'0000;  // 0x02, "eoib"
constexpr char kServiceName[] = "eoib";
constexpr uint16_t kRecordVersion = 1;

}  // namespace

uint64_t ServiceIdOf(PKey pkey) { return kServicePrefix | pkey.Full().value(); }

ServiceRecord ServiceRecordOf(PKey pkey, const AgentId& agent, const PeerAddress& address,
                              absl::Duration lease) {
  ServiceRecord record;
  record.id = ServiceIdOf(pkey);
  record.gid = address.gid;
  record.pkey = pkey.Full();
  record.lease = static_cast<uint32_t>(absl::ToInt64Seconds(lease));
  record.name = kServiceName;
  std::copy(agent.bytes().begin(), agent.bytes().end(), record.data.begin());
  WriteWire(be16(kRecordVersion), &record.data[ServiceRecord::kData16]);
  WriteWire(be32(address.qpn.value()), &record.data[ServiceRecord::kData32]);
  return record;
}

absl::optional<PeerAddress> AddressIn(const ServiceRecord& record) {
  const uint32_t qpn = ReadWire<be32>(&record.data[ServiceRecord::kData32]).value();
  const bool ours = record.name == kServiceName &&
                    ReadWire<be16>(&record.data[ServiceRecord::kData16]).value() == kRecordVersion;
  if (!ours || qpn <= 1 || qpn >= Qpn::kMulticast || record.gid.IsZero() ||
      record.gid.IsMulticast())
    return absl::nullopt;
  return PeerAddress{record.gid, Qpn(qpn)};
}

ServiceDiscovery::ServiceDiscovery(const Options& options, SaClient* sa, const Clock* clock,
                                   std::function<uint64_t()> random, Protocol protocol)
    : options_(options),
      sa_(sa),
      clock_(clock),
      random_(std::move(random)),
      protocol_(std::move(protocol)) {}

void ServiceDiscovery::SetAddress(const absl::optional<PeerAddress>& own) {
  if (own == own_) return;
  own_ = own;
  registration_.Cancel();
  if (!own_) {
    register_at_ = query_at_ = absl::InfiniteFuture();
    return;
  }
  // The SA replaces a record with the same GID, and would keep one with our former GID until its
  // lease ends.
  if (record_ && record_->gid != own_->gid)
    sa_->UnregisterService(*record_, [](absl::StatusOr<ServiceRecord>) {});
  Refresh();
}

// Others cannot find us before we are registered, so that goes first.
void ServiceDiscovery::Refresh() {
  if (!own_) return;
  register_backoff_.Reset();
  query_pauses_.Reset();
  query_at_ = absl::InfiniteFuture();
  Register();
}

void ServiceDiscovery::Register() {
  register_at_ = absl::InfiniteFuture();
  record_ = ServiceRecordOf(options_.pkey, options_.agent, *own_, kLease);
  sa_->RegisterService(*record_,
                       registration_.Await([this](const absl::StatusOr<ServiceRecord>& answer) {
                         Registered(answer.status());
                       }));
}

// Without a registration the table is read, too: then we find the others, and tell them of us.
void ServiceDiscovery::Registered(const absl::Status& status) {
  const absl::Time now = clock_->Now();
  if (query_pauses_.pauses() == 0) query_at_ = now;
  if (status.ok()) {
    register_trouble_.clear();
    register_backoff_.Reset();
    register_at_ = now + kLease / 2;
    return;
  }
  Fail(status, &register_trouble_);
  register_at_ = now + register_backoff_.Pause();
}

void ServiceDiscovery::Query() {
  const absl::Duration half = query_pauses_.Pause() / 2;
  query_at_ = clock_->Now() + half + half * (static_cast<double>(random_() % 2048) / 1024);
  if (query_.pending()) return;
  sa_->QueryServices(ServiceIdOf(options_.pkey),
                     query_.Await([this](const absl::StatusOr<std::vector<ServiceRecord>>& table) {
                       TakeTable(table);
                     }));
}

// Keeps the agents of a table that could not be read again: they may still be there.
void ServiceDiscovery::TakeTable(const absl::StatusOr<std::vector<ServiceRecord>>& table) {
  if (!table.ok() && !absl::IsNotFound(table.status()))
    return Fail(table.status(), &query_trouble_);
  query_trouble_.clear();
  const auto before = std::exchange(listed_, {});
  if (!table.ok()) return;
  for (const ServiceRecord& record : *table) {
    const absl::optional<PeerAddress> peer = AddressIn(record);
    if (!peer || peer == own_ || listed_.size() >= kMaxListed || !protocol_.is_listed(*peer))
      continue;
    const auto asked = before.find(*peer);
    const bool waits = asked != before.end() && asked->second.ask_at != absl::InfiniteFuture();
    listed_.emplace(*peer, waits ? asked->second : Listed{clock_->Now()});
  }
  Ask();
}

// Asks the agents that are due and not known. The next table shows whether those that are known
// still are.
void ServiceDiscovery::Ask() {
  const absl::Time now = clock_->Now();
  if (!own_ || now < may_ask_at_) return;
  size_t asked = 0;
  for (auto& [peer, listed] : listed_) {
    if (now < listed.ask_at) continue;
    if (asked == kAsksPerTurn) {
      may_ask_at_ = now + kTurn;
      return;
    }
    if (protocol_.knows(peer)) {
      listed.ask_at = absl::InfiniteFuture();
      continue;
    }
    protocol_.ask(peer);
    ++asked;
    listed.ask_at = now + listed.backoff.Pause();
  }
}

void ServiceDiscovery::Fail(const absl::Status& status, std::string* trouble) {
  if (*trouble == status.message()) return;
  LogWarning(absl::StrCat("VES ", options_.ves, ": ", status.message(), "; retrying"));
  *trouble = std::string(status.message());
}

void ServiceDiscovery::Leave(std::function<void()> done) {
  own_.reset();
  registration_.Cancel();
  register_at_ = query_at_ = absl::InfiniteFuture();
  if (!record_) return done();
  sa_->UnregisterService(*record_,
                         [done = std::move(done)](absl::StatusOr<ServiceRecord>) { done(); });
  record_.reset();
}

void ServiceDiscovery::Run() {
  const absl::Time now = clock_->Now();
  if (now >= register_at_) Register();
  if (now >= query_at_) Query();
  Ask();
}

absl::Time ServiceDiscovery::NextDeadline() const {
  if (!own_) return absl::InfiniteFuture();
  absl::Time ask = absl::InfiniteFuture();
  for (const auto& [peer, listed] : listed_) ask = std::min(ask, listed.ask_at);
  return std::min({register_at_, query_at_, std::max(ask, may_ask_at_)});
}

}  // namespace eoib
