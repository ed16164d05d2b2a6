#include "vswitch/fabric/softhca/queue_pairs.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "vswitch/base/check.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/fabric/softhca/checksum_offload.h"
#include "vswitch/fabric/softhca/qp_transitions.h"
#include "vswitch/wire/ib/ib_headers.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib::softhca {
namespace {

constexpr size_t kGrhArea = sizeof(Grh);

bool Contains(const std::vector<PKey>& pkeys, PKey pkey) {
  return std::find(pkeys.begin(), pkeys.end(), pkey) != pkeys.end();
}

// Compares in the 8-byte words in which LoadHeader has just stored the header. A wider load would
// wait until these and all stores before them, the last payload's, have left the processor.
bool HasDgid(const RecordHeader& header, const Gid& gid) {
  uint64_t ours[2], theirs[2];
  std::memcpy(ours, gid.bytes().data(), sizeof(ours));
  std::memcpy(theirs, header.dgid.data(), sizeof(theirs));
  return ours[0] == theirs[0] && ours[1] == theirs[1];
}

// The GRH that the receiver's HCA puts before the message (IBA 1.4 §8.3). The SGID is the one that
// the subnet reported.
Grh MakeReceivedGrh(const SourceIdentity& source, const RecordHeader& header) {
  const size_t immediate = (header.flags & RecordHeader::kImmediate) != 0 ? 4 : 0;
  const size_t behind = sizeof(Bth) + sizeof(Deth) + immediate + header.length +
                        UdPadCount(header.length) + kIcrcSize;
  Grh grh;
  grh.version_class_flow = uint32_t{kGrhIpVersion} << 28 | uint32_t{header.traffic_class} << 20 |
                           (header.flow_label & 0xfffff);
  grh.payload_length = static_cast<uint16_t>(behind);
  grh.next_header = kGrhNextHeaderBth;
  grh.hop_limit = header.hop_limit;
  grh.sgid = source.gid.bytes();
  grh.dgid = header.dgid;
  return grh;
}

}  // namespace

void QueuePairs::set_config(const PortConfig& config) {
  config_ = config;
  mtu_ = static_cast<uint32_t>(MtuBytes(config.mtu));
}

// ---- Queue pairs.

int QueuePairs::Add(SoftQp* qp) {
  if (by_qpn_.size() >= std::min<size_t>(config_.qpns.count, kMaxQp)) return ENOMEM;
  do {
    qp->qp_num = config_.qpns.first.value() + next_qpn_++ % config_.qpns.count;
  } while (!by_qpn_.emplace(qp->qp_num, qp).second);
  qp->handle = qp->qp_num;
  SoftCq* cq = qp->soft_recv_cq();
  if (cq->receivers++ == 0 && cq->armed != SoftCq::Armed::kNo) ++receivers_armed_;
  return 0;
}

int QueuePairs::Modify(SoftQp* qp, const ibv_qp_attr& attributes, int mask) {
  if ((mask & IBV_QP_CUR_STATE) != 0 && attributes.cur_qp_state != qp->state) return EINVAL;
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attributes.qp_state : qp->state;
  if (!IsAllowedTransition(qp->state, to, mask)) return EINVAL;
  if ((mask & IBV_QP_PORT) != 0 && attributes.port_num != 1) return EINVAL;
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && attributes.pkey_index >= config_.pkeys.size())
    return EINVAL;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) qp->pkey_index = attributes.pkey_index;
  if ((mask & IBV_QP_QKEY) != 0) qp->qkey = attributes.qkey;
  if ((mask & IBV_QP_SQ_PSN) != 0) qp->psn = attributes.sq_psn & 0xffffff;
  if ((mask & IBV_QP_PORT) != 0) qp->port_num = attributes.port_num;
  if (to == IBV_QPS_RESET) Reset(qp);
  qp->state = to;
  if (to == IBV_QPS_ERR) Flush(qp);
  return 0;
}

int QueuePairs::Remove(SoftQp* qp) {
  if (!qp->groups.empty()) return EBUSY;
  Reset(qp);
  by_qpn_.erase(qp->qp_num);
  SoftCq* cq = qp->soft_recv_cq();
  if (--cq->receivers == 0 && cq->armed != SoftCq::Armed::kNo) --receivers_armed_;
  return 0;
}

