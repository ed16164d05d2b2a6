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

}  // namespace

MadMethod ResponseTo(MadMethod method) {
  if (method == MadMethod::kSet) return MadMethod::kGetResp;
  return static_cast<MadMethod>(static_cast<uint8_t>(method) | kResponseBit);
}

void EncodeMadHeader(const MadHeader& header, Mad* mad) {
  MadHeaderWire wire;
  wire.mgmt_class = static_cast<uint8_t>(header.mgmt_class);
  wire.class_version = header.class_version;
  wire.method = static_cast<uint8_t>(header.method);
  wire.status = header.status;
  wire.class_specific = header.class_specific;
  wire.tid = header.tid;
  wire.attribute = header.attribute;
  wire.attribute_modifier = header.attribute_modifier;
  WriteWire(wire, mad->data());
}

absl::StatusOr<MadHeader> DecodeMadHeader(absl::Span<const uint8_t> mad) {
  const auto wire = ReadAttribute<MadHeaderWire>(mad, "MAD");
  if (!wire.ok()) return wire.status();
  if (wire->base_version != kBaseVersion) {
    return absl::InvalidArgumentError(absl::StrCat("decode MAD: base version ", wire->base_version, ", expected 1"));
  }
  MadHeader header;
  header.mgmt_class = static_cast<MgmtClass>(wire->mgmt_class);
  header.class_version = wire->class_version;
  header.method = static_cast<MadMethod>(wire->method);
  header.status = wire->status.value();
  header.class_specific = wire->class_specific.value();
  header.tid = wire->tid.value();
  header.attribute = wire->attribute.value();
  header.attribute_modifier = wire->attribute_modifier.value();
  return header;
}

}  // namespace eoib
