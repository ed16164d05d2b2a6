// AddressResolution: holds packets from IPoIB while the gateway resolves the MAC address of their
// Ethernet host. As RFC 1122 §2.3.2.2 and RFC 4861 §7.2.2 have it, it holds the latest few packets
// for each address, and solicits three times, one second apart. Owned by the translation, on its
// thread.
#ifndef EOIB_GATEWAY_TRANSLATION_ADDRESS_RESOLUTION_H_
#define EOIB_GATEWAY_TRANSLATION_ADDRESS_RESOLUTION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "gateway/link/aged_table.h"
#include "gateway/translation/options.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::translation {

struct HeldPacket {
  uint16_t ethertype = 0;
  MacAddr source;  // its station's
  std::vector<uint8_t> bytes;
};

// A solicitation (ARP request, neighbour solicitation) of the gateway's own for `target`.
struct Solicitation {
  IpAddr target;
  // The host that needs the answer; unspecified if it is not on this link: then a probe is sent.
  IpAddr sender_ip;
  MacAddr sender_mac;    // that host's
  bool unicast = false;  // to the target's known address
};

class AddressResolution {
 public:
  explicit AddressResolution(const Options& options)
      : options_(options), targets_(options.max_held_targets) {}

  bool IsWaitingFor(const IpAddr& target) const { return targets_.Find(target) != nullptr; }
  bool full() const { return targets_.full(); }
  // Begins to wait for solicitation.target, which has just been solicited. Requires !full() and
  // !IsWaitingFor(target).
  void Start(const Solicitation& solicitation, absl::Time now) {
    targets_.Add(solicitation.target, Target{solicitation, 1, now + options_.resolve_interval, {}},
                 now);
    next_ = std::min(next_, now + options_.resolve_interval);
  }
  // Holds a packet for `target`; returns how many older ones were dropped for it. Requires
  // IsWaitingFor(target).
  size_t Hold(const IpAddr& target, HeldPacket packet) {
    std::deque<HeldPacket>& packets = targets_.Find(target)->value.packets;
    packets.push_back(std::move(packet));
    if (packets.size() <= options_.max_held_per_target) return 0;
    packets.pop_front();
    return 1;
  }
  // Returns the packets that wait for `target`, in order, and ends the wait.
  std::deque<HeldPacket> Take(const IpAddr& target) {
    auto* const entry = targets_.Find(target);
    if (entry == nullptr) return {};
    std::deque<HeldPacket> packets = std::move(entry->value.packets);
    targets_.Erase(target);
    return packets;
  }

  // Calls solicit(solicitation) for each retry that is due, and give_up(target) for each target
  // that had its last one. `give_up` must Take the target.
  void Tick(absl::Time now, absl::FunctionRef<void(const Solicitation&)> solicit,
            absl::FunctionRef<void(const IpAddr&)> give_up) {
    if (now < next_) return;
    std::vector<Solicitation> due;
    std::vector<IpAddr> over;
    next_ = absl::InfiniteFuture();
    targets_.ForEach([&](auto& entry) {
      auto& target = entry.value;
      if (target.next <= now) {
        target.tries < options_.resolve_tries ? due.push_back(target.solicitation)
                                              : over.push_back(entry.key);
        ++target.tries;
        target.next = now + options_.resolve_interval;
      }
      next_ = std::min(next_, target.next);
    });
    for (const Solicitation& solicitation : due) solicit(solicitation);
    for (const IpAddr& target : over) give_up(target);
  }
  // See Translator.
  void CopyFrom(const AddressResolution& other) {
    targets_.CopyFrom(other.targets_);
    next_ = other.next_;
  }
  absl::Time NextDeadline() const { return targets_.size() == 0 ? absl::InfiniteFuture() : next_; }
  size_t size() const { return targets_.size(); }
  size_t held() const {  // packets
    size_t held = 0;
    targets_.ForEach([&held](const auto& target) { held += target.value.packets.size(); });
    return held;
  }

 private:
  struct Target {
    Solicitation solicitation;
    int tries = 0;
    absl::Time next;
    std::deque<HeldPacket> packets;
  };

  const Options options_;
  AgedTable<IpAddr, Target> targets_;
  absl::Time next_ = absl::InfiniteFuture();  // no target is due before
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_ADDRESS_RESOLUTION_H_
