// Announcements: announces all known addresses after a restart, which gives the gateway another
// queue pair. The last heard go first, because conversations with them may be going on. The rate is
// limited, because each announcement is a broadcast.
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
#include "gateway/translation/options.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::translation {

struct Announcement {
  IpAddr ip;
  // True: an IPoIB host's address, announced on Ethernet; false: the other way round.
  bool of_station = false;
  absl::Time heard;
};

class Announcements {
 public:
  Announcements(const Options& options, absl::Time now)
      : bucket_(options.announcements_per_second, options.announcement_burst, now) {}

  // Queues `all` for announcement, instead of what is left of the previous call.
  void Start(std::vector<Announcement> all) {
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.heard < b.heard; });
    left_ = std::move(all);  // Tick takes from the end
  }
  void Stop() { left_.clear(); }
  // Calls announce(announcement) for as many as the rate allows now.
  void Tick(absl::Time now, absl::FunctionRef<void(const Announcement&)> announce) {
    while (!left_.empty() && bucket_.Take(now)) {
      const Announcement next = left_.back();
      left_.pop_back();
      announce(next);
    }
  }
  absl::Time NextDeadline() const {
    return left_.empty() ? absl::InfiniteFuture() : bucket_.NextToken();
  }
  size_t left() const { return left_.size(); }

 private:
  TokenBucket bucket_;
  std::vector<Announcement> left_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_ANNOUNCEMENTS_H_
