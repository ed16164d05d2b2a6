#include "vswitch/wire/vport_message.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "vswitch/base/byte_order.h"

namespace eoib {
namespace {

constexpr uint8_t kVersion = 1;
constexpr size_t kTlvHeaderSize = 4;
constexpr size_t kTlvAlignment = 4;

enum class Tlv : uint16_t {
  kBase = 1,
  kPart = 2,
  kWantsFullState = 3,
  kLeaves = 4,
  kGroupHeard = 5,
  kCapabilities = 6,
  kHost = 7,
  kAddresses = 8,
  kVPort = 9,
  kMacs = 10,
  kGoneAddresses = 11,
  kGoneVPorts = 12,
  kGoneMacs = 13,
  kWantedMacs = 14,
};

struct HeaderWire {
  uint8_t version = 0;
  uint8_t kind = 0;
  be16 length;  // of the message, header included
  std::array<uint8_t, AgentId::kSize> agent{};
  be32 incarnation;
  be32 state_version;
  std::array<uint8_t, Gid::kSize> gid{};
  uint8_t reserved = 0;
  be24 qpn;
  be64 token;
};
static_assert(sizeof(HeaderWire) == VPortMessage::kHeaderSize);

struct TlvWire {
  be16 type;
  be16 length;  // of the value, without padding
};
static_assert(sizeof(TlvWire) == kTlvHeaderSize);

struct PartWire {
  be16 index, count;
};
static_assert(sizeof(PartWire) == 4);

constexpr uint8_t kFlagEoibHeader = 1, kFlagAlternativeHeader = 2, kFlagChecksums = 4;
struct CapabilitiesWire {
  uint8_t flags = 0;
  uint8_t segments = 0;
  be16 reserved;
  be32 mtu;
};
static_assert(sizeof(CapabilitiesWire) == 8);

constexpr uint8_t kFlagReceivesGroups = 1;
constexpr uint8_t kFlagSticky = 1;
struct AddressWire {
  std::array<uint8_t, Gid::kSize> gid{};
  uint8_t flags = 0;
  be24 qpn;
};
static_assert(sizeof(AddressWire) == 20);

// The name follows the ranges, to the end of the TLV.
struct VPortWire {
  be16 id;
  be16 ranges;
};
static_assert(sizeof(VPortWire) == 4);
struct VlanRangeWire {
  be16 first, last;
};
static_assert(sizeof(VlanRangeWire) == 4);

struct KeyWire {
  be16 vid;
  std::array<uint8_t, MacAddr::kSize> mac{};
};
static_assert(sizeof(KeyWire) == 8);

struct MacWire {
  KeyWire key;
  be16 vport;
  uint8_t flags = 0;
  uint8_t reserved = 0;
  be32 sequence;
};
static_assert(sizeof(MacWire) == 16);

size_t Padded(size_t size) { return (size + kTlvAlignment - 1) / kTlvAlignment * kTlvAlignment; }
size_t TlvSize(size_t value) { return kTlvHeaderSize + Padded(value); }
size_t ListSize(size_t count, size_t element) { return count == 0 ? 0 : TlvSize(count * element); }
size_t ValueSize(const AnnouncedVPort& vport) {
  return sizeof(VPortWire) + vport.vlans.size() * sizeof(VlanRangeWire) + vport.name.size();
}

class Writer {
 public:
  template <typename Wire>
  void Put(const Wire& wire) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(Wire));
    WriteWire(wire, &bytes_[at]);
  }
  void PutText(absl::string_view text) { bytes_.insert(bytes_.end(), text.begin(), text.end()); }
  void PutTlvHeader(Tlv type, size_t length) {
    Put(TlvWire{be16(static_cast<uint16_t>(type)), be16(static_cast<uint16_t>(length))});
  }
  void Pad() { bytes_.resize(Padded(bytes_.size())); }

