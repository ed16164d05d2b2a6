#include "vswitch/wire/ip/group_report.h"

#include <algorithm>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_headers.h"

namespace eoib {
namespace {

constexpr uint8_t kReportTtl = 1;  // also the hop limit
constexpr uint16_t kRouterAlertForMld = 0;

constexpr uint8_t kIgmpQuery = 0x11;  // RFC 1112, appendix I, RFC 2236 §2.1, RFC 3376 §4.1
constexpr uint8_t kIgmp1Report = 0x12;
constexpr uint8_t kIgmp2Report = 0x16;
constexpr uint8_t kIgmp2Leave = 0x17;
constexpr uint8_t kIgmp3Report = 0x22;
constexpr uint8_t kMldQuery = 130;  // RFC 2710 §3.1, RFC 3810 §5.1
constexpr uint8_t kMld1Report = 131;
constexpr uint8_t kMld1Done = 132;
constexpr uint8_t kMld2Report = 143;

// The start of an IGMP or MLD message. In a query of the last versions QueryTailWire follows.
struct IgmpWire {
  uint8_t type = 0;
  uint8_t max_response = 0;
  be16 checksum;
  be32 group;
};
static_assert(sizeof(IgmpWire) == 8);
struct MldWire {
  uint8_t type = 0;
  uint8_t code = 0;
  be16 checksum;
  be16 max_response;
  be16 reserved;
  std::array<uint8_t, Ipv6Addr::kSize> group{};
};
static_assert(sizeof(MldWire) == 24);

// RFC 3376 §4.1, RFC 3810 §5.1.
struct QueryTailWire {
  uint8_t suppress_robustness = 0;  // reserved 4 | suppress 1 | robustness 3
  uint8_t interval = 0;
  be16 sources;
};
static_assert(sizeof(QueryTailWire) == 4);
constexpr uint8_t kMaxRobustness = 7;

// RFC 3376 §4.2, RFC 3810 §5.2: the part before the records.
struct ReportWire {
  uint8_t type = 0;
  uint8_t reserved1 = 0;
  be16 checksum;
  be16 reserved2;
  be16 records;
};
static_assert(sizeof(ReportWire) == 8);

// The start of a record. The group, the sources and auxiliary data follow.
struct RecordWire {
  uint8_t type = 0;
  uint8_t auxiliary = 0;  // in units of 4 bytes
  be16 sources;
};
static_assert(sizeof(RecordWire) == 4);

// RFC 3376 §4.2.12.
enum class RecordType : uint8_t {
  kIsInclude = 1,
  kIsExclude = 2,
  kToInclude = 3,
  kToExclude = 4,
  kAllow = 5,
  kBlock = 6
};

template <typename Address>
struct Record {
  RecordType type = RecordType::kIsInclude;
  size_t sources = 0;
  Address group;
};

Ipv4Addr ReadAddress(const uint8_t* bytes, Ipv4Addr) {
  return Ipv4Addr(ReadWire<be32>(bytes).value());
}
Ipv6Addr ReadAddress(const uint8_t* bytes, const Ipv6Addr&) { return Ipv6Addr::FromWire(bytes); }

bool IsNone(Ipv4Addr address) { return address.IsZero(); }
bool IsNone(const Ipv6Addr& address) { return address.IsUnspecified(); }

// RFC 2710 §5: nodes do not report groups whose scope ends at the host.
bool IsReportable(const IpAddr& group) { return group.IsMulticast() && IsBeyondHost(group); }

// Takes the record at the start of *rest. False if it reaches beyond the end.
template <typename Address>
bool TakeRecord(absl::Span<const uint8_t>* rest, Record<Address>* record) {
  constexpr size_t kFixed = sizeof(RecordWire) + Address::kSize;
  if (rest->size() < kFixed) return false;
  const auto wire = ReadWire<RecordWire>(rest->data());
  record->type = static_cast<RecordType>(wire.type);
  record->sources = wire.sources.value();
  record->group = ReadAddress(rest->data() + sizeof(wire), Address());
  const size_t size = kFixed + record->sources * Address::kSize + size_t{4} * wire.auxiliary;
  if (rest->size() < size) return false;
  rest->remove_prefix(size);
  return true;
}

// True if a report has as many records as its header says.
template <typename Address>
bool HasItsRecords(absl::Span<const uint8_t> message) {
  if (message.size() < sizeof(ReportWire)) return false;
  const size_t records = ReadWire<ReportWire>(message.data()).records.value();
  message.remove_prefix(sizeof(ReportWire));
  Record<Address> record;
  for (size_t i = 0; i < records; ++i) {
    if (!TakeRecord(&message, &record)) return false;
  }
  return true;
}

template <typename Address>
void VisitRecord(const Record<Address>& record, absl::FunctionRef<void(Address, bool)> visit) {
  switch (record.type) {
    case RecordType::kIsExclude:
    case RecordType::kToExclude:
      return visit(record.group, true);
    case RecordType::kIsInclude:
    case RecordType::kToInclude:
      return visit(record.group, record.sources > 0);
    case RecordType::kAllow:
      if (record.sources > 0) visit(record.group, true);
      return;
    case RecordType::kBlock:
      return;
  }
}

template <typename Address>
void VisitRecords(absl::Span<const uint8_t> message, absl::FunctionRef<void(Address, bool)> visit) {
  size_t records = ReadWire<ReportWire>(message.data()).records.value();
  message.remove_prefix(sizeof(ReportWire));
  Record<Address> record;
  for (; records > 0 && TakeRecord(&message, &record); --records) {
    if (IsReportable(record.group)) VisitRecord(record, visit);
  }
}

// Codes of RFC 3376 §4.1.1 and §4.1.7 and RFC 3810 §5.1.3: a plain number below 2^(mantissa bits +
// 3), from there on a floating-point one with a 3-bit exponent.
constexpr int kIgmpMantissa = 4, kMldMantissa = 12;
constexpr int kExponent = 3;
constexpr uint32_t kMaxExponent = 7;

// The largest code whose number does not exceed `value`.
uint32_t ToFloat(int64_t value, int mantissa) {
  const int64_t threshold = int64_t{1} << (mantissa + kExponent), hidden = int64_t{1} << mantissa;
  if (value < threshold) return static_cast<uint32_t>(std::max<int64_t>(value, 0));
  uint32_t exponent = 0;
  while (exponent < kMaxExponent && value >> (exponent + kExponent) >= 2 * hidden) ++exponent;
  const int64_t fraction = std::min(value >> (exponent + kExponent), 2 * hidden - 1) - hidden;
  return static_cast<uint32_t>(threshold | int64_t{exponent} << mantissa | fraction);
}

constexpr absl::Duration kIgmpUnit = absl::Milliseconds(100);  // RFC 2236 §2.2
constexpr absl::Duration kMldUnit = absl::Milliseconds(1);     // RFC 2710 §3.4

GroupVerdict ReportIf(bool good) { return good ? GroupVerdict::kReport : GroupVerdict::kBad; }

// The group of a report or leave of the first versions.
Ipv4Addr GroupIn(const IgmpMessage& message) {
  return Ipv4Addr(ReadWire<IgmpWire>(message.message.data()).group.value());
}
Ipv6Addr GroupIn(const MldMessage& message) {
  return Ipv6Addr(ReadWire<MldWire>(message.message.data()).group);
}

// True if the part that queries of the last versions have after the group, and its sources, are not
// truncated.
template <typename Address>
bool HasQueryTail(absl::Span<const uint8_t> tail) {
  if (tail.size() < sizeof(QueryTailWire)) return false;
  return tail.size() - sizeof(QueryTailWire) >=
         ReadWire<QueryTailWire>(tail.data()).sources.value() * Address::kSize;
}

// `tail` is the part after the group; without it the query has version `former`. RFC 3376 §7.1, RFC
// 3810 §8.1.
template <typename Address>
GroupVerdict ReadQuery(absl::Span<const uint8_t> tail, int former, int last,
                       GroupMessage<Address>* message) {
  message->version = tail.empty() ? former : last;
  if (!tail.empty() && !HasQueryTail<Address>(tail)) return GroupVerdict::kBad;
  const Address group = GroupIn(*message);
  return IsNone(group) || group.IsMulticast() ? GroupVerdict::kQuery : GroupVerdict::kBad;
}

// IGMPv1 has response code 0.
GroupVerdict ReadIgmpQuery(IgmpMessage* message) {
  const bool is_first = ReadWire<IgmpWire>(message->message.data()).max_response == 0;
  return ReadQuery(message->message.subspan(sizeof(IgmpWire)), is_first ? 1 : 2, 3, message);
}

GroupVerdict ReadIgmp(IgmpMessage* message) {
  switch (message->type) {
    case kIgmpQuery:
      return ReadIgmpQuery(message);
    case kIgmp3Report:
      message->version = 3;
      return ReportIf(HasItsRecords<Ipv4Addr>(message->message));
    default:
      message->version = message->type == kIgmp1Report ? 1 : 2;
      return ReportIf(GroupIn(*message).IsMulticast());
  }
}

// A querier must use a link-local address (RFC 3810 §5.1.14). Hosts may not have one yet (§5.2.13,
// RFC 3590).
bool MaySay(uint8_t type, const Ipv6Addr& source) {
  return source.IsLinkLocal() || (type != kMldQuery && source.IsUnspecified());
}

GroupVerdict ReadMld(MldMessage* message) {
  if (!MaySay(message->type, message->source)) return GroupVerdict::kBad;
  if (message->type == kMld2Report) {
    message->version = 2;
    return ReportIf(HasItsRecords<Ipv6Addr>(message->message));
  }
  if (message->message.size() < sizeof(MldWire)) return GroupVerdict::kBad;
  if (message->type == kMldQuery)
    return ReadQuery(message->message.subspan(sizeof(MldWire)), 1, 2, message);
  message->version = 1;
  return ReportIf(GroupIn(*message).IsMulticast());
}

bool IsIgmpType(uint8_t type) {
  constexpr uint8_t kTypes[] = {kIgmpQuery, kIgmp1Report, kIgmp2Report, kIgmp2Leave, kIgmp3Report};
  return std::count(std::begin(kTypes), std::end(kTypes), type) != 0;
}

bool IsMldType(uint8_t type) {
  constexpr uint8_t kTypes[] = {kMldQuery, kMld1Report, kMld1Done, kMld2Report};
  return std::count(std::begin(kTypes), std::end(kTypes), type) != 0;
}

// True if the packet starts a message of one of the types, in a protocol whose first byte is the
// type.
template <typename Packet>
bool HasType(const Packet& packet, bool (*is_type)(uint8_t)) {
  return packet.fragment.IsFirst() && !packet.payload.empty() && is_type(packet.payload[0]);
}

template <typename Packet, typename Address>
void Begin(const Packet& packet, GroupMessage<Address>* message) {
  *message = {};
  message->source = packet.source;
  message->destination = packet.destination;
  message->type = packet.payload[0];
  message->message = packet.payload;
}

QueryTailWire TailOf(const QuerySettings& settings) {
  QueryTailWire wire;
  wire.suppress_robustness = settings.robustness > kMaxRobustness ? 0 : settings.robustness;
  wire.interval =
      static_cast<uint8_t>(ToFloat(settings.interval / absl::Seconds(1), kIgmpMantissa));
  return wire;
}

// At least 1: to hosts that do not know the last version, 0 would be an IGMPv1 query.
uint32_t ResponseCode(absl::Duration max_response, absl::Duration unit, int mantissa) {
  return std::max<uint32_t>(1, ToFloat(max_response / unit, mantissa));
}

// RFC 2113 §2.1.
constexpr std::array<uint8_t, 4> kIpv4RouterAlert = {0x94, 4, 0, 0};
// A hop-by-hop header: next header ICMPv6, length 0; router alert for MLD (RFC 2711 §2.1); two
// bytes of padding.
constexpr std::array<uint8_t, 8> kIpv6RouterAlert = {kProtocolIcmpv6, 0, 5, 2, 0, 0, 1, 0};

void WriteQueryHeader(Ipv4Addr source, Ipv4Addr destination, IgmpQueryBuffer* out) {
  Ipv4Wire wire = MakeIpv4Header(kProtocolIgmp, kReportTtl, source, destination, out->size());
  wire.version_ihl = 4 << 4 | (sizeof(wire) + sizeof(kIpv4RouterAlert)) / 4;
  wire.tos = 0xc0;                    // RFC 3376 §4
  wire.fragment = kIpv4DontFragment;  // so it needs no id: RFC 6864 §4.1
  WriteWire(wire, out->data());
  WriteWire(kIpv4RouterAlert, out->data() + sizeof(wire));
  WriteIpv4Checksum(absl::MakeSpan(*out).first(sizeof(wire) + sizeof(kIpv4RouterAlert)));
}

void WriteQueryHeader(const Ipv6Addr& source, const Ipv6Addr& destination, MldQueryBuffer* out) {
  constexpr size_t kHeader = sizeof(Ipv6Wire);
  WriteWire(
      MakeIpv6Header(kProtocolHopByHop, kReportTtl, source, destination, out->size() - kHeader),
      out->data());
  WriteWire(kIpv6RouterAlert, out->data() + kHeader);
}

}  // namespace

GroupVerdict ParseGroupMessage(const Ipv4Packet& packet, IgmpMessage* message) noexcept {
  if (packet.protocol != kProtocolIgmp || !HasType(packet, IsIgmpType)) return GroupVerdict::kOther;
  if (packet.ttl != kReportTtl || VerifyChecksum(packet) != ChecksumVerdict::kRight)
    return GroupVerdict::kBad;
  Begin(packet, message);
  return ReadIgmp(message);
}

GroupVerdict ParseGroupMessage(const Ipv6Packet& packet, MldMessage* message) noexcept {
  if (packet.protocol != kProtocolIcmpv6 || !HasType(packet, IsMldType))
    return GroupVerdict::kOther;
  if (packet.hop_limit != kReportTtl || VerifyChecksum(packet) != ChecksumVerdict::kRight)
    return GroupVerdict::kBad;
  if (!HasRouterAlert(packet, kRouterAlertForMld)) return GroupVerdict::kBad;
  Begin(packet, message);
  return ReadMld(message);
}

void ForEachGroup(const IgmpMessage& report,
                  absl::FunctionRef<void(Ipv4Addr group, bool wanted)> visit) noexcept {
  if (report.type == kIgmp3Report) return VisitRecords<Ipv4Addr>(report.message, visit);
  visit(GroupIn(report), report.type != kIgmp2Leave);
}

void ForEachGroup(const MldMessage& report,
                  absl::FunctionRef<void(const Ipv6Addr& group, bool wanted)> visit) noexcept {
  if (report.type == kMld2Report) return VisitRecords<Ipv6Addr>(report.message, visit);
  if (const Ipv6Addr group = GroupIn(report); IsReportable(group))
    visit(group, report.type != kMld1Done);
}

void BuildQuery(Ipv4Addr source, Ipv4Addr group, const QuerySettings& settings,
                IgmpQueryBuffer* out) noexcept {
  WriteQueryHeader(source, group.IsZero() ? kAllHosts : group, out);
  IgmpWire wire;
  wire.type = kIgmpQuery;
  wire.max_response =
      static_cast<uint8_t>(ResponseCode(settings.max_response, kIgmpUnit, kIgmpMantissa));
  wire.group = group.value();
  uint8_t* const message = out->data() + out->size() - sizeof(wire) - sizeof(QueryTailWire);
  WriteWire(wire, message);
  WriteWire(TailOf(settings), message + sizeof(wire));
  WriteChecksum(absl::MakeSpan(*out));
}

void BuildQuery(const Ipv6Addr& source, const Ipv6Addr& group, const QuerySettings& settings,
                MldQueryBuffer* out) noexcept {
  WriteQueryHeader(source, group.IsUnspecified() ? kAllNodes : group, out);
  MldWire wire;
  wire.type = kMldQuery;
  wire.max_response =
      static_cast<uint16_t>(ResponseCode(settings.max_response, kMldUnit, kMldMantissa));
  wire.group = group.bytes();
  uint8_t* const message = out->data() + out->size() - sizeof(wire) - sizeof(QueryTailWire);
  WriteWire(wire, message);
  WriteWire(TailOf(settings), message + sizeof(wire));
  WriteChecksum(absl::MakeSpan(*out));
}

}  // namespace eoib
