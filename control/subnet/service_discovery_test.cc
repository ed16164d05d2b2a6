#include "control/subnet/service_discovery.h"

#include <set>
#include <vector>

#include "control/subnet/fake_sa_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr PKey kPKey(0x0001);  // as in the table of a limited member

PeerAddress Address(uint64_t guid, uint32_t qpn = 0x48) {
  return {Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(guid)), Qpn(qpn)};
}
AgentId Id(uint8_t number) {
  AgentId::Bytes bytes{};
  bytes[0] = number;
  return AgentId(bytes);
}
ServiceRecord Record(const PeerAddress& address) {
  return ServiceRecordOf(kPKey, Id(9), address, absl::Seconds(60));
}

class ServiceDiscoveryTest : public testing::Test {
 protected:
  void Pump() {
    while (!sa_.idle()) client_.Run();
  }
  void Start() {
    discovery_.SetAddress(Address(1));
    Pump();
    Pass(absl::ZeroDuration());
  }
  // Lets time pass, and does what falls due.
  void Pass(absl::Duration time) {
    const absl::Time end = clock_.Now() + time;
    for (;;) {
      while (discovery_.NextDeadline() <= clock_.Now() || client_.NextDeadline() <= clock_.Now()) {
        discovery_.Run();
        client_.Run();
        Pump();
      }
      const absl::Time next = std::min({end, discovery_.NextDeadline(), client_.NextDeadline()});
      if (clock_.Now() >= end) return;
      clock_.Advance(next - clock_.Now());
    }
  }
  size_t Registrations() const { return sa_.Asked(MadMethod::kSet, SaAttribute::kServiceRecord); }
  size_t Queries() const { return sa_.Asked(MadMethod::kGetTable, SaAttribute::kServiceRecord); }
  void List(const PeerAddress& peer) { sa_.services[peer.gid] = Record(peer); }

  FakeClock clock_;
  FakeSa sa_;
  SaClient client_{&sa_, &clock_, {}};
  std::set<std::pair<Gid, Qpn>> known_;
  std::vector<PeerAddress> asked_;
  std::set<Gid> unlisted_;
  ServiceDiscovery discovery_{
      {"blue", kPKey, Id(1)},
      &client_,
      &clock_,
      [] { return uint64_t{1024}; },  // no jitter
      {[this](const PeerAddress& peer) {
         return known_.contains({peer.gid, peer.qpn});
       },
       [this](const PeerAddress& peer) { asked_.push_back(peer); },
       [this](const PeerAddress& peer) { return !unlisted_.contains(peer.gid); }}};
};

