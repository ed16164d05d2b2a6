// AsyncEvents: the asynchronous events of a port's contexts, as ibv_get_async_event returns them.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_ASYNC_EVENTS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_ASYNC_EVENTS_H_

#include <infiniband/verbs.h>

#include <vector>

#include "vswitch/fabric/softhca/verbs_objects.h"

namespace eoib::softhca {

// No lock of its own: all members are called under the port's mutex.
class AsyncEvents {
 public:
  void AddContext(SoftContext* context) { contexts_.push_back(context); }
  void RemoveContext(SoftContext* context);

  // Raises an event of the port in every context.
  void Raise(ibv_event_type type);
  // Raises an event of a queue pair in the context that made it.
  void RaiseForQp(SoftQp* qp, ibv_event_type type);
  // Removes the pending events of a destroyed queue pair, so that no program gets an event with a
  // dangling pointer. ibv_destroy_qp would wait for acknowledgements.
  void TakeBack(const SoftQp* qp);
  // Returns false if the context has no event.
  static bool Take(SoftContext* context, ibv_async_event* event);

 private:
  static void Add(SoftContext* context, const ibv_async_event& event);

  std::vector<SoftContext*> contexts_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_ASYNC_EVENTS_H_
