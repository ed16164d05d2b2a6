// FdbEventLog: the ring of an FDB's events.
#ifndef EOIB_FDB_FDB_EVENT_LOG_H_
#define EOIB_FDB_FDB_EVENT_LOG_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "fdb/fdb_event.h"

namespace eoib {

// The ring is small until the first reader comes, because a large one is bigger than many an FDB. Any thread may call events();
// the FDB's writer calls the rest.
class FdbEventLog {
 public:
  static constexpr size_t kRecentEvents = 32, kWatchedEvents = 8192;

  const FdbEvents& events() const { return *events_.load(std::memory_order_acquire); }
  bool IsWatched() const { return &events() != &recent_; }
  // Continues in a ring of kWatchedEvents. The former ring gets no more events, but stays for its readers.
  void Watch(std::unique_ptr<FdbEvents> larger) {
    if (watched_ != nullptr) return;
    larger->GoOnFrom(recent_);
    watched_ = std::move(larger);
    events_.store(watched_.get(), std::memory_order_release);
  }
  void Write(const FdbEvent& event) { events_.load(std::memory_order_relaxed)->Write(event); }

 private:
  FdbEvents recent_{kRecentEvents};
  std::unique_ptr<FdbEvents> watched_;
  std::atomic<FdbEvents*> events_{&recent_};
};

}  // namespace eoib

#endif  // EOIB_FDB_FDB_EVENT_LOG_H_
