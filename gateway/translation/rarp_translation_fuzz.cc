// Fuzzes the translation of RARP packets, in both directions.
#include "gateway/translation/fuzz_for_test.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  eoib::translation::FuzzedGateway(eoib::kEtherTypeRarp).Run(absl::MakeConstSpan(data, size));
  return 0;
}
