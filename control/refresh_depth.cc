#include "control/refresh_depth.h"

namespace eoib {
namespace {

struct Row {
  ibv_event_type event;
  RefreshDepth depth;
  const char* name;
};
constexpr Row kDepths[] = {
    {IBV_EVENT_SM_CHANGE, RefreshDepth::kLight, "another subnet manager"},
    {IBV_EVENT_CLIENT_REREGISTER, RefreshDepth::kLight, "the subnet manager asks to register again"},
    {IBV_EVENT_LID_CHANGE, RefreshDepth::kNormal, "LID change"},
    {IBV_EVENT_PORT_ERR, RefreshDepth::kNormal, "port down"},
    {IBV_EVENT_PORT_ACTIVE, RefreshDepth::kNormal, "port active"},
    {IBV_EVENT_PKEY_CHANGE, RefreshDepth::kHeavy, "P_Key table change"},
    {IBV_EVENT_GID_CHANGE, RefreshDepth::kHeavy, "GID table change"},
    {IBV_EVENT_QP_FATAL, RefreshDepth::kHeavy, "queue pair lost"},
    {IBV_EVENT_CQ_ERR, RefreshDepth::kHeavy, "completion queue lost"},
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

const char* EventName(ibv_event_type event) {
  for (const Row& row : kDepths) {
    if (row.event == event) return row.name;
  }
  return "an event";
}

RefreshDepth DepthOf(ibv_event_type event) {
  for (const Row& row : kDepths) {
    if (row.event == event) return row.depth;
  }
  return RefreshDepth::kNone;
}

}  // namespace eoib
