#include "vswitch/fabric/hca.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "vswitch/fabric/fake_verbs.h"

namespace eoib {
namespace {

using testing::HasSubstr;

TEST(QueryPort, ReadsTheConfigurationOfTheSubnetManager) {
  FakeHca hca;
  hca.port_attr.lid = 5;
  hca.port_attr.sm_lid = 1;
  hca.gid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x2c9'0300'0e0b'72));
  const absl::StatusOr<HcaPortInfo> info = hca.QueryPort();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_TRUE(info->active);
  EXPECT_FALSE(info->ethernet_link_layer);
  EXPECT_EQ(info->lid, Lid(5));
  EXPECT_EQ(info->sm_lid, Lid(1));
  EXPECT_EQ(info->gid, hca.gid);
  EXPECT_EQ(info->mtu, 5);

  hca.port_attr.state = IBV_PORT_INIT;
  hca.port_attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  EXPECT_FALSE(hca.QueryPort()->active) << "no subnet manager has been here";
  EXPECT_TRUE(hca.QueryPort()->ethernet_link_layer);
}

TEST(QueryPort, ComputesTheRateFromSpeedAndWidth) {
  struct Row {
    const char* description;
    uint8_t speed;
    uint8_t width;
    int code;
  };
  static constexpr Row kRows[] = {
      {"1x SDR", 1, 1, 2},        {"4x SDR", 1, 2, 3},         {"4x DDR", 2, 2, 6},
      {"4x QDR", 4, 2, 7},        {"4x FDR10", 8, 2, 7},       {"1x FDR", 16, 1, 11},
      {"4x FDR", 16, 2, 12},      {"12x FDR", 16, 8, 14},      {"4x EDR", 32, 2, 16},
      {"2x HDR", 64, 16, 16},     {"4x HDR", 64, 2, 17},       {"4x NDR", 128, 2, 21},
      {"8x NDR", 128, 4, 23},     {"12x NDR", 128, 8, 24},     {"12x QDR", 4, 8, 10},
      {"no such speed", 3, 2, 0}, {"no such width", 32, 3, 0}, {"port down: nothing", 0, 0, 0},
  };
  for (const Row& row : kRows) {
    FakeHca hca;
    hca.port_attr.active_speed = row.speed;
    hca.port_attr.active_width = row.width;
    EXPECT_EQ(hca.QueryPort()->rate, row.code) << row.description;
  }
}

TEST(QueryPort, AFailureSaysWhatWasQueried) {
  FakeHca hca;
  hca.FailNext("query_port", EIO);
  EXPECT_EQ(hca.QueryPort().status().message(), "query port fake0/1: Input/output error");
  hca.FailNext("query_gid", EINVAL);
  EXPECT_EQ(hca.QueryPort().status().message(), "query GID 0 of port fake0/1: Invalid argument");
}

TEST(PortTrouble, NamesTheCauseAndTheCommandsToRun) {
  struct Row {
    ibv_port_state state;
    uint8_t link_layer;
    const char* part;
  };
  static constexpr Row kRows[] = {
      {IBV_PORT_DOWN, IBV_LINK_LAYER_INFINIBAND, "the port is down: no link (cable"},
      {IBV_PORT_NOP, IBV_LINK_LAYER_INFINIBAND, "the port is down"},
      {IBV_PORT_INIT, IBV_LINK_LAYER_INFINIBAND, "is OpenSM running?"},
      {IBV_PORT_ARMED, IBV_LINK_LAYER_INFINIBAND, "the port is armed"},
      {IBV_PORT_DOWN, IBV_LINK_LAYER_ETHERNET, "netdev"},
  };
  for (const Row& row : kRows) {
    FakeHca hca;
    hca.port_attr.state = row.state;
    hca.port_attr.link_layer = row.link_layer;
    EXPECT_FALSE(hca.QueryPort()->active);
    EXPECT_THAT(PortTrouble(*hca.QueryPort()), HasSubstr(row.part));
  }
}

TEST(FindPKey, PrefersTheFullMembersEntry) {
  struct Row {
    const char* description;
    std::vector<uint16_t> table;
    uint16_t wanted;
    int index;  // -1: none
    uint16_t pkey;
  };
  const Row rows[] = {
      {"full member", {0xffff, 0x8001}, 0x8001, 1, 0x8001},
      {"asked for by the limited form", {0xffff, 0x8001}, 0x0001, 1, 0x8001},
      {"limited member only", {0xffff, 0x0001}, 0x8001, 1, 0x0001},
      {"both: the full one, though later", {0x7fff, 0x0001, 0x8001}, 0x8001, 2, 0x8001},
      {"both: the full one, though earlier", {0x8001, 0x0001}, 0x8001, 0, 0x8001},
      {"two limited entries: the first", {0, 0x0001, 0x0001}, 0x8001, 1, 0x0001},
      {"an unused entry matches no P_Key", {0x0000, 0x8000}, 0x8000, -1, 0},
      {"not a member", {0xffff, 0x8002}, 0x8001, -1, 0},
      {"empty table", {}, 0x8001, -1, 0},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.description);
    FakeHca hca;
    hca.pkeys = row.table;
    const absl::StatusOr<Hca::PKeyIndex> found = hca.FindPKey(PKey(row.wanted));
    ASSERT_EQ(found.ok(), row.index >= 0) << found.status();
    if (!found.ok()) {
      EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
      continue;
    }
    EXPECT_EQ(found->index, row.index);
    EXPECT_EQ(found->pkey, PKey(row.pkey));
  }
}

TEST(FindPKey, ListsTheTable) {
  FakeHca hca;
  hca.pkeys = {0xffff, 0x0000, 0x8002};
  EXPECT_EQ(hca.FindPKey(PKey(0x8001)).status().message(),
            "find P_Key 0x8001 on port fake0/1: not in its table (0xffff, 0x8002); has the subnet "
            "manager put this port into the partition (OpenSM: partitions.conf)?");
  hca.FailNext("query_pkey", EIO);
  EXPECT_EQ(hca.FindPKey(PKey(0x8001)).status().message(),
            "query P_Key 0 of port fake0/1: Input/output error");
}

// RoCE: rdma_rxe has one P_Key, 0xffff, and checks none.
TEST(FindPKey, EveryPortIsAFullMemberOnAnEthernetLinkLayer) {
  FakeHca hca;
  hca.port_attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  hca.pkeys = {0xffff};
  for (const uint16_t pkey : {0x8001, 0x0001}) {
    const absl::StatusOr<Hca::PKeyIndex> found = hca.FindPKey(PKey(pkey));
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->index, 0);
    EXPECT_EQ(found->pkey, PKey(0x8001)) << "every port is a full member";
  }
}

TEST(QueryGidEntry, ReturnsTheChosenEntry) {
  FakeHca hca;
  hca.gids[3].ndev_ifindex = 7;
  hca.chosen_gid_index = 3;
  EXPECT_EQ(hca.QueryGidEntry().value().ndev_ifindex, 7u);
  hca.chosen_gid_index = 4;
  EXPECT_EQ(hca.QueryGidEntry().status().message(),
            "query GID 4 of port fake0/1: No data available");
}

}  // namespace
}  // namespace eoib
