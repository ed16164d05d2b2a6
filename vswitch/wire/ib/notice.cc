#include "vswitch/wire/ib/notice.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ib/attribute_codec.h"

namespace eoib {
namespace {

constexpr uint8_t kGeneric = 0x80;
constexpr uint8_t kTypeMask = 0x7f;
constexpr uint16_t kToggle = 0x8000;
constexpr uint16_t kCountMask = 0x7fff;
constexpr uint8_t kResponseTimeMask = 0x1f;
constexpr size_t kGidInDetails = 6;  // traps 64 to 67: offset of the GID, after reserved bytes (§14.2.5.1)

// IBA 1.4 §13.4.8.2.
struct NoticeWire {
  uint8_t generic_type = 0;  // 1 | 7
  be24 producer;
  be16 trap;
  be16 issuer_lid;
  be16 toggle_count;  // 1 | 15
  std::array<uint8_t, Notice::kDetails> details{};
  std::array<uint8_t, Gid::kSize> issuer_gid{};
};
static_assert(sizeof(NoticeWire) == kNoticeSize);

// §13.4.8.3.
struct InformInfoWire {
  std::array<uint8_t, Gid::kSize> gid{};
  be16 lid_begin;
  be16 lid_end;
  be16 reserved;
  uint8_t generic = 0;
  uint8_t subscribe = 0;
  be16 type;
  be16 trap;
  be24 qpn;
  uint8_t response_time = 0;  // reserved 3 | 5
  uint8_t reserved2 = 0;
  be24 producer;
};
static_assert(sizeof(InformInfoWire) == kInformInfoSize);

}  // namespace

Notice Notice::OfGid(SmTrap trap, const Gid& gid) {
  Notice notice;
  notice.trap = static_cast<uint16_t>(trap);
  gid.ToWire(notice.details.data() + kGidInDetails);
  return notice;
}

Gid Notice::AboutGid() const { return Gid::FromWire(details.data() + kGidInDetails); }

void EncodeNotice(const Notice& notice, absl::Span<uint8_t> bytes) {
  NoticeWire wire;
  wire.generic_type = static_cast<uint8_t>((notice.generic ? kGeneric : 0) | (static_cast<uint8_t>(notice.type) & kTypeMask));
  wire.producer = notice.producer;
  wire.trap = notice.trap;
  wire.issuer_lid = notice.issuer_lid;
  wire.toggle_count = static_cast<uint16_t>((notice.toggle ? kToggle : 0) | (notice.count & kCountMask));
  wire.details = notice.details;
  wire.issuer_gid = notice.issuer_gid.bytes();
  WriteAttribute(wire, bytes);
}

absl::StatusOr<Notice> DecodeNotice(absl::Span<const uint8_t> bytes) {
  const auto wire = ReadAttribute<NoticeWire>(bytes, "Notice");
  if (!wire.ok()) return wire.status();
  Notice notice;
  notice.generic = (wire->generic_type & kGeneric) != 0;
  notice.type = static_cast<NoticeType>(wire->generic_type & kTypeMask);
  notice.producer = wire->producer.value();
  notice.trap = wire->trap.value();
  notice.issuer_lid = wire->issuer_lid.value();
  notice.toggle = (wire->toggle_count.value() & kToggle) != 0;
  notice.count = wire->toggle_count.value() & kCountMask;
  notice.details = wire->details;
  notice.issuer_gid = Gid(wire->issuer_gid);
  return notice;
}

void EncodeInformInfo(const InformInfo& info, absl::Span<uint8_t> bytes) {
  InformInfoWire wire;
  wire.gid = info.gid.bytes();
  wire.lid_begin = info.lid_begin;
  wire.lid_end = info.lid_end;
  wire.generic = info.generic ? 1 : 0;
  wire.subscribe = info.subscribe ? 1 : 0;
  wire.type = info.type;
  wire.trap = info.trap;
  wire.qpn = info.qpn.value();
  wire.response_time = info.response_time & kResponseTimeMask;
  wire.producer = info.producer;
  WriteAttribute(wire, bytes);
}

absl::StatusOr<InformInfo> DecodeInformInfo(absl::Span<const uint8_t> bytes) {
  const auto wire = ReadAttribute<InformInfoWire>(bytes, "InformInfo");
  if (!wire.ok()) return wire.status();
  if (wire->generic > 1 || wire->subscribe > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("decode InformInfo: IsGeneric ", wire->generic, ", Subscribe ", wire->subscribe, ": expected 0 or 1"));
  }
  InformInfo info;
  info.gid = Gid(wire->gid);
  info.lid_begin = wire->lid_begin.value();
  info.lid_end = wire->lid_end.value();
  info.generic = wire->generic == 1;
  info.subscribe = wire->subscribe == 1;
  info.type = wire->type.value();
  info.trap = wire->trap.value();
  info.qpn = Qpn(wire->qpn.value());
  info.response_time = wire->response_time & kResponseTimeMask;
  info.producer = wire->producer.value();
  return info;
}

}  // namespace eoib
