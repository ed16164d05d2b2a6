// Asks: how often one side is asked for hosts that nobody knows. One for each side of the gateway.
//
// Every ARP request and neighbour solicitation that crosses for an unknown target is a broadcast on the other side, and on
// IPoIB a question to the subnet administrator besides; so a scan of ten thousand addresses on one side would be a storm on the
// other. Three limits stand before that:
// - a silent target, one that did not answer, is not asked for again for a second, then two, four and so on up to half a
//   minute (a known one: up to a few seconds), whoever asks; who looks whether an address is free (RFC 5227, RFC 4862 §5.4) is
//   exempt, since silence is what he hopes for;
// - one asker gets so many questions a second;
// - all together get so many more.
// Targets that were heard lately are not limited at all: the caller does not come here with them. The gateway's own questions
// do.
//
// Owned by the translation, on its thread.
#ifndef EOIB_GATEWAY_TRANSLATION_ASKS_H_
#define EOIB_GATEWAY_TRANSLATION_ASKS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "fdb/address.h"
#include "fdb/token_bucket.h"
#include "gateway/translation/aged_table.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/options.h"
#include "vswitch/wire/ip_addr.h"

namespace eoib::translation {

class Asks {
 public:
  enum class Kind : uint8_t {
    kQuestion,
    kKnown,       // the target is known, but has been silent lately: it may come back, so it is not left alone for long
    kRegardless,  // also of a silent target
    kOwn,         // the gateway's own, of a known target: as both
  };

  Asks(const Options& options, absl::Time now);

  // Whether `asker` may ask for `target` now: kNone, or why not. What is allowed counts as asked.
  Drop MayAsk(const IpAddr& target, MacAddr asker, Kind kind, absl::Time now);
  // The target was heard: it may be asked for at once again.
  void Heard(const IpAddr& target) { silent_.Erase(target); }
  // True if the target has been asked for and may not be again yet.
  bool IsSilent(const IpAddr& target, absl::Time now) const;
  // A question and its repetitions were not answered; true while that is remembered, which is as long as somebody wants to
  // know.
  void Failed(const IpAddr& target, absl::Time now);
  bool HasFailed(const IpAddr& target, absl::Time now);
  void Expire(absl::Time now);
  // See Translator.
  void Imitate(const Asks& other);
  absl::Time NextExpiry() const;
  size_t silent() const { return silent_.size(); }

 private:
  struct Silence {
    int asked = 0;
    bool failed = false;
    absl::Time until;  // no question before
  };

  TokenBucket* BucketOf(MacAddr asker, absl::Time now);
  void Asked(const IpAddr& target, Kind kind, absl::Time now);

  const Options options_;
  TokenBucket all_;
  AgedTable<MacAddr, TokenBucket> askers_;
  AgedTable<IpAddr, Silence> silent_;
};

// The kind of a question: a look whether an address is free, or one for a target that was heard last at that time.
inline Asks::Kind KindOf(bool probe, absl::Time heard) {
  if (probe) return Asks::Kind::kRegardless;
  return heard == absl::InfinitePast() ? Asks::Kind::kQuestion : Asks::Kind::kKnown;
}

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_ASKS_H_
