#include "gateway/ipoib/link.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/daemon/log.h"

namespace eoib::ipoib {
namespace {

constexpr int kDepth = 512;  // of the send queue, and of the receive queue
constexpr size_t kBuffers = 2 * kDepth + 2 * Channel::kBatch + HeldFrames::kCapacity + Channel::kHeldForGroups;
const size_t kLargestPacket = MtuBytes(static_cast<uint8_t>(IbMtu::k4096)) - kIpoibHeaderSize;
constexpr int kRequestsPerTurn = 256;
constexpr absl::Duration kReclaimInterval = absl::Minutes(1);
constexpr absl::Duration kLookInterval = absl::Minutes(1);        // between queries for groups
constexpr absl::Duration kLookAgain = absl::Seconds(5);           // after a failed query
constexpr absl::Duration kEventInterval = absl::Milliseconds(10);  // between attempts to push into a full queue

// The parameters that other groups take from the broadcast group's record (GroupMembership::BaseRecord).
auto InheritedParameters(const McMemberRecord& record) {
  return std::make_tuple(record.qkey, record.mtu, record.rate, record.life, record.sl, record.traffic_class, record.flow_label,
                         record.hop_limit);
}

const char* RoleName(uint8_t join_state) {
  if (join_state == kFullMember) return "member";
  if (join_state == 0) return "leaving";
  return (join_state & kNonMember) != 0 ? "listener" : "sender";
}

}  // namespace

Link::Link(const Options& options, const FabricPort::Tools& tools, std::unique_ptr<BufferPool> pool, const Gid& gid)
    : options_(options),
      tools_(tools),
      events_(&event_queue_),
      pool_(std::move(pool)),
      queue_pair_({options.name, options.pkey, {.qkey = options.qkey, .receive_depth = kDepth, .send_depth = kDepth}}, tools,
                  pool_.get(), gid),
      channel_({pool_.get(), &directory_, &requests_, &event_queue_, tools.clock}),
      room_log_(tools.clock, 1, absl::Minutes(1)),
      look_log_(tools.clock, 1, absl::Minutes(1)),
      next_reclaim_(tools.clock->Now() + kReclaimInterval) {}

absl::StatusOr<std::unique_ptr<Link>> Link::Create(const Options& options, const FabricPort::Tools& tools) {
  if (tools.sa == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(options.name, ": ", tools.hca->name(),
                     " is RoCE, and there is no IPoIB on an Ethernet link layer; name an InfiniBand port"));
  }
  const absl::StatusOr<HcaPortInfo> port = tools.hca->QueryPort();
  if (!port.ok()) return port.status();
  auto pool = BufferPool::Create(tools.hca, tools.pd, kBuffers, kLargestPacket);
  if (!pool.ok()) return pool.status();
  auto link = std::unique_ptr<Link>(new Link(options, tools, *std::move(pool), port->gid));
  Link* const self = link.get();
  link->resolver_ =
      std::make_unique<Resolver>(Resolver::Source{.sa = tools.sa, .grh = options.grh}, tools.handles, &link->directory_,
                                 tools.clock, port->gid, options.pkey, [self] { self->TellPaths(); });
  link->broadcast_ = std::make_unique<GroupMembership>(
      GroupMembership::Options{.mgid = ToMgid(BroadcastGroup(link->link())),
                               .pkey = options.pkey,
                               .qkey = options.qkey,
                               .parameters = options.group,
                               .may_create = options.create,
                               .what = "IPoIB broadcast group"},
      tools.hca, tools.sa, tools.handles, /*endpoint=*/nullptr, tools.clock,
      [self](const absl::optional<GroupMembership::Joined>& joined) { self->OnBroadcast(joined); });
  if (absl::Status status = link->Rebuild(); !status.ok()) return status;
  return link;
}

Link::~Link() {
  *alive_ = false;
  groups_.clear();
  broadcast_.reset();
  resolver_.reset();
  channel_.Rebind(nullptr, {}).IgnoreError();
}

