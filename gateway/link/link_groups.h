// LinkGroups: the memberships of a Link, except that of its broadcast group. It joins the groups
// that the Channel listens or sends to, with the parameters of the broadcast group's record (RFC
// 4391 §10), and sends the Channel an event once it can send.
//
// It also joins groups of the link that others have created, as a non-member: with `all_groups`
// every group, as the promiscuous multicast router of §11 does; with `local_groups` those of
// 224.0.0.0/24, which hosts join without a report (RFC 4541 §2.1.2). It learns of new groups by
// trap 66 and, since another program on the port may take the traps, by a periodic query.
//
// Threads: the control thread; its Link owns it.
//
// Invariants: a membership ends by the SA's answer to the Delete, and only then may the group be
// joined again or its entry go (leaving). The channel
// gets the address handles of groups that it sends to (told), while the link is up. Senders to new
// groups cannot fill the quarter that is reserved for listening.
#ifndef EOIB_GATEWAY_LINK_LINK_GROUPS_H_
#define EOIB_GATEWAY_LINK_LINK_GROUPS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/subnet/fabric_port.h"
#include "control/subnet/group_membership.h"
#include "control/subnet/partition_queue_pair.h"
#include "gateway/link/link_queues.h"
#include "vswitch/base/daemon/answer.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/base/request_handle.h"
#include "vswitch/wire/ipoib_group.h"

namespace eoib::ipoib {

class LinkGroups {
 public:
  struct Options {
    std::string name;  // in messages
    MulticastScope scope;
    bool all_groups = false;
    bool local_groups = false;
    // A quarter is reserved for groups that the channel listens to, and local ones.
    size_t limit = 0;
  };
  // Outlives it.
  struct Context {
    FabricPort::Resources resources;
    const PartitionQueuePair* queue_pair;
    QueueProducer<LinkEvent, LinkEventQueue>* events;
  };

  LinkGroups(const Options& options, const Context& context);
  LinkGroups(const LinkGroups&) = delete;
  LinkGroups& operator=(const LinkGroups&) = delete;

  // Call it first. `broadcast` outlives the memberships.
  void SetBroadcast(const GroupMembership* broadcast) { broadcast_ = broadcast; }
  // Whether the channel knows that the link is up; while it is down, it gets no events of groups.
  void SetUp(bool up) { up_ = up; }
  // The broadcast group is joined, with this record.
  void Follow(const McMemberRecord& record);
  void ForEach(absl::FunctionRef<void(GroupMembership*)> visit);
  void Clear();
  void OnNotice(SmTrap trap, const Mgid& mgid);

  // Requests of the channel.
  void Listen(const Mgid& mgid) { Join(mgid, kFullMember); }
  void Unlisten(const Mgid& mgid);
  void JoinToSend(const Mgid& mgid);
  void Forget(const Mgid& mgid);

  void Run();
  absl::Time NextDeadline() const;
  size_t size() const { return groups_.size(); }
  Json ToJson() const;  // for the operator

 private:
  static constexpr uint8_t kNoMember = 0;
  // A group and the membership that we want. A full member may send as well; a non-member is
  // send-only, too.
  struct Group {
    std::unique_ptr<GroupMembership> membership;
    uint8_t join_state = kNoMember;  // the wanted one
    bool told = false;               // the channel sends to the group and gets its events
    RequestHandle leaving;           // pending: the SA has not yet answered our Delete
  };

  void Join(const Mgid& mgid, uint8_t join_state);
  bool HasRoomFor(const Mgid& mgid, uint8_t join_state) const;
  void Refuse(const Mgid& mgid, uint8_t join_state);
  void Evict();
  void EvictGroup(const Mgid& mgid, const Group& group);
  bool CanEvict(const Group& group) const;
  void ChangeMembership(Mgid mgid, uint8_t join_state);
  void OnLeft(const Mgid& mgid);
  void MakeMembership(const Mgid& mgid, Group* group);
  void Tell(const Mgid& mgid, const Group& group);
  void LookForGroups();
  void FoundGroups(const absl::StatusOr<std::vector<McMemberRecord>>& found);
  void Retry();
  bool IsOfLink(const Mgid& mgid) const;
  bool IsLocal(const Mgid& mgid) const;
  bool IsOverheard(const Mgid& mgid) const;

  const Options options_;
  const Context context_;
  const GroupMembership* broadcast_ = nullptr;
  bool up_ = false;
  absl::flat_hash_map<Mgid, Group> groups_;
  // Groups to listen to that wait for room in groups_.
  absl::flat_hash_set<Mgid> waiting_for_room_;
  absl::optional<McMemberRecord> broadcast_record_;  // whose parameters groups_ have
  std::multimap<absl::Time, Mgid> retries_;          // refused joins, by the time of the next try
  LogLimiter room_log_, look_log_;
  // With all_groups or local_groups: the next query for groups.
  absl::Time next_look_ = absl::InfiniteFuture();
  RequestHandle look_;
};

std::string GroupsText(const Json& groups);

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_LINK_LINK_GROUPS_H_
