// Liveness: solicits IPoIB stations that are silent while packets go to them, because packets to
// the old queue pair of a restarted interface are silently lost (RFC 4391 §9.4). README.md,
// "Liveness", has the intervals.
//
// Owned by the translation, on its thread.
#ifndef EOIB_GATEWAY_TRANSLATION_LIVENESS_H_
#define EOIB_GATEWAY_TRANSLATION_LIVENESS_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "gateway/link/aged_table.h"
#include "gateway/translation/address_resolution.h"
#include "gateway/translation/options.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::translation {

class Liveness {
 public:
  explicit Liveness(const Options& options) : options_(options), suspects_(options.max_suspects) {}

  // A packet goes to solicitation.target, whose station has been silent for suspect_after. The
  // first call makes the next Tick solicit.
  void Suspect(const Solicitation& solicitation, absl::Time now) {
    if (suspects_.Hear(solicitation.target, now) != nullptr) return;
    suspects_.MakeRoom();
    suspects_.Add(solicitation.target, {solicitation, 0, now}, now);
    next_ = now;
  }

  // Calls solicit(solicitation) for each suspect that is due. Forgets those that are alive, or to
  // which packets no longer flow.
  void Tick(absl::Time now, absl::FunctionRef<bool(const IpAddr&)> is_alive,
            absl::FunctionRef<void(const Solicitation&)> solicit) {
    if (now < next_) return;
    std::vector<IpAddr> cleared;
    std::vector<Solicitation> due;
    next_ = absl::InfiniteFuture();
    suspects_.ForEach([&](auto& entry) {
      auto& suspect = entry.value;
      if (suspect.next <= now) {
        if (is_alive(entry.key) || now - entry.heard > options_.suspect_flow)
          return cleared.push_back(entry.key);
        due.push_back(Due(&suspect, now));
      }
      next_ = std::min(next_, suspect.next);
    });
    for (const IpAddr& target : cleared) suspects_.Erase(target);
    for (const Solicitation& solicitation : due) solicit(solicitation);
  }
  absl::Time NextDeadline() const { return suspects_.size() == 0 ? absl::InfiniteFuture() : next_; }
  size_t size() const { return suspects_.size(); }

 private:
  struct SuspectState {
    Solicitation solicitation;
    int tries = 0;
    absl::Time next;
  };

  Solicitation Due(SuspectState* suspect, absl::Time now) const {
    Solicitation solicitation = suspect->solicitation;
    solicitation.unicast = suspect->tries == 0;
    constexpr int kSteady = 4;  // tries at the first interval; then it doubles
    const int doublings = std::clamp(++suspect->tries - kSteady, 0, 8);
    suspect->next = now + std::min(options_.suspect_interval * (1 << doublings),
                                   options_.suspect_interval_most);
    return solicitation;
  }

  const Options options_;
  AgedTable<IpAddr, SuspectState> suspects_;
  absl::Time next_ = absl::InfiniteFuture();  // no suspect is due before
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_LIVENESS_H_
