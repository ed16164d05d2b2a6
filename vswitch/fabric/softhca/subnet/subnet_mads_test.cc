// Subnet with its MAD agents, as ports see them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/file.h"
#include "vswitch/base/temp_dir_for_test.h"
#include "vswitch/fabric/softhca/counters_page.h"
#include "vswitch/fabric/softhca/recording_sink_for_test.h"
#include "vswitch/fabric/softhca/subnet/fake_ports_for_test.h"
#include "vswitch/fabric/softhca/subnet/lid_file.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"
#include "vswitch/wire/ib/sa_table.h"

namespace eoib::softhca {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// A registered port that sends MADs to the SA like a host.
class Host {
 public:
  Host(Subnet* subnet, const std::string& name, Lid wanted = Lid(),
       std::shared_ptr<const CountersPage> counters = nullptr, PortUse use = PortUse::kOwn)
      : doorbell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        link_(subnet->Connect(RegistrationRequest{wanted, {}})) {
    EXPECT_TRUE(link_->Register(name, {doorbell_.get(), std::move(counters)}, use, &sink_).ok());
  }

  Host(Subnet* subnet, const std::string& name, PortUse use)
      : Host(subnet, name, Lid(), nullptr, use) {}

  PortConfig config() const { return sink_.Get().configs.back(); }
  SubnetLink* link() { return link_.get(); }
  std::vector<std::vector<uint8_t>> mads() const { return sink_.Get().mads; }
  std::vector<Lid> sources() const { return sink_.Get().mad_sources; }
  std::vector<uint8_t> last() const { return mads().back(); }

  void Ask(MadMethod method, SaAttribute attribute, uint64_t mask,
           const std::function<void(absl::Span<uint8_t>)>& encode) {
    SaHeader header;
    header.method = method;
    header.attribute = attribute;
    header.tid = ++tid_;
    header.component_mask = mask;
    Mad mad;
    EncodeSaHeader(header, &mad);
    encode(SaRecord(&mad));
    EXPECT_TRUE(link_->SendMad(mad).ok());
  }
  // Returns whether the SA accepted the subscription.
  bool Subscribe(InformInfo info = {}) {
    Ask(MadMethod::kSet, SaAttribute::kInformInfo, 0,
        [&](auto record) { EncodeInformInfo(info, record); });
    return DecodeSaHeader(last())->status == 0;
  }
  bool Join(PKey pkey = PKey(0xffff), MadMethod method = MadMethod::kSet) {
    McMemberRecord group;
    group.mgid = MakeMgid(1);
    group.port_gid = config().gid;
    group.pkey = pkey;
    group.join_state = kFullMember;
    constexpr uint64_t kMask = mcm::kMgid | mcm::kPortGid | mcm::kJoinState | mcm::kQKey |
                               mcm::kPKey | mcm::kTrafficClass | mcm::kSl | mcm::kFlowLabel;
    Ask(method, SaAttribute::kMcMemberRecord, kMask,
        [&](auto record) { EncodeMcMemberRecord(group, record); });
    return DecodeSaHeader(last())->status == 0;
  }
  // Returns the reports since the last call, in order, as "trap GID", and confirms them.
  std::vector<std::string> Reports() {
    std::vector<std::string> reports;
    const std::vector<std::vector<uint8_t>> all = mads();
    for (; seen_ < all.size(); ++seen_) {
      SaHeader header = DecodeSaHeader(all[seen_]).value();
      if (header.method != MadMethod::kReport) continue;
      const Notice notice = DecodeNotice(SaRecord(all[seen_])).value();
      reports.push_back(absl::StrCat(notice.trap, " ", notice.AboutGid().ToString()));
      header.method = MadMethod::kReportResp;
      Mad confirmation = MadOf(all[seen_]);
      EncodeSaHeader(header, &confirmation);
      EXPECT_TRUE(link_->SendMad(confirmation).ok());
    }
    return reports;
  }

 private:
  RecordingSink sink_;
  UniqueFd doorbell_;
  std::unique_ptr<SubnetLink> link_;
  uint64_t tid_ = 0;
  size_t seen_ = 0;
};

std::string About(int trap, const Gid& gid) { return absl::StrCat(trap, " ", gid.ToString()); }

class SubnetMadsTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  Subnet subnet_{Subnet::Options{.clock = &clock_}};
};

