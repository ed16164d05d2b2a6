// Shared parts of the MacTable tests.
#ifndef EOIB_FDB_MAC_TABLE_TEST_FIXTURE_H_
#define EOIB_FDB_MAC_TABLE_TEST_FIXTURE_H_

#include <algorithm>

#include "absl/types/span.h"
#include "fdb/mac_lookup.h"
#include "fdb/mac_table.h"
#include "gtest/gtest.h"
#include "vswitch/base/sanitizer_for_test.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib {

// Operations take ten times as long under sanitizers, so do a tenth of them.
inline constexpr int kSlowdown = kSanitized ? 10 : 1;

// Consecutive MACs in seven VLANs, as vendors and clusters assign them.
inline FdbKey NthKey(uint64_t i) {
  return FdbKey(Vid(static_cast<uint16_t>(i % 7)), MacAddr::FromUint64(0x0200'0000'0000 + i / 7));
}

inline VPortId Find(const MacTable& table, FdbKey key) {
  VPortId out;
  table.Find({&key, 1}, AgeLimit(), {&out, 1});
  return out;
}

// Like Find, but through a stream of batches of `at_once` keys.
inline void FindInStream(const MacTable& table, absl::Span<const FdbKey> keys, size_t at_once,
                         AgeLimit limit, VPortId* out) {
  MacLookup lookup(&table);
  for (size_t at = 0; at < keys.size(); at += at_once) {
    const size_t count = std::min(at_once, keys.size() - at);
    lookup.Ask(keys.subspan(at, count), limit, {out + at, count});
  }
  lookup.Finish();
}

}  // namespace eoib

#endif  // EOIB_FDB_MAC_TABLE_TEST_FIXTURE_H_
