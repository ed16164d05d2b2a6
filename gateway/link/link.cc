#include "gateway/link/link.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/log.h"

namespace eoib::ipoib {
namespace {

constexpr int kDepth = 512;  // of the send queue, and of the receive queue
constexpr size_t kBuffers =
    2 * kDepth + 2 * Channel::kBatch + HeldFrames::kCapacity + Channel::kHeldForGroups;
const size_t kLargestPacket = MtuBytes(static_cast<uint8_t>(IbMtu::k4096)) - kIpoibHeaderSize;
constexpr int kRequestsPerTurn = 256;
constexpr absl::Duration kReclaimInterval = absl::Minutes(1);
// Between attempts to push into a full queue.
constexpr absl::Duration kEventInterval = absl::Milliseconds(10);

}  // namespace

Link::Link(const Options& options, const FabricPort::Resources& resources,
           std::unique_ptr<BufferPool> pool, const Gid& gid)
    : options_(options),
      resources_(resources),
      events_(&event_queue_),
      pool_(std::move(pool)),
      queue_pair_({options.name,
                   options.pkey,
                   {.qkey = options.qkey, .receive_depth = kDepth, .send_depth = kDepth}},
                  resources, pool_.get(), gid),
      channel_({pool_.get(), &directory_, &requests_, &event_queue_, resources.clock}),
      groups_({options.name, options.scope, options.all_groups, options.local_groups,
               options.groups_limit},
              {resources, &queue_pair_, &events_}),
      next_reclaim_(resources.clock->Now() + kReclaimInterval) {}

absl::StatusOr<std::unique_ptr<Link>> Link::Create(const Options& options,
                                                   const FabricPort::Resources& resources) {
  if (resources.sa == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        options.name, ": ", resources.hca->name(),
        " is RoCE, and there is no IPoIB on an Ethernet link layer; name an InfiniBand port"));
  }
  const absl::StatusOr<HcaPortInfo> port = resources.hca->QueryPort();
  if (!port.ok()) return port.status();
  auto pool = BufferPool::Create(resources.hca, resources.pd, kBuffers, kLargestPacket);
  if (!pool.ok()) return pool.status();
  auto link = std::unique_ptr<Link>(new Link(options, resources, *std::move(pool), port->gid));
  Link* const self = link.get();
  link->resolver_ = std::make_unique<PathResolver>(
      PathResolver::Source{.sa = resources.sa, .grh = options.grh}, resources.handles,
      &link->directory_, resources.clock, port->gid, options.pkey, [self] { self->TellPaths(); });
  link->broadcast_ = std::make_unique<GroupMembership>(
      GroupMembership::Options{.mgid = ToMgid(BroadcastGroup(link->link())),
                               .pkey = options.pkey,
                               .qkey = options.qkey,
                               .parameters = options.group,
                               .may_create = options.create,
                               .what = "IPoIB broadcast group"},
      resources.hca, resources.sa, resources.handles, /*endpoint=*/nullptr, resources.clock,
      [self](const absl::optional<GroupMembership::Joined>& joined) { self->OnBroadcast(joined); });
  link->groups_.SetBroadcast(link->broadcast_.get());
  if (absl::Status status = link->Rebuild(); !status.ok()) return status;
  return link;
}

Link::~Link() {
  groups_.Clear();
  broadcast_.reset();
  resolver_.reset();
  channel_.Rebind(nullptr, {}).IgnoreError();
}

// ---- The queue pair -----------------------------------------------------------------------------

void Link::NoteLoss(const ibv_async_event& event) { queue_pair_.NoteLoss(event); }
bool Link::NeedsRebuild() const { return queue_pair_.NeedsReplacement(); }

