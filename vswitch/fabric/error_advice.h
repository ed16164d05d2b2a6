// What an operator can do about errors of InfiniBand devices whose reason the system's own words do not tell. Each function
// returns a clause for the end of a message, or nothing if it knows no better.
#ifndef EOIB_VSWITCH_FABRIC_ERROR_ADVICE_H_
#define EOIB_VSWITCH_FABRIC_ERROR_ADVICE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "fdb/address.h"

namespace eoib {

// absl::ErrnoToStatus, with the clause: "WHAT: REASON; ADVICE".
absl::Status ErrnoWithAdvice(int error, absl::string_view what, absl::string_view advice);

// ENOMEM of a verb that pins memory (reg_mr, create_cq, create_qp): the limit of locked memory.
std::string LockedMemoryAdvice(int error);
// EPERM of a modify_qp that sets `qkey`: newer kernels (ib_uverbs_cmd.c, since Linux 6.3 and in stable ones) let only
// CAP_NET_RAW set a controlled Q_Key (IBA 1.4 §10.2.5).
std::string ControlledQKeyAdvice(int error, QKey qkey);
// ENOENT, ENODEV and the like, or EACCES, of opening `node` ("/dev/infiniband/umad0", which kernel module `module` makes).
std::string DeviceNodeAdvice(int error, absl::string_view node, absl::string_view module);

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_ERROR_ADVICE_H_
