// MulticastGroups: the multicast groups of a software subnet and their members (IBA 1.4
// §15.2.5.17).
//
// A membership is a set of join states, each with its own join and leave. A full member creates a
// group and keeps it alive; a non-member receives; a send-only non-member does neither. A group
// ends with its last full member.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MULTICAST_GROUPS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MULTICAST_GROUPS_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/softhca/subnet_link.h"
#include "vswitch/wire/ib/notice.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib::softhca {

struct MulticastGroup {
  McMemberRecord record;           // PortGID zero, no join state, the P_Key in its full form
  std::map<Gid, uint8_t> members;  // port GID -> JoinState bits, never 0

  bool HasFullMember() const;
  // Full members and non-members, but not send-only non-members.
  std::vector<Gid> Receivers() const;
};

// Not thread-safe: the Subnet calls it under its mutex.
class MulticastGroups {
 public:
  static constexpr Mlid kFirstMlid{0xc001};
  // A plausible size of a switch's multicast forwarding table.
  static constexpr uint16_t kMaxGroups = 4096;
  static constexpr Mlid kLastMlid{0xc000 + kMaxGroups};

  // A group was created (trap 66) or deleted (trap 67).
  struct Event {
    SmTrap trap;
    Mgid mgid;
    PKey pkey;

    friend bool operator==(const Event&, const Event&) = default;
  };

  // MLIDs run from kFirstMlid to `last_mlid`.
  explicit MulticastGroups(Mlid last_mlid) : last_mlid_(last_mlid) {}

  // Set and Delete of a record by the port of `requester`; the record becomes the answer's. A port
  // joins and leaves only for itself, because there are no trusted hosts.
  SaStatus Join(const PortConfig& requester, uint64_t mask, McMemberRecord* record);
  SaStatus Leave(const PortConfig& requester, uint64_t mask, McMemberRecord* record);
  // The groups that match the record's components and that `requester` may see, by MGID.
  std::vector<McMemberRecord> Query(const PortConfig& requester, uint64_t mask,
                                    const McMemberRecord& wanted) const;
  // Ends the memberships of a port that went down or away.
  void RemovePort(const Gid& port);
  // Forgets everything, like a restarted subnet manager: without events for deleted groups.
  void Clear();

  const std::map<Mgid, MulticastGroup>& groups() const { return groups_; }
  // Null if no group has that MLID.
  const MulticastGroup* FindByMlid(Mlid mlid) const;
  // The MLIDs of groups that were created, deleted or changed their receivers since the last call.
  std::set<Mlid> TakeChanged() { return std::exchange(changed_, {}); }
  // Marks every group as changed, because LIDs or P_Keys of receivers changed.
  void ReceiversChanged();
  std::vector<Event> TakeEvents() { return std::exchange(events_, {}); }

 private:
  SaStatus CreateGroup(const PortConfig& requester, uint64_t mask, const McMemberRecord& wanted);
  absl::optional<Mlid> AllocateMlid(absl::optional<Mlid> wanted);
  void RemoveMembership(std::map<Mgid, MulticastGroup>::iterator group, const Gid& port,
                        uint8_t bits);

  const Mlid last_mlid_;
  std::map<Mgid, MulticastGroup> groups_;
  std::map<Mlid, Mgid> mlids_;  // those in use
  std::set<Mlid> changed_;
  std::vector<Event> events_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MULTICAST_GROUPS_H_
