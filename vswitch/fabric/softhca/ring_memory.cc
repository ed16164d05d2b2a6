#include "vswitch/fabric/softhca/ring_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

#include "absl/strings/str_cat.h"
#include "vswitch/base/check.h"
#include "vswitch/fabric/softhca/sealed_file.h"

namespace eoib::softhca {
namespace {

constexpr size_t kIndexFileSize = 4096;

// A word that may alias any bytes.
using SharedWord = uint64_t __attribute__((may_alias));

}  // namespace

bool IsRingCapacity(uint64_t capacity) {
  return (capacity & (capacity - 1)) == 0 && capacity >= RingMemory::kMinCapacity &&
         capacity <= RingMemory::kMaxCapacity;
}

absl::StatusOr<std::shared_ptr<RingMemory>> RingMemory::CreateShared(uint64_t capacity) {
  EOIB_CHECK(IsRingCapacity(capacity) && capacity <= kMaxShared);
  std::shared_ptr<RingMemory> memory(new RingMemory(capacity));
  memory->mapped_ = true;
  absl::StatusOr<SealedFile> data =
      MakeSealedFile("ring's data", capacity, SealedFile::Writers::kMaker);
  if (!data.ok()) return data.status();
  memory->data_ = static_cast<uint8_t*>(data->address);
  memory->data_fd_ = std::move(data->fd);
  absl::StatusOr<SealedFile> index =
      MakeSealedFile("ring's index", kIndexFileSize, SealedFile::Writers::kAll);
  if (!index.ok()) return index.status();
  memory->index_fd_ = std::move(index->fd);
  memory->index_ = new (index->address) RingIndex();
  return memory;
}

absl::Status RingMemory::Check(int data_fd, int index_fd, uint64_t capacity) {
  if (!IsRingCapacity(capacity) || capacity > kMaxShared) {
    return absl::InvalidArgumentError(absl::StrCat("map a ring: no ring has capacity ", capacity));
  }
  if (absl::Status status = CheckSealedFile("ring's data", data_fd, capacity); !status.ok())
    return status;
  return CheckSealedFile("ring's index", index_fd, kIndexFileSize);
}

absl::StatusOr<std::shared_ptr<RingMemory>> RingMemory::Map(int data_fd, int index_fd,
                                                            uint64_t capacity) {
  if (absl::Status status = Check(data_fd, index_fd, capacity); !status.ok()) return status;
  std::shared_ptr<RingMemory> memory(new RingMemory(capacity));
  memory->mapped_ = true;
  const absl::StatusOr<void*> data = MapFile("ring's data", data_fd, capacity, PROT_READ);
  if (!data.ok()) return data.status();
  memory->data_ = static_cast<uint8_t*>(*data);
  const absl::StatusOr<void*> index =
      MapFile("ring's index", index_fd, kIndexFileSize, PROT_READ | PROT_WRITE);
  if (!index.ok()) return index.status();
  // The producer constructed it. To this process it is a set of atomics with arbitrary values.
  memory->index_ = std::launder(static_cast<RingIndex*>(*index));
  return memory;
}

std::shared_ptr<RingMemory> RingMemory::CreateLocal(uint64_t capacity) {
  EOIB_CHECK(IsRingCapacity(capacity));
  std::shared_ptr<RingMemory> memory(new RingMemory(capacity));
  memory->data_ = static_cast<uint8_t*>(std::aligned_alloc(64, capacity));
  EOIB_CHECK(memory->data_ != nullptr);
  memory->index_ = new RingIndex();
  return memory;
}

RingMemory::~RingMemory() {
  if (mapped_) {
    if (data_ != nullptr) munmap(data_, capacity_);
    if (index_ != nullptr) munmap(index_, kIndexFileSize);
  } else {
    std::free(data_);
    delete index_;
  }
}

void LoadHeader(const uint8_t* from, void* to) {
  const auto* shared = reinterpret_cast<const SharedWord*>(from);
  auto* const words = static_cast<SharedWord*>(to);
  for (size_t i = 0; i < kRingHeaderSize / sizeof(SharedWord); ++i)
    words[i] = __atomic_load_n(&shared[i], __ATOMIC_RELAXED);
}

}  // namespace eoib::softhca
