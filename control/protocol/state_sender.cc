#include "control/protocol/state_sender.h"

#include <algorithm>

#include "control/protocol/state_parts.h"

namespace eoib {
namespace {

// A port's budget is kept this long after its last answer: it is full again then.
constexpr absl::Duration kKept = absl::Seconds(1);

}  // namespace

void StateSender::Answer(const VPortMessage& request, const PeerAddress& asker,
                         uint32_t group_heard) {
  const absl::Time now = clock_->Now();
  auto at = ports_.find(asker.gid);
  if (at == ports_.end()) {
    std::erase_if(ports_, [now](const auto& port) {
      return port.second.transfers.empty() && now - port.second.idle_since >= kKept;
    });
    if (ports_.size() >= kMostPorts) return;
    at = ports_.emplace(asker.gid, Port{TokenBucket(kRate, kBurst, now), {}, now}).first;
  }
  std::deque<Transfer>& transfers = at->second.transfers;
  std::erase_if(transfers, [&asker](const Transfer& transfer) { return transfer.asker == asker; });
  if (transfers.size() == kMostAtPort) transfers.pop_front();
  Transfer transfer{
      asker, request.token, group_heard, {}, {request.ranges.rbegin(), request.ranges.rend()}};
  if (request.ranges.empty()) {
    transfer.ranges = {StateRange::Whole()};
    if (request.base && own_->KeepsChangesSince(*request.base)) transfer.known = request.base;
  }
  transfers.push_back(std::move(transfer));
}

void StateSender::Run() {
  const absl::Time now = clock_->Now();
  if (now < pause_until_) return;
  // A round begins with the port whose turn it is, and ends when no port may send.
  for (bool sent = true; sent;) {
    sent = false;
    const size_t ports = ports_.size();
    auto at = ports_.lower_bound(next_);
    for (size_t i = 0; i < ports; ++i, ++at) {
      if (at == ports_.end()) at = ports_.begin();
      if (at->second.transfers.empty()) continue;
      if (events_->Room() <= kRoomLeft) {
        next_ = at->first;
        pause_until_ = now + kPause;
        return;
      }
      sent |= Serve(&at->second);
    }
  }
}

// Sends one message to the port, if its budget allows it. Its transfers take turns.
bool StateSender::Serve(Port* port) {
  if (!port->budget.Take(clock_->Now())) return false;
  Transfer transfer = std::move(port->transfers.front());
  port->transfers.pop_front();
  if (SendNext(&transfer)) port->transfers.push_back(std::move(transfer));
  port->idle_since = clock_->Now();
  return true;
}

// Returns whether more is to be sent.
bool StateSender::SendNext(Transfer* transfer) {
  if (transfer->known && own_->KeepsChangesSince(*transfer->known)) return SendChange(transfer);
  transfer->known.reset();
  return SendPart(transfer);
}

bool StateSender::SendChange(Transfer* transfer) {
  const VPortMessage* const change = own_->ChangeAfter(*transfer->known);
  if (change == nullptr) {  // it has all: tell it so
    VPortMessage head = own_->Header(VPortMessage::Kind::kAnnounce);
    head.token = transfer->token;
    send_(transfer->asker, head);
    return false;
  }
  VPortMessage message = *change;
  message.sender = own_->Header(message.kind).sender;
  message.token = transfer->token;
  send_(transfer->asker, message);
  transfer->known = change->version;
  return change->version != own_->announced().version;
}

bool StateSender::SendPart(Transfer* transfer) {
  VPortMessage header = own_->Header(VPortMessage::Kind::kReply);
  header.token = transfer->token;
  header.group_heard = transfer->group_heard;
  const StateRange wanted = transfer->ranges.back();
  const VPortMessage part = CutPart(own_->announced(), wanted, std::move(header), own_->largest());
  send_(transfer->asker, part);
  transfer->ranges.pop_back();
  if (part.ranges.front().last != wanted.last)
    transfer->ranges.push_back({part.ranges.front().last + 1, wanted.last});
  return !transfer->ranges.empty();
}

absl::Time StateSender::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [gid, port] : ports_) {
    if (!port.transfers.empty()) next = std::min(next, port.budget.NextToken());
  }
  return next == absl::InfiniteFuture() ? next : std::max(next, pause_until_);
}

}  // namespace eoib
