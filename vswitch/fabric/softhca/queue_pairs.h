// QueuePairs: the transport half of a port, with its queue pairs, memory regions and completion
// queues. It checks a datagram before it leaves, and it decides which posted receive an arriving
// datagram completes.
//
// Threads: any, under the port's mutex: there is no lock here. The objects belong to their maker
// (soft_verbs.cc), who removes a queue pair before its completion queues.
//
// Invariants: a queue pair is in by_qpn_ from Add to Remove. receivers_armed_ is the number of
// armed completion queues into which queue pairs receive. While a message of a queue pair waits for
// room, the completions of later sends are held back, in order.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_QUEUE_PAIRS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_QUEUE_PAIRS_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/softhca/memory_regions.h"
#include "vswitch/fabric/softhca/ring.h"
#include "vswitch/fabric/softhca/soft_port_counters.h"
#include "vswitch/fabric/softhca/subnet_link.h"
#include "vswitch/fabric/softhca/verbs_objects.h"

namespace eoib::softhca {

class QueuePairs {
 public:
  explicit QueuePairs(SoftPortCounters* counters) : counters_(counters) {}

  void set_config(const PortConfig& config);
  const PortConfig& config() const { return config_; }

  MemoryRegions& regions() { return regions_; }

  template <typename Function>
  void ForEach(Function function) const {
    for (const auto& [qpn, qp] : by_qpn_) function(qp);
  }

  // Queue pairs. Errors are errno values, as the verbs return them.
  int Add(SoftQp* qp);  // assigns the QPN
  int Modify(SoftQp* qp, const ibv_qp_attr& attributes, int mask);
  // EBUSY while attached to a group. Removes the queue pair's entries from its completion queues.
  int Remove(SoftQp* qp);
  int Attach(SoftQp* qp, const Gid& mgid);
  int Detach(SoftQp* qp, const Gid& mgid);
  int PostReceive(SoftQp* qp, const ibv_recv_wr& request);

  // Errors that the verb itself returns, before there is a work queue entry.
  int CheckSend(const SoftQp& qp, const ibv_send_wr& request) const;
  // Errors that the entry completes with, or IBV_WC_SUCCESS; *length is then the message's.
  ibv_wc_status CheckMessage(const SoftQp& qp, const ibv_send_wr& request, uint32_t* length) const;
  // Makes the header of the entry's datagram. False if the QP's P_Key index holds no valid P_Key
  // now.
  bool MakeHeader(SoftQp* qp, const ibv_send_wr& request, uint32_t length,
                  RecordHeader* header) const;
  // Counts the entry, and completes it if it is signaled or failed: now, or once no message before
  // it waits for room. An error stops the send queue.
  void CompleteSend(SoftQp* qp, const ibv_send_wr& request, ibv_wc_status status) {
    ++qp->sends_posted;
    if (status == IBV_WC_SUCCESS && !qp->signal_all &&
        (request.send_flags & IBV_SEND_SIGNALED) == 0)
      return;
    AddSendCompletion(qp, request, status);
  }

  // A copy of a message of queue pair `qpn` has begun to wait for room in a ring, or waits no more.
  // Between the two the queue pair's completions are held back. A queue pair that was reset or
  // removed meanwhile has forgotten its messages.
  void OnParked(uint32_t qpn);
  void OnUnparked(uint32_t qpn);

  // Checks a received datagram against its source's identity and delivers it to its queue pairs.
  // The payload may lie in a ring; for each queue pair it is read once, beside a look at its type.
  void Deliver(const SourceIdentity& source, const RecordHeader& header, const uint8_t* payload);

  int Poll(SoftCq* cq, int count, ibv_wc* completions);
  // Makes the next completion of `cq` (or the next solicited one) raise an event.
  void Arm(SoftCq* cq, bool solicited_only);
  void Disarm(SoftCq* cq);
  // True if a completion queue into which queue pairs receive is armed, so that the port must wake
  // up for arrivals.
  bool receiver_armed() const { return receivers_armed_ != 0; }

 private:
  void AddSendCompletion(SoftQp* qp, const ibv_send_wr& request, ibv_wc_status status);
  PKey PKeyOf(const SoftQp& qp) const;
  bool CheckSource(const SourceIdentity& source, const RecordHeader& header);
  void DeliverMulticast(const SourceIdentity& source, const RecordHeader& header,
                        const uint8_t* payload);
  void DeliverTo(SoftQp* qp, const SourceIdentity& source, const RecordHeader& header,
                 const uint8_t* payload);
  bool CheckReceiver(const SoftQp& qp, const RecordHeader& header);
  void CompleteReceive(SoftQp* qp, Lid source, const RecordHeader& header, ibv_wc_status status,
                       unsigned flags = 0);
  void AddCompletion(SoftCq* cq, const SoftCq::Entry& entry);
  void RaiseEvent(SoftCq* cq, bool solicited);
  void ReleaseHeld(SoftQp* qp);
  void Flush(SoftQp* qp);
  void Reset(SoftQp* qp);
  static void RemoveEntries(SoftCq* cq, const SoftQp* qp);

  SoftPortCounters* const counters_;
  PortConfig config_;
  uint32_t mtu_ = 4096;
  uint32_t next_qpn_ = 0;  // offset into the range
  absl::flat_hash_map<uint32_t, SoftQp*> by_qpn_;
  absl::flat_hash_map<Gid, std::vector<SoftQp*>> groups_;
  MemoryRegions regions_;
  int receivers_armed_ = 0;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_QUEUE_PAIRS_H_