TEST_F(SubnetMadsTest, ASubscriberHearsOfPortsThatComeAndGo) {
  Host h1(&subnet_, "h1");
  ASSERT_TRUE(h1.Subscribe());
  EXPECT_THAT(h1.Reports(), IsEmpty()) << "not of itself";
  auto h2 = std::make_unique<Host>(&subnet_, "h2");
  const Gid gid = h2->config().gid;
  EXPECT_THAT(h1.Reports(), ElementsAre(About(64, gid)));
  ASSERT_TRUE(subnet_.SetLink("h2", false).ok());
  EXPECT_THAT(h1.Reports(), ElementsAre(About(65, gid)));
  ASSERT_TRUE(subnet_.SetLink("h2", true).ok());
  EXPECT_THAT(h1.Reports(), ElementsAre(About(64, gid)));
  ASSERT_TRUE(subnet_.SetLid("h2", Lid(99)).ok());
  EXPECT_THAT(h1.Reports(), IsEmpty()) << "a LID change is no trap";
  h2.reset();
  EXPECT_THAT(h1.Reports(), ElementsAre(About(65, gid)));
  EXPECT_EQ(subnet_.mad_counters().notices.confirmed, 4u);
  EXPECT_EQ(subnet_.NextDeadline(), absl::InfiniteFuture());
}

TEST_F(SubnetMadsTest, ASubscriberHearsOfGroupsThatComeAndGo) {
  Host h1(&subnet_, "h1"), h2(&subnet_, "h2");
  ASSERT_TRUE(h1.Subscribe());
  ASSERT_TRUE(h2.Join());
  EXPECT_THAT(h1.Reports(), ElementsAre(About(66, MakeMgid(1).gid())));
  ASSERT_TRUE(h1.Join());
  EXPECT_THAT(h1.Reports(), IsEmpty());
  ASSERT_TRUE(h2.Join(PKey(0xffff), MadMethod::kDelete));
  EXPECT_THAT(h1.Reports(), IsEmpty());
  ASSERT_TRUE(h1.Join(PKey(0xffff), MadMethod::kDelete));
  EXPECT_THAT(h1.Reports(), ElementsAre(About(67, MakeMgid(1).gid())))
      << "also when it caused the trap itself";
  ASSERT_TRUE(h2.Join());
  ASSERT_TRUE(subnet_.SetLink("h2", false).ok());
  EXPECT_THAT(h1.Reports(), ElementsAre(About(66, MakeMgid(1).gid()), About(65, h2.config().gid),
                                        About(67, MakeMgid(1).gid())));
}

// IBA 1.4 §13.4.11: no report crosses partitions. No two ports share the default partition here.
TEST_F(SubnetMadsTest, NoReportCrossesPartitions) {
  ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0xffff), "ALL").ok());
  for (const char* name : {"blue1", "blue2"})
    ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), name, Membership::kFull).ok());
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8002), "red1", Membership::kFull).ok());
  Host blue1(&subnet_, "blue1"), red1(&subnet_, "red1");
  ASSERT_TRUE(blue1.Subscribe());
  ASSERT_TRUE(red1.Subscribe());
  Host blue2(&subnet_, "blue2");
  ASSERT_TRUE(blue2.Join(PKey(0x8001)));
  ASSERT_TRUE(subnet_.SetLink("blue2", false).ok());
  EXPECT_THAT(blue1.Reports(), SizeIs(4));
  EXPECT_THAT(red1.Reports(), IsEmpty());
}

TEST_F(SubnetMadsTest, SubscriptionsEndWithTheLinkAndWithTheProcess) {
  auto h1 = std::make_unique<Host>(&subnet_, "h1");
  ASSERT_TRUE(h1->Subscribe());
  ASSERT_TRUE(subnet_.SetLink("h1", false).ok());
  EXPECT_THAT(subnet_.AllSubscriptions(), IsEmpty());
  ASSERT_TRUE(subnet_.SetLink("h1", true).ok());
  ASSERT_TRUE(h1->Subscribe());
  ASSERT_THAT(subnet_.AllSubscriptions(), SizeIs(1));
  EXPECT_EQ(subnet_.AllSubscriptions()[0].port, "h1");
  h1 = nullptr;
  Host again(&subnet_, "h1");
  EXPECT_THAT(subnet_.AllSubscriptions(), IsEmpty());
}

