// Fuzzes the decoder of hellos: what is accepted re-encodes to the same hello.
#include <cstddef>
#include <cstdint>

#include "gateway/election/uplink_hello.h"
#include "vswitch/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace eoib::gateway;
  const absl::optional<UplinkHello> hello = DecodeUplinkHello({data, size});
  if (!hello.has_value()) return 0;
  EOIB_CHECK(hello->runs.size() <= UplinkHello::kMaxRuns &&
             hello->uplink.size() <= UplinkHello::kMaxName);
  for (size_t i = 1; i < hello->runs.size(); ++i)
    EOIB_CHECK(hello->runs[i - 1].last < hello->runs[i].first);
  const absl::optional<UplinkHello> again = DecodeUplinkHello(EncodeUplinkHello(*hello));
  EOIB_CHECK(again.has_value() && again->runs == hello->runs && again->from == hello->from);
  EOIB_CHECK(again->sequence == hello->sequence && again->uplink == hello->uplink);
  return 0;
}
