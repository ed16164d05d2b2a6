#include "vswitch/fabric/softhca/datagram_path.h"

#include <algorithm>
#include <utility>

#include "vswitch/wire/ib/ib_headers.h"

namespace eoib::softhca {
namespace {

constexpr uint32_t kMaxDatagram = 4096;  // IBA's largest MTU

// The records that one call takes before it releases the mutex to the port's other users.
constexpr int kLeastRecordsAPoll = 32;
constexpr uint64_t kMostRecordsAnEvent = 64;

// A message as captures record it.
UdPacket PacketOf(const RecordHeader& header, Lid slid, const Gid& sgid) {
  UdPacket packet;
  packet.slid = slid;
  packet.dlid = header.dlid;
  packet.sl = Sl(header.sl);
  packet.sgid = sgid;
  packet.dgid = Gid(header.dgid);
  packet.traffic_class = header.traffic_class;
  packet.flow_label = header.flow_label;
  packet.hop_limit = header.hop_limit;
  packet.pkey = PKey(header.pkey);
  packet.destination_qpn = Qpn(header.destination_qpn);
  packet.source_qpn = Qpn(header.source_qpn);
  packet.psn = header.psn;
  packet.qkey = QKey(header.qkey);
  packet.solicited = (header.flags & RecordHeader::kSolicited) != 0;
  packet.payload_length =
      header.length +
      ((header.flags & RecordHeader::kImmediate) != 0 ? sizeof(header.immediate) : 0);
  return packet;
}

const void* ThisThread() {
  thread_local const char here = 0;
  return &here;
}

}  // namespace

void DatagramPath::SetPage(std::shared_ptr<CountersPage> page) {
  page_ = std::move(page);
  outbound_.set_page(page_.get());
}

SourceIdentity DatagramPath::Identity() const {
  const PortConfig& config = queue_pairs_.config();
  return {config.lid, config.gid, config.pkeys, config.qpns};
}

void DatagramPath::SetGroup(Mlid mlid, const std::vector<Lid>& members) {
  if (members.empty()) {
    groups_.erase(mlid);
  } else {
    groups_[mlid] = members;
  }
}

void DatagramPath::SetFaults(const std::vector<FaultRule>& rules) {
  faults_.SetRules(rules);
  fds_->WakeBackground();
}

void DatagramPath::End() {
  outbound_.End();
  for (const auto& ring : inbound_.TakeAll()) LeaveRing(ring.get());
  counters_.ended = 1;
  if (page_ != nullptr) StoreCounters();
}

// ---- Sending.

int DatagramPath::PostSend(SoftQp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  int error = 0;
  for (; request != nullptr; request = request->next) {
    error = SendOne(qp, *request);
    if (error != 0) break;
  }
  outbound_.PublishAll();
  StoreCounters();
  if (error != 0) *bad = request;
  return error;
}

int DatagramPath::SendOne(SoftQp* qp, const ibv_send_wr& request) {
  if (const int error = queue_pairs_.CheckSend(*qp, request); error != 0) return error;
  RecordHeader header;
  uint32_t length = 0;
  const ibv_wc_status status = queue_pairs_.CheckMessage(*qp, request, &length);
  if (status == IBV_WC_SUCCESS) {
    if (queue_pairs_.MakeHeader(qp, request, length, &header)) {
      Transmit(header, Gather{request.sg_list, request.num_sge,
                              (request.send_flags & IBV_SEND_IP_CSUM) != 0});
    } else {
      ++counters_.xmit_copies;
      // The P_Key was withdrawn: the datagram is dropped, and its send completes.
      ++counters_.xmit_pkey_errors;
    }
  }
  queue_pairs_.CompleteSend(qp, request, status);
  return 0;
}

void DatagramPath::Transmit(const RecordHeader& header, const Gather& gather) {
  const PortConfig& config = queue_pairs_.config();
  if (!config.active) {
    ++counters_.xmit_copies;
    // The link is down: the datagram is dropped, and its send completes.
    ++counters_.xmit_discards;
    return;
  }
  ++counters_.xmit_packets;
  counters_.xmit_bytes += header.length;
  counters_.xmit_data += WireWords(header);
  if (capture_ != nullptr) Capture(header, config.lid, config.gid, gather);
  if (header.dlid < Mlid::kMin) {
    ++counters_.xmit_copies;
    outbound_.Send(Lid(header.dlid), header, gather);
    return;
  }
  ++counters_.xmit_multicast_packets;
  const auto group = groups_.find(Mlid(header.dlid));
  if (group == groups_.end()) {
    ++counters_.xmit_copies;
    ++counters_.xmit_no_group;
    return;
  }
  counters_.xmit_copies += group->second.size();
  // Each member has its own ring and queue, so a stopped member delays none of the others.
  for (const Lid member : group->second) outbound_.Send(member, header, gather);
}

// ---- Receiving.

void DatagramPath::AddInbound(std::unique_ptr<InboundRing> ring) {
  const uint64_t id = ring->id;
  const bool loopback = ring->loopback;
  if (!inbound_.Add(std::move(ring)) && !loopback) outbound_.RequestClose(id);
  // Sleeping receivers have armed the former rings only.
  WakeReceiversIfDue();
  fds_->WakeBackground();
}

void DatagramPath::CountTaken(const InboundRing& ring, uint64_t records) {
  counters_.rcv_taken += records;
  if (ring.loopback) {
    counters_.loopback_queued -= records;
  } else if (SubnetOfRing(ring.id) == counters_.ring_subnet) {
    counters_.ring_taken += records;
  }
}

void DatagramPath::LeaveRing(InboundRing* ring) {
  const uint64_t records = ring->Leave();
  CountTaken(*ring, records);
  counters_.rcv_ring_closed += records;
}

void DatagramPath::Receive(InboundRing* ring, const RecordHeader& header, const uint8_t* payload) {
  ++records_taken_;
  CountTaken(*ring, 1);
  if (ring->loopback) return queue_pairs_.Deliver(ring->source, header, payload);
  // A ring's record may be longer than any datagram, and QueuePairs then drops it.
  if (capture_ != nullptr && header.length <= kMaxDatagram) {
    const ibv_sge piece = {reinterpret_cast<uintptr_t>(payload), header.length, 0};
    Capture(header, ring->source.lid, ring->source.gid, Gather{&piece, 1});
  }
  if (!faults_.active()) return queue_pairs_.Deliver(ring->source, header, payload);
  faults_.Take(ring->source, header, payload,
               [this](const SourceIdentity& source, const RecordHeader& taken,
                      const uint8_t* bytes) { queue_pairs_.Deliver(source, taken, bytes); });
}

void DatagramPath::Capture(const RecordHeader& header, Lid slid, const Gid& sgid,
                           const Gather& gather) {
  PacketCapture::Packet packet;
  packet.global = (header.flags & RecordHeader::kGlobal) != 0;
  if ((header.flags & RecordHeader::kImmediate) != 0)
    packet.immediate = ReadWire<be32>(&header.immediate);
  packet.headers = MakeUdHeaders(PacketOf(header, slid, sgid));
  if (!capture_->Record(packet, header.length, [&gather](uint8_t* to) { gather.CopyTo(to); }))
    ++counters_.capture_drops;
}

template <typename Done>
bool DatagramPath::Drain(uint64_t limit, Done done) {
  const uint64_t before = records_taken_;
  const auto enough = [&] { return records_taken_ - before >= limit || done(); };
  faults_.DeliverDue(enough, [this](const SourceIdentity& source, const RecordHeader& header,
                                    const uint8_t* payload) {
    ++records_taken_;
    queue_pairs_.Deliver(source, header, payload);
  });
  if (records_taken_ != before) StoreCounters();
  const bool empty =
      inbound_.Drain([this](InboundRing* ring, const RecordHeader& header,
                            const uint8_t* payload) { Receive(ring, header, payload); },
                     enough, [this] { StoreCounters(); });
  if (inbound_.has_finished()) fds_->WakeBackground();
  return empty;
}

int DatagramPath::Poll(SoftCq* cq, int count, ibv_wc* completions) {
  // A busy sender does not wait for the background thread.
  if (cq->held != 0) {
    outbound_.FlushAll();
    StoreCounters();
  }
  if (cq->receivers != 0 && cq->size() < static_cast<size_t>(std::max(count, 0))) {
    // Also limits what is taken for other queues: polling an idle queue must not run a busy queue
    // of this port out of receives.
    const uint64_t before = records_taken_;
    const bool empty =
        Drain(static_cast<uint64_t>(std::max(count, kLeastRecordsAPoll)),
              [cq, count] { return cq->size() >= static_cast<size_t>(count) || cq->full(); });
    const bool is_armer = armer_ == ThisThread(), took = records_taken_ != before;
    if (is_armer && took) armer_polls_ = true;
    // An empty poll leaves the rings armed as they were.
    if (queue_pairs_.receiver_armed() && (took || !empty || !is_armer))
      WakeReceiversLater(/*has_records=*/!empty);
  }
  return queue_pairs_.Poll(cq, count, completions);
}

// Without an armed queue there will be no event. The records then stay in their rings, or a busy
// receiver that asks for events between its polls would run out of receives.
void DatagramPath::DrainUntilEvent(SoftChannel* channel) {
  if (!queue_pairs_.receiver_armed()) return;
  const bool empty = Drain(kMostRecordsAnEvent, [channel] { return !channel->pending.empty(); });
  if (!queue_pairs_.receiver_armed()) return;
  if (armer_ == ThisThread() && armer_polls_) return WakeReceiversLater(/*has_records=*/!empty);
  WakeReceivers(/*has_records=*/!empty);
  WatchDueTime();
}

// ---- Wake-ups.

void DatagramPath::Arm(SoftCq* cq, bool solicited_only) {
  armer_ = !queue_pairs_.receiver_armed() || armer_ == ThisThread() ? ThisThread() : nullptr;
  armer_polls_ = false;
  queue_pairs_.Arm(cq, solicited_only);
  if (!queue_pairs_.receiver_armed()) return;
  // A caller polls once more after arming, so present records need no event.
  inbound_.Arm();
  WatchDueTime();
}

void DatagramPath::WakeReceivers(bool has_records) {
  const absl::Time due = faults_.next_due();
  const bool is_due = due != absl::InfiniteFuture() && due <= clock_->Now();
  // Arm() first, since it must arm all rings in any case.
  if (inbound_.Arm() || has_records || is_due) RingDoorbell();
}

void DatagramPath::WakeReceiversLater(bool has_records) {
  if (has_records || armer_ != ThisThread() || faults_.next_due() != absl::InfiniteFuture()) {
    WakeReceivers(has_records);
    return WatchDueTime();
  }
  arms_later_ = true;
  if (!std::exchange(background_arms_, true)) fds_->WakeBackground();
}

bool DatagramPath::BackgroundArms() {
  WakeReceiversIfDue();
  return background_arms_ = std::exchange(arms_later_, false);
}

// A receiver that was woken will come here again.
void DatagramPath::WatchDueTime() {
  if (!doorbell_rung_ && faults_.next_due() < background_wakes_) fds_->WakeBackground();
}

void DatagramPath::RingDoorbell() {
  if (!std::exchange(doorbell_rung_, true)) RingEventFd(fds_->doorbell->get());
}

void DatagramPath::SilenceDoorbell() {
  doorbell_rung_ = false;
  ClearEventFd(fds_->doorbell->get());
}

// ---- The background thread.

void DatagramPath::BackgroundSleeps(absl::Time wakes, bool busy) {
  background_wakes_ = wakes;
  background_busy_ = busy;
}

bool DatagramPath::TakeBackgroundNeeded() {
  return outbound_.is_busy() && !std::exchange(background_busy_, true);
}

// A receiver that was woken need not be woken again.
absl::Time DatagramPath::NextDue() const {
  return queue_pairs_.receiver_armed() && !doorbell_rung_ ? faults_.next_due()
                                                          : absl::InfiniteFuture();
}

}  // namespace eoib::softhca
