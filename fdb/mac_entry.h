// MacEntry: an entry of the MAC table, as its owner sees it.
#ifndef EOIB_FDB_MAC_ENTRY_H_
#define EOIB_FDB_MAC_ENTRY_H_

#include <algorithm>
#include <cstdint>

#include "fdb/fdb_key.h"
#include "fdb/flush_group_vports.h"
#include "fdb/mac_bucket.h"

namespace eoib {

// The source of an entry. README.md ("The policy") says which displaces which.
enum class FdbOrigin : uint8_t {
  kRemoteLearned,
  kLocalLearned,
  kClaimed,    // learned locally or configured, and announced by this agent
  kAnnounced,  // by another agent
  kStatic,
};

constexpr bool IsLocal(FdbOrigin origin) {
  return origin == FdbOrigin::kLocalLearned || origin == FdbOrigin::kClaimed;
}
constexpr bool IsLearned(FdbOrigin origin) { return origin <= FdbOrigin::kLocalLearned; }
// Whether a frame heard elsewhere moves an entry. Among learned entries the newest wins. A claimed
// one moves inside the host only: other agents believe that it is here. An announced one moves by
// announcements only.
constexpr bool MovesTo(FdbOrigin heard, FdbOrigin entry) {
  return IsLearned(entry) || (entry == FdbOrigin::kClaimed && IsLocal(heard));
}

struct MacEntry {
  FlushGroupId group;
  // In ticks of the owner's clock, modulo 2^16. The table stores 0 for entries that do not age, and
  // 1 instead of 0 for others.
  uint16_t last_seen = 0;
  FdbOrigin origin = FdbOrigin::kRemoteLearned;
  bool pinned = false;  // stays in place until the owner unpins it

  // An announced entry leaves when its agent withdraws it.
  bool Ages() const { return !pinned && origin < FdbOrigin::kAnnounced; }
};

// The flags of an entry in its bucket: the origin, and whether it is pinned.
inline constexpr uint8_t kPinnedFlag = 8;

inline MacRecord ToRecord(FdbKey key, const MacEntry& entry) {
  const uint16_t seen = entry.Ages() ? std::max<uint16_t>(entry.last_seen, 1) : 0;
  const int flags = static_cast<int>(entry.origin) | (entry.pinned ? kPinnedFlag : 0);
  return {key.packed(), entry.group.value(), seen, static_cast<uint8_t>(flags)};
}

inline MacEntry ToEntry(const MacRecord& record) {
  return {FlushGroupId(record.value), record.seen,
          static_cast<FdbOrigin>(record.flags & (kPinnedFlag - 1)),
          (record.flags & kPinnedFlag) != 0};
}

}  // namespace eoib

#endif  // EOIB_FDB_MAC_ENTRY_H_
