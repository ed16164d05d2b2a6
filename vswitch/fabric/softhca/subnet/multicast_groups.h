// MulticastGroups: the multicast groups of a software subnet and who is in them (IBA 1.4 §15.2.5.17).
//
// A membership is a set of join states, each with its own join and leave. A full member makes a group and keeps it alive; a
// non-member receives; a send-only non-member does neither. With its last full member a group ends, whoever else is in it.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MULTICAST_GROUPS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MULTICAST_GROUPS_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "fdb/address.h"
#include "vswitch/fabric/softhca/subnet_link.h"
#include "vswitch/wire/notice.h"
#include "vswitch/wire/sa_mad.h"

namespace eoib::softhca {

struct MulticastGroup {
  McMemberRecord record;           // the group's: PortGID zero, no join state; the P_Key in its full form
  std::map<Gid, uint8_t> members;  // port GID -> JoinState bits, never 0

  bool HasFullMember() const;
  // Those that receive: full members and non-members, not send-only ones.
  std::vector<Gid> Receivers() const;
};

// Not thread-safe: the Subnet calls it under its mutex.
class MulticastGroups {
 public:
  static constexpr Mlid kFirstMlid{0xc001};
  static constexpr uint16_t kMaxGroups = 4096;  // as many as a switch's multicast forwarding table might hold
  static constexpr Mlid kLastMlid{0xc000 + kMaxGroups};

  // A group that was made (trap 66) or ended (67), and its partition.
  struct Event {
    SmTrap trap;
    Mgid mgid;
    PKey pkey;

    friend bool operator==(const Event&, const Event&) = default;
  };

  // MLIDs run from kFirstMlid to `last_mlid`.
  explicit MulticastGroups(Mlid last_mlid) : last_mlid_(last_mlid) {}

  // Set and Delete of a record by the port of `requester`; the record becomes the answer's. Nobody joins or leaves for
  // somebody else here: there are no trusted hosts.
  SaStatus Join(const PortConfig& requester, uint64_t mask, McMemberRecord* record);
  SaStatus Leave(const PortConfig& requester, uint64_t mask, McMemberRecord* record);
  // What `requester` may know of the groups that are what the record's components say, by MGID.
  std::vector<McMemberRecord> Query(const PortConfig& requester, uint64_t mask, const McMemberRecord& wanted) const;
  // A port went down or away: its memberships end.
  void RemovePort(const Gid& port);
  // Forgets everything, as a subnet manager does that is restarted: without a word of ended groups.
  void Clear();

  const std::map<Mgid, MulticastGroup>& groups() const { return groups_; }
  // Null if no group has that MLID.
  const MulticastGroup* FindByMlid(Mlid mlid) const;
  // The MLIDs of groups that were made, changed their receivers or ended since the last call.
  std::set<Mlid> TakeChanged() { return std::exchange(changed_, {}); }
  // Receivers have other LIDs or P_Keys: every group counts as changed.
  void ReceiversChanged();
  std::vector<Event> TakeEvents() { return std::exchange(events_, {}); }

 private:
  SaStatus CreateGroup(const PortConfig& requester, uint64_t mask, const McMemberRecord& wanted);
  absl::optional<Mlid> AllocateMlid(absl::optional<Mlid> wanted);
  void RemoveMembership(std::map<Mgid, MulticastGroup>::iterator group, const Gid& port, uint8_t bits);

  const Mlid last_mlid_;
  std::map<Mgid, MulticastGroup> groups_;
  std::map<Mlid, Mgid> mlids_;  // those in use
  std::set<Mlid> changed_;
  std::vector<Event> events_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MULTICAST_GROUPS_H_
