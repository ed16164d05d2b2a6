#include "vswitch/fabric/softhca/ring_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"
#include "fdb/check.h"

namespace eoib::softhca {
namespace {

constexpr size_t kIndexFileSize = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status SystemError(absl::string_view what) { return absl::InternalError(absl::StrCat(what, ": ", std::strerror(errno))); }

absl::StatusOr<UniqueFd> MakeSealedFile(const char* name, size_t size) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return SystemError(absl::StrCat("create a memory file for a ", name));
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return SystemError(absl::StrCat("size the ", name));
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return SystemError(absl::StrCat("seal the ", name));
  return fd;
}

absl::Status CheckFile(const char* name, int fd, size_t size) {
  const int seals = fcntl(fd, F_GET_SEALS);
  struct stat status;
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return absl::InvalidArgumentError(absl::StrCat("map a ", name, ": it is not a sealed memory file"));
  }
  if (fstat(fd, &status) != 0 || static_cast<uint64_t>(status.st_size) != size) {
    return absl::InvalidArgumentError(absl::StrCat("map a ", name, ": its size is not ", size));
  }
  return absl::OkStatus();
}

absl::StatusOr<void*> MapFile(const char* name, int fd, size_t size, int protection) {
  void* address = mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return SystemError(absl::StrCat("map a ", name));
  return address;
}

}  // namespace

bool IsRingCapacity(uint64_t capacity) {
  return (capacity & (capacity - 1)) == 0 && capacity >= RingMemory::kMinCapacity && capacity <= RingMemory::kMaxCapacity;
}

absl::StatusOr<std::shared_ptr<RingMemory>> RingMemory::CreateShared(uint64_t capacity) {
  EOIB_CHECK(IsRingCapacity(capacity));
  std::shared_ptr<RingMemory> memory(new RingMemory(capacity));
  memory->mapped_ = true;
  absl::StatusOr<UniqueFd> data_file = MakeSealedFile("ring's data", capacity);
  if (!data_file.ok()) return data_file.status();
  absl::StatusOr<UniqueFd> index_file = MakeSealedFile("ring's index", kIndexFileSize);
  if (!index_file.ok()) return index_file.status();
  memory->data_fd_ = std::move(*data_file);
  memory->index_fd_ = std::move(*index_file);
  const absl::StatusOr<void*> data = MapFile("ring's data", memory->data_fd_.get(), capacity, PROT_READ | PROT_WRITE);
  if (!data.ok()) return data.status();
  memory->data_ = static_cast<uint8_t*>(*data);
  const absl::StatusOr<void*> index = MapFile("ring's index", memory->index_fd_.get(), kIndexFileSize, PROT_READ | PROT_WRITE);
  if (!index.ok()) return index.status();
  memory->index_ = new (*index) RingIndex();
  return memory;
}

absl::StatusOr<std::shared_ptr<RingMemory>> RingMemory::Map(int data_fd, int index_fd, uint64_t capacity) {
  if (!IsRingCapacity(capacity)) return absl::InvalidArgumentError(absl::StrCat("map a ring: no ring has capacity ", capacity));
  if (absl::Status status = CheckFile("ring's data", data_fd, capacity); !status.ok()) return status;
  if (absl::Status status = CheckFile("ring's index", index_fd, kIndexFileSize); !status.ok()) return status;
  std::shared_ptr<RingMemory> memory(new RingMemory(capacity));
  memory->mapped_ = true;
  const absl::StatusOr<void*> data = MapFile("ring's data", data_fd, capacity, PROT_READ);
  if (!data.ok()) return data.status();
  memory->data_ = static_cast<uint8_t*>(*data);
  const absl::StatusOr<void*> index = MapFile("ring's index", index_fd, kIndexFileSize, PROT_READ | PROT_WRITE);
  if (!index.ok()) return index.status();
  // The producer has constructed it; to this process it is all atomics, whatever they hold.
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

}  // namespace eoib::softhca