void QueuePairs::Reset(SoftQp* qp) {
  qp->receive_head = qp->receive_tail;
  qp->sends_freed = qp->sends_posted;
  qp->soft_send_cq()->held -= qp->held.size();
  qp->held.clear();
  qp->unparked = qp->parked;
  RemoveEntries(qp->soft_send_cq(), qp);
  RemoveEntries(qp->soft_recv_cq(), qp);
}

void QueuePairs::RemoveEntries(SoftCq* cq, const SoftQp* qp) {
  uint64_t kept = cq->head;
  for (uint64_t i = cq->head; i != cq->tail; ++i) {
    if (cq->at(i).qp != qp) cq->at(kept++) = cq->at(i);
  }
  cq->tail = kept;
}

// A queue pair in ERR completes its receives as flushed (IBA 1.4 §10.3.1.6). Its messages that wait
// are on their way.
void QueuePairs::Flush(SoftQp* qp) {
  qp->unparked = qp->parked;
  ReleaseHeld(qp);
  while (qp->has_receive()) {
    CompleteReceive(qp, Lid(), RecordHeader(), IBV_WC_WR_FLUSH_ERR);
  }
}

int QueuePairs::Attach(SoftQp* qp, const Gid& mgid) {
  if (std::find(qp->groups.begin(), qp->groups.end(), mgid) != qp->groups.end()) return 0;
  qp->groups.push_back(mgid);
  groups_[mgid].push_back(qp);
  return 0;
}

int QueuePairs::Detach(SoftQp* qp, const Gid& mgid) {
  const auto found = std::find(qp->groups.begin(), qp->groups.end(), mgid);
  if (found == qp->groups.end()) return EINVAL;
  qp->groups.erase(found);
  std::vector<SoftQp*>& attached = groups_[mgid];
  std::erase(attached, qp);
  if (attached.empty()) groups_.erase(mgid);
  return 0;
}

int QueuePairs::PostReceive(SoftQp* qp, const ibv_recv_wr& request) {
  if (qp->state == IBV_QPS_RESET) return EINVAL;
  if (request.num_sge < 0 || static_cast<uint32_t>(request.num_sge) > qp->capabilities.max_recv_sge)
    return EINVAL;
  if (qp->posted_receives() >= qp->capabilities.max_recv_wr) return ENOMEM;
  uint64_t length = 0;
  ibv_sge* sges = qp->sges(qp->receive_tail);
  for (int i = 0; i < request.num_sge; ++i) {
    sges[i] = request.sg_list[i];
    length += sges[i].length;
  }
  qp->receives[qp->slot(qp->receive_tail++)] = {request.wr_id, length, request.num_sge};
  // A receive that is posted in ERR is flushed at once.
  if (qp->state == IBV_QPS_ERR) Flush(qp);
  return 0;
}

// If the P_Key was withdrawn, its entry holds an invalid P_Key, which matches nothing.
PKey QueuePairs::PKeyOf(const SoftQp& qp) const {
  return qp.pkey_index < config_.pkeys.size() ? config_.pkeys[qp.pkey_index] : PKey();
}

// ---- Sending.

int QueuePairs::CheckSend(const SoftQp& qp, const ibv_send_wr& request) const {
  if (qp.state == IBV_QPS_RESET || qp.state == IBV_QPS_INIT || qp.state == IBV_QPS_RTR)
    return EINVAL;
  if (request.opcode != IBV_WR_SEND && request.opcode != IBV_WR_SEND_WITH_IMM) return EINVAL;
  if (request.num_sge < 0 || static_cast<uint32_t>(request.num_sge) > qp.capabilities.max_send_sge)
    return EINVAL;
  if (request.wr.ud.ah == nullptr || request.wr.ud.ah->pd != qp.pd) return EINVAL;
  if (qp.sends_posted - qp.sends_freed >= qp.capabilities.max_send_wr) return ENOMEM;
  if (qp.soft_send_cq()->full()) return ENOMEM;
  if ((request.send_flags & IBV_SEND_INLINE) == 0) return 0;
  uint64_t length = 0;
  for (int i = 0; i < request.num_sge; ++i) length += request.sg_list[i].length;
  return length > qp.capabilities.max_inline_data ? EINVAL : 0;
}

