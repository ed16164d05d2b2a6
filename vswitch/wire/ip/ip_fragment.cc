#include "vswitch/wire/ip/ip_fragment.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/types/optional.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_headers.h"

namespace eoib {
namespace {

constexpr size_t kMaxHeader = 60;
constexpr uint8_t kOptionEnd = 0;
constexpr uint8_t kOptionNoOperation = 1;
constexpr uint8_t kOptionCopied = 0x80;

// A header with options. WritePart fills in its lengths, fragment field and checksum.
struct Header {
  std::array<uint8_t, kMaxHeader> bytes{};
  size_t size = 0;

  void Append(absl::Span<const uint8_t> more) {
    std::copy(more.begin(), more.end(), bytes.begin() + size);
    size += more.size();
  }
};

Header FirstHeader(const Ipv4Packet& packet) {
  Header header;
  header.Append(packet.header());
  return header;
}

// Size of the option at the start of `rest`, which is not empty; 0 if it reaches beyond the end
// (RFC 791 §3.1).
size_t Ipv4OptionSize(absl::Span<const uint8_t> rest) {
  if (rest[0] == kOptionNoOperation) return 1;
  return rest.size() >= 2 && rest[1] >= 2 && rest[1] <= rest.size() ? rest[1] : 0;
}

// The header of all fragments except the first: it has the options whose copied flag is set, padded
// with zeros (end of options) to a multiple of 4. Nothing if the options are malformed.
absl::optional<Header> LaterHeader(const Ipv4Packet& packet) {
  Header header;
  header.Append(packet.header().first(sizeof(Ipv4Wire)));
  auto options = packet.options;
  while (!options.empty() && options[0] != kOptionEnd) {
    const size_t size = Ipv4OptionSize(options);
    if (size == 0) return absl::nullopt;
    if ((options[0] & kOptionCopied) != 0) header.Append(options.first(size));
    options.remove_prefix(size);
  }
  header.size = (header.size + 3) / 4 * 4;
  return header;
}

// Writes a fragment: `header` and `data`, which starts `offset` bytes into the datagram's data.
// Returns its size.
size_t WritePart(const Header& header, size_t offset, bool more, absl::Span<const uint8_t> data,
                 uint8_t* out) {
  const size_t size = header.size + data.size();
  std::memcpy(out, header.bytes.data(), header.size);
  std::memcpy(out + header.size, data.data(), data.size());
  auto wire = ReadWire<Ipv4Wire>(out);
  wire.version_ihl = static_cast<uint8_t>(4 << 4 | header.size / 4);
  wire.total_length = static_cast<uint16_t>(size);
  wire.fragment = static_cast<uint16_t>((more ? kIpv4MoreFragments : 0) | offset / kFragmentUnit);
  WriteWire(wire, out);
  WriteIpv4Checksum({out, header.size});
  return size;
}

}  // namespace

FragmentVerdict FragmentIpv4(
    const Ipv4Packet& packet, size_t mtu,
    absl::FunctionRef<void(absl::Span<const uint8_t> part)> emit) noexcept {
  if (packet.bytes.size() <= mtu) {
    emit(packet.bytes);
    return FragmentVerdict::kDone;
  }
  if (packet.dont_fragment) return FragmentVerdict::kDontFragment;
  const absl::optional<Header> later = LaterHeader(packet);
  if (mtu < kMinIpv4Mtu || !later.has_value()) return FragmentVerdict::kBad;

  std::array<uint8_t, kMaxIpPacket> part;  // not zeroed: only the bytes of a fragment are touched
  Header header = FirstHeader(packet);
  for (size_t at = 0; at < packet.payload.size();) {
    const size_t room = (mtu - header.size) / kFragmentUnit * kFragmentUnit;
    // The last fragment need not be a multiple of 8 bytes.
    const size_t left = packet.payload.size() - at;
    const size_t size = left <= mtu - header.size ? left : room;
    const bool more = size < left || packet.fragment.more;
    emit({part.data(), WritePart(header, packet.fragment.offset + at, more,
                                 packet.payload.subspan(at, size), part.data())});
    at += size;
    header = *later;
  }
  return FragmentVerdict::kDone;
}

}  // namespace eoib
