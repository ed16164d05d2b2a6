// RebuiltCapture: the packet capture of a real HCA, which makes headers itself and shows them to no
// program. The headers are rebuilt from work requests, completions and receive buffers. README.md,
// "Captures", says where each field comes from and what differs from the cable.
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
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/address_handles.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/packet_capture.h"

namespace eoib {

// The Hca owns it; the HCA's UdEndpoints report to it. Any thread may call all members.
class RebuiltCapture {
 public:
  // Hca::CaptureNote, and the first record of each capture.
  static constexpr char kNote[] =
      "the InfiniBand headers are rebuilt from work requests, completions and receive buffers: VL "
      "and PSN are not known and 0, ICRC and VCRC are computed, received P_Keys are taken for full "
      "members'; MADs and other programs' packets are missing";

  // True while a capture runs. Workers test this once per batch, at the cost of one relaxed load.
  bool on() const { return on_.load(std::memory_order_relaxed); }

  // ---- Control.
  // As the members of Hca. `hca` is asked for its LID, GID and P_Keys.
  absl::Status Start(const Hca& hca, const CaptureOptions& options) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<CaptureReport> Stop(const Hca& hca) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::optional<CaptureReport> report() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads the port's LID, GID and P_Keys again.
  void OnPortChange(const Hca& hca) ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- Endpoints.
  struct QueuePair {
    Qpn qpn;
    QKey qkey;
    uint16_t pkey_index = 0;
  };
  // An endpoint has made its queue pair, or is going to destroy it.
  void Created(Qpn qpn) ABSL_LOCKS_EXCLUDED(mutex_);
  void Destroyed(Qpn qpn) ABSL_LOCKS_EXCLUDED(mutex_);
  // A queue pair was attached to the group, or detached from it.
  void Attached(const Mgid& mgid, Mlid mlid) ABSL_LOCKS_EXCLUDED(mutex_);
  void Detached(const Mgid& mgid) ABSL_LOCKS_EXCLUDED(mutex_);
  // Worker: `qp` has sent a datagram, or completed a receive. `buffer` is the receive's, with its
  // 40 bytes for the GRH first.
  void Sent(const QueuePair& qp, const PathKey& path, const PathAttributes& attributes,
            Qpn destination, absl::Span<const uint8_t> payload) ABSL_LOCKS_EXCLUDED(mutex_);
  void Received(const QueuePair& qp, const ibv_wc& completion, const uint8_t* buffer)
      ABSL_LOCKS_EXCLUDED(mutex_);

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

  static absl::StatusOr<Port> ReadPort(const Hca& hca);
  PKey PKeyAt(uint16_t index) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOwnMulticast(const ibv_wc& completion, const Grh& grh) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint16_t DlidOf(const ibv_wc& completion, const Gid& dgid) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> on_{false};
  mutable absl::Mutex mutex_;  // never held during a file operation or a verb
  std::unique_ptr<PacketCapture> capture_ ABSL_GUARDED_BY(mutex_);
  Port port_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Mgid, Group> groups_ ABSL_GUARDED_BY(mutex_);
  // All of this port that report here.
  absl::flat_hash_set<Qpn> queue_pairs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_REBUILT_CAPTURE_H_
