// PartitionQueuePair: the queue pair that one client of an HCA port, such as a VES, has in its
// partition. It says when the queue pair must be replaced, and replaces it on request.
//
// A queue pair is bound to an index in the port's P_Key table, and peers know it by the port's GID.
// When one of them changes, or the queue pair is lost, Replace makes a new one. Control thread;
// Replace and Drop only while no worker runs.
#ifndef EOIB_CONTROL_SUBNET_PARTITION_QUEUE_PAIR_H_
#define EOIB_CONTROL_SUBNET_PARTITION_QUEUE_PAIR_H_

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/subnet/fabric_port.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/fabric/ud_endpoint.h"

namespace eoib {

class PartitionQueuePair {
 public:
  struct Options {
    std::string owner;  // its name in messages: "VES blue"
    PKey pkey;
    UdEndpoint::Options endpoint;  // pkey_index is ignored: it is looked up from `pkey`
  };

  // Starts without a queue pair; Replace makes it. `pool` and what `resources` point to outlive the
  // object.
  PartitionQueuePair(const Options& options, const FabricPort::Resources& resources,
                     BufferPool* pool, const Gid& gid);

  // Null: there is no queue pair.
  UdEndpoint* get() const { return endpoint_.get(); }
  // The GID and P_Key of the present queue pair, or of the last one.
  const Gid& gid() const { return identity_.gid; }
  PKey pkey() const { return identity_.entry.pkey; }
  // For the operator: "0x48", or "none".
  std::string QpnText() const;

  // If the event says that the queue pair is lost, notes that.
  void NoteLoss(const ibv_async_event& event);
  // True, once, if the worker found that the queue pair has failed; notes and logs that it is lost.
  bool NoteFailure();
  // True if the queue pair is lost, or does not match the port's present P_Key table and GID. If
  // there is none: true unless the port is outside the partition.
  bool NeedsReplacement() const;

  // Makes a queue pair for the port's present P_Key table and GID. `rebind` hands it to its users;
  // then the old one is destroyed. kNotFound: the port is not in the partition. After an error the
  // old one still exists; the caller must Drop it, because its P_Key index may belong to another
  // partition by now.
  absl::Status Replace(absl::FunctionRef<void(UdEndpoint* endpoint)> rebind);
  void Drop() { endpoint_.reset(); }

 private:
  // The P_Key table entry and GID that a queue pair is made for.
  struct Identity {
    Hca::PKeyIndex entry;
    Gid gid;
  };
  // Asks the HCA for the present ones.
  absl::StatusOr<Identity> LookUp() const;

  const Options options_;
  const FabricPort::Resources resources_;
  BufferPool* const pool_;
  Identity identity_;
  // NoteLoss or NoteFailure found it lost, and Replace has not been called since.
  bool lost_ = false;
  std::unique_ptr<UdEndpoint> endpoint_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_SUBNET_PARTITION_QUEUE_PAIR_H_
