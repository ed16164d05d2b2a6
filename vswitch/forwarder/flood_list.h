// FloodList: the agents of a VES that floods without a multicast group, and the VLANs of their
// vPorts.
//
// Control publishes the list as a whole; the worker takes the latest one over when it floods, and
// control frees those before it. The directory has the addresses.
#ifndef EOIB_VSWITCH_FORWARDER_FLOOD_LIST_H_
#define EOIB_VSWITCH_FORWARDER_FLOOD_LIST_H_

#include <atomic>
#include <vector>

#include "absl/types/span.h"
#include "fdb/vport.h"
#include "vswitch/forwarder/vlan_policy.h"

namespace eoib {

class FloodList {
 public:
  struct Entry {
    VPortId vport;  // of the agent, in the directory
    VlanSet vlans;  // those of its vPorts; none: it gets messages only
  };

  FloodList() = default;
  ~FloodList();
  FloodList(const FloodList&) = delete;
  FloodList& operator=(const FloodList&) = delete;

  // Control. `Published` is valid until the next call of Publish.
  void Publish(std::vector<Entry> entries);
  absl::Span<const Entry> Published() const;
  // The worker. The result is valid until the next call. Wait-free.
  absl::Span<const Entry> Entries();

 private:
  struct Snapshot {
    std::vector<Entry> entries;
    Snapshot* next = nullptr;
  };
  void FreeReplaced();

  std::atomic<Snapshot*> published_{nullptr};  // the worker has not taken it over yet
  std::atomic<Snapshot*> replaced_{nullptr};   // the worker uses them no more; linked
  Snapshot* current_ = nullptr;                // the worker's
  const Snapshot* latest_ = nullptr;           // control's: published_, current_ or on its way
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_FLOOD_LIST_H_