// ---- The queue pair ---------------------------------------------------------------------------------------------------

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
  if (broadcast_->trouble() != why) LogWarning(absl::StrCat(why, "; it is down until that is mended"));
  LoseGroups(why);
  RebindGroups(nullptr);
  channel_.Rebind(nullptr, {}).IgnoreError();
  queue_pair_.Drop();
}

void Link::RebindGroups(UdEndpoint* endpoint) {
  broadcast_->Rebind(endpoint, queue_pair_.pkey());
  for (auto& [mgid, group] : groups_) group.membership->Rebind(endpoint, queue_pair_.pkey());
}

// RunRequests calls this, because the channel notifies the queue of requests when its endpoint has failed.
void Link::NoteFailure() {
  if (queue_pair_.NoteFailure()) options_.on_lost();
}

// ---- The subnet -------------------------------------------------------------------------------------------------------

void Link::Start() { broadcast_->Join(); }

void Link::Stop(std::function<void()> done) {
  auto waiting = std::make_shared<size_t>(groups_.size() + 1);
  const auto one_done = [waiting, done = std::move(done)] {
    if (--*waiting == 0) done();
  };
  for (auto& [mgid, group] : groups_) group.membership->Leave(one_done);
  broadcast_->Leave(one_done);
}

// Another subnet manager may have given LIDs to other ports, so the channel clears its SourceTable even on a light refresh.
// Senders without a GRH soon name themselves again in ARP or neighbour discovery.
void Link::Refresh(RefreshDepth depth) {
  events_.Push({.kind = LinkEvent::Kind::kLids});
  if (depth == RefreshDepth::kLight) {
    broadcast_->Join();
    for (auto& [mgid, group] : groups_) group.membership->Join();
  } else {
    broadcast_->Renew();
    for (auto& [mgid, group] : groups_) group.membership->Renew();
  }
  resolver_->RefreshAll();
}

void Link::OnPortDown(absl::string_view why) {
  if (has_queue_pair()) LoseGroups(why);  // without one, the reason for that stays the one to show
}

void Link::LoseGroups(absl::string_view why) {
  broadcast_->Lost(why);
  for (auto& [mgid, group] : groups_) group.membership->Lost(why);
}

void Link::OnNotice(SmTrap trap, const Gid& gid) {
  if (trap == SmTrap::kGidInService) return resolver_->OnInService(gid);
  if (trap == SmTrap::kGidOutOfService) return resolver_->OnOutOfService(gid);
  const Mgid mgid(gid);
  const auto group = groups_.find(mgid);
  GroupMembership* const membership = mgid == broadcast_->mgid()                         ? broadcast_.get()
                                      : group != groups_.end() && !group->second.leaving ? group->second.membership.get()
                                                                                         : nullptr;
  if (membership == nullptr) {
    if (trap == SmTrap::kGroupCreated && options_.all_groups && IsOfLink(mgid)) Join(mgid, kNonMember);
  } else if (trap == SmTrap::kGroupCreated) {
    membership->OnCreated();
  } else {
    membership->OnDeleted();
  }
}

void Link::OnBroadcast(const absl::optional<GroupMembership::Joined>& joined) {
  if (!joined.has_value()) return TellState(absl::nullopt, AhIndex::None());
  const IpoibAddress own(queue_pair_.get()->qpn(), queue_pair_.gid());
  const uint32_t mtu = static_cast<uint32_t>(joined->mtu_bytes) - static_cast<uint32_t>(kIpoibHeaderSize);
  TellState(LinkState{own, link(), mtu, !queue_pair_.pkey().IsFullMember()}, joined->ah);
  RenewGroups(joined->record);
}

