// The state machine of a UD queue pair.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_QP_TRANSITIONS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_QP_TRANSITIONS_H_

#include <infiniband/verbs.h>

namespace eoib::softhca {

// True if ibv_modify_qp may take a queue pair from state `from` to `to` with the attributes in
// `mask` (IBA 1.4 §11.2.5.2).
bool IsAllowedTransition(ibv_qp_state from, ibv_qp_state to, int mask);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_QP_TRANSITIONS_H_
