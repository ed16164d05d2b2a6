#include "control/protocol/group_announcer.h"

#include <algorithm>
#include <utility>

#include "control/protocol/group_watch.h"

namespace eoib {
namespace {

// Messages a second, and in a burst.
constexpr double kRate = 20, kBurst = 20;

static_assert(GroupAnnouncer::kRepeat == absl::Seconds(30) && GroupWatch::kLongestPause == absl::Seconds(45),
              "the longest pause is kRepeat plus half");

}  // namespace

GroupAnnouncer::GroupAnnouncer(OwnAgent* own, ProtocolEvents* events, const Clock* clock, RandomBits random, Send send,
                               ProtocolCounters* counters)
    : own_(own),
      events_(events),
      clock_(clock),
      random_(std::move(random)),
      send_(std::move(send)),
      counters_(counters),
      budget_(kRate, kBurst, clock->Now()) {}

void GroupAnnouncer::Multicast(const VPortMessage& message) {
  ++counters_->group_messages;
  events_->SendToGroup(EncodeVPortMessage(message));
  newcomers_.clear();
  answer_at_ = absl::InfiniteFuture();
  repeat_at_ = clock_->Now() + kRepeat / 2 + RandomTime(random_, kRepeat);
}

void GroupAnnouncer::NoteNewcomer(const PeerAddress& peer) {
  if (newcomers_.size() < 2) newcomers_.push_back(peer);
  if (answer_at_ == absl::InfiniteFuture()) answer_at_ = clock_->Now() + RandomTime(random_, kAnswerWithin);
}

void GroupAnnouncer::Run() {
  if (!own_->has_address()) return;
  AnnounceChanges();
  if (AnswerAt() <= clock_->Now()) AnswerNewcomers();
  if (repeat_at_ <= clock_->Now()) Multicast(own_->Header(VPortMessage::Kind::kAnnounce));
}

absl::Time GroupAnnouncer::NextDeadline() const {
  if (!own_->has_address()) return absl::InfiniteFuture();
  absl::Time next = std::min(AnswerAt(), repeat_at_);
  if (!own_->has_changes()) return next;
  const bool is_planned = announce_at_ != absl::InfiniteFuture();
  return std::min(next, is_planned ? std::max(announce_at_, budget_.NextToken()) : absl::InfinitePast());
}

void GroupAnnouncer::AnnounceChanges() {
  if (!own_->has_changes()) return;
  const absl::Time now = clock_->Now();
  if (announce_at_ == absl::InfiniteFuture()) announce_at_ = now + RandomTime(random_, kAnnounceWithin);
  if (now < announce_at_ || !budget_.Take(now)) return;
  announce_at_ = absl::InfiniteFuture();
  for (const VPortMessage& message : own_->TakeChanges()) Multicast(message);
}

// Our first announcement will be the answer to all newcomers before it.
absl::Time GroupAnnouncer::AnswerAt() const { return own_->announced().version == 0 ? absl::InfiniteFuture() : answer_at_; }

void GroupAnnouncer::AnswerNewcomers() {
  const VPortMessage answer = own_->Announcement();
  if (newcomers_.size() == 1) {
    const PeerAddress newcomer = newcomers_.front();
    newcomers_.clear();
    answer_at_ = absl::InfiniteFuture();
    send_(newcomer, answer);
  } else {
    Multicast(answer);
  }
}

}  // namespace eoib
