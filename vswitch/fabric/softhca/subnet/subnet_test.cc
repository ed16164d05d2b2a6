#include "vswitch/fabric/softhca/subnet/subnet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/softhca/port_name.h"
#include "vswitch/fabric/softhca/recording_sink_for_test.h"
#include "vswitch/fabric/softhca/subnet/fake_ports_for_test.h"

namespace eoib::softhca {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

// A registered port with a recording sink.
class RegisteredPort {
 public:
  RegisteredPort(Subnet* subnet, const std::string& name, PortUse use = PortUse::kOwn,
                 const RegistrationRequest& request = {})
      : doorbell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), link_(subnet->Connect(request)) {
    status_ = link_->Register(name, {doorbell_.get(), nullptr}, use, &sink_);
    // Another thread may be delivering.
    if (status_.ok()) {
      EXPECT_TRUE(sink_.WaitFor([](const auto& record) { return !record.configs.empty(); }));
    }
  }

  const absl::Status& status() const { return status_; }
  RecordingSink::Record record() const { return sink_.Get(); }
  PortConfig config() const { return sink_.Get().configs.back(); }
  SubnetLink* link() { return link_.get(); }
  int doorbell() const { return doorbell_.get(); }

  absl::Status Ask(MadMethod method, uint8_t mgid, uint8_t join_state, PKey pkey = PKey(0xffff)) {
    SaHeader header;
    header.method = method;
    header.attribute = SaAttribute::kMcMemberRecord;
    header.component_mask = kCreate;
    McMemberRecord group;
    group.mgid = MakeMgid(mgid);
    group.port_gid = config().gid;
    group.pkey = pkey;
    group.join_state = join_state;
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodeMcMemberRecord(group, SaRecord(&mad));
    return link_->SendMad(mad);
  }
  // Returns true if the SA accepted the join.
  bool Join(uint8_t mgid, uint8_t join_state = kFullMember, PKey pkey = PKey(0xffff)) {
    if (!Ask(MadMethod::kSet, mgid, join_state, pkey).ok() || record().mads.empty()) return false;
    return DecodeSaHeader(record().mads.back())->status == 0;
  }
  bool Leave(uint8_t mgid) {
    return Ask(MadMethod::kDelete, mgid, kFullMember).ok() &&
           DecodeSaHeader(record().mads.back())->status == 0;
  }
  // Returns the ring's identifier, or 0 if it was refused.
  uint64_t OpenRing(uint64_t request, Lid destination) {
    RingEnd end;
    end.capacity = 65536;
    EXPECT_TRUE(link_->OpenRing(request, destination, std::move(end)).ok());
    const auto record = sink_.Get();
    const auto opened = record.opened.find(request);
    return opened == record.opened.end() ? 0 : opened->second.first;
  }

 private:
  RecordingSink sink_;
  UniqueFd doorbell_;
  std::unique_ptr<SubnetLink> link_;
  absl::Status status_;
};

TEST(SubnetTest, APortIsConfiguredWhenItRegisters) {
  Subnet subnet;
  RegisteredPort h1(&subnet, "h1"), h2(&subnet, "h2");
  ASSERT_TRUE(h1.status().ok()) << h1.status();
  EXPECT_THAT(h1.record().order, StartsWith("P"));
  const PortConfig config = h1.config();
  EXPECT_TRUE(config.active);
  EXPECT_EQ(config.lid, Lid(2));
  EXPECT_EQ(config.sm_lid, ManagedSwitch::kDefaultLid);
  EXPECT_EQ(config.mtu, 5);
  EXPECT_THAT(config.pkeys, ElementsAre(PKey(0xffff)));
  EXPECT_EQ(config.port_guid.value() >> 56, 0x02u) << "locally administered";
  EXPECT_EQ(config.gid, Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000u, config.port_guid));
  EXPECT_EQ(config.qpns.count, 4096u);
  EXPECT_EQ(h2.config().lid, Lid(3));
  EXPECT_NE(h2.config().port_guid, config.port_guid);
}

TEST(SubnetTest, AGuidFollowsFromTheName) {
  Subnet subnet, another;
  RegisteredPort other(&another, "other");
  EXPECT_EQ(RegisteredPort(&subnet, "h1").config().port_guid,
            RegisteredPort(&another, "h1").config().port_guid);
}

