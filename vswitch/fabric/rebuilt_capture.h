// RebuiltCapture: the capture of a port whose HCA makes the headers by itself and shows them to nobody. They are rebuilt from
// what goes in and comes out of queue pairs.
//
// Of a packet that is sent: DLID, SL and the GRH from what its address handle was made of, SLID, SGID and P_Key from the port,
// the rest from the queue pair and the work request. Of one that is received: SLID, SL and source QPN from the completion, the
// GRH from the buffer as it is, the DLID from the port and the completion's path bits or from the group that the queue pair is
// attached to. The P_Key is that of the port's table, of received packets with the high-order bit: a completion does not show
// whether a full member has sent it. VL and PSN are not known and 0; the CRCs are those of the packet as it is rebuilt.
//
// Our own multicast, which comes back to us, is there once, as it was sent. What other programs send and receive through the
// port is not there, and neither are MADs.
#ifndef EOIB_VSWITCH_FABRIC_REBUILT_CAPTURE_H_
#define EOIB_VSWITCH_FABRIC_REBUILT_CAPTURE_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/address.h"
#include "vswitch/fabric/address_handles.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/packet_capture.h"

namespace eoib {

// Owned by the Hca, used by its UdEndpoints. All members may be called from any thread.
class RebuiltCapture {
 public:
  // For the operator, and in the capture itself.
  static constexpr char kNote[] =
      "the InfiniBand headers are rebuilt from work requests, completions and receive buffers: VL and PSN are not known and 0, "
      "ICRC and VCRC are computed, received P_Keys are taken for full members'; MADs and other programs' packets are missing";

  // Whether a worker has something to do here; a look at it costs next to nothing.
  bool on() const { return on_.load(std::memory_order_relaxed); }

  // ---- Control.
  // As Hca's of the same names. `hca` is the port, which is asked for its LID, GID and P_Keys.
  absl::Status Start(const Hca& hca, const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<CaptureReport> Stop(const Hca& hca) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::optional<CaptureReport> report() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The port's LID, GID or P_Keys may have changed.
  void OnPortChange(const Hca& hca) ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- Endpoints.
  struct QueuePair {
    Qpn qpn;
    QKey qkey;
    uint16_t pkey_index = 0;
  };
  // A queue pair is attached to that group, or no more.
  void Attached(const Mgid& mgid, Mlid mlid) ABSL_LOCKS_EXCLUDED(mutex_);
  void Detached(const Mgid& mgid) ABSL_LOCKS_EXCLUDED(mutex_);
  // Worker: `qp` has sent, or completed the receive of, a datagram. `buffer`: of the receive, its 40 bytes for the GRH first.
  void Sent(const QueuePair& qp, const PathKey& path, const PathAttributes& attributes, Qpn destination,
            absl::Span<const uint8_t> payload) ABSL_LOCKS_EXCLUDED(mutex_);
  void Received(const QueuePair& qp, const ibv_wc& completion, const uint8_t* buffer) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Port {
    Lid lid;
    Gid gid;
    std::vector<PKey> pkeys;
  };
  struct Group {
    Mlid mlid;
    int attached = 0;  // queue pairs
  };

  static absl::StatusOr<Port> Ask(const Hca& hca);
  PKey PKeyAt(uint16_t index) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOwnMulticast(const QueuePair& qp, const ibv_wc& completion, const Grh& grh) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint16_t DlidOf(const ibv_wc& completion, const Gid& dgid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> on_{false};
  mutable absl::Mutex mutex_;  // never held while a file or the kernel is asked
  std::unique_ptr<PacketCapture> capture_ ABSL_GUARDED_BY(mutex_);
  Port port_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Mgid, Group> groups_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_REBUILT_CAPTURE_H_