  template <typename Wire>
  void PutTlv(Tlv type, const Wire& wire) {
    PutTlvHeader(type, sizeof(Wire));
    Put(wire);
    Pad();
  }
  // A list as one TLV; nothing if it is empty.
  template <typename Element, typename ToWire>
  void PutList(Tlv type, const std::vector<Element>& list, ToWire to_wire) {
    if (list.empty()) return;
    PutTlvHeader(type, list.size() * sizeof(to_wire(list.front())));
    for (const Element& element : list) Put(to_wire(element));
    Pad();
  }
  std::vector<uint8_t> Take() { return std::move(bytes_); }

 private:
  std::vector<uint8_t> bytes_;  // TLVs start at multiples of four, because the header's size is one
};

HeaderWire ToWire(const VPortMessage& message, size_t size) {
  HeaderWire wire;
  wire.version = kVersion;
  wire.kind = static_cast<uint8_t>(message.kind);
  wire.length = static_cast<uint16_t>(size);
  wire.agent = message.agent.bytes();
  wire.incarnation = message.incarnation;
  wire.state_version = message.version;
  wire.gid = message.sender.gid.bytes();
  wire.qpn = message.sender.qpn.value();
  wire.token = message.token;
  return wire;
}

CapabilitiesWire ToWire(const AgentCapabilities& capabilities) {
  CapabilitiesWire wire;
  wire.flags = static_cast<uint8_t>((capabilities.eoib_header ? kFlagEoibHeader : 0) |
                                    (capabilities.alternative_header ? kFlagAlternativeHeader : 0) |
                                    (capabilities.checksums ? kFlagChecksums : 0));
  wire.segments = capabilities.segments;
  wire.mtu = capabilities.mtu;
  return wire;
}

AddressWire ToWire(const PeerAddress& peer) { return {peer.gid.bytes(), 0, be24(peer.qpn.value())}; }
AddressWire ToWire(const AgentAddress& address) {
  AddressWire wire = ToWire(address.peer);
  if (address.receives_groups) wire.flags = kFlagReceivesGroups;
  return wire;
}
KeyWire ToWire(FdbKey key) { return {be16(key.vid().value()), key.mac().bytes()}; }
MacWire ToWire(const AnnouncedMac& mac) {
  const uint8_t flags = mac.sticky ? kFlagSticky : 0;
  return {ToWire(mac.key), be16(mac.vport), flags, 0, be32(mac.sequence)};
}

void Put(const AnnouncedVPort& vport, Writer* out) {
  out->PutTlvHeader(Tlv::kVPort, ValueSize(vport));
  out->Put(VPortWire{be16(vport.id), be16(static_cast<uint16_t>(vport.vlans.size()))});
  for (const VlanRange& range : vport.vlans) out->Put(VlanRangeWire{be16(range.first.value()), be16(range.last.value())});
  out->PutText(vport.name);
  out->Pad();
}

absl::Status Malformed(absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("vPort message: ", what)); }

bool IsName(absl::string_view text, size_t longest) {
  return text.size() <= longest && std::all_of(text.begin(), text.end(), absl::ascii_isprint);
}

absl::StatusOr<FdbKey> FromWire(const KeyWire& wire) {
  const Vid vid(wire.vid.value());
  const MacAddr mac(wire.mac);
  if (!vid.IsValid()) return Malformed("VID 4095 or above");
  if (mac.IsGroup() || mac.IsZero()) return Malformed("a group or zero address as a station's MAC");
  return FdbKey(vid, mac);
}

absl::StatusOr<AnnouncedMac> FromWire(const MacWire& wire) {
  const auto key = FromWire(wire.key);
  if (!key.ok()) return key.status();
  return AnnouncedMac{*key, wire.vport.value(), wire.sequence.value(), (wire.flags & kFlagSticky) != 0};
}

absl::StatusOr<AgentAddress> FromWire(const AddressWire& wire) {
  const AgentAddress address{{Gid(wire.gid), Qpn(wire.qpn.value())}, (wire.flags & kFlagReceivesGroups) != 0};
  if (address.peer.gid.IsMulticast() || address.peer.gid.IsZero()) return Malformed("a group or zero GID as an address");
  return address;
}

