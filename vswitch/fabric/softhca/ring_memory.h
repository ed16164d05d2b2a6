// RingMemory: the memory of a ring, mapped into this process.
//
// Across processes it is two memory files (sealed_file.h): `data`, which only the producer can
// write, and `index`, a page that both ends write. In one process it is heap memory. A new file is
// all zeros, and a producer writes only headers without padding and payloads, so a consumer can
// read nothing in `data` that was not sent to it.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_RING_MEMORY_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_RING_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::softhca {

// The index page. Positions count bytes from the start and do not wrap in practice (2^64 bytes).
// Each member has its own cache line, because producer and consumer write different ones.
struct RingIndex {
  alignas(64) std::atomic<uint64_t> head{0};   // producer: records before it are published
  alignas(64) std::atomic<uint64_t> tail{0};   // consumer: records before it are freed
  alignas(64) std::atomic<uint32_t> armed{0};  // consumer: ring the doorbell when head moves
  // Producer: ring the space eventfd when tail moves.
  alignas(64) std::atomic<uint32_t> space_wanted{0};
  alignas(64) std::atomic<uint32_t> released{0};  // producer: head will not move again
  // kProducer, kConsumer: that end has left the ring.
  alignas(64) std::atomic<uint32_t> left{0};

  static constexpr uint32_t kProducer = 1, kConsumer = 2;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(RingIndex) == 384);

// Immutable except for the bytes in the ring; any thread.
class RingMemory {
 public:
  static constexpr uint64_t kMinCapacity = 16 * 1024;
  static constexpr uint64_t kMaxCapacity = 64 * 1024 * 1024;
  // Limit for mapping another process's ring. Our producers make no larger ones, and a peer may
  // offer eight.
  static constexpr uint64_t kMaxShared = 4 * 1024 * 1024;

  // Makes a producer's ring in memory files. `capacity`: a power of two from kMinCapacity to
  // kMaxShared.
  static absl::StatusOr<std::shared_ptr<RingMemory>> CreateShared(uint64_t capacity);
  // Maps a consumer's view of another process's ring. kInvalidArgument if the files are not sealed
  // or have the wrong size.
  static absl::StatusOr<std::shared_ptr<RingMemory>> Map(int data_fd, int index_fd,
                                                         uint64_t capacity);
  // Checks what Map checks, for a process that passes the ring on.
  static absl::Status Check(int data_fd, int index_fd, uint64_t capacity);
  // For both ends in this process: up to kMaxCapacity.
  static std::shared_ptr<RingMemory> CreateLocal(uint64_t capacity);

  ~RingMemory();
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;

  uint8_t* data() const { return data_; }  // writable only for the producer
  RingIndex* index() const { return index_; }
  uint64_t capacity() const { return capacity_; }
  // Once after CreateShared: takes the files' descriptors, for the consumer. The mappings stay.
  bool ReleaseFds(UniqueFd* data, UniqueFd* index) {
    *data = std::move(data_fd_);
    *index = std::move(index_fd_);
    return data->valid() && index->valid();
  }

  // In one process: the producer's eventfd, which the consumer rings when it has made room.
  void set_space(std::shared_ptr<UniqueFd> space) { space_ = std::move(space); }
  const std::shared_ptr<UniqueFd>& space() const { return space_; }

 private:
  explicit RingMemory(uint64_t capacity) : capacity_(capacity) {}

  const uint64_t capacity_;
  uint8_t* data_ = nullptr;
  RingIndex* index_ = nullptr;
  bool mapped_ = false;
  UniqueFd data_fd_;
  UniqueFd index_fd_;
  std::shared_ptr<UniqueFd> space_;
};

bool IsRingCapacity(uint64_t capacity);

// Copies a record's header to `to` in 8-byte loads, once: the other side may be writing it. All
// decisions use the copy.
inline constexpr size_t kRingHeaderSize = 64;
void LoadHeader(const uint8_t* from, void* to);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_RING_MEMORY_H_
