// PartitionQueuePair: the queue pair of one member of a partition, and whether it is still the one for what the HCA port has.
//
// It is made for an index of the P_Key table, and whoever uses it stands on the fabric by a GID. When one of them changes, or
// the queue pair is lost, another takes its place. Control thread; Replace and Drop only while no worker runs.
#ifndef EOIB_CONTROL_PARTITION_QUEUE_PAIR_H_
#define EOIB_CONTROL_PARTITION_QUEUE_PAIR_H_

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/fabric_port.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/fabric/ud_endpoint.h"

namespace eoib {

class PartitionQueuePair {
 public:
  // What it is made for.
  struct Identity {
    Hca::PKeyIndex pkey;
    Gid gid;
  };
  struct Options {
    std::string owner;  // in messages: "VES blue"
    PKey pkey;
    UdEndpoint::Options endpoint;  // whose pkey_index is the one of `pkey`
  };

  // There is none until Replace. `pool` and what `tools` point to outlive the object.
  PartitionQueuePair(const Options& options, const FabricPort::Tools& tools, BufferPool* pool, const Gid& gid);

  // Null: there is none.
  UdEndpoint* get() const { return endpoint_.get(); }
  // Of the queue pair, or of the last there was.
  const Identity& identity() const { return identity_; }
  const Gid& gid() const { return identity_.gid; }
  PKey pkey() const { return identity_.pkey.pkey; }
  // "0x48", "none".
  std::string QpnText() const;

  // Notes that the event takes the queue pair away, if it does.
  void NoteLoss(const ibv_async_event& event);
  // Whether the worker has found, and nobody has said yet, that the queue pair is of no use any more.
  bool NoteFailure();
  // Whether one of the two happened, and Replace has not yet been tried.
  bool lost() const { return lost_; }
  // Whether it is lost, or is not the one for the P_Key table and the GID that the port has now.
  bool NeedsReplacement() const;

  // Makes one for what the port has now; `rebind` puts it in the place of the former, which then goes. kNotFound: the port is
  // not in the partition. After an error the former is still there: its index in the P_Key table may be another partition's by
  // now, so it has to be dropped.
  absl::Status Replace(absl::FunctionRef<void(UdEndpoint* endpoint)> rebind);
  void Drop() { endpoint_.reset(); }

 private:
  absl::StatusOr<Identity> LookUp() const;

  const Options options_;
  const FabricPort::Tools tools_;
  BufferPool* const pool_;
  Identity identity_;
  bool lost_ = false;
  std::unique_ptr<UdEndpoint> endpoint_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_PARTITION_QUEUE_PAIR_H_
