#include "vswitch/fabric/rebuilt_capture.h"

#include <arpa/inet.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/wire/ib/ib_headers.h"

namespace eoib {

absl::StatusOr<RebuiltCapture::Port> RebuiltCapture::ReadPort(const Hca& hca) {
  const absl::StatusOr<HcaPortInfo> info = hca.QueryPort();
  if (!info.ok()) return info.status();
  const absl::StatusOr<std::vector<PKey>> pkeys = hca.QueryPKeys();
  if (!pkeys.ok()) return pkeys.status();
  return Port{info->lid, info->gid, *pkeys};
}

absl::Status RebuiltCapture::Start(const Hca& hca, const CaptureOptions& options) {
  absl::StatusOr<Port> port = ReadPort(hca);
  if (!port.ok()) return port.status();
  absl::StatusOr<std::unique_ptr<PacketCapture>> capture = PacketCapture::Open(
      options, PacketCapture::Origin::kRebuilt, absl::StrCat(hca.name(), ": ", kNote));
  if (!capture.ok()) return capture.status();
  absl::MutexLock lock(&mutex_);
  port_ = *std::move(port);
  capture_.swap(*capture);  // the old capture is closed after the mutex is released
  on_.store(true, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::StatusOr<CaptureReport> RebuiltCapture::Stop(const Hca& hca) {
  std::unique_ptr<PacketCapture> capture;
  {
    absl::MutexLock lock(&mutex_);
    on_.store(false, std::memory_order_relaxed);
    capture.swap(capture_);
  }
  return PacketCapture::Stop(std::move(capture), hca.name());
}

absl::optional<CaptureReport> RebuiltCapture::report() const {
  absl::MutexLock lock(&mutex_);
  if (capture_ == nullptr) return absl::nullopt;
  return capture_->report();
}

void RebuiltCapture::OnPortChange(const Hca& hca) {
  if (!on()) return;
  absl::StatusOr<Port> port = ReadPort(hca);
  if (!port.ok()) return;  // keep the last known values
  absl::MutexLock lock(&mutex_);
  port_ = *std::move(port);
}

void RebuiltCapture::Created(Qpn qpn) {
  absl::MutexLock lock(&mutex_);
  queue_pairs_.insert(qpn);
}

void RebuiltCapture::Destroyed(Qpn qpn) {
  absl::MutexLock lock(&mutex_);
  queue_pairs_.erase(qpn);
}

void RebuiltCapture::Attached(const Mgid& mgid, Mlid mlid) {
  absl::MutexLock lock(&mutex_);
  Group& group = groups_[mgid];
  group.mlid = mlid;
  ++group.attached;
}

void RebuiltCapture::Detached(const Mgid& mgid) {
  absl::MutexLock lock(&mutex_);
  const auto it = groups_.find(mgid);
  if (it != groups_.end() && --it->second.attached == 0) groups_.erase(it);
}

PKey RebuiltCapture::PKeyAt(uint16_t index) const {
  return index < port_.pkeys.size() ? port_.pkeys[index] : PKey();
}

void RebuiltCapture::Sent(const QueuePair& qp, const PathKey& path,
                          const PathAttributes& attributes, Qpn destination,
                          absl::Span<const uint8_t> payload) {
  UdPacket packet;
  packet.dlid = path.dlid;
  packet.sl = path.sl;
  packet.dgid = path.dgid;
  packet.traffic_class = attributes.traffic_class;
  packet.flow_label = attributes.flow_label;
  packet.hop_limit = attributes.hop_limit;
  packet.destination_qpn = destination;
  packet.source_qpn = qp.qpn;
  packet.qkey = qp.qkey;
  packet.payload_length = payload.size();
  absl::MutexLock lock(&mutex_);
  if (capture_ == nullptr) return;  // stopped after the worker read the flag
  packet.slid = port_.lid;
  packet.sgid = port_.gid;
  packet.pkey = PKeyAt(qp.pkey_index);
  capture_->Record({.headers = MakeUdHeaders(packet), .global = attributes.grh}, payload.size(),
                   [payload](uint8_t* to) { std::memcpy(to, payload.data(), payload.size()); });
}

void RebuiltCapture::Received(const QueuePair& qp, const ibv_wc& completion,
                              const uint8_t* buffer) {
  const bool global = (completion.wc_flags & IBV_WC_GRH) != 0;
  const bool immediate = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
  const Grh grh = global ? ReadWire<Grh>(buffer) : Grh();
  const size_t length = completion.byte_len - kGrhSize;
  UdPacket packet;
  packet.slid = Lid(completion.slid);
  packet.sl = Sl(completion.sl);
  packet.destination_qpn = Gid(grh.dgid).IsMulticast() ? Qpn(Qpn::kMulticast) : qp.qpn;
  packet.source_qpn = Qpn(completion.src_qp);
  packet.qkey = qp.qkey;  // the HCA checked it
  packet.payload_length = length + (immediate ? sizeof(be32) : 0);
  absl::MutexLock lock(&mutex_);
  // Our own multicast that loops back was captured when it was sent.
  if (capture_ == nullptr || IsOwnMulticast(completion, grh)) return;
  packet.dlid = DlidOf(completion, Gid(grh.dgid));
  packet.pkey = PKeyAt(qp.pkey_index).Full();
  PacketCapture::Packet captured = {.headers = MakeUdHeaders(packet), .global = global};
  if (global) captured.headers.grh = grh;
  if (immediate) captured.immediate = be32(ntohl(completion.imm_data));
  capture_->Record(captured, length,
                   [buffer, length](uint8_t* to) { std::memcpy(to, buffer + kGrhSize, length); });
}

// The queue that receives floods also gets those that the other queues of the port have sent.
bool RebuiltCapture::IsOwnMulticast(const ibv_wc& completion, const Grh& grh) const {
  return Gid(grh.dgid).IsMulticast() && Gid(grh.sgid) == port_.gid &&
         queue_pairs_.contains(Qpn(completion.src_qp));
}

// A completion shows only the path bits of the DLID; the port's LID gives the rest. 0 for a group
// that the queue pair has just left.
uint16_t RebuiltCapture::DlidOf(const ibv_wc& completion, const Gid& dgid) const {
  if (!dgid.IsMulticast())
    return static_cast<uint16_t>(port_.lid.value() | completion.dlid_path_bits);
  const auto group = groups_.find(Mgid(dgid));
  return group == groups_.end() ? 0 : group->second.mlid.value();
}

}  // namespace eoib