void Link::TellState(const absl::optional<LinkState>& state, AhIndex ah) {
  if (told_ == state && told_ah_ == ah && state.has_value()) return;
  told_ = state;
  told_ah_ = ah;
  events_.Push({.kind = LinkEvent::Kind::kState, .state = state, .ah = ah});
}

// The other groups follow the broadcast group's record (§10): if it has changed, leave and join them again.
void Link::RenewGroups(const McMemberRecord& record) {
  const bool same = broadcast_record_.has_value() && InheritedParameters(*broadcast_record_) == InheritedParameters(record);
  broadcast_record_ = record;
  for (auto& [mgid, group] : groups_) {
    if (!same) {
      ChangeMembership(mgid, group.join_state);
    } else if (!group.membership->joined().has_value()) {
      group.membership->Join();
    }
    Tell(mgid, group);
  }
  if (options_.all_groups) LookForGroups();
}

// ---- Groups -----------------------------------------------------------------------------------------------------------

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
      return Join(request.mgid, kFullMember);
    case LinkRequest::Kind::kUnlisten:
      return Unlisten(request.mgid);
    case LinkRequest::Kind::kSendTo:
      return JoinToSend(request.mgid);
    case LinkRequest::Kind::kForget:
      return Forget(request.mgid);
  }
}

void Link::JoinToSend(const Mgid& mgid) {
  Join(mgid, kSendOnlyNonMember);
  const auto group = groups_.find(mgid);
  if (group == groups_.end()) return events_.Push({.kind = LinkEvent::Kind::kNoRoom, .mgid = mgid});
  group->second.told = true;
  Tell(mgid, group->second);
}

// A full member may send and receive, so it never needs another membership. With all_groups, others join as non-member and
// send-only at once: §11 does not promise a non-member that it can send, and a send-only member does not receive.
void Link::Join(const Mgid& mgid, uint8_t join_state) {
  if (mgid == broadcast_->mgid()) return;
  if (options_.all_groups && join_state != kFullMember) join_state = kNonMember | kSendOnlyNonMember;
  const auto found = groups_.find(mgid);
  const uint8_t before = found == groups_.end() ? kNoMember : found->second.join_state;
  if (before == kFullMember || before == join_state) return;
  if (found == groups_.end() && !HasRoomFor(join_state)) return Refuse(mgid, join_state);
  if (join_state == kFullMember) waiting_for_room_.erase(mgid);
  ChangeMembership(mgid, join_state);
}

// A sender to ever new groups cannot use up the quarter that is reserved for listening.
bool Link::HasRoomFor(uint8_t join_state) const {
  return groups_.size() < (join_state == kFullMember ? options_.groups_limit : options_.groups_limit / 4 * 3);
}

void Link::Refuse(const Mgid& mgid, uint8_t join_state) {
  if (join_state == kFullMember) {
    waiting_for_room_.insert(mgid);
    Evict();
  }
  int suppressed = 0;
  if (!room_log_.Allow(&suppressed)) return;
  LogWarning(absl::StrCat(options_.name, ": no room for group ", mgid.ToString(), " (and ", suppressed, " others) beside ",
                          groups_.size(),
                          "; to listen, it waits until another goes: unless a host scans the link, divide the hosts "
                          "among several links"));
}

// Frees one entry: the first group that is only sent to and does not exist.
void Link::Evict() {
  const auto idle = std::find_if(groups_.begin(), groups_.end(), [this](const auto& entry) { return CanEvict(entry.second); });
  if (idle != groups_.end()) EvictGroup(idle->first, idle->second);
}

void Link::EvictGroup(const Mgid& mgid, const Group& group) {
  if (group.told) events_.Push({.kind = LinkEvent::Kind::kNoRoom, .mgid = mgid});
  ChangeMembership(mgid, kNoMember);
}

// A group that does not exist stays only while the channel sends to it and no group to listen to waits for room.
bool Link::CanEvict(const Group& group) const {
  if (group.join_state == kFullMember || group.leaving || !group.membership->refused()) return false;
  return !group.told || !waiting_for_room_.empty();
}

