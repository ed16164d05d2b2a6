#include "vswitch/fabric/softhca/counters_page.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <utility>

#include "vswitch/fabric/softhca/sealed_file.h"

namespace eoib::softhca {
namespace {

constexpr char kWhat[] = "port's counters";

// Identifies the memory file, however a process got its descriptor.
uint64_t InodeOf(int fd) {
  struct stat status {};
  fstat(fd, &status);
  return status.st_ino;
}

}  // namespace

CountersPage::CountersPage(std::atomic<uint64_t>* words, uint64_t file, UniqueFd fd)
    : words_(words), file_(file), fd_(std::move(fd)) {}

absl::StatusOr<std::shared_ptr<CountersPage>> CountersPage::Create() {
  static_assert(sizeof(SoftPortCounters) <= kSize &&
                sizeof(std::atomic<uint64_t>) == sizeof(uint64_t));
  absl::StatusOr<SealedFile> file = MakeSealedFile(kWhat, kSize, SealedFile::Writers::kMaker);
  if (!file.ok()) return file.status();
  const uint64_t inode = InodeOf(file->fd.get());
  return std::shared_ptr<CountersPage>(new CountersPage(
      static_cast<std::atomic<uint64_t>*>(file->address), inode, std::move(file->fd)));
}

absl::StatusOr<std::shared_ptr<const CountersPage>> CountersPage::Map(int fd) {
  if (absl::Status status = CheckSealedFile(kWhat, fd, kSize); !status.ok()) return status;
  const absl::StatusOr<void*> page = MapFile(kWhat, fd, kSize, PROT_READ);
  if (!page.ok()) return page.status();
  return std::shared_ptr<const CountersPage>(
      new CountersPage(static_cast<std::atomic<uint64_t>*>(*page), InodeOf(fd), UniqueFd()));
}

CountersPage::~CountersPage() { munmap(words_, kSize); }

void CountersPage::Store(const SoftPortCounters& counters) {
  std::atomic<uint64_t>* word = words_;
#define EOIB_X(name, part, help) (word++)->store(counters.name, std::memory_order_relaxed);
  EOIB_PORT_COUNTERS(EOIB_X)
#undef EOIB_X
  (word++)->store(counters.ring_subnet, std::memory_order_relaxed);
  word->store(counters.ended, std::memory_order_relaxed);
}

SoftPortCounters CountersPage::Load() const {
  SoftPortCounters counters;
  const std::atomic<uint64_t>* word = words_;
#define EOIB_X(name, part, help) counters.name = (word++)->load(std::memory_order_relaxed);
  EOIB_PORT_COUNTERS(EOIB_X)
#undef EOIB_X
  counters.ring_subnet = (word++)->load(std::memory_order_relaxed);
  counters.ended = word->load(std::memory_order_relaxed);
  return counters;
}

}  // namespace eoib::softhca
