// The operator's view of the entries of a forwarding database: the answers to fdb/show and fdb/get.
#ifndef EOIB_CONTROL_OPERATOR_FDB_ROWS_H_
#define EOIB_CONTROL_OPERATOR_FDB_ROWS_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "control/ves/ves.h"
#include "fdb/fdb.h"
#include "vswitch/base/daemon/answer.h"

namespace eoib {

// A part of a VES's entries: the control thread must not be busy with one command for long.
struct FdbPart {
  const Ves* ves;
  Fdb::Part rows;
};
// The parts of one answer, which has about 1,000 entries at most: the first ones, or the one behind
// `after` of a single VES.
std::vector<FdbPart> ReadFdb(const std::vector<Ves*>& veses, absl::optional<FdbKey> after);

// A table of the parts, with a head if `has_head`. Where there is more, a line behind a part names
// the command for the rest, "more: fdb show blue 7 02:00:00:00:00:0a". Refers to the VESes, so it
// is for an answer that is used at once.
Answer FdbAnswer(std::vector<FdbPart> parts, bool has_head);
Answer FdbRowAnswer(const Ves& ves, const Fdb::Entry& entry);

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_FDB_ROWS_H_
