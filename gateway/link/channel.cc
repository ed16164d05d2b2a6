#include "gateway/link/channel.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "vswitch/wire/ip/ip_address.h"

namespace eoib::ipoib {
namespace {

// Between checks of waiting packets for expiry.
constexpr absl::Duration kLook = absl::Milliseconds(100);

absl::Status Watch(int epoll, int fd) {
  epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "wait for an IPoIB queue pair");
}

bool IsFrom(const Datagram& datagram, const IpoibAddress& address) {
  return datagram.has_grh && datagram.sgid == address.gid() && datagram.source_qpn == address.qpn();
}

}  // namespace

Channel::Channel(const Context& context)
    : context_(context),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      more_(MakeEventFd()),
      requests_(context.requests),
      peers_(context.directory, &requests_, context.clock),
      new_groups_(kNewGroupsPerSecond, kNewGroupsPerSecond, context.clock->Now()),
      next_idle_look_(context.clock->Now() + kAbsentGroupIdle) {
  Watch(epoll_.get(), more_.get()).IgnoreError();
  Watch(epoll_.get(), context.events->fd()).IgnoreError();
}

Channel::~Channel() {
  context_.pool->Free(draft_);  // freeing none does nothing
  for (size_t i = 0; i < posting_; ++i) context_.pool->Free(posts_[i].buffer);
  const auto free = [this](BufferId buffer) { context_.pool->Free(buffer); };
  held_.DropExpired(absl::InfiniteFuture(), free);
  held_for_groups_.DropExpired(absl::InfiniteFuture(), free);
}

// Address handles and source LIDs of the former queue pair may be void, so they are forgotten.
absl::Status Channel::Rebind(UdEndpoint* endpoint, const IpoibAddress& own) {
  for (; posting_ > 0; --posting_) Drop(DropReason::kLinkDown, posts_[posting_ - 1].buffer);
  if (endpoint_ != nullptr) {
    Reap();
    counters_.drops.Add(DropReason::kLinkDown, endpoint_->sends_in_flight());
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watched_, nullptr);
  }
  endpoint_ = endpoint;
  told_of_failure_ = false;
  own_ = own;
  state_changed_ |= std::exchange(state_, absl::nullopt).has_value();
  groups_.clear();
  peers_.ForgetSources();
  WorkSoon();
  if (endpoint_ == nullptr) return absl::OkStatus();
  watched_ = endpoint_->event_fd();
  endpoint_->Refill();
  return Watch(epoll_.get(), watched_);
}

// ---- Received -----------------------------------------------------------------------------------

void Channel::Work(int batches) {
  ClearEventFd(more_.get());
  requests_.Retry();
  TakeEvents();
  bool more = false;
  if (endpoint_ != nullptr) {
    endpoint_->DrainEvents();
    size_t left = static_cast<size_t>(batches) * kBatch;
    more = Receive(&left);
    // A completion between the last poll and arming raises no event, so poll once more.
    if (!more) more = endpoint_->Arm().ok() && Receive(&left);
  }
  Flush();
  if (more) WorkSoon();
}

// Receives batches, up to *left datagrams. True if there may be more. The listener may keep the
// packets of a batch to its end.
bool Channel::Receive(size_t* left) {
  while (*left != 0) {
    const size_t limit = std::min(*left, kBatch);
    const size_t count = endpoint_->Receive(absl::MakeSpan(batch_).first(limit));
    for (size_t i = 0; i < count; ++i) Deliver(batch_[i]);
    listener_->OnBatchEnd();
    for (size_t i = 0; i < count; ++i) context_.pool->Free(batch_[i].buffer);
    Reap();
    endpoint_->Refill();
    *left -= count;
    if (count < limit) return false;
  }
  return true;
}

void Channel::Deliver(const Datagram& datagram) {
  counters_.arrived.Add();
  if (!datagram.ok) return counters_.drops.Add(DropReason::kReceiveError);
  if (IsFrom(datagram, own_)) return counters_.drops.Add(DropReason::kOwnMulticast);
  uint8_t* const bytes = context_.pool->Frame(datagram.buffer) - kIpoibHeaderSize;
  const absl::optional<IpoibType> type = DecodeIpoibHeader({bytes, datagram.length});
  if (!type.has_value()) return counters_.drops.Add(DropReason::kNotIpoib);
  Packet packet;
  packet.type = *type;
  packet.payload = {bytes + kIpoibHeaderSize, datagram.length - kIpoibHeaderSize};
  packet.checksums_ok = datagram.checksums_ok;
  packet.group = datagram.has_grh && datagram.dgid.IsMulticast();
  packet.broadcast = packet.group && IsBroadcast(Mgid(datagram.dgid));
  packet.source = peers_.OnDatagram(datagram, *type, packet.payload);
  if (!state_.has_value()) return counters_.drops.Add(DropReason::kReceivedDown);
  CountReceived(packet, datagram.has_grh);
  listener_->OnPacket(packet);
}

