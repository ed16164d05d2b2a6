#include "vswitch/port/burst_reader.h"

#include <utility>

#include "vswitch/base/check.h"

namespace eoib {

std::unique_ptr<BurstReader> BurstReader::Make() {
  auto reader = std::unique_ptr<BurstReader>(new BurstReader());
  if (io_uring_queue_init(kMost, &reader->ring_, 0) == 0) return reader;
  reader->ring_.ring_fd = -1;
  return nullptr;
}

BurstReader::~BurstReader() {
  if (ring_.ring_fd >= 0) io_uring_queue_exit(&ring_);
}

void BurstReader::Add(int fd, absl::Span<const iovec> parts) {
  EOIB_DCHECK(added_ < kMost);
  io_uring_sqe* const read = io_uring_get_sqe(&ring_);
  io_uring_prep_readv(read, fd, parts.data(), static_cast<unsigned>(parts.size()), 0);
  // Without this flag the kernel ignores O_NONBLOCK of files that know the flag, and waits for a
  // frame.
  read->rw_flags = RWF_NOWAIT;
  io_uring_sqe_set_data64(read, added_++);
}

// The kernel carries out reads that do not wait within io_uring_submit.
absl::Span<const int> BurstReader::ReadAll() {
  const size_t reads = std::exchange(added_, 0);
  if (io_uring_submit(&ring_) != static_cast<int>(reads)) return {};
  size_t done = 0;
  for (; done < reads; ++done) {
    io_uring_cqe* completion;
    if (io_uring_wait_cqe(&ring_, &completion) != 0) break;
    results_[io_uring_cqe_get_data64(completion)] = completion->res;
    io_uring_cqe_seen(&ring_, completion);
  }
  return absl::MakeConstSpan(results_).first(done);
}

}  // namespace eoib
