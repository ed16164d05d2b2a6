// DatagramPath: the way of a port's datagrams, from posted sends into rings (Outbound) and from
// rings (Inbound) through the FaultInjector to posted receives (QueuePairs).
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_DATAGRAM_PATH_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_DATAGRAM_PATH_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/packet_capture.h"
#include "vswitch/fabric/softhca/counters_page.h"
#include "vswitch/fabric/softhca/fault_injector.h"
#include "vswitch/fabric/softhca/inbound.h"
#include "vswitch/fabric/softhca/outbound.h"
#include "vswitch/fabric/softhca/queue_pairs.h"
#include "vswitch/fabric/softhca/soft_port_counters.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

// The eventfds of a port.
struct PortEventFds {
  // Rung by producers and by this port.
  const std::shared_ptr<UniqueFd> doorbell = std::make_shared<UniqueFd>(MakeEventFd());
  // Rung by consumers that made room.
  const std::shared_ptr<UniqueFd> space = std::make_shared<UniqueFd>(MakeEventFd());
  // Wakes the background thread.
  const UniqueFd background = MakeEventFd();

  bool valid() const { return doorbell->valid() && space->valid() && background.valid(); }
  void WakeBackground() const { RingEventFd(background.get()); }
};

// Threads: any, under the port's mutex: there is no lock here. No member calls the subnet or waits.
//
// Ownership: it owns both halves, the queue pairs, and the counters that these share. SetPage comes
// before the first datagram. What is left in a ring that ends is counted, so that each datagram is
// delivered or lost for one reason.
class DatagramPath {
 public:
  // All outlive the path.
  DatagramPath(const OutboundOptions* options, const Clock* clock, const PortEventFds* fds)
      : clock_(clock),
        fds_(fds),
        queue_pairs_(&counters_),
        outbound_(options, clock, &counters_, &queue_pairs_),
        faults_(clock, &counters_) {}

  Outbound& outbound() { return outbound_; }
  const Outbound& outbound() const { return outbound_; }
  Inbound& inbound() { return inbound_; }
  const Inbound& inbound() const { return inbound_; }
  QueuePairs& queue_pairs() { return queue_pairs_; }
  const QueuePairs& queue_pairs() const { return queue_pairs_; }
  SoftPortCounters& counters() { return counters_; }
  const SoftPortCounters& counters() const { return counters_; }
  std::unique_ptr<PacketCapture>& capture() { return capture_; }
  const PacketCapture* capture() const { return capture_.get(); }

  // Where the counters are published. Needed before datagrams.
  void SetPage(std::shared_ptr<CountersPage> page);
  void StoreCounters() { page_->Store(counters_); }
  SourceIdentity Identity() const;
  // The ports that receive a group's datagrams; none ends the group.
  void SetGroup(Mlid mlid, const std::vector<Lid>& members);
  void SetFaults(const std::vector<FaultRule>& rules);

  // Posts sends. Returns an errno and the request that failed.
  int PostSend(SoftQp* qp, ibv_send_wr* request, ibv_send_wr** bad);

  // Adds a ring from another port or from this one.
  void AddInbound(std::unique_ptr<InboundRing> ring);
  // Counts what is left in a ring that this port consumes no longer.
  void LeaveRing(InboundRing* ring);
  // Delivers what has arrived, sends what may find room now, and polls `cq`.
  int Poll(SoftCq* cq, int count, ibv_wc* completions);
  // Delivers what has arrived until `channel` has an event.
  void DrainUntilEvent(SoftChannel* channel);
  // The next completion of `cq` (or the next solicited one) raises an event; a sleeping receiver is
  // woken for its records.
  void Arm(SoftCq* cq, bool solicited_only);
  // Wakes sleeping receivers if records or delayed datagrams are there.
  void WakeReceiversIfDue() {
    if (queue_pairs_.receiver_armed()) WakeReceivers(/*has_records=*/false);
  }
  // A receiver was woken.
  void SilenceDoorbell();

  // The background thread sleeps until `wakes` at the latest. `busy`: it watches parked messages
  // and need not be woken.
  void BackgroundSleeps(absl::Time wakes, bool busy);
  // Wakes receivers as WakeReceiversIfDue() does. True: a polling thread left that to the
  // background thread meanwhile, which does it again within kArmTick.
  static constexpr absl::Duration kArmTick = absl::Milliseconds(4);
  bool BackgroundArms();
  // True, once, if the background thread must be woken for parked messages.
  bool TakeBackgroundNeeded();
  // When a sleeping receiver must be woken for a delayed datagram.
  absl::Time NextDue() const;
  // The port ends: releases all rings and counts what is lost.
  void End();

 private:
  int SendOne(SoftQp* qp, const ibv_send_wr& request);
  void Transmit(const RecordHeader& header, const Gather& gather);
  void Receive(InboundRing* ring, const RecordHeader& header, const uint8_t* payload);
  void CountTaken(const InboundRing& ring, uint64_t records);
  // Delivers at most `limit` records, until `done()`. Returns true if none is left. If receivers
  // sleep, WakeReceivers() must follow: records that are left may be theirs, and records that were
  // taken may have used up the doorbell that they asked for.
  template <typename Done>
  bool Drain(uint64_t limit, Done done);
  // A loopback is captured once, when it is sent.
  void Capture(const RecordHeader& header, Lid slid, const Gid& sgid, const Gather& gather);
  void WakeReceivers(bool has_records);
  // The same, for a thread that has just polled. If it has armed all queues that are armed, it is
  // awake and needs no doorbell: without this, a producer would ring for every datagram to one
  // queue because others are armed. The background thread asks for doorbells soon, in case that the
  // thread goes to sleep without arming.
  void WakeReceiversLater(bool has_records);
  // Wakes the background thread if it would sleep longer than until the next delayed datagram.
  void WatchDueTime();
  void RingDoorbell();

  const Clock* const clock_;
  const PortEventFds* const fds_;
  SoftPortCounters counters_;
  std::shared_ptr<CountersPage> page_;
  QueuePairs queue_pairs_;
  Outbound outbound_;
  Inbound inbound_;
  FaultInjector faults_;
  absl::flat_hash_map<Mlid, std::vector<Lid>> groups_;
  std::unique_ptr<PacketCapture> capture_;
  uint64_t records_taken_ = 0;  // out of rings, or after a simulated delay
  bool doorbell_rung_ = false;  // by this port, and not cleared since
  // The thread that armed all queues that are armed; null: several threads.
  const void* armer_ = nullptr;
  bool armer_polls_ = false;      // it has taken records by polling since it last armed a queue
  bool arms_later_ = false;       // left to the background thread, since it last woke receivers
  bool background_arms_ = false;  // it does so within kArmTick
  bool background_busy_ = false;  // it watches parked messages
  absl::Time background_wakes_ = absl::InfinitePast();
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_DATAGRAM_PATH_H_
