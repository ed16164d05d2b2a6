#include "gateway/translation/packet_trace.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "gateway/election/hello.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ipoib_header.h"

namespace eoib::gateway {
namespace {

using translation::Drop;
using translation::Event;

// The largest IP packet, in a frame.
constexpr size_t kMostBytes = 65536 + kEthernetHeaderSize + kVlanTagSize;

absl::StatusOr<std::vector<uint8_t>> ParseHex(absl::string_view text) {
  const std::string digits = absl::StrReplaceAll(text, {{":", ""}});
  const bool all_hex =
      std::all_of(digits.begin(), digits.end(), [](char c) { return absl::ascii_isxdigit(c); });
  if (digits.empty() || !all_hex || digits.size() % 2 != 0 || digits.size() / 2 > kMostBytes) {
    return absl::InvalidArgumentError(
        "a packet is written in hexadecimal, two digits a byte: 02005e100001...");
  }
  const std::string bytes = absl::HexStringToBytes(digits);
  return std::vector<uint8_t>(bytes.begin(), bytes.end());
}

std::string TypeText(uint16_t type) { return absl::StrFormat("type 0x%04x", type); }

std::string BytesText(absl::Span<const uint8_t> bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return absl::StrCat(bytes.size(), " bytes\n    ", absl::BytesToHexString(text), "\n");
}

}  // namespace

absl::StatusOr<TracedPacket> TracedPacket::Parse(absl::Span<const std::string> words) {
  TracedPacket packet;
  const bool ipoib = !words.empty() && words[0] == "ipoib";
  const bool ethernet = words.size() == 2 && words[0] == "ethernet";
  if (!ethernet && !(ipoib && (words.size() == 3 || (words.size() == 4 && words[3] == "group")))) {
    return absl::InvalidArgumentError(
        "write: GATEWAY ethernet FRAME, or GATEWAY ipoib DATAGRAM SOURCE|- [group]");
  }
  auto bytes = ParseHex(words[1]);
  if (!bytes.ok()) return bytes.status();
  packet.bytes = *std::move(bytes);
  if (ethernet) return packet;
  packet.side = Side::kIpoib;
  packet.group = words.size() == 4;
  if (words[2] == "-") return packet;
  const auto source = IpoibAddress::Parse(words[2]);
  if (!source.ok()) return source.status();
  packet.source = *source;
  return packet;
}

PacketTrace::PacketTrace(const translation::Options& options, Vid vlan, const Clock* clock)
    : vlan_(vlan), translator_(options, clock, this) {}

void PacketTrace::CopyFrom(const translation::Translator& gateway) {
  translator_.CopyFrom(gateway);
}

std::string PacketTrace::Run(TracedPacket packet) {
  outputs_.clear();
  const translation::Counters before = translator_.counters();
  const auto bytes = absl::MakeSpan(packet.bytes);
  const size_t size = bytes.size();
  const bool ethernet = packet.side == TracedPacket::Side::kEthernet;
  ethernet ? RunFrame(bytes) : RunDatagram(packet, bytes);
  return absl::StrCat(ethernet ? "frame from the VES, " : "datagram from the IPoIB link, ", size,
                      " bytes\n", before_.empty() ? Verdict(before) : before_, outputs_);
}

// The VES transmits only frames of the gateway's VLAN, and GatewayPort::Transmit removes the tag.
void PacketTrace::RunFrame(absl::Span<uint8_t> frame) {
  EthernetInfo info;
  if (ParseEthernet(frame, &info) == DropReason::kNone && info.tagged) {
    if (info.vid != vlan_) {
      before_ = absl::StrCat("  does not come to the gateway: VLAN ", info.vid.ToString(),
                             " is not the gateway's, which is ", vlan_.ToString(), "\n");
      return;
    }
    RemoveVlanTag(frame.data());
    frame.remove_prefix(kVlanTagSize);
  }
  translator_.FromEthernet(frame, {});
}

// Repeats what Channel::Deliver and GatewayPort::OnPacket do.
void PacketTrace::RunDatagram(const TracedPacket& packet, absl::Span<uint8_t> datagram) {
  const absl::optional<IpoibType> type = DecodeIpoibHeader(datagram);
  if (!type.has_value()) {
    before_ =
        "  does not come to the translation: the IPoIB header has another type than IPv4, IPv6, "
        "ARP and RARP\n";
    return;
  }
  const absl::Span<uint8_t> payload = datagram.subspan(kIpoibHeaderSize);
  if (*type == IpoibType::kIpv6 && packet.group && IsHello(payload)) {
    before_ =
        "  is a hello of gateways to each other: it decides which one works, and no host is to see "
        "it\n";
    return;
  }
  translator_.FromIpoib({*type, payload, packet.source, packet.group});
}

std::string PacketTrace::Verdict(const translation::Counters& before) const {
  const translation::Counters& after = translator_.counters();
  std::string text;
  if (after[Event::kCrossed] != before[Event::kCrossed]) text += "  crosses\n";
  if (after[Event::kHeldPackets] != before[Event::kHeldPackets])
    text += "  waits until its destination answers\n";
  for (size_t i = 0; i < after.drops.kSize; ++i) {
    const auto drop = static_cast<Drop>(i);
    if (after[drop] != before[drop])
      absl::StrAppend(&text, "  is dropped: ", InfoOf(drop).label, ", ", InfoOf(drop).help, "\n");
  }
  constexpr Event kLessons[] = {Event::kLearnedStations, Event::kMovedStations,
                                Event::kLearnedNeighbors, Event::kMovedNeighbors, Event::kEvicted};
  for (const Event event : kLessons) {
    const uint64_t count = after[event] - before[event];
    if (count != 0)
      absl::StrAppend(&text, "  changes what is known: ", count, " ", InfoOf(event).help, "\n");
  }
  return text;
}

void PacketTrace::ToEthernet(MacAddr destination, MacAddr source, uint16_t ethertype,
                             absl::Span<const uint8_t> payload) {
  absl::StrAppend(&outputs_, "  to the VES: to ", destination.ToString(), " from ",
                  source.ToString(), ", ", TypeText(ethertype), ", ", BytesText(payload));
}

void PacketTrace::ToIpoib(IpoibType type, absl::Span<const uint8_t> payload,
                          const IpoibAddress& to) {
  absl::StrAppend(&outputs_, "  to the IPoIB link: to ", to.ToString(), ", ",
                  TypeText(static_cast<uint16_t>(type)), ", ", BytesText(payload));
}

void PacketTrace::ToIpoibGroup(IpoibType type, absl::Span<const uint8_t> payload,
                               const IpoibGroup& group, bool beyond_link) {
  absl::StrAppend(&outputs_, "  to the IPoIB link: to group ", ToMgid(group).ToString(),
                  beyond_link ? " (or all routers, if it does not exist), " : ", ",
                  TypeText(static_cast<uint16_t>(type)), ", ", BytesText(payload));
}

void PacketTrace::Listen(const IpoibGroup& group) {
  absl::StrAppend(&outputs_, "  joins group ", ToMgid(group).ToString(), " of the IPoIB link\n");
}

void PacketTrace::Unlisten(const IpoibGroup& group) {
  absl::StrAppend(&outputs_, "  leaves group ", ToMgid(group).ToString(), " of the IPoIB link\n");
}

}  // namespace eoib::gateway
