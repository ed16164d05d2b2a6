// The IPoIB codecs of a gateway to Ethernet: link-layer addresses, groups, ARP, neighbour
// discovery.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "absl/strings/string_view.h"
#include "vswitch/wire/ip/arp.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ipoib_address.h"
#include "vswitch/wire/ip/neighbor_discovery.h"
#include "vswitch/wire/ip/ones_complement_sum.h"
#include "vswitch/wire/ipoib_group.h"
#include "vswitch/wire/ipoib_header.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

void Require(bool condition) {
  if (!condition) std::abort();
}

bool IsZero(absl::Span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

void CheckHeader(absl::Span<const uint8_t> datagram) {
  const absl::optional<IpoibType> type = DecodeIpoibHeader(datagram);
  if (!type.has_value()) return;
  uint8_t encoded[kIpoibHeaderSize];
  EncodeIpoibHeader(*type, encoded);
  Require(std::equal(encoded, encoded + 2, datagram.begin()) && encoded[2] == 0 && encoded[3] == 0);
}

// ToString and Parse are inverse.
template <typename Address>
void CheckText(const Address& address) {
  const auto parsed = Address::Parse(address.ToString());
  Require(parsed.ok() && *parsed == address);
}

template <typename Address>
void CheckParse(absl::Span<const uint8_t> bytes) {
  const auto parsed =
      Address::Parse(absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  if (parsed.ok()) CheckText(*parsed);
}

// All but the flags byte survives a round trip.
void CheckAddress(absl::Span<const uint8_t> bytes) {
  if (bytes.size() < IpoibAddress::kSize) return;
  const auto address = IpoibAddress::FromWire(bytes.data());
  uint8_t wire[IpoibAddress::kSize];
  address.ToWire(wire);
  Require(wire[0] == 0 && std::equal(wire + 1, wire + sizeof(wire), bytes.begin() + 1));
  Require(address.IsZero() == IsZero(bytes.subspan(1, IpoibAddress::kSize - 1)));
  CheckText(address);
  CheckText(Ipv6Addr::FromWire(&bytes[4]));
  CheckText(Ipv4Addr(address.qpn().value()));
  const uint64_t guid = address.gid().guid().value();
  Require(ToInterfaceId(Guid(guid)).value() == (guid | uint64_t{1} << 57));
}

// Takes the first 16 bytes as an MGID. An accepted one re-encodes to the same.
void CheckMgid(absl::Span<const uint8_t> bytes) {
  if (bytes.size() < Gid::kSize || bytes[0] != 0xff) return;
  const Mgid mgid(Gid::FromWire(bytes.data()));
  const absl::optional<IpoibGroup> group = ParseIpoibMgid(mgid);
  if (!group.has_value()) return;
  Require(ToMgid(*group) == mgid && group->link.scope.ToString().size() == 3);
  if (group->family == IpoibGroup::Family::kIpv4) {
    Require(GroupOf(group->link, group->ipv4) == group);
    Require(group->IsBroadcast() == (BroadcastGroup(group->link) == *group));
  }
}

// Takes any 16 bytes, and any four, as a destination. The group of a multicast address survives a
// round trip through its MGID.
void CheckGroup(absl::Span<const uint8_t> bytes) {
  if (bytes.size() < Ipv6Addr::kSize) return;
  const IpoibLink link{PKey(bytes[15]), MulticastScope(1 + bytes[14] % 14)};
  const auto ipv6 = Ipv6Addr::FromWire(bytes.data());
  const auto group = GroupOf(link, ipv6);
  Require(group.has_value() == ipv6.IsMulticast());
  if (group.has_value()) Require(ParseIpoibMgid(ToMgid(*group)) == group);
  const Ipv4Addr ipv4(ReadWire<be32>(bytes.data()).value());
  const auto group4 = GroupOf(link, ipv4);
  Require(group4.has_value() == (ipv4.IsMulticast() || ipv4.IsBroadcast()));
  if (group4.has_value()) Require(ParseIpoibMgid(ToMgid(*group4)) == group4);
}

// Offsets of the first byte of each IPoIB address in an ARP packet, which is not sent on.
constexpr size_t kSenderFlags = 8, kTargetFlags = 32;

void CheckArp(absl::Span<const uint8_t> payload) {
  if (const auto packet = ParseEthernetArp(payload); packet.has_value()) {
    Bytes encoded(EthernetArp::kSize);
    Require(EncodeArp(*packet, absl::MakeSpan(encoded)) &&
            absl::MakeConstSpan(encoded) == payload.first(encoded.size()));
    PurposeOf(*packet);
  }
  if (const auto packet = ParseIpoibArp(payload); packet.has_value()) {
    Bytes encoded(IpoibArp::kSize), expected(payload.begin(), payload.begin() + IpoibArp::kSize);
    expected[kSenderFlags] = expected[kTargetFlags] = 0;
    Require(EncodeArp(*packet, absl::MakeSpan(encoded)) && encoded == expected);
    PurposeOf(*packet);
  }
}

template <typename LinkAddress>
void CheckLinkAddress(const NdOption& option, const LinkAddress& address, size_t ignored) {
  Bytes written(option.bytes.size());
  Require(WriteLinkAddressOption(option.type, address, absl::MakeSpan(written)));
  Bytes expected(option.bytes.begin(), option.bytes.end());
  std::fill_n(expected.begin() + 2, ignored, 0);
  Require(written == expected);
  Require(!WriteLinkAddressOption(option.type, address,
                                  absl::MakeSpan(written).first(written.size() - 1)));
}

void CheckOption(const NdOption& option) {
  Require(!option.bytes.empty() && option.bytes.size() % 8 == 0 &&
          option.bytes[0] == static_cast<uint8_t>(option.type));
  const auto mac = EthernetLinkAddress(option);
  const auto ipoib = IpoibLinkAddress(option);
  constexpr size_t kPaddingAndFlags = 3;
  if (mac.has_value()) CheckLinkAddress(option, *mac, 0);
  if (ipoib.has_value()) CheckLinkAddress(option, *ipoib, kPaddingAndFlags);
  const auto nonce = Nonce(option);
  const int kinds = mac.has_value() + ipoib.has_value() + LinkMtu(option).has_value() +
                    !nonce.empty() + IsSendOption(option.type);
  Require(kinds <= 1);
}

// The concatenated options are the bytes from which they were parsed.
void CheckOptions(absl::Span<const uint8_t> bytes) {
  const absl::optional<NdOptions> options = NdOptions::Parse(bytes);
  if (!options.has_value()) return;
  Bytes together;
  for (const NdOption& option : *options) {
    CheckOption(option);
    together.insert(together.end(), option.bytes.begin(), option.bytes.end());
  }
  Require(absl::MakeConstSpan(together) == bytes);
}

NdVerdict CheckMessage(absl::Span<const uint8_t> packet) {
  NdMessage message;
  const NdVerdict verdict = ParseNeighborDiscovery(packet, &message);
  if (verdict != NdVerdict::kGood) return verdict;
  const auto header = ReadWire<Ipv6Wire>(packet.data());
  Require(message.message == packet.subspan(sizeof(Ipv6Wire), header.payload_length.value()));
  Require(message.message[0] == static_cast<uint8_t>(message.type) &&
          message.options.bytes().size() % 8 == 0);
  Require(message.options.bytes() == message.message.last(message.options.bytes().size()));
  Require(message.source == Ipv6Addr(header.source) &&
          message.destination == Ipv6Addr(header.destination));
  CheckOptions(message.options.bytes());
  return verdict;
}

// Repairs what a fuzzer cannot guess, so that only the options decide.
void CheckRepairedMessage(absl::Span<const uint8_t> packet) {
  constexpr size_t kSmallest = 8, kChecksum = sizeof(Ipv6Wire) + 2;
  if (packet.size() < sizeof(Ipv6Wire) + kSmallest) return;
  Bytes copy(packet.begin(), packet.end());
  const size_t length = std::min<size_t>(copy.size() - sizeof(Ipv6Wire), 0xffff);
  copy.resize(sizeof(Ipv6Wire) + length);
  auto header = ReadWire<Ipv6Wire>(copy.data());
  header.version_class_flow = header.version_class_flow.value() >> 4 | 6u << 28;
  header.payload_length = static_cast<uint16_t>(length);
  header.next_header = kProtocolIcmpv6;
  header.hop_limit = 255;
  WriteWire(header, copy.data());
  const uint8_t type = copy[sizeof(Ipv6Wire)] =
      static_cast<uint8_t>(133 + copy[sizeof(Ipv6Wire)] % 5);
  copy[sizeof(Ipv6Wire) + 1] = 0;
  WriteWire(be16(0), &copy[kChecksum]);
  const auto message = absl::MakeConstSpan(copy).subspan(sizeof(Ipv6Wire));
  const uint16_t addresses = OnesComplementSum(absl::MakeConstSpan(copy).subspan(8, 32));
  const uint16_t sum = OnesComplementSum(
      message, uint32_t{addresses} + kProtocolIcmpv6 + static_cast<uint32_t>(length));
  WriteWire(be16(static_cast<uint16_t>(~sum)), &copy[kChecksum]);

  constexpr size_t kFixed[] = {8, 16, 24, 24, 40};
  const size_t fixed = kFixed[type - 133];
  const bool good = length >= fixed && NdOptions::Parse(message.subspan(fixed)).has_value();
  Require(CheckMessage(copy) == (good ? NdVerdict::kGood : NdVerdict::kBad));
}

}  // namespace
}  // namespace eoib

// The input is an IPoIB datagram. Every check runs on its payload, whatever its header says, and on
// all of it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace eoib;  // NOLINT: the entry point has no namespace
  const auto datagram = absl::MakeConstSpan(data, size);
  CheckHeader(datagram);
  CheckAddress(datagram);
  CheckMgid(datagram);
  CheckGroup(datagram);
  CheckOptions(datagram);
  CheckParse<IpoibAddress>(datagram);
  CheckParse<Ipv4Addr>(datagram);
  CheckParse<Ipv6Addr>(datagram);
  if (size < kIpoibHeaderSize) return 0;
  const auto payload = datagram.subspan(kIpoibHeaderSize);
  CheckArp(payload);
  CheckMessage(payload);
  CheckRepairedMessage(payload);
  return 0;
}
