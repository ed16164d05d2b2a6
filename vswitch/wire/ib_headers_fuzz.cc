// Whole InfiniBand packets and the GRH of a receive buffer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "vswitch/wire/ib_headers.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

void Require(bool condition) {
  if (!condition) std::abort();
}

Bytes Build(const UdPacket& packet, absl::Span<const uint8_t> payload) {
  const UdHeaders headers = MakeUdHeaders(packet);
  const UdTrailer trailer = MakeUdTrailer(headers, absl::MakeConstSpan(&payload, 1));
  Bytes bytes(kUdHeadersSize);
  WriteWire(headers, bytes.data());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  bytes.insert(bytes.end(), trailer.span().begin(), trailer.span().end());
  return bytes;
}

void CheckGrh(absl::Span<const uint8_t> bytes) {
  GrhInfo info;
  if (ParseGrh(bytes, &info) != DropReason::kNone) return;
  UdPacket packet;
  packet.sgid = info.sgid;
  packet.dgid = info.dgid;
  packet.traffic_class = info.traffic_class;
  packet.flow_label = info.flow_label;
  packet.hop_limit = info.hop_limit;
  Grh grh = MakeGrh(packet);
  grh.payload_length = info.payload_length;
  grh.next_header = bytes[6];  // not looked at
  Require(std::memcmp(&grh, bytes.data(), sizeof(grh)) == 0);
}

// What is accepted is exactly what we would have made.
void CheckPacket(absl::Span<const uint8_t> bytes) {
  UdView view;
  if (ParseUdPacket(bytes, &view) != DropReason::kNone) return;
  Require(absl::MakeConstSpan(Build(view.packet, view.payload)) == bytes);
}

// Makes right what a fuzzer cannot guess, the lengths and CRCs, so that it gets behind them.
void CheckRepaired(absl::Span<const uint8_t> bytes) {
  if (bytes.size() < kUdHeadersSize) return;
  const auto payload = bytes.subspan(kUdHeadersSize, std::min<size_t>(bytes.size() - kUdHeadersSize, 4096));
  const auto given = ReadWire<UdHeaders>(bytes.data());
  UdPacket packet;
  packet.slid = Lid(given.lrh.slid.value());
  packet.dlid = given.lrh.dlid.value();
  packet.sl = Sl(given.lrh.sl_lnh >> 4);
  packet.vl = given.lrh.vl_lver >> 4;
  packet.sgid = Gid(given.grh.sgid);
  packet.dgid = Gid(given.grh.dgid);
  packet.traffic_class = static_cast<uint8_t>(given.grh.version_class_flow.value() >> 20);
  packet.flow_label = given.grh.version_class_flow.value() & 0xf'ffff;
  packet.hop_limit = given.grh.hop_limit;
  packet.pkey = PKey(given.bth.pkey.value());
  packet.destination_qpn = Qpn(given.bth.destination_qpn.value());
  packet.source_qpn = Qpn(given.deth.source_qpn.value());
  packet.psn = given.bth.psn.value();
  packet.qkey = QKey(given.deth.qkey.value());
  packet.solicited = (given.bth.flags & 0x80) != 0;
  packet.payload_length = payload.size();
  const Bytes built = Build(packet, payload);
  Require(built.size() == UdPacketSize(payload.size()));
  UdView view;
  Require(ParseUdPacket(built, &view) == DropReason::kNone);
  Require(view.packet == packet && view.payload == payload);
}

}  // namespace
}  // namespace eoib

// The input: a packet from its LRH on.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = absl::MakeConstSpan(data, size);
  eoib::CheckGrh(bytes);
  if (size > sizeof(eoib::Lrh)) eoib::CheckGrh(bytes.subspan(sizeof(eoib::Lrh)));
  eoib::CheckPacket(bytes);
  eoib::CheckRepaired(bytes);
  return 0;
}
