// VesQueues: the queues of a VES on this agent. They share its FDB and vPort directory only, so
// each may run on a thread of its own.
//
// Invariants: queues are only added. A vPort has the same index at the forwarders of all queues.
#ifndef EOIB_CONTROL_VES_VES_QUEUES_H_
#define EOIB_CONTROL_VES_VES_QUEUES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "control/config/config.h"
#include "control/subnet/group_membership.h"
#include "control/subnet/partition_queue_pair.h"
#include "control/vport/vport.h"
#include "fdb/fdb.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/forwarder/control_queues.h"
#include "vswitch/forwarder/forwarder.h"

namespace eoib {

// A forwarder, its queue pair and buffers, and its queues to control. Control thread, except that
// the forwarder and its end of the queues belong to the thread that runs it.
struct VesQueue {
  VesQueue(std::unique_ptr<BufferPool> buffers, const PartitionQueuePair::Options& options,
           const FabricPort::Resources& fabric, const Gid& gid)
      : pool(std::move(buffers)), queue_pair(options, fabric, pool.get(), gid) {}

  PeerAddress address() const {
    return queue_pair.get() == nullptr ? PeerAddress()
                                       : PeerAddress{queue_pair.gid(), queue_pair.get()->qpn()};
  }

  const std::unique_ptr<BufferPool> pool;
  PuntQueue punts;
  ReceivedMessages messages;
  InjectQueue injected;
  PartitionQueuePair queue_pair;         // empty while the VES is down
  std::unique_ptr<Forwarder> forwarder;  // destroyed before the queue pair, on which it posts
};

// Control thread.
class VesQueues {
 public:
  static constexpr size_t kMost = VPortDirectory::kMaxAddresses;

  struct Options {
    std::string ves;
    PKey pkey;
    QKey qkey;
    Gid gid;  // of the port
    Forwarder::Options forwarding;
  };
  // What `fabric` names and the other pointers outlive the object.
  VesQueues(Options options, const FabricPort::Resources& fabric, Fdb* fdb,
            VPortDirectory* directory)
      : options_(std::move(options)), fabric_(fabric), fdb_(fdb), directory_(directory) {}

  // Adds a queue without a queue pair and without ports.
  absl::StatusOr<VesQueue*> Add();
  void RemoveLast() { queues_.pop_back(); }
  void Clear() { queues_.clear(); }

  bool empty() const { return queues_.empty(); }
  size_t size() const { return queues_.size(); }
  VesQueue& operator[](size_t number) const { return *queues_[number]; }
  VesQueue& first() const { return *queues_.front(); }
  std::vector<std::unique_ptr<VesQueue>>::const_iterator begin() const { return queues_.begin(); }
  std::vector<std::unique_ptr<VesQueue>>::const_iterator end() const { return queues_.end(); }
  std::vector<Forwarder*> forwarders() const;
  // The own address of each queue pair, in the order of the queues.
  std::vector<PeerAddress> addresses() const;

  // Tells each forwarder the QPNs of the others: it has to recognise what they have sent to the
  // group.
  void TellQpns();
  void SetMtu(uint32_t mtu);
  void SetAdmission(const VesConfig& config);
  // The VES has joined its flood group or left it: the handle to send to it, and the Q_Key of the
  // further queue pairs. The membership sets that of the first one.
  void FollowGroup(const absl::optional<GroupMembership::Joined>& joined);
  // Gives the further queues ports of a vPort that the first one has, and takes them away. The
  // worker does not run.
  void AddToFurther(VPort* vport);
  void RemovePort(uint32_t index);

  // Paths have changed: the forwarders try their held frames again.
  void RetryHeld();
  // The queue for messages that leave from `own`, or else the first one's.
  InjectQueue* InjectedAt(const PeerAddress& own);

  bool NeedReplacement() const;
  void NoteLoss(const ibv_async_event& event);
  // The QPNs of all queues, for the operator: "0x48 0x49", or "none".
  std::string QpnText() const;
  // Sums over all queues.
  ForwarderCounters counters() const;
  PortCounters CountersOf(const VPort& vport) const;
  size_t Buffers(BufferPool::State state) const;

 private:
  const Options options_;
  const FabricPort::Resources fabric_;
  Fdb* const fdb_;
  VPortDirectory* const directory_;
  std::vector<std::unique_ptr<VesQueue>> queues_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_VES_QUEUES_H_
