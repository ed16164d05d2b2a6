// Advice for operators on errors of InfiniBand devices that the system's message does not explain.
// Each function returns a clause for the end of a message, or an empty string.
#ifndef EOIB_VSWITCH_FABRIC_ERROR_ADVICE_H_
#define EOIB_VSWITCH_FABRIC_ERROR_ADVICE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "vswitch/base/address.h"

namespace eoib {

// Like absl::ErrnoToStatus, with the advice: "WHAT: REASON; ADVICE".
absl::Status ErrnoWithAdvice(int error, absl::string_view what, absl::string_view advice);

// For ENOMEM from a verb that pins memory (reg_mr, create_cq, create_qp): the locked-memory limit.
std::string LockedMemoryAdvice(int error);
// For EPERM from a modify_qp that sets `qkey`. Since Linux 6.3 (ib_uverbs_cmd.c; also in stable
// kernels) only CAP_NET_RAW may set a controlled Q_Key (IBA 1.4 §10.2.5).
std::string ControlledQKeyAdvice(int error, QKey qkey);
// For ENOENT, ENODEV, EACCES and similar errors from opening `node` ("/dev/infiniband/umad0"),
// which kernel module `module` creates.
std::string DeviceNodeAdvice(int error, absl::string_view node, absl::string_view module);

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_ERROR_ADVICE_H_
