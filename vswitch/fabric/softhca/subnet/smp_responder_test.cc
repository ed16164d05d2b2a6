#include "vswitch/fabric/softhca/subnet/smp_responder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "vswitch/base/byte_order.h"
#include "vswitch/fabric/softhca/subnet/fake_ports_for_test.h"

namespace eoib::softhca {
namespace {

class SmpResponderTest : public ::testing::Test {
 protected:
  static SmpHeader Ask(SmpAttribute attribute, uint32_t modifier = 0) {
    SmpHeader header;
    header.attribute = attribute;
    header.attribute_modifier = modifier;
    header.tid = 77;
    return header;
  }
  static SmpHeader Along(SmpHeader header, std::vector<uint8_t> ports) {
    header.directed = true;
    header.hop_count = static_cast<uint8_t>(ports.size());
    for (size_t i = 0; i < ports.size(); ++i) header.initial_path[i + 1] = ports[i];
    return header;
  }
  // Returns false if there is no answer.
  bool Send(const SmpHeader& header, Lid destination = Lid()) {
    Mad mad;
    EncodeSmpHeader(header, &mad);
    const absl::optional<Mad> reply = smp_.Respond(*h2_, destination, mad);
    if (!reply.has_value()) return false;
    reply_ = *reply;
    answer_ = DecodeSmpHeader(reply_).value();
    EXPECT_EQ(answer_.tid, header.tid);
    EXPECT_EQ(answer_.method, MadMethod::kGetResp);
    return true;
  }
  std::string Name() const { return DecodeNodeDescription(SmpData(reply_)).value(); }

