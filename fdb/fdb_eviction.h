// FdbEviction: the limits of an FDB, and which entry gives way at a limit. README.md ("Eviction")
// has the policy.
#ifndef EOIB_FDB_FDB_EVICTION_H_
#define EOIB_FDB_FDB_EVICTION_H_

#include <cstddef>
#include <cstdint>

#include "fdb/fdb_entries.h"
#include "fdb/fdb_types.h"
#include "fdb/mac_table.h"
#include "fdb/vport.h"

namespace eoib {

// For the FDB's writer, under its lock. The constructor's arguments outlive it.
class FdbEviction {
 public:
  FdbEviction(const FdbOptions* options, FdbEntries* entries)
      : options_(options), entries_(entries) {}

  // Makes room for a new entry of `vport`. Its work is bounded, because any sender can cause it
  // with every frame.
  bool MakeRoom(VPortId vport);
  // Whether there is room without the eviction of another entry.
  bool HasRoom(VPortId vport) const;
  // Makes room for one more entry of `vport` within the vPort's own limit only.
  bool MakeRoomAt(VPortId vport);

  size_t LimitOf(VPortId vport) const;

 private:
  size_t ShareOf(VPortId vport) const;
  bool IsCrowded() const;
  void SweepSome();
  bool EvictFor(VPortId vport);
  bool EvictFrom(VPortId victim, VPortId vport);

  const FdbOptions* const options_;
  FdbEntries* const entries_;
  uint32_t rooms_made_ = 0;
  bool sweep_pays_ = false;
  MacTable::Cursor evict_at_ = 0;
};

}  // namespace eoib

#endif  // EOIB_FDB_FDB_EVICTION_H_
