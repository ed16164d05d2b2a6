// ServiceRecord (IBA 1.4 §15.2.5.15): a service that a port offers, registered with the subnet
// administrator for a time.
//
// A record is identified by its service ID, GID and P_Key.
#ifndef EOIB_VSWITCH_WIRE_IB_SERVICE_RECORD_H_
#define EOIB_VSWITCH_WIRE_IB_SERVICE_RECORD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"

namespace eoib {

// Component mask bits. Those of the data, bits 7 to 36, have no names.
namespace service {
inline constexpr uint64_t kId = 1ull << 0, kGid = 1ull << 1, kPKey = 1ull << 2, kLease = 1ull << 4,
                          kKey = 1ull << 5, kName = 1ull << 6;
inline constexpr uint64_t kData = ((1ull << 30) - 1) << 7;  // all of it
}  // namespace service

struct ServiceRecord {
  static constexpr uint32_t kForever = 0xffffffff;
  static constexpr size_t kNameSize = 64;
  // ServiceData8, 16, 32 and 64 follow each other: 16 bytes, and 8, 4 and 2 big-endian numbers.
  static constexpr size_t kDataSize = 64;
  static constexpr size_t kData16 = 16, kData32 = 32, kData64 = 48;  // where they start

  uint64_t id = 0;
  Gid gid;
  PKey pkey;
  uint32_t lease = 0;             // seconds, or kForever
  std::array<uint8_t, 16> key{};  // of the registration; the SA discloses it to trusted hosts only
  std::string name;               // at most kNameSize bytes
  std::array<uint8_t, kDataSize> data{};

  friend bool operator==(const ServiceRecord&, const ServiceRecord&) = default;
};
inline constexpr size_t kServiceRecordSize = 176;
// As the codecs of sa_mad.h.
void EncodeServiceRecord(const ServiceRecord& record, absl::Span<uint8_t> bytes);
absl::StatusOr<ServiceRecord> DecodeServiceRecord(absl::Span<const uint8_t> bytes);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_SERVICE_RECORD_H_
