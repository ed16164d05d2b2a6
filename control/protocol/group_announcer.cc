#include "control/protocol/group_announcer.h"

#include <algorithm>
#include <utility>

#include "control/protocol/group_watch.h"

namespace eoib {
namespace {

// Messages a second, and in a burst.
constexpr double kRate = 20, kBurst = 20;

static_assert(GroupAnnouncer::kRepeat == absl::Seconds(30) &&
                  GroupWatch::kLongestPause == absl::Seconds(45),
              "the longest pause is kRepeat plus half");

}  // namespace

GroupAnnouncer::GroupAnnouncer(OwnAgent* own, ProtocolEvents* events, const Clock* clock,
                               RandomBits random, Send send, ProtocolCounters* counters)
    : own_(own),
      events_(events),
      clock_(clock),
      random_(std::move(random)),
      send_(std::move(send)),
      counters_(counters),
      budget_(kRate, kBurst, clock->Now()),
      bulk_(kBulkRate, kBulkBurst, clock->Now()),
      group_answers_(1 / absl::ToDoubleSeconds(kGroupAnswerAgain), kGroupAnswers, clock->Now()) {}

void GroupAnnouncer::Multicast(const VPortMessage& message) {
  ++counters_->group_messages;
  events_->SendToGroup(EncodeVPortMessage(message));
  newcomers_.clear();
  answer_at_ = absl::InfiniteFuture();
  const absl::Duration pause = repetitions_ < kRepeatNew.size()
                                   ? kRepeatNew[repetitions_]
                                   : kRepeat / 2 + RandomTime(random_, kRepeat);
  repeat_at_ = std::max(clock_->Now() + pause, repeated_at_ + kRepeatNew[1]);
}

void GroupAnnouncer::NoteNewcomer(const PeerAddress& peer) {
  const bool is_noted =
      std::any_of(newcomers_.begin(), newcomers_.end(),
                  [&](const Newcomer& newcomer) { return newcomer.peer == peer; });
  if (is_noted || newcomers_.size() >= kMaxNewcomers) return;
  newcomers_.push_back({peer, MayHaveState(peer.gid)});
  if (answer_at_ == absl::InfiniteFuture())
    answer_at_ = clock_->Now() + RandomTime(random_, kAnswerWithin);
}

void GroupAnnouncer::Run() {
  if (!own_->has_address()) return;
  AnnounceChanges();
  if (AnswerAt() <= clock_->Now()) AnswerNewcomers();
  if (repeat_at_ <= clock_->Now()) Repeat();
}

absl::Time GroupAnnouncer::NextDeadline() const {
  if (!own_->has_address()) return absl::InfiniteFuture();
  const absl::Time next = std::min(AnswerAt(), repeat_at_);
  if (!own_->has_changes()) return next;
  if (is_announcing_) return std::min(next, std::max(bulk_.NextToken(), pause_until_));
  const bool is_planned = announce_at_ != absl::InfiniteFuture();
  return std::min(next,
                  is_planned ? std::max(announce_at_, budget_.NextToken()) : absl::InfinitePast());
}

void GroupAnnouncer::AnnounceChanges() {
  if (!own_->has_changes()) return;
  const absl::Time now = clock_->Now();
  if (announce_at_ == absl::InfiniteFuture())
    announce_at_ = now + RandomTime(random_, kAnnounceWithin);
  if (now < announce_at_ || (!is_announcing_ && !budget_.Take(now))) return;
  is_announcing_ = true;
  while (own_->has_changes()) {
    if (events_->Room() <= kRoomLeft) pause_until_ = now + kPause;
    if (now < pause_until_ || !bulk_.Take(now)) return;
    repetitions_ = 0;
    for (const VPortMessage& message : own_->TakeChanges()) Multicast(message);
  }
  is_announcing_ = false;
  announce_at_ = absl::InfiniteFuture();
}

void GroupAnnouncer::Repeat() {
  if (repetitions_ < kRepeatNew.size()) ++repetitions_;
  repeated_at_ = clock_->Now();
  Multicast(own_->Header(VPortMessage::Kind::kAnnounce));
}

// Our first announcement will be the answer to all newcomers before it.
absl::Time GroupAnnouncer::AnswerAt() const {
  return own_->announced().version == 0 ? absl::InfiniteFuture() : answer_at_;
}

bool GroupAnnouncer::MayHaveState(const Gid& port) {
  const absl::Time now = clock_->Now();
  if (answered_.size() >= kMaxAnswered) {
    absl::erase_if(answered_, [now](const auto& answered) { return answered.second <= now; });
  }
  if (answered_.size() >= kMaxAnswered) return false;
  absl::Time& again = answered_.try_emplace(port, now).first->second;
  if (now < again) return false;
  again = now + kAnswerAgain;
  return true;
}

void GroupAnnouncer::AnswerNewcomers() {
  const VPortMessage state = own_->Announcement();
  const auto entitled =
      std::count_if(newcomers_.begin(), newcomers_.end(),
                    [](const Newcomer& newcomer) { return newcomer.may_have_state; });
  if (entitled > 1 && group_answers_.Take(clock_->Now())) return Multicast(state);
  const VPortMessage version = own_->Header(VPortMessage::Kind::kAnnounce);
  for (const Newcomer& newcomer : newcomers_)
    send_(newcomer.peer, newcomer.may_have_state && entitled == 1 ? state : version);
  newcomers_.clear();
  answer_at_ = absl::InfiniteFuture();
}

}  // namespace eoib
