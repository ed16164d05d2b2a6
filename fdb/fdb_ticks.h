// FdbTicks: the ageing time of an FDB in the ticks that the MAC table stores.
#ifndef EOIB_FDB_FDB_TICKS_H_
#define EOIB_FDB_FDB_TICKS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "fdb/mac_entry.h"
#include "fdb/mac_view.h"

namespace eoib {

class FdbTicks {
 public:
  // Zero: entries never age.
  explicit FdbTicks(absl::Duration ageing);

  // Times are whole ticks, so an entry lives up to one tick longer than the ageing time, never
  // shorter.
  uint16_t At(absl::Time time) const {
    return static_cast<uint16_t>(absl::ToUnixSeconds(time) / seconds_);
  }
  AgeLimit Limit(uint16_t now) const { return {now, ageing_}; }
  absl::Duration tick() const { return absl::Seconds(seconds_); }
  bool IsAgeing() const { return ageing_ != AgeLimit::kNever; }
  // Ticks wrap after this time beyond the ageing time: then entries that have aged out would look
  // young.
  absl::Duration UntilWrap() const {
    return absl::Seconds(int64_t{seconds_} * (AgeLimit::kNever - ageing_));
  }

 private:
  // Per tick: one, or more if the ageing time would take too many ticks. Without ageing, ticks only
  // serve to show ages.
  uint32_t seconds_ = 60;
  uint16_t ageing_ = AgeLimit::kNever;  // in ticks
};

inline bool IsLive(const MacEntry& entry, AgeLimit limit) {
  return !entry.Ages() || !limit.IsOver(entry.last_seen);
}

}  // namespace eoib

#endif  // EOIB_FDB_FDB_TICKS_H_
