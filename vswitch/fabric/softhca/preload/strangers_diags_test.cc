// infiniband-diags on our subnet: ibstat, sminfo, saquery, smpquery, perfquery and ibnetdiscover,
// through libibumad. Each output is checked before and after a change of the subnet.
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "vswitch/fabric/softhca/preload/strangers_test_fixture.h"
#include "vswitch/fabric/softhca/recording_sink_for_test.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib::softhca {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Matches both "lid: 2" and "lid.....2".
testing::Matcher<std::string> Shows(const std::string& name, const std::string& value) {
  return ContainsRegex(absl::StrCat(name, "[.: ]+", value, "( |\n|$)"));
}
std::string Hex(Guid guid) { return absl::StrFormat("0x%016x", guid.value()); }

class StrangersDiagsTest : public StrangersTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(access("/usr/sbin/saquery", X_OK), 0)
        << "this test needs saquery: apt-get install infiniband-diags";
    StrangersTest::SetUp();
  }
  uint16_t LidOf(const std::string& name) const { return ConfigOf(name).lid.value(); }

  // Joins a group, or leaves it.
  void SetMembership(SoftNode* node, const Gid& mgid, bool member) {
    McMemberRecord record;
    record.mgid = Mgid(mgid);
    record.port_gid = node->config().gid;
    record.qkey = QKey(0x8000'0001);
    record.pkey = PKey(0xffff);
    record.join_state = kFullMember;
    SaHeader header;
    header.method = member ? MadMethod::kSet : MadMethod::kDelete;
    header.attribute = SaAttribute::kMcMemberRecord;
    header.component_mask = mcm::kMgid | mcm::kPortGid | mcm::kJoinState | mcm::kQKey | mcm::kPKey |
                            mcm::kTrafficClass | mcm::kSl | mcm::kFlowLabel;
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodeMcMemberRecord(record, SaRecord(&mad));
    ASSERT_TRUE(node->port().SendMad(mad).ok());
    std::vector<uint8_t> answer;
    ASSERT_TRUE(Eventually([&] { return node->port().ReceiveMad(&answer); }));
    ASSERT_EQ(DecodeSaHeader(answer)->status, 0);
  }
};

TEST_F(StrangersDiagsTest, IbstatShowsThePort) {
  std::string output = Run("host1", "ibstat");
  const PortConfig before = ConfigOf("host1");
  EXPECT_THAT(output, HasSubstr("CA 'eoib0'"));
  EXPECT_THAT(output, Shows("State", "Active"));
  EXPECT_THAT(output, Shows("Physical state", "LinkUp"));
  EXPECT_THAT(output, Shows("Rate", "10"));
  EXPECT_THAT(output, Shows("Base lid", absl::StrCat(before.lid.value())));
  EXPECT_THAT(output, Shows("SM lid", "1"));
  EXPECT_THAT(output, Shows("Node GUID", Hex(before.node_guid)));
  EXPECT_THAT(output, Shows("Port GUID", Hex(before.port_guid)));
  EXPECT_THAT(output, Shows("Link layer", "InfiniBand"));
  ASSERT_TRUE(subnet_.SetLink("host1", false).ok());
  ASSERT_TRUE(subnet_.SetLid("host1", Lid(77)).ok());
  ASSERT_TRUE(subnet_.MoveSm(Lid(88)).ok());
  output = Run("host1", "ibstat eoib0 1");
  EXPECT_THAT(output, Shows("State", "Down"));
  EXPECT_THAT(output, Shows("Physical state", "Polling"));
  EXPECT_THAT(output, Shows("Base lid", "77"));
  EXPECT_THAT(output, Shows("SM lid", "88"));
  EXPECT_EQ(Run("host1", "ibstat -l"), "eoib0\n");
  EXPECT_EQ(Run("host1", "ibstat -p"), Hex(before.port_guid) + "\n");
}

