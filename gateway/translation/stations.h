// Stations: the IPoIB interfaces that the gateway has heard, and the MAC address under which each is known on Ethernet.
//
// What an interface is. Its IPoIB address has a GID, which is its port's and lasts, and a QPN, which is another after every
// restart (RFC 4391 §9.4); and several interfaces may share a GID. So an interface is (GID, ordinal), and what tells that it is
// an old one with a new QPN are its IP addresses: who claims a known one from the same GID is the same interface come back. A
// QPN that claims no known address at its GID is another interface, with the next ordinal.
//
// The MAC address is a hash of GID and ordinal, locally administered (IEEE 802c §9.3), so two gateways give an interface the
// same, and so does one that has lost its memory. If two interfaces come to the same, or an Ethernet host has it already, the
// later one hashes again with another salt; that is why MAC addresses are saved.
//
// An interface without addresses, met before it claimed any (a DHCP request comes from 0.0.0.0), turns into the old one when it
// claims an address of that. See AgedTable for who goes when there are too many.
//
// Owned by the translation, on its thread. Pointers to stations are good until one is added or something expires.
#ifndef EOIB_GATEWAY_TRANSLATION_STATIONS_H_
#define EOIB_GATEWAY_TRANSLATION_STATIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "fdb/address.h"
#include "gateway/translation/aged_table.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/options.h"
#include "gateway/translation/saved_tables.h"
#include "vswitch/wire/ip_addr.h"
#include "vswitch/wire/ipoib_address.h"

namespace eoib::translation {

// An interface, for ever.
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
  Qpn qpn;  // today's
  MacAddr mac;
  std::vector<IpAddr> ips;  // in the order in which they were claimed
  absl::Time heard;

  IpoibAddress address() const { return {qpn, id.gid}; }
};

// The MAC address of an interface; the salt is 0 unless that one is taken.
MacAddr StationMac(const StationId& id, uint32_t salt);

class Stations {
 public:
  // How much a packet says about who has an address.
  enum class Claim : uint8_t {
    kProbe,   // would like to have it: only tells who comes back
    kHas,     // says that it has it
    kAnswer,  // says so to who asked: nobody's invention
  };
  // Whether a MAC address is an Ethernet host's.
  using MacTaken = absl::FunctionRef<bool(MacAddr)>;

  Stations(const Options& options, Counters* counters);

  const Station* FindByMac(MacAddr mac) const;
  const Station* FindByAddress(const IpoibAddress& address) const;
  const Station* FindByIp(const IpAddr& ip) const;
  // When `ip` was last heard at its station; InfinitePast() if no station has it.
  absl::Time IpHeard(const IpAddr& ip) const;

  // The station at `address`, heard now; a new one if none is there. Requires a unicast GID that is not zero, and no address of
  // a gateway's.
  const Station* Hear(const IpoibAddress& address, absl::Time now, MacTaken taken);
  // The same of one that claims `ip`, which CanBeHost().
  const Station* HearClaim(const IpoibAddress& address, const IpAddr& ip, Claim claim, absl::Time now, MacTaken taken);
  // The same of one that is known, and sent a packet from `ip` to this gateway alone. `ip` may be another's, or a host's beyond
  // a router: then only the station was heard.
  void HearFrom(const Station& station, const IpAddr& ip, absl::Time now);

  // Forgets the station at an address; false if there is none.
  bool Forget(const IpoibAddress& address);
  // Forgets what has not been heard for as long as the options say.
  void Expire(absl::Time now);
  absl::Time NextExpiry() const;

  size_t size() const { return stations_.size(); }
  size_t ips() const { return ips_.size(); }
  // How often something changed that is to be saved.
  uint64_t changes() const { return changes_; }

  // Calls visit(station, ip, heard, confirmed) for each address, those heard of last first within each rank.
  void ForEachIp(absl::FunctionRef<void(const Station&, const IpAddr&, absl::Time heard, bool confirmed)> visit) const;
  void ForEach(absl::FunctionRef<void(const Station&)> visit) const;
  std::vector<SavedStation> Save(absl::Time now) const;
  // Takes what was saved into an empty table. What cannot be (a MAC address or an ordinal twice) is left out.
  void Restore(const std::vector<SavedStation>& saved, absl::Time now, MacTaken taken);

 private:
  using Table = AgedTable<StationId, Station>;

  Station* HearKnown(const IpoibAddress& address, absl::Time now);
  Station* Create(const IpoibAddress& address, absl::Time now, MacTaken taken);
  Station* Insert(Station station, absl::Time now);
  absl::optional<uint16_t> FreeOrdinal(const Gid& gid) const;
  uint16_t MakeOrdinal(const Gid& gid);
  bool ComesBack(const Station& owner, const IpoibAddress& address, Claim claim, absl::Time now) const;
  Station* Rebind(StationId id, const IpoibAddress& address, absl::Time now);
  void Assign(const IpAddr& ip, Station* station, Claim claim, absl::Time now);
  void AddIp(const IpAddr& ip, Station* station, absl::Time now);
  void ForgetIp(const IpAddr& ip);
  void ForgetOldestIp(const Station& station);
  void Remove(StationId id);
  std::vector<SavedIp> SaveIps(const Station& station, absl::Time now) const;
  bool CanRestore(const SavedStation& saved, MacTaken taken) const;
  void RestoreIp(const SavedIp& saved, StationId id, absl::Time now);

  const Options options_;
  Counters* const counters_;
  Table stations_;
  AgedTable<IpAddr, StationId> ips_;
  absl::flat_hash_map<IpoibAddress, StationId> by_address_;
  absl::flat_hash_map<MacAddr, StationId> by_mac_;
  absl::flat_hash_map<Gid, uint16_t> per_gid_;  // how many stations
  uint64_t changes_ = 0;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_STATIONS_H_
