#include "vswitch/fabric/sa_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/wire/ib/sa_table.h"

namespace eoib {
namespace {

// MADs that one Run handles, so that a flood of MADs does not starve the caller's other work.
constexpr int kMadsPerRun = 256;

// The shortest wait for a table, which takes longer than a record: a retry makes the SA send all of
// it again.
constexpr absl::Duration kTableTimeout = absl::Seconds(2);

// A report with the same transaction ID and content within this time is a repetition. An SA repeats
// for seconds, and a restarted SA may reuse transaction IDs.
constexpr absl::Duration kRepeats = absl::Seconds(10);
constexpr size_t kReportsKept = 64;

// Writes the transaction ID into a request that is otherwise complete.
void StampTid(uint64_t tid, Mad* mad) {
  absl::StatusOr<MadHeader> header = DecodeMadHeader(*mad);
  header->tid = tid;
  EncodeMadHeader(*header, mad);
}

std::string ServiceIdText(uint64_t id) {
  return absl::StrCat("0x", absl::Hex(id, absl::kZeroPad16));
}

// Whether an answer has the identity of `record`.
std::function<bool(const ServiceRecord&)> IsSameService(const ServiceRecord& record) {
  return [id = record.id, gid = record.gid, pkey = record.pkey](const ServiceRecord& answer) {
    return answer.id == id && answer.gid == gid && answer.pkey == pkey;
  };
}

absl::StatusCode CodeOf(uint16_t status) {
  switch (static_cast<SaStatus>(status)) {
    case SaStatus::kNoRecords:
      return absl::StatusCode::kNotFound;
    case SaStatus::kNoResources:
      return absl::StatusCode::kResourceExhausted;
    case SaStatus::kInvalidField:
    case SaStatus::kRequestInvalid:
    case SaStatus::kInvalidGid:
      return absl::StatusCode::kInvalidArgument;
    case SaStatus::kInsufficientComponents:
      return absl::StatusCode::kFailedPrecondition;
    case SaStatus::kUnsupportedVersion:
    case SaStatus::kUnsupportedMethod:
    case SaStatus::kUnsupportedMethodAttribute:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

SaClient::SaClient(MadTransport* mads, const Clock* clock, const Options& options)
    : mads_(mads), clock_(clock), options_(options), next_tid_(options.first_tid) {}

void SaClient::Join(const McMemberRecord& record, uint64_t component_mask, GroupCallback done) {
  StartGroupRequest("join", MadMethod::kSet, record, component_mask, std::move(done));
}

void SaClient::Leave(const McMemberRecord& record, GroupCallback done) {
  StartGroupRequest("leave", MadMethod::kDelete, record,
                    mcm::kMgid | mcm::kPortGid | mcm::kJoinState, std::move(done));
}

void SaClient::QueryGroup(const McMemberRecord& record, uint64_t component_mask,
                          GroupCallback done) {
  StartGroupRequest("query group", MadMethod::kGet, record, component_mask, std::move(done));
}

void SaClient::QueryGroups(const McMemberRecord& record, uint64_t component_mask,
                           GroupsCallback done) {
  Request request = GroupRequest("query groups like", MadMethod::kGetTable, record, component_mask);
  request.handlers = ForMany<McMemberRecord>(
      &DecodeMcMemberRecord, [](const McMemberRecord&) { return true; }, std::move(done));
  Start(std::move(request));
}

void SaClient::StartGroupRequest(absl::string_view verb, MadMethod method,
                                 const McMemberRecord& record, uint64_t component_mask,
                                 GroupCallback done) {
  Request request = GroupRequest(verb, method, record, component_mask);
  const auto is_wanted = [mgid = record.mgid](const McMemberRecord& answer) {
    // Zero: the SA chose the MGID (IBA 1.4 §15.2.5.17)
    return mgid.gid().IsZero() || answer.mgid == mgid;
  };
  request.handlers = ForOne<McMemberRecord>(&DecodeMcMemberRecord, is_wanted, std::move(done));
  Start(std::move(request));
}

SaClient::Request SaClient::GroupRequest(absl::string_view verb, MadMethod method,
                                         const McMemberRecord& record,
                                         uint64_t component_mask) const {
  Request request;
  request.what = absl::StrCat(verb, " ", record.mgid.ToString());
  request.header.method = method;
  request.header.attribute = SaAttribute::kMcMemberRecord;
  request.header.component_mask = component_mask;
  EncodeSaHeader(request.header, &request.mad);
  EncodeMcMemberRecord(record, SaRecord(&request.mad));
  return request;
}

void SaClient::QueryPath(const Gid& sgid, const Gid& dgid, PKey pkey, PathCallback done) {
  PathRecord record;
  record.dgid = dgid;
  record.sgid = sgid;
  record.pkey = pkey;
  StartPathRequest(absl::StrCat("query path to ", dgid.ToString()), record, path::kDgid,
                   std::move(done));
}

void SaClient::QueryPathAt(const Gid& sgid, const Gid& dgid, Lid dlid, PKey pkey,
                           PathCallback done) {
  PathRecord record;
  record.dgid = dgid;
  record.sgid = sgid;
  record.dlid = dlid;
  record.pkey = pkey;
  StartPathRequest(
      absl::StrCat("query path to ", dgid.ToString(), " through LID ", dlid.ToString()), record,
      path::kDgid | path::kDlid, std::move(done));
}

// Queries a single path, in order. An answer for other ports, or for another LID than the mask asks
// for, is none.
void SaClient::StartPathRequest(std::string what, const PathRecord& record, uint64_t component_mask,
                                PathCallback done) {
  Request request = PathRequest(std::move(what), MadMethod::kGet, record, component_mask);
  const bool at_lid = (component_mask & path::kDlid) != 0;
  const auto is_wanted = [record, at_lid](const PathRecord& answer) {
    return answer.dgid == record.dgid && answer.sgid == record.sgid &&
           (!at_lid || answer.dlid == record.dlid);
  };
  request.handlers = ForOne<PathRecord>(&DecodePathRecord, is_wanted, std::move(done));
  request.waits_in_order = true;
  waiting_.push_back(std::move(request));
  StartWaiting();
}

void SaClient::QueryPaths(const Gid& sgid, PKey pkey, PathsCallback done) {
  PathRecord record;
  record.sgid = sgid;
  record.pkey = pkey;
  Request request = PathRequest(absl::StrCat("query all paths from ", sgid.ToString()),
                                MadMethod::kGetTable, record, 0);
  const auto is_wanted = [sgid](const PathRecord& answer) { return answer.sgid == sgid; };
  request.handlers = ForMany<PathRecord>(&DecodePathRecord, is_wanted, std::move(done));
  Start(std::move(request));
}

// Makes a request for reversible paths from `record.sgid`. `component_mask` is added to the
// components of every path request.
SaClient::Request SaClient::PathRequest(std::string what, MadMethod method,
                                        const PathRecord& record, uint64_t component_mask) const {
  Request request;
  request.what = std::move(what);
  request.header.method = method;
  request.header.attribute = SaAttribute::kPathRecord;
  request.header.component_mask =
      component_mask | path::kSgid | path::kReversible | path::kNumbPath | path::kPKey;
  EncodeSaHeader(request.header, &request.mad);
  EncodePathRecord(record, SaRecord(&request.mad));
  return request;
}

void SaClient::RegisterService(const ServiceRecord& record, ServiceCallback done) {
  constexpr uint64_t kMask = service::kId | service::kGid | service::kPKey | service::kLease |
                             service::kName | service::kData;
  Request request = ServiceRequest(absl::StrCat("register service ", ServiceIdText(record.id)),
                                   MadMethod::kSet, record, kMask);
  request.handlers =
      ForOne<ServiceRecord>(&DecodeServiceRecord, IsSameService(record), std::move(done));
  Start(std::move(request));
}

void SaClient::UnregisterService(const ServiceRecord& record, ServiceCallback done) {
  Request request =
      ServiceRequest(absl::StrCat("unregister service ", ServiceIdText(record.id)),
                     MadMethod::kDelete, record, service::kId | service::kGid | service::kPKey);
  request.handlers =
      ForOne<ServiceRecord>(&DecodeServiceRecord, IsSameService(record), std::move(done));
  Start(std::move(request));
}

void SaClient::QueryServices(uint64_t service_id, ServicesCallback done) {
  ServiceRecord record;
  record.id = service_id;
  Request request = ServiceRequest(absl::StrCat("query services ", ServiceIdText(service_id)),
                                   MadMethod::kGetTable, record, service::kId);
  request.handlers = ForMany<ServiceRecord>(
      &DecodeServiceRecord,
      [service_id](const ServiceRecord& answer) { return answer.id == service_id; },
      std::move(done));
  Start(std::move(request));
}

SaClient::Request SaClient::ServiceRequest(std::string what, MadMethod method,
                                           const ServiceRecord& record, uint64_t component_mask) {
  Request request;
  request.what = std::move(what);
  request.header.method = method;
  request.header.attribute = SaAttribute::kServiceRecord;
  request.header.component_mask = component_mask;
  EncodeSaHeader(request.header, &request.mad);
  EncodeServiceRecord(record, SaRecord(&request.mad));
  return request;
}

void SaClient::Subscribe(SmTrap trap, SubscriptionCallback done) {
  Inform(trap, /*subscribe=*/true, std::move(done));
}
void SaClient::Unsubscribe(SmTrap trap, SubscriptionCallback done) {
  Inform(trap, /*subscribe=*/false, std::move(done));
}

void SaClient::Inform(SmTrap trap, bool subscribe, SubscriptionCallback done) {
  InformInfo info;
  info.subscribe = subscribe;
  info.trap = static_cast<uint16_t>(trap);
  info.producer = Notice::kProducerClassManager;
  Request request;
  request.what =
      absl::StrCat(subscribe ? "subscribe to trap " : "unsubscribe from trap ", info.trap);
  request.header.method = MadMethod::kSet;
  request.header.attribute = SaAttribute::kInformInfo;
  request.handlers = ForOne<InformInfo>(
      &DecodeInformInfo,
      [trap = info.trap](const InformInfo& answer) { return answer.trap == trap; },
      std::move(done));
  EncodeSaHeader(request.header, &request.mad);
  EncodeInformInfo(info, SaRecord(&request.mad));
  Start(std::move(request));
}

template <typename Record>
SaClient::Handlers SaClient::ForOne(Decoder<Record> decode,
                                    std::function<bool(const Record&)> is_wanted,
                                    std::function<void(absl::StatusOr<Record>)> done) {
  Handlers handlers;
  handlers.fail = [done](const absl::Status& status) { done(status); };
  handlers.take = [decode, is_wanted = std::move(is_wanted),
                   done = std::move(done)](const Records& records) -> Completion {
    absl::StatusOr<Record> record = decode(records.bytes);
    if (!record.ok() || !is_wanted(*record)) return nullptr;
    return [done, record = *std::move(record)] { done(record); };
  };
  return handlers;
}

// Leaves out records that are malformed or were not asked for.
template <typename Record>
SaClient::Handlers SaClient::ForMany(
    Decoder<Record> decode, std::function<bool(const Record&)> is_wanted,
    std::function<void(absl::StatusOr<std::vector<Record>>)> done) {
  Handlers handlers;
  handlers.fail = [done](const absl::Status& status) { done(status); };
  handlers.take = [decode, is_wanted = std::move(is_wanted),
                   done = std::move(done)](const Records& records) -> Completion {
    std::vector<Record> table;
    for (size_t at = 0; at < records.bytes.size(); at += records.stride) {
      absl::StatusOr<Record> record = decode(records.bytes.subspan(at));
      if (record.ok() && is_wanted(*record)) table.push_back(*std::move(record));
    }
    return [done, table = std::move(table)]() mutable { done(std::move(table)); };
  };
  return handlers;
}

// Returns a transaction ID that is neither 0 nor in use.
uint64_t SaClient::NewTid() {
  uint64_t tid = 0;
  do {
    tid = next_tid_++ & MadTransport::kTidMask;
  } while (tid == 0 || outstanding_.contains(tid));
  return tid;
}

void SaClient::Start(Request request) {
  const uint64_t tid = NewTid();
  request.header.tid = tid;
  request.attempts_left = std::max(options_.attempts, 1);
  request.timeout = options_.first_timeout;
  StampTid(tid, &request.mad);
  Transmit(&outstanding_.emplace(tid, std::move(request)).first->second);
}

void SaClient::StartWaiting() {
  for (; path_queries_ < options_.path_queries && !waiting_.empty(); ++path_queries_) {
    Request request = std::move(waiting_.front());
    waiting_.pop_front();
    Start(std::move(request));
  }
}

void SaClient::Transmit(Request* request) {
  const bool table = request->header.method == MadMethod::kGetTable;
  request->last_error = mads_->Send(request->mad);
  request->deadline =
      clock_->Now() + (table ? std::max(request->timeout, kTableTimeout) : request->timeout);
  request->timeout *= 2;
  --request->attempts_left;
}

void SaClient::Run() {
  std::vector<uint8_t> mad;
  for (int i = 0; i < kMadsPerRun && mads_->Receive(&mad); ++i) {
    if (!Accept(mad)) ++ignored_;
  }
  TransmitDue();
  StartWaiting();
}

// Retries or fails the requests whose deadline has passed. Callbacks may start requests, so no
// iterator is held across one.
void SaClient::TransmitDue() {
  const absl::Time now = clock_->Now();
  std::vector<uint64_t> due;
  for (const auto& [tid, request] : outstanding_) {
    if (request.deadline <= now) due.push_back(tid);
  }
  std::sort(due.begin(), due.end());
  for (uint64_t tid : due) {
    const auto it = outstanding_.find(tid);
    Request& request = it->second;
    if (request.attempts_left > 0) {
      Transmit(&request);
      continue;
    }
    const absl::Status& error = request.last_error;
    Fail(it, absl::DeadlineExceededError(absl::StrCat(request.what,
                                                      ": no answer from the subnet administrator",
                                                      error.ok() ? "" : ": ", error.message())));
  }
}

// Returns false if the MAD answers no request.
bool SaClient::Accept(absl::Span<const uint8_t> mad) {
  absl::StatusOr<SaHeader> header = DecodeSaHeader(mad);
  if (!header.ok()) return false;
  if (header->method == MadMethod::kReport) return AcceptReport(*header, mad);
  auto it = outstanding_.find(header->tid & MadTransport::kTidMask);
  if (it == outstanding_.end()) return false;
  const Request& request = it->second;
  if (header->method != ResponseTo(request.header.method) ||
      header->attribute != request.header.attribute)
    return false;
  // A busy SA wants a retry later, which the request's timeout gives.
  if (header->status == static_cast<uint16_t>(SaStatus::kBusy)) return false;
  if (header->status != static_cast<uint16_t>(SaStatus::kOk)) {
    Fail(it, absl::Status(CodeOf(header->status),
                          absl::StrCat(request.what, ": the subnet administrator answers ",
                                       SaStatusName(header->status))));
    return true;
  }
  if (request.header.method == MadMethod::kGetTable) return AcceptTable(it, *header, mad);
  return AcceptRecords(it, {SaRecord(mad), kMaxSaRecord});
}

// Acknowledges every copy of a report (IBA 1.4 §13.4.11), because the SA repeats it until it
// receives an acknowledgement.
bool SaClient::AcceptReport(const SaHeader& header, absl::Span<const uint8_t> mad) {
  const absl::StatusOr<Notice> notice = DecodeNotice(SaRecord(mad));
  if (header.attribute != SaAttribute::kNotice || !notice.ok()) return false;
  SaHeader acknowledged = header;
  acknowledged.method = MadMethod::kReportResp;
  Mad reply;
  EncodeSaHeader(acknowledged, &reply);
  EncodeNotice(*notice, SaRecord(&reply));
  mads_->Reply(reply).IgnoreError();
  if (!IsRepeated(header.tid, *notice)) on_notice_(*notice);
  return true;
}

bool SaClient::IsRepeated(uint64_t tid, const Notice& notice) {
  const absl::Time now = clock_->Now();
  while (!latest_reports_.empty() &&
         (latest_reports_.size() > kReportsKept || now - latest_reports_.front().at > kRepeats))
    latest_reports_.pop_front();
  for (const LatestReport& latest : latest_reports_) {
    if (latest.tid == tid && latest.notice == notice) return true;
  }
  latest_reports_.push_back({tid, notice, now});
  return false;
}

bool SaClient::AcceptTable(Outstanding::iterator it, const SaHeader& header,
                           absl::Span<const uint8_t> mad) {
  if (!IsSaTable(mad)) return false;
  const Request& request = it->second;
  const absl::Span<const uint8_t> table = SaRecord(mad);
  const size_t stride = header.attribute_offset * size_t{8};
  // Records closer together than one record's size would overlap.
  if (table.empty() || stride >= SaRecordStride(request.header.attribute))
    return AcceptRecords(it, {table, stride});
  Fail(it, absl::InternalError(absl::StrCat(
               request.what, ": the subnet administrator sends records ", stride, " bytes apart")));
  return true;
}

bool SaClient::AcceptRecords(Outstanding::iterator it, const Records& records) {
  const Completion done = it->second.handlers.take(records);
  if (done == nullptr) return false;
  Remove(it);
  done();
  return true;
}

SaClient::Request SaClient::Remove(Outstanding::iterator it) {
  Request request = std::move(it->second);
  outstanding_.erase(it);
  if (request.waits_in_order) --path_queries_;
  return request;
}

void SaClient::Fail(Outstanding::iterator it, const absl::Status& status) {
  Remove(it).handlers.fail(status);
}

absl::Time SaClient::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [tid, request] : outstanding_) next = std::min(next, request.deadline);
  return next;
}

}  // namespace eoib
