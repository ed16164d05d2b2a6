// A pair of a VES and an IPoIB link, for tests of the hellos.
#ifndef EOIB_GATEWAY_ELECTION_PAIR_FOR_TEST_H_
#define EOIB_GATEWAY_ELECTION_PAIR_FOR_TEST_H_

#include "gateway/election/hello.h"
#include "vswitch/wire/ipoib_group.h"

namespace eoib::gateway {

inline constexpr IpoibLink kLink = {PKey(0x8002)};
inline const Pair kPair = {PKey(0x8001), Vid(10)};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_ELECTION_PAIR_FOR_TEST_H_