TEST_F(SubnetMadsTest, ReportsAreRepeatedByTheClock) {
  Host h1(&subnet_, "h1");
  ASSERT_TRUE(h1.Subscribe());
  Host h2(&subnet_, "h2");
  ASSERT_THAT(h1.mads(), SizeIs(2));
  EXPECT_EQ(subnet_.NextDeadline(), clock_.Now() + absl::Milliseconds(500));
  clock_.Advance(absl::Milliseconds(500));
  subnet_.Run();
  ASSERT_THAT(h1.mads(), SizeIs(3));
  EXPECT_EQ(h1.mads()[1], h1.mads()[2]);
  EXPECT_THAT(h1.Reports(), SizeIs(2))
      << "and both are confirmed, as a host does that takes them for two";
  EXPECT_EQ(subnet_.mad_counters().notices.confirmed, 1u);
}

TEST_F(SubnetMadsTest, AnAbsentSmReportsWhenItIsBack) {
  Host h1(&subnet_, "h1");
  ASSERT_TRUE(h1.Subscribe());
  subnet_.SetSmAbsent(true);
  Host h2(&subnet_, "h2");
  EXPECT_THAT(h1.Reports(), IsEmpty());
  EXPECT_EQ(subnet_.NextDeadline(), absl::InfiniteFuture());
  subnet_.SetSmAbsent(false);
  EXPECT_THAT(h1.Reports(), ElementsAre(About(64, h2.config().gid)));
}

TEST_F(SubnetMadsTest, ATableArrivesAsOneMad) {
  std::vector<std::unique_ptr<Host>> hosts;
  for (int i = 0; i < 10; ++i)
    hosts.push_back(std::make_unique<Host>(&subnet_, absl::StrCat("h", i)));
  Host& h0 = *hosts[0];
  PathRecord wanted;
  wanted.sgid = h0.config().gid;
  h0.Ask(MadMethod::kGetTable, SaAttribute::kPathRecord, path::kSgid,
         [&](auto record) { EncodePathRecord(wanted, record); });
  ASSERT_THAT(h0.mads(), SizeIs(1));
  const std::vector<uint8_t> table = h0.last();
  EXPECT_TRUE(IsSaTable(table));
  const SaHeader header = DecodeSaHeader(table).value();
  EXPECT_EQ(header.method, MadMethod::kGetTableResp);
  EXPECT_EQ(header.attribute_offset, 8);
  ASSERT_THAT(SaRecord(table), SizeIs(10 * 64));
  for (size_t i = 0; i < hosts.size(); ++i) {
    EXPECT_EQ(DecodePathRecord(SaRecord(table).subspan(i * 64))->dgid, hosts[i]->config().gid) << i;
  }
  EXPECT_EQ(subnet_.mad_counters().sa.tables, 1u);
  EXPECT_EQ(subnet_.NextDeadline(), absl::InfiniteFuture());
}

Mad AskForNodeDescription(std::vector<uint8_t> route, bool directed) {
  SmpHeader header;
  header.attribute = SmpAttribute::kNodeDescription;
  header.directed = directed;
  header.hop_count = static_cast<uint8_t>(route.size());
  for (size_t i = 0; i < route.size(); ++i) header.initial_path[i + 1] = route[i];
  Mad mad;
  EncodeSmpHeader(header, &mad);
  return mad;
}

TEST_F(SubnetMadsTest, SmpsFindTheirNodes) {
  Host h1(&subnet_, "h1"), h2(&subnet_, "h2");
  const struct {
    const char* description;
    Lid destination;
    Mad mad;
    const char* answer;
  } kRows[] = {
      {"by LID", h2.config().lid, AskForNodeDescription({}, false), "h2"},
      {"without one: the subnet manager's", Lid(), AskForNodeDescription({}, false),
       "eoib-fabricd"},
      {"hop 0", Lid(), AskForNodeDescription({}, true), "h1"},
      {"the second cable of the switch", Lid(), AskForNodeDescription({1, 2}, true), "h2"},
  };
  for (const auto& row : kRows) {
    const size_t before = h1.mads().size();
    ASSERT_TRUE(h1.link()->SendMadTo(row.destination, row.mad).ok());
    ASSERT_THAT(h1.mads(), SizeIs(before + 1)) << row.description;
    EXPECT_EQ(DecodeNodeDescription(SmpData(MadOf(h1.last()))).value(), row.answer)
        << row.description;
  }
  subnet_.SetSmAbsent(true);
  ASSERT_TRUE(h1.link()->SendMadTo(h2.config().lid, kRows[0].mad).ok());
  EXPECT_THAT(h1.mads(), SizeIs(5)) << "ports answer without a subnet manager";
}

