#include "vswitch/fabric/softhca/packet_capture.h"

#include <cstring>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "vswitch/wire/ib_headers.h"

namespace eoib::softhca {
namespace {

constexpr uint8_t kBthUdSendOnlyWithImmediate = 0x65;  // IBA 1.4 §9.2, table 38
constexpr size_t kImmediateSize = 4;

using Bytes = absl::Span<const uint8_t>;

template <typename Wire>
Bytes AsBytes(const Wire& wire) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(&wire), sizeof(wire));
}

UdPacket PacketOf(const RecordHeader& header, Lid slid, const Gid& sgid, size_t payload_length) {
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
  packet.payload_length = payload_length;
  return packet;
}

// Makes the headers those of a packet without a GRH (LNH "IBA local"); the GRH is then left out.
void MakeLocal(UdHeaders* headers) {
  headers->lrh.sl_lnh = static_cast<uint8_t>((headers->lrh.sl_lnh & ~3) | kLnhIbaLocal);
  headers->lrh.packet_length = static_cast<uint16_t>(headers->lrh.packet_length.value() - sizeof(Grh) / 4);
}

// ICRC and VCRC of a packet without a GRH: the VL and BTH's FECN, BECN and reserved bits count as ones (§7.8.1).
UdTrailer MakeLocalTrailer(const UdHeaders& headers, absl::Span<const Bytes> payload, size_t pad) {
  Lrh lrh = headers.lrh;
  lrh.vl_lver |= 0xf0;
  Bth bth = headers.bth;
  bth.reserved8a = 0xff;
  uint32_t icrc = UpdateIcrc(UpdateIcrc(UpdateIcrc(kIcrcSeed, AsBytes(lrh)), AsBytes(bth)), AsBytes(headers.deth));
  uint16_t vcrc = UpdateVcrc(kVcrcSeed, AsBytes(headers.lrh));
  vcrc = UpdateVcrc(UpdateVcrc(vcrc, AsBytes(headers.bth)), AsBytes(headers.deth));
  for (const Bytes piece : payload) {
    icrc = UpdateIcrc(icrc, piece);
    vcrc = UpdateVcrc(vcrc, piece);
  }
  UdTrailer trailer;
  const auto icrc_bytes = FinishIcrc(UpdateIcrc(icrc, absl::MakeConstSpan(trailer.bytes.data(), pad)));
  std::memcpy(&trailer.bytes[pad], icrc_bytes.data(), kIcrcSize);
  const auto vcrc_bytes = FinishVcrc(UpdateVcrc(vcrc, absl::MakeConstSpan(trailer.bytes.data(), pad + kIcrcSize)));
  std::memcpy(&trailer.bytes[pad + kIcrcSize], vcrc_bytes.data(), kVcrcSize);
  trailer.size = pad + kIcrcSize + kVcrcSize;
  return trailer;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PacketCapture>> PacketCapture::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<ErfWriter>> writer = ErfWriter::Open(path);
  if (!writer.ok()) return writer.status();
  return std::unique_ptr<PacketCapture>(new PacketCapture(std::move(*writer), RingMemory::CreateLocal(kCapacity)));
}

bool PacketCapture::Record(const RecordHeader& header, Lid slid, const Gid& sgid, const Gather& payload) {
  static_assert(sizeof(Note) <= kMaxRecordPayload - 4096);
  RecordHeader noted = header;
  noted.length = static_cast<uint32_t>(sizeof(Note) + header.length);
  uint8_t* record = producer_.Reserve(noted.length);
  if (record == nullptr) return false;
  const Note note = {absl::GetCurrentTimeNanos(), sgid, slid};
  std::memcpy(record, &noted, sizeof(noted));
  std::memcpy(record + sizeof(noted), &note, sizeof(note));
  payload.CopyTo(record + sizeof(noted) + sizeof(note));
  producer_.Commit(noted.length);
  producer_.Publish();
  return true;
}

absl::Status PacketCapture::WritePacket(const RecordHeader& header, const uint8_t* record) {
  Note note;
  std::memcpy(&note, record, sizeof(note));
  const bool immediate = (header.flags & RecordHeader::kImmediate) != 0;
  const Bytes data(record + sizeof(note), header.length - sizeof(note));
  // ImmDt is an extended header of its own, but lies where a payload begins.
  const Bytes payload[] = {immediate ? AsBytes(header.immediate) : Bytes(), data};
  const size_t payload_length = data.size() + (immediate ? kImmediateSize : 0);
  UdHeaders headers = MakeUdHeaders(PacketOf(header, note.slid, note.sgid, payload_length));
  if (immediate) headers.bth.opcode = kBthUdSendOnlyWithImmediate;
  const absl::Time time = absl::FromUnixNanos(note.nanos);
  if ((header.flags & RecordHeader::kGlobal) != 0) {
    const UdTrailer trailer = MakeUdTrailer(headers, payload);
    return writer_->Write(time, {AsBytes(headers), payload[0], payload[1], trailer.span()});
  }
  MakeLocal(&headers);
  const UdTrailer trailer = MakeLocalTrailer(headers, payload, UdPadCount(payload_length));
  return writer_->Write(
      time, {AsBytes(headers.lrh), AsBytes(headers.bth), AsBytes(headers.deth), payload[0], payload[1], trailer.span()});
}

absl::Status PacketCapture::WriteOut() {
  absl::MutexLock lock(&mutex_);
  RecordHeader header;
  const uint8_t* record;
  absl::Status status;
  while (consumer_.Peek(&header, &record) == RingConsumer::Next::kRecord) {
    if (status.ok()) status = WritePacket(header, record);
    consumer_.Release();
    consumer_.Publish();
  }
  if (status.ok()) status = writer_->Flush();
  return status;
}

absl::Status PacketCapture::Close() {
  const absl::Status written = WriteOut();
  absl::MutexLock lock(&mutex_);
  const absl::Status closed = writer_->Close();
  return written.ok() ? closed : written;
}

}  // namespace eoib::softhca
