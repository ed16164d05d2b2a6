#include "vswitch/wire/ib/mad.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ib/attribute_codec.h"

namespace eoib {
namespace {

constexpr uint8_t kBaseVersion = 1;
constexpr uint8_t kResponseBit = 0x80;

// IBA 1.4 §13.4.3.
struct MadHeaderWire {
  uint8_t base_version = kBaseVersion;
  uint8_t mgmt_class = 0;
  uint8_t class_version = 0;
  uint8_t method = 0;
  be16 status;
  be16 class_specific;
  be64 tid;
  be16 attribute;
  be16 reserved;
  be32 attribute_modifier;
};
static_assert(sizeof(MadHeaderWire) == 24);

template <typename Copy, typename Header>
void Fields(Copy copy, MadHeaderWire& wire, Header& header) {
  copy(wire.mgmt_class, header.mgmt_class);
  copy(wire.class_version, header.class_version);
  copy(wire.method, header.method);
  copy(wire.status, header.status);
  copy(wire.class_specific, header.class_specific);
  copy(wire.tid, header.tid);
  copy(wire.attribute, header.attribute);
  copy(wire.attribute_modifier, header.attribute_modifier);
}

}  // namespace

MadMethod ResponseTo(MadMethod method) {
  if (method == MadMethod::kSet) return MadMethod::kGetResp;
  return static_cast<MadMethod>(static_cast<uint8_t>(method) | kResponseBit);
}

void EncodeMadHeader(const MadHeader& header, Mad* mad) {
  MadHeaderWire wire;
  Fields(ToWire(), wire, header);
  WriteWire(wire, mad->data());
}

absl::StatusOr<MadHeader> DecodeMadHeader(absl::Span<const uint8_t> mad) {
  auto wire = ReadAttribute<MadHeaderWire>(mad, "MAD");
  if (!wire.ok()) return wire.status();
  if (wire->base_version != kBaseVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("decode MAD: base version ", wire->base_version, ", expected 1"));
  }
  MadHeader header;
  Fields(FromWire(), *wire, header);
  return header;
}

}  // namespace eoib