absl::StatusOr<uint16_t> FromWire(be16 wire) { return wire.value(); }

absl::StatusOr<AgentCapabilities> FromWire(const CapabilitiesWire& wire) {
  const AgentCapabilities capabilities{(wire.flags & kFlagEoibHeader) != 0, (wire.flags & kFlagAlternativeHeader) != 0,
                                       (wire.flags & kFlagChecksums) != 0, wire.segments, wire.mtu.value()};
  if (capabilities.segments < 1 || capabilities.segments > 32) return Malformed("a number of segments that is not 1 to 32");
  if (!capabilities.eoib_header && !capabilities.alternative_header) return Malformed("an agent that accepts no header");
  return capabilities;
}

absl::StatusOr<VPortMessage::Part> FromWire(const PartWire& wire) {
  const VPortMessage::Part part{wire.index.value(), wire.count.value()};
  if (part.index >= part.count) return Malformed("a part whose index is not below the number of parts");
  return part;
}

absl::StatusOr<AnnouncedVPort> ReadVPort(absl::Span<const uint8_t> value) {
  if (value.size() < sizeof(VPortWire)) return Malformed("a vPort's TLV is too short");
  const auto wire = ReadWire<VPortWire>(value.data());
  value.remove_prefix(sizeof(VPortWire));
  const size_t ranges = wire.ranges.value();
  if (value.size() < ranges * sizeof(VlanRangeWire)) return Malformed("a vPort's VLANs reach beyond its TLV");
  AnnouncedVPort vport;
  vport.id = wire.id.value();
  for (size_t i = 0; i < ranges; ++i) {
    const auto range = ReadWire<VlanRangeWire>(&value[i * sizeof(VlanRangeWire)]);
    vport.vlans.push_back({Vid(range.first.value()), Vid(range.last.value())});
    if (vport.vlans[i].first > vport.vlans[i].last || !vport.vlans[i].last.IsValid()) return Malformed("a bad range of VLANs");
    if (i > 0 && vport.vlans[i].first <= vport.vlans[i - 1].last) return Malformed("ranges of VLANs that are not in order");
  }
  value.remove_prefix(ranges * sizeof(VlanRangeWire));
  vport.name.assign(value.begin(), value.end());
  if (!IsName(vport.name, AnnouncedVPort::kMaxName)) return Malformed("a vPort's name is not 0 to 63 printable characters");
  return vport;
}

// A value of exactly one element, which must not have been there before.
template <typename Wire, typename Value>
absl::Status ReadOnce(absl::Span<const uint8_t> value, absl::optional<Value>* out) {
  if (out->has_value()) return Malformed("a TLV that may be there once is there twice");
  if (value.size() != sizeof(Wire)) return Malformed("a TLV has the wrong size");
  const auto read = FromWire(ReadWire<Wire>(value.data()));
  if (!read.ok()) return read.status();
  *out = *read;
  return absl::OkStatus();
}

absl::Status ReadOnce(absl::Span<const uint8_t> value, absl::optional<uint32_t>* out) {
  if (out->has_value()) return Malformed("a TLV that may be there once is there twice");
  if (value.size() != sizeof(be32)) return Malformed("a TLV has the wrong size");
  *out = ReadWire<be32>(value.data()).value();
  return absl::OkStatus();
}

absl::Status ReadOnce(absl::Span<const uint8_t> value, bool* out) {
  if (*out || !value.empty()) return Malformed("a flag's TLV is there twice or has a value");
  *out = true;
  return absl::OkStatus();
}