TEST_F(ServiceDiscoveryTest, RegistersTheFullPartitionAndReadsTheTable) {
  List(Address(2));
  Start();
  const ServiceRecord& record = sa_.services.at(Address(1).gid);
  EXPECT_EQ(record.id, 0x0265'6f69'6200'8001u);
  EXPECT_EQ(record.pkey, PKey(0x8001));
  EXPECT_EQ(record.lease, 120u);
  EXPECT_EQ(record.name, "eoib");
  EXPECT_EQ(record.data[0], 1) << "the agent's id";
  EXPECT_EQ(AddressIn(record), Address(1));
  EXPECT_THAT(asked_, ElementsAre(Address(2))) << "and not ourselves";
  EXPECT_EQ(discovery_.listed(), 1u);
  EXPECT_EQ(discovery_.trouble(), "");
}

TEST_F(ServiceDiscoveryTest, DoesNotAskPortsWhoseMessagesDoNotCount) {
  List(Address(2));
  List(Address(3));
  unlisted_.insert(Address(2).gid);
  Start();
  EXPECT_THAT(asked_, ElementsAre(Address(3)));
  EXPECT_EQ(discovery_.listed(), 1u);
  unlisted_.clear();
  discovery_.Refresh();
  Pump();
  Pass(absl::ZeroDuration());
  EXPECT_EQ(asked_.back(), Address(2));
}

TEST_F(ServiceDiscoveryTest, DoesNothingWithoutAnAddress) {
  discovery_.Refresh();
  EXPECT_EQ(discovery_.NextDeadline(), absl::InfiniteFuture());
  Start();
  discovery_.SetAddress(absl::nullopt);
  EXPECT_EQ(discovery_.NextDeadline(), absl::InfiniteFuture());
  EXPECT_EQ(Registrations(), 1u);
}

TEST_F(ServiceDiscoveryTest, RenewsAtHalfOfTheLease) {
  Start();
  Pass(absl::Seconds(59));
  EXPECT_EQ(Registrations(), 1u);
  Pass(absl::Seconds(2));
  EXPECT_EQ(Registrations(), 2u);
  Pass(absl::Seconds(60));
  EXPECT_EQ(Registrations(), 3u);
}

TEST_F(ServiceDiscoveryTest, ReadsTheTableLessAndLessOften) {
  Start();
  EXPECT_EQ(Queries(), 1u);
  Pass(absl::Seconds(1));
  EXPECT_GE(Queries(), 3u);
  Pass(absl::Seconds(30));
  const size_t queries = Queries();
  Pass(absl::Minutes(10));
  EXPECT_EQ(Queries(), queries + 30) << "each 20 s";
}

TEST_F(ServiceDiscoveryTest, AsksAgainUntilTheAgentIsKnown) {
  List(Address(2));
  Start();
  Pass(absl::Milliseconds(25));
  EXPECT_THAT(asked_, SizeIs(2));
  Pass(absl::Milliseconds(50));
  EXPECT_THAT(asked_, SizeIs(3)) << "after twice the time";
  known_.insert({Address(2).gid, Address(2).qpn});
  Pass(absl::Minutes(5));
  EXPECT_THAT(asked_, SizeIs(3));
  known_.clear();  // it was silent for too long
  Pass(absl::Seconds(20));
  EXPECT_GE(asked_.size(), 4u);
}

TEST_F(ServiceDiscoveryTest, AnAgentThatLeavesTheTableIsNotAskedAgain) {
  List(Address(2));
  Start();
  sa_.services.erase(Address(2).gid);
  Pass(absl::Seconds(1));
  EXPECT_EQ(discovery_.listed(), 0u);
  asked_.clear();
  Pass(absl::Minutes(1));
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(ServiceDiscoveryTest, FindsAnAgentThatStartsLater) {
  Start();
  Pass(absl::Minutes(1));
  EXPECT_THAT(asked_, IsEmpty());
  List(Address(3));
  Pass(absl::Seconds(20));
  ASSERT_GE(asked_.size(), 1u);
  EXPECT_EQ(asked_[0], Address(3));
}

TEST_F(ServiceDiscoveryTest, ManyAgentsAreNotAskedAllAtOnce) {
  for (uint64_t guid = 2; guid < 52; ++guid) List(Address(guid));
  Start();
  EXPECT_EQ(asked_.size(), ServiceDiscovery::kAsksPerTurn);
  Pass(ServiceDiscovery::kTurn);
  EXPECT_EQ(asked_.size(), 2 * ServiceDiscovery::kAsksPerTurn);
  Pass(absl::Seconds(1));
  std::set<std::pair<Gid, Qpn>> asked;
  for (const PeerAddress& peer : asked_) asked.insert({peer.gid, peer.qpn});
  EXPECT_EQ(asked.size(), 50u);
}

TEST_F(ServiceDiscoveryTest, RecordsOfOthersAreIgnored) {
  const auto list = [this](uint64_t guid, const std::function<void(ServiceRecord*)>& change) {
    ServiceRecord record = Record(Address(guid));
    change(&record);
    sa_.services[Address(guid).gid] = record;
  };
  list(2, [](ServiceRecord* record) { record->name = "other"; });
  list(3, [](ServiceRecord* record) { record->data[ServiceRecord::kData16 + 1] = 2; });  // version
  list(4, [](ServiceRecord* record) { record->data[ServiceRecord::kData32 + 3] = 1; });  // QPN 1
  // QPN above 24 bits.
  list(5, [](ServiceRecord* record) { record->data[ServiceRecord::kData32] = 1; });
  list(6, [](ServiceRecord* record) { record->gid = Gid(); });
  list(7, [](ServiceRecord* record) {
    record->gid = Gid::FromPrefixAndGuid(0xff12'0000'0000'0000, Guid(7));
  });
  list(8, [](ServiceRecord*) {});
  Start();
  EXPECT_THAT(asked_, ElementsAre(Address(8)));
}

TEST_F(ServiceDiscoveryTest, ARefusedRegistrationIsRepeatedAndTheTableIsReadMeanwhile) {
  sa_.may_register = false;
  List(Address(2));
  Start();
  EXPECT_THAT(asked_, SizeIs(1));
  EXPECT_THAT(discovery_.trouble(), HasSubstr("register service 0x02656f6962008001: "));
  Pass(absl::Seconds(4));
  EXPECT_EQ(Registrations(), 4u) << "after 0.5, 1 and 2 s more";
  sa_.may_register = true;
  Pass(absl::Seconds(4));
  EXPECT_EQ(discovery_.trouble(), "");
  EXPECT_TRUE(sa_.services.contains(Address(1).gid));
}

TEST_F(ServiceDiscoveryTest, ATableThatCannotBeReadLeavesTheFormerOne) {
  List(Address(2));
  Start();
  sa_.tables = false;
  Pass(absl::Seconds(10));
  EXPECT_EQ(discovery_.listed(), 1u);
  EXPECT_THAT(discovery_.trouble(), HasSubstr("query services 0x02656f6962008001: "));
  sa_.tables = true;
  Pass(absl::Seconds(30));
  EXPECT_EQ(discovery_.trouble(), "");
}

TEST_F(ServiceDiscoveryTest, AnSaThatForgotUsIsToldAgain) {
  Start();
  Pass(absl::Seconds(30));
  sa_.services.clear();
  List(Address(2));
  discovery_.Refresh();
  Pump();
  Pass(absl::ZeroDuration());
  EXPECT_TRUE(sa_.services.contains(Address(1).gid));
  EXPECT_THAT(asked_, ElementsAre(Address(2))) << "the table is read at once, too";
}

TEST_F(ServiceDiscoveryTest, AnotherQueuePairReplacesTheRecordAndAnotherGidMovesIt) {
  Start();
  discovery_.SetAddress(Address(1, 0x99));
  Pump();
  EXPECT_EQ(AddressIn(sa_.services.at(Address(1).gid)), Address(1, 0x99));
  discovery_.SetAddress(Address(7, 0x99));
  Pump();
  EXPECT_THAT(sa_.services, SizeIs(1));
  EXPECT_TRUE(sa_.services.contains(Address(7).gid));
}

TEST_F(ServiceDiscoveryTest, LeavesWithoutARecord) {
  bool left = false;
  discovery_.Leave([&] { left = true; });
  EXPECT_TRUE(left) << "the SA does not know us";
  left = false;
  Start();
  discovery_.Leave([&] { left = true; });
  EXPECT_FALSE(left);
  Pump();
  EXPECT_TRUE(left);
  EXPECT_THAT(sa_.services, IsEmpty());
  EXPECT_EQ(discovery_.NextDeadline(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace eoib
