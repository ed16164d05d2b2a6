// FdbEvent: one change of an FDB; and FdbEventLog, the ring of the last ones.
#ifndef EOIB_FDB_FDB_EVENT_H_
#define EOIB_FDB_FDB_EVENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "fdb/event_ring.h"
#include "fdb/fdb_key.h"
#include "fdb/vport.h"

namespace eoib {

struct FdbEvent {
  enum class Kind : uint8_t {
    kLearned,    // at `to`
    kMoved,      // from `from` to `to`
    kAged,       // was at `from`
    kEvicted,    // was at `from`; made room for an entry at `to`
    kFlushed,    // `count` entries: of `from`, of the VLAN of `key`, or all; `scope` says which
    kFrozen,     // held at `from`, its home; it moved too often and was last heard from `to`
    kThawed,     // at `from`
    kFlapping,   // moved too often, last from `from` to `to`, but is not frozen
    kRefused,    // sticky or frozen at `from`, but heard from `to`
    kFixed,      // set to `to` by the operator
    kUnfixed,    // a fixed entry at `from` was removed
    kAnnounced,  // at `to`; it was at `from` before, if that is not None
    kNote,       // number `count` of the notes that the FDB's owner keeps (Fdb::Note)
  };
  enum class Scope : uint8_t { kEntry, kVPort, kVlan, kAll };

  uint64_t nanoseconds = 0;  // since the clock's epoch
  FdbKey key;
  VPortId from = VPortId::None(), to = VPortId::None();
  uint32_t count = 1;
  Kind kind = Kind::kLearned;
  Scope scope = Scope::kEntry;
  uint16_t unused = 0;
};

using FdbEvents = EventRing<FdbEvent>;

// FdbEventLog: the ring of an FDB's events. It is small until the first reader comes, because a
// large one is bigger than many an FDB. Any thread may call events(); the FDB's writer calls the
// rest.
class FdbEventLog {
 public:
  static constexpr size_t kRecentEvents = 32, kWatchedEvents = 8192;

  const FdbEvents& events() const { return *events_.load(std::memory_order_acquire); }
  bool IsWatched() const { return &events() != &recent_; }
  // Continues in a ring of kWatchedEvents. The former ring gets no more events, but stays for its
  // readers.
  void Watch(std::unique_ptr<FdbEvents> larger) {
    if (watched_ != nullptr) return;
    larger->ContinueFrom(recent_);
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

#endif  // EOIB_FDB_FDB_EVENT_H_
