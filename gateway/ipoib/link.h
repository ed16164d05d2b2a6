// Link: the control half of an IPoIB interface (RFC 4391): its place in a partition, its membership in the broadcast group and
// in the groups that its Channel listens or sends to, the paths to its peers.
//
// The broadcast group is the link's constitution (§5): Q_Key, MTU, SL, rate, traffic class and hop limit come from its record,
// the scope of all groups from its MGID. Other groups are created like it (§10).
//
// What a Channel sends to it need not be a member of: it becomes a send-only one, if the group exists. Whether it does is asked
// once and then again as GroupMembership does, and at once when the subnet says that the group was created (trap 66).
//
// With `all_groups` it is a promiscuous multicast router of §11: a non-member (which receives all the same) of every group of
// the link that there is or will be. It hears of new ones by trap 66, and because nothing may depend on traps (another program
// may have them) looks for itself once a minute. Of one that is gone nothing is kept.
//
// Control thread, except the channel, which belongs to the data path's.
#ifndef EOIB_GATEWAY_IPOIB_LINK_H_
#define EOIB_GATEWAY_IPOIB_LINK_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/fabric_port.h"
#include "control/group_membership.h"
#include "control/log.h"
#include "control/partition_member.h"
#include "control/partition_queue_pair.h"
#include "control/resolver.h"
#include "fdb/vport_directory.h"
#include "gateway/ipoib/channel.h"
#include "gateway/ipoib/interface.h"
#include "gateway/ipoib/link_queues.h"
#include "vswitch/fabric/buffer_pool.h"

namespace eoib::ipoib {

class Link final : public PartitionMember {
 public:
  struct Options {
    std::string name;  // in messages
    PKey pkey;
    MulticastScope scope = MulticastScope::LinkLocal();  // of the broadcast group: §4 leaves it to the administrator
    bool create = true;     // the broadcast group, if there is none; §5 recommends that an administrator does
    QKey qkey = kQKey;      // of one that is created
    GroupParameters group;  // likewise
    bool grh = true;        // in unicast within the subnet; Linux sends none
    bool all_groups = false;
    size_t groups_limit = 4096;             // a quarter of them only for those that the channel listens to
    std::function<void()> on_lost = [] {};  // the channel found that its queue pair is lost: NeedsRebuild
  };
  // Controlled, as §13 wants it; the lower half is the one that OpenSM gives its IPoIB groups.
  static constexpr QKey kQKey = QKey(0x8000'0b1b);

  // Makes the queue pair, if the port is in the partition; else Rebuild does when it is. `tools` outlive the link.
  // kFailedPrecondition on an Ethernet link layer: IPoIB is InfiniBand's.
  static absl::StatusOr<std::unique_ptr<Link>> Create(const Options& options, const FabricPort::Tools& tools);
  ~Link() override;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  Channel* channel() { return &channel_; }
  const Channel& channel() const { return channel_; }

  // Readable when the channel wishes something; then RunWishes.
  int wishes_fd() const { return wishes_.fd(); }
  void RunWishes();

  // PartitionMember. Rebuild while the channel's thread is paused.
  void Start() override;
  void Stop(std::function<void()> done) override;
  void Run() override;
  absl::Time NextDeadline() const override;
  void Refresh(RefreshDepth depth) override;
  void OnPortDown(absl::string_view why) override;
  void OnNotice(SmTrap trap, const Gid& gid) override;
  void NoteLoss(const ibv_async_event& event) override;
  bool NeedsRebuild() const override;
  bool has_queue_pair() const override { return queue_pair_.get() != nullptr; }
  absl::Status Rebuild() override;

  // Whether it is in the broadcast group.
  bool up() const { return broadcast_->joined().has_value(); }
  // Text for the operator.
  std::string Show() const;
  std::string ShowGroups() const;

 private:
  static constexpr uint8_t kNoMember = 0;
  // Why we are in a group. A full member may send as well; with all_groups a non-member is a send-only one, too.
  struct Group {
    std::unique_ptr<GroupMembership> membership;
    uint8_t join_state = kNoMember;  // that we want
    bool told = false;               // the channel wants to know of it
    bool leaving = false;            // the membership has been left, and the SA has not yet answered
  };

  Link(const Options& options, const FabricPort::Tools& tools, std::unique_ptr<BufferPool> pool, const Gid& gid);

  void TakeDown(absl::string_view why);
  void LoseGroups(absl::string_view why);
  void RebindGroups(UdEndpoint* endpoint);
  void NoteFailure();
  void OnWish(const Wish& wish);
  void OnBroadcast(const absl::optional<GroupMembership::Joined>& joined);
  void RenewGroups(const McMemberRecord& constitution);
  void TellState(const absl::optional<LinkState>& state, AhIndex ah);
  void JoinToSend(const Mgid& mgid);
  void Join(const Mgid& mgid, uint8_t join_state);
  bool HasRoomFor(uint8_t join_state) const;
  void Refuse(const Mgid& mgid, uint8_t join_state);
  void Evict();
  void LetGo(const Mgid& mgid, const Group& group);
  bool MayGo(const Group& group) const;
  void Become(Mgid mgid, uint8_t join_state);
  void Left(const Mgid& mgid);
  void MakeMembership(const Mgid& mgid, Group* group);
  void Forget(const Mgid& mgid);
  void Unlisten(const Mgid& mgid);
  void Tell(const Mgid& mgid, const Group& group);
  void TellPaths();
  void RetryNews();
  void LookForGroups();
  void FoundGroups(const absl::StatusOr<std::vector<McMemberRecord>>& found);
  void RetryGroups();
  bool IsOfLink(const Mgid& mgid) const;
  IpoibLink link() const { return {queue_pair_.pkey().Full(), options_.scope}; }

  const Options options_;
  const FabricPort::Tools tools_;
  Wishes wishes_;
  NewsQueue news_queue_;
  Outbox<News, NewsQueue> news_;
  absl::Time news_retried_at_ = absl::InfinitePast();
  bool paths_untold_ = false;  // until what waits in news_ is gone
  VPortDirectory directory_;
  std::unique_ptr<BufferPool> pool_;
  PartitionQueuePair queue_pair_;
  Channel channel_;
  std::unique_ptr<Resolver> resolver_;
  std::unique_ptr<GroupMembership> broadcast_;
  absl::flat_hash_map<Mgid, Group> groups_;
  absl::flat_hash_set<Mgid> crowded_out_;        // to be listened to when there is room in groups_
  absl::optional<McMemberRecord> constitution_;  // the record that groups_ are like
  absl::optional<LinkState> told_;
  AhIndex told_ah_ = AhIndex::None();
  std::multimap<absl::Time, Mgid> retries_;  // of refused joins: when they may be due
  LogLimiter room_log_, look_log_;
  absl::Time next_look_ = absl::InfiniteFuture();  // for groups
  absl::Time next_reclaim_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_IPOIB_LINK_H_
