#include "gateway/link/link_groups.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace eoib::ipoib {
namespace {

// Between queries for groups. The answer has all groups of the partition, which are many in a large
// one; so without all_groups, which an operator asks for, the queries are rarer.
constexpr absl::Duration kLookInterval = absl::Minutes(1);
constexpr absl::Duration kLocalLookInterval = absl::Minutes(10);
constexpr absl::Duration kLookAgain = absl::Seconds(5);  // after a failed query

// The parameters that other groups take from the broadcast group's record
// (GroupMembership::BaseRecord).
auto InheritedParameters(const McMemberRecord& record) {
  return std::make_tuple(record.qkey, record.mtu, record.rate, record.life, record.sl,
                         record.traffic_class, record.flow_label, record.hop_limit);
}

const char* RoleName(uint8_t join_state) {
  if (join_state == kFullMember) return "member";
  if (join_state == 0) return "leaving";
  return (join_state & kNonMember) != 0 ? "listener" : "sender";
}

}  // namespace

LinkGroups::LinkGroups(const Options& options, const Context& context)
    : options_(options),
      context_(context),
      room_log_(context.resources.clock, 1, absl::Minutes(1)),
      look_log_(context.resources.clock, 1, absl::Minutes(1)) {}

void LinkGroups::Clear() {
  look_.Cancel();
  groups_.clear();
}

// ---- The broadcast group, and the queue pair ----------------------------------------------------

void LinkGroups::ForEach(absl::FunctionRef<void(GroupMembership*)> visit) {
  for (auto& [mgid, group] : groups_) visit(group.membership.get());
}

void LinkGroups::OnNotice(SmTrap trap, const Mgid& mgid) {
  const auto group = groups_.find(mgid);
  if (group == groups_.end() || group->second.leaving.pending()) {
    if (trap == SmTrap::kGroupCreated && IsOverheard(mgid)) Join(mgid, kNonMember);
  } else if (trap == SmTrap::kGroupCreated) {
    group->second.membership->OnCreated();
  } else {
    group->second.membership->OnDeleted();
  }
}

// The other groups follow the broadcast group's record (§10): if it has changed, leave and join
// them again.
void LinkGroups::Follow(const McMemberRecord& record) {
  const bool same = broadcast_record_.has_value() &&
                    InheritedParameters(*broadcast_record_) == InheritedParameters(record);
  broadcast_record_ = record;
  for (auto& [mgid, group] : groups_) {
    if (!same) {
      ChangeMembership(mgid, group.join_state);
    } else if (!group.membership->joined().has_value()) {
      group.membership->Join();
    }
    Tell(mgid, group);
  }
  if (options_.all_groups || options_.local_groups) LookForGroups();
}

void LinkGroups::JoinToSend(const Mgid& mgid) {
  Join(mgid, kSendOnlyNonMember);
  const auto group = groups_.find(mgid);
  if (group == groups_.end())
    return context_.events->Push({.kind = LinkEvent::Kind::kNoRoom, .mgid = mgid});
  group->second.told = true;
  Tell(mgid, group->second);
}

// A full member may send and receive, so it never needs another membership. A group that is
// overheard is joined as non-member and send-only at once: §11 does not promise a non-member that
// it can send, and a send-only member does not receive.
void LinkGroups::Join(const Mgid& mgid, uint8_t join_state) {
  if (mgid == broadcast_->mgid()) return;
  if (join_state != kFullMember && IsOverheard(mgid)) join_state = kNonMember | kSendOnlyNonMember;
  const auto found = groups_.find(mgid);
  const uint8_t before = found == groups_.end() ? kNoMember : found->second.join_state;
  if (before == kFullMember || before == join_state) return;
  if (found == groups_.end() && !HasRoomFor(mgid, join_state)) return Refuse(mgid, join_state);
  if (join_state == kFullMember) waiting_for_room_.erase(mgid);
  ChangeMembership(mgid, join_state);
}

// A sender to ever new groups cannot use up the quarter that is reserved for listening. There are
// 256 local groups at most.
bool LinkGroups::HasRoomFor(const Mgid& mgid, uint8_t join_state) const {
  return groups_.size() <
         (join_state == kFullMember || IsLocal(mgid) ? options_.limit : options_.limit / 4 * 3);
}

