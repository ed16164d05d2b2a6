// Querier: sends IGMP and MLD queries to Ethernet hosts at its start, and then while the VES has no
// other querier (RFC 3376 §5, §8.5; RFC 3810 §6). It takes no part in the querier election, which
// needs an address: IGMP queries come from 0.0.0.0 (RFC 4541 §2.1.1), MLD queries from a link-local
// address made of the gateway's own MAC address, because hosts ignore others (RFC 3810 §5.1.14).
//
// Owned by the Translator, on its thread.
#ifndef EOIB_GATEWAY_TRANSLATION_QUERIER_H_
#define EOIB_GATEWAY_TRANSLATION_QUERIER_H_

#include "absl/time/time.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/options.h"
#include "gateway/translation/output.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::translation {

class Querier {
 public:
  Querier(const Options& options, Output* output, Counters* counters, const MacAddr* own_mac)
      : options_(options), output_(output), counters_(counters), own_mac_(*own_mac) {}

  void Change(const Options& options) { options_ = options; }

  // Queries at the next Tick, and again a quarter of an interval later (RFC 3376 §8.6, §8.7). Call
  // it when the output can send. Forgets other queriers: the last one may have been the gateway
  // that was active until now.
  void Start(absl::Time now);
  // Another querier's query was heard: IGMP or MLD, as its source tells.
  void HeardQuery(const IpAddr& source, absl::Time now) {
    (source.is_ipv6() ? other_mld_ : other_igmp_) = now;
  }
  // A host left `group`: queries whether others still want it.
  void QueryGroup(const IpAddr& group, absl::Time now);

  // See Translator.
  void CopyFrom(const Querier& other);

  void Tick(absl::Time now);
  absl::Time NextDeadline() const { return options_.query_groups ? next_ : absl::InfiniteFuture(); }

 private:
  bool IsIgmpQuerier(absl::Time now) const { return now - other_igmp_ >= OtherPresent(); }
  bool IsMldQuerier(absl::Time now) const { return now - other_mld_ >= OtherPresent(); }
  absl::Duration OtherPresent() const { return 2 * options_.query_interval + absl::Seconds(5); }
  void SendIgmpQuery(Ipv4Addr group, absl::Duration max_response);
  void SendMldQuery(const Ipv6Addr& group, absl::Duration max_response);

  Options options_;
  Output* const output_;
  Counters* const counters_;
  const MacAddr& own_mac_;
  int started_ = 0;  // general queries since Start()
  absl::Time next_ = absl::InfiniteFuture();
  absl::Time other_igmp_ = absl::InfinitePast();
  absl::Time other_mld_ = absl::InfinitePast();
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_QUERIER_H_
