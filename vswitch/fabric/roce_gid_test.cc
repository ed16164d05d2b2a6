#include "vswitch/fabric/roce_gid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>

#include "vswitch/fabric/fake_verbs.h"

namespace eoib {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr ibv_gid_type kV1 = IBV_GID_TYPE_ROCE_V1;
constexpr ibv_gid_type kV2 = IBV_GID_TYPE_ROCE_V2;

RoceGid Entry(int index, const char* gid, ibv_gid_type type, bool assigned, int netdev = 1) {
  return {index, Gid::Parse(gid).value(), type, netdev, assigned};
}

TEST(ChooseRoceGid, PrefersAnAssignedLinkLocalIpv6Address) {
  struct Row {
    const char* description;
    std::vector<RoceGid> table;
    int index;  // -1: none
  };
  const Row rows[] = {
      {"rdma_rxe: default entry, IPv4, IPv6",
       {Entry(0, "fe80::5054:ff:fe00:1", kV2, true), Entry(1, "::ffff:10.0.0.1", kV2, true),
        Entry(2, "2001:db8::1", kV2, true)},
       0},
      {"mlx5: each in both versions",
       {Entry(0, "fe80::1", kV1, true), Entry(1, "fe80::1", kV2, true),
        Entry(2, "::ffff:10.0.0.1", kV1, true), Entry(3, "::ffff:10.0.0.1", kV2, true)},
       1},
      {"the link-local address is not made of the MAC",
       {Entry(0, "fe80::1", kV1, false), Entry(1, "fe80::1", kV2, false),
        Entry(4, "fe80::77aa", kV1, true), Entry(5, "fe80::77aa", kV2, true)},
       5},
      {"link-local before others, though later",
       {Entry(2, "2001:db8::1", kV2, true), Entry(3, "fe80::1", kV2, true)},
       3},
      {"an address before a default entry that is none",
       {Entry(0, "fe80::1", kV2, false), Entry(1, "2001:db8::1", kV2, true)},
       1},
      {"the network device is down",
       {Entry(0, "fe80::1", kV1, false), Entry(1, "fe80::1", kV2, false)},
       1},
      {"an HCA without RoCE v2",
       {Entry(0, "fe80::1", kV1, true), Entry(1, "::ffff:10.0.0.1", kV1, true)},
       0},
      {"IPv4 only", {Entry(0, "::ffff:10.0.0.1", kV2, true)}, -1},
      {"no network device", {Entry(0, "fe80::1", kV2, false, 0)}, -1},
      {"empty", {}, -1},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.description);
    const absl::StatusOr<int> index = ChooseRoceGid(row.table, "rxe0/1");
    ASSERT_EQ(index.ok(), row.index >= 0) << index.status();
    if (index.ok()) {
      EXPECT_EQ(*index, row.index);
    }
  }
}

TEST(ChooseRoceGid, AFailureListsTheTable) {
  const unsigned lo = if_nametoindex("lo");
  const std::vector<RoceGid> table = {Entry(0, "::ffff:10.0.0.1", kV2, true, static_cast<int>(lo)),
                                      Entry(1, "::ffff:10.0.0.2", kV1, true, 9999)};
  EXPECT_EQ(ChooseRoceGid(table, "rxe0/1").status().message(),
            "choose a GID of port rxe0/1: none is an IPv6 address (there is GID 0 "
            "0000:0000:0000:0000:0000:ffff:0a00:0001, RoCE v2 on lo; GID 1 "
            "0000:0000:0000:0000:0000:ffff:0a00:0002, RoCE v1 on network device 9999); enable IPv6 "
            "on its network device");
  EXPECT_THAT(std::string(ChooseRoceGid({}, "rxe0/1").status().message()),
              HasSubstr("its table is empty"));
}

TEST(CheckRoceGid, AcceptsAnyEntryButIpv4) {
  const std::vector<RoceGid> table = {Entry(0, "fe80::1", kV1, false),
                                      Entry(3, "::ffff:10.0.0.1", kV2, true)};
  EXPECT_TRUE(CheckRoceGid(table, 0, "rxe0/1").ok());
  const absl::Status missing = CheckRoceGid(table, 1, "rxe0/1");
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(
      std::string(missing.message()),
      HasSubstr("use GID 1 of port rxe0/1: there is none at that index; there is GID 0 fe80"));
  EXPECT_THAT(std::string(CheckRoceGid(table, 3, "rxe0/1").message()),
              HasSubstr("an IPv4 address, which cannot send to"));
}

class ReadRoceGidsTest : public testing::Test {
 protected:
  void Add(int index, const Gid& gid, ibv_gid_type type) {
    ibv_gid_entry& entry = hca_.gids[index];
    gid.ToWire(entry.gid.raw);
    entry.gid_index = static_cast<uint32_t>(index);
    entry.gid_type = type;
    entry.ndev_ifindex = if_nametoindex("lo");
  }
  FakeHca hca_;
};

// The loopback device has ::1 and no link-local address.
TEST_F(ReadRoceGidsTest, MarksEntriesWithAnAssignedAddress) {
  hca_.port_attr.gid_tbl_len = 300;
  Add(0, Gid::Parse("fe80::1").value(), kV2);
  Add(7, Gid::Parse("::1").value(), kV1);
  Add(256, Gid::Parse("fe80::1").value(), kV2);  // out of an address handle's reach
  const absl::StatusOr<std::vector<RoceGid>> table = ReadRoceGids(hca_);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_THAT(*table, SizeIs(2));
  EXPECT_EQ((*table)[0].ToString(), "GID 0 fe80:0000:0000:0000:0000:0000:0000:0001, RoCE v2 on lo");
  EXPECT_FALSE((*table)[0].assigned);
  EXPECT_EQ((*table)[1].ToString(), "GID 7 0000:0000:0000:0000:0000:0000:0000:0001, RoCE v1 on lo");
  EXPECT_TRUE((*table)[1].assigned);
}

TEST_F(ReadRoceGidsTest, AFailureSaysWhatWasQueried) {
  hca_.port_attr.gid_tbl_len = 1;
  hca_.FailNext("query_port", EIO);
  EXPECT_EQ(ReadRoceGids(hca_).status().message(), "query port fake0/1: Input/output error");
  hca_.FailNext("query_gid_ex", EIO);
  EXPECT_EQ(ReadRoceGids(hca_).status().message(),
            "query GID 0 of port fake0/1: Input/output error");
}

}  // namespace
}  // namespace eoib