TEST_F(SubnetMadsTest, AMadSaysFromWhichLidItCame) {
  Host h1(&subnet_, "h1"), h2(&subnet_, "h2");
  ASSERT_TRUE(subnet_.MoveSm(Lid(77)).ok());
  const auto source = [&] { return h1.sources().back(); };
  ASSERT_TRUE(h1.link()->SendMadTo(h2.config().lid, AskForNodeDescription({}, false)).ok());
  EXPECT_EQ(source(), h2.config().lid) << "an agent of another port";
  ASSERT_TRUE(h1.link()->SendMad(AskForNodeDescription({}, false)).ok());
  EXPECT_EQ(source(), Lid(77)) << "the switch's";
  ASSERT_TRUE(h1.link()->SendMadTo(Lid(), AskForNodeDescription({1, 2}, true)).ok());
  EXPECT_EQ(source(), kPermissiveLid) << "along a directed route";
  ASSERT_TRUE(h1.Subscribe());
  EXPECT_EQ(source(), Lid(77)) << "the SA's";
  const size_t before = h1.mads().size();
  Host h3(&subnet_, "h3");
  ASSERT_THAT(h1.mads(), SizeIs(before + 1));
  EXPECT_EQ(source(), Lid(77)) << "a report";
}

// Processes of one port do not know of each other and may use the same transaction IDs.
TEST_F(SubnetMadsTest, EachProcessOfAPortHearsItsOwnAnswersAndAllHearReports) {
  Host owner(&subnet_, "h1"), manager(&subnet_, "h1", PortUse::kManage),
      other(&subnet_, "h1", PortUse::kManage);
  const auto ask_for_nodes = [](Host* host) {
    host->Ask(MadMethod::kGetTable, SaAttribute::kNodeRecord, 0, [](auto) {});
  };
  ask_for_nodes(&manager);
  ask_for_nodes(&owner);
  EXPECT_THAT(manager.mads(), SizeIs(1));
  EXPECT_THAT(owner.mads(), SizeIs(1));
  EXPECT_EQ(DecodeSaHeader(manager.last())->tid, DecodeSaHeader(owner.last())->tid);
  EXPECT_EQ(subnet_.mad_counters().sa.tables, 2u) << "two, with the same transaction ID";
  ASSERT_TRUE(manager.Subscribe());
  Host newcomer(&subnet_, "h2");
  for (Host* host : {&owner, &manager, &other}) {
    EXPECT_EQ(DecodeSaHeader(host->last())->method, MadMethod::kReport);
  }
}

TEST_F(SubnetMadsTest, AnOwnersMembershipsEndWithItThoughAGuestKeepsItsPortUp) {
  Host watcher(&subnet_, "watcher");
  auto owner = std::make_unique<Host>(&subnet_, "h1");
  Host manager(&subnet_, "h1", PortUse::kManage);
  owner->Join();
  ASSERT_THAT(subnet_.Groups(), SizeIs(1));
  ASSERT_TRUE(watcher.Subscribe());
  const size_t before = watcher.mads().size();
  owner.reset();
  EXPECT_THAT(subnet_.Groups(), IsEmpty());
  EXPECT_TRUE(manager.config().active);
  std::vector<SmTrap> traps;
  for (size_t i = before; i < watcher.mads().size(); ++i) {
    traps.push_back(static_cast<SmTrap>(DecodeNotice(SaRecord(watcher.mads()[i]))->trap));
  }
  EXPECT_THAT(traps, testing::UnorderedElementsAre(SmTrap::kGidOutOfService, SmTrap::kGroupDeleted,
                                                   SmTrap::kGidInService));
}

TEST_F(SubnetMadsTest, CountersAreAskedForWithinAPartition) {
  ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0xffff), "ALL").ok());
  for (const char* name : {"h1", "h2"})
    ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), name, Membership::kFull).ok());
  Host h1(&subnet_, "h1"), h2(&subnet_, "h2"), stranger(&subnet_, "stranger");
  MadHeader header;
  header.mgmt_class = MgmtClass::kPerf;
  header.class_version = kPerfClassVersion;
  header.attribute = static_cast<uint16_t>(PerfAttribute::kPortCounters);
  Mad mad{};
  EncodeMadHeader(header, &mad);
  EncodePortCounters(PortCountersAttribute(), PerfData(&mad));
  const struct {
    const char* description;
    Lid destination;
    bool answered;
  } kRows[] = {{"its own", h1.config().lid, true},
               {"a mate's", h2.config().lid, true},
               {"a stranger's", stranger.config().lid, false},
               {"an unknown LID", Lid(99), false},
               {"the switch's", Lid(), false}};
  for (const auto& row : kRows) {
    const size_t before = h1.mads().size();
    ASSERT_TRUE(h1.link()->SendMadTo(row.destination, mad).ok());
    EXPECT_EQ(h1.mads().size() - before, row.answered ? 1u : 0u) << row.description;
  }
  ASSERT_TRUE(stranger.link()->SendMadTo(stranger.config().lid, mad).ok());
  EXPECT_THAT(stranger.mads(), SizeIs(1)) << "its own, even without a partition";
}

