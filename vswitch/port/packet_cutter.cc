#include "vswitch/port/packet_cutter.h"

#include <array>
#include <cstring>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib {

absl::optional<PacketCutter> PacketCutter::Of(const BufferPool& pool, const Frame& frame) noexcept {
  return Of(frame, PieceReader(&pool, frame));
}

absl::optional<PacketCutter> PacketCutter::Of(const Frame& frame) noexcept {
  return Of(frame, PieceReader(frame.bytes()));
}

absl::optional<PacketCutter> PacketCutter::Of(const Frame& frame, PieceReader bytes) noexcept {
  const auto headers = ParseSuperFrame(frame.bytes(), frame.total());
  if (!headers.has_value() || !IsSuperFrame(*headers, frame.gso)) return absl::nullopt;
  if (!frame.checksum.needed || !NamesChecksumOf(headers->l4, frame.checksum)) return absl::nullopt;
  const auto plan = Segmentation::Of(frame.bytes(), frame.total(), frame.gso, kLargestSuperFrame);
  if (!plan.has_value() || plan->header_size() > kLargestHeaders) return absl::nullopt;
  bytes.Skip(plan->header_size());
  return PacketCutter(*plan, frame.bytes(), bytes);
}

size_t PacketCutter::NextSize() const {
  return next_ == plan_.count() ? 0
                                : plan_.header_size() - plan_.ip_at() + plan_.payload_size(next_);
}

absl::Span<uint8_t> PacketCutter::Next(absl::Span<uint8_t> room) noexcept {
  const absl::Span<uint8_t> packet = room.first(NextSize());
  std::array<uint8_t, kLargestHeaders> headers;
  std::memcpy(headers.data(), head_.data(), plan_.header_size());
  const ChecksumRequest checksum =
      plan_.WriteHeaders(next_, absl::MakeSpan(headers).first(plan_.header_size()));
  const size_t header_size = plan_.header_size() - plan_.ip_at();
  std::memcpy(packet.data(), headers.data() + plan_.ip_at(), header_size);
  const uint16_t data_sum =
      payload_.CopyAndSum(packet.size() - header_size, packet.data() + header_size);
  ++next_;
  const size_t l4 = checksum.start - plan_.ip_at();
  // TCP's and UDP's headers have an even length, so the data's words are whole.
  const uint16_t sum = OnesComplementSum(packet.subspan(l4, header_size - l4), data_sum);
  WriteWire(be16(ChecksumField(sum, checksum.offset)), &packet[l4 + checksum.offset]);
  return packet;
}

}  // namespace eoib