void Channel::CountReceived(const Packet& packet, bool has_grh) {
  counters_.received.Add();
  counters_.received_bytes.Add(packet.payload.size());
  if (packet.group) counters_.received_groups.Add();
  if (!has_grh) counters_.received_without_grh.Add();
  if (!packet.source.has_value()) counters_.unknown_sources.Add();
}

// ---- Events of the Link -------------------------------------------------------------------------

void Channel::TakeEvents() {
  context_.events->Clear();
  LinkEvent event;
  bool paths = false;
  while (context_.events->Pop(&event)) {
    if (event.kind == LinkEvent::Kind::kState) TakeState(event);
    if (event.kind == LinkEvent::Kind::kGroup) TakeGroup(event);
    if (event.kind == LinkEvent::Kind::kNoRoom) {
      groups_.erase(event.mgid);
      for (const auto& held : TakeHeldFor(event.mgid))
        Drop(DropReason::kTooManyGroups, held.request.buffer);
    }
    if (event.kind == LinkEvent::Kind::kLids) peers_.ForgetSources();
    paths |= event.kind == LinkEvent::Kind::kPaths;
  }
  if (paths) RetryHeld();  // once, however many kPaths there were
  if (std::exchange(state_changed_, false)) listener_->OnLinkState();
}

void Channel::TakeState(const LinkEvent& event) {
  state_changed_ |= state_ != event.state;
  state_ = event.state;
  groups_.clear();  // handles of the former state; the next packet to a group asks for it again
  if (!state_.has_value()) return;
  TakeGroup({LinkEvent::Kind::kGroup, {}, ToMgid(BroadcastGroup(state_->link)), event.ah});
}

void Channel::TakeGroup(const LinkEvent& event) {
  Group& group = groups_[event.mgid];
  group.ah = event.ah;
  group.lookup = event.ah.IsNone() ? Group::Lookup::kAbsent : Group::Lookup::kExists;
  group.used = context_.clock->Now();
  for (const auto& held : TakeHeldFor(event.mgid))
    SendToMgid(held.key.mgid, held.key.beyond_link, held.request);
}

std::vector<Channel::HeldForGroups::Frame> Channel::TakeHeldFor(const Mgid& mgid) {
  std::vector<HeldForGroups::Frame> waited;
  held_for_groups_.TakeIf([&](const HeldForGroups::Frame& held) {
    if (held.key.mgid == mgid) waited.push_back(held);
    return held.key.mgid == mgid;
  });
  return waited;
}

// ---- To send ------------------------------------------------------------------------------------

void Channel::Drop(DropReason reason, BufferId buffer) {
  counters_.drops.Add(reason);
  context_.pool->Free(buffer);
}

BufferId Channel::Allocate() {
  const BufferId buffer = context_.pool->Allocate();
  if (!buffer.IsNone()) return buffer;
  Flush();  // posts the batch and frees the buffers of completed sends
  return context_.pool->Allocate();
}

absl::optional<SendRequest> Channel::Prepare(IpoibType type, absl::Span<const uint8_t> payload) {
  counters_.requested.Add();
  if (!state_.has_value() || endpoint_ == nullptr) {
    counters_.drops.Add(DropReason::kLinkDown);
  } else if (payload.size() > state_->mtu) {
    counters_.drops.Add(DropReason::kTooLarge);
  } else if (const BufferId buffer = TakeBufferFor(payload); buffer.IsNone()) {
    counters_.drops.Add(DropReason::kNoBuffer);
  } else {
    uint8_t* const bytes = context_.pool->Frame(buffer) - kIpoibHeaderSize;
    EncodeIpoibHeader(type, bytes);
    return SendRequest{buffer, bytes, static_cast<uint32_t>(kIpoibHeaderSize + payload.size()),
                       AhIndex::None(), Qpn()};
  }
  return absl::nullopt;
}

absl::Span<uint8_t> Channel::Draft() {
  if (draft_.IsNone()) draft_ = Allocate();
  if (draft_.IsNone()) return {};
  return {context_.pool->Frame(draft_), context_.pool->frame_size()};
}

