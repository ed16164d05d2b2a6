#include "vswitch/fabric/softhca/subnet/notice_forwarder.h"

#include <algorithm>

namespace eoib::softhca {
namespace {

// True if two subscriptions of a port are the same. The QPN names a client of the port, but all
// reports go to the general services QP; the response time is only a request.
bool SameSubscription(const InformInfo& a, const InformInfo& b) {
  return a.gid == b.gid && a.lid_begin == b.lid_begin && a.lid_end == b.lid_end &&
         a.generic == b.generic && a.type == b.type && a.trap == b.trap && a.producer == b.producer;
}

bool RangeIsValid(const InformInfo& info) {
  return !info.gid.IsZero() || info.lid_begin == InformInfo::kAllLids || info.lid_end == 0 ||
         info.lid_begin <= info.lid_end;
}

bool LidInRange(const InformInfo& info, uint16_t lid) {
  if (info.lid_begin == InformInfo::kAllLids) return true;
  return lid >= info.lid_begin && lid <= std::max(info.lid_begin, info.lid_end);
}

// §13.4.8.3: GID and LIDs select the issuer of the notice, not its subject.
bool Matches(const InformInfo& info, const Notice& notice) {
  const bool issuer =
      info.gid.IsZero() ? LidInRange(info, notice.issuer_lid) : info.gid == notice.issuer_gid;
  return issuer && info.generic == notice.generic &&
         (info.type == InformInfo::kAllTypes || info.type == static_cast<uint16_t>(notice.type)) &&
         (info.trap == InformInfo::kAllTraps || info.trap == notice.trap) &&
         (info.producer == InformInfo::kAllProducers || info.producer == notice.producer);
}

}  // namespace

SaStatus NoticeForwarder::Inform(const Gid& port, const InformInfo& info) {
  if (!RangeIsValid(info)) return SaStatus::kRequestInvalid;
  std::vector<InformInfo>& own = subscriptions_[port];
  const auto found = std::find_if(own.begin(), own.end(), [&info](const InformInfo& other) {
    return SameSubscription(info, other);
  });
  const bool is_known = found != own.end();
  if (info.subscribe && !is_known) own.push_back(info);
  if (!info.subscribe && is_known) own.erase(found);
  if (own.empty()) subscriptions_.erase(port);
  return info.subscribe || is_known ? SaStatus::kOk : SaStatus::kRequestInvalid;
}

bool NoticeForwarder::Wants(const Gid& port, const Notice& notice) const {
  const auto own = subscriptions_.find(port);
  return own != subscriptions_.end() &&
         std::any_of(own->second.begin(), own->second.end(),
                     [&notice](const InformInfo& info) { return Matches(info, notice); });
}

void NoticeForwarder::Forward(SmTrap trap, const Gid& about, const std::vector<PKey>& pkeys,
                              absl::Time now) {
  Notice notice = Notice::OfGid(trap, about);
  notice.issuer_lid = ports_->Switch().lid.value();
  notice.issuer_gid = ports_->Switch().gid;
  for (const auto& [subscriber, infos] : subscriptions_) {
    const ManagedPort* port = ports_->FindByGid(subscriber);
    if (port == nullptr || !ShareAPartition(port->config.pkeys, pkeys) ||
        !Wants(subscriber, notice))
      continue;
    StartReport(subscriber, notice, now);
  }
}

void NoticeForwarder::StartReport(const Gid& to, const Notice& notice, absl::Time now) {
  ++counters_.reports;
  SaHeader header;
  header.method = MadMethod::kReport;
  header.attribute = SaAttribute::kNotice;
  header.tid = next_tid_++;
  Report& report = reports_[header.tid];
  report = Report{to, Mad(), options_.transmissions, options_.first_timeout, now};
  EncodeSaHeader(header, &report.mad);
  EncodeNotice(notice, SaRecord(&report.mad));
}

void NoticeForwarder::Confirm(const Gid& port, uint64_t tid) {
  const auto report = reports_.find(tid);
  if (report == reports_.end() || report->second.to != port) return;
  ++counters_.confirmed;
  reports_.erase(report);
}

void NoticeForwarder::RemovePort(const Gid& port) {
  subscriptions_.erase(port);
  std::erase_if(reports_, [&port](const auto& report) { return report.second.to == port; });
}

void NoticeForwarder::Clear() {
  subscriptions_.clear();
  reports_.clear();
}

void NoticeForwarder::Run(absl::Time now, std::vector<OutgoingMad>* out) {
  for (auto next = reports_.begin(); next != reports_.end();) {
    const auto current = next++;
    Report& report = current->second;
    if (report.deadline > now) continue;
    if (report.transmissions_left == 0) {
      ++counters_.given_up;
      reports_.erase(current);
      continue;
    }
    if (report.transmissions_left-- < options_.transmissions) ++counters_.repeated;
    report.deadline = now + report.timeout;
    report.timeout *= 2;
    out->push_back(OutgoingMad{report.to, report.mad});
  }
}

absl::Time NoticeForwarder::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [tid, report] : reports_) next = std::min(next, report.deadline);
  return next;
}

}  // namespace eoib::softhca
