// ControlLink: a forwarder's end of the queues to and from control (control_queues.h).
//
// What control wanted to send, and could not be sent, counts as received and dropped, for the
// conservation law.
#ifndef EOIB_VSWITCH_FORWARDER_CONTROL_LINK_H_
#define EOIB_VSWITCH_FORWARDER_CONTROL_LINK_H_

#include <cstdint>

#include "fdb/vport.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/address.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/drop_reason.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/forwarder/control_queues.h"
#include "vswitch/forwarder/forwarder_counters.h"
#include "vswitch/forwarder/message_admission.h"
#include "vswitch/forwarder/packet_batch.h"

namespace eoib {

// For the worker that owns the forwarder.
class ControlLink {
 public:
  // The pointers outlive the link. Messages are sent with the Ethernet source `source`.
  ControlLink(BufferPool* pool, const VPortDirectory* directory, PuntQueue* punts,
              ReceivedMessages* received, InjectQueue* injected, const Clock* clock,
              ForwarderCounters* counters, MacAddr source)
      : pool_(pool),
        directory_(directory),
        punts_(punts),
        received_(received),
        injected_(injected),
        clock_(clock),
        counters_(counters),
        source_(source),
        not_behind_punts_(kNotBehindPunts, kNotBehindPunts, clock->Now()),
        admission_(clock->Now()) {}

  // Hands a message that came in `packet` from the peer `sender` to control, if MessageAdmission
  // admits it. Returns the packet's disposition.
  DropReason HandOver(const Packet& packet, VPortId sender);
  // `packet`, from the fabric, is for a MAC that is not behind us. Tells control if its sender
  // meant us.
  void ReportNotBehind(const Packet& packet);
  // The port of `vport` went down.
  void ReportPortDown(VPortId vport) {
    SendPunt({.kind = Punt::Kind::kPortDown, .vport = vport}, punts_, counters_);
  }

  bool TakeRetryHeld() { return injected_->TakeRetryHeld(); }
  // Take the next message or frame to send, and make a packet of it; one without a buffer if it was
  // dropped. False if there is none. A message whose frame is larger than `mtu` is dropped.
  bool TakeMessage(uint32_t mtu, Packet* packet);
  bool TakeFrame(Packet* packet, uint32_t* port);
  // Counts the frames that found the queue full.
  void CountRefused() {
    CountNotSent(injected_->TakeRefused(), DropReason::kInjectQueueFull, &counters_->from_ports);
  }
  // Drops the frames, but not the messages, that wait to be sent.
  void DropFrames();
  InjectQueue* injected() const { return injected_; }

 private:
  static constexpr int kNotBehindPunts = 100;  // a second

  bool MakeFrame(uint32_t length, Counter* side, Packet* packet);
  void CountNotSent(uint64_t frames, DropReason reason, Counter* side);

  BufferPool* const pool_;
  const VPortDirectory* const directory_;
  PuntQueue* const punts_;
  ReceivedMessages* const received_;
  InjectQueue* const injected_;
  const Clock* const clock_;
  ForwarderCounters* const counters_;
  const MacAddr source_;
  TokenBucket not_behind_punts_;
  MessageAdmission admission_;
  ControlMessage message_;  // the one that is being handed over
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_CONTROL_LINK_H_
