#include "vswitch/wire/ib/service_record.h"

#include <algorithm>

#include "vswitch/base/byte_order.h"
#include "vswitch/base/check.h"
#include "vswitch/wire/ib/attribute_codec.h"

namespace eoib {
namespace {

struct ServiceRecordWire {
  be64 id;
  std::array<uint8_t, Gid::kSize> gid{};
  be16 pkey;
  be16 reserved;
  be32 lease;
  std::array<uint8_t, 16> key{};
  std::array<uint8_t, ServiceRecord::kNameSize> name{};
  std::array<uint8_t, ServiceRecord::kDataSize> data{};
};
static_assert(sizeof(ServiceRecordWire) == kServiceRecordSize);

// All but the name.
template <typename Copy, typename Record>
void Fields(Copy copy, ServiceRecordWire& wire, Record& record) {
  copy(wire.id, record.id);
  copy(wire.gid, record.gid);
  copy(wire.pkey, record.pkey);
  copy(wire.lease, record.lease);
  copy(wire.key, record.key);
  copy(wire.data, record.data);
}

}  // namespace

void EncodeServiceRecord(const ServiceRecord& record, absl::Span<uint8_t> bytes) {
  EOIB_CHECK(record.name.size() <= ServiceRecord::kNameSize);
  ServiceRecordWire wire;
  Fields(ToWire(), wire, record);
  std::copy(record.name.begin(), record.name.end(), wire.name.begin());
  WriteAttribute(wire, bytes);
}

absl::StatusOr<ServiceRecord> DecodeServiceRecord(absl::Span<const uint8_t> bytes) {
  auto wire = ReadAttribute<ServiceRecordWire>(bytes, "ServiceRecord");
  if (!wire.ok()) return wire.status();
  ServiceRecord record;
  Fields(FromWire(), *wire, record);
  record.name.assign(wire->name.begin(), std::find(wire->name.begin(), wire->name.end(), 0));
  return record;
}

}  // namespace eoib