ibv_wc_status QueuePairs::CheckMessage(const SoftQp& qp, const ibv_send_wr& request,
                                       uint32_t* length) const {
  if (qp.state == IBV_QPS_ERR || qp.state == IBV_QPS_SQE) return IBV_WC_WR_FLUSH_ERR;
  const bool is_inline = (request.send_flags & IBV_SEND_INLINE) != 0;
  uint64_t sum = 0;
  for (int i = 0; i < request.num_sge; ++i) {
    const ibv_sge& sge = request.sg_list[i];
    sum += sge.length;
    if (!is_inline && sge.length != 0 && regions_.Find(qp.pd, sge) == nullptr)
      return IBV_WC_LOC_PROT_ERR;
  }
  if (sum > mtu_) return IBV_WC_LOC_LEN_ERR;
  *length = static_cast<uint32_t>(sum);
  return IBV_WC_SUCCESS;
}

bool QueuePairs::MakeHeader(SoftQp* qp, const ibv_send_wr& request, uint32_t length,
                            RecordHeader* header) const {
  const PKey pkey = PKeyOf(*qp);
  if (!pkey.IsValid()) return false;
  const ibv_ah_attr& to = static_cast<const SoftAh*>(request.wr.ud.ah)->attributes;
  header->length = length;
  header->sl = to.sl;
  header->dlid = to.dlid;
  header->destination_qpn = request.wr.ud.remote_qpn & Qpn::kMax;
  header->source_qpn = qp->qp_num;
  header->pkey = pkey.value();
  // IBA 1.4 §10.2.5: the high-order bit asks for the queue pair's own Q_Key.
  header->qkey =
      QKey(request.wr.ud.remote_qkey).IsControlled() ? qp->qkey : request.wr.ud.remote_qkey;
  header->psn = qp->psn++ & 0xffffff;
  if ((request.send_flags & IBV_SEND_SOLICITED) != 0) header->flags |= RecordHeader::kSolicited;
  if (request.opcode == IBV_WR_SEND_WITH_IMM) {
    header->flags |= RecordHeader::kImmediate;
    header->immediate = request.imm_data;
  }
  if (to.is_global != 0) {
    header->flags |= RecordHeader::kGlobal;
    header->hop_limit = to.grh.hop_limit;
    header->traffic_class = to.grh.traffic_class;
    header->flow_label = to.grh.flow_label & 0xfffff;
    std::memcpy(header->dgid.data(), to.grh.dgid.raw, header->dgid.size());
  }
  return true;
}

void QueuePairs::AddSendCompletion(SoftQp* qp, const ibv_send_wr& request, ibv_wc_status status) {
  // IBA 1.4 §10.3.1.5: a send that fails stops the send queue of a UD queue pair until it is
  // brought back to RTS.
  if (status != IBV_WC_SUCCESS && qp->state == IBV_QPS_RTS) qp->state = IBV_QPS_SQE;
  SoftCq::Entry entry{};
  entry.wc.wr_id = request.wr_id;
  entry.wc.status = status;
  entry.wc.opcode = IBV_WC_SEND;
  entry.wc.qp_num = qp->qp_num;
  entry.qp = qp;
  entry.send_number = qp->sends_posted;
  entry.is_send = true;
  SoftCq* cq = qp->soft_send_cq();
  if (qp->parked == qp->unparked) return AddCompletion(cq, entry);
  qp->held.push_back({entry, qp->parked});
  ++cq->held;
}

void QueuePairs::ReleaseHeld(SoftQp* qp) {
  SoftCq* cq = qp->soft_send_cq();
  for (; !qp->held.empty() && qp->held.front().parked <= qp->unparked; qp->held.pop_front()) {
    --cq->held;
    AddCompletion(cq, qp->held.front().entry);
  }
}

void QueuePairs::OnParked(uint32_t qpn) {
  const auto found = by_qpn_.find(qpn);
  if (found != by_qpn_.end()) ++found->second->parked;
}

void QueuePairs::OnUnparked(uint32_t qpn) {
  const auto found = by_qpn_.find(qpn);
  if (found == by_qpn_.end() || found->second->unparked == found->second->parked) return;
  ++found->second->unparked;
  ReleaseHeld(found->second);
}

// ---- Receiving.

