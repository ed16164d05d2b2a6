// SolicitationLimiter: limits the rate of ARP requests and neighbour solicitations towards one side
// of the gateway, so that a scan of one side does not become a broadcast storm on the other: for
// each silent target by a back-off, for each requester, and in all. README.md has the limits. The
// gateway's own solicitations count.
//
// Owned by the translation, on its thread.
#ifndef EOIB_GATEWAY_TRANSLATION_SOLICITATION_LIMITER_H_
#define EOIB_GATEWAY_TRANSLATION_SOLICITATION_LIMITER_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "gateway/link/aged_table.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/options.h"
#include "vswitch/base/address.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::translation {

class SolicitationLimiter {
 public:
  enum class Kind : uint8_t {
    kUnknownTarget,  // for a target that the gateway does not know
    // For a known target that was silent lately: it may come back, so the back-off stays short.
    kKnownTarget,
    kProbeOrRetry,  // allowed for a silent target, too
    // The gateway's own, for a known target: like kKnownTarget and kProbeOrRetry together.
    kOwn,
  };

  SolicitationLimiter(const Options& options, absl::Time now);
  // Back-offs go on; what requesters have spent of their shares is forgotten.
  void Change(const Options& options, absl::Time now);

  // Whether `requester` may solicit `target` now: kNone, or the reason to drop. Counts an allowed
  // solicitation as sent.
  Drop MaySolicit(const IpAddr& target, MacAddr requester, Kind kind, absl::Time now);
  // The target was heard: its back-off ends.
  void Heard(const IpAddr& target) { silent_.Erase(target); }
  // True if the target was solicited and its back-off is not over.
  bool IsSilent(const IpAddr& target, absl::Time now) const;
  // Failed: a solicitation and its retries found no answer. HasFailed: true until that is
  // forgotten; each call renews it.
  void Failed(const IpAddr& target, absl::Time now);
  bool HasFailed(const IpAddr& target, absl::Time now);
  void Expire(absl::Time now);
  // See Translator.
  void CopyFrom(const SolicitationLimiter& other);
  absl::Time NextExpiry() const;
  size_t silent() const { return silent_.size(); }

 private:
  struct Silence {
    int solicited = 0;
    bool failed = false;
    absl::Time until;  // end of the back-off
  };

  TokenBucket* BucketOf(MacAddr requester, absl::Time now);
  void NoteSolicited(const IpAddr& target, Kind kind, absl::Time now);

  Options options_;
  TokenBucket all_;
  AgedTable<MacAddr, TokenBucket> requesters_;
  AgedTable<IpAddr, Silence> silent_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_SOLICITATION_LIMITER_H_
