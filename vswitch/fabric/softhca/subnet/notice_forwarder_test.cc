#include "vswitch/fabric/softhca/subnet/notice_forwarder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "vswitch/base/clock.h"
#include "vswitch/fabric/softhca/subnet/fake_ports_for_test.h"

namespace eoib::softhca {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class NoticeForwarderTest : public ::testing::Test {
 protected:
  // Returns what the forwarder transmits now.
  std::vector<OutgoingMad> Run() {
    std::vector<OutgoingMad> out;
    notices_.Run(clock_.Now(), &out);
    return out;
  }
  std::vector<Gid> Told() {
    std::vector<Gid> told;
    for (const OutgoingMad& mad : Run()) told.push_back(mad.to.port);
    return told;
  }
  void InService(const ManagedPort* port) {
    notices_.Forward(SmTrap::kGidInService, port->config.gid, port->config.pkeys, clock_.Now());
  }
  static uint64_t TidOf(const OutgoingMad& mad) { return DecodeSaHeader(mad.mad)->tid; }

  FakePorts ports_;
  // Two partitions: `both_` is in both, `limited_` is a limited member of the first.
  ManagedPort* const blue_ = ports_.Add(MakeManagedPort(2, {PKey(0x8001)}));
  ManagedPort* const red_ = ports_.Add(MakeManagedPort(3, {PKey(0x8002)}));
  ManagedPort* const both_ = ports_.Add(MakeManagedPort(4, {PKey(0x8001), PKey(0x8002)}));
  ManagedPort* const limited_ = ports_.Add(MakeManagedPort(5, {PKey(0x0001)}));
  ManagedPort* const limited2_ = ports_.Add(MakeManagedPort(6, {PKey(0x0001)}));
  FakeClock clock_;
  NoticeForwarder notices_{&ports_};
};

// A port ignores a report whose number it has confirmed, so a restarted SM must start elsewhere.
TEST_F(NoticeForwarderTest, TransactionIdsBeginWithTheGivenOne) {
  NoticeForwarder restarted(&ports_, {.first_tid = 0x1234'5678});
  ASSERT_EQ(restarted.Inform(blue_->config.gid, InformInfo()), SaStatus::kOk);
  restarted.Forward(SmTrap::kGidInService, both_->config.gid, both_->config.pkeys, clock_.Now());
  std::vector<OutgoingMad> out;
  restarted.Run(clock_.Now(), &out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(TidOf(out[0]), 0x1234'5678u);
}

TEST_F(NoticeForwarderTest, AReportHasTheTrapAndTheGid) {
  ASSERT_EQ(notices_.Inform(blue_->config.gid, InformInfo()), SaStatus::kOk);
  InService(both_);
  const std::vector<OutgoingMad> out = Run();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].to, blue_->config.gid);
  const SaHeader header = DecodeSaHeader(out[0].mad).value();
  EXPECT_EQ(header.method, MadMethod::kReport);
  EXPECT_EQ(header.attribute, SaAttribute::kNotice);
  const Notice notice = DecodeNotice(SaRecord(out[0].mad)).value();
  EXPECT_EQ(notice.trap, 64);
  EXPECT_TRUE(notice.generic);
  EXPECT_EQ(notice.producer, Notice::kProducerClassManager);
  EXPECT_EQ(notice.AboutGid(), both_->config.gid);
  EXPECT_EQ(notice.issuer_lid, ports_.hub.lid.value());
  EXPECT_EQ(notice.issuer_gid, ports_.hub.gid);
}

// IBA 1.4 §13.4.8.3: which subscriptions match a trap 66 (generic, type 3, producer 4) of the
// subnet manager (LID 1).
TEST_F(NoticeForwarderTest, SubscriptionsMatchByTheirFields) {
  const struct {
    const char* description;
    std::function<void(InformInfo*)> change;
    bool told;
  } kRows[] = {
      {"all", [](InformInfo*) {}, true},
      {"this trap", [](InformInfo* i) { i->trap = 66; }, true},
      {"another trap", [](InformInfo* i) { i->trap = 67; }, false},
      {"this type", [](InformInfo* i) { i->type = 3; }, true},
      {"another type", [](InformInfo* i) { i->type = 4; }, false},
      {"this producer", [](InformInfo* i) { i->producer = 4; }, true},
      {"another producer", [](InformInfo* i) { i->producer = 1; }, false},
      {"a vendor's", [](InformInfo* i) { i->generic = false; }, false},
      {"the issuer's LID", [](InformInfo* i) { i->lid_begin = 1; }, true},
      {"another LID", [](InformInfo* i) { i->lid_begin = 2; }, false},
      {"a range with it",
       [](InformInfo* i) {
         i->lid_begin = 1;
         i->lid_end = 5;
       },
       true},
      {"a range without it",
       [](InformInfo* i) {
         i->lid_begin = 2;
         i->lid_end = 5;
       },
       false},
      {"the issuer's GID, whatever the LIDs",
       [this](InformInfo* i) {
         i->gid = ports_.hub.gid;
         i->lid_begin = 2;
       },
       true},
      {"another GID", [this](InformInfo* i) { i->gid = red_->config.gid; }, false},
  };
  for (const auto& row : kRows) {
    notices_.Clear();
    InformInfo info;
    row.change(&info);
    ASSERT_EQ(notices_.Inform(blue_->config.gid, info), SaStatus::kOk) << row.description;
    notices_.Forward(SmTrap::kGroupCreated, MakeMgid(1).gid(), {PKey(0x8001)}, clock_.Now());
    EXPECT_EQ(Run().size(), row.told ? 1u : 0u) << row.description;
  }
}

TEST_F(NoticeForwarderTest, GidsStayWithinTheirPartitions) {
  for (const ManagedPort& port : ports_.ports)
    ASSERT_EQ(notices_.Inform(port.config.gid, InformInfo()), SaStatus::kOk);
  const Gid blue = blue_->config.gid, red = red_->config.gid, both = both_->config.gid;
  const Gid limited = limited_->config.gid, limited2 = limited2_->config.gid;
  const struct {
    const char* description;
    std::vector<PKey> pkeys;  // the subject's
    std::vector<Gid> told;
  } kRows[] = {
      {"a full member", {PKey(0x8001)}, {blue, both, limited, limited2}},
      {"a limited member, of whom others like it do not hear", {PKey(0x0001)}, {blue, both}},
      {"a port in two partitions",
       {PKey(0x8001), PKey(0x8002)},
       {blue, red, both, limited, limited2}},
      {"a port without partition", {}, {}},
      {"a partition without other members", {PKey(0x8003)}, {}},
  };
  for (const auto& row : kRows) {
    notices_.Forward(SmTrap::kGidInService, Gid::FromPrefixAndGuid(1, Guid(9)), row.pkeys,
                     clock_.Now());
    const std::vector<OutgoingMad> out = Run();
    std::vector<Gid> told;
    for (const OutgoingMad& mad : out) {
      told.push_back(mad.to.port);
      notices_.Confirm(mad.to.port, TidOf(mad));
    }
    EXPECT_THAT(told, testing::UnorderedElementsAreArray(row.told)) << row.description;
  }
}

TEST_F(NoticeForwarderTest, SeveralMatchingSubscriptionsGetOneReport) {
  InformInfo trap;
  trap.trap = 64;
  ASSERT_EQ(notices_.Inform(blue_->config.gid, trap), SaStatus::kOk);
  ASSERT_EQ(notices_.Inform(blue_->config.gid, trap), SaStatus::kOk) << "twice is once";
  ASSERT_EQ(notices_.Inform(blue_->config.gid, InformInfo()), SaStatus::kOk);
  EXPECT_EQ(notices_.subscriptions().at(blue_->config.gid).size(), 2u);
  InService(both_);
  EXPECT_EQ(Run().size(), 1u);
}

TEST_F(NoticeForwarderTest, UnsubscribingNeedsTheSameSubscription) {
  InformInfo info;
  info.trap = 64;
  ASSERT_EQ(notices_.Inform(blue_->config.gid, info), SaStatus::kOk);
  info.subscribe = false;
  InformInfo other = info;
  other.trap = 65;
  EXPECT_EQ(notices_.Inform(blue_->config.gid, other), SaStatus::kRequestInvalid);
  EXPECT_EQ(notices_.Inform(both_->config.gid, info), SaStatus::kRequestInvalid)
      << "somebody else's";
  info.qpn = Qpn(7);
  info.response_time = 3;
  EXPECT_EQ(notices_.Inform(blue_->config.gid, info), SaStatus::kOk)
      << "QPN and response time do not matter";
  InService(both_);
  EXPECT_THAT(Run(), IsEmpty());
}

TEST_F(NoticeForwarderTest, ABackwardsRangeOfLidsIsRefused) {
  InformInfo backwards;
  backwards.lid_begin = 5;
  backwards.lid_end = 4;
  EXPECT_EQ(notices_.Inform(both_->config.gid, backwards), SaStatus::kRequestInvalid);
}

TEST_F(NoticeForwarderTest, AReportIsRepeatedUntilItIsConfirmed) {
  ASSERT_EQ(notices_.Inform(blue_->config.gid, InformInfo()), SaStatus::kOk);
  EXPECT_EQ(notices_.NextDeadline(), absl::InfiniteFuture());
  InService(both_);
  const absl::Time start = clock_.Now();
  EXPECT_EQ(notices_.NextDeadline(), start) << "the first transmission is due at once";
  const std::vector<OutgoingMad> first = Run();
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(notices_.NextDeadline(), start + absl::Milliseconds(500));
  clock_.Advance(absl::Milliseconds(499));
  EXPECT_THAT(Run(), IsEmpty());
  clock_.Advance(absl::Milliseconds(1));
  const std::vector<OutgoingMad> second = Run();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].mad, first[0].mad) << "with the same transaction ID";
  EXPECT_EQ(notices_.NextDeadline(), start + absl::Milliseconds(1500));
  notices_.Confirm(both_->config.gid, TidOf(first[0]));
  EXPECT_EQ(notices_.counters().confirmed, 0u) << "somebody else's confirmation";
  notices_.Confirm(blue_->config.gid, TidOf(first[0]));
  EXPECT_EQ(notices_.NextDeadline(), absl::InfiniteFuture());
  EXPECT_EQ(notices_.counters().confirmed, 1u);
  EXPECT_EQ(notices_.counters().repeated, 1u);
}

TEST_F(NoticeForwarderTest, AReportIsGivenUpAfterTheLastRetry) {
  ASSERT_EQ(notices_.Inform(blue_->config.gid, InformInfo()), SaStatus::kOk);
  InService(both_);
  std::vector<absl::Duration> at;
  const absl::Time start = clock_.Now();
  while (notices_.NextDeadline() != absl::InfiniteFuture()) {
    ASSERT_LT(clock_.Now() - start, absl::Minutes(1));
    clock_.Advance(notices_.NextDeadline() - clock_.Now());
    if (!Run().empty()) at.push_back(clock_.Now() - start);
  }
  EXPECT_THAT(at, ElementsAre(absl::ZeroDuration(), absl::Milliseconds(500),
                              absl::Milliseconds(1500), absl::Milliseconds(3500)));
  EXPECT_EQ(clock_.Now() - start, absl::Milliseconds(7500));
  EXPECT_EQ(notices_.counters().given_up, 1u);
  InService(both_);
  EXPECT_EQ(Run().size(), 1u) << "it stays subscribed";
}

TEST_F(NoticeForwarderTest, APortThatGoesIsForgotten) {
  ASSERT_EQ(notices_.Inform(blue_->config.gid, InformInfo()), SaStatus::kOk);
  ASSERT_EQ(notices_.Inform(limited_->config.gid, InformInfo()), SaStatus::kOk);
  InService(both_);
  notices_.RemovePort(blue_->config.gid);
  EXPECT_THAT(Told(), ElementsAre(limited_->config.gid));
  clock_.Advance(absl::Seconds(1));
  InService(both_);
  EXPECT_THAT(Told(), UnorderedElementsAre(limited_->config.gid, limited_->config.gid))
      << "a new one and a repeated one";
}

}  // namespace
}  // namespace eoib::softhca
