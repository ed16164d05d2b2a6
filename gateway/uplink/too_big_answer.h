// TooBigAnswer: the ICMP error for an IP packet that is too large for the other side of an uplink.
#ifndef EOIB_GATEWAY_UPLINK_TOO_BIG_ANSWER_H_
#define EOIB_GATEWAY_UPLINK_TOO_BIG_ANSWER_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/wire/ip/icmp_error.h"

namespace eoib::gateway {

// For one thread.
class TooBigAnswer {
 public:
  static constexpr double kPerSecond = 200, kBurst = 100;  // errors, RFC 4443 §2.4(f)

  // `own` is the Ethernet source of the errors: the switch does not know behind which port the
  // packet's destination is.
  TooBigAnswer(const IcmpSources& sources, MacAddr own, absl::Time now)
      : sources_(sources), own_(own), budget_(kPerSecond, kBurst, now) {}

  void SetSources(const IcmpSources& sources) { sources_ = sources; }

  // The frame to send back for `frame`, whose IP packet is larger than `mtu`: "fragmentation
  // needed" (also for a packet without "don't fragment": a switch makes no fragments, and its
  // sender can) or "packet too big". It has the tag of the frame. Empty if there must be none: no
  // IP, a group address, a later fragment, or too many errors lately.
  std::vector<uint8_t> For(absl::Span<const uint8_t> frame, size_t mtu, absl::Time now);

  uint64_t sent() const { return sent_; }
  uint64_t limited() const { return limited_; }  // not sent, because there were too many

 private:
  IcmpSources sources_;
  const MacAddr own_;
  TokenBucket budget_;
  uint64_t sent_ = 0, limited_ = 0;
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_UPLINK_TOO_BIG_ANSWER_H_
