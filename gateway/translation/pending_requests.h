// PendingRequests: remembers for a few seconds which Ethernet hosts requested a target, for replies
// that do not name their host: to a probe (RFC 5227 §2.1.1), which comes from 0.0.0.0, and of RARP,
// whose address is new (RFC 903).
//
// Owned by the translation, on its thread.
#ifndef EOIB_GATEWAY_TRANSLATION_PENDING_REQUESTS_H_
#define EOIB_GATEWAY_TRANSLATION_PENDING_REQUESTS_H_

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gateway/link/aged_table.h"
#include "gateway/translation/options.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::translation {

class PendingRequests {
 public:
  static constexpr size_t kMaxRequesters = 4;  // for one target; a fifth replaces the first

  explicit PendingRequests(const Options& options)
      : age_(options.pending_age), requests_(options.max_pending_requests) {}

  // `target` is 0.0.0.0 for RARP, whose requests name no IP address.
  void Add(const IpAddr& target, MacAddr requester, absl::Time now) {
    requests_.HearOrAdd(target, now)->value.Add(requester);
  }

  // The hosts that requested `target`. Valid until the next call.
  absl::Span<const MacAddr> Requesters(const IpAddr& target, absl::Time now) {
    Expire(now);
    const auto* const request = requests_.Find(target);
    return request == nullptr ? absl::Span<const MacAddr>() : request->value.span();
  }

  void Expire(absl::Time now) {
    while (const auto* const old = requests_.SilentSince(now - age_))
      requests_.Erase(IpAddr(old->key));
  }
  // See Translator.
  void CopyFrom(const PendingRequests& other) { requests_.CopyFrom(other.requests_); }
  absl::Time NextExpiry() const { return requests_.oldest() + age_; }
  size_t size() const { return requests_.size(); }

 private:
  struct Macs {
    std::array<MacAddr, kMaxRequesters> macs;
    size_t count = 0;
    size_t next = 0;

    absl::Span<const MacAddr> span() const { return absl::MakeConstSpan(macs).first(count); }
    void Add(MacAddr mac) {
      if (std::find(macs.begin(), macs.begin() + count, mac) != macs.begin() + count) return;
      macs[next] = mac;
      next = (next + 1) % kMaxRequesters;
      count = std::min(count + 1, kMaxRequesters);
    }
  };

  const absl::Duration age_;
  AgedTable<IpAddr, Macs> requests_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_PENDING_REQUESTS_H_
