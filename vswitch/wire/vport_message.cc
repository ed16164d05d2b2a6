// Messages of the vPort protocol: the encoder.
#include "vswitch/wire/vport_message.h"

#include <utility>

#include "absl/strings/string_view.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/wire/vport_message_wire.h"

namespace eoib {
namespace {

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
  wire.version = kVPortMessageVersion;
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

AddressWire ToWire(const PeerAddress& peer) {
  return {peer.gid.bytes(), 0, be24(peer.qpn.value())};
}
AddressWire ToWire(const AgentAddress& address) {
  AddressWire wire = ToWire(address.peer);
  if (address.receives_groups) wire.flags = kFlagReceivesGroups;
  return wire;
}
KeyWire ToWire(FdbKey key) { return {be16(key.vid().value()), key.mac().bytes()}; }
MacWire ToWire(const AnnouncedMac& mac) {
  const int flags = (mac.sticky ? kFlagSticky : 0) |
                    (mac.stage == ClaimStage::kTentative ? kFlagTentative : 0) |
                    (mac.stage == ClaimStage::kStandby ? kFlagStandby : 0);
  return {ToWire(mac.key), be16(mac.vport), static_cast<uint8_t>(flags), 0, be32(mac.sequence)};
}

StateRangeWire ToWire(const StateRange& range) { return {be64(range.first), be64(range.last)}; }

void Put(const AnnouncedVPort& vport, Writer* out) {
  out->PutTlvHeader(Tlv::kVPort, ValueSize(vport));
  out->Put(VPortWire{be16(vport.id), be16(static_cast<uint16_t>(vport.vlans.size()))});
  for (const VlanRange& range : vport.vlans)
    out->Put(VlanRangeWire{be16(range.first.value()), be16(range.last.value())});
  out->PutText(vport.name);
  out->Pad();
}

}  // namespace

size_t EncodedSize(const AnnouncedVPort& vport) { return TlvSize(ValueSize(vport)); }

size_t EncodedSize(const VPortMessage& message) {
  size_t size = VPortMessage::kHeaderSize;
  if (message.base) size += TlvSize(sizeof(be32));
  size += ListSize(message.ranges.size(), sizeof(StateRangeWire));
  if (message.wants_full_state) size += TlvSize(0);
  if (message.leaves) size += TlvSize(0);
  if (message.group_heard) size += TlvSize(sizeof(be32));
  if (message.id_held) size += TlvSize(sizeof(be32));
  if (message.capabilities) size += TlvSize(sizeof(CapabilitiesWire));
  size += ListSize(message.host.size(), 1);
  size += ListSize(message.addresses.size(), sizeof(AddressWire));
  for (const AnnouncedVPort& vport : message.vports) size += EncodedSize(vport);
  size += ListSize(message.macs.size(), sizeof(MacWire));
  size += ListSize(message.gone_addresses.size(), sizeof(AddressWire));
  size += ListSize(message.gone_vports.size(), sizeof(be16));
  size += ListSize(message.gone_macs.size(), sizeof(KeyWire));
  size += ListSize(message.wanted_macs.size(), sizeof(KeyWire));
  size += ListSize(message.held_macs.size(), sizeof(KeyWire));
  return size;
}

std::vector<uint8_t> EncodeVPortMessage(const VPortMessage& message) {
  Writer out;
  out.Put(ToWire(message, EncodedSize(message)));
  const auto to_wire = [](const auto& element) { return ToWire(element); };
  if (message.base) out.PutTlv(Tlv::kBase, be32(*message.base));
  out.PutList(Tlv::kRanges, message.ranges, to_wire);
  if (message.wants_full_state) out.PutTlvHeader(Tlv::kWantsFullState, 0);
  if (message.leaves) out.PutTlvHeader(Tlv::kLeaves, 0);
  if (message.group_heard) out.PutTlv(Tlv::kGroupHeard, be32(*message.group_heard));
  if (message.id_held) out.PutTlv(Tlv::kIdHeld, be32(*message.id_held));
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
  out.PutList(Tlv::kHeldMacs, message.held_macs, to_wire);
  return out.Take();
}

}  // namespace eoib
