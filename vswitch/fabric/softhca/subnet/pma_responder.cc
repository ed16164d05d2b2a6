#include "vswitch/fabric/softhca/subnet/pma_responder.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib::softhca {
namespace {

// ClassPortInfo's CapabilityMask (§16.1.3.1): 64-bit counters, also for unicast and multicast
// separately.
constexpr uint16_t kExtendedWidth = 1u << 9;
constexpr uint8_t kPmaAllPorts = 0xff;

struct Counter {
  uint64_t PortCountersAttribute::*value;
  uint16_t bit;           // in CounterSelect of PortCounters (§16.1.3.5); 0: absent
  uint16_t extended_bit;  // in CounterSelect of PortCountersExtended (§16.1.4.11); 0: absent
};
constexpr Counter kCounters[] = {
    {&PortCountersAttribute::rcv_errors, 1u << 3, 0},
    {&PortCountersAttribute::xmit_discards, 1u << 6, 0},
    {&PortCountersAttribute::xmit_constraint_errors, 1u << 7, 0},
    {&PortCountersAttribute::rcv_constraint_errors, 1u << 8, 0},
    {&PortCountersAttribute::xmit_data, 1u << 12, 1u << 0},
    {&PortCountersAttribute::rcv_data, 1u << 13, 1u << 1},
    {&PortCountersAttribute::xmit_packets, 1u << 14, 1u << 2},
    {&PortCountersAttribute::rcv_packets, 1u << 15, 1u << 3},
    {&PortCountersAttribute::unicast_xmit_packets, 0, 1u << 4},
    {&PortCountersAttribute::unicast_rcv_packets, 0, 1u << 5},
    {&PortCountersAttribute::multicast_xmit_packets, 0, 1u << 6},
    {&PortCountersAttribute::multicast_rcv_packets, 0, 1u << 7},
};

}  // namespace

PortCountersAttribute PmaResponder::ToAttribute(const SoftPortCounters& counters) {
  PortCountersAttribute attribute;
  attribute.port = kHcaPort;
  attribute.rcv_errors = counters.rcv_bad_address + counters.corrupt_rings;
  attribute.xmit_discards = counters.xmit_discards + counters.xmit_unreachable;
  attribute.xmit_constraint_errors = counters.xmit_pkey_errors;
  attribute.rcv_constraint_errors = counters.rcv_pkey_violations;
  attribute.xmit_data = counters.xmit_data;
  attribute.rcv_data = counters.rcv_data;
  attribute.xmit_packets = counters.xmit_packets;
  attribute.rcv_packets = counters.rcv_packets;
  attribute.multicast_xmit_packets = counters.xmit_multicast_packets;
  attribute.multicast_rcv_packets = counters.rcv_multicast_packets;
  // The port may count while its page is read, so the part can exceed the whole.
  attribute.unicast_xmit_packets =
      counters.xmit_packets - std::min(counters.xmit_packets, counters.xmit_multicast_packets);
  attribute.unicast_rcv_packets =
      counters.rcv_packets - std::min(counters.rcv_packets, counters.rcv_multicast_packets);
  return attribute;
}

absl::optional<Mad> PmaResponder::Respond(const ManagedPort& port, const Mad& mad) {
  const absl::StatusOr<MadHeader> request = DecodeMadHeader(mad);
  const bool in_order =
      request.ok() && request->mgmt_class == MgmtClass::kPerf && !request->IsResponse();
  if (!in_order) return absl::nullopt;
  ++counters_.requests;
  Mad reply = mad;
  MadHeader header = *request;
  header.class_version = kPerfClassVersion;
  header.method = MadMethod::kGetResp;
  header.status = static_cast<uint16_t>(Answer(port, *request, mad, &reply));
  EncodeMadHeader(header, &reply);
  return reply;
}

MadStatus PmaResponder::Answer(const ManagedPort& port, const MadHeader& request, const Mad& mad,
                               Mad* reply) {
  if (request.class_version != kPerfClassVersion) return MadStatus::kUnsupportedVersion;
  if (request.method != MadMethod::kGet && request.method != MadMethod::kSet)
    return MadStatus::kUnsupportedMethod;
  switch (static_cast<PerfAttribute>(request.attribute)) {
    case PerfAttribute::kClassPortInfo: {
      if (request.method != MadMethod::kGet) return MadStatus::kUnsupportedMethodAttribute;
      ClassPortInfo info;
      info.class_version = kPerfClassVersion;
      info.capability_mask = kExtendedWidth;
      EncodeClassPortInfo(info, PerfData(reply));
      return MadStatus::kOk;
    }
    case PerfAttribute::kPortCounters:
      return AnswerCounters(port, /*extended=*/false, request, mad, reply);
    case PerfAttribute::kPortCountersExtended:
      return AnswerCounters(port, /*extended=*/true, request, mad, reply);
    default:
      return MadStatus::kUnsupportedMethodAttribute;
  }
}

MadStatus PmaResponder::AnswerCounters(const ManagedPort& port, bool extended,
                                       const MadHeader& request, const Mad& mad, Mad* reply) {
  const absl::StatusOr<PortCountersAttribute> asked =
      extended ? DecodePortCountersExtended(PerfData(mad)) : DecodePortCounters(PerfData(mad));
  if (!asked.ok() || (asked->port != kHcaPort && asked->port != kPmaAllPorts))
    return MadStatus::kInvalidField;
  Baselines& baselines = baselines_[port.config.gid];
  PortCountersAttribute& baseline = extended ? baselines.extended : baselines.plain;
  PortCountersAttribute answer = ToAttribute(counters_of_(port));
  answer.port = asked->port;
  answer.select = asked->select;
  for (const Counter& counter : kCounters) {
    const uint64_t now = answer.*counter.value;
    const uint16_t bit = extended ? counter.extended_bit : counter.bit;
    if (request.method == MadMethod::kSet && (asked->select & bit) != 0)
      baseline.*counter.value = now;
    // The port's process can write any value, so a counter may even go back.
    answer.*counter.value = now - std::min(now, baseline.*counter.value);
  }
  extended ? EncodePortCountersExtended(answer, PerfData(reply))
           : EncodePortCounters(answer, PerfData(reply));
  return MadStatus::kOk;
}

}  // namespace eoib::softhca
