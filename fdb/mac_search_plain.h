// The kind of search for any processor; to be included as mac_search_loop.h is.
#ifndef EOIB_FDB_MAC_SEARCH_PLAIN_H_
#define EOIB_FDB_MAC_SEARCH_PLAIN_H_

#include "fdb/mac_search_loop.h"

namespace eoib {
namespace {

struct Plain {
  struct Way {
    explicit Way(const MacView& of) : view(of) {}
    const MacView& view;
  };
  static void Place(const Way& way, MacBatch* batch, size_t from) {
    for (size_t i = from; i < from + kSearchGroup; ++i) {
      const uint32_t position = way.view.hash->Position(batch->keys[i]);
      batch->positions[i] = position;
      batch->buckets[i] = way.view.buckets + way.view.map.Index(position);
    }
  }
  static uint32_t Match(const MacBucket& bucket, uint64_t key) { return bucket.Match(key); }
};

}  // namespace
}  // namespace eoib

#endif  // EOIB_FDB_MAC_SEARCH_PLAIN_H_
