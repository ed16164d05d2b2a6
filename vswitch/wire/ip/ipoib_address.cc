#include "vswitch/wire/ip/ipoib_address.h"

#include <array>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"

namespace eoib {
namespace {

// RFC 4391 §9.1.1, figure 5.
struct IpoibAddressWire {
  uint8_t reserved = 0;
  be24 qpn;
  std::array<uint8_t, Gid::kSize> gid{};
};
static_assert(sizeof(IpoibAddressWire) == IpoibAddress::kSize);

constexpr uint64_t kUniversal = 0x0200'0000'0000'0000;  // RFC 4291 §2.5.1's "u"

}  // namespace

IpoibAddress IpoibAddress::FromWire(const void* wire) {
  const auto address = ReadWire<IpoibAddressWire>(wire);
  return {Qpn(address.qpn.value()), Gid(address.gid)};
}

void IpoibAddress::ToWire(void* wire) const {
  IpoibAddressWire address;
  address.qpn = qpn_.value();
  address.gid = gid_.bytes();
  WriteWire(address, wire);
}

absl::StatusOr<IpoibAddress> IpoibAddress::Parse(absl::string_view text) {
  std::array<uint8_t, kSize> bytes;
  if (!ParseHexBytes(text, absl::MakeSpan(bytes))) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text,
                     "\" is not an IPoIB address; write twenty groups of hex digits, as in "
                     "00:00:00:48:fe:80:..."));
  }
  return FromWire(bytes.data());
}

std::string IpoibAddress::ToString() const {
  std::array<uint8_t, kSize> bytes;
  ToWire(bytes.data());
  std::string text;
  for (uint8_t byte : bytes)
    absl::StrAppend(&text, text.empty() ? "" : ":", absl::Hex(byte, absl::kZeroPad2));
  return text;
}

InterfaceId ToInterfaceId(Guid guid) { return InterfaceId(guid.value() | kUniversal); }

}  // namespace eoib
