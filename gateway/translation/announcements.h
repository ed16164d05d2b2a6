// Announcements: says again, a few at a time, where everybody is.
//
// After a restart the gateway has another queue pair, so every IPoIB host has a stale address for every Ethernet host; and the
// switches on the way to it have forgotten the stations' MAC addresses. All entries are announced, those heard of last first,
// since with these somebody may just be talking, and not all at once, since each is a broadcast.
//
// Owned by the translation, on its thread.
#ifndef EOIB_GATEWAY_TRANSLATION_ANNOUNCEMENTS_H_
#define EOIB_GATEWAY_TRANSLATION_ANNOUNCEMENTS_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "fdb/token_bucket.h"
#include "gateway/translation/options.h"
#include "vswitch/wire/ip_addr.h"

namespace eoib::translation {

struct Announcement {
  IpAddr ip;
  bool of_station = false;  // of an IPoIB host, to Ethernet; else of an Ethernet host, to IPoIB
  absl::Time heard;
};

class Announcements {
 public:
  Announcements(const Options& options, absl::Time now)
      : bucket_(options.announcements_per_second, options.announcement_burst, now) {}

  // Announces these, instead of what was left of the last ones.
  void Start(std::vector<Announcement> all) {
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.heard < b.heard; });
    left_ = std::move(all);  // the next one is the last
  }
  void Stop() { left_.clear(); }
  // Calls announce(announcement) for those whose turn it is.
  void Tick(absl::Time now, absl::FunctionRef<void(const Announcement&)> announce) {
    while (!left_.empty() && bucket_.Take(now)) {
      const Announcement next = left_.back();
      left_.pop_back();
      announce(next);
    }
  }
  absl::Time NextDeadline() const { return left_.empty() ? absl::InfiniteFuture() : bucket_.NextToken(); }
  size_t left() const { return left_.size(); }

 private:
  TokenBucket bucket_;
  std::vector<Announcement> left_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_ANNOUNCEMENTS_H_
