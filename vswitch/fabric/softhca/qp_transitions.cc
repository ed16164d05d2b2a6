#include "vswitch/fabric/softhca/qp_transitions.h"

namespace eoib::softhca {
namespace {

// The transitions of a UD queue pair, with the attributes that each requires and allows (IBA 1.4
// §11.2.5.2, table 96).
struct Transition {
  ibv_qp_state from, to;
  int required, optional;
};
constexpr Transition kTransitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
    {IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_QKEY},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_QKEY},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_QKEY},
    {IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_QKEY},
};

}  // namespace

bool IsAllowedTransition(ibv_qp_state from, ibv_qp_state to, int mask) {
  mask &= ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return mask == 0;
  for (const Transition& transition : kTransitions) {
    if (transition.from != from || transition.to != to) continue;
    return (mask & transition.required) == transition.required &&
           (mask & ~(transition.required | transition.optional)) == 0;
  }
  return false;
}

}  // namespace eoib::softhca