void LinkGroups::Refuse(const Mgid& mgid, uint8_t join_state) {
  if (join_state == kFullMember) {
    waiting_for_room_.insert(mgid);
    Evict();
  }
  int suppressed = 0;
  if (!room_log_.Allow(&suppressed)) return;
  LogWarning(absl::StrCat(
      options_.name, ": no room for group ", mgid.ToString(), " (and ", suppressed,
      " others) beside ", groups_.size(),
      "; to listen, it waits until another goes: unless a host scans the link, divide the hosts "
      "among several links"));
}

// Frees one entry: the first group that is only sent to and does not exist.
void LinkGroups::Evict() {
  const auto idle = std::find_if(groups_.begin(), groups_.end(),
                                 [this](const auto& entry) { return CanEvict(entry.second); });
  if (idle != groups_.end()) EvictGroup(idle->first, idle->second);
}

void LinkGroups::EvictGroup(const Mgid& mgid, const Group& group) {
  if (group.told) context_.events->Push({.kind = LinkEvent::Kind::kNoRoom, .mgid = mgid});
  ChangeMembership(mgid, kNoMember);
}

// A group that does not exist stays only while the channel sends to it and no group to listen to
// waits for room.
bool LinkGroups::CanEvict(const Group& group) const {
  if (group.join_state == kFullMember || group.leaving.pending() || !group.membership->refused())
    return false;
  return !group.told || !waiting_for_room_.empty();
}

// Changes or ends a membership. The next join waits for the SA's answer to the leave: MADs may be
// repeated or reordered, and a Delete that arrives after the Set would silently end the new
// membership.
void LinkGroups::ChangeMembership(Mgid mgid, uint8_t join_state) {
  Group& group = groups_[mgid];
  group.join_state = join_state;
  if (group.membership == nullptr) return OnLeft(mgid);
  if (group.leaving.pending()) return;
  group.membership->Leave(group.leaving.Await([this, mgid] { OnLeft(mgid); }));
}

void LinkGroups::OnLeft(const Mgid& mgid) {
  const auto found = groups_.find(mgid);
  Group& group = found->second;
  if (group.join_state == kNoMember) {
    groups_.erase(found);
    if (!waiting_for_room_.empty())
      Join(waiting_for_room_.extract(waiting_for_room_.begin()).value(), kFullMember);
    return;
  }
  MakeMembership(mgid, &group);
  if (broadcast_->joined().has_value()) group.membership->Join();
}

void LinkGroups::MakeMembership(const Mgid& mgid, Group* group) {
  GroupMembership::Options options;
  options.mgid = mgid;
  options.pkey = context_.queue_pair->pkey();
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
  group->membership = std::make_unique<GroupMembership>(
      options, context_.resources.hca, context_.resources.sa, context_.resources.handles,
      context_.queue_pair->get(), context_.resources.clock,
      [tell](const absl::optional<GroupMembership::Joined>&) { tell(); });
}

// Tells the channel once the SA has answered; until then packets to the group wait.
void LinkGroups::Tell(const Mgid& mgid, const Group& group) {
  if (!group.told || !up_) return;
  const absl::optional<GroupMembership::Joined>& joined = group.membership->joined();
  if (!joined.has_value() && !group.membership->refused()) return;
  context_.events->Push({.kind = LinkEvent::Kind::kGroup,
                         .mgid = mgid,
                         .ah = joined.has_value() ? joined->ah : AhIndex::None()});
}

void LinkGroups::Unlisten(const Mgid& mgid) {
  waiting_for_room_.erase(mgid);
  const auto found = groups_.find(mgid);
  if (found == groups_.end() || found->second.join_state != kFullMember) return;
  const uint8_t sender = found->second.told ? uint8_t{kSendOnlyNonMember} : kNoMember;
  ChangeMembership(mgid, IsOverheard(mgid) ? kNonMember | kSendOnlyNonMember : sender);
}

