// Ethernet II and IEEE 802.1Q headers, as far as a switch reads them.
#ifndef EOIB_VSWITCH_WIRE_ETHERNET_H_
#define EOIB_VSWITCH_WIRE_ETHERNET_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "fdb/address.h"
#include "vswitch/wire/byte_order.h"
#include "vswitch/wire/drop_reason.h"

namespace eoib {

inline constexpr size_t kEthernetHeaderSize = 14;
inline constexpr size_t kVlanTagSize = 4;
inline constexpr size_t kMinFrameSize = 60;  // without FCS (IEEE 802.3-2018 §4.2.3.3)
inline constexpr size_t kMinTaggedFrameSize = 64;
inline constexpr size_t kFcsSize = 4;
inline constexpr size_t kMacsSize = 12;  // destination and source

inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeArp = 0x0806;
inline constexpr uint16_t kEtherTypeRarp = 0x8035;
inline constexpr uint16_t kEtherTypeVlan = 0x8100;
inline constexpr uint16_t kEtherTypeServiceVlan = 0x88a8;  // payload to this switch: provider tags are not read
inline constexpr uint16_t kEtherTypeIpv6 = 0x86dd;
inline constexpr uint16_t kEtherTypeControl = 0x88b5;  // IEEE 802 local experimental 1: our control messages
inline constexpr uint16_t kEtherTypeAlternative = 0x8919;

// An Ethernet header and, if there is one, its outer 802.1Q tag.
struct EthernetInfo {
  MacAddr destination;
  MacAddr source;
  bool tagged = false;     // an 802.1Q tag is there, perhaps with VID 0 (priority-tagged)
  Vid vid;                 // of the tag; 0 if untagged
  uint8_t priority = 0;    // PCP of the tag
  uint16_t ethertype = 0;  // behind the tag; a value below 0x600 is an 802.3 length
  uint16_t payload = 0;    // offset of what follows the EtherType
};

// Reads the header of `frame` (from the destination MAC on, without FCS). kNone, or kRunt if the frame ends within its header,
// or kReservedVid for VID 4095 (IEEE 802.1Q-2018 §9.6). Group source addresses are accepted here: that is policy.
DropReason ParseEthernet(absl::Span<const uint8_t> frame, EthernetInfo* info) noexcept;

// True if the frame speaks the switch's own protocols (EtherType 0x88b5 or 0x8919), also behind up to eight 802.1Q or 802.1ad
// tags: a VM must not be able to hide one behind a tag that somebody strips. A deeper stack of tags counts as hiding: true.
bool CarriesControlEtherType(absl::Span<const uint8_t> frame) noexcept;

// Offset of what follows the EtherType behind every 802.1Q and 802.1ad tag; the frame's size if it ends before, or has more
// than eight.
size_t PayloadBehindTags(absl::Span<const uint8_t> frame) noexcept;

// True if the last four bytes are the frame check sequence of those before them (IEEE 802.3-2018 §3.2.9).
bool EndsWithFcs(absl::Span<const uint8_t> frame_and_fcs) noexcept;

// 01:80:c2:00:00:0x, which bridges do not forward (IEEE 802.1Q-2018 §8.6.3); returns x, or -1 for any other address.
int LinkLocalGroup(MacAddr mac) noexcept;

// Which of these groups pass: bit x is for 01:80:c2:00:00:0x, as in the group_fwd_mask of a Linux bridge. By default all pass
// but pause (IEEE 802.3-2018 annex 31B) and the slow protocols, LACP first of them (annex 57A).
inline constexpr uint16_t kPauseGroupBit = 1 << 1;
inline constexpr uint16_t kDefaultGroupForwardMask = 0xfff9;

// Puts an 802.1Q tag behind the addresses of a frame: moves the 12 bytes of MACs at `frame` down by 4 and writes the tag. The
// frame then starts at frame - 4, which must be writable.
void InsertVlanTag(uint8_t* frame, Vid vid, uint8_t priority) noexcept;
// Sets the VID of the tag that `frame` has, keeping priority and drop eligibility.
void SetVlanId(uint8_t* frame, Vid vid) noexcept;
// Takes the tag out by moving the MACs up by 4: the frame then starts at frame + 4.
void RemoveVlanTag(uint8_t* frame) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_ETHERNET_H_
