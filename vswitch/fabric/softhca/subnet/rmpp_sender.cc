#include "vswitch/fabric/softhca/subnet/rmpp_sender.h"

#include <algorithm>

namespace eoib::softhca {
namespace {

uint32_t SegmentsOf(size_t bytes) {
  // An empty table is a segment too.
  return std::max<uint32_t>(1, static_cast<uint32_t>((bytes + kRmppDataPerSegment - 1) / kRmppDataPerSegment));
}

Mad MakeSegment(const SaHeader& header, const std::vector<uint8_t>& table, uint32_t segments, uint32_t number) {
  const size_t begin = (number - 1) * kRmppDataPerSegment;
  const size_t size = std::min(kRmppDataPerSegment, table.size() - begin);
  RmppHeader rmpp;
  rmpp.active = true;
  rmpp.type = RmppType::kData;
  rmpp.first = number == 1;
  rmpp.last = number == segments;
  rmpp.segment = number;
  if (rmpp.last) rmpp.payload_length = static_cast<uint32_t>(kRmppSaHeader + size);
  if (rmpp.first) rmpp.payload_length = static_cast<uint32_t>(segments * kRmppSaHeader + table.size());
  Mad mad;
  EncodeSaHeader(header, &mad);
  EncodeRmppHeader(rmpp, &mad);
  std::copy_n(table.begin() + begin, size, SaRecord(&mad).begin());
  return mad;
}

Mad MakeAbort(const SaHeader& header, RmppStatus status) {
  RmppHeader rmpp;
  rmpp.active = true;
  rmpp.type = RmppType::kAbort;
  rmpp.status = static_cast<uint8_t>(status);
  Mad mad;
  EncodeSaHeader(header, &mad);
  EncodeRmppHeader(rmpp, &mad);
  return mad;
}

}  // namespace

bool RmppSender::Start(const MadEndpoint& to, const SaHeader& header, std::vector<uint8_t> table, absl::Time now,
                       std::vector<OutgoingMad>* out) {
  const auto key = std::make_pair(to, header.tid);
  if (transfers_.count(key) != 0) return true;
  const auto of_port =
      std::count_if(transfers_.begin(), transfers_.end(), [&to](const auto& t) { return t.first.first.port == to.port; });
  if (static_cast<size_t>(of_port) >= options_.tables_per_port || table.size() > options_.bytes - bytes_) {
    ++counters_.refused;
    return false;
  }
  ++counters_.tables;
  bytes_ += table.size();
  Transfer& transfer = transfers_[key];
  transfer.header = header;
  transfer.segments = SegmentsOf(table.size());
  transfer.table = std::move(table);
  transfer.transmissions_left = options_.transmissions;
  transfer.end = now + options_.total;
  SendWindow(to, &transfer, now, out);
  return true;
}

void RmppSender::SendWindow(const MadEndpoint& to, Transfer* transfer, absl::Time now, std::vector<OutgoingMad>* out) {
  const uint32_t last = std::min({transfer->window, transfer->segments, transfer->acked + options_.ahead});
  while (transfer->sent < last) {
    ++transfer->sent;
    ++counters_.segments;
    out->push_back(OutgoingMad{to, MakeSegment(transfer->header, transfer->table, transfer->segments, transfer->sent)});
  }
  --transfer->transmissions_left;
  transfer->deadline = now + options_.timeout;
}

void RmppSender::Receive(const MadEndpoint& from, const Mad& mad, absl::Time now, std::vector<OutgoingMad>* out) {
  const absl::StatusOr<SaHeader> header = DecodeSaHeader(mad);
  const auto transfer = header.ok() ? transfers_.find({from, header->tid}) : transfers_.end();
  if (transfer == transfers_.end()) {
    ++counters_.strays;
    return;
  }
  const RmppHeader rmpp = DecodeRmppHeader(mad);
  if (rmpp.version != RmppHeader().version) return Abort(transfer, RmppStatus::kUnsupportedVersion, out);
  switch (rmpp.type) {
    case RmppType::kAck:
      return TakeAck(transfer, rmpp, now, out);
    case RmppType::kStop:
    case RmppType::kAbort:
      ++counters_.stopped;
      Erase(transfer);
      return;
    default:  // DATA would be a request of several segments, which no attribute here has
      return Abort(transfer, RmppStatus::kBadType, out);
  }
}

// What a sender makes of an ACK: §13.6.
void RmppSender::TakeAck(Transfers::iterator transfer, const RmppHeader& ack, absl::Time now, std::vector<OutgoingMad>* out) {
  Transfer& t = transfer->second;
  if (ack.status != 0) return Abort(transfer, RmppStatus::kIllegalStatus, out);
  if (ack.segment > t.sent) return Abort(transfer, RmppStatus::kSegmentTooBig, out);
  if (ack.segment < t.acked) return;  // overtaken by a later one
  if (ack.payload_length < ack.segment) return Abort(transfer, RmppStatus::kNewWindowTooSmall, out);
  // First, since a receiver that has everything may well promise no more.
  if (ack.segment == t.segments) {
    ++counters_.completed;
    Erase(transfer);
    return;
  }
  if (ack.payload_length < t.window) return Abort(transfer, RmppStatus::kNewWindowTooSmall, out);
  if (ack.segment == t.acked && ack.payload_length == t.window) return;  // a repeated one says nothing
  t.acked = ack.segment;
  t.window = ack.payload_length;
  t.transmissions_left = options_.transmissions;
  SendWindow(transfer->first.first, &t, now, out);
}

void RmppSender::Abort(Transfers::iterator transfer, RmppStatus status, std::vector<OutgoingMad>* out) {
  ++counters_.aborted;
  out->push_back(OutgoingMad{transfer->first.first, MakeAbort(transfer->second.header, status)});
  Erase(transfer);
}

RmppSender::Transfers::iterator RmppSender::Erase(Transfers::iterator transfer) {
  bytes_ -= transfer->second.table.size();
  return transfers_.erase(transfer);
}

void RmppSender::RemovePort(const Gid& port) {
  for (auto transfer = transfers_.begin(); transfer != transfers_.end();) {
    transfer = transfer->first.first.port == port ? Erase(transfer) : std::next(transfer);
  }
}

void RmppSender::Clear() {
  transfers_.clear();
  bytes_ = 0;
}

void RmppSender::Run(absl::Time now, std::vector<OutgoingMad>* out) {
  for (auto next = transfers_.begin(); next != transfers_.end();) {
    const auto current = next++;
    Transfer& transfer = current->second;
    if (now >= transfer.end) {
      Abort(current, RmppStatus::kTotalTimeTooLong, out);
    } else if (now >= transfer.deadline && transfer.transmissions_left == 0) {
      Abort(current, RmppStatus::kTooManyRetries, out);
    } else if (now >= transfer.deadline) {
      counters_.repeated += transfer.sent - transfer.acked;
      transfer.sent = transfer.acked;
      SendWindow(current->first.first, &transfer, now, out);
    }
  }
}

absl::Time RmppSender::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [key, transfer] : transfers_) next = std::min({next, transfer.deadline, transfer.end});
  return next;
}

}  // namespace eoib::softhca