// The buffer that has the payload, or a copy of it.
BufferId Channel::TakeBufferFor(absl::Span<const uint8_t> payload) {
  if (!draft_.IsNone() && payload.data() == context_.pool->Frame(draft_))
    return std::exchange(draft_, BufferId::None());
  const BufferId buffer = Allocate();
  if (!buffer.IsNone()) std::copy(payload.begin(), payload.end(), context_.pool->Frame(buffer));
  return buffer;
}

void Channel::Send(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) {
  const absl::optional<SendRequest> request = Prepare(type, payload);
  if (!request.has_value()) return;
  const VPortId vport = peers_.VPortOf(to);
  if (vport.IsNone()) return Drop(DropReason::kUnresolved, request->buffer);
  context_.directory->NoteHeard(vport);  // a peer that is sent to must not be reclaimed either
  if (const Route route = context_.directory->Get(vport); !route.ah.IsNone()) {
    SendRequest posted = *request;
    posted.ah = route.ah;
    posted.qpn = route.qpn;
    return Post(posted);
  }
  peers_.RequestPath(to);
  Hold(vport, *request);
}

void Channel::Hold(VPortId vport, const SendRequest& request) {
  context_.pool->Move(request.buffer, BufferPool::State::kHeld);
  counters_.held.Add();
  ExpireSoon(kHold);
  if (!held_.Add({vport, request, context_.clock->Now() + kHold}))
    Drop(DropReason::kUnresolved, request.buffer);
}

void Channel::RetryHeld() {
  held_.TakeIf([this](HeldFrames::Frame& held) {
    const Route route = context_.directory->Get(held.key);
    if (route.ah.IsNone()) return false;
    held.request.ah = route.ah;
    held.request.qpn = route.qpn;
    context_.pool->Move(held.request.buffer, BufferPool::State::kBatch);
    Post(held.request);
    return true;
  });
}

void Channel::SendToGroup(IpoibType type, absl::Span<const uint8_t> payload,
                          const IpoibGroup& group, bool beyond_link) {
  if (const absl::optional<SendRequest> request = Prepare(type, payload))
    SendToMgid(ToMgid(group), beyond_link, *request);
}

absl::optional<DropReason> Channel::LookForGroup(const Mgid& mgid) {
  const absl::Time now = context_.clock->Now();
  if (groups_.size() >= kGroups) return DropReason::kGroupUnresolved;
  if (!listened_.contains(mgid) && !new_groups_.Take(now)) return DropReason::kTooManyGroups;
  groups_[mgid].used = now;
  requests_.Push({LinkRequest::Kind::kSendTo, {}, mgid});
  return absl::nullopt;
}

bool Channel::Reaches(const IpoibGroup& group) {
  if (!state_.has_value() || endpoint_ == nullptr) return false;
  const auto found = groups_.find(ToMgid(group));
  if (found != groups_.end()) return found->second.lookup == Group::Lookup::kExists;
  LookForGroup(ToMgid(group));
  return false;
}

// RFC 4391 §10: a packet for a group that does not exist goes to all routers, if its scope is
// larger than the link.
void Channel::SendToMgid(const Mgid& mgid, bool beyond_link, const SendRequest& request) {
  const auto found = groups_.find(mgid);
  if (found == groups_.end()) {
    if (const auto reason = LookForGroup(mgid)) return Drop(*reason, request.buffer);
    return HoldForGroup(mgid, beyond_link, request);
  }
  Group& group = found->second;
  group.used = context_.clock->Now();
  if (group.lookup == Group::Lookup::kPending) return HoldForGroup(mgid, beyond_link, request);
  if (group.lookup == Group::Lookup::kAbsent) {
    return beyond_link ? SendToRouters(mgid, request) : Drop(DropReason::kNoGroup, request.buffer);
  }
  SendRequest posted = request;
  posted.ah = group.ah;
  posted.qpn = Qpn(Qpn::kMulticast);
  counters_.sent_groups.Add();
  Post(posted);
}

void Channel::SendToRouters(const Mgid& absent, const SendRequest& request) {
  const absl::optional<IpoibGroup> group = ParseIpoibMgid(absent);
  if (!group.has_value()) return Drop(DropReason::kNoGroup, request.buffer);
  const bool is_ipv4 = group->family == IpoibGroup::Family::kIpv4;
  counters_.to_all_routers.Add();
  SendToMgid(
      ToMgid(is_ipv4 ? *GroupOf(group->link, kAllRouters4) : *GroupOf(group->link, kAllRouters6)),
      false, request);
}