// The PMA reports the counters of a port's page. A new process counts from zero, even if its
// predecessor's counters were cleared.
TEST_F(SubnetMadsTest, CountersArePerPortAndStartAtZeroForANewOwner) {
  Host h1(&subnet_, "h1");
  const auto xmit_packets = [&](MadMethod method, Lid of) {
    MadHeader header;
    header.mgmt_class = MgmtClass::kPerf;
    header.class_version = kPerfClassVersion;
    header.method = method;
    header.attribute = static_cast<uint16_t>(PerfAttribute::kPortCounters);
    Mad mad{};
    EncodeMadHeader(header, &mad);
    EncodePortCounters(PortCountersAttribute(), PerfData(&mad));
    EXPECT_TRUE(h1.link()->SendMadTo(of, mad).ok());
    return DecodePortCounters(PerfData(MadOf(h1.last())))->xmit_packets;
  };
  const std::shared_ptr<CountersPage> first = CountersPage::Create().value(),
                                      second = CountersPage::Create().value();
  first->Store({.xmit_packets = 100});
  second->Store({.xmit_packets = 30});
  auto h2 = std::make_unique<Host>(&subnet_, "h2", Lid(), first);
  const Lid lid = h2->config().lid;
  EXPECT_EQ(xmit_packets(MadMethod::kGet, lid), 100u);
  EXPECT_EQ(xmit_packets(MadMethod::kSet, lid), 0u);
  first->Store({.xmit_packets = 105});
  EXPECT_EQ(xmit_packets(MadMethod::kGet, lid), 5u);
  h2.reset();
  h2 = std::make_unique<Host>(&subnet_, "h2", Lid(), second);
  EXPECT_EQ(xmit_packets(MadMethod::kGet, lid), 30u);
}

TEST_F(SubnetMadsTest, ARestartedSmForgetsGroupsAndSubscriptions) {
  Host h1(&subnet_, "h1"), h2(&subnet_, "h2");
  ASSERT_TRUE(h1.Join());
  ASSERT_TRUE(h2.Subscribe());
  const uint32_t before = h1.config().reregistrations;
  const Lid lid = h1.config().lid;
  subnet_.RestartSm();
  EXPECT_THAT(subnet_.Groups(), IsEmpty());
  EXPECT_THAT(subnet_.AllSubscriptions(), IsEmpty());
  EXPECT_EQ(h1.config().reregistrations, before + 1);
  EXPECT_EQ(h2.config().reregistrations, before + 1);
  EXPECT_EQ(h1.config().lid, lid);
  EXPECT_TRUE(h1.config().active);
  EXPECT_THAT(h2.Reports(), IsEmpty());
  EXPECT_TRUE(h1.Join());
}

TEST_F(SubnetMadsTest, APortIsAskedToReregister) {
  Host h1(&subnet_, "h1"), h2(&subnet_, "h2");
  ASSERT_TRUE(h1.Join());
  ASSERT_TRUE(subnet_.Reregister("h1").ok());
  EXPECT_EQ(h1.config().reregistrations, 1u);
  EXPECT_EQ(h2.config().reregistrations, 0u);
  ASSERT_TRUE(subnet_.Reregister("ALL").ok());
  EXPECT_EQ(h1.config().reregistrations, 2u);
  EXPECT_EQ(h2.config().reregistrations, 1u);
  EXPECT_THAT(subnet_.Groups(), SizeIs(1)) << "nothing is forgotten";
  EXPECT_EQ(subnet_.Reregister("absent").code(), absl::StatusCode::kNotFound);
}