  FakePorts ports_;
  ManagedPort* const h2_ = ports_.Add(MakeManagedPort(2, {PKey(0xffff), PKey(0x8001)}));
  ManagedPort* const h3_ = ports_.Add(MakeManagedPort(3, {PKey(0x8009)}));
  SmpResponder smp_{&ports_};
  Mad reply_;
  SmpHeader answer_;
};

TEST_F(SmpResponderTest, WhereLidsLead) {
  const struct {
    uint16_t lid;
    const char* name;  // null: lost
  } kRows[] = {{2, "h2"}, {3, "h3"}, {1, "eoib-fabricd"}, {9, nullptr}};
  for (const auto& row : kRows) {
    const bool answered = Send(Ask(SmpAttribute::kNodeDescription), Lid(row.lid));
    ASSERT_EQ(answered, row.name != nullptr) << row.lid;
    if (answered) {
      EXPECT_EQ(Name(), row.name);
    }
  }
  h3_->config.active = false;
  EXPECT_FALSE(Send(Ask(SmpAttribute::kNodeDescription), Lid(3))) << "a port that is down";
  EXPECT_EQ(smp_.counters().requests, 3u);
  EXPECT_EQ(smp_.counters().lost, 2u);
}

// IBA 1.4 §14.2.2.
TEST_F(SmpResponderTest, WhereDirectedRoutesLead) {
  const struct {
    const char* description;
    std::vector<uint8_t> ports;
    const char* name;  // null: lost
    std::vector<uint8_t> back;
  } kRows[] = {
      {"oneself", {}, "h2", {}},
      {"the switch, entered by port 2", {1}, "eoib-fabricd", {2}},
      {"the port in its port 3", {1, 3}, "h3", {2, 1}},
      {"oneself by way of the switch", {1, 2}, "h2", {2, 1}},
      {"out of a port that is not", {2}, nullptr, {}},
      {"an empty port of the switch", {1, 9}, nullptr, {}},
      {"the switch's port 0 is not a way out", {1, 0}, nullptr, {}},
      {"through a port that is no switch", {1, 3, 1}, nullptr, {}},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.description);
    const SmpHeader asked = Along(Ask(SmpAttribute::kNodeDescription), row.ports);
    const bool answered = Send(asked, Lid(3));
    ASSERT_EQ(answered, row.name != nullptr);
    if (!answered) continue;
    EXPECT_EQ(Name(), row.name);
    EXPECT_TRUE(answer_.returning);
    EXPECT_EQ(answer_.hop_pointer, 0);
    EXPECT_EQ(answer_.hop_count, asked.hop_count);
    EXPECT_EQ(answer_.initial_path, asked.initial_path);
    for (size_t i = 0; i < row.back.size(); ++i)
      EXPECT_EQ(answer_.return_path[i + 1], row.back[i]) << i;
  }
}

TEST_F(SmpResponderTest, PacketsWithoutADestinationAreLost) {
  const SmpHeader good = Along(Ask(SmpAttribute::kNodeInfo), {1});
  ASSERT_TRUE(Send(good));
  SmpHeader part = good, underway = good, back = good, response = good, trap = good;
  part.dr_slid = 5;
  underway.hop_pointer = 1;
  back.returning = true;
  response.method = MadMethod::kGetResp;
  trap.method = MadMethod::kTrap;
  for (const SmpHeader& bad : {part, underway, back, response, trap}) EXPECT_FALSE(Send(bad));
  EXPECT_FALSE(smp_.Respond(*h2_, Lid(2), Mad{}).has_value());
  h2_->switch_port = 0;
  EXPECT_FALSE(Send(good)) << "a port beyond the switch's last one";
  EXPECT_TRUE(Send(Ask(SmpAttribute::kNodeInfo), Lid(2)));
}

TEST_F(SmpResponderTest, AttributesOfAPort) {
  ASSERT_TRUE(Send(Ask(SmpAttribute::kNodeInfo), Lid(3)));
  const NodeInfo node = DecodeNodeInfo(SmpData(reply_)).value();
  EXPECT_EQ(node.type, NodeType::kChannelAdapter);
  EXPECT_EQ(node.port_guid, h3_->config.port_guid);
  EXPECT_EQ(node.partition_cap, 128);
  EXPECT_EQ(node.local_port, 1);

  ASSERT_TRUE(Send(Ask(SmpAttribute::kPortInfo, 1), Lid(3)));
  const PortInfo port = DecodePortInfo(SmpData(reply_)).value();
  EXPECT_EQ(port.lid, 3);
  EXPECT_EQ(port.sm_lid, 1);
  EXPECT_EQ(port.gid_prefix, 0xfe80'0000'0000'0000u);
  EXPECT_EQ(port.state, PortState::kActive);
  EXPECT_EQ(port.physical_state, PhysicalState::kLinkUp);
  EXPECT_EQ(port.width_active, 2) << "4x";
  EXPECT_EQ(port.speed_active, 1) << "2.5 Gb/s a lane, 10 in all";
  EXPECT_EQ(port.neighbor_mtu, 5);

  ASSERT_TRUE(Send(Ask(SmpAttribute::kPKeyTable), Lid(2)));
  const PKeyTableBlock pkeys = DecodePKeyTable(SmpData(reply_)).value();
  EXPECT_EQ(pkeys[0], PKey(0xffff));
  EXPECT_EQ(pkeys[1], PKey(0x8001));
  EXPECT_EQ(pkeys[2], PKey());
  ASSERT_TRUE(Send(Ask(SmpAttribute::kPKeyTable, 3), Lid(2)));
  EXPECT_EQ(answer_.status, 0);
  EXPECT_EQ(DecodePKeyTable(SmpData(reply_)).value(), PKeyTableBlock{});

  ASSERT_TRUE(Send(Ask(SmpAttribute::kGuidInfo), Lid(3)));
  EXPECT_EQ(SmpData(reply_)[0], 0x02);
  EXPECT_EQ(SmpData(reply_)[7], 0x03);
}

TEST_F(SmpResponderTest, AttributesOfTheSwitch) {
  ASSERT_TRUE(Send(Along(Ask(SmpAttribute::kNodeInfo), {1})));
  const NodeInfo node = DecodeNodeInfo(SmpData(reply_)).value();
  EXPECT_EQ(node.type, NodeType::kSwitch);
  EXPECT_EQ(node.ports, 254);
  EXPECT_EQ(node.node_guid, ports_.hub.guid);
  EXPECT_EQ(node.local_port, 2) << "where h2 is plugged in";

  ASSERT_TRUE(Send(Ask(SmpAttribute::kSwitchInfo), Lid(1)));
  EXPECT_EQ(SmpData(reply_)[6] << 8 | SmpData(reply_)[7], 3) << "the highest LID";

  ASSERT_TRUE(Send(Ask(SmpAttribute::kPortInfo, 0), Lid(1)));
  EXPECT_EQ(DecodePortInfo(SmpData(reply_))->lid, 1);
  EXPECT_EQ(DecodePortInfo(SmpData(reply_))->capability_mask, 2u) << "the subnet manager is here";
  ASSERT_TRUE(Send(Ask(SmpAttribute::kPortInfo, 3), Lid(1)));
  EXPECT_EQ(DecodePortInfo(SmpData(reply_))->state, PortState::kActive);
  EXPECT_EQ(DecodePortInfo(SmpData(reply_))->lid, 0);
  ASSERT_TRUE(Send(Ask(SmpAttribute::kPortInfo, 9), Lid(1)));
  EXPECT_EQ(DecodePortInfo(SmpData(reply_))->state, PortState::kDown);
  EXPECT_EQ(answer_.status, 0);
  // A program that discovers the fabric follows each port except the one that it came by
  // (§14.2.5.6: LocalPortNum).
  for (const uint32_t port : {0, 2, 3, 9}) {
    ASSERT_TRUE(Send(Ask(SmpAttribute::kPortInfo, port), Lid(1)));
    EXPECT_EQ(DecodePortInfo(SmpData(reply_))->local_port, 2) << port;
  }

  ASSERT_TRUE(Send(Ask(SmpAttribute::kSmInfo), Lid(1)));
  EXPECT_EQ(ReadWire<be64>(SmpData(reply_).data()).value(), ports_.hub.guid.value());
  EXPECT_EQ(SmpData(reply_)[20] & 0xf, 3) << "SMState: master";
  ports_.hub.runs_sm = false;
  ASSERT_TRUE(Send(Ask(SmpAttribute::kSmInfo), Lid(1)));
  EXPECT_EQ(answer_.status, static_cast<uint16_t>(MadStatus::kUnsupportedMethodAttribute));
}

TEST_F(SmpResponderTest, UnsupportedRequestsAreRefused) {
  SmpHeader set = Ask(SmpAttribute::kPortInfo);
  set.method = MadMethod::kSet;
  const struct {
    const char* description;
    SmpHeader header;
    uint16_t lid;
    MadStatus status;
  } kRows[] = {
      {"to set", set, 3, MadStatus::kUnsupportedMethodAttribute},
      {"SMInfo of a port", Ask(SmpAttribute::kSmInfo), 3, MadStatus::kUnsupportedMethodAttribute},
      {"SwitchInfo of a port", Ask(SmpAttribute::kSwitchInfo), 3,
       MadStatus::kUnsupportedMethodAttribute},
      {"the P_Keys of the switch", Ask(SmpAttribute::kPKeyTable), 1,
       MadStatus::kUnsupportedMethodAttribute},
      {"a second port", Ask(SmpAttribute::kPortInfo, 2), 3, MadStatus::kInvalidField},
      {"a port that the switch has not", Ask(SmpAttribute::kPortInfo, 255), 1,
       MadStatus::kInvalidField},
      {"a fifth block of P_Keys", Ask(SmpAttribute::kPKeyTable, 4), 3, MadStatus::kInvalidField},
      {"a second block of GUIDs", Ask(SmpAttribute::kGuidInfo, 1), 3, MadStatus::kInvalidField},
  };
  for (const auto& row : kRows) {
    ASSERT_TRUE(Send(row.header, Lid(row.lid))) << row.description;
    EXPECT_EQ(answer_.status, static_cast<uint16_t>(row.status)) << row.description;
    SmpHeader directed =
        Along(row.header, row.lid == 1 ? std::vector<uint8_t>{1} : std::vector<uint8_t>{1, 3});
    ASSERT_TRUE(Send(directed)) << row.description;
    EXPECT_EQ(answer_.status, static_cast<uint16_t>(row.status)) << row.description << ", directed";
    EXPECT_TRUE(answer_.returning);
  }
}

// As in ibv_query_port, except for speeds that PortInfo has in another field.
TEST(ManagedPortsTest, PortInfoHasTheLinkOfARate) {
  const struct {
    uint8_t rate, width, speed;
  } kRows[] = {{2, 1, 1}, {3, 2, 1},  {4, 8, 1},  {7, 2, 4},
               {9, 4, 4}, {10, 8, 4}, {12, 2, 4}, {16, 2, 4}};
  for (const auto& row : kRows) {
    ManagedPort port = MakeManagedPort(2, {});
    port.config.rate = row.rate;
    const PortInfo info = PortInfoOf(port);
    EXPECT_EQ(info.width_active, row.width) << int{row.rate};
    EXPECT_EQ(info.speed_active, row.speed) << int{row.rate};
  }
}

}  // namespace
}  // namespace eoib::softhca