template <typename Wire, typename Element, typename Convert>
absl::Status ReadList(absl::Span<const uint8_t> value, std::vector<Element>* out, Convert convert) {
  if (value.empty() || value.size() % sizeof(Wire) != 0) return Malformed("a list has the wrong size");
  for (size_t at = 0; at < value.size(); at += sizeof(Wire)) {
    const auto element = FromWire(ReadWire<Wire>(&value[at]));
    if (!element.ok()) return element.status();
    out->push_back(convert(*element));
  }
  return absl::OkStatus();
}

template <typename Wire, typename Element>
absl::Status ReadList(absl::Span<const uint8_t> value, std::vector<Element>* out) {
  return ReadList<Wire>(value, out, [](const Element& element) { return element; });
}

absl::Status ReadHost(absl::Span<const uint8_t> value, std::string* out) {
  const absl::string_view text(reinterpret_cast<const char*>(value.data()), value.size());
  if (!out->empty()) return Malformed("two host names");
  if (text.empty() || !IsName(text, VPortMessage::kMaxHostName)) {
    return Malformed("a host name is not 1 to 64 printable characters");
  }
  out->assign(text.begin(), text.end());
  return absl::OkStatus();
}

absl::Status ReadTlv(uint16_t type, absl::Span<const uint8_t> value, VPortMessage* message) {
  switch (static_cast<Tlv>(type)) {
    case Tlv::kBase:
      return ReadOnce(value, &message->base);
    case Tlv::kPart:
      return ReadOnce<PartWire>(value, &message->part);
    case Tlv::kWantsFullState:
      return ReadOnce(value, &message->wants_full_state);
    case Tlv::kLeaves:
      return ReadOnce(value, &message->leaves);
    case Tlv::kGroupHeard:
      return ReadOnce(value, &message->group_heard);
    case Tlv::kCapabilities:
      return ReadOnce<CapabilitiesWire>(value, &message->capabilities);
    case Tlv::kHost:
      return ReadHost(value, &message->host);
    case Tlv::kAddresses:
      return ReadList<AddressWire>(value, &message->addresses);
    case Tlv::kVPort: {
      auto vport = ReadVPort(value);
      if (!vport.ok()) return vport.status();
      message->vports.push_back(*std::move(vport));
      return absl::OkStatus();
    }
    case Tlv::kMacs:
      return ReadList<MacWire>(value, &message->macs);
    case Tlv::kGoneAddresses:
      return ReadList<AddressWire>(value, &message->gone_addresses, [](const AgentAddress& address) { return address.peer; });
    case Tlv::kGoneVPorts:
      return ReadList<be16>(value, &message->gone_vports);
    case Tlv::kGoneMacs:
      return ReadList<KeyWire>(value, &message->gone_macs);
    case Tlv::kWantedMacs:
      return ReadList<KeyWire>(value, &message->wanted_macs);
  }
  return absl::OkStatus();  // of a later version
}

absl::Status ReadTlvs(absl::Span<const uint8_t> bytes, VPortMessage* message) {
  while (!bytes.empty()) {
    if (bytes.size() < kTlvHeaderSize) return Malformed("ends within the header of a TLV");
    const auto tlv = ReadWire<TlvWire>(bytes.data());
    const size_t length = tlv.length.value();
    if (bytes.size() < TlvSize(length)) return Malformed("a TLV reaches beyond the end");
    if (absl::Status status = ReadTlv(tlv.type.value(), bytes.subspan(kTlvHeaderSize, length), message); !status.ok()) {
      return status;
    }
    bytes.remove_prefix(TlvSize(length));
  }
  return absl::OkStatus();
}

absl::StatusOr<VPortMessage> ReadHeader(const HeaderWire& wire) {
  VPortMessage message;
  message.kind = static_cast<VPortMessage::Kind>(wire.kind);
  message.agent = AgentId(wire.agent);
  message.incarnation = wire.incarnation.value();
  message.version = wire.state_version.value();
  message.sender = {Gid(wire.gid), Qpn(wire.qpn.value())};
  message.token = wire.token.value();
  if (message.agent.IsZero()) return Malformed("the agent id is zero");
  return message;
}

}  // namespace

