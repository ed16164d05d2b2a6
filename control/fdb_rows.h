// The operator's view of the entries of a forwarding database: the answers to fdb/show and fdb/get.
#ifndef EOIB_CONTROL_FDB_ROWS_H_
#define EOIB_CONTROL_FDB_ROWS_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "control/daemon/answer.h"
#include "control/ves.h"
#include "fdb/fdb.h"

namespace eoib {

// A part of a VES's entries: the control thread must not be busy with one command for long.
struct FdbPart {
  const Ves* ves;
  absl::optional<FdbKey> after;  // from the start, if absent
  std::vector<Fdb::Entry> entries;
  bool has_more = false;
};
FdbPart ReadFdb(const Ves& ves, absl::optional<FdbKey> after);

// A table of the parts. Where there is more, a line behind a part names the command for the rest,
// "more: fdb show blue 7 02:00:00:00:00:0a". Refers to the VESes, so it is for an answer that is used at once.
Answer FdbAnswer(std::vector<FdbPart> parts);
Answer FdbRowAnswer(const Ves& ves, const Fdb::Entry& entry);

}  // namespace eoib

#endif  // EOIB_CONTROL_FDB_ROWS_H_
