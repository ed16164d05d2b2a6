// IP addresses from their text. Test only.
#ifndef EOIB_GATEWAY_HOST_ADDRESSES_FOR_TEST_H_
#define EOIB_GATEWAY_HOST_ADDRESSES_FOR_TEST_H_

#include "vswitch/wire/ip/ip_address.h"

namespace eoib::endpoint {

inline IpAddr Ip(const char* text) { return *IpAddr::Parse(text); }
inline Ipv4Addr Ip4(const char* text) { return *Ipv4Addr::Parse(text); }
inline Ipv6Addr Ip6(const char* text) { return *Ipv6Addr::Parse(text); }

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_ADDRESSES_FOR_TEST_H_
