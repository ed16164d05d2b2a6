#include "vswitch/fabric/sa_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

// How much one Run takes in, so that a flood of MADs does not keep its caller from everything else.
constexpr int kMadsPerRun = 256;

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
  AskGroup("join", MadMethod::kSet, record, component_mask, std::move(done));
}

void SaClient::Leave(const McMemberRecord& record, GroupCallback done) {
  AskGroup("leave", MadMethod::kDelete, record, mcm::kMgid | mcm::kPortGid | mcm::kJoinState, std::move(done));
}

void SaClient::QueryGroup(const McMemberRecord& record, uint64_t component_mask, GroupCallback done) {
  AskGroup("query group", MadMethod::kGet, record, component_mask, std::move(done));
}

void SaClient::AskGroup(absl::string_view verb, MadMethod method, const McMemberRecord& record, uint64_t component_mask,
                        GroupCallback done) {
  Request request;
  request.what = absl::StrCat(verb, " ", record.mgid.ToString());
  request.header.method = method;
  request.header.attribute = SaAttribute::kMcMemberRecord;
  request.header.component_mask = component_mask;
  request.header.tid = NewTid();
  request.group = record;
  request.group_done = std::move(done);
  EncodeSaHeader(request.header, &request.mad);
  EncodeMcMemberRecord(record, SaRecord(&request.mad));
  Start(std::move(request));
}

void SaClient::QueryPath(const Gid& sgid, const Gid& dgid, PKey pkey, PathCallback done) {
  Request request;
  request.what = absl::StrCat("query path to ", dgid.ToString());
  request.header.attribute = SaAttribute::kPathRecord;
  request.header.component_mask = path::kDgid | path::kSgid | path::kReversible | path::kNumbPath | path::kPKey;
  request.header.tid = NewTid();
  request.path.dgid = dgid;
  request.path.sgid = sgid;
  request.path.pkey = pkey;
  request.path_done = std::move(done);
  EncodeSaHeader(request.header, &request.mad);
  EncodePathRecord(request.path, SaRecord(&request.mad));
  Start(std::move(request));
}

// A transaction ID that is neither 0 nor in use.
uint64_t SaClient::NewTid() {
  uint64_t tid = 0;
  do {
    tid = next_tid_++ & MadTransport::kTidMask;
  } while (tid == 0 || outstanding_.contains(tid));
  return tid;
}

void SaClient::Start(Request request) {
  ++counters_.requests;
  request.attempts_left = std::max(options_.attempts, 1);
  request.timeout = options_.first_timeout;
  const uint64_t tid = request.header.tid;
  Transmit(&outstanding_.emplace(tid, std::move(request)).first->second);
}

void SaClient::Transmit(Request* request) {
  request->last_error = mads_->Send(request->mad);
  request->deadline = clock_->Now() + request->timeout;
  request->timeout *= 2;
  --request->attempts_left;
}

void SaClient::Run() {
  Mad mad;
  for (int i = 0; i < kMadsPerRun && mads_->Receive(&mad); ++i) {
    if (!Accept(mad)) ++counters_.ignored;
  }
  TransmitDue();
}

// Repeats or gives up what is due. Callbacks may start requests, so nothing is held into the table across one.
void SaClient::TransmitDue() {
  const absl::Time now = clock_->Now();
  std::vector<uint64_t> due;
  for (const auto& [tid, request] : outstanding_) {
    if (request.deadline <= now) due.push_back(tid);
  }
  std::sort(due.begin(), due.end());
  for (uint64_t tid : due) {
    Request& request = outstanding_.at(tid);
    if (request.attempts_left > 0) {
      ++counters_.retries;
      Transmit(&request);
      continue;
    }
    ++counters_.timeouts;
    const absl::Status& error = request.last_error;
    Fail(tid, absl::DeadlineExceededError(absl::StrCat(request.what, ": no answer from the subnet administrator",
                                                       error.ok() ? "" : ": ", error.message())));
  }
}

// False if the MAD is no answer to anything that was asked.
bool SaClient::Accept(const Mad& mad) {
  absl::StatusOr<SaHeader> header = DecodeSaHeader(mad);
  if (!header.ok()) return false;
  auto it = outstanding_.find(header->tid);
  if (it == outstanding_.end()) return false;
  const Request& request = it->second;
  if (header->method != ResponseTo(request.header.method) || header->attribute != request.header.attribute) return false;
  if (header->status == static_cast<uint16_t>(SaStatus::kBusy)) return false;
  if (header->status == static_cast<uint16_t>(SaStatus::kOk)) {
    return request.group_done ? AcceptGroup(it, mad) : AcceptPath(it, mad);
  }
  ++counters_.errors;
  Fail(header->tid, absl::Status(CodeOf(header->status), absl::StrCat(request.what, ": the subnet administrator answers ",
                                                                      SaStatusName(header->status))));
  return true;
}

bool SaClient::AcceptGroup(Outstanding::iterator it, const Mad& mad) {
  absl::StatusOr<McMemberRecord> record = DecodeMcMemberRecord(SaRecord(mad));
  if (!record.ok()) return false;
  const Mgid& asked = it->second.group.mgid;
  if (!asked.gid().IsZero() && record->mgid != asked) return false;  // zero: the SA was to choose one (IBA 1.4 §15.2.5.17)
  GroupCallback done = std::move(it->second.group_done);
  outstanding_.erase(it);
  done(*std::move(record));
  return true;
}

bool SaClient::AcceptPath(Outstanding::iterator it, const Mad& mad) {
  absl::StatusOr<PathRecord> record = DecodePathRecord(SaRecord(mad));
  if (!record.ok()) return false;
  const PathRecord& asked = it->second.path;
  if (record->dgid != asked.dgid || record->sgid != asked.sgid) return false;
  PathCallback done = std::move(it->second.path_done);
  outstanding_.erase(it);
  done(*std::move(record));
  return true;
}

void SaClient::Fail(uint64_t tid, const absl::Status& status) {
  auto it = outstanding_.find(tid);
  const Request request = std::move(it->second);
  outstanding_.erase(it);
  if (request.group_done) {
    request.group_done(status);
  } else {
    request.path_done(status);
  }
}

absl::Time SaClient::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [tid, request] : outstanding_) next = std::min(next, request.deadline);
  return next;
}

}  // namespace eoib
