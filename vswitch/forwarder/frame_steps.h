// The steps of one frame that need nothing but the frame: checks, and the change into its fabric
// form.
//
// They run for each frame, so they are inline. The stages that call them are in forwarder.cc.
#ifndef EOIB_VSWITCH_FORWARDER_FRAME_STEPS_H_
#define EOIB_VSWITCH_FORWARDER_FRAME_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/types/optional.h"
#include "fdb/fdb_key.h"
#include "vswitch/base/address.h"
#include "vswitch/base/drop_reason.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/forwarder/packet_batch.h"
#include "vswitch/forwarder/vlan_policy.h"
#include "vswitch/port/frame.h"
#include "vswitch/port/merged_segments.h"
#include "vswitch/port/piece_reader.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/crc32c.h"
#include "vswitch/wire/sctp_checksum.h"
#include "vswitch/wire/segment_extension.h"
#include "vswitch/wire/super_frame.h"

namespace eoib {

// InsertVlanTag, the EoIB header and its extension need room in front of a frame.
static_assert(BufferPool::kFrameOffset >= BufferPool::kGrhOffset + kGrhSize + kEoibHeaderSize);
static_assert(BufferPool::kFrameOffset >= kVlanTagSize + kSegmentHeaderSize);
static_assert(BufferPool::kGrhOffset >= kVlanTagSize,
              "a tag moves the GRH's place down, and it must stay in the buffer");

// Pads a frame with zeros to the minimum size of Ethernet.
inline void PadToMinimum(Frame* frame, bool tagged) {
  const uint32_t minimum = tagged ? kMinTaggedFrameSize : kMinFrameSize;
  if (frame->length >= minimum) return;
  std::memset(frame->data + frame->length, 0, minimum - frame->length);
  frame->length = minimum;
}

// Verifies and removes the FCS at the end of a frame.
inline DropReason StripFcs(Frame* frame) {
  if (!EndsWithFcs(frame->bytes())) return DropReason::kBadFcs;
  frame->length -= kFcsSize;
  return DropReason::kNone;
}

// Reserved groups (IEEE 802.1Q-2018 Table 8-1) end at the bridge at the other end of a link. The
// whole switch is one bridge, so it does not forward them; but STP and LLDP pass by default, as on
// a plain wire.
inline bool EndsAtLink(MacAddr destination, uint16_t group_fwd_mask) {
  if (ABSL_PREDICT_TRUE(!destination.IsGroup())) return false;
  const int group = LinkLocalGroup(destination);
  return group >= 0 && (group_fwd_mask >> group & 1) == 0;
}

// Parses the headers of a frame, from a port or from the fabric, and checks its source.
inline DropReason ParseOne(absl::Span<const uint8_t> frame, EthernetInfo* ethernet) {
  const DropReason reason = ParseEthernet(frame, ethernet);
  if (reason != DropReason::kNone) return reason;
  return ethernet->source.IsGroup() || ethernet->source.IsZero() ? DropReason::kBadSource
                                                                 : DropReason::kNone;
}

// A VES carries frames of these VLANs, and those to reserved groups that this mask passes (bit x:
// 01:80:c2:00:00:0x).
struct Admission {
  const VlanSet& vlans;
  uint16_t group_fwd_mask;
};

// Finds the VLAN of a frame from a port with this policy, or why the frame may not enter.
inline DropReason ClassifyFromPort(const VlanPolicy& port, const Admission& ves,
                                   absl::Span<const uint8_t> frame, const EthernetInfo& ethernet,
                                   Vid* vid) {
  if (CarriesControlEtherType(frame, ethernet)) return DropReason::kControlEthertype;
  if (EndsAtLink(ethernet.destination, ves.group_fwd_mask)) return DropReason::kLinkLocalControl;
  return port.Classify(ethernet, vid) && ves.vlans.Contains(*vid) ? DropReason::kNone
                                                                  : DropReason::kVlanNotAllowed;
}

// The tag that the fabric form of a frame has more than the frame itself, in bytes.
inline size_t TagToInsert(const EthernetInfo& ethernet, Vid vid) {
  return !ethernet.tagged && !vid.IsUntagged() ? kVlanTagSize : 0;
}

// A control message has no tag.
inline bool IsControlMessage(const EthernetInfo& ethernet) {
  return !ethernet.tagged && ethernet.ethertype == kEtherTypeControl;
}

// Checks a frame from the fabric, and sets its source and destination. kControlMessage: it is a
// message for control.
inline DropReason AdmitOneFromFabric(const Admission& ves, Packet* packet) {
  const Vid vid = packet->ethernet.vid;
  if (ABSL_PREDICT_FALSE(CarriesControlEtherType(packet->frame.bytes(), packet->ethernet))) {
    return IsControlMessage(packet->ethernet) ? DropReason::kControlMessage
                                              : DropReason::kControlEthertype;
  }
  if (EndsAtLink(packet->ethernet.destination, ves.group_fwd_mask))
    return DropReason::kLinkLocalControl;
  if (!ves.vlans.Contains(vid)) return DropReason::kVlanNotAllowed;
  packet->source = FdbKey(vid, packet->ethernet.source);
  packet->destination = FdbKey(vid, packet->ethernet.destination);
  // A frame from segments has got its checksum request already.
  if (!packet->frame.IsLarge())
    packet->frame.checksum = AcceptChecksum(packet->frame.bytes(), packet->vouched);
  return DropReason::kNone;
}

// Writes the CRC32c of an SCTP packet in several buffers.
inline void CompleteLargeSctp(const BufferPool& pool, const SctpPacket& sctp, Frame* frame) {
  uint8_t* const field = frame->data + frame->checksum.start + kSctpChecksumOffset;
  WriteSctpChecksum(0, field);
  uint32_t crc = 0;
  size_t at = frame->checksum.start;  // in the present piece
  size_t left = sctp.end - at;
  VisitPieces(pool, *frame, [&](absl::Span<uint8_t> piece) {
    const absl::Span<uint8_t> covered = piece.subspan(std::exchange(at, 0), left);
    crc = Crc32c(covered, crc);
    left -= covered.size();
  });
  WriteSctpChecksum(crc, field);
}

// Finishes the checksum of a frame in several buffers, for a request that PrepareChecksum would not
// vouch for. False if it would refuse it.
inline bool CompleteLargeChecksum(const BufferPool& pool, Frame* frame) {
  const size_t field = size_t{frame->checksum.start} + frame->checksum.offset;
  if (frame->checksum.start < PayloadBehindTags(frame->bytes()) ||
      field + sizeof(be16) > frame->length)
    return false;
  const absl::optional<SctpPacket> sctp = FindSctp(frame->bytes(), frame->total(), frame->checksum);
  if (sctp.has_value()) {
    if (!sctp->is_whole) return false;
    CompleteLargeSctp(pool, *sctp, frame);
    frame->checksum = {};
    return true;
  }
  PieceReader reader(&pool, *frame);
  reader.Skip(frame->checksum.start);
  const uint16_t sum = reader.Sum(frame->total() - frame->checksum.start);
  WriteWire(be16(ChecksumField(sum, frame->checksum.offset)), frame->data + field);
  frame->checksum = {};
  return true;
}

// Decides on the checksum of a large frame from a port: a super-frame's is vouched for, or the
// frame is refused.
inline DropReason PrepareLarge(const BufferPool& pool, Packet* packet) {
  Frame& frame = packet->frame;
  const bool super_frame = frame.gso.type != GsoType::kNone;
  if (!frame.checksum.needed) {
    if (!super_frame) return DropReason::kNone;
    if (!ReopenChecksum(PieceReader(&pool, frame), &frame)) return DropReason::kBadChecksumRequest;
  }
  const auto headers = ParseSuperFrame(frame.bytes(), frame.total());
  if (headers.has_value() && NamesChecksumOf(headers->l4, frame.checksum)) {
    packet->vouched = headers->l4.kind;
    return !super_frame || IsSuperFrame(*headers, frame.gso) ? DropReason::kNone
                                                             : DropReason::kBadChecksumRequest;
  }
  return !super_frame && CompleteLargeChecksum(pool, &frame) ? DropReason::kNone
                                                             : DropReason::kBadChecksumRequest;
}

// Whether segments, or a datagram of a VES with this MTU, can carry the frame with a tag of `tag`
// bytes more. A frame that the tag makes longer than a datagram becomes a large one (SplitTagged).
inline bool Fits(const Frame& frame, size_t tag, uint32_t mtu) {
  return frame.IsLarge() ? frame.total() + tag <= kLargestSuperFrame : frame.length <= mtu;
}

// Moves the end of a frame, which an inserted tag has made longer than a datagram, into a second
// buffer, so that it has the layout of a larger frame. False if no buffer is free.
inline bool SplitTagged(BufferPool* pool, uint32_t mtu, Frame* frame) {
  const BufferId next = pool->Allocate();
  if (ABSL_PREDICT_FALSE(next.IsNone())) return false;
  const auto piece = static_cast<uint32_t>(mtu - kSegmentExtensionSize);
  frame->rest = frame->length - piece;
  frame->length = piece;
  frame->buffers = 2;
  std::memcpy(pool->Frame(next), frame->data + piece, frame->rest);
  pool->Append(frame->buffer, next, pool->Frame(next), frame->rest);
  return true;
}

// Brings a frame from a port into its fabric form: tag, minimum size, checksum. `mtu` is the VES
// MTU.
inline DropReason CanonicaliseOne(BufferPool* pool, uint32_t mtu, Packet* packet) {
  const Vid vid = packet->source.vid();
  if (vid != packet->ethernet.vid) {
    if (packet->ethernet.tagged) {
      SetVlanId(packet->frame.data, vid);  // priority-tagged: the tag stays, with the VLAN's VID
    } else {
      InsertVlanTag(packet->frame.data, vid, 0);
      packet->frame.data -= kVlanTagSize;
      packet->frame.length += kVlanTagSize;
      packet->frame.checksum.start += packet->frame.checksum.needed ? kVlanTagSize : 0;
      packet->ethernet.tagged = true;
      const bool grown = !packet->frame.IsLarge() && packet->frame.length > mtu;
      if (ABSL_PREDICT_FALSE(grown) && !SplitTagged(pool, mtu, &packet->frame))
        return DropReason::kNoBuffer;
    }
  }
  if (packet->frame.IsLarge()) return PrepareLarge(*pool, packet);
  PadToMinimum(&packet->frame, packet->ethernet.tagged);
  if (!packet->frame.checksum.needed) return DropReason::kNone;
  if (!PrepareChecksum(packet->frame.bytes(), packet->frame.checksum, &packet->vouched))
    return DropReason::kBadChecksumRequest;
  // PrepareChecksum completed it in the frame.
  if (packet->vouched == L4Checksum::kNone) packet->frame.checksum = {};
  return DropReason::kNone;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_FRAME_STEPS_H_
