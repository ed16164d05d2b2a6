#include "vswitch/wire/ipoib_header.h"

#include <gtest/gtest.h>

#include <array>

#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/golden_ipoib_for_test.h"

namespace eoib {
namespace {

TEST(IpoibHeaderTest, Decode) {
  const struct {
    const char* description;
    const char* hex;
    absl::optional<IpoibType> type;
  } kRows[] = {
      {"IPv4", "08000000", IpoibType::kIpv4},
      {"ARP", "08060000", IpoibType::kArp},
      {"RARP", "80350000", IpoibType::kRarp},
      {"IPv6", "86dd0000", IpoibType::kIpv6},
      {"the reserved field is ignored", "0800ffff", IpoibType::kIpv4},
      {"an ARP request of Linux", kLinuxArpRequest, IpoibType::kArp},
      {"a ping of Linux", kLinuxPing, IpoibType::kIpv4},
      {"a solicitation of Linux", kLinuxNeighborSolicitation, IpoibType::kIpv6},
      {"nothing", "", absl::nullopt},
      {"three bytes", "080000", absl::nullopt},
      {"an EtherType of which RFC 4391 does not speak", "88cc0000", absl::nullopt},
      {"EoIB", "c0000000", absl::nullopt},
      {"EoIB's alternative", "89190000", absl::nullopt},
  };
  for (const auto& row : kRows)
    EXPECT_EQ(DecodeIpoibHeader(FromHex(row.hex)), row.type) << row.description;
}

TEST(IpoibHeaderTest, Encode) {
  const struct {
    IpoibType type;
    const char* hex;
  } kRows[] = {
      {IpoibType::kIpv4, "08000000"},
      {IpoibType::kArp, "08060000"},
      {IpoibType::kRarp, "80350000"},
      {IpoibType::kIpv6, "86dd0000"},
  };
  for (const auto& row : kRows) {
    std::array<uint8_t, kIpoibHeaderSize> bytes;
    bytes.fill(0xee);
    EncodeIpoibHeader(row.type, bytes.data());
    EXPECT_EQ(ToHex(bytes), row.hex);
  }
}

// Both protocols share a fabric, and only these bytes tell their datagrams apart.
TEST(IpoibHeaderTest, NoDatagramIsAlsoEoib) {
  int accepted = 0;
  for (uint32_t type = 0; type <= 0xffff; ++type) {
    std::array<uint8_t, kIpoibHeaderSize> bytes;
    WriteWire(be32(type << 16), bytes.data());
    if (!DecodeIpoibHeader(bytes).has_value()) continue;
    ++accepted;
    EoibHeader header;
    EXPECT_EQ(DecodeEoibHeader(bytes, &header), DropReason::kNotEoib) << type;
  }
  EXPECT_EQ(accepted, 4);
}

}  // namespace
}  // namespace eoib