// ibstatus is a shell script that reads sysfs, where we have nothing.
TEST_F(StrangersDiagsTest, IbstatusFindsNoDevice) {
  EXPECT_THAT(RunInVain("host1", "ibstatus"), HasSubstr("No devices"));
}

TEST_F(StrangersDiagsTest, SminfoFindsTheSubnetManagerWhereItIs) {
  EXPECT_THAT(Run("host1", "sminfo"),
              ContainsRegex("sm lid 1 sm guid 0x[0-9a-f]+, .* SMINFO_MASTER"));
  ASSERT_TRUE(subnet_.MoveSm(Lid(88)).ok());
  EXPECT_THAT(Run("host1", "sminfo"), HasSubstr("sm lid 88 "));
  EXPECT_THAT(Run("host1", "sminfo -D 0,1"), HasSubstr("SMINFO_MASTER"));
  subnet_.SetSmAbsent(true);
  RunInVain("host1", "sminfo -t 100");
  EXPECT_THAT(RunInVain("host1", "saquery -t 100"), HasSubstr("timed out"));
  EXPECT_THAT(Run("host1", absl::StrCat("smpquery nodedesc ", LidOf("host1"))), HasSubstr("host1"))
      << "ports answer";
  subnet_.SetSmAbsent(false);
  EXPECT_THAT(Run("host1", "sminfo"), HasSubstr("SMINFO_MASTER"));
}

TEST_F(StrangersDiagsTest, SaqueryOfNodes) {
  auto other = OpenNode("host2");
  std::string output = Run("host1", "saquery");
  EXPECT_EQ(Count(output, "NodeRecord dump"), 3u) << "the switch, host2, and host1 itself";
  for (const char* name : {"eoib-fabricd", "host1", "host2"})
    EXPECT_THAT(output, Shows("NodeDescription", name));
  output = Run("host1", absl::StrCat("saquery NR ", LidOf("host2")));
  EXPECT_EQ(Count(output, "NodeRecord dump"), 1u);
  EXPECT_THAT(output, Shows("port_guid", Hex(other->config().port_guid)));
  ASSERT_TRUE(subnet_.SetLid("host2", Lid(77)).ok());
  EXPECT_THAT(Run("host1", "saquery NR 77"), Shows("NodeDescription", "host2"));
  ASSERT_TRUE(subnet_.SetLink("host2", false).ok());
  EXPECT_THAT(Run("host1", "saquery"), Not(HasSubstr("host2")));
  ASSERT_TRUE(subnet_.SetLink("host2", true).ok());
  ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0xffff), "ALL").ok());
  EXPECT_THAT(Run("host1", "saquery"), Not(HasSubstr("host2"))) << "shares no partition with host1";
}

TEST_F(StrangersDiagsTest, SaqueryOfTablesInManySegments) {
  constexpr size_t kHosts = 60;
  std::vector<std::unique_ptr<SubnetLink>> links;
  RecordingSink sink;
  for (size_t i = 0; i < kHosts; ++i) {
    links.push_back(subnet_.Connect());
    ASSERT_TRUE(links.back()
                    ->Register(absl::StrCat("crowd", i), PortResources(), PortUse::kManage, &sink)
                    .ok());
  }
  EXPECT_EQ(Count(Run("host1", "saquery"), "NodeRecord dump"), kHosts + 2);
  EXPECT_EQ(Count(Run("host1", "saquery PIR"), "PortInfoRecord dump"), kHosts + 2);
  EXPECT_EQ(Count(Run("host1", "saquery -p"), "PathRecord dump"), (kHosts + 1) * (kHosts + 1))
      << "1,200 segments";
  links.resize(kHosts / 2);
  EXPECT_EQ(Count(Run("host1", "saquery"), "NodeRecord dump"), kHosts / 2 + 2);
}

