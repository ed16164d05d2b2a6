#include "vswitch/wire/ethernet.h"

#include <array>
#include <cstring>

#include "vswitch/wire/ib/ib_headers.h"

namespace eoib {
namespace {

struct TagWire {
  be16 tpid;
  be16 tci;  // PCP 3 | DEI 1 | VID 12 (IEEE 802.1Q-2018 §9.6)
};
static_assert(sizeof(TagWire) == kVlanTagSize);

constexpr uint16_t kVidMask = 0x0fff;
constexpr int kPriorityShift = 13;
constexpr uint16_t kMaxPriority = 7;
constexpr int kMaxTags = 8;
constexpr uint64_t kLinkLocalGroups = 0x0180'c200'0000;

bool IsTag(uint16_t ethertype) {
  return ethertype == kEtherTypeVlan || ethertype == kEtherTypeServiceVlan;
}

uint16_t EtherTypeAt(absl::Span<const uint8_t> frame, size_t offset) {
  return ReadWire<be16>(&frame[offset]).value();
}

enum class Tags { kSkipped, kCut, kTooMany };

// Sets *offset to that of the first EtherType that is not a tag. kCut: the frame ends before it.
Tags SkipTags(absl::Span<const uint8_t> frame, size_t* offset) {
  *offset = kMacsSize;
  for (int tags = 0; tags <= kMaxTags; ++tags, *offset += kVlanTagSize) {
    if (frame.size() < *offset + sizeof(be16)) return Tags::kCut;
    if (!IsTag(EtherTypeAt(frame, *offset))) return Tags::kSkipped;
  }
  return Tags::kTooMany;
}

}  // namespace

DropReason ParseEthernet(absl::Span<const uint8_t> frame, EthernetInfo* info) noexcept {
  if (frame.size() < kEthernetHeaderSize) return DropReason::kRunt;
  *info = EthernetInfo();
  info->destination = MacAddr::FromWire(&frame[0]);
  info->source = MacAddr::FromWire(&frame[MacAddr::kSize]);
  info->ethertype = EtherTypeAt(frame, kMacsSize);
  info->payload = kEthernetHeaderSize;
  if (info->ethertype != kEtherTypeVlan) return DropReason::kNone;

  if (frame.size() < kEthernetHeaderSize + kVlanTagSize) return DropReason::kRunt;
  const uint16_t tci = ReadWire<TagWire>(&frame[kMacsSize]).tci.value();
  info->tagged = true;
  info->vid = Vid(tci & kVidMask);
  info->priority = static_cast<uint8_t>(tci >> kPriorityShift);
  info->ethertype = EtherTypeAt(frame, kMacsSize + kVlanTagSize);
  info->payload = kEthernetHeaderSize + kVlanTagSize;
  return info->vid.IsValid() ? DropReason::kNone : DropReason::kReservedVid;
}

bool CarriesControlEtherType(absl::Span<const uint8_t> frame) noexcept {
  size_t offset;
  const Tags tags = SkipTags(frame, &offset);
  // A deeper stack might hide a control frame, so it counts as one.
  if (tags != Tags::kSkipped) return tags == Tags::kTooMany;
  const uint16_t ethertype = EtherTypeAt(frame, offset);
  return ethertype == kEtherTypeControl || ethertype == kEtherTypeAlternative;
}

size_t PayloadBehindTags(absl::Span<const uint8_t> frame) noexcept {
  size_t offset;
  return SkipTags(frame, &offset) == Tags::kSkipped ? offset + sizeof(be16) : frame.size();
}

// The ICRC has the polynomial, seed and bit and byte order of Ethernet's FCS (IBA 1.4 §7.8.1).
bool EndsWithFcs(absl::Span<const uint8_t> frame_and_fcs) noexcept {
  if (frame_and_fcs.size() < kFcsSize) return false;
  const size_t length = frame_and_fcs.size() - kFcsSize;
  const std::array<uint8_t, kFcsSize> fcs =
      FinishIcrc(UpdateIcrc(kIcrcSeed, frame_and_fcs.first(length)));
  return std::memcmp(fcs.data(), frame_and_fcs.data() + length, kFcsSize) == 0;
}

int LinkLocalGroup(MacAddr mac) noexcept {
  const uint64_t value = mac.ToUint64();
  return (value & ~uint64_t{0xf}) == kLinkLocalGroups ? static_cast<int>(value & 0xf) : -1;
}

void WriteEthernetHeader(MacAddr destination, MacAddr source, uint16_t ethertype,
                         uint8_t* frame) noexcept {
  destination.ToWire(frame);
  source.ToWire(frame + MacAddr::kSize);
  WriteWire(be16(ethertype), frame + kMacsSize);
}

void InsertVlanTag(uint8_t* frame, Vid vid, uint8_t priority) noexcept {
  std::memmove(frame - kVlanTagSize, frame, kMacsSize);
  const auto tci =
      static_cast<uint16_t>((priority & kMaxPriority) << kPriorityShift | (vid.value() & kVidMask));
  WriteWire(TagWire{be16(kEtherTypeVlan), be16(tci)}, frame - kVlanTagSize + kMacsSize);
}

void SetVlanId(uint8_t* frame, Vid vid) noexcept {
  auto tag = ReadWire<TagWire>(frame + kMacsSize);
  tag.tci = static_cast<uint16_t>((tag.tci.value() & ~kVidMask) | (vid.value() & kVidMask));
  WriteWire(tag, frame + kMacsSize);
}

void RemoveVlanTag(uint8_t* frame) noexcept {
  std::memmove(frame + kVlanTagSize, frame, kMacsSize);
}

}  // namespace eoib
