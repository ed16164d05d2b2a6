#include "vswitch/port/tap_reader.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "absl/base/optimization.h"
#include "absl/types/optional.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/segment_extension.h"

namespace eoib {
namespace {

// Any of the frames of a burst may need the buffers of a large frame.
constexpr size_t kBuffersForRead = kMaxSegments;
// Reads of the smallest burst: a lone frame, and the end.
constexpr size_t kLeastReads = 2;

std::unique_ptr<uint8_t[]> MakeSpills(size_t count) {
  return std::make_unique_for_overwrite<uint8_t[]>(count * ScatterList::Spill::kSize);
}

}  // namespace

// The frames that one call of Receive has read.
struct TapReader::Batch {
  BufferPool* const pool;
  const Limits limits;
  const absl::Span<Frame> out;
  PortReceiveCounts* const counts;
  size_t received = 0;
  size_t buffers = 0;
  size_t reads = 0;  // bounds the call even if every frame is refused
  int error = 0;

  bool HasRoom() const { return reads < out.size() && buffers < out.size(); }
};

struct TapReader::Bursts {
  std::unique_ptr<BurstReader> reader;
  const std::unique_ptr<uint8_t[]> spills = MakeSpills(BurstReader::kMost);
  size_t reads = kLeastReads;  // of the next burst
};

TapReader::TapReader(int tap, bool super_frames)
    : tap_(tap), spill_bytes_(super_frames ? MakeSpills(1) : nullptr), spill_{spill_bytes_.get()} {}

TapReader::~TapReader() = default;

size_t TapReader::Receive(BufferPool* pool, const Limits& limits, absl::Span<Frame> out,
                          PortReceiveCounts* counts, int* error) noexcept {
  Batch batch{pool, limits, out, counts};
  if (CanBurst(*pool)) {
    ReceiveBursts(&batch);
  } else {
    ReceiveOneByOne(&batch);
  }
  *error = batch.error;
  return batch.received;
}

void TapReader::ReceiveOneByOne(Batch* batch) noexcept {
  ScatterList list(batch->pool, batch->limits.mtu, takes_super_frames() ? &spill_ : nullptr);
  for (; batch->HasRoom() && list.Refill(); ++batch->reads) {
    VnetHeader header;
    const ssize_t size = list.Read(tap_, &header, sizeof(header));
    if (ABSL_PREDICT_FALSE(size < static_cast<ssize_t>(sizeof(header)))) {
      batch->error = size < 0 ? errno : EAGAIN;
      return;
    }
    Accept(header, static_cast<uint32_t>(size) - sizeof(header), &list, batch);
  }
}

bool TapReader::CanBurst(const BufferPool& pool) noexcept {
  if (!takes_super_frames() || !spill_.expects_small_frames() || io_uring_is_refused_) return false;
  if (pool.count(BufferPool::State::kFree) < kLeastReads * kBuffersForRead) return false;
  if (bursts_ != nullptr) return true;
  bursts_ = std::make_unique<Bursts>();
  bursts_->reader = BurstReader::Make();
  io_uring_is_refused_ = bursts_->reader == nullptr;
  return !io_uring_is_refused_;
}

// A burst that was full is followed by a larger one; one that was not has met the end.
void TapReader::ReceiveBursts(Batch* batch) noexcept {
  while (batch->HasRoom() && batch->error == 0) {
    const size_t free = batch->pool->count(BufferPool::State::kFree) / kBuffersForRead;
    const size_t reads = std::min({bursts_->reads, batch->out.size() - batch->reads, free});
    if (reads == 0) return;
    const size_t arrived = ReceiveBurst(batch, reads);
    bursts_->reads =
        std::clamp(arrived == reads ? 2 * reads : arrived + 1, kLeastReads, BurstReader::kMost);
  }
}

// Returns how many frames arrived, refused ones too. Each has buffers of its own.
size_t TapReader::ReceiveBurst(Batch* batch, size_t reads) noexcept {
  struct Arrival {
    VnetHeader header;
    ScatterList::Spill spill;
    absl::optional<ScatterList> list;
  };
  std::array<Arrival, BurstReader::kMost> arrivals;
  for (size_t i = 0; i < reads; ++i) {
    Arrival& arrival = arrivals[i];
    arrival.spill = {&bursts_->spills[i * ScatterList::Spill::kSize],
                     ScatterList::Spill::kNarrowAfter};
    arrival.list.emplace(batch->pool, batch->limits.mtu, &arrival.spill);
    arrival.list->Refill();  // ReceiveBursts has made sure of the buffers
    bursts_->reader->Add(tap_, arrival.list->Parts(&arrival.header, sizeof(arrival.header)));
  }
  batch->reads += reads;
  const absl::Span<const int> results = bursts_->reader->ReadAll();
  size_t arrived = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] < static_cast<int>(sizeof(VnetHeader))) {
      batch->error = results[i] < 0 ? -results[i] : EAGAIN;
      continue;  // a frame may have come since
    }
    ++arrived;
    Accept(arrivals[i].header, static_cast<uint32_t>(results[i]) - sizeof(VnetHeader),
           &*arrivals[i].list, batch);
    if (!arrivals[i].spill.expects_small_frames()) spill_.small_frames = 0;
  }
  if (ABSL_PREDICT_FALSE(results.size() < reads || batch->error == EOPNOTSUPP)) {
    io_uring_is_refused_ = true;  // the next call reads one by one
    batch->error = EAGAIN;
  }
  return arrived;
}

// Makes a frame of what was read, or counts why it is refused.
void TapReader::Accept(const VnetHeader& header, uint32_t length, ScatterList* list,
                       Batch* batch) noexcept {
  const absl::optional<Gso> gso = header.gso();
  // An operator may give the interface a larger MTU than control did. Then it sends frames that the
  // others' interfaces do not take.
  const auto exceeds = [&] {
    return gso->type == GsoType::kNone && length > batch->limits.mtu &&
           length > batch->limits.largest;
  };
  if (ABSL_PREDICT_FALSE(!gso.has_value() || length > list->largest() || exceeds())) {
    ++batch->counts->too_large;
    return;
  }
  if (ABSL_PREDICT_FALSE(length < kEthernetHeaderSize)) {
    ++batch->counts->runt;
    return;
  }
  Frame& frame = batch->out[batch->received];
  frame = list->Take(length, *gso);
  frame.checksum_is_good = header.has_verified();
  if (ABSL_PREDICT_FALSE(!header.ReadChecksum(frame.length, &frame.checksum))) {
    ++batch->counts->bad_checksum_request;
    batch->pool->Free(frame.buffer);
    return;
  }
  batch->buffers += frame.buffers;
  ++batch->received;
}

}  // namespace eoib
