#include "gateway/host/interface_address.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace eoib::endpoint {
namespace {

TEST(InterfaceAddressTest, Golden) {
  const struct {
    const char* text;
    const char* printed;    // null: refused
    const char* broadcast;  // null: none
    const char* on_link;
    const char* off_link;
  } kRows[] = {
      {"10.0.0.1/24", "10.0.0.1/24", "10.0.0.255", "10.0.0.200", "10.0.1.1"},
      {"10.0.0.1", "10.0.0.1/32", nullptr, "10.0.0.1", "10.0.0.2"},
      {"10.0.0.1/31", "10.0.0.1/31", nullptr, "10.0.0.0", "10.0.0.2"},
      {"10.0.0.1/0", "10.0.0.1/0", "255.255.255.255", "192.0.2.1", "fd00::1"},
      {"10.0.0.1/9", "10.0.0.1/9", "10.127.255.255", "10.100.0.1", "10.128.0.1"},
      {"fd00::1/64", "fd00::1/64", nullptr, "fd00::2", "fd00:0:0:1::1"},
      {"fd00::1/3", "fd00::1/3", nullptr, "e000::1", "10.0.0.1"},
      {"fd00::1/128", "fd00::1/128", nullptr, "fd00::1", "fd00::2"},
      {"10.0.0.1/33", nullptr, nullptr, nullptr, nullptr},
      {"fd00::1/129", nullptr, nullptr, nullptr, nullptr},
      {"10.0.0.1/", nullptr, nullptr, nullptr, nullptr},
      {"10.0.0.1/-1", nullptr, nullptr, nullptr, nullptr},
      {"224.0.0.1/24", nullptr, nullptr, nullptr, nullptr},
      {"255.255.255.255/32", nullptr, nullptr, nullptr, nullptr},
      {"::/64", nullptr, nullptr, nullptr, nullptr},
      {"host/24", nullptr, nullptr, nullptr, nullptr},
  };
  for (const auto& row : kRows) {
    const auto address = InterfaceAddress::Parse(row.text);
    ASSERT_EQ(address.ok(), row.printed != nullptr) << row.text;
    if (!address.ok()) continue;
    EXPECT_EQ(address->ToString(), row.printed);
    const auto broadcast = address->SubnetBroadcast();
    EXPECT_EQ(broadcast.has_value() ? broadcast->ToString() : "",
              row.broadcast == nullptr ? "" : row.broadcast)
        << row.text;
    EXPECT_TRUE(address->OnLink(*IpAddr::Parse(row.on_link))) << row.text;
    EXPECT_FALSE(address->OnLink(*IpAddr::Parse(row.off_link))) << row.text;
  }
}

TEST(JoinAddressFlagsTest, Golden) {
  const struct {
    const char* given;
    const char* joined;
  } kRows[] = {
      {"eoib-ipoib", "eoib-ipoib"},
      {"eoib-ipoib --dhcp", "eoib-ipoib --dhcp"},
      {"eoib-ipoib --address=A --hca=x --address=B", "eoib-ipoib --address=A,B --hca=x"},
      {"eoib-ipoib --address A --address B", "eoib-ipoib --address=A,B"},
      {"eoib-ipoib -address A,B --dhcp -address=C", "eoib-ipoib --address=A,B,C --dhcp"},
      // That has none, gflags says.
      {"eoib-ipoib --address A --address", "eoib-ipoib --address=A --address"},
      {"eoib-ipoib --address_x A --noaddress", "eoib-ipoib --address_x A --noaddress"},
      {"eoib-ipoib --address A -- --address B", "eoib-ipoib --address=A -- --address B"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(absl::StrJoin(JoinAddressFlags(absl::StrSplit(row.given, ' ')), " "), row.joined)
        << row.given;
  }
}

}  // namespace
}  // namespace eoib::endpoint
