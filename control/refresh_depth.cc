#include "control/refresh_depth.h"

namespace eoib {
namespace {

struct Row {
  ibv_event_type event;
  RefreshDepth depth;
};
constexpr Row kDepths[] = {
    {IBV_EVENT_SM_CHANGE, RefreshDepth::kLight},    {IBV_EVENT_CLIENT_REREGISTER, RefreshDepth::kLight},
    {IBV_EVENT_LID_CHANGE, RefreshDepth::kNormal},  {IBV_EVENT_PORT_ERR, RefreshDepth::kNormal},
    {IBV_EVENT_PORT_ACTIVE, RefreshDepth::kNormal}, {IBV_EVENT_PKEY_CHANGE, RefreshDepth::kHeavy},
    {IBV_EVENT_GID_CHANGE, RefreshDepth::kHeavy},   {IBV_EVENT_QP_FATAL, RefreshDepth::kHeavy},
    {IBV_EVENT_CQ_ERR, RefreshDepth::kHeavy},
};

}  // namespace

const char* RefreshDepthName(RefreshDepth depth) {
  switch (depth) {
    case RefreshDepth::kNone:
      return "no";
    case RefreshDepth::kLight:
      return "light";
    case RefreshDepth::kNormal:
      return "normal";
    case RefreshDepth::kHeavy:
      return "heavy";
  }
  return "?";
}

RefreshDepth DepthOf(ibv_event_type event) {
  for (const Row& row : kDepths) {
    if (row.event == event) return row.depth;
  }
  return RefreshDepth::kNone;
}

}  // namespace eoib
