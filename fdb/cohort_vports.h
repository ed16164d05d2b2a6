// CohortVPorts: which vPort the entries of a cohort are behind.
//
// An entry of the MAC table does not name its vPort but a cohort: entries that come to be somewhere else, or nowhere, together
// (those that a vPort has in one VLAN, say). So all of them are moved or forgotten by one store here.
#ifndef EOIB_FDB_COHORT_VPORTS_H_
#define EOIB_FDB_COHORT_VPORTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fdb/address.h"
#include "fdb/vport.h"

namespace eoib {

class CohortId : public Number<struct CohortIdTag, uint32_t> {
 public:
  using Number::Number;
};

// One writer. Readers take a Reader, which stays good as long as this lives: address space is reserved at once, memory follows.
class CohortVPorts {
 public:
  static constexpr uint32_t kNone = VPortId::None().value();

  class Reader {
   public:
    Reader() = default;  // of nothing
    // Of a cohort as a reader found it in a bucket. Take this before the look that says whether the bucket was stable: what it
    // answers for numbers that were no cohort's at that moment means nothing. Requires Has(cohort).
    uint32_t VPortOf(size_t cohort) const { return words_[cohort].load(std::memory_order_acquire); }

   private:
    friend class CohortVPorts;
    explicit Reader(const std::atomic<uint32_t>* words) : words_(words) {}
    const std::atomic<uint32_t>* words_;
  };

  // Cohorts below `most`, which is at most 2^31. Terminates the program if there is no address space.
  explicit CohortVPorts(size_t most);
  ~CohortVPorts();
  CohortVPorts(const CohortVPorts&) = delete;
  CohortVPorts& operator=(const CohortVPorts&) = delete;

  // False if there is no memory.
  bool Set(CohortId cohort, VPortId vport);
  // True if there is a word for it, as there is for all below the most.
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
