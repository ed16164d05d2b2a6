#include "fdb/mac_lookup.h"

namespace eoib {

template class BasicMacLookup<BucketMatcher>;

}  // namespace eoib