TEST(SubnetTest, LidsStayWithNamesAndQpnsDoNot) {
  Subnet subnet;
  auto h1 = std::make_unique<RegisteredPort>(&subnet, "h1");
  RegisteredPort h2(&subnet, "h2");
  const PortConfig before = h1->config();
  h1.reset();
  RegisteredPort h3(&subnet, "h3");
  EXPECT_EQ(h3.config().lid, Lid(4)) << "h1's LID is not given away";
  h1 = std::make_unique<RegisteredPort>(&subnet, "h1");
  EXPECT_EQ(h1->config().lid, before.lid);
  EXPECT_EQ(h1->config().gid, before.gid);
  EXPECT_NE(h1->config().qpns.first, before.qpns.first);
}

TEST(SubnetTest, QpnRangesAreDisjointAndHoldNoSpecialQpn) {
  Subnet subnet;
  std::vector<std::unique_ptr<RegisteredPort>> ports;
  std::set<uint32_t> seen;
  for (int i = 0; i < 1000; ++i) {
    ports.push_back(std::make_unique<RegisteredPort>(&subnet, absl::StrCat("p", i)));
    const QpnRange qpns = ports.back()->config().qpns;
    EXPECT_TRUE(seen.insert(qpns.first.value() / 4096).second);
    EXPECT_EQ(qpns.first.value() % 4096, 0u);
    EXPECT_FALSE(qpns.Contains(Qpn(0)) || qpns.Contains(Qpn(1)) ||
                 qpns.Contains(Qpn(Qpn::kMulticast)));
  }
}

TEST(SubnetTest, RequestedLidsAndQpnsAreGrantedIfFree) {
  Subnet subnet;
  RegisteredPort taken(&subnet, "taken");
  const QpnRange free{Qpn(taken.config().qpns.first.value() == 0x10000 ? 0x20000 : 0x10000), 4096};
  const struct {
    const char* name;
    Lid lid;
    QpnRange qpns;
    bool gets_lid, gets_qpns;
  } kRows[] = {
      {"free", Lid(77), free, true, true},
      {"taken-by-others", taken.config().lid, taken.config().qpns, false, false},
      {"the-sm", ManagedSwitch::kDefaultLid, QpnRange{Qpn(0), 4096}, false, false},
      {"out-of-range", Lid(0xc001), QpnRange{Qpn(0xfff000), 4096}, false, false},
      {"unaligned", Lid(78), QpnRange{Qpn(free.first.value() + 1), 4096}, true, false},
      {"too-many", Lid(79), QpnRange{Qpn(0x30000), 8192}, true, false},
  };
  for (const auto& row : kRows) {
    RegisteredPort port(&subnet, row.name, PortUse::kOwn, RegistrationRequest{row.lid, row.qpns});
    EXPECT_EQ(port.config().lid == row.lid, row.gets_lid) << row.name;
    EXPECT_TRUE(port.config().lid.IsValid()) << row.name;
    EXPECT_EQ(
        port.config().qpns.first == row.qpns.first && port.config().qpns.count == row.qpns.count,
        row.gets_qpns)
        << row.name;
  }
}

TEST(SubnetTest, ANameIsRegisteredOnceButCanBeQueried) {
  Subnet subnet;
  auto owner = std::make_unique<RegisteredPort>(&subnet, "h1");
  RegisteredPort second(&subnet, "h1");
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("h1"));

  RegisteredPort query(&subnet, "h1", PortUse::kQuery);
  ASSERT_TRUE(query.status().ok()) << query.status();
  EXPECT_EQ(query.config().lid, owner->config().lid);
  EXPECT_TRUE(query.config().active);
  EXPECT_EQ(query.link()->SendMad(Mad{}).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(query.link()->OpenRing(1, Lid(2), RingEnd()).code(),
            absl::StatusCode::kPermissionDenied);
  ASSERT_TRUE(subnet.SetLink("h1", false).ok());
  EXPECT_FALSE(query.config().active);
  ASSERT_TRUE(subnet.SetLink("h1", true).ok());
  EXPECT_TRUE(query.config().active);
  owner.reset();
  EXPECT_FALSE(query.config().active) << "no process runs the port";
  EXPECT_TRUE(RegisteredPort(&subnet, "h1").status().ok());
}

