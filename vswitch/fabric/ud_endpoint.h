// UdEndpoint: one Unreliable Datagram QP with its completion queues, as a worker uses it.
//
// A worker's turn: Receive a batch, forward it, Send, ReapSends, Refill. When nothing is left: Arm,
// then Receive and ReapSends once more (an arrival between the last poll and Arm raises no event),
// then sleep on event_fd(). After waking: DrainEvents. README.md, "Queue pairs", describes the
// Q_Key, failed sends and failed receives.
//
// Threads: the worker that owns the QP. Control calls SetQKey, Attach and Detach. No member
// allocates after Create, except those three. Control creates and destroys the endpoint while no
// worker uses it.
//
// Ownership: the endpoint holds the buffers that are posted or in flight. All others are the
// caller's. An address handle is in use from the post of a send until its completion is reaped
// (AddressHandles).
#ifndef EOIB_VSWITCH_FABRIC_UD_ENDPOINT_H_
#define EOIB_VSWITCH_FABRIC_UD_ENDPOINT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/base/drop_reason.h"
#include "vswitch/fabric/address_handles.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/fabric/group_attachments.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/rebuilt_capture.h"
#include "vswitch/fabric/send_queue.h"

namespace eoib {

// A received datagram. Its payload is `length` bytes at BufferPool::Grh(buffer) + 40 ==
// Frame(buffer) - 4.
struct Datagram {
  BufferId buffer;
  uint32_t length = 0;  // UD payload: EoIB header and frame
  bool ok = true;       // false: the receive failed; only `buffer` is valid
  bool has_grh = false;
  bool checksums_ok = false;  // the HCA verified the checksums of IPv4, and of TCP or UDP in it
  Gid sgid;                   // from the GRH
  Gid dgid;                   // from the GRH: the group's MGID, or this port's GID
  Qpn source_qpn;
  Lid slid;  // slid and sl are 0 on RoCE
  Sl sl;

  PeerAddress source() const { return {sgid, source_qpn}; }
};

class UdEndpoint {
 public:
  struct Options {
    uint16_t pkey_index = 0;
    QKey qkey;
    int receive_depth = 512;
    int send_depth = 512;
  };

  // Creates the QP and brings it to RTS. `hca`, `pd`, `pool` and `handles` outlive the endpoint.
  static absl::StatusOr<std::unique_ptr<UdEndpoint>> Create(Hca* hca, ibv_pd* pd, BufferPool* pool,
                                                            AddressHandles* handles,
                                                            const Options& options);
  // Detaches the QP from its groups, destroys it and frees the buffers that were posted or in
  // flight.
  ~UdEndpoint();
  UdEndpoint(const UdEndpoint&) = delete;
  UdEndpoint& operator=(const UdEndpoint&) = delete;

  Qpn qpn() const;
  // Returns whether an asynchronous event reports the loss of this QP or of one of its completion
  // queues.
  bool IsLostBy(const ibv_async_event& event) const;
  // Any thread. True once the worker found the QP unusable; an asynchronous event may or may not
  // report the same.
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  // Takes up to out.size() received datagrams. Their buffers now belong to the batch.
  size_t Receive(absl::Span<Datagram> out);
  // Posts free buffers until receive_depth are posted or the pool is empty. Call it after freeing
  // the batch's buffers.
  void Refill();

  // Posts `requests`, which are whole trains, and returns how many were posted. result[i] is kNone
  // (the buffer is in flight), kUnresolved (no such handle), kSendQueueFull or kSendError; a buffer
  // that was not posted stays the batch's. A train that has no room in the send queue is not begun.
  // Only a failed post may leave a train incomplete.
  size_t Send(absl::Span<const SendRequest> requests, absl::Span<DropReason> result);
  // Frees the buffers of completed sends. Returns how many trains completed, which the last request
  // of each decides; *failed is how many of those failed.
  size_t ReapSends(size_t* failed);
  size_t sends_in_flight() const { return sends_.trains_in_flight(); }  // trains
  // True while over half of the send queue is in flight: the fabric takes sends more slowly than
  // they come.
  bool IsCongested() const { return sends_.in_flight() > sends_.depth() / 2; }

  int event_fd() const;
  // Asks for an event at the next completion of either queue.
  absl::Status Arm();
  // Takes and acknowledges the events that woke the worker. Does not block.
  void DrainEvents();

  // Control: sets the Q_Key of the flood group's record, in place of the one given to Create.
  absl::Status SetQKey(QKey qkey);
  absl::Status Attach(const Mgid& mgid, Mlid mlid) { return groups_->Attach(mgid, mlid); }
  absl::Status Detach(const Mgid& mgid, Mlid mlid) { return groups_->Detach(mgid, mlid); }

 private:
  UdEndpoint(Hca* hca, BufferPool* pool, AddressHandles* handles, const Options& options);

  absl::Status CreateQueues(ibv_pd* pd);
  absl::Status BringUp(const Options& options);
  absl::Status ModifyQp(ibv_qp_attr* attr, int mask, absl::string_view what);
  absl::Status Failed(int error, absl::string_view what) const;
  absl::Status FailedToMake(int error, absl::string_view what) const;
  bool TakeReceive(const ibv_wc& wc, Datagram* out);
  size_t PrepareReceives();
  void RefuseUnposted(size_t posted, int error, absl::Span<DropReason> result);
  bool Captures() const { return capture_ != nullptr && capture_->on(); }
  RebuiltCapture::QueuePair CaptureIdentity() const;
  void CaptureSent(absl::Span<const SendRequest> requests, absl::Span<const DropReason> result);
  void CaptureReceived(absl::Span<const ibv_wc> completions);
  void RecoverSendQueue();
  bool QueryState(ibv_qp_state* state);
  void CheckFailedReceives();
  void SetFailed() { failed_.store(true, std::memory_order_relaxed); }

  Hca* const hca_;
  BufferPool* const pool_;
  AddressHandles* const handles_;
  RebuiltCapture* const capture_;  // or null
  const uint16_t pkey_index_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* receive_cq_ = nullptr;
  ibv_cq* send_cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  std::unique_ptr<GroupAttachments> groups_;
  const size_t receive_depth_;
  size_t posted_ = 0;
  bool send_failed_ = false;     // the send queue may be in SQE
  bool receive_failed_ = false;  // the QP may be in ERR
  bool ethernet_ = false;        // the port's link layer
  // IBV_DEVICE_UD_IP_CSUM: without it IBV_WC_IP_CSUM_OK means nothing.
  bool verifies_checksums_ = false;
  std::atomic<bool> failed_{false};
  std::atomic<uint32_t> qkey_;  // the QP's
  SendQueue sends_;
  // Receives are built here. Elements with the same index belong together.
  std::vector<ibv_recv_wr> receive_wrs_;
  std::vector<ibv_sge> receive_sges_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_UD_ENDPOINT_H_