// Changes or ends a membership. The next join waits for the SA's answer to the leave: MADs may be repeated or reordered, and a
// Delete that arrives after the Set would silently end the new membership.
void Link::ChangeMembership(Mgid mgid, uint8_t join_state) {
  Group& group = groups_[mgid];
  group.join_state = join_state;
  if (group.membership == nullptr) return OnLeft(mgid);
  if (std::exchange(group.leaving, true)) return;
  group.membership->Leave([this, alive = alive_, mgid] {
    if (*alive) OnLeft(mgid);
  });
}

void Link::OnLeft(const Mgid& mgid) {
  const auto found = groups_.find(mgid);
  Group& group = found->second;
  group.leaving = false;
  if (group.join_state == kNoMember) {
    groups_.erase(found);
    if (!waiting_for_room_.empty()) Join(waiting_for_room_.extract(waiting_for_room_.begin()).value(), kFullMember);
    return;
  }
  MakeMembership(mgid, &group);
  if (broadcast_->joined().has_value()) group.membership->Join();
}

void Link::MakeMembership(const Mgid& mgid, Group* group) {
  GroupMembership::Options options;
  options.mgid = mgid;
  options.pkey = queue_pair_.pkey();
  options.like = broadcast_record_.value_or(McMemberRecord());
  options.join_state = group->join_state;
  options.what = "IPoIB group";
  options.quiet = group->join_state != kFullMember;
  const auto tell = [this, mgid] {
    if (const auto found = groups_.find(mgid); found != groups_.end()) Tell(mgid, found->second);
  };
  options.on_failed = [this, mgid, tell] {
    if (const auto found = groups_.find(mgid); found != groups_.end()) {
      retries_.emplace(found->second.membership->NextDeadline(), mgid);
    }
    tell();
  };
  group->membership =
      std::make_unique<GroupMembership>(options, tools_.hca, tools_.sa, tools_.handles, queue_pair_.get(), tools_.clock,
                                        [tell](const absl::optional<GroupMembership::Joined>&) { tell(); });
}

// Tells the channel once the SA has answered; until then packets to the group wait.
void Link::Tell(const Mgid& mgid, const Group& group) {
  if (!group.told || !told_.has_value()) return;
  const absl::optional<GroupMembership::Joined>& joined = group.membership->joined();
  if (!joined.has_value() && !group.membership->refused()) return;
  events_.Push({.kind = LinkEvent::Kind::kGroup, .mgid = mgid, .ah = joined.has_value() ? joined->ah : AhIndex::None()});
}

void Link::Unlisten(const Mgid& mgid) {
  waiting_for_room_.erase(mgid);
  const auto found = groups_.find(mgid);
  if (found == groups_.end() || found->second.join_state != kFullMember) return;
  const uint8_t sender = found->second.told ? uint8_t{kSendOnlyNonMember} : kNoMember;
  ChangeMembership(mgid, options_.all_groups ? kNonMember | kSendOnlyNonMember : sender);
}

void Link::Forget(const Mgid& mgid) {
  const auto found = groups_.find(mgid);
  if (found == groups_.end()) return;
  found->second.told = false;
  // A group to listen to stays. With all_groups an existing group stays, too, but one that was only sent to and does not exist
  // goes.
  const Group& group = found->second;
  if (group.join_state == kFullMember || (group.join_state != kSendOnlyNonMember && !group.membership->refused())) return;
  ChangeMembership(mgid, kNoMember);
}

bool Link::IsOfLink(const Mgid& mgid) const {
  const absl::optional<IpoibGroup> group = ParseIpoibMgid(mgid);
  return group.has_value() && group->link == link();
}

