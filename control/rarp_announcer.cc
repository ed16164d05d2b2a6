#include "control/rarp_announcer.h"

#include <cstring>

#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

constexpr int kRepetitions = 5;
constexpr absl::Duration kFirstInterval = absl::Milliseconds(100);

Injected ReverseArpRequest(MacAddr mac, uint32_t port, Vid vid) {
  Injected message;
  message.port = port;
  message.length = kMinFrameSize;
  uint8_t* frame = message.frame.data() + kVlanTagSize;
  MacAddr::Broadcast().ToWire(frame);
  mac.ToWire(frame + 6);
  const uint8_t header[] = {kEtherTypeRarp >> 8, kEtherTypeRarp & 0xff, 0, 1, 8, 0, 6, 4, 0, 3};
  std::memcpy(frame + 12, header, sizeof(header));
  mac.ToWire(frame + 22);  // sender hardware address
  mac.ToWire(frame + 32);  // target hardware address
  if (vid.IsUntagged()) {
    std::memmove(message.frame.data(), frame, message.length);
  } else {
    InsertVlanTag(frame, vid, 0);
    message.length += kVlanTagSize;
  }
  return message;
}

}  // namespace

void RarpAnnouncer::Start() {
  sent_ = 0;
  Announce();
}

void RarpAnnouncer::Run() {
  if (clock_->Now() >= next_) Announce();
}

void RarpAnnouncer::Announce() {
  next_ = clock_->Now() + kFirstInterval * (1 << sent_);
  if (++sent_ == kRepetitions) next_ = absl::InfiniteFuture();
  for (const VPort& vport : *vports_) {
    const absl::optional<Vid> vid = VlanFor(vport.config.vlan);
    if (!vport.port->mac().IsZero() && vid.has_value()) queue_->Push(ReverseArpRequest(vport.port->mac(), vport.index, *vid));
  }
  queue_->Notify();
}

// 0 (send it untagged) if the port carries its untagged VLAN; else the lowest VLAN that it carries, as a tag; nullopt if it
// carries no VLAN of the VES.
absl::optional<Vid> RarpAnnouncer::VlanFor(const VlanPolicy& policy) const {
  bool strip;
  const auto carries = [&](Vid vid) { return vlans_.Contains(vid) && policy.Egress(vid, &strip); };
  if (carries(policy.Untagged())) return Vid(0);
  for (uint16_t vid = 1; vid <= Vid::kMax; ++vid) {
    if (carries(Vid(vid))) return Vid(vid);
  }
  return absl::nullopt;
}

}  // namespace eoib
