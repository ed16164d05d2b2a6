// Link: the control half of an IPoIB interface (RFC 4391). It owns the queue pair, joins the broadcast group, whose record sets
// the parameters of the link (§5), has LinkGroups join the others, and resolves the paths to peers.
//
// Control thread, except the channel, which belongs to the data path's thread.
#ifndef EOIB_GATEWAY_IPOIB_LINK_H_
#define EOIB_GATEWAY_IPOIB_LINK_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "control/fabric_port.h"
#include "control/fabric_port_client.h"
#include "control/group_membership.h"
#include "control/partition_queue_pair.h"
#include "control/path_resolver.h"
#include "fdb/vport_directory.h"
#include "gateway/ipoib/channel.h"
#include "gateway/ipoib/interface.h"
#include "gateway/ipoib/link_groups.h"
#include "gateway/ipoib/link_queues.h"
#include "vswitch/fabric/buffer_pool.h"

namespace eoib::ipoib {

class Link final : public FabricPortClient {
 public:
  struct Options {
    std::string name;  // in messages
    PKey pkey;
    MulticastScope scope = MulticastScope::LinkLocal();  // of the broadcast group: §4 leaves it to the administrator
    bool create = true;     // create the broadcast group if it does not exist; §5 would have an administrator do it
    QKey qkey = kQKey;      // of a broadcast group that is created
    GroupParameters group;  // likewise
    bool grh = true;        // send unicast within the subnet with a GRH; Linux does not
    bool all_groups = false;
    size_t groups_limit = 4096;             // a quarter is reserved for groups that the channel listens to
    std::function<void()> on_lost = [] {};  // called when the channel has lost its queue pair: NeedsRebuild() is true then
  };
  // A controlled Q_Key, as §13 asks for. The lower half is that of OpenSM's IPoIB groups.
  static constexpr QKey kQKey = QKey(0x8000'0b1b);

  // Makes the queue pair if the port is in the partition; otherwise Rebuild does so later. `resources` outlive the link.
  // kFailedPrecondition on an Ethernet link layer, which has no IPoIB.
  static absl::StatusOr<std::unique_ptr<Link>> Create(const Options& options, const FabricPort::Resources& resources);
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
  Link(const Options& options, const FabricPort::Resources& resources, std::unique_ptr<BufferPool> pool, const Gid& gid);

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

#endif  // EOIB_GATEWAY_IPOIB_LINK_H_