// Checks a datagram against what the subnet reported about its source. The record's bytes are not
// trusted (DLID and DGID are checked against this port).
bool QueuePairs::CheckSource(const SourceIdentity& source, const RecordHeader& header) {
  if (!config_.active) {
    ++counters_->rcv_link_down;
  } else if (!source.qpns.Contains(Qpn(header.source_qpn))) {
    ++counters_->rcv_bad_address;
  } else if (!Contains(source.pkeys, PKey(header.pkey))) {
    ++counters_->rcv_pkey_violations;
  } else if (header.length > mtu_) {
    ++counters_->rcv_too_long;
  } else {
    return true;
  }
  return false;
}

void QueuePairs::Deliver(const SourceIdentity& source, const RecordHeader& header,
                         const uint8_t* payload) {
  ++counters_->rcv_packets;
  counters_->rcv_bytes += header.length;
  counters_->rcv_data += WireWords(header);
  counters_->rcv_multicast_packets += header.dlid >= Mlid::kMin ? 1 : 0;
  if (!CheckSource(source, header)) return;
  if (header.dlid >= Mlid::kMin) return DeliverMulticast(source, header, payload);
  // IBA 1.4 §9.6.1.1: a unicast packet's DLID and, if it has a GRH, DGID are the port's.
  const bool is_global = (header.flags & RecordHeader::kGlobal) != 0;
  if (header.dlid != config_.lid.value() || (is_global && !HasDgid(header, config_.gid))) {
    ++counters_->rcv_bad_address;
    return;
  }
  const auto found = by_qpn_.find(header.destination_qpn);
  if (found == by_qpn_.end()) {
    ++counters_->rcv_no_qp;
    return;
  }
  DeliverTo(found->second, source, header, payload);
}

// IBA 1.4 §9.6.1.1, §10.5.2: a multicast packet has a GRH, goes to QPN 0xffffff and reaches every
// queue pair attached to its MGID.
void QueuePairs::DeliverMulticast(const SourceIdentity& source, const RecordHeader& header,
                                  const uint8_t* payload) {
  if ((header.flags & RecordHeader::kGlobal) == 0 || header.destination_qpn != Qpn::kMulticast) {
    ++counters_->rcv_bad_address;
    return;
  }
  const auto found = groups_.find(Gid(header.dgid));
  if (found == groups_.end()) {
    ++counters_->rcv_no_qp;
    return;
  }
  counters_->rcv_replicated += found->second.size() - 1;
  for (SoftQp* qp : found->second) DeliverTo(qp, source, header, payload);
}

bool QueuePairs::CheckReceiver(const SoftQp& qp, const RecordHeader& header) {
  if (!qp.CanReceive()) {
    ++counters_->rcv_no_qp;
  } else if (!PKeyOf(qp).Matches(PKey(header.pkey))) {
    ++counters_->rcv_pkey_violations;
  } else if (qp.qkey != header.qkey) {
    ++counters_->rcv_qkey_violations;
  } else if (!qp.has_receive() || qp.soft_recv_cq()->full()) {
    ++counters_->rcv_no_receive;
  } else if (qp.receives[qp.slot(qp.receive_head)].length < kGrhArea + header.length) {
    ++counters_->rcv_too_long;
  } else {
    return true;
  }
  return false;
}

void QueuePairs::DeliverTo(SoftQp* qp, const SourceIdentity& source, const RecordHeader& header,
                           const uint8_t* payload) {
  if (!CheckReceiver(*qp, header)) return;
  const ibv_sge* sges = qp->sges(qp->receive_head);
  const int count = qp->receives[qp->slot(qp->receive_head)].count;
  for (int i = 0; i < count; ++i) {
    if (sges[i].length == 0) continue;
    const SoftMr* region = regions_.Find(qp->pd, sges[i]);
    if (region != nullptr && region->local_write) continue;
    ++counters_->rcv_bad_memory;
    CompleteReceive(qp, source.lid, header, IBV_WC_LOC_PROT_ERR);
    // IBA 1.4 §10.3.1.7: a receive that fails takes a UD queue pair to ERR.
    qp->state = IBV_QPS_ERR;
    Flush(qp);
    return;
  }
  Scatter scatter(sges);
  if ((header.flags & RecordHeader::kGlobal) != 0) {
    const Grh grh = MakeReceivedGrh(source, header);
    scatter.Write(reinterpret_cast<const uint8_t*>(&grh), sizeof(grh));
  } else {
    scatter.Skip(kGrhArea);
  }
  const absl::Span<const uint8_t> datagram(payload, header.length);
  uint8_t* const place = HasIpv4(datagram) ? scatter.Contiguous(datagram.size()) : nullptr;
  const bool verified = place != nullptr && CopyAndVerify(datagram, place);
  if (place == nullptr) scatter.Write(payload, header.length);
  ++counters_->rcv_delivered;
  CompleteReceive(qp, source.lid, header, IBV_WC_SUCCESS, verified ? IBV_WC_IP_CSUM_OK : 0);
}

