#include "control/ves/rarp_announcer.h"

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

constexpr int kRepetitions = 5;
constexpr absl::Duration kFirstInterval = absl::Milliseconds(100);
// Copies of announcements to local ports, a second and at once: a tenth of a worker's time. A
// thousand vPorts are announced within ten seconds.
constexpr double kCopyRate = 100'000, kCopyBurst = 4096;
constexpr size_t kLeastCost = 32, kMostCost = 4096;

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

RarpAnnouncer::RarpAnnouncer(const VlanSet* vlans, const std::vector<VPort>* vports,
                             InjectQueue* queue, const Clock* clock)
    : vlans_(vlans),
      vports_(vports),
      queue_(queue),
      clock_(clock),
      copies_(kCopyRate, kCopyBurst, clock->Now()) {}

void RarpAnnouncer::Start() {
  std::vector<uint32_t> all;
  for (const VPort& vport : *vports_) all.push_back(vport.index);
  Stop();
  Start(all);
}

void RarpAnnouncer::Start(const std::vector<uint32_t>& indexes) {
  const absl::flat_hash_set<uint32_t> started(indexes.begin(), indexes.end());
  std::erase_if(due_, [&started](const Announcement& announcement) {
    return started.contains(announcement.index);
  });
  const absl::Time now = clock_->Now();
  for (const uint32_t index : started) due_.insert({now, index, 0});
  Run();
}

// The copies of one announcement. The least bounds what is queued at once.
double RarpAnnouncer::Cost() const {
  return static_cast<double>(std::clamp(vports_->size(), kLeastCost, kMostCost));
}

void RarpAnnouncer::Run() {
  const absl::Time now = clock_->Now();
  bool any = false;
  while (!due_.empty() && due_.begin()->at <= now && copies_.Take(now, Cost())) {
    const Announcement announcement = *due_.begin();
    due_.erase(due_.begin());
    Announce(announcement.index);
    any = true;
    const int sent = announcement.sent + 1;
    if (sent == kRepetitions) continue;
    due_.insert({now + kFirstInterval * (1 << announcement.sent), announcement.index, sent});
  }
  if (any) queue_->Notify();
}

absl::Time RarpAnnouncer::NextDeadline() const {
  if (due_.empty()) return absl::InfiniteFuture();
  return std::max(due_.begin()->at, copies_.NextToken(Cost()));
}

void RarpAnnouncer::Announce(uint32_t index) {
  const auto vport =
      std::lower_bound(vports_->begin(), vports_->end(), index,
                       [](const VPort& one, uint32_t wanted) { return one.index < wanted; });
  if (vport == vports_->end() || vport->index != index) return;  // it was removed
  const MacAddr mac = vport->port->mac();
  const absl::optional<Vid> vid = VlanFor(vport->config.vlan);
  if (!mac.IsZero() && vid.has_value()) queue_->Push(ReverseArpRequest(mac, index, *vid));
}

// 0 (send it untagged) if the port carries its untagged VLAN; else the lowest VLAN that it carries,
// as a tag; nullopt if it carries no VLAN of the VES.
absl::optional<Vid> RarpAnnouncer::VlanFor(const VlanPolicy& policy) const {
  bool strip;
  const auto carries = [&](Vid vid) { return vlans_->Contains(vid) && policy.Egress(vid, &strip); };
  if (carries(policy.Untagged())) return Vid(0);
  for (uint16_t vid = 1; vid <= Vid::kMax; ++vid) {
    if (carries(Vid(vid))) return Vid(vid);
  }
  return absl::nullopt;
}

}  // namespace eoib