TEST_F(StrangersDiagsTest, SaqueryOfPaths) {
  auto other = OpenNode("host2");
  Run("host1", "ibstat");
  const std::string ask = absl::StrCat("saquery -p --slid ", LidOf("host1"), " --dlid ");
  std::string output = Run("host1", ask + absl::StrCat(LidOf("host2")));
  EXPECT_EQ(Count(output, "PathRecord dump"), 1u);
  EXPECT_THAT(output, Shows("dlid", absl::StrCat(LidOf("host2"))));
  EXPECT_THAT(output, Shows("slid", absl::StrCat(LidOf("host1"))));
  EXPECT_THAT(output, Shows("pkey", "0xFFFF"));
  EXPECT_THAT(output, Shows("mtu", "0x85"));
  EXPECT_THAT(Run("host1", "saquery -p --src-to-dst host1:host2"),
              Shows("dlid", absl::StrCat(LidOf("host2"))));
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "ALL", Membership::kFull).ok());
  output = Run("host1", ask + absl::StrCat(LidOf("host2")));
  EXPECT_EQ(Count(output, "PathRecord dump"), 2u) << "one in each partition";
  ASSERT_TRUE(subnet_.SetLid("host2", Lid(77)).ok());
  EXPECT_THAT(Run("host1", ask + "77"), Shows("dlid", "77"));
  ASSERT_TRUE(subnet_.SetLink("host2", false).ok());
  EXPECT_EQ(Count(Run("host1", ask + "77"), "PathRecord dump"), 0u);
}

TEST_F(StrangersDiagsTest, SaqueryOfGroupsAndMembers) {
  auto member = OpenNode("host2");
  EXPECT_THAT(Run("host1", "saquery -g"), IsEmpty());
  const Gid mgid = Gid::Parse("ff12:e01b:ffff::1").value();
  ASSERT_NO_FATAL_FAILURE(SetMembership(member.get(), mgid, true));
  std::string output = Run("host1", "saquery -g");
  EXPECT_THAT(output, HasSubstr("ff12:e01b:ffff::1"));
  EXPECT_THAT(output, Shows("Mlid", "0xC001"));
  EXPECT_THAT(output, Shows("pkey", "0xFFFF"));
  output = Run("host1", "saquery -m");
  EXPECT_EQ(Count(output, "MCMemberRecord member dump"), 1u);
  EXPECT_THAT(output, HasSubstr("ff12:e01b:ffff::1"));
  const std::string path =
      Run("host1", absl::StrCat("saquery -p --slid ", LidOf("host2"), " --dgid ff12:e01b:ffff::1"));
  EXPECT_THAT(path, Shows("dlid", "49153")) << "0xc001";
  ASSERT_NO_FATAL_FAILURE(SetMembership(member.get(), mgid, false));
  EXPECT_THAT(Run("host1", "saquery -g"), IsEmpty());
  EXPECT_THAT(Run("host1", "saquery -m"), IsEmpty());
}

TEST_F(StrangersDiagsTest, SaqueryOfPortInfosAndPKeys) {
  Run("host1", "ibstat");
  const std::string lid = absl::StrCat(LidOf("host1"));
  EXPECT_THAT(Run("host1", "saquery PIR " + lid), Shows("SMLid", "1"));
  EXPECT_EQ(Count(Run("host1", "saquery -s"), "PortInfoRecord dump"), 1u)
      << "the one port with a subnet manager";
  EXPECT_THAT(Run("host1", "saquery PKTR"), HasSubstr("0xffff 0x0000"));
  ASSERT_TRUE(subnet_.MoveSm(Lid(88)).ok());
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "host1", Membership::kLimited).ok());
  EXPECT_THAT(Run("host1", "saquery PIR " + lid), Shows("SMLid", "88"));
  EXPECT_THAT(Run("host1", "saquery PKTR"), HasSubstr("0xffff 0x0001 0x0000"));
}

