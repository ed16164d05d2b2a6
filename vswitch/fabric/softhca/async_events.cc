#include "vswitch/fabric/softhca/async_events.h"

#include <deque>

#include "vswitch/base/event_fd.h"

namespace eoib::softhca {

void AsyncEvents::RemoveContext(SoftContext* context) { std::erase(contexts_, context); }

void AsyncEvents::Add(SoftContext* context, const ibv_async_event& event) {
  context->events.push_back(event);
  RingEventFd(context->async.get());
}

void AsyncEvents::Raise(ibv_event_type type) {
  ibv_async_event event{};
  event.element.port_num = 1;
  event.event_type = type;
  for (SoftContext* context : contexts_) Add(context, event);
}

void AsyncEvents::RaiseForQp(SoftQp* qp, ibv_event_type type) {
  ibv_async_event event{};
  event.element.qp = qp;
  event.event_type = type;
  for (SoftContext* context : contexts_) {
    if (&context->context == qp->context) Add(context, event);
  }
}

void AsyncEvents::TakeBack(const SoftQp* qp) {
  for (SoftContext* context : contexts_) {
    std::deque<ibv_async_event>& events = context->events;
    for (auto event = events.begin(); event != events.end();) {
      if (event->event_type != IBV_EVENT_QP_FATAL || event->element.qp != qp) {
        ++event;
        continue;
      }
      event = events.erase(event);
      ClearEventFd(context->async.get());  // takes one from its count
    }
  }
}

bool AsyncEvents::Take(SoftContext* context, ibv_async_event* event) {
  if (context->events.empty()) return false;
  *event = context->events.front();
  context->events.pop_front();
  return true;
}

}  // namespace eoib::softhca