void LinkGroups::Forget(const Mgid& mgid) {
  const auto found = groups_.find(mgid);
  if (found == groups_.end()) return;
  found->second.told = false;
  // A group to listen to stays. A group that is overheard stays, too, while it exists; one that was
  // only sent to goes.
  const Group& group = found->second;
  if (group.join_state == kFullMember ||
      (group.join_state != kSendOnlyNonMember && !group.membership->refused()))
    return;
  ChangeMembership(mgid, kNoMember);
}

bool LinkGroups::IsOfLink(const Mgid& mgid) const {
  const absl::optional<IpoibGroup> group = ParseIpoibMgid(mgid);
  return group.has_value() &&
         group->link == IpoibLink{context_.queue_pair->pkey().Full(), options_.scope};
}

// Whether it is of 224.0.0.0/24, the Local Network Control Block (RFC 5771 §4), and those are
// joined. Link-local groups of IPv6 are not, because hosts report all of them but ff02::1 (RFC 3810
// §6).
bool LinkGroups::IsLocal(const Mgid& mgid) const {
  const absl::optional<IpoibGroup> group = ParseIpoibMgid(mgid);
  return options_.local_groups && group.has_value() && group->ipv4.value() >> 8 == 0xe0'0000;
}

// Whether to join the group because others have created it.
bool LinkGroups::IsOverheard(const Mgid& mgid) const {
  return IsOfLink(mgid) && (options_.all_groups || IsLocal(mgid));
}

// §11 A and B. An SA cannot match the IPoIB signature inside an MGID, so the query is for all
// groups of the partition.
void LinkGroups::LookForGroups() {
  next_look_ = absl::InfiniteFuture();
  McMemberRecord record;
  record.pkey = context_.queue_pair->pkey().Full();
  context_.resources.sa->QueryGroups(
      record, mcm::kPKey,
      look_.Await([this](const absl::StatusOr<std::vector<McMemberRecord>>& answer) {
        FoundGroups(answer);
      }));
}

void LinkGroups::FoundGroups(const absl::StatusOr<std::vector<McMemberRecord>>& found) {
  const absl::Duration interval = options_.all_groups ? kLookInterval : kLocalLookInterval;
  next_look_ = context_.resources.clock->Now() + (found.ok() ? interval : kLookAgain);
  if (!found.ok() && look_log_.Allow())
    LogWarning(absl::StrCat(options_.name, ": ", found.status().message()));
  if (!found.ok()) return;
  for (const McMemberRecord& group : *found) {
    if (IsOverheard(group.mgid)) Join(group.mgid, kNonMember);
  }
}

// Runs only memberships whose join was refused: there may be thousands of groups, and most need
// nothing.
void LinkGroups::Retry() {
  while (!retries_.empty() && retries_.begin()->first <= context_.resources.clock->Now()) {
    const auto group = groups_.find(retries_.extract(retries_.begin()).mapped());
    if (group == groups_.end()) continue;
    if (CanEvict(group->second)) {
      EvictGroup(group->first, group->second);
    } else {
      group->second.membership->Run();
    }
  }
}

Json LinkGroups::ToJson() const {
  Json rows = Json::array();
  for (const auto& [mgid, group] : groups_) {
    const bool joined = group.membership->joined().has_value();
    rows.push_back({{"mgid", mgid.ToString()},
                    {"role", RoleName(group.join_state)},
                    {"state", joined ? "joined" : "not joined"}});
    if (!joined) rows.back()["trouble"] = group.membership->trouble();
  }
  return rows;
}

std::string GroupsText(const Json& groups) {
  std::string text;
  for (const Json& group : groups) {
    const bool joined = TextOf(group, "state") == "joined";
    absl::StrAppend(&text, TextOf(group, "mgid"), "  ", TextOf(group, "role"),
                    joined ? "" : "  not joined: ", TextOf(group, "trouble"), "\n");
  }
  return text;
}

void LinkGroups::Run() {
  Retry();
  if (context_.resources.clock->Now() >= next_look_) LookForGroups();
}

absl::Time LinkGroups::NextDeadline() const {
  return retries_.empty() ? next_look_ : std::min(next_look_, retries_.begin()->first);
}

}  // namespace eoib::ipoib
