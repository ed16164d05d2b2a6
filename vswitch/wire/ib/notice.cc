#include "vswitch/wire/ib/notice.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ib/attribute_codec.h"

namespace eoib {
namespace {

// Traps 64 to 67: offset of the GID, after reserved bytes (§14.2.5.1)
constexpr size_t kGidInDetails = 6;

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

template <typename Copy, typename N>
void Fields(Copy copy, NoticeWire& wire, N& notice) {
  copy(wire.generic_type, notice.generic, 7, 1);
  copy(wire.generic_type, notice.type, 0, 7);
  copy(wire.producer, notice.producer);
  copy(wire.trap, notice.trap);
  copy(wire.issuer_lid, notice.issuer_lid);
  copy(wire.toggle_count, notice.toggle, 15, 1);
  copy(wire.toggle_count, notice.count, 0, 15);
  copy(wire.details, notice.details);
  copy(wire.issuer_gid, notice.issuer_gid);
}

template <typename Copy, typename Info>
void Fields(Copy copy, InformInfoWire& wire, Info& info) {
  copy(wire.gid, info.gid);
  copy(wire.lid_begin, info.lid_begin);
  copy(wire.lid_end, info.lid_end);
  copy(wire.generic, info.generic);
  copy(wire.subscribe, info.subscribe);
  copy(wire.type, info.type);
  copy(wire.trap, info.trap);
  copy(wire.qpn, info.qpn);
  copy(wire.response_time, info.response_time, 0, 5);
  copy(wire.producer, info.producer);
}

}  // namespace

Notice Notice::OfGid(SmTrap trap, const Gid& gid) {
  Notice notice;
  notice.trap = static_cast<uint16_t>(trap);
  gid.ToWire(notice.details.data() + kGidInDetails);
  return notice;
}

Gid Notice::AboutGid() const { return Gid::FromWire(details.data() + kGidInDetails); }

void EncodeNotice(const Notice& notice, absl::Span<uint8_t> bytes) {
  EncodeFields<NoticeWire>(notice, bytes);
}
absl::StatusOr<Notice> DecodeNotice(absl::Span<const uint8_t> bytes) {
  return DecodeFields<NoticeWire, Notice>(bytes, "Notice");
}

void EncodeInformInfo(const InformInfo& info, absl::Span<uint8_t> bytes) {
  EncodeFields<InformInfoWire>(info, bytes);
}

absl::StatusOr<InformInfo> DecodeInformInfo(absl::Span<const uint8_t> bytes) {
  const auto wire = ReadAttribute<InformInfoWire>(bytes, "InformInfo");
  if (wire.ok() && (wire->generic > 1 || wire->subscribe > 1)) {
    return absl::InvalidArgumentError(absl::StrCat("decode InformInfo: IsGeneric ", wire->generic,
                                                   ", Subscribe ", wire->subscribe,
                                                   ": expected 0 or 1"));
  }
  return DecodeFields<InformInfoWire, InformInfo>(bytes, "InformInfo");
}

}  // namespace eoib
