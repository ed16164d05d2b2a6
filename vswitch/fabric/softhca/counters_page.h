// CountersPage: a port's counters on a page that its subnet can read at any time, also after the
// port has died.
//
// Across processes it is a memory file of one page (sealed_file.h): the port's process writes it,
// fabricd maps it read-only. In one process both hold the same object. Counters are read and
// written one by one, so a reader may see one count of a batch before another. A port that writes
// false counters misleads only their readers.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_COUNTERS_PAGE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_COUNTERS_PAGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/soft_port_counters.h"

namespace eoib::softhca {

// Any thread may Load; one thread at a time may Store.
class CountersPage {
 public:
  static constexpr size_t kSize = 4096;

  // Makes the port's own page.
  static absl::StatusOr<std::shared_ptr<CountersPage>> Create();
  // Maps fabricd's view of a port's page. kInvalidArgument if the file is not sealed or not kSize
  // bytes long.
  static absl::StatusOr<std::shared_ptr<const CountersPage>> Map(int fd);
  ~CountersPage();
  CountersPage(const CountersPage&) = delete;
  CountersPage& operator=(const CountersPage&) = delete;

  void Store(const SoftPortCounters& counters);
  SoftPortCounters Load() const;
  // The descriptor to send to fabricd; valid after Create only.
  int fd() const { return fd_.get(); }
  // True if both map the same file.
  bool IsSameAs(const CountersPage& other) const { return file_ == other.file_; }

 private:
  CountersPage(std::atomic<uint64_t>* words, uint64_t file, UniqueFd fd);

  // The members of SoftPortCounters.
  std::atomic<uint64_t>* const words_;
  const uint64_t file_;  // its inode
  const UniqueFd fd_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_COUNTERS_PAGE_H_
