// SendQueue: the send queue of an endpoint: the chain of work requests that is being built, and the
// sends in flight.
//
// Only the last request of a chain asks for a completion. It stands for those before it too,
// because a send queue completes in order; a failed request completes in any case. Neighbours with
// the same address handle hold it together, until the last of them has completed. Small payloads go
// inline: the HCA copies them when they are posted.
//
// Thread: the worker that owns the endpoint.
#ifndef EOIB_VSWITCH_FABRIC_SEND_QUEUE_H_
#define EOIB_VSWITCH_FABRIC_SEND_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/base/drop_reason.h"
#include "vswitch/fabric/address_handles.h"
#include "vswitch/fabric/buffer_pool.h"

namespace eoib {

// A datagram to send: `length` bytes at `payload`, which lies in `buffer`.
struct SendRequest {
  BufferId buffer;
  const uint8_t* payload = nullptr;
  uint32_t length = 0;
  AhIndex ah = AhIndex::None();
  Qpn qpn;  // Qpn::kMulticast for a group
  // The requests of one frame follow each other (a train) and have the same `ah`. The number of
  // those that are left of it, with this one.
  uint8_t train = 1;
};

class SendQueue {
 public:
  // All outlive the queue. `depth` is the QP's; `endpoint` holds the buffers in flight.
  SendQueue(BufferPool* pool, AddressHandles* handles, const UdEndpoint* endpoint, size_t depth);
  // Frees the buffers in flight. Only when the HCA does not read them any more.
  ~SendQueue();
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  // The largest payload that the QP takes inline.
  void set_inline_limit(uint32_t bytes) { inline_limit_ = bytes; }

  // Adds a train to the chain. kSendQueueFull without room for all of it; kUnresolved without such
  // a handle.
  DropReason Add(absl::Span<const SendRequest> train, uint32_t qkey);
  // Posts the chain, and begins a new one. Returns how many requests were posted; the buffers of
  // the others stay the batch's, and *error says why. Those before a refused one complete with the
  // next chain.
  size_t Post(ibv_qp* qp, int* error);

  // What a completion says: how many trains it completed, and how many of them failed.
  struct Completed {
    size_t trains = 0;
    size_t failed = 0;
  };
  // Frees the buffers of the completed send and of those before it.
  Completed Complete(const ibv_wc& wc);

  size_t in_flight() const { return tail_ - head_; }  // requests
  size_t trains_in_flight() const { return trains_in_flight_; }
  size_t depth() const { return depth_; }

 private:
  struct Sent {
    BufferId buffer;
    AhIndex ah = AhIndex::None();  // released at completion; None: the next one holds the same
    bool ends_train = true;
  };

  bool Acquire(AhIndex ah);
  void Prepare(const SendRequest& request, uint32_t qkey);
  void Withdraw(size_t posted);
  void Finish(const Sent& sent);
  Sent& at(size_t position) { return sent_.data()[position & mask_]; }

  BufferPool* const pool_;
  AddressHandles* const handles_;
  const UdEndpoint* const endpoint_;
  const size_t depth_;
  uint32_t inline_limit_ = 0;

  // Built once: element i is linked to element i + 1. Prepare writes what differs.
  std::vector<ibv_send_wr> requests_;
  std::vector<ibv_sge> sges_;
  size_t prepared_ = 0;
  AhIndex held_ = AhIndex::None();  // the handle of the last request in the chain
  ibv_ah* ah_ = nullptr;

  // A circular buffer of a power of two: the sends in flight, then the chain.
  std::vector<Sent> sent_;
  const size_t mask_;
  size_t head_ = 0;
  size_t tail_ = 0;
  size_t trains_in_flight_ = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_SEND_QUEUE_H_
