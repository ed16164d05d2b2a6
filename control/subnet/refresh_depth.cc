#include "control/subnet/refresh_depth.h"

#include <algorithm>
#include <iterator>

namespace eoib {
namespace {

struct DepthRow {
  ibv_event_type event;
  RefreshDepth depth;
  const char* name;
};
constexpr DepthRow kDepths[] = {
    {IBV_EVENT_SM_CHANGE, RefreshDepth::kLight, "another subnet manager"},
    {IBV_EVENT_CLIENT_REREGISTER, RefreshDepth::kLight,
     "the subnet manager asks to register again"},
    {IBV_EVENT_LID_CHANGE, RefreshDepth::kNormal, "LID change"},
    {IBV_EVENT_PORT_ERR, RefreshDepth::kNormal, "port down"},
    {IBV_EVENT_PORT_ACTIVE, RefreshDepth::kNormal, "port active"},
    {IBV_EVENT_PKEY_CHANGE, RefreshDepth::kHeavy, "P_Key table change"},
    {IBV_EVENT_GID_CHANGE, RefreshDepth::kHeavy, "GID table change"},
    {IBV_EVENT_QP_FATAL, RefreshDepth::kHeavy, "queue pair lost"},
    {IBV_EVENT_CQ_ERR, RefreshDepth::kHeavy, "completion queue lost"},
};

const DepthRow* Find(ibv_event_type event) {
  const DepthRow* const row =
      std::find_if(std::begin(kDepths), std::end(kDepths),
                   [event](const DepthRow& each) { return each.event == event; });
  return row == std::end(kDepths) ? nullptr : row;
}

}  // namespace

const char* RefreshDepthName(RefreshDepth depth) {
  constexpr const char* kNames[] = {"no", "light", "normal", "heavy"};
  return kNames[static_cast<size_t>(depth)];
}

const char* EventName(ibv_event_type event) {
  const DepthRow* const row = Find(event);
  return row != nullptr ? row->name : "an event";
}

RefreshDepth DepthOf(ibv_event_type event) {
  const DepthRow* const row = Find(event);
  return row != nullptr ? row->depth : RefreshDepth::kNone;
}

}  // namespace eoib
