// Neighbors: maps the IP addresses of Ethernet hosts to their MAC addresses, learned from ARP and
// neighbour discovery. IPoIB hosts see one link-layer address for all of them, so the gateway finds
// the host of a packet by its IP destination here.
//
// Owned by the translation, on its thread.
#ifndef EOIB_GATEWAY_TRANSLATION_NEIGHBORS_H_
#define EOIB_GATEWAY_TRANSLATION_NEIGHBORS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gateway/link/aged_table.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/options.h"
#include "gateway/translation/saved_tables.h"
#include "vswitch/base/address.h"

namespace eoib::translation {

class Neighbors {
 public:
  // How strongly a packet claims an address.
  enum class Claim : uint8_t {
    // Does not replace another MAC address: an advertisement without the override flag (RFC 4861
    // §7.2.5)
    kWeak,
    kHas,     // the sender has the address
    kAnswer,  // the sender has it, and says so in answer to a solicitation: confirms the entry
  };
  // Called for addresses that enter and leave the table.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void OnNeighbor(const IpAddr& ip) = 0;
    virtual void OnNeighborGone(const IpAddr& ip) = 0;
  };

  Neighbors(const Options& options, Counters* counters, Observer* observer);
  // Evicts what is beyond a smaller limit.
  void Change(const Options& options);

  absl::optional<MacAddr> Find(const IpAddr& ip) const;
  // When `ip` was last heard; InfinitePast() if it is not known.
  absl::Time Heard(const IpAddr& ip) const;
  bool HasMac(MacAddr mac) const { return per_mac_.contains(mac); }

  // Requires an address that CanBeHost(), and a MAC address that is neither the broadcast address
  // nor a station's.
  void Learn(const IpAddr& ip, MacAddr mac, Claim claim, absl::Time now);
  // A packet came from `ip` and `mac`. Confirms the entry; ignored if the table does not have that
  // pair (the packet came through a router).
  void HearFrom(const IpAddr& ip, MacAddr mac, absl::Time now);
  // Forgets all addresses of a MAC address that turned out to be a station's.
  void ForgetMac(MacAddr mac);
  // Forgets the addresses for which `goes` is true.
  void ForgetIf(absl::FunctionRef<bool(const IpAddr&, MacAddr)> goes);
  void Expire(absl::Time now);
  absl::Time NextExpiry() const { return neighbors_.oldest() + options_.ip_age; }

  size_t size() const { return neighbors_.size(); }
  uint64_t changes() const { return changes_; }  // grows with each change that is to be saved
  // Visits the last heard first, within each rank.
  void ForEach(absl::FunctionRef<void(const IpAddr&, MacAddr, absl::Time heard, bool confirmed)>
                   visit) const;
  std::vector<SavedNeighbor> Save(absl::Time now) const;
  // Fills an empty table.
  void Restore(const std::vector<SavedNeighbor>& saved, absl::Time now);

 private:
  void Add(const IpAddr& ip, MacAddr mac, absl::Time now);
  void Move(MacAddr* from, MacAddr to);
  void Forget(const IpAddr& ip);
  void Release(MacAddr mac);
  void Evict();

  Options options_;
  Counters* const counters_;
  Observer* const observer_;
  AgedTable<IpAddr, MacAddr> neighbors_;
  absl::flat_hash_map<MacAddr, size_t> per_mac_;  // the number of its addresses
  uint64_t changes_ = 0;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_NEIGHBORS_H_
