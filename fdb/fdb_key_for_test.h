// Keys of the FDB, for tests.
#ifndef EOIB_FDB_FDB_KEY_FOR_TEST_H_
#define EOIB_FDB_FDB_KEY_FOR_TEST_H_

#include <cstdint>

#include "fdb/fdb_key.h"

namespace eoib {

inline FdbKey Key(uint64_t mac, uint16_t vid = 0) {
  return FdbKey(Vid(vid), MacAddr::FromUint64(0x0200'0000'0000 + mac));
}

}  // namespace eoib

#endif  // EOIB_FDB_FDB_KEY_FOR_TEST_H_
