#include "gateway/uplink/reflection_filter.h"

#include <algorithm>

#include "absl/hash/hash.h"

namespace eoib::gateway {

void ReflectionFilter::Sent(absl::Span<const uint8_t> frame, const EthernetInfo& ethernet, Vid ves,
                            absl::Time now) {
  const uint64_t digest = Digest(frame, ethernet, ves);
  records_[digest % kFrames] = {digest, now};
}

bool ReflectionFilter::IsReflection(absl::Span<const uint8_t> frame, const EthernetInfo& ethernet,
                                    Vid ves, absl::Time now) const {
  const uint64_t digest = Digest(frame, ethernet, ves);
  const Record& record = records_[digest % kFrames];
  return record.digest == digest && now - record.sent < kWindow;
}

// Without the tag, which may differ between the two sides. A short payload counts as padded with
// zeros, as it is on the wire.
uint64_t ReflectionFilter::Digest(absl::Span<const uint8_t> frame, const EthernetInfo& ethernet,
                                  Vid ves) {
  std::array<uint8_t, kCompared> payload{};
  const absl::Span<const uint8_t> there = frame.subspan(ethernet.payload, kCompared);
  std::copy(there.begin(), there.end(), payload.begin());
  return absl::HashOf(ethernet.destination, ethernet.source, ves, ethernet.ethertype, payload);
}

}  // namespace eoib::gateway