void Channel::HoldForGroup(const Mgid& mgid, bool beyond_link, const SendRequest& request) {
  counters_.held.Add();
  ExpireSoon(kHold);
  if (!held_for_groups_.Add({{mgid, beyond_link}, request, context_.clock->Now() + kHold}))
    Drop(DropReason::kGroupUnresolved, request.buffer);
}

void Channel::Listen(const IpoibGroup& group) {
  const Mgid mgid = ToMgid(group);
  listened_.insert(mgid);
  // A send-only membership becomes a full one, with another handle; the next packet asks for that.
  if (state_.has_value() && !IsBroadcast(mgid)) groups_.erase(mgid);
  requests_.Push({LinkRequest::Kind::kListen, {}, mgid});
}

void Channel::Unlisten(const IpoibGroup& group) {
  listened_.erase(ToMgid(group));
  requests_.Push({LinkRequest::Kind::kUnlisten, {}, ToMgid(group)});
}

void Channel::Post(const SendRequest& request) {
  posts_[posting_++] = request;
  counters_.sent_bytes.Add(request.length - kIpoibHeaderSize);
  if (posting_ == kBatch) Flush();
}

void Channel::Flush() {
  const size_t count = std::exchange(posting_, 0);
  if (endpoint_ == nullptr) {
    for (size_t i = 0; i < count; ++i) Drop(DropReason::kLinkDown, posts_[i].buffer);
    return;
  }
  if (count != 0) endpoint_->Send({posts_.data(), count}, {results_.data(), count});
  for (size_t i = 0; i < count; ++i) {
    if (results_[i] == eoib::DropReason::kNone) continue;
    const bool full = results_[i] == eoib::DropReason::kSendQueueFull;
    // Control has just replaced the address handle.
    const bool stale = results_[i] == eoib::DropReason::kUnresolved;
    if (stale && posts_[i].qpn == Qpn(Qpn::kMulticast)) ForgetHandle(posts_[i].ah);
    Drop(full    ? DropReason::kSendQueueFull
         : stale ? DropReason::kUnresolved
                 : DropReason::kSendError,
         posts_[i].buffer);
  }
  Reap();
}

size_t Channel::UnderWay() const {
  return posting_ + held_.size() + held_for_groups_.size() +
         (endpoint_ != nullptr ? endpoint_->sends_in_flight() : 0);
}

void Channel::Reap() {
  size_t failed = 0;
  const size_t completed = endpoint_->ReapSends(&failed);
  counters_.sent.Add(completed - failed);
  if (failed != 0) counters_.drops.Add(DropReason::kSendError, failed);
  // Link::NoteFailure.
  if (endpoint_->failed() && !std::exchange(told_of_failure_, true)) context_.requests->Notify();
}

// ---- Time ---------------------------------------------------------------------------------------

void Channel::ExpireSoon(absl::Duration wait) {
  expire_at_ = std::min(expire_at_, context_.clock->Now() + wait);
}

void Channel::Expire() {
  const absl::Time now = context_.clock->Now();
  expire_at_ = absl::InfiniteFuture();
  requests_.Retry();
  held_.DropExpired(now, [&](BufferId buffer) { Drop(DropReason::kUnresolved, buffer); });
  held_for_groups_.DropExpired(
      now, [&](BufferId buffer) { Drop(DropReason::kGroupUnresolved, buffer); });
  if (!held_.empty() || !held_for_groups_.empty() || requests_.waiting() != 0) ExpireSoon(kLook);
  if (now < next_idle_look_) return;
  ForgetIdleGroups();
  WorkSoon();  // a queue pair may have failed without an event
}

bool Channel::IsBroadcast(const Mgid& mgid) const {
  return state_.has_value() && mgid == ToMgid(BroadcastGroup(state_->link));
}

// The event with a group's new handle may have crossed with our kForget; the Link would then not
// repeat it. So the group is forgotten here, and the next packet asks again. The broadcast group's
// handle comes with each state.
void Channel::ForgetHandle(AhIndex ah) {
  absl::erase_if(groups_, [&](const auto& entry) {
    return entry.second.ah == ah && !IsBroadcast(entry.first);
  });
}

void Channel::ForgetIdleGroups() {
  const absl::Time now = context_.clock->Now();
  next_idle_look_ = now + kAbsentGroupIdle;
  absl::erase_if(groups_, [&](const auto& entry) {
    const absl::Duration patience =
        entry.second.lookup == Group::Lookup::kAbsent ? kAbsentGroupIdle : kGroupIdle;
    if (IsBroadcast(entry.first) || entry.second.used + patience > now) return false;
    requests_.Push({LinkRequest::Kind::kForget, {}, entry.first});
    return true;
  });
}

}  // namespace eoib::ipoib
