// VesJournal: what happens to the agents of a VES, and to MACs between them, in the operator's
// words: lines of the log, and events of `fdb monitor`.
#ifndef EOIB_CONTROL_VES_VES_JOURNAL_H_
#define EOIB_CONTROL_VES_VES_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "fdb/fdb.h"
#include "fdb/fdb_key.h"
#include "fdb/vport.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/daemon/log.h"

namespace eoib {

// Control thread only. The constructor's pointers outlive it.
class VesJournal {
 public:
  // Texts that are kept for `fdb monitor`.
  static constexpr size_t kKept = 256;
  // Lines of the log: a burst, then one in each interval. Moves have a limit of their own.
  static constexpr int kBurst = 20;
  static constexpr absl::Duration kInterval = absl::Seconds(3);

  // The place of a vPort, in the operator's words.
  using Behind = std::function<std::string(VPortId vport)>;

  VesJournal(const std::string& ves, Fdb* fdb, const VPortDirectory* directory, const Clock* clock,
             Behind behind)
      : ves_(ves),
        fdb_(fdb),
        directory_(directory),
        behind_(std::move(behind)),
        lines_(clock, kBurst, kInterval),
        moves_(clock, /*burst=*/10, absl::Seconds(6)) {}

  // "agent", "h2 (0a1b2c3d) left".
  void Info(absl::string_view subject, absl::string_view text) { Write(LogInfo, subject, text); }
  void Warn(absl::string_view subject, absl::string_view text) { Write(LogWarning, subject, text); }
  // A MAC moved. The FDB has its own event of that, so it only goes into the log; not if it moved
  // between two queue pairs of one port, because it is its agent that has another one, as after a
  // restart.
  void LogMove(FdbKey key, VPortId from, VPortId to);

  // The text of a note in the FDB's events (FdbEvent::Kind::kNote). A note that is too old has
  // none.
  std::string TextOf(uint32_t note) const;

 private:
  void Write(void (*log)(absl::string_view text), absl::string_view subject,
             absl::string_view text);

  const std::string ves_;
  Fdb* const fdb_;
  const VPortDirectory* const directory_;
  const Behind behind_;
  LogLimiter lines_, moves_;
  std::deque<std::string> texts_;
  uint32_t first_ = 0;  // the number of texts_[0]
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_VES_JOURNAL_H_