// Otherwise queries could use up the LIDs.
TEST(SubnetTest, AQueryMakesNoPort) {
  Subnet subnet;
  RegisteredPort asker(&subnet, "h1", PortUse::kQuery);
  EXPECT_EQ(asker.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(subnet.Ports(), IsEmpty());
}

TEST(SubnetTest, AManagerMakesAPortAndKeepsItUp) {
  Subnet subnet;
  auto manager = std::make_unique<RegisteredPort>(&subnet, "h1", PortUse::kManage);
  ASSERT_TRUE(manager->status().ok()) << manager->status();
  EXPECT_TRUE(manager->config().active);
  EXPECT_EQ(manager->link()->OpenRing(1, Lid(2), RingEnd()).code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_FALSE(subnet.Ports().at(0).alive) << "no process receives datagrams";
  auto owner = std::make_unique<RegisteredPort>(&subnet, "h1");
  ASSERT_TRUE(owner->status().ok()) << owner->status();
  EXPECT_EQ(owner->config().lid, manager->config().lid);
  owner.reset();
  EXPECT_TRUE(manager->config().active);
  ASSERT_TRUE(subnet.SetLink("h1", false).ok());
  EXPECT_FALSE(manager->config().active);
  ASSERT_TRUE(subnet.SetLink("h1", true).ok());
  RegisteredPort query(&subnet, "h1", PortUse::kQuery);
  manager.reset();
  EXPECT_FALSE(query.config().active) << "no process wants it up";
}

TEST(SubnetTest, NamesAreChecked) {
  Subnet subnet;
  EXPECT_EQ(RegisteredPort(&subnet, "ALL").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RegisteredPort(&subnet, "").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SubnetTest, NoCallFollowsUnregister) {
  Subnet subnet;
  RegisteredPort h1(&subnet, "h1");
  h1.link()->Unregister();
  const std::string before = h1.record().order;
  ASSERT_TRUE(subnet.SetFault({"*", "*", FaultRule{.loss_ppm = 5}}).ok());
  ASSERT_TRUE(subnet.SetLink("h1", false).ok());
  EXPECT_EQ(h1.record().order, before);
  EXPECT_EQ(h1.link()->SendMad(Mad{}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(h1.link()->OpenRing(1, Lid(2), RingEnd()).code(),
            absl::StatusCode::kFailedPrecondition);
}

SubnetConfig TwoPartitions() {
  return *ParseSubnetConfig(
      "[[partition]]\npkey = 0x8001\nfull = [\"h1\", \"h2\"]\nlimited = [\"h3\"]\n"
      "[[partition]]\npkey = 0x8002\nfull = [\"h1\"]\n",
      "test");
}

TEST(SubnetTest, PKeyTablesComeFromTheConfiguration) {
  Subnet subnet(Subnet::Options{.config = TwoPartitions()});
  RegisteredPort h1(&subnet, "h1"), h3(&subnet, "h3"), h4(&subnet, "h4");
  EXPECT_THAT(h1.config().pkeys, ElementsAre(PKey(0xffff), PKey(0x8001), PKey(0x8002)));
  EXPECT_THAT(h3.config().pkeys, ElementsAre(PKey(0xffff), PKey(0x0001)));
  EXPECT_THAT(h4.config().pkeys, ElementsAre(PKey(0xffff)));
}

TEST(SubnetTest, PKeysKeepTheirIndexWhenOthersComeAndGo) {
  Subnet subnet(Subnet::Options{.config = TwoPartitions()});
  RegisteredPort h1(&subnet, "h1"), h2(&subnet, "h2");
  const size_t h2_configs = h2.record().configs.size();
  ASSERT_TRUE(subnet.RemoveFromPartition(PKey(0x0001), "h1").ok());
  EXPECT_THAT(h1.config().pkeys, ElementsAre(PKey(0xffff), PKey(0), PKey(0x8002)));
  EXPECT_EQ(h2.record().configs.size(), h2_configs) << "it concerns h1 only";
  EXPECT_EQ(subnet.RemoveFromPartition(PKey(0x8001), "h1").code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(subnet.AddToPartition(PKey(0x8001), "h1", Membership::kLimited).ok());
  EXPECT_THAT(h1.config().pkeys, ElementsAre(PKey(0xffff), PKey(0x0001), PKey(0x8002)));
  ASSERT_TRUE(subnet.AddToPartition(PKey(0x8001), "h1", Membership::kFull).ok());
  EXPECT_THAT(h1.config().pkeys, ElementsAre(PKey(0xffff), PKey(0x8001), PKey(0x8002)));
  ASSERT_TRUE(subnet.AddToPartition(PKey(0x0003), "ALL", Membership::kFull).ok());
  EXPECT_THAT(h1.config().pkeys,
              ElementsAre(PKey(0xffff), PKey(0x8001), PKey(0x8002), PKey(0x8003)));
  EXPECT_THAT(h2.config().pkeys, ElementsAre(PKey(0xffff), PKey(0x8001), PKey(0x8003)));
  ASSERT_TRUE(subnet.RemoveFromPartition(PKey(0x8003), "h2").ok()) << "out of what ALL are in";
  EXPECT_THAT(h2.config().pkeys, ElementsAre(PKey(0xffff), PKey(0x8001), PKey(0)));
  EXPECT_EQ(subnet.AddToPartition(PKey(0x8000), "h1", Membership::kFull).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SubnetTest, APartitionEndsWithItsLastMember) {
  Subnet subnet;
  RegisteredPort h1(&subnet, "h1");
  for (uint16_t pkey = 0x8001; pkey < 0x8001 + 2 * kMaxPKeys; ++pkey) {
    ASSERT_TRUE(subnet.AddToPartition(PKey(pkey), "ALL", Membership::kFull).ok()) << pkey;
    ASSERT_TRUE(subnet.RemoveFromPartition(PKey(pkey), "h1").ok());
    ASSERT_TRUE(subnet.RemoveFromPartition(PKey(pkey), "ALL").ok());
  }
  ASSERT_TRUE(subnet.RemoveFromPartition(PKey(0xffff), "ALL").ok());
  ASSERT_TRUE(subnet.AddToPartition(PKey(0x8001), "ALL", Membership::kFull).ok());
  ASSERT_TRUE(subnet.AddToPartition(PKey(0xffff), "ALL", Membership::kFull).ok());
  RegisteredPort h2(&subnet, "h2");
  EXPECT_THAT(h2.config().pkeys, ElementsAre(PKey(0xffff), PKey(0x8001)))
      << "the default partition has kept its place";
}

TEST(SubnetTest, AllRestoresPortsThatWereRemovedByName) {
  Subnet subnet;
  RegisteredPort h1(&subnet, "h1"), h2(&subnet, "h2");
  ASSERT_TRUE(subnet.AddToPartition(PKey(0x8001), "ALL", Membership::kFull).ok());
  ASSERT_TRUE(subnet.AddToPartition(PKey(0x8001), "h1", Membership::kLimited).ok());
  ASSERT_TRUE(subnet.RemoveFromPartition(PKey(0x8001), "h2").ok());
  EXPECT_THAT(h2.config().pkeys, Not(Contains(PKey(0x8001))));
  ASSERT_TRUE(subnet.AddToPartition(PKey(0x8001), "ALL", Membership::kFull).ok());
  EXPECT_THAT(h2.config().pkeys, Contains(PKey(0x8001)));
  EXPECT_THAT(h1.config().pkeys, Contains(PKey(0x0001))) << "it is what its name says";
}

TEST(SubnetTest, APortMayBeConfiguredBeforeItIsThere) {
  Subnet subnet;
  ASSERT_TRUE(subnet.AddToPartition(PKey(0x8001), "h1", Membership::kFull).ok());
  RegisteredPort h1(&subnet, "h1");
  EXPECT_THAT(h1.config().pkeys, ElementsAre(PKey(0xffff), PKey(0x8001)));
}

TEST(SubnetTest, GroupsArePushedToAllPortsOfThePartition) {
  Subnet subnet;
  RegisteredPort h1(&subnet, "h1"), h2(&subnet, "h2"), h3(&subnet, "h3");
  const Mlid mlid(0xc001);
  ASSERT_TRUE(h1.Join(1));
  ASSERT_TRUE(h2.Join(1, kNonMember));
  ASSERT_TRUE(h3.Join(1, kSendOnlyNonMember));
  for (const RegisteredPort* port : {&h1, &h2, &h3}) {
    EXPECT_THAT(port->record().groups[mlid], ElementsAre(h1.config().lid, h2.config().lid));
  }
  RegisteredPort late(&subnet, "late");
  EXPECT_THAT(late.record().groups[mlid], ElementsAre(h1.config().lid, h2.config().lid));
  ASSERT_TRUE(h1.Leave(1));
  for (const RegisteredPort* port : {&h1, &h2, &h3, &late})
    EXPECT_THAT(port->record().groups, IsEmpty());
}

// Otherwise it could count the members and send to them.
TEST(SubnetTest, TellsNoMembersToAPortOutsideThePartition) {
  Subnet subnet(Subnet::Options{.config = TwoPartitions()});
  RegisteredPort h1(&subnet, "h1"), h2(&subnet, "h2"), h3(&subnet, "h3"),
      outsider(&subnet, "outsider");
  const Mlid of_8001(0xc001), of_8002(0xc002);
  ASSERT_TRUE(h1.Join(1, kFullMember, PKey(0x8001)));
  ASSERT_TRUE(h1.Join(2, kFullMember, PKey(0x8002)));
  RegisteredPort late(&subnet, "late");
  for (const RegisteredPort* port : {&h2, &h3}) {
    EXPECT_THAT(port->record().groups[of_8001], ElementsAre(h1.config().lid))
        << "also a limited member";
    EXPECT_THAT(port->record().groups[of_8002], IsEmpty());
  }
  for (const RegisteredPort* port : {&outsider, &late})
    EXPECT_THAT(port->record().groups, IsEmpty());

  ASSERT_TRUE(subnet.AddToPartition(PKey(0x8002), "h2", Membership::kFull).ok());
  EXPECT_THAT(h2.record().groups[of_8002], ElementsAre(h1.config().lid));
  ASSERT_TRUE(subnet.RemoveFromPartition(PKey(0x8001), "h3").ok());
  EXPECT_THAT(h3.record().groups, IsEmpty());
}

TEST(SubnetTest, TheGroupIsKnownBeforeTheJoinIsAnswered) {
  Subnet subnet;
  RegisteredPort h1(&subnet, "h1");
  ASSERT_TRUE(h1.Join(1));
  EXPECT_THAT(h1.record().order, testing::EndsWith("GM"));
}

TEST(SubnetTest, ADyingPortLeavesItsGroups) {
  Subnet subnet;
  auto h1 = std::make_unique<RegisteredPort>(&subnet, "h1");
  RegisteredPort h2(&subnet, "h2");
  ASSERT_TRUE(h1->Join(1));
  ASSERT_TRUE(h2.Join(1));
  h1.reset();
  EXPECT_THAT(h2.record().groups[Mlid(0xc001)], ElementsAre(h2.config().lid));
}

TEST(SubnetTest, ALinkThatGoesDownTakesGroupsAndRingsAlongAndKeepsItsLid) {
  Subnet subnet;
  RegisteredPort h1(&subnet, "h1"), h2(&subnet, "h2");
  ASSERT_TRUE(h1.Join(1));
  ASSERT_TRUE(h2.Join(1));
  // Both ends are told: otherwise a hostile port would go on sending, or reading what others send.
  const uint64_t out = h1.OpenRing(1, h2.config().lid), in = h2.OpenRing(1, h1.config().lid);
  const Lid lid = h1.config().lid;
  ASSERT_TRUE(subnet.SetLink("h1", false).ok());
  EXPECT_THAT(h1.record().closed, UnorderedElementsAre(out, in));
  EXPECT_THAT(h2.record().closed, UnorderedElementsAre(out, in));
  EXPECT_THAT(subnet.Rings(), IsEmpty());
  EXPECT_FALSE(h1.config().active);
  EXPECT_THAT(h2.record().groups[Mlid(0xc001)], ElementsAre(h2.config().lid));
  const size_t answers = h1.record().mads.size();
  EXPECT_TRUE(h1.Ask(MadMethod::kSet, 1, kFullMember).ok());
  EXPECT_EQ(h1.record().mads.size(), answers) << "a MAD on an unplugged cable is lost";
  EXPECT_EQ(h2.OpenRing(2, lid), 0u);
  EXPECT_THAT(h2.record().refused, ElementsAre(2u));
  EXPECT_EQ(h1.OpenRing(3, h2.config().lid), 0u);

  ASSERT_TRUE(subnet.SetLink("h1", true).ok());
  EXPECT_TRUE(h1.config().active);
  EXPECT_EQ(h1.config().lid, lid);
  EXPECT_THAT(h2.record().groups[Mlid(0xc001)], ElementsAre(h2.config().lid))
      << "the host must join again";
  EXPECT_EQ(subnet.SetLink("absent", true).code(), absl::StatusCode::kNotFound);
}

// The membership stays, as with OpenSM, but no switch filters what the port may not receive.
TEST(SubnetTest, APortThatLosesThePKeyReceivesNoMoreOfTheGroup) {
  Subnet subnet;
  ASSERT_TRUE(subnet.RemoveFromPartition(PKey(0xffff), std::string(kAllPorts)).ok());
  for (const char* name : {"h1", "h2"})
    ASSERT_TRUE(subnet.AddToPartition(PKey(0xffff), name, Membership::kFull).ok());
  RegisteredPort h1(&subnet, "h1"), h2(&subnet, "h2");
  ASSERT_TRUE(h1.Join(1));
  ASSERT_TRUE(h2.Join(1));
  ASSERT_THAT(h1.record().groups[Mlid(0xc001)], ElementsAre(h1.config().lid, h2.config().lid));
  ASSERT_TRUE(subnet.RemoveFromPartition(PKey(0xffff), "h2").ok());
  EXPECT_THAT(h1.record().groups[Mlid(0xc001)], ElementsAre(h1.config().lid));
  ASSERT_TRUE(subnet.AddToPartition(PKey(0xffff), "h2", Membership::kFull).ok());
  EXPECT_THAT(h1.record().groups[Mlid(0xc001)], ElementsAre(h1.config().lid, h2.config().lid));
}

TEST(SubnetTest, PortsAreIntroducedToOneAnother) {
  Subnet subnet(Subnet::Options{.config = TwoPartitions()});
  RegisteredPort h1(&subnet, "h1"), h3(&subnet, "h3");
  const uint64_t ring = h3.OpenRing(17, h1.config().lid);
  ASSERT_NE(ring, 0u);
  ASSERT_EQ(h1.record().offers.count(ring), 1u);
  const RecordingSink::Offer& offer = *h1.record().offers[ring];
  EXPECT_EQ(offer.source.lid, h3.config().lid);
  EXPECT_EQ(offer.source.gid, h3.config().gid);
  EXPECT_EQ(offer.source.pkeys, h3.config().pkeys);
  EXPECT_EQ(offer.source.qpns.first, h3.config().qpns.first);
  EXPECT_EQ(offer.end.capacity, 65536u);

  const uint64_t two = 2;
  const int doorbell = h3.record().opened[17].second->get();
  EXPECT_NE(doorbell, h1.doorbell()) << "a duplicate";
  ASSERT_EQ(write(doorbell, &two, sizeof(two)), static_cast<ssize_t>(sizeof(two)));
  uint64_t rung = 0;
  ASSERT_EQ(read(h1.doorbell(), &rung, sizeof(rung)), static_cast<ssize_t>(sizeof(rung)));
  EXPECT_EQ(rung, 2u);
}

TEST(SubnetTest, RingsToUnknownLidsAreRefused) {
  Subnet subnet;
  RegisteredPort h1(&subnet, "h1");
  const Lid gone = RegisteredPort(&subnet, "gone").config().lid;
  EXPECT_EQ(h1.OpenRing(1, Lid(99)), 0u);
  EXPECT_EQ(h1.OpenRing(2, gone), 0u);
  EXPECT_THAT(h1.record().refused, ElementsAre(1u, 2u));
  EXPECT_NE(h1.OpenRing(3, h1.config().lid), 0u) << "to oneself";
}

TEST(SubnetTest, RingsCloseFromEitherEndAndWithTheirPort) {
  Subnet subnet;
  RegisteredPort h1(&subnet, "h1"), stranger(&subnet, "stranger");
  auto h2 = std::make_unique<RegisteredPort>(&subnet, "h2");
  const Lid lid = h2->config().lid;
  const uint64_t by_source = h1.OpenRing(1, lid), by_destination = h1.OpenRing(2, lid),
                 by_death = h1.OpenRing(3, lid);
  const uint64_t reverse = h2->OpenRing(4, h1.config().lid);
  EXPECT_EQ(std::set<uint64_t>({by_source, by_destination, by_death, reverse}).size(), 4u);
  EXPECT_EQ(subnet.Rings().size(), 4u);

  h1.link()->CloseRing(by_source);
  EXPECT_THAT(h2->record().closed, ElementsAre(by_source));
  EXPECT_THAT(h1.record().closed, IsEmpty()) << "the closing end is not told";
  stranger.link()->CloseRing(by_destination);
  EXPECT_THAT(h1.record().closed, IsEmpty());
  h2->link()->CloseRing(by_destination);
  EXPECT_THAT(h1.record().closed, ElementsAre(by_destination));
  h2.reset();
  EXPECT_THAT(h1.record().closed, ElementsAre(by_destination, by_death, reverse));
  EXPECT_THAT(subnet.Rings(), IsEmpty());
}

TEST(SubnetTest, ConsumersHearOfASourcesNewIdentity) {
  Subnet subnet;
  RegisteredPort h1(&subnet, "h1"), h2(&subnet, "h2");
  ASSERT_TRUE(h1.Join(1));
  const uint64_t ring = h1.OpenRing(1, h2.config().lid);
  ASSERT_TRUE(subnet.AddToPartition(PKey(0x8001), "h1", Membership::kFull).ok());
  EXPECT_THAT(h2.record().changed[ring].pkeys, ElementsAre(PKey(0xffff), PKey(0x8001)));
  ASSERT_TRUE(subnet.SetLid("h1", Lid(42)).ok());
  EXPECT_EQ(h1.config().lid, Lid(42));
  EXPECT_THAT(h2.record().closed, ElementsAre(ring))
      << "a sender with another LID makes another ring";
  EXPECT_THAT(h2.record().groups[Mlid(0xc001)], ElementsAre(Lid(42)));
  EXPECT_EQ(subnet.SetLid("h1", h2.config().lid).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(subnet.SetLid("h1", ManagedSwitch::kDefaultLid).code(),
            absl::StatusCode::kAlreadyExists);
}

FaultRule Loss(uint32_t ppm) { return FaultRule{.loss_ppm = ppm}; }
FaultRule LossFrom(const RegisteredPort& source, uint32_t ppm) {
  return FaultRule{.source = source.config().gid, .loss_ppm = ppm};
}

TEST(SubnetTest, EachPortIsToldTheFaultsOfItsOwnSources) {
  Subnet subnet;
  RegisteredPort h1(&subnet, "h1"), h2(&subnet, "h2");
  EXPECT_THAT(h1.record().faults.back(), IsEmpty());
  ASSERT_TRUE(subnet.SetFault({"*", "*", Loss(1)}).ok());
  ASSERT_TRUE(subnet.SetFault({"*", "h2", Loss(2)}).ok());
  ASSERT_TRUE(subnet.SetFault({"h1", "*", Loss(3)}).ok());
  ASSERT_TRUE(subnet.SetFault({"h1", "h2", Loss(4)}).ok());
  EXPECT_THAT(h1.record().faults.back(), ElementsAre(Loss(1), LossFrom(h1, 3)));
  EXPECT_THAT(h2.record().faults.back(), ElementsAre(Loss(2), LossFrom(h1, 4)));
  EXPECT_EQ(subnet.Faults().size(), 4u);
  ASSERT_TRUE(subnet.ClearFault("h1", "h2").ok());
  EXPECT_EQ(subnet.ClearFault("h1", "h2").code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(h2.record().faults.back(), ElementsAre(Loss(2), LossFrom(h1, 3)));
  subnet.ClearFaults();
  EXPECT_THAT(h1.record().faults.back(), IsEmpty());
  EXPECT_THAT(h2.record().faults.back(), IsEmpty());
}

TEST(SubnetTest, AFaultWaitsForItsPorts) {
  Subnet subnet;
  ASSERT_TRUE(subnet.SetFault({"late", "h1", Loss(5)}).ok());
  RegisteredPort h1(&subnet, "h1");
  EXPECT_THAT(h1.record().faults.back(), IsEmpty());
  RegisteredPort late(&subnet, "late");
  EXPECT_THAT(h1.record().faults.back(), ElementsAre(LossFrom(late, 5)));
  EXPECT_THAT(late.record().faults.back(), IsEmpty());
  const size_t told = h1.record().faults.size();
  RegisteredPort other(&subnet, "other");
  EXPECT_EQ(h1.record().faults.size(), told) << "or its random sequence would restart";
}

TEST(SubnetTest, FaultsAreChecked) {
  struct Row {
    const char* description;
    Fault fault;
    absl::StatusCode code;
  };
  const Row kRows[] = {
      {"certain loss", {"*", "h1", Loss(1'000'000)}, absl::StatusCode::kOk},
      {"more than certain", {"*", "h1", Loss(1'000'001)}, absl::StatusCode::kInvalidArgument},
      {"the longest delay", {"*", "h1", {.delay = FaultRule::kMaxDelay}}, absl::StatusCode::kOk},
      {"a longer one",
       {"*", "h1", {.delay = absl::Seconds(2)}},
       absl::StatusCode::kInvalidArgument},
      {"back in time",
       {"*", "h1", {.delay = absl::Seconds(-1)}},
       absl::StatusCode::kInvalidArgument},
      {"no name", {"", "h1", Loss(1)}, absl::StatusCode::kInvalidArgument},
      {"no port's name", {"*", "ALL", Loss(1)}, absl::StatusCode::kInvalidArgument},
  };
  Subnet subnet;
  for (const Row& row : kRows)
    EXPECT_EQ(subnet.SetFault(row.fault).code(), row.code) << row.description;
  subnet.ClearFaults();
  for (size_t i = 0; i < kMaxFaultRules; ++i)
    ASSERT_TRUE(subnet.SetFault({absl::StrCat("p", i), "*", Loss(1)}).ok());
  EXPECT_EQ(subnet.SetFault({"one-more", "*", Loss(1)}).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(subnet.SetFault({"p0", "*", Loss(2)}).ok()) << "in place of another";
}

TEST(SubnetTest, AnAbsentSmAnswersNoPort) {
  Subnet subnet;
  RegisteredPort h1(&subnet, "h1");
  subnet.SetSmAbsent(true);
  EXPECT_TRUE(h1.Ask(MadMethod::kSet, 1, kFullMember).ok());
  EXPECT_THAT(h1.record().mads, IsEmpty());
  EXPECT_THAT(subnet.Groups(), IsEmpty());
  subnet.SetSmAbsent(false);
  EXPECT_TRUE(h1.Join(1));
}

TEST(SubnetTest, AnOperatorSeesPortsGroupsAndRings) {
  Subnet subnet;
  RegisteredPort h1(&subnet, "h1"), h2(&subnet, "h2");
  ASSERT_TRUE(h1.Join(1));
  ASSERT_NE(h1.OpenRing(1, h2.config().lid), 0u);
  const auto ports = subnet.Ports();
  ASSERT_EQ(ports.size(), 2u);
  EXPECT_EQ(ports[0].name, "h1");
  EXPECT_TRUE(ports[0].alive && ports[0].link_up);
  EXPECT_EQ(ports[0].rings_out, 1u);
  EXPECT_EQ(ports[1].rings_in, 1u);
  EXPECT_EQ(ports[0].mads, 1u);
  const auto groups = subnet.Groups();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].record.mgid, MakeMgid(1));
  ASSERT_EQ(groups[0].members.size(), 1u);
  EXPECT_EQ(groups[0].members[0].port, "h1");
  EXPECT_EQ(subnet.Rings()[0].destination, "h2");
  EXPECT_EQ(subnet.mad_counters().sa.requests, 1u);
}

// Ports register, send and unregister from several threads. Each sees its events in order, and none
// after its end.
TEST(SubnetTest, ThreadsDoNotDisturbOneAnother) {
  Subnet subnet;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&subnet, t] {
      for (int i = 0; i < 50; ++i) {
        RegisteredPort port(&subnet, absl::StrCat("p", t));
        ASSERT_TRUE(port.status().ok()) << port.status();
        ASSERT_TRUE(port.Ask(MadMethod::kSet, 1, kFullMember).ok());
        port.link()->OpenRing(1, Lid(2), RingEnd()).IgnoreError();
        port.link()->Unregister();
        ASSERT_THAT(port.record().order, StartsWith("P"));
        const size_t said = port.record().order.size();
        ASSERT_TRUE(
            subnet.SetFault({"*", "*", FaultRule{.loss_ppm = static_cast<uint32_t>(i)}}).ok());
        ASSERT_EQ(port.record().order.size(), said);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(subnet.Groups(), IsEmpty());
  EXPECT_THAT(subnet.Rings(), IsEmpty());
}

}  // namespace
}  // namespace eoib::softhca
