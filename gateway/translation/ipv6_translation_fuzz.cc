// Fuzzes the translation of IPv6 packets, with neighbour discovery and MLD, in both directions.
#include "gateway/translation/fuzz_for_test.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  eoib::translation::FuzzedGateway(eoib::kEtherTypeIpv6).Run(absl::MakeConstSpan(data, size));
  return 0;
}