size_t EncodedSize(const VPortMessage& message) {
  size_t size = VPortMessage::kHeaderSize;
  if (message.base) size += TlvSize(sizeof(be32));
  if (message.part) size += TlvSize(sizeof(PartWire));
  if (message.wants_full_state) size += TlvSize(0);
  if (message.leaves) size += TlvSize(0);
  if (message.group_heard) size += TlvSize(sizeof(be32));
  if (message.capabilities) size += TlvSize(sizeof(CapabilitiesWire));
  size += ListSize(message.host.size(), 1);
  size += ListSize(message.addresses.size(), sizeof(AddressWire));
  for (const AnnouncedVPort& vport : message.vports) size += TlvSize(ValueSize(vport));
  size += ListSize(message.macs.size(), sizeof(MacWire));
  size += ListSize(message.gone_addresses.size(), sizeof(AddressWire));
  size += ListSize(message.gone_vports.size(), sizeof(be16));
  size += ListSize(message.gone_macs.size(), sizeof(KeyWire));
  size += ListSize(message.wanted_macs.size(), sizeof(KeyWire));
  return size;
}

std::vector<uint8_t> EncodeVPortMessage(const VPortMessage& message) {
  Writer out;
  out.Put(ToWire(message, EncodedSize(message)));
  const auto to_wire = [](const auto& element) { return ToWire(element); };
  if (message.base) out.PutTlv(Tlv::kBase, be32(*message.base));
  if (message.part) out.PutTlv(Tlv::kPart, PartWire{be16(message.part->index), be16(message.part->count)});
  if (message.wants_full_state) out.PutTlvHeader(Tlv::kWantsFullState, 0);
  if (message.leaves) out.PutTlvHeader(Tlv::kLeaves, 0);
  if (message.group_heard) out.PutTlv(Tlv::kGroupHeard, be32(*message.group_heard));
  if (message.capabilities) out.PutTlv(Tlv::kCapabilities, ToWire(*message.capabilities));
  if (!message.host.empty()) {
    out.PutTlvHeader(Tlv::kHost, message.host.size());
    out.PutText(message.host);
    out.Pad();
  }
  out.PutList(Tlv::kAddresses, message.addresses, to_wire);
  for (const AnnouncedVPort& vport : message.vports) Put(vport, &out);
  out.PutList(Tlv::kMacs, message.macs, to_wire);
  out.PutList(Tlv::kGoneAddresses, message.gone_addresses, to_wire);
  out.PutList(Tlv::kGoneVPorts, message.gone_vports, [](uint16_t id) { return be16(id); });
  out.PutList(Tlv::kGoneMacs, message.gone_macs, to_wire);
  out.PutList(Tlv::kWantedMacs, message.wanted_macs, to_wire);
  return out.Take();
}

absl::StatusOr<VPortMessage> DecodeVPortMessage(absl::Span<const uint8_t> payload) {
  if (payload.size() < sizeof(HeaderWire)) return Malformed("shorter than its header");
  const auto wire = ReadWire<HeaderWire>(payload.data());
  if (wire.version != kVersion) return absl::UnimplementedError(absl::StrCat("vPort message: version ", wire.version));
  if (wire.kind < static_cast<uint8_t>(VPortMessage::Kind::kAnnounce) ||
      wire.kind > static_cast<uint8_t>(VPortMessage::Kind::kAlive)) {
    return absl::UnimplementedError(absl::StrCat("vPort message: kind ", wire.kind));
  }
  const size_t length = wire.length.value();
  if (length < sizeof(HeaderWire) || length > payload.size()) return Malformed("its length is not that of the frame");
  absl::StatusOr<VPortMessage> message = ReadHeader(wire);
  if (!message.ok()) return message;
  if (absl::Status status = ReadTlvs(payload.subspan(sizeof(HeaderWire), length - sizeof(HeaderWire)), &*message);
      !status.ok()) {
    return status;
  }
  return message;
}

}  // namespace eoib
