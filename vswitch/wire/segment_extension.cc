#include "vswitch/wire/segment_extension.h"

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

struct ExtensionWire {
  be16 total;
  be16 piece;
  be16 gso_size;
  be16 type_and_start;  // GSO type 4 | checksum start 12
};
static_assert(sizeof(ExtensionWire) == kSegmentExtensionSize);

constexpr int kTypeShift = 12;
constexpr uint16_t kStartMask = 0x0fff;

bool IsKnown(GsoType type) {
  return type == GsoType::kNone || type == GsoType::kTcp || type == GsoType::kUdp ||
         type == GsoType::kTcpEcn;
}

}  // namespace

bool DecodeSegmentExtension(absl::Span<const uint8_t> bytes, SegmentExtension* extension) noexcept {
  if (bytes.size() < kSegmentExtensionSize) return false;
  const auto wire = ReadWire<ExtensionWire>(bytes.data());
  const uint16_t last = wire.type_and_start.value();
  const Gso gso{static_cast<GsoType>(last >> kTypeShift), wire.gso_size.value()};
  if (!IsKnown(gso.type) || (gso.type == GsoType::kNone) != (gso.size == 0)) return false;
  *extension = {wire.total.value(), wire.piece.value(), gso,
                static_cast<uint16_t>(last & kStartMask)};
  return extension->total >= kEthernetHeaderSize && extension->piece != 0 &&
         extension->total <= kMaxSegments * extension->piece;
}

void EncodeSegmentExtension(const SegmentExtension& extension, uint8_t* out) noexcept {
  ExtensionWire wire;
  wire.total = extension.total;
  wire.piece = extension.piece;
  wire.gso_size = extension.gso.size;
  wire.type_and_start =
      static_cast<uint16_t>(static_cast<unsigned>(extension.gso.type) << kTypeShift |
                            (extension.checksum_start & kStartMask));
  WriteWire(wire, out);
}

bool AcceptSuperFrame(absl::Span<uint8_t> head, const SegmentExtension& extension,
                      L4Checksum vouched, ChecksumRequest* request) noexcept {
  *request = {};
  if (vouched == L4Checksum::kNone)
    return extension.gso.type == GsoType::kNone && extension.checksum_start == 0;
  const auto headers = ParseSuperFrame(head, extension.total);
  if (!headers || headers->l4.kind != vouched || headers->l4.l4 != extension.checksum_start)
    return false;
  if (extension.gso.type != GsoType::kNone && !IsSuperFrame(*headers, extension.gso)) return false;
  *request = WritePseudoHeaderSum(head, headers->l4);
  return true;
}

}  // namespace eoib