TEST_F(StrangersDiagsTest, SmpqueryByLidAndAlongDirectedRoutes) {
  auto other = OpenNode("host2");
  Run("host1", "ibstat");
  const std::string lid = absl::StrCat(LidOf("host2"));
  const Guid guid = other->config().port_guid;
  // host2 is on the switch's first port, since it registered first.
  for (const std::string& to : {lid, std::string("-D 0,1,1")}) {
    const auto ask = [&](const std::string& attribute, const std::string& modifier = "") {
      return to == lid ? Run("host1", absl::StrCat("smpquery ", attribute, " ", to, modifier))
                       : Run("host1", absl::StrCat("smpquery -D ", attribute, " 0,1,1", modifier));
    };
    EXPECT_THAT(ask("nodeinfo"), Shows("PortGuid", Hex(guid)));
    EXPECT_THAT(ask("nodeinfo"), Shows("NodeType", "Channel Adapter"));
    EXPECT_THAT(ask("nodedesc"), HasSubstr(".host2\n"));
    EXPECT_THAT(ask("portinfo", " 1"), Shows("Lid", lid));
    EXPECT_THAT(ask("portinfo", " 1"), Shows("LinkState", "Active"));
    EXPECT_THAT(ask("guidinfo"), HasSubstr(Hex(guid)));
    EXPECT_THAT(ask("pkeys", " 1"), HasSubstr("0: 0xffff 0x0000"));
  }
  EXPECT_THAT(Run("host1", "smpquery -D nodeinfo 0,1"), Shows("NodeType", "Switch"));
  EXPECT_THAT(Run("host1", "smpquery -D nodedesc 0"), HasSubstr(".host1\n"));
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "host2", Membership::kFull).ok());
  ASSERT_TRUE(subnet_.SetLid("host2", Lid(77)).ok());
  EXPECT_THAT(Run("host1", "smpquery pkeys 77"), HasSubstr("0: 0xffff 0x8001 0x0000"));
  EXPECT_THAT(Run("host1", "smpquery -D portinfo 0,1,1 1"), Shows("Lid", "77"));
  EXPECT_THAT(Run("host1", "smpquery portinfo 1 1"), Shows("LinkState", "Active"))
      << "the switch's end of host2's cable";
  ASSERT_TRUE(subnet_.SetLink("host2", false).ok());
  EXPECT_THAT(Run("host1", "smpquery portinfo 1 1"), Shows("LinkState", "Down"));
  EXPECT_THAT(RunInVain("host1", "smpquery -t 100 nodeinfo 77"),
              HasSubstr("node info query failed"));
}

TEST_F(StrangersDiagsTest, PerfqueryCountsAndClears) {
  auto node = OpenNode("host1"), other = OpenNode("host2");
  const std::string ask = absl::StrCat("perfquery ", LidOf("host1"), " 1");
  EXPECT_THAT(Run("asker", ask), Shows("PortXmitPkts", "0"));
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(node->Send(other->Address(), std::string(400, 'x')), 0);
    node->PollSend();
    other->Receive();
  }
  std::string output = Run("asker", ask);
  EXPECT_THAT(output, Shows("PortXmitPkts", "3"));
  EXPECT_THAT(output, Shows("PortXmitData", "324")) << "3 * (8 + 12 + 8 + 400 + 4) / 4";
  EXPECT_THAT(Run("asker", absl::StrCat("perfquery ", LidOf("host2"), " 1")),
              Shows("PortRcvPkts", "3"));
  EXPECT_THAT(Run("asker", absl::StrCat("perfquery -x ", LidOf("host1"), " 1")),
              Shows("PortUnicastXmitPkts", "3"));
  Run("asker", absl::StrCat("perfquery -R ", LidOf("host1"), " 1"));
  EXPECT_THAT(Run("asker", ask), Shows("PortXmitPkts", "0"));
}

TEST_F(StrangersDiagsTest, IbnetdiscoverWalksTheSubnet) {
  auto other = OpenNode("host2");
  const std::string output = Run("host1", "ibnetdiscover");
  EXPECT_THAT(output, HasSubstr("\"eoib-fabricd\""));
  EXPECT_THAT(output, HasSubstr("\"host1\" lid " + absl::StrCat(LidOf("host1"))));
  EXPECT_THAT(output, HasSubstr("\"host2\" lid " + absl::StrCat(LidOf("host2"))));
  ASSERT_TRUE(subnet_.SetLink("host2", false).ok());
  EXPECT_THAT(Run("host1", "ibnetdiscover"), Not(HasSubstr("host2")));
}

