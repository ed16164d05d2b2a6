// CohortVPorts: maps each cohort to its vPort.
//
// An entry of the MAC table names a cohort, not a vPort. A cohort is a set of entries that move or are forgotten together,
// such as all entries of one vPort in one VLAN. One store here moves or forgets all of them.
#ifndef EOIB_FDB_COHORT_VPORTS_H_
#define EOIB_FDB_COHORT_VPORTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fdb/vport.h"
#include "vswitch/base/address.h"

namespace eoib {

class CohortId : public Number<struct CohortIdTag, uint32_t> {
 public:
  using Number::Number;
};

// One writer. A Reader stays valid as long as this object lives: all address space is reserved at once, and memory is taken on
// the first write.
class CohortVPorts {
 public:
  static constexpr uint32_t kNone = VPortId::None().value();

  class Reader {
   public:
    Reader() = default;  // reads nothing
    // The vPort of a cohort that the reader found in a bucket. Call this before checking that the bucket was stable: if the
    // bucket changed, the number may belong to no cohort and the answer means nothing. Requires Has(cohort).
    uint32_t VPortOf(size_t cohort) const { return words_[cohort].load(std::memory_order_acquire); }

   private:
    friend class CohortVPorts;
    explicit Reader(const std::atomic<uint32_t>* words) : words_(words) {}
    const std::atomic<uint32_t>* words_;
  };

  // Room for cohorts 0 to most - 1. Requires most <= 2^31. Terminates the program if there is no address space.
  explicit CohortVPorts(size_t most);
  ~CohortVPorts();
  CohortVPorts(const CohortVPorts&) = delete;
  CohortVPorts& operator=(const CohortVPorts&) = delete;

  // False if there is no memory.
  bool Set(CohortId cohort, VPortId vport);
  // True if the array has a word for `cohort`, which it has for each number below `most`.
  bool Has(CohortId cohort) const { return cohort.value() < size_; }
  // Requires Has(cohort).
  VPortId Get(CohortId cohort) const { return VPortId(reader().VPortOf(cohort.value())); }
  Reader reader() const { return Reader(words_); }

 private:
  size_t bytes() const { return size_ * sizeof(uint32_t); }

  const size_t size_;
  size_t writable_ = 0;  // bytes
  std::atomic<uint32_t>* words_;
};

}  // namespace eoib

#endif  // EOIB_FDB_COHORT_VPORTS_H_
