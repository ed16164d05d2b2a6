// Messages of the vPort protocol: the decoder.
#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/wire/vport_message.h"
#include "vswitch/wire/vport_message_wire.h"

namespace eoib {
namespace {

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("vPort message: ", what));
}

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
  ClaimStage stage = ClaimStage::kEstablished;
  if ((wire.flags & kFlagTentative) != 0) stage = ClaimStage::kTentative;
  if ((wire.flags & kFlagStandby) != 0) stage = ClaimStage::kStandby;
  return AnnouncedMac{*key, wire.vport.value(), wire.sequence.value(),
                      (wire.flags & kFlagSticky) != 0, stage};
}

absl::StatusOr<AgentAddress> FromWire(const AddressWire& wire) {
  const AgentAddress address{{Gid(wire.gid), Qpn(wire.qpn.value())},
                             (wire.flags & kFlagReceivesGroups) != 0};
  if (address.peer.gid.IsMulticast() || address.peer.gid.IsZero())
    return Malformed("a group or zero GID as an address");
  return address;
}

absl::StatusOr<uint16_t> FromWire(be16 wire) { return wire.value(); }

absl::StatusOr<AgentCapabilities> FromWire(const CapabilitiesWire& wire) {
  const AgentCapabilities capabilities{
      (wire.flags & kFlagEoibHeader) != 0, (wire.flags & kFlagAlternativeHeader) != 0,
      (wire.flags & kFlagChecksums) != 0, wire.segments, wire.mtu.value()};
  if (capabilities.segments < 1 || capabilities.segments > 32)
    return Malformed("a number of segments that is not 1 to 32");
  if (!capabilities.eoib_header && !capabilities.alternative_header)
    return Malformed("an agent that accepts no header");
  return capabilities;
}

absl::StatusOr<StateRange> FromWire(const StateRangeWire& wire) {
  const StateRange range{wire.first.value(), wire.last.value()};
  if (range.first > range.last) return Malformed("a range of the state that ends before it begins");
  return range;
}

absl::StatusOr<AnnouncedVPort> ReadVPort(absl::Span<const uint8_t> value) {
  if (value.size() < sizeof(VPortWire)) return Malformed("a vPort's TLV is too short");
  const auto wire = ReadWire<VPortWire>(value.data());
  value.remove_prefix(sizeof(VPortWire));
  const size_t ranges = wire.ranges.value();
  if (value.size() < ranges * sizeof(VlanRangeWire))
    return Malformed("a vPort's VLANs reach beyond its TLV");
  AnnouncedVPort vport;
  vport.id = wire.id.value();
  for (size_t i = 0; i < ranges; ++i) {
    const auto range = ReadWire<VlanRangeWire>(&value[i * sizeof(VlanRangeWire)]);
    vport.vlans.push_back({Vid(range.first.value()), Vid(range.last.value())});
    if (vport.vlans[i].first > vport.vlans[i].last || !vport.vlans[i].last.IsValid())
      return Malformed("a bad range of VLANs");
    if (i > 0 && vport.vlans[i].first <= vport.vlans[i - 1].last)
      return Malformed("ranges of VLANs that are not in order");
  }
  value.remove_prefix(ranges * sizeof(VlanRangeWire));
  vport.name.assign(value.begin(), value.end());
  if (!IsName(vport.name, AnnouncedVPort::kMaxName))
    return Malformed("a vPort's name is not 0 to 63 printable characters");
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
  if (value.empty() || value.size() % sizeof(Wire) != 0)
    return Malformed("a list has the wrong size");
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
    case Tlv::kRanges:
      return ReadList<StateRangeWire>(value, &message->ranges);
    case Tlv::kWantsFullState:
      return ReadOnce(value, &message->wants_full_state);
    case Tlv::kLeaves:
      return ReadOnce(value, &message->leaves);
    case Tlv::kGroupHeard:
      return ReadOnce(value, &message->group_heard);
    case Tlv::kIdHeld:
      return ReadOnce(value, &message->id_held);
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
      return ReadList<AddressWire>(value, &message->gone_addresses,
                                   [](const AgentAddress& address) { return address.peer; });
    case Tlv::kGoneVPorts:
      return ReadList<be16>(value, &message->gone_vports);
    case Tlv::kGoneMacs:
      return ReadList<KeyWire>(value, &message->gone_macs);
    case Tlv::kWantedMacs:
      return ReadList<KeyWire>(value, &message->wanted_macs);
    case Tlv::kHeldMacs:
      return ReadList<KeyWire>(value, &message->held_macs);
  }
  return absl::OkStatus();  // of a later version
}

absl::Status ReadTlvs(absl::Span<const uint8_t> bytes, VPortMessage* message) {
  while (!bytes.empty()) {
    if (bytes.size() < kTlvHeaderSize) return Malformed("ends within the header of a TLV");
    const auto tlv = ReadWire<TlvWire>(bytes.data());
    const size_t length = tlv.length.value();
    if (bytes.size() < TlvSize(length)) return Malformed("a TLV reaches beyond the end");
    if (absl::Status status =
            ReadTlv(tlv.type.value(), bytes.subspan(kTlvHeaderSize, length), message);
        !status.ok()) {
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

absl::StatusOr<VPortMessage> DecodeVPortMessage(absl::Span<const uint8_t> payload) {
  if (payload.size() < sizeof(HeaderWire)) return Malformed("shorter than its header");
  const auto wire = ReadWire<HeaderWire>(payload.data());
  if (wire.version != kVPortMessageVersion)
    return absl::UnimplementedError(absl::StrCat("vPort message: version ", wire.version));
  if (wire.kind < static_cast<uint8_t>(VPortMessage::Kind::kAnnounce) ||
      wire.kind > static_cast<uint8_t>(VPortMessage::Kind::kAlive)) {
    return absl::UnimplementedError(absl::StrCat("vPort message: kind ", wire.kind));
  }
  const size_t length = wire.length.value();
  if (length < sizeof(HeaderWire) || length > payload.size())
    return Malformed("its length is not that of the frame");
  absl::StatusOr<VPortMessage> message = ReadHeader(wire);
  if (!message.ok()) return message;
  if (absl::Status status =
          ReadTlvs(payload.subspan(sizeof(HeaderWire), length - sizeof(HeaderWire)), &*message);
      !status.ok()) {
    return status;
  }
  return message;
}

}  // namespace eoib