// As an operator would do it, beside a running agent.
TEST_F(StrangersDiagsTest, ASecondProcessQueriesWithoutDisturbingTheOwner) {
  auto owner = OpenNode("host1"), peer = OpenNode("host2");
  const Gid mgid = Gid::Parse("ff12:e01b:ffff::1").value();
  ASSERT_NO_FATAL_FAILURE(SetMembership(owner.get(), mgid, true));
  const PortConfig before = owner->config();
  EXPECT_EQ(Count(Run("host1", "saquery"), "NodeRecord dump"), 3u);
  EXPECT_THAT(Run("host1", "saquery -g"), HasSubstr("ff12:e01b:ffff::1"));
  EXPECT_THAT(Run("host1", "sminfo"), HasSubstr("SMINFO_MASTER"));
  EXPECT_THAT(Run("host1", "ibstat"), Shows("Base lid", absl::StrCat(before.lid.value())));
  EXPECT_THAT(Run("host1", absl::StrCat("perfquery ", before.lid.value(), " 1")),
              HasSubstr("PortXmitPkts"));
  std::vector<uint8_t> mad;
  EXPECT_FALSE(owner->port().ReceiveMad(&mad)) << "answers to others";
  EXPECT_EQ(owner->config().qpns.first, before.qpns.first);
  EXPECT_EQ(subnet_.Groups().size(), 1u);
  ASSERT_EQ(peer->Send(owner->GlobalAddress(), "undisturbed"), 0);
  peer->PollSend();
  EXPECT_EQ(owner->Receive().payload, "undisturbed");
}

TEST_F(StrangersDiagsTest, WithoutAFabricThereIsNoDevice) {
  Program ibstat(directory_, "host1", {"ibstat"}, "absent.sock");
  ibstat.Wait();
  EXPECT_THAT(ibstat.output(), HasSubstr("absent.sock"));
  EXPECT_THAT(ibstat.output(), Not(HasSubstr("eoib0")));
  Program sminfo(directory_, "host1", {"sh", "-c", "unset EOIB_PORT; sminfo"});
  EXPECT_GT(sminfo.Wait(), 0);
  EXPECT_THAT(sminfo.output(), HasSubstr("set EOIB_FABRIC"));
}

// All functions of this machine's libibumad, except those that need no device.
TEST_F(StrangersDiagsTest, TheLibraryHasAllOfLibibumadsNames) {
  const std::string listed = Run("host1", "nm -D --defined-only --no-demangle " EOIB_UMAD_LIBRARY);
  const std::string needed =
      Run("host1", "nm -D --defined-only /usr/lib/x86_64-linux-gnu/libibumad.so.3");
  const std::set<absl::string_view> kNeedNoDevice = {
      "umad_debug",        "umad_done",         "umad_free_ca_device_list",
      "umad_get_fd",       "umad_get_mad_addr", "umad_poll",
      "umad_release_ca",   "umad_release_port", "umad_set_addr",
      "umad_set_addr_net", "umad_set_grh",      "umad_sort_ca_device_list",
      "umad_status"};
  size_t names = 0;
  for (absl::string_view line : absl::StrSplit(needed, '\n')) {
    const size_t at = line.find(" T umad_");
    if (at == absl::string_view::npos) continue;
    const absl::string_view name = line.substr(at + 3, line.find('@') - at - 3);
    if (absl::EndsWith(name, "_str") || absl::EndsWith(name, "dump") ||
        kNeedNoDevice.contains(name))
      continue;
    ++names;
    EXPECT_THAT(listed, HasSubstr(absl::StrCat(" T ", name, "\n")));
  }
  EXPECT_GT(names, 15u);
}

}  // namespace
}  // namespace eoib::softhca
