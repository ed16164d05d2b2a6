#include "vswitch/fabric/softhca/subnet/sa_responder.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "vswitch/fabric/softhca/subnet/sa_demand.h"
#include "vswitch/fabric/softhca/subnet/sa_paths.h"
#include "vswitch/wire/ib/sa_table.h"

namespace eoib::softhca {
namespace {

constexpr uint16_t kUdMulticastSupported = 1u << 10;  // ClassPortInfo's CapabilityMask (§15.2.1)
constexpr size_t kNoLimit = SIZE_MAX;

template <typename Record>
using Encoder = void (*)(const Record& record, absl::Span<uint8_t> bytes);

template <typename Record>
void Append(const Record& record, size_t stride, Encoder<Record> encode,
            std::vector<uint8_t>* records) {
  records->resize(records->size() + stride);
  encode(record, absl::MakeSpan(*records).last(stride));
}

// Answers with the records found: exactly one for Get, all of them for GetTable.
template <typename Record>
SaStatus AnswerWith(const std::vector<Record>& found, const SaHeader& request,
                    Encoder<Record> encode, std::vector<uint8_t>* records) {
  if (request.method == MadMethod::kGet && found.empty()) return SaStatus::kNoRecords;
  if (request.method == MadMethod::kGet && found.size() > 1) return SaStatus::kTooManyRecords;
  for (const Record& record : found)
    Append(record, SaRecordStride(request.attribute), encode, records);
  return SaStatus::kOk;
}

// True if the request leaves component `bit` open, or it is `equal`.
bool Is(uint64_t mask, uint64_t bit, bool equal) { return (mask & bit) == 0 || equal; }

// With bit 31 of the attribute modifier, the port must have at least the wanted capabilities;
// without it, exactly these (§15.2.5.3).
bool HasCapabilities(const PortInfoRecord& record, const SaHeader& request,
                     const PortInfoRecord& wanted) {
  constexpr uint32_t kAmongOthers = 1u << 31;
  const uint32_t mask =
      (request.attribute_modifier & kAmongOthers) != 0 ? wanted.info.capability_mask : ~0u;
  return Is(request.component_mask, port_info::kCapabilityMask,
            (record.info.capability_mask & mask) == wanted.info.capability_mask);
}

bool IsNode(const NodeRecord& record, uint64_t mask, const NodeRecord& wanted) {
  return Is(mask, node::kLid, record.lid == wanted.lid) &&
         Is(mask, node::kNodeType, record.node.type == wanted.node.type) &&
         Is(mask, node::kNodeGuid, record.node.node_guid == wanted.node.node_guid) &&
         Is(mask, node::kPortGuid, record.node.port_guid == wanted.node.port_guid) &&
         Is(mask, node::kNodeDescription, record.description == wanted.description);
}

}  // namespace

absl::optional<std::vector<uint8_t>> SaResponder::Respond(const PortConfig& requester,
                                                          const Mad& mad) {
  const absl::StatusOr<SaHeader> request = DecodeSaHeader(mad);
  if (!request.ok() || request->IsResponse()) {
    ++counters_.malformed;
    return absl::nullopt;
  }
  Records records;
  SaStatus status = Dispatch(requester, *request, mad, &records);
  if (records.size() > kMaxMad - kSaRecordOffset) status = SaStatus::kNoResources;
  SaHeader header = *request;
  header.method = ResponseTo(request->method);
  header.attribute_offset = 0;  // the encoder sets it
  header.status = static_cast<uint16_t>(status);
  ++counters_.requests;
  if (status == SaStatus::kOk && request->method == MadMethod::kGetTable) {
    ++counters_.tables;
    return EncodeSaTable(header, records);
  }
  Mad answer;
  EncodeSaHeader(header, &answer);
  if (status == SaStatus::kOk) {
    std::copy(records.begin(), records.end(), SaRecord(&answer).begin());
  } else {
    ++counters_.errors;
  }
  return Records(answer.begin(), answer.end());
}

SaStatus SaResponder::Dispatch(const PortConfig& requester, const SaHeader& request, const Mad& mad,
                               Records* records) {
  switch (request.method) {
    case MadMethod::kSet:
      if (request.attribute == SaAttribute::kInformInfo) return Inform(requester, mad, records);
      [[fallthrough]];
    case MadMethod::kDelete:
      if (request.attribute == SaAttribute::kMcMemberRecord)
        return DispatchMcMember(requester, request, mad, records);
      if (request.attribute == SaAttribute::kServiceRecord)
        return DispatchService(requester, request, mad, records);
      return SaStatus::kUnsupportedMethodAttribute;
    case MadMethod::kGet:
    case MadMethod::kGetTable:
      return DispatchQuery(requester, request, mad, records);
    default:
      return SaStatus::kUnsupportedMethod;
  }
}

SaStatus SaResponder::DispatchMcMember(const PortConfig& requester, const SaHeader& request,
                                       const Mad& mad, Records* records) {
  absl::StatusOr<McMemberRecord> record = DecodeMcMemberRecord(SaRecord(mad));
  if (!record.ok()) return SaStatus::kRequestInvalid;
  const SaStatus status = request.method == MadMethod::kSet
                              ? groups_->Join(requester, request.component_mask, &*record)
                              : groups_->Leave(requester, request.component_mask, &*record);
  if (status == SaStatus::kOk) Append(*record, kMcMemberRecordSize, EncodeMcMemberRecord, records);
  return status;
}

SaStatus SaResponder::DispatchService(const PortConfig& requester, const SaHeader& request,
                                      const Mad& mad, Records* records) {
  absl::StatusOr<ServiceRecord> record = DecodeServiceRecord(SaRecord(mad));
  if (!record.ok()) return SaStatus::kRequestInvalid;
  const SaStatus status = request.method == MadMethod::kSet
                              ? services_->Set(requester, request.component_mask, &*record)
                              : services_->Delete(requester, request.component_mask, &*record);
  if (status == SaStatus::kOk) Append(*record, kServiceRecordSize, EncodeServiceRecord, records);
  return status;
}

SaStatus SaResponder::DispatchQuery(const PortConfig& requester, const SaHeader& request,
                                    const Mad& mad, Records* records) const {
  switch (request.attribute) {
    case SaAttribute::kMcMemberRecord:
      return FindGroups(requester, request, mad, records);
    case SaAttribute::kServiceRecord:
      return FindServices(requester, request, mad, records);
    case SaAttribute::kPathRecord:
      return FindPaths(requester, request, mad, records);
    case SaAttribute::kNodeRecord:
      return FindNodes(requester, request, mad, records);
    case SaAttribute::kPortInfoRecord:
      return FindPortInfos(requester, request, mad, records);
    case SaAttribute::kPKeyTableRecord:
      return FindPKeyTables(requester, request, mad, records);
    case SaAttribute::kClassPortInfo: {
      if (request.method != MadMethod::kGet) return SaStatus::kUnsupportedMethodAttribute;
      ClassPortInfo info;
      info.capability_mask = kUdMulticastSupported;
      info.response_time_value = kPacketLife;
      Append(info, kClassPortInfoSize, EncodeClassPortInfo, records);
      return SaStatus::kOk;
    }
    default:
      return SaStatus::kUnsupportedMethodAttribute;
  }
}

// The answer repeats the request's record, as for any Set (§15.2.2.2).
SaStatus SaResponder::Inform(const PortConfig& requester, const Mad& mad, Records* records) {
  const absl::StatusOr<InformInfo> info = DecodeInformInfo(SaRecord(mad));
  if (!info.ok()) return SaStatus::kRequestInvalid;
  const SaStatus status = notices_->Inform(requester.gid, *info);
  if (status == SaStatus::kOk) Append(*info, kInformInfoSize, EncodeInformInfo, records);
  return status;
}

SaStatus SaResponder::FindGroups(const PortConfig& requester, const SaHeader& request,
                                 const Mad& mad, Records* records) const {
  Mad query = mad;
  // If the query leaves the MGID open, its bytes may be anything: make them a valid MGID for the
  // decoder.
  if ((request.component_mask & mcm::kMgid) == 0) SaRecord(&query)[0] = 0xff;
  const absl::StatusOr<McMemberRecord> wanted = DecodeMcMemberRecord(SaRecord(query));
  if (!wanted.ok()) return SaStatus::kRequestInvalid;
  return AnswerWith(groups_->Query(requester, request.component_mask, *wanted), request,
                    EncodeMcMemberRecord, records);
}

SaStatus SaResponder::FindServices(const PortConfig& requester, const SaHeader& request,
                                   const Mad& mad, Records* records) const {
  const absl::StatusOr<ServiceRecord> wanted = DecodeServiceRecord(SaRecord(mad));
  if (!wanted.ok()) return SaStatus::kRequestInvalid;
  return AnswerWith(services_->Query(requester, request.component_mask, *wanted), request,
                    EncodeServiceRecord, records);
}

SaStatus SaResponder::FindPaths(const PortConfig& requester, const SaHeader& request,
                                const Mad& mad, Records* records) const {
  const absl::StatusOr<PathRecord> wanted = DecodePathRecord(SaRecord(mad));
  if (!wanted.ok()) return SaStatus::kRequestInvalid;
  const uint64_t mask = request.component_mask;
  const bool get = request.method == MadMethod::kGet;
  // Get asks for one path, so it must name both ends.
  if (get &&
      ((mask & (path::kDgid | path::kDlid)) == 0 || (mask & (path::kSgid | path::kSlid)) == 0))
    return SaStatus::kInsufficientComponents;
  const bool limited = !get && (mask & path::kNumbPath) != 0;
  if (limited && wanted->numb_path == 0) return SaStatus::kRequestInvalid;
  std::vector<PathRecord> found;
  const SaStatus status = softhca::FindPaths(*ports_, *groups_, requester, mask, *wanted,
                                             get       ? 1
                                             : limited ? wanted->numb_path
                                                       : kNoLimit,
                                             &found);
  if (status != SaStatus::kOk) return status;
  return AnswerWith(found, request, EncodePathRecord, records);
}

std::vector<const ManagedPort*> SaResponder::VisiblePorts(const PortConfig& requester) const {
  std::vector<const ManagedPort*> ports = ports_->Active();
  std::erase_if(
      ports, [&requester](const ManagedPort* port) { return !MayKnow(requester, port->config); });
  return ports;
}

SaStatus SaResponder::FindNodes(const PortConfig& requester, const SaHeader& request,
                                const Mad& mad, Records* records) const {
  const absl::StatusOr<NodeRecord> wanted = DecodeNodeRecord(SaRecord(mad));
  if (!wanted.ok()) return SaStatus::kRequestInvalid;
  const ManagedSwitch& hub = ports_->Switch();
  std::vector<NodeRecord> found = {NodeRecord{hub.lid, NodeInfoOf(hub, 0), kSwitchDescription}};
  for (const ManagedPort* port : VisiblePorts(requester)) {
    found.push_back(NodeRecord{port->config.lid, NodeInfoOf(*port), port->name});
  }
  std::erase_if(found, [&](const NodeRecord& record) {
    return !IsNode(record, request.component_mask, *wanted);
  });
  return AnswerWith(found, request, EncodeNodeRecord, records);
}

SaStatus SaResponder::FindPortInfos(const PortConfig& requester, const SaHeader& request,
                                    const Mad& mad, Records* records) const {
  const absl::StatusOr<PortInfoRecord> wanted = DecodePortInfoRecord(SaRecord(mad));
  if (!wanted.ok()) return SaStatus::kRequestInvalid;
  std::vector<PortInfoRecord> found = {
      PortInfoRecord{ports_->Switch().lid, 0, PortInfoOf(ports_->Switch())}};
  for (const ManagedPort* port : VisiblePorts(requester)) {
    found.push_back(PortInfoRecord{port->config.lid, kHcaPort, PortInfoOf(*port)});
  }
  const uint64_t mask = request.component_mask;
  std::erase_if(found, [&](const PortInfoRecord& record) {
    return !Is(mask, port_info::kLid, record.lid == wanted->lid) ||
           !Is(mask, port_info::kPort, record.port == wanted->port) ||
           !HasCapabilities(record, request, *wanted);
  });
  return AnswerWith(found, request, EncodePortInfoRecord, records);
}

SaStatus SaResponder::FindPKeyTables(const PortConfig& requester, const SaHeader& request,
                                     const Mad& mad, Records* records) const {
  const absl::StatusOr<PKeyTableRecord> wanted = DecodePKeyTableRecord(SaRecord(mad));
  if (!wanted.ok()) return SaStatus::kRequestInvalid;
  std::vector<PKeyTableRecord> found;
  const uint64_t mask = request.component_mask;
  for (size_t block = 0; block < PKeyBlocks(requester); ++block) {
    // Ports other than a switch's ignore the port number (§15.2.5.11).
    if (!Is(mask, pkey_table::kLid, wanted->lid == requester.lid)) continue;
    if (!Is(mask, pkey_table::kBlock, wanted->block == block)) continue;
    found.push_back(PKeyTableRecord{requester.lid, static_cast<uint16_t>(block), kHcaPort,
                                    PKeyBlockOf(requester, block).value()});
  }
  return AnswerWith(found, request, EncodePKeyTableRecord, records);
}

}  // namespace eoib::softhca
