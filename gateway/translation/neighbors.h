// Neighbors: which MAC address an IP address of an Ethernet host is at, as its ARP and neighbour discovery say.
//
// IPoIB hosts see one link-layer address for all of Ethernet, the gateway's; so what tells the gateway where a packet of theirs
// goes is its IP destination, and this table. It is learned from what crosses and from what is overheard.
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
#include "fdb/address.h"
#include "gateway/translation/aged_table.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/options.h"
#include "gateway/translation/saved_tables.h"

namespace eoib::translation {

class Neighbors {
 public:
  // How much a packet says about who has an address.
  enum class Claim : uint8_t {
    kWeak,    // where nobody else is: an advertisement without the override flag (RFC 4861 §7.2.5)
    kHas,     // says that it has it
    kAnswer,  // says so to who asked: nobody's invention
  };
  // Hears of addresses that are new here, and of those that go.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void OnNeighbor(const IpAddr& ip) = 0;
    virtual void OnNeighborGone(const IpAddr& ip) = 0;
  };

  Neighbors(const Options& options, Counters* counters, Observer* observer);

  absl::optional<MacAddr> Find(const IpAddr& ip) const;
  // When `ip` was last heard; InfinitePast() if it is not known.
  absl::Time Heard(const IpAddr& ip) const;
  bool HasMac(MacAddr mac) const { return per_mac_.contains(mac); }

  // Requires an address that CanBeHost(), and a MAC address that is nobody else's: no group's, no station's.
  void Learn(const IpAddr& ip, MacAddr mac, Claim claim, absl::Time now);
  // A packet came from `ip` and `mac` for one host. If it is not a neighbour's (but came through a router), nothing happens.
  void HearFrom(const IpAddr& ip, MacAddr mac, absl::Time now);
  // Forgets all addresses of a MAC address that turned out to be a station's.
  void ForgetMac(MacAddr mac);
  void Expire(absl::Time now);
  absl::Time NextExpiry() const { return neighbors_.oldest() + options_.ip_age; }

  size_t size() const { return neighbors_.size(); }
  uint64_t changes() const { return changes_; }  // how often something changed that is to be saved
  // Those heard of last first, within each rank.
  void ForEach(absl::FunctionRef<void(const IpAddr&, MacAddr, absl::Time heard, bool confirmed)> visit) const;
  std::vector<SavedNeighbor> Save(absl::Time now) const;
  // Takes what was saved into an empty table.
  void Restore(const std::vector<SavedNeighbor>& saved, absl::Time now);

 private:
  void Add(const IpAddr& ip, MacAddr mac, absl::Time now);
  void Move(MacAddr* from, MacAddr to);
  void Forget(const IpAddr& ip);
  void Release(MacAddr mac);

  const Options options_;
  Counters* const counters_;
  Observer* const observer_;
  AgedTable<IpAddr, MacAddr> neighbors_;
  absl::flat_hash_map<MacAddr, size_t> per_mac_;  // how many addresses
  uint64_t changes_ = 0;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_NEIGHBORS_H_