// §11 A and B. An SA cannot match the IPoIB signature inside an MGID, so the query is for all groups of the partition.
void Link::LookForGroups() {
  next_look_ = absl::InfiniteFuture();
  McMemberRecord record;
  record.pkey = queue_pair_.pkey().Full();
  tools_.sa->QueryGroups(record, mcm::kPKey, [this, alive = alive_](const absl::StatusOr<std::vector<McMemberRecord>>& answer) {
    if (*alive) FoundGroups(answer);
  });
}

void Link::FoundGroups(const absl::StatusOr<std::vector<McMemberRecord>>& found) {
  next_look_ = tools_.clock->Now() + (found.ok() ? kLookInterval : kLookAgain);
  if (!found.ok() && look_log_.Allow()) LogWarning(absl::StrCat(options_.name, ": ", found.status().message()));
  if (!found.ok()) return;
  for (const McMemberRecord& group : *found) {
    if (IsOfLink(group.mgid)) Join(group.mgid, kNonMember);
  }
}

// ---- Time, and the operator -------------------------------------------------------------------------------------------

void Link::Run() {
  broadcast_->Run();
  RetryGroups();
  if (tools_.clock->Now() >= next_look_) LookForGroups();
  resolver_->Run();
  RetryEvents();
  tools_.handles->Reap();
  if (tools_.clock->Now() < next_reclaim_) return;
  next_reclaim_ = tools_.clock->Now() + kReclaimInterval;
  directory_.Reclaim([](VPortId) { return false; });
  resolver_->Reclaim();
}

absl::Time Link::NextDeadline() const {
  const absl::Time event = events_.waiting() != 0 ? events_retried_at_ + kEventInterval : absl::InfiniteFuture();
  const absl::Time retry = retries_.empty() ? absl::InfiniteFuture() : retries_.begin()->first;
  return std::min({next_reclaim_, next_look_, event, retry, broadcast_->NextDeadline(), resolver_->NextDeadline()});
}

void Link::RetryEvents() {
  events_.Retry();
  events_retried_at_ = tools_.clock->Now();
  if (paths_untold_) TellPaths();
}

// kPaths makes the channel try all held packets, so while it takes no events a second kPaths would add nothing.
void Link::TellPaths() {
  paths_untold_ = events_.waiting() != 0;
  if (!paths_untold_) events_.Push({.kind = LinkEvent::Kind::kPaths});
}

// Runs only memberships whose join was refused: there may be thousands of groups, and most need nothing.
void Link::RetryGroups() {
  while (!retries_.empty() && retries_.begin()->first <= tools_.clock->Now()) {
    const auto group = groups_.find(retries_.extract(retries_.begin()).mapped());
    if (group == groups_.end()) continue;
    if (CanEvict(group->second)) {
      EvictGroup(group->first, group->second);
    } else {
      group->second.membership->Run();
    }
  }
}

std::string Link::Show() const {
  std::string text = absl::StrCat(options_.name, ": P_Key ", queue_pair_.pkey().ToString(), ", QPN ", queue_pair_.QpnText(),
                                  "\n  broadcast group ", broadcast_->mgid().ToString());
  if (const absl::optional<GroupMembership::Joined>& joined = broadcast_->joined()) {
    absl::StrAppend(&text, ": joined, MLID ", joined->mlid.ToString(), ", Q_Key ", joined->qkey.ToString(), ", MTU ",
                    joined->mtu_bytes, "\n  address ", IpoibAddress(queue_pair_.get()->qpn(), queue_pair_.gid()).ToString(),
                    "\n");
  } else {
    absl::StrAppend(&text, ": not joined: ", broadcast_->trouble(), "\n");
  }
  return text;
}

std::string Link::ShowGroups() const {
  std::string text;
  for (const auto& [mgid, group] : groups_) {
    const bool joined = group.membership->joined().has_value();
    absl::StrAppend(&text, mgid.ToString(), "  ", RoleName(group.join_state),
                    joined ? "" : "  not joined: ", joined ? "" : group.membership->trouble(), "\n");
  }
  return text;
}

}  // namespace eoib::ipoib
