#include "vswitch/wire/ip/ipoib_address.h"

#include <array>
#include <charconv>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
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

// Removes one or two hex digits from the start of *text.
bool TakeByte(absl::string_view* text, uint8_t* byte) {
  const absl::string_view digits = text->substr(0, text->find(':'));
  const char* const end = digits.data() + digits.size();
  const auto [parsed_to, error] = std::from_chars(digits.data(), end, *byte, 16);
  if (digits.size() > 2 || error != std::errc() || parsed_to != end) return false;
  text->remove_prefix(digits.size());
  return true;
}

// Parses all of `text`: groups of hex digits separated by colons.
bool ParseBytes(absl::string_view text, std::array<uint8_t, IpoibAddress::kSize>* bytes) {
  for (size_t i = 0; i < bytes->size(); ++i) {
    if (i > 0 && !absl::ConsumePrefix(&text, ":")) return false;
    if (!TakeByte(&text, &(*bytes)[i])) return false;
  }
  return text.empty();
}

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
  if (!ParseBytes(text, &bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not an IPoIB address; write twenty groups of hex digits, as in 00:00:00:48:fe:80:..."));
  }
  return FromWire(bytes.data());
}

std::string IpoibAddress::ToString() const {
  std::array<uint8_t, kSize> bytes;
  ToWire(bytes.data());
  std::string text;
  for (uint8_t byte : bytes) absl::StrAppend(&text, text.empty() ? "" : ":", absl::Hex(byte, absl::kZeroPad2));
  return text;
}

InterfaceId ToInterfaceId(Guid guid) { return InterfaceId(guid.value() | kUniversal); }

}  // namespace eoib
