// Link: the control half of an IPoIB interface (RFC 4391). It owns the queue pair, joins the
// broadcast group, whose record sets the parameters of the link (§5), has LinkGroups join the
// others, and resolves the paths to peers.
//
// Threads: the control thread, except the channel, which belongs to the data path's thread. The two
// queues are all by which they talk, beside the directory. Rebuild changes the channel, so that
// thread is paused meanwhile.
//
// Invariants: the channel hears of states, groups and paths in the order in which they changed
// (events_). It gets no address handle of a group while the link is down. At the end memberships
// and resolver go first, then the channel gives up its endpoint.
#ifndef EOIB_GATEWAY_LINK_LINK_H_
#define EOIB_GATEWAY_LINK_LINK_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/subnet/fabric_port.h"
#include "control/subnet/fabric_port_client.h"
#include "control/subnet/group_membership.h"
#include "control/subnet/partition_queue_pair.h"
#include "control/subnet/path_resolver.h"
#include "fdb/vport_directory.h"
#include "gateway/link/channel.h"
#include "gateway/link/interface.h"
#include "gateway/link/link_groups.h"
#include "gateway/link/link_queues.h"
#include "vswitch/fabric/buffer_pool.h"

namespace eoib::ipoib {

class Link final : public FabricPortClient {
 public:
  struct Options {
    std::string name;  // in messages
    PKey pkey;
    // Of the broadcast group: §4 leaves it to the administrator.
    MulticastScope scope = MulticastScope::LinkLocal();
    // Create the broadcast group if it does not exist; §5 would have an administrator do it.
    bool create = true;
    QKey qkey = kQKey;      // of a broadcast group that is created
    GroupParameters group;  // as above
    bool grh = true;        // send unicast within the subnet with a GRH; Linux does not
    // Join groups that others have created: all, or those of 224.0.0.0/24.
    bool all_groups = false;
    bool local_groups = false;
    // A quarter is reserved for groups that the channel listens to, and local ones.
    size_t groups_limit = 4096;
    // Called when the channel has lost its queue pair: NeedsRebuild() is true then.
    std::function<void()> on_lost = [] {};
  };
  // A controlled Q_Key, as §13 asks for. The lower half is that of OpenSM's IPoIB groups.
  static constexpr QKey kQKey = QKey(0x8000'0b1b);

  // Makes the queue pair if the port is in the partition; otherwise Rebuild does so later.
  // `resources` outlive the link. kFailedPrecondition on an Ethernet link layer, which has no
  // IPoIB.
  static absl::StatusOr<std::unique_ptr<Link>> Create(const Options& options,
                                                      const FabricPort::Resources& resources);
  ~Link() override;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  Channel* channel() { return &channel_; }
  const Channel& channel() const { return channel_; }

  // Readable when the channel has sent requests; then call RunRequests.
  int requests_fd() const { return requests_.fd(); }
  void RunRequests();

  // FabricPortClient. Rebuild requires that the channel's thread is paused.
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
  bool is_up() const { return broadcast_->joined().has_value(); }
  // For the operator; LinkText and GroupsText are the texts of it.
  Json ToJson() const;
  Json GroupsJson() const;

 private:
  Link(const Options& options, const FabricPort::Resources& resources,
       std::unique_ptr<BufferPool> pool, const Gid& gid);

  void TakeDown(absl::string_view why);
  void LoseGroups(absl::string_view why);
  void ForEachGroup(absl::FunctionRef<void(GroupMembership*)> visit);
  void RebindGroups(UdEndpoint* endpoint);
  void NoteFailure();
  void OnRequest(const LinkRequest& request);
  void OnBroadcast(const absl::optional<GroupMembership::Joined>& joined);
  void TellState(const absl::optional<LinkState>& state, AhIndex ah);
  void TellPaths();
  void RetryEvents();
  IpoibLink link() const { return {queue_pair_.pkey().Full(), options_.scope}; }

  const Options options_;
  const FabricPort::Resources resources_;
  LinkRequestQueue requests_;
  LinkEventQueue event_queue_;
  QueueProducer<LinkEvent, LinkEventQueue> events_;
  absl::Time events_retried_at_ = absl::InfinitePast();
  bool paths_untold_ = false;  // kPaths is due once events_ is empty
  VPortDirectory directory_;
  std::unique_ptr<BufferPool> pool_;
  PartitionQueuePair queue_pair_;
  Channel channel_;
  std::unique_ptr<PathResolver> resolver_;
  std::unique_ptr<GroupMembership> broadcast_;
  LinkGroups groups_;
  absl::optional<LinkState> told_;
  AhIndex told_ah_ = AhIndex::None();
  absl::Time next_reclaim_;
};

std::string LinkText(const Json& link);

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_LINK_LINK_H_