// Fills the entry in its place: a copy would wait until the payload's stores have left the
// processor.
void QueuePairs::CompleteReceive(SoftQp* qp, Lid source, const RecordHeader& header,
                                 ibv_wc_status status, unsigned flags) {
  const SoftQp::Receive& receive = qp->receives[qp->slot(qp->receive_head++)];
  SoftCq* const cq = qp->soft_recv_cq();
  if (cq->full()) return;  // only flushed receives get here without a check for room
  SoftCq::Entry& entry = cq->at(cq->tail++);
  entry = {};
  ibv_wc& wc = entry.wc;
  wc.wr_id = receive.wr_id;
  wc.status = status;
  wc.opcode = IBV_WC_RECV;
  wc.byte_len = static_cast<uint32_t>(kGrhArea) + header.length;
  wc.qp_num = qp->qp_num;
  wc.src_qp = header.source_qpn;
  wc.pkey_index = qp->pkey_index;
  wc.slid = source.value();
  wc.sl = header.sl & Sl::kMax;
  wc.wc_flags = flags;
  if ((header.flags & RecordHeader::kGlobal) != 0) wc.wc_flags |= IBV_WC_GRH;
  if ((header.flags & RecordHeader::kImmediate) != 0) {
    wc.wc_flags |= IBV_WC_WITH_IMM;
    wc.imm_data = header.immediate;
  }
  entry.qp = qp;
  RaiseEvent(
      cq, /*solicited=*/status != IBV_WC_SUCCESS || (header.flags & RecordHeader::kSolicited) != 0);
}

// ---- Completions.

void QueuePairs::AddCompletion(SoftCq* cq, const SoftCq::Entry& entry) {
  EOIB_DCHECK(!cq->full());  // CheckSend made sure of room
  cq->at(cq->tail++) = entry;
  RaiseEvent(cq, /*solicited=*/entry.wc.status != IBV_WC_SUCCESS);
}

// The queue has a new completion.
void QueuePairs::RaiseEvent(SoftCq* cq, bool solicited) {
  if (cq->armed == SoftCq::Armed::kNo || (cq->armed == SoftCq::Armed::kSolicited && !solicited))
    return;
  Disarm(cq);
  SoftChannel* channel = cq->soft_channel();
  if (channel == nullptr) return;
  if (channel->pending.empty()) RingEventFd(channel->event.get());
  channel->pending.push_back(cq);
}

int QueuePairs::Poll(SoftCq* cq, int count, ibv_wc* completions) {
  int polled = 0;
  for (; polled < count && cq->head != cq->tail; ++polled) {
    const SoftCq::Entry& entry = cq->at(cq->head++);
    completions[polled] = entry.wc;
    if (entry.is_send) entry.qp->sends_freed = entry.send_number;
  }
  return polled;
}

void QueuePairs::Arm(SoftCq* cq, bool solicited_only) {
  if (cq->armed == SoftCq::Armed::kNo && cq->receivers != 0) ++receivers_armed_;
  // IBA 1.4 §11.4.2.2: a later "solicited only" does not revoke "any".
  if (cq->armed != SoftCq::Armed::kAny)
    cq->armed = solicited_only ? SoftCq::Armed::kSolicited : SoftCq::Armed::kAny;
}

void QueuePairs::Disarm(SoftCq* cq) {
  if (cq->armed != SoftCq::Armed::kNo && cq->receivers != 0) --receivers_armed_;
  cq->armed = SoftCq::Armed::kNo;
}

}  // namespace eoib::softhca