TEST_F(SubnetMadsTest, TheSmMoves) {
  Host h1(&subnet_, "h1");
  EXPECT_EQ(subnet_.MoveSm(h1.config().lid).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(subnet_.MoveSm(Lid()).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(subnet_.MoveSm(Lid(3)).ok());
  EXPECT_EQ(h1.config().sm_lid, Lid(3));
  Host h2(&subnet_, "h2");
  EXPECT_EQ(h2.config().lid, Lid(4)) << "its LID is no port's";
  EXPECT_EQ(h2.config().sm_lid, Lid(3));
  EXPECT_NE(Host(&subnet_, "h3", Lid(1)).config().lid, Lid(1)) << "nor is the one it comes back to";
  EXPECT_EQ(subnet_.SetLid("h1", Lid(3)).code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(h1.link()->SendMadTo(Lid(3), AskForNodeDescription({}, false)).ok());
  EXPECT_EQ(DecodeNodeDescription(SmpData(MadOf(h1.last()))).value(), "eoib-fabricd");
  EXPECT_TRUE(h1.Join()) << "the SA has moved with it";
}

TEST(SubnetLidFileTest, ANewPortDoesNotTakeTheLidOfOneThatHasNotComeBack) {
  TempDir directory;
  PortConfig before;
  {
    const auto lids = LidFile::Open(directory.path());
    ASSERT_TRUE(lids.ok()) << lids.status();
    Subnet subnet(Subnet::Options{.lids = lids->get()});
    Host h1(&subnet, "h1"), h2(&subnet, "h2");
    ASSERT_TRUE(subnet.SetLid("h2", Lid(77)).ok());
    before = h1.config();
  }
  const auto lids = LidFile::Open(directory.path());
  ASSERT_TRUE(lids.ok()) << lids.status();
  Subnet subnet(Subnet::Options{.lids = lids->get()});
  ASSERT_THAT(subnet.Ports(), SizeIs(2));
  EXPECT_FALSE(subnet.Ports()[0].alive);
  Host newcomer(&subnet, "newcomer"), thief(&subnet, "thief", before.lid);
  EXPECT_NE(newcomer.config().lid, before.lid);
  EXPECT_NE(thief.config().lid, before.lid) << "though it asked for it";
  Host h1(&subnet, "h1"), h2(&subnet, "h2");
  EXPECT_EQ(h1.config().lid, before.lid);
  EXPECT_EQ(h1.config().gid, before.gid);
  EXPECT_EQ(h2.config().lid, Lid(77));
  EXPECT_TRUE(h2.config().active);
}

TEST(SubnetLidFileTest, WritesTenTimesASecondAtMost) {
  TempDir directory;
  const std::string path = directory.path() + "/lids";
  FakeClock clock;
  const auto lids = LidFile::Open(directory.path());
  ASSERT_TRUE(lids.ok()) << lids.status();
  Subnet subnet(Subnet::Options{.clock = &clock, .lids = lids->get()});
  EXPECT_EQ(subnet.NextDeadline(), absl::InfiniteFuture());
  Host h1(&subnet, "h1"), h2(&subnet, "h2");
  EXPECT_TRUE(absl::IsNotFound(ReadFile(path, 1000).status()));
  EXPECT_LE(subnet.NextDeadline(), clock.Now());
  subnet.Run();
  EXPECT_THAT(ReadFile(path, 1000).value(), AllOf(HasSubstr("h1 0x2 "), HasSubstr("h2 0x3 ")));
  EXPECT_EQ(subnet.NextDeadline(), absl::InfiniteFuture());
  Host h3(&subnet, "h3");
  subnet.Run();
  EXPECT_THAT(ReadFile(path, 1000).value(), Not(HasSubstr("h3")));
  EXPECT_EQ(subnet.NextDeadline(), clock.Now() + absl::Milliseconds(100));
  clock.Advance(absl::Milliseconds(100));
  subnet.Run();
  EXPECT_THAT(ReadFile(path, 1000).value(), HasSubstr("h3 0x4 "));
}

TEST(SubnetLidFileTest, AFailedWriteIsRetriedOnceASecond) {
  TempDir directory;
  const std::string in_the_way = directory.path() + "/lids.new";
  ASSERT_EQ(mkdir(in_the_way.c_str(), 0700), 0);
  FakeClock clock;
  const auto lids = LidFile::Open(directory.path());
  ASSERT_TRUE(lids.ok()) << lids.status();
  Subnet subnet(Subnet::Options{.clock = &clock, .lids = lids->get()});
  Host h1(&subnet, "h1");
  subnet.Run();
  EXPECT_FALSE((*lids)->status().ok());
  EXPECT_EQ(subnet.NextDeadline(), clock.Now() + absl::Seconds(1));
  ASSERT_EQ(rmdir(in_the_way.c_str()), 0);
  clock.Advance(absl::Seconds(1));
  subnet.Run();
  EXPECT_TRUE((*lids)->status().ok());
  EXPECT_EQ(subnet.NextDeadline(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace eoib::softhca
