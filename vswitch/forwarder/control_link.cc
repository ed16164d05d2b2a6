#include "vswitch/forwarder/control_link.h"

#include <cstring>

#include "vswitch/base/check.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

// Messages are addressed by their datagrams, so their Ethernet destination is the same in all of
// them.
constexpr MacAddr kMessageGroup = MacAddr::FromUint64(0x0300'0000'88b5);

}  // namespace

DropReason ControlLink::HandOver(const Packet& packet, VPortId sender) {
  const absl::Span<const uint8_t> payload = packet.frame.bytes().subspan(kEthernetHeaderSize);
  if (payload.size() > message_.payload.size()) return DropReason::kControlQueueFull;
  const bool is_known = directory_->Get(sender).announced;
  const DropReason refused = admission_.Admit(packet.datagram->sgid, payload.size(), is_known,
                                              received_->popped(), clock_->Now());
  if (refused != DropReason::kNone) return refused;
  message_.vport = sender;
  message_.peer = packet.datagram->source();
  message_.slid = packet.datagram->slid;
  message_.sl = packet.datagram->sl;
  message_.by_group = packet.datagram->dgid.IsMulticast();
  message_.length = static_cast<uint32_t>(payload.size());
  std::memcpy(message_.payload.data(), payload.data(), payload.size());
  EOIB_CHECK(received_->Push(message_));  // else it is not admitted
  punts_->Notify();
  return DropReason::kControlMessage;
}

void ControlLink::ReportNotBehind(const Packet& packet) {
  if (packet.datagram->dgid.IsMulticast() || !not_behind_punts_.Take(clock_->Now())) return;
  SendPunt({.kind = Punt::Kind::kNotBehind,
            .peer = packet.datagram->source(),
            .key = packet.destination},
           punts_, counters_);
}

bool ControlLink::TakeMessage(uint32_t mtu, Packet* packet) {
  if (!injected_->Pop(&message_)) return false;
  const uint32_t length = static_cast<uint32_t>(kEthernetHeaderSize) + message_.length;
  if (length > mtu) {
    packet->frame.buffer = BufferId::None();
    CountNotSent(1, DropReason::kTooLarge, &counters_->from_control);
    return true;
  }
  if (!MakeFrame(length, &counters_->from_control, packet)) return true;
  packet->to = message_.vport;
  WriteEthernetHeader(kMessageGroup, source_, kEtherTypeControl, packet->frame.data);
  std::memcpy(packet->frame.data + kEthernetHeaderSize, message_.payload.data(), message_.length);
  return true;
}

bool ControlLink::TakeFrame(Packet* packet, uint32_t* port) {
  Injected injected;
  if (!injected_->Pop(&injected)) return false;
  if (!MakeFrame(injected.length, &counters_->from_ports, packet)) return true;
  *port = injected.port;
  std::memcpy(packet->frame.data, injected.frame.data(), injected.length);
  return true;
}

void ControlLink::DropFrames() {
  Injected injected;
  while (injected_->Pop(&injected))
    CountNotSent(1, DropReason::kInjectQueueFull, &counters_->from_ports);
}

// Gives the packet a buffer and counts it as received. If there is no buffer, counts it as dropped
// too, and returns false.
bool ControlLink::MakeFrame(uint32_t length, Counter* side, Packet* packet) {
  const BufferId buffer = pool_->Allocate();
  packet->frame.buffer = buffer;
  if (buffer.IsNone()) {
    CountNotSent(1, DropReason::kNoBuffer, side);
    return false;
  }
  counters_->frames_in.Add();
  side->Add();
  packet->frame = {buffer, pool_->Frame(buffer), length, {}};
  return true;
}

void ControlLink::CountNotSent(uint64_t frames, DropReason reason, Counter* side) {
  if (frames == 0) return;
  counters_->frames_in.Add(frames);
  side->Add(frames);
  counters_->drop(reason).Add(frames);
}

}  // namespace eoib
