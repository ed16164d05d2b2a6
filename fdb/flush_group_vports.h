// FlushGroupVPorts: maps each flush group to its vPort.
//
// An entry of the MAC table names a flush group, not a vPort. A flush group is a set of entries
// that move or are flushed together, such as all entries of one vPort in one VLAN. One store here
// moves or flushes all of them.
#ifndef EOIB_FDB_FLUSH_GROUP_VPORTS_H_
#define EOIB_FDB_FLUSH_GROUP_VPORTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fdb/vport.h"
#include "vswitch/base/address.h"

namespace eoib {

class FlushGroupId : public Number<struct FlushGroupIdTag, uint32_t> {
 public:
  using Number::Number;
};

// One writer. A Reader stays valid as long as this object lives: all address space is reserved at
// once, and memory is taken on the first write.
class FlushGroupVPorts {
 public:
  static constexpr uint32_t kNone = VPortId::None().value();

  class Reader {
   public:
    Reader() = default;  // reads nothing
    // The vPort of a flush group that the reader found in a bucket. Call this before checking that
    // the bucket was stable: if the bucket changed, the number may belong to no flush group and the
    // answer means nothing. Requires Has(group).
    uint32_t VPortOf(size_t group) const { return words_[group].load(std::memory_order_acquire); }

   private:
    friend class FlushGroupVPorts;
    explicit Reader(const std::atomic<uint32_t>* words) : words_(words) {}
    const std::atomic<uint32_t>* words_;
  };

  // Room for flush groups 0 to most - 1. Requires most <= 2^31. Terminates the program if there is
  // no address space.
  explicit FlushGroupVPorts(size_t most);
  ~FlushGroupVPorts();
  FlushGroupVPorts(const FlushGroupVPorts&) = delete;
  FlushGroupVPorts& operator=(const FlushGroupVPorts&) = delete;

  // False if there is no memory.
  bool Set(FlushGroupId group, VPortId vport);
  // True if the array has a word for `group`, which it has for each number below `most`.
  bool Has(FlushGroupId group) const { return group.value() < size_; }
  // Requires Has(group).
  VPortId Get(FlushGroupId group) const { return VPortId(reader().VPortOf(group.value())); }
  Reader reader() const { return Reader(words_); }

 private:
  size_t bytes() const { return size_ * sizeof(uint32_t); }

  const size_t size_;
  size_t writable_ = 0;  // bytes
  std::atomic<uint32_t>* words_;
};

}  // namespace eoib

#endif  // EOIB_FDB_FLUSH_GROUP_VPORTS_H_
