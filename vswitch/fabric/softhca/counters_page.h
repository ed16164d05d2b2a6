// CountersPage: a port's counters where its subnet can read them at any time, also after the port has died.
//
// Across processes it is a memory file of one page, which the port's process writes and fabricd maps read-only; it is sealed
// against shrinking and growing, so that a port cannot make fabricd fault. In one process both hold the same object. Each
// counter is read and written on its own: a reader may see one of a batch's counts before another.
//
// A port that lies about its counters deceives whoever looks at its counters, nobody else.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_COUNTERS_PAGE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_COUNTERS_PAGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "vswitch/fabric/softhca/port_counters.h"
#include "vswitch/fabric/unique_fd.h"

namespace eoib::softhca {

// Any thread may Load; one thread at a time stores.
class CountersPage {
 public:
  static constexpr size_t kSize = 4096;

  // The port's.
  static absl::StatusOr<std::shared_ptr<CountersPage>> Create();
  // fabricd's view. kInvalidArgument if the file is not a sealed one of kSize bytes.
  static absl::StatusOr<std::shared_ptr<const CountersPage>> Map(int fd);
  ~CountersPage();
  CountersPage(const CountersPage&) = delete;
  CountersPage& operator=(const CountersPage&) = delete;

  void Store(const PortCounters& counters);
  PortCounters Load() const;
  // Of a page that was created: for fabricd.
  int fd() const { return fd_.get(); }
  // The same counters, however they were mapped.
  bool IsSameAs(const CountersPage& other) const { return file_ == other.file_; }

 private:
  CountersPage(std::atomic<uint64_t>* words, uint64_t file, UniqueFd fd);

  std::atomic<uint64_t>* const words_;  // in the order of EOIB_PORT_COUNTERS, the other members behind them
  const uint64_t file_;                 // its inode
  const UniqueFd fd_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_COUNTERS_PAGE_H_
