#include "vswitch/port/divide_super_frame.h"

#include <algorithm>
#include <cstring>

#include "vswitch/wire/segmentation.h"

namespace eoib {
namespace {

// Copies `bytes` to the end of the frame: into the first buffer up to `first` bytes, then into new
// ones of `piece` bytes.
void AppendBytes(absl::Span<const uint8_t> bytes, size_t first, size_t piece, BufferPool* pool,
                 Frame* frame) {
  const size_t head = std::min(bytes.size(), first - frame->length);
  std::memcpy(frame->data + frame->length, bytes.data(), head);
  frame->length += static_cast<uint32_t>(head);
  bytes.remove_prefix(head);
  frame->rest = static_cast<uint32_t>(bytes.size());
  for (BufferId last = frame->buffer; !bytes.empty(); ++frame->buffers) {
    const BufferId next = pool->Allocate();
    const size_t size = std::min(bytes.size(), piece);
    std::memcpy(pool->Frame(next), bytes.data(), size);
    pool->Append(last, next, pool->Frame(next), static_cast<uint32_t>(size));
    bytes.remove_prefix(size);
    last = next;
  }
}

// Part `i`. The first one only has CWR (RFC 3168 §6.1.2).
Frame MakePart(absl::Span<const uint8_t> whole, const Segmentation& plan, size_t i, const Gso& gso,
               const PieceLayout& layout, BufferPool* pool) {
  Frame part{pool->Allocate()};
  part.data = pool->Frame(part.buffer);
  part.length = static_cast<uint32_t>(plan.header_size());
  std::memcpy(part.data, whole.data(), part.length);
  part.checksum = plan.WriteHeaders(i, part.bytes());
  if (plan.payload_size(i) > gso.size) part.gso = gso;
  if (i != 0 && part.gso.type == GsoType::kTcpEcn) part.gso.type = GsoType::kTcp;
  const bool one_datagram =
      part.gso.type == GsoType::kNone && part.length + plan.payload_size(i) <= layout.datagram;
  AppendBytes(whole.subspan(plan.payload_at(i), plan.payload_size(i)),
              one_datagram ? layout.datagram : layout.first, layout.piece, pool, &part);
  return part;
}

}  // namespace

size_t DivideSuperFrame(absl::Span<const uint8_t> whole, const Gso& gso, const PieceLayout& layout,
                        BufferPool* pool, absl::Span<Frame> out) noexcept {
  const auto headers = ParseSuperFrame(whole, whole.size());
  if (!headers.has_value() || !IsSuperFrame(*headers, gso) || headers->payload >= layout.first)
    return 0;
  // As many whole segments as fit. A segment that does not fit alone becomes shorter, if it is TCP.
  const size_t segments = std::max<size_t>(1, (layout.Largest() - headers->payload) / gso.size);
  const Gso each{gso.type, static_cast<uint16_t>(segments * gso.size)};
  const auto plan = Segmentation::Of(whole, whole.size(), each, layout.Largest());
  if (!plan.has_value() || plan->count() > out.size()) return 0;
  size_t buffers = 0;
  for (size_t i = 0; i < plan->count(); ++i)
    buffers += layout.BuffersFor(plan->header_size() + plan->payload_size(i));
  if (pool->count(BufferPool::State::kFree) < buffers) return 0;
  for (size_t i = 0; i < plan->count(); ++i) out[i] = MakePart(whole, *plan, i, gso, layout, pool);
  return plan->count();
}

}  // namespace eoib
