// Addresses for tests: from their text, and numbered ones.
#ifndef EOIB_GATEWAY_TRANSLATION_ADDRESSES_FOR_TEST_H_
#define EOIB_GATEWAY_TRANSLATION_ADDRESSES_FOR_TEST_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::translation {

inline Ipv4Addr Ip4(absl::string_view text) { return *Ipv4Addr::Parse(text); }
inline Ipv6Addr Ip6(absl::string_view text) { return *Ipv6Addr::Parse(text); }

// 10.0.0.N.
inline IpAddr Ip(uint32_t n) { return Ipv4Addr(0x0a00'0000 + n); }
inline MacAddr Mac(uint64_t n) { return MacAddr::FromUint64(0x0200'0000'0000 + n); }

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_ADDRESSES_FOR_TEST_H_
