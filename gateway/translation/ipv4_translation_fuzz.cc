// Fuzzes the translation of IPv4 packets, with IGMP and DHCP, in both directions.
#include "gateway/translation/fuzz_for_test.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  eoib::translation::FuzzedGateway(eoib::kEtherTypeIpv4).Run(absl::MakeConstSpan(data, size));
  return 0;
}
