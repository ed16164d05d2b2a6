#include "vswitch/base/address.h"

#include <arpa/inet.h>

#include <charconv>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace eoib {
namespace {

// Parses all of `text` as an unsigned integer, without sign or space.
template <typename Integer>
bool ParseDigits(absl::string_view text, int base, Integer* value) {
  const char* const end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, *value, base);
  return result.ec == std::errc() && result.ptr == end;
}

bool TakeHexPrefix(absl::string_view* text) {
  if (text->size() < 2 || (*text)[0] != '0' || ((*text)[1] != 'x' && (*text)[1] != 'X'))
    return false;
  text->remove_prefix(2);
  return true;
}

bool ParseDecimalOrHex(absl::string_view text, uint32_t* value) {
  const int base = TakeHexPrefix(&text) ? 16 : 10;
  return ParseDigits(text, base, value);
}

absl::Status Wrong(absl::string_view text, absl::string_view right) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not ", right));
}

template <typename Kind, typename Integer>
absl::StatusOr<Kind> ParseNumber(absl::string_view text, uint32_t min, uint32_t max,
                                 absl::string_view right) {
  uint32_t value;
  if (!ParseDecimalOrHex(text, &value) || value < min || value > max) return Wrong(text, right);
  return Kind(static_cast<Integer>(value));
}

// Parses groups of at least `min_digits` hex digits, separated by colons.
template <typename Group>
bool ParseGroups(absl::string_view text, size_t min_digits, absl::Span<Group> groups) {
  for (Group& group : groups) {
    const size_t colon = text.find(':');
    const bool last = &group == &groups.back();
    if (last != (colon == absl::string_view::npos)) return false;
    const absl::string_view digits = text.substr(0, colon);
    if (digits.size() < min_digits || digits.size() > 2 * sizeof(Group) ||
        !ParseDigits(digits, 16, &group))
      return false;
    if (!last) text.remove_prefix(colon + 1);
  }
  return true;
}

bool ParseGuidGroups(absl::string_view text, uint64_t* value) {
  std::array<uint16_t, 4> groups;
  if (!ParseGroups(text, 4, absl::MakeSpan(groups))) return false;
  *value =
      uint64_t{groups[0]} << 48 | uint64_t{groups[1]} << 32 | uint64_t{groups[2]} << 16 | groups[3];
  return true;
}

// Of "02-00-5e-10-00-01" and "0200.5e10.0001".
std::string WithColons(absl::string_view text) {
  if (!absl::StrContains(text, '.')) return absl::StrReplaceAll(text, {{"-", ":"}});
  std::string colons;
  for (absl::string_view group : absl::StrSplit(text, '.')) {
    absl::StrAppend(&colons, colons.empty() ? "" : ":", group.substr(0, 2), ":",
                    group.size() == 4 ? group.substr(2) : "");
  }
  return colons;
}

}  // namespace

bool ParseHexBytes(absl::string_view text, absl::Span<uint8_t> bytes) {
  return ParseGroups(text, 1, bytes);
}

absl::StatusOr<MacAddr> MacAddr::Parse(absl::string_view text) {
  std::array<uint8_t, kSize> bytes;
  if (!ParseHexBytes(WithColons(text), absl::MakeSpan(bytes))) {
    return Wrong(text, "a MAC address; write six groups of hex digits, as in 02:00:5e:10:00:01");
  }
  return MacAddr(bytes);
}

std::string MacAddr::ToString() const {
  return absl::StrFormat("%02x:%02x:%02x:%02x:%02x:%02x", bytes_[0], bytes_[1], bytes_[2],
                         bytes_[3], bytes_[4], bytes_[5]);
}

std::string Vid::ToString() const { return absl::StrCat(value()); }

absl::StatusOr<Lid> Lid::Parse(absl::string_view text) {
  return ParseNumber<Lid, uint16_t>(text, 1, kMax,
                                    "a LID; write a number from 1 to 49151, as 5 or 0x5");
}
std::string Lid::ToString() const { return absl::StrFormat("0x%x", value()); }

std::string Mlid::ToString() const { return absl::StrFormat("0x%x", value()); }

absl::StatusOr<Qpn> Qpn::Parse(absl::string_view text) {
  return ParseNumber<Qpn, uint32_t>(
      text, 0, kMax, "a queue pair number; write a number of 24 bits, as 72 or 0x48");
}
std::string Qpn::ToString() const { return absl::StrFormat("0x%x", value()); }

std::string QKey::ToString() const { return absl::StrFormat("0x%08x", value()); }

std::string Sl::ToString() const { return absl::StrCat(value()); }

absl::StatusOr<PKey> PKey::Parse(absl::string_view text) {
  absl::StatusOr<PKey> pkey = ParseNumber<PKey, uint16_t>(
      text, 0, 0xffff, "a P_Key; write a number of 16 bits, as in 0x8001");
  // IBA 1.4 §10.9.1.1: a P_Key whose low 15 bits are zero is invalid.
  if (pkey.ok() && !pkey->IsValid())
    return Wrong(text, "a valid P_Key; its low 15 bits must not be zero, as in 0x8001");
  // "8001" is far more often a P_Key without its 0x than the number 0x1f41.
  const bool decimal = pkey.ok() && !TakeHexPrefix(&text);
  if (decimal && pkey->value() >= 8000 && pkey->value() <= 9999) {
    return Wrong(text, absl::StrCat("a P_Key; did you mean 0x", text,
                                    "? For the decimal number write ", pkey->ToString()));
  }
  return pkey;
}
std::string PKey::ToString() const { return absl::StrFormat("0x%04x", value()); }

absl::StatusOr<Guid> Guid::Parse(absl::string_view text) {
  uint64_t value;
  absl::string_view digits = text;
  const bool good =
      TakeHexPrefix(&digits) ? ParseDigits(digits, 16, &value) : ParseGuidGroups(text, &value);
  if (!good) return Wrong(text, "a GUID; write 0x0002c903000e0b72 or 0002:c903:000e:0b72");
  return Guid(value);
}

std::string Guid::ToString() const {
  const uint64_t guid = value();
  return absl::StrFormat("%04x:%04x:%04x:%04x", guid >> 48, guid >> 32 & 0xffff,
                         guid >> 16 & 0xffff, guid & 0xffff);
}

absl::StatusOr<Gid> Gid::Parse(absl::string_view text) {
  Gid gid;
  if (inet_pton(AF_INET6, std::string(text).c_str(), gid.bytes_.data()) != 1 ||
      text.find('\0') != absl::string_view::npos) {
    return Wrong(text, "a GID; write it as an IPv6 address, as in fe80::2:c903:e:b72");
  }
  return gid;
}

std::string Gid::ToString() const {
  return absl::StrCat(Guid(prefix()).ToString(), ":", guid().ToString());
}

}  // namespace eoib
