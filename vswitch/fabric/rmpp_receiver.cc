#include "vswitch/fabric/rmpp_receiver.h"

#include <algorithm>
#include <cstring>

#include "vswitch/wire/ib/sa_mad.h"

namespace eoib {
namespace {

constexpr uint8_t kRmppVersion = 1;
constexpr uint8_t kResponseBit = 0x80;
constexpr size_t kMethodByte = 3;  // IBA 1.4 §13.4.3
constexpr size_t kTidOffset = 8;
constexpr size_t kTidSize = 8;
constexpr size_t kPayloadPerSegment = kRmppSaHeader + kRmppDataPerSegment;

bool SameTid(const Mad& a, const Mad& b) { return std::memcmp(&a[kTidOffset], &b[kTidOffset], kTidSize) == 0; }

// Back to the sender of `segment`: its headers, with the response bit of the method turned round (§13.6.4.1), and no data.
Mad ReplyTo(const Mad& segment, const RmppHeader& header) {
  Mad reply{};
  std::copy(segment.begin(), segment.begin() + kSaRecordOffset, reply.begin());
  reply[kMethodByte] ^= kResponseBit;
  EncodeRmppHeader(header, &reply);
  return reply;
}

// STOP says that we cannot go on, ABORT that the sender broke the rules (§13.6.2.1, table 158).
Mad Ending(const Mad& segment, RmppStatus status) {
  RmppHeader header;
  header.active = true;
  header.type = status == RmppStatus::kResourcesExhausted ? RmppType::kStop : RmppType::kAbort;
  header.status = static_cast<uint8_t>(status);
  return ReplyTo(segment, header);
}

}  // namespace

RmppReceiver::Progress RmppReceiver::Accept(const Mad& mad, absl::optional<Mad>* reply) {
  reply->reset();
  const RmppHeader header = DecodeRmppHeader(mad);
  if (failure_ != RmppStatus::kNormal || (started() && !SameTid(mad, first_))) return Progress::kIgnored;
  if (header.type == RmppType::kStop || header.type == RmppType::kAbort) return EndedBySender(header);
  const bool repeated = header.type == RmppType::kData && header.segment != 0 && header.segment < next_;
  if (done_ || repeated) {
    *reply = Acknowledgement();  // the sender has not heard the last one
    return Progress::kIgnored;
  }
  if (!started() && header.segment > 1) return Progress::kIgnored;  // of a transfer that we have given up
  if (const RmppStatus status = Check(header); status != RmppStatus::kNormal) return Refuse(mad, status, reply);
  if (Has(header.segment)) return Progress::kIgnored;
  Keep(header, mad);
  done_ = last_ != 0 && next_ > last_;
  if (done_) {
    table_.resize((last_ - 1) * kRmppDataPerSegment + last_size_);
    *reply = Acknowledgement();
    return Progress::kDone;
  }
  AcknowledgeAtTheWindowsEnd(header.segment, reply);
  return Progress::kMore;
}

RmppReceiver::Progress RmppReceiver::EndedBySender(const RmppHeader& header) {
  if (done_) return Progress::kIgnored;
  failure_ = header.status == 0 ? RmppStatus::kUnspecified : static_cast<RmppStatus>(header.status);
  return Progress::kFailed;
}

RmppReceiver::Progress RmppReceiver::Refuse(const Mad& mad, RmppStatus status, absl::optional<Mad>* reply) {
  failure_ = status;
  *reply = Ending(mad, status);
  return Progress::kFailed;
}

RmppStatus RmppReceiver::Check(const RmppHeader& header) const {
  if (header.version != kRmppVersion) return RmppStatus::kUnsupportedVersion;
  if (header.type != RmppType::kData) return RmppStatus::kBadType;
  if (header.status != 0) return RmppStatus::kIllegalStatus;
  if (header.segment == 0 || header.first != (header.segment == 1)) return RmppStatus::kInconsistentFirstAndSegment;
  if (header.segment > granted_) return RmppStatus::kSegmentTooBig;
  if (header.segment * kRmppDataPerSegment >= options_.max_bytes + kRmppDataPerSegment) return RmppStatus::kResourcesExhausted;
  return CheckLength(header);
}

RmppStatus RmppReceiver::CheckLength(const RmppHeader& header) const {
  constexpr RmppStatus kInconsistent = RmppStatus::kInconsistentLastAndPayload;
  if (header.first && header.payload_length != 0) {
    if (header.payload_length < kRmppSaHeader) return kInconsistent;
    const size_t segments = (header.payload_length + kPayloadPerSegment - 1) / kPayloadPerSegment;
    if (header.payload_length - segments * kRmppSaHeader > options_.max_bytes) return RmppStatus::kResourcesExhausted;
  }
  if (!header.last) return last_ != 0 && header.segment >= last_ ? kInconsistent : RmppStatus::kNormal;
  if (last_ != 0 && last_ != header.segment) return kInconsistent;
  if (header.segment - next_ + 1 < ahead_.size()) return kInconsistent;  // there was one behind it
  if (header.payload_length < kRmppSaHeader || header.payload_length > kPayloadPerSegment) return kInconsistent;
  const uint64_t whole = (header.segment - 1) * uint64_t{kPayloadPerSegment} + header.payload_length;
  return announced_ == 0 || announced_ == whole ? RmppStatus::kNormal : kInconsistent;
}

bool RmppReceiver::Has(uint32_t segment) const { return segment - next_ < ahead_.size() && ahead_[segment - next_]; }

void RmppReceiver::Keep(const RmppHeader& header, const Mad& mad) {
  if (header.first) {
    first_ = mad;
    announced_ = header.payload_length;
  }
  if (header.last) {
    last_ = header.segment;
    last_size_ = header.payload_length - kRmppSaHeader;
  }
  const size_t end = header.segment * kRmppDataPerSegment;
  if (table_.size() < end) table_.resize(end);
  std::copy(mad.begin() + kSaRecordOffset, mad.end(), table_.begin() + static_cast<ptrdiff_t>(end - kRmppDataPerSegment));
  const size_t distance = header.segment - next_;
  if (ahead_.size() <= distance) ahead_.resize(distance + 1);
  ahead_[distance] = true;
  for (; !ahead_.empty() && ahead_.front(); ++next_) ahead_.pop_front();
}

// An acknowledgement at the end of each window, not for each segment (§13.6.6.2). If the window's last segment has overtaken
// others, it tells the sender at once what is missing.
void RmppReceiver::AcknowledgeAtTheWindowsEnd(uint32_t segment, absl::optional<Mad>* reply) {
  const bool all_came = next_ > granted_;
  if (!all_came && segment != granted_) return;
  if (all_came) granted_ = next_ - 1 + options_.window;
  *reply = Acknowledgement();
}

Mad RmppReceiver::Acknowledgement() const {
  RmppHeader header;
  header.active = true;
  header.type = RmppType::kAck;
  header.segment = next_ - 1;
  header.payload_length = std::max(granted_, next_ - 1);
  return ReplyTo(first_, header);
}

absl::optional<Mad> RmppReceiver::GiveUp() const {
  if (!started() || done_ || failure_ != RmppStatus::kNormal) return absl::nullopt;
  return Ending(first_, RmppStatus::kTotalTimeTooLong);
}

}  // namespace eoib
