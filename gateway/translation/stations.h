// Stations: the IPoIB interfaces that the gateway has heard, and the MAC address of each on
// Ethernet. An interface is (GID, ordinal), because its QPN changes with each restart (RFC 4391
// §9.4) and several may share a GID: README.md, "Addresses".
//
// Threads: that of the translation, which owns the stations. Pointers to stations are valid until a
// station is added or removed.
//
// Invariants: each station is in by_address_ and by_mac_ once, and per_gid_ counts it. An IP
// address belongs to one station, whose `ips` has it. changes() grows when a station or an address
// comes, goes or moves.
#ifndef EOIB_GATEWAY_TRANSLATION_STATIONS_H_
#define EOIB_GATEWAY_TRANSLATION_STATIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "gateway/link/aged_table.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/options.h"
#include "gateway/translation/saved_tables.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/ipoib_address.h"

namespace eoib::translation {

// The identity of an interface, which survives its restarts.
struct StationId {
  Gid gid;
  uint16_t ordinal = 0;

  friend constexpr auto operator<=>(const StationId&, const StationId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const StationId& id) {
    return H::combine(std::move(h), id.gid, id.ordinal);
  }
};

struct Station {
  StationId id;
  Qpn qpn;  // the current one
  MacAddr mac;
  std::vector<IpAddr> ips;  // in the order in which they were claimed
  absl::Time heard;

  IpoibAddress address() const { return {qpn, id.gid}; }
};

// The MAC address of an interface: a hash, locally administered (IEEE 802c §9.3). The salt is 0
// unless that address is taken.
MacAddr StationMac(const StationId& id, uint32_t salt);

class Stations {
 public:
  // How strongly a packet claims an address.
  enum class Claim : uint8_t {
    kProbe,   // the sender would like to have the address: may only identify a restarted interface
    kHas,     // the sender has the address
    kAnswer,  // the sender has it, and says so in answer to a solicitation: confirms the entry
  };
  // True if an Ethernet host has the MAC address.
  using MacTaken = absl::FunctionRef<bool(MacAddr)>;

  Stations(const Options& options, Counters* counters);
  // Evicts what is beyond smaller limits.
  void Change(const Options& options);

  const Station* FindByMac(MacAddr mac) const;
  const Station* FindByAddress(const IpoibAddress& address) const;
  const Station* FindByIp(const IpAddr& ip) const;
  // When `ip` was last heard at its station; InfinitePast() if no station has it.
  absl::Time IpHeard(const IpAddr& ip) const;

  // Marks the station at `address` as heard, and makes one if there is none. Requires a unicast GID
  // that is not zero, and an address that is no gateway's.
  const Station* Hear(const IpoibAddress& address, absl::Time now, MacTaken taken);
  // The same for a sender that claims `ip`, which CanBeHost().
  const Station* HearClaim(const IpoibAddress& address, const IpAddr& ip, Claim claim,
                           absl::Time now, MacTaken taken);
  // A known station sent a packet from `ip` to this gateway alone: confirms the station, and `ip`
  // if it is the station's. `ip` may belong to another host if the station is a router.
  void HearFrom(const Station& station, const IpAddr& ip, absl::Time now);

  // Forgets the station at an address; false if there is none.
  bool Forget(const IpoibAddress& address);
  // Forgets the addresses for which `goes` is true; their stations stay.
  void ForgetIps(absl::FunctionRef<bool(const IpAddr&)> goes);
  // Forgets stations and addresses that have been silent for station_age.
  void Expire(absl::Time now);
  absl::Time NextExpiry() const;

  size_t size() const { return stations_.size(); }
  size_t ips() const { return ips_.size(); }
  // Grows with each change that is to be saved.
  uint64_t changes() const { return changes_; }

  // Calls visit(station, ip, heard, confirmed) for each address, the last heard first within each
  // rank.
  void ForEachIp(
      absl::FunctionRef<void(const Station&, const IpAddr&, absl::Time heard, bool confirmed)>
          visit) const;
  std::vector<SavedStation> Save(absl::Time now) const;
  // Fills an empty table. Skips invalid entries, such as a second station with the same MAC address
  // or ordinal.
  void Restore(const std::vector<SavedStation>& saved, absl::Time now, MacTaken taken);

 private:
  using Table = AgedTable<StationId, Station>;

  Station* HearKnown(const IpoibAddress& address, absl::Time now);
  Station* Create(const IpoibAddress& address, absl::Time now, MacTaken taken);
  Station* Insert(Station station, absl::Time now);
  absl::optional<uint16_t> FreeOrdinal(const Gid& gid) const;
  uint16_t MakeOrdinal(const Gid& gid);
  bool ComesBack(const Station& owner, const IpoibAddress& address, Claim claim,
                 absl::Time now) const;
  Station* Rebind(StationId id, const IpoibAddress& address, absl::Time now);
  void Assign(const IpAddr& ip, Station* station, Claim claim, absl::Time now);
  void AddIp(const IpAddr& ip, Station* station, absl::Time now);
  void ForgetIp(const IpAddr& ip);
  void ForgetOldestIp(const Station& station);
  void EvictIp();
  void EvictStation();
  void Remove(StationId id);
  std::vector<SavedIp> SaveIps(const Station& station, absl::Time now) const;
  bool CanRestore(const SavedStation& saved, MacTaken taken) const;
  void RestoreIp(const SavedIp& saved, StationId id, absl::Time now);

  Options options_;
  Counters* const counters_;
  Table stations_;
  AgedTable<IpAddr, StationId> ips_;
  absl::flat_hash_map<IpoibAddress, StationId> by_address_;
  absl::flat_hash_map<MacAddr, StationId> by_mac_;
  absl::flat_hash_map<Gid, uint16_t> per_gid_;  // the number of its stations
  uint64_t changes_ = 0;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_STATIONS_H_
