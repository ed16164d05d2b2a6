#include "vswitch/fabric/softhca/counters_page.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <bit>
#include <utility>

#include "vswitch/fabric/softhca/sealed_file.h"

namespace eoib::softhca {
namespace {

constexpr char kWhat[] = "port's counters";
using PageWords = std::array<uint64_t, sizeof(SoftPortCounters) / sizeof(uint64_t)>;

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
  const auto members = std::bit_cast<PageWords>(counters);
  for (size_t i = 0; i < members.size(); ++i)
    words_[i].store(members[i], std::memory_order_relaxed);
}

SoftPortCounters CountersPage::Load() const {
  PageWords members;
  for (size_t i = 0; i < members.size(); ++i)
    members[i] = words_[i].load(std::memory_order_relaxed);
  return std::bit_cast<SoftPortCounters>(members);
}

}  // namespace eoib::softhca
