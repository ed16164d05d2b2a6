// Ethernet II and IEEE 802.1Q headers, as far as a switch reads them.
#ifndef EOIB_VSWITCH_WIRE_ETHERNET_H_
#define EOIB_VSWITCH_WIRE_ETHERNET_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/base/drop_reason.h"
#include "vswitch/base/ethertype.h"

namespace eoib {

inline constexpr size_t kEthernetHeaderSize = 14;
inline constexpr size_t kVlanTagSize = 4;
// A packet of an interface's full MTU may be behind two tags: a VLAN device on another one sends
// that, and bridges pass it. So the largest frame of an interface has so many bytes more than its
// MTU.
inline constexpr size_t kMtuOverhead = kEthernetHeaderSize + 2 * kVlanTagSize;
inline constexpr size_t kMinFrameSize = 60;  // without FCS (IEEE 802.3-2018 §4.2.3.3)
inline constexpr size_t kMinTaggedFrameSize = 64;
inline constexpr size_t kFcsSize = 4;
inline constexpr size_t kMacsSize = 12;  // destination and source

// An Ethernet header with its outer 802.1Q tag, if any.
struct EthernetInfo {
  MacAddr destination;
  MacAddr source;
  bool tagged = false;     // has an 802.1Q tag, perhaps with VID 0 (priority-tagged)
  Vid vid;                 // of the tag; 0 if untagged
  uint8_t priority = 0;    // PCP of the tag
  uint16_t ethertype = 0;  // behind the tag; a value below 0x600 is an 802.3 length
  uint16_t payload = 0;    // offset of the payload, after the EtherType
};

// Reads the header of `frame` (from the destination MAC on, without FCS). kNone, or kRunt if the
// frame ends within its header, or kReservedVid for VID 4095 (IEEE 802.1Q-2018 §9.6). Accepts group
// source addresses; refusing them is policy.
DropReason ParseEthernet(absl::Span<const uint8_t> frame, EthernetInfo* info) noexcept;

// True if the frame has an EtherType of the switch's own protocols (0x88b5 or 0x8919), also behind
// up to eight 802.1Q or 802.1ad tags: a VM must not hide such a frame behind a tag that a later
// device strips. Also true for a deeper stack of tags.
bool CarriesControlEtherType(absl::Span<const uint8_t> frame) noexcept;

// The same for a frame whose header was parsed: most frames have another EtherType behind their
// tag, and that decides.
inline bool CarriesControlEtherType(absl::Span<const uint8_t> frame,
                                    const EthernetInfo& info) noexcept {
  const uint16_t type = info.ethertype;
  return (type == kEtherTypeVlan || type == kEtherTypeServiceVlan || type == kEtherTypeControl ||
          type == kEtherTypeAlternative) &&
         CarriesControlEtherType(frame);
}

// Offset of the payload behind all 802.1Q and 802.1ad tags and the EtherType. The frame's size if
// the frame ends before, or has more than eight tags.
size_t PayloadBehindTags(absl::Span<const uint8_t> frame) noexcept;

// True if the last four bytes are the frame check sequence of those before them (IEEE 802.3-2018
// §3.2.9).
bool EndsWithFcs(absl::Span<const uint8_t> frame_and_fcs) noexcept;

// Returns x for 01:80:c2:00:00:0x, a group that bridges do not forward (IEEE 802.1Q-2018 §8.6.3),
// or -1 for any other address.
int LinkLocalGroup(MacAddr mac) noexcept;

// The groups that pass: bit x stands for 01:80:c2:00:00:0x, as in a Linux bridge's group_fwd_mask.
// By default all pass except pause (IEEE 802.3-2018 annex 31B) and the slow protocols such as LACP
// (annex 57A).
inline constexpr uint16_t kPauseGroupBit = 1 << 1;
inline constexpr uint16_t kDefaultGroupForwardMask = 0xfff9;

// Writes the header of an untagged frame.
void WriteEthernetHeader(MacAddr destination, MacAddr source, uint16_t ethertype,
                         uint8_t* frame) noexcept;
// Inserts an 802.1Q tag after the MACs of a frame: moves the 12 bytes of MACs at `frame` down by 4
// and writes the tag. The frame then starts at frame - 4, which must be writable.
void InsertVlanTag(uint8_t* frame, Vid vid, uint8_t priority) noexcept;
// Sets the VID in the tag of `frame`, and keeps priority and drop eligibility.
void SetVlanId(uint8_t* frame, Vid vid) noexcept;
// Removes the tag by moving the MACs up by 4. The frame then starts at frame + 4.
void RemoveVlanTag(uint8_t* frame) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_ETHERNET_H_