absl::Status Link::Rebuild() {
  absl::Status rebound;
  const absl::Status status = queue_pair_.Replace([&](UdEndpoint* endpoint) {
    rebound = channel_.Rebind(endpoint, {endpoint->qpn(), queue_pair_.gid()});
    TellState(absl::nullopt, AhIndex::None());
    resolver_->SetOwn(queue_pair_.gid(), queue_pair_.pkey());
    RebindGroups(endpoint);
  });
  if (status.ok()) return rebound;
  TakeDown(status.message());
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

void Link::TakeDown(absl::string_view why) {
  if (broadcast_->trouble() != why)
    LogWarning(absl::StrCat(why, "; the link is down until this is fixed"));
  LoseGroups(why);
  RebindGroups(nullptr);
  channel_.Rebind(nullptr, {}).IgnoreError();
  queue_pair_.Drop();
}

void Link::RebindGroups(UdEndpoint* endpoint) {
  ForEachGroup([&](GroupMembership* group) { group->Rebind(endpoint, queue_pair_.pkey()); });
}

// RunRequests calls this, because the channel notifies the queue of requests when its endpoint has
// failed.
void Link::NoteFailure() {
  if (queue_pair_.NoteFailure()) options_.on_lost();
}

// ---- The subnet ---------------------------------------------------------------------------------

void Link::Start() { broadcast_->Join(); }

void Link::Stop(std::function<void()> done) {
  auto waiting = std::make_shared<size_t>(groups_.size() + 1);
  const auto one_done = [waiting, done = std::move(done)] {
    if (--*waiting == 0) done();
  };
  groups_.ForEach([&](GroupMembership* group) { group->Leave(one_done); });
  broadcast_->Leave(one_done);
}

// Another subnet manager may have given LIDs to other ports, so the channel clears its SourceTable
// even on a light refresh. Senders without a GRH soon name themselves again in ARP or neighbour
// discovery.
void Link::Refresh(RefreshDepth depth) {
  events_.Push({.kind = LinkEvent::Kind::kLids});
  ForEachGroup([depth](GroupMembership* group) {
    depth == RefreshDepth::kLight ? group->Join() : group->Renew();
  });
  resolver_->RefreshAll();
}

void Link::OnPortDown(absl::string_view why) {
  if (has_queue_pair()) LoseGroups(why);  // without one, the reason for that stays the one to show
}

void Link::LoseGroups(absl::string_view why) {
  ForEachGroup([why](GroupMembership* group) { group->Lost(why); });
}

void Link::ForEachGroup(absl::FunctionRef<void(GroupMembership*)> visit) {
  visit(broadcast_.get());
  groups_.ForEach(visit);
}

void Link::OnNotice(SmTrap trap, const Gid& gid) {
  if (trap == SmTrap::kGidInService) return resolver_->OnInService(gid);
  if (trap == SmTrap::kGidOutOfService) return resolver_->OnOutOfService(gid);
  const Mgid mgid(gid);
  if (mgid != broadcast_->mgid()) return groups_.OnNotice(trap, mgid);
  trap == SmTrap::kGroupCreated ? broadcast_->OnCreated() : broadcast_->OnDeleted();
}

void Link::OnBroadcast(const absl::optional<GroupMembership::Joined>& joined) {
  if (!joined.has_value()) return TellState(absl::nullopt, AhIndex::None());
  const IpoibAddress own(queue_pair_.get()->qpn(), queue_pair_.gid());
  const uint32_t mtu =
      static_cast<uint32_t>(joined->mtu_bytes) - static_cast<uint32_t>(kIpoibHeaderSize);
  TellState(LinkState{own, link(), mtu, !queue_pair_.pkey().IsFullMember()}, joined->ah);
  groups_.Follow(joined->record);
}

void Link::TellState(const absl::optional<LinkState>& state, AhIndex ah) {
  if (told_ == state && told_ah_ == ah && state.has_value()) return;
  told_ = state;
  told_ah_ = ah;
  groups_.SetUp(state.has_value());
  events_.Push({.kind = LinkEvent::Kind::kState, .state = state, .ah = ah});
}

// ---- The channel --------------------------------------------------------------------------------

void Link::RunRequests() {
  requests_.Clear();
  RetryEvents();
  LinkRequest request;
  for (int taken = 0; taken < kRequestsPerTurn; ++taken) {
    if (!requests_.Pop(&request)) return NoteFailure();
    OnRequest(request);
  }
  requests_.Notify();  // to be called again
}

void Link::OnRequest(const LinkRequest& request) {
  switch (request.kind) {
    case LinkRequest::Kind::kPeer:
      return resolver_->OnPunt(request.punt);
    case LinkRequest::Kind::kListen:
      return groups_.Listen(request.mgid);
    case LinkRequest::Kind::kUnlisten:
      return groups_.Unlisten(request.mgid);
    case LinkRequest::Kind::kSendTo:
      return groups_.JoinToSend(request.mgid);
    case LinkRequest::Kind::kForget:
      return groups_.Forget(request.mgid);
  }
}

// ---- Time, and the operator ---------------------------------------------------------------------

void Link::Run() {
  broadcast_->Run();
  groups_.Run();
  resolver_->Run();
  RetryEvents();
  resources_.handles->Reap();
  if (resources_.clock->Now() < next_reclaim_) return;
  next_reclaim_ = resources_.clock->Now() + kReclaimInterval;
  directory_.Reclaim([](VPortId) { return false; });
  resolver_->Reclaim();
}

absl::Time Link::NextDeadline() const {
  const absl::Time event =
      events_.waiting() != 0 ? events_retried_at_ + kEventInterval : absl::InfiniteFuture();
  return std::min({next_reclaim_, event, groups_.NextDeadline(), broadcast_->NextDeadline(),
                   resolver_->NextDeadline()});
}

void Link::RetryEvents() {
  events_.Retry();
  events_retried_at_ = resources_.clock->Now();
  if (paths_untold_) TellPaths();
}

// kPaths makes the channel try all held packets, so while it takes no events a second kPaths would
// add nothing.
void Link::TellPaths() {
  paths_untold_ = events_.waiting() != 0;
  if (!paths_untold_) events_.Push({.kind = LinkEvent::Kind::kPaths});
}

Json Link::ToJson() const {
  Json group = {{"mgid", broadcast_->mgid().ToString()}};
  const absl::optional<GroupMembership::Joined>& joined = broadcast_->joined();
  group["state"] = joined.has_value() ? "joined" : "not joined";
  if (joined.has_value()) {
    group["mlid"] = joined->mlid.ToString();
    group["qkey"] = joined->qkey.ToString();
    group["mtu"] = joined->mtu_bytes;
  } else {
    group["trouble"] = broadcast_->trouble();
  }
  Json json = {{"name", options_.name},
               {"pkey", queue_pair_.pkey().ToString()},
               {"qpn", queue_pair_.QpnText()},
               {"broadcast_group", std::move(group)}};
  if (joined.has_value())
    json["address"] = IpoibAddress(queue_pair_.get()->qpn(), queue_pair_.gid()).ToString();
  return json;
}

Json Link::GroupsJson() const { return groups_.ToJson(); }

std::string LinkText(const Json& link) {
  const Json& group = link["broadcast_group"];
  const std::string text = absl::StrCat(TextOf(link, "name"), ": P_Key ", TextOf(link, "pkey"),
                                        ", QPN ", TextOf(link, "qpn"), "\n  broadcast group ",
                                        TextOf(group, "mgid"), ": ", TextOf(group, "state"));
  if (!link.contains("address")) return absl::StrCat(text, ": ", TextOf(group, "trouble"), "\n");
  return absl::StrCat(text, ", MLID ", TextOf(group, "mlid"), ", Q_Key ", TextOf(group, "qkey"),
                      ", MTU ", TextOf(group, "mtu"), "\n  address ", TextOf(link, "address"),
                      "\n");
}

}  // namespace eoib::ipoib
