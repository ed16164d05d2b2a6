#include "control/ves/restored_entries.h"

#include "fdb/fdb_key_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

const Gid kGid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(1));
const PeerAddress kPeer{kGid, Qpn(0x48)};
const PeerAddress kRestarted{kGid, Qpn(0x49)};
const PeerAddress kElsewhere{Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(2)), Qpn(0x48)};

class RestoredEntriesTest : public testing::Test {
 protected:
  RestoredEntriesTest() {
    vport_ = directory_.Intern(kPeer);
    EXPECT_TRUE(fdb_.Restore(Key(1), vport_, FdbOrigin::kRemoteLearned, absl::ZeroDuration()));
    restored_.Begin();
    restored_.AddAgent(agent_, vport_, kPeer);
  }
  void Pass(absl::Duration time) {
    clock_.Advance(time);
    restored_.Run();
  }

  FakeClock clock_;
  Fdb fdb_{{}, &clock_};
  VPortDirectory directory_;
  RestoredEntries restored_{&fdb_, &directory_, &clock_};
  const AgentId agent_ = *AgentId::Parse("000000000000000000000000000000aa");
  VPortId vport_;
};

TEST_F(RestoredEntriesTest, AgentThatIsHeardKeepsItsMacs) {
  restored_.OnAddress();
  EXPECT_EQ(restored_.Take(agent_, kPeer), vport_);
  Pass(RestoredEntries::kSettle);
  EXPECT_TRUE(fdb_.Get(Key(1)).has_value());
  EXPECT_EQ(restored_.Take(agent_, kPeer), VPortId::None()) << "only once";
}

TEST_F(RestoredEntriesTest, AgentThatRestartedKeepsItsMacs) {
  EXPECT_EQ(restored_.Take(agent_, kRestarted), vport_);
}

TEST_F(RestoredEntriesTest, AgentAtAnotherPortDoesNotGetTheMacs) {
  EXPECT_EQ(restored_.Take(agent_, kElsewhere), VPortId::None());
  EXPECT_FALSE(fdb_.Get(Key(1)).has_value());
}

TEST_F(RestoredEntriesTest, SilentAgentIsFlushed) {
  Pass(absl::Hours(1));
  EXPECT_FALSE(restored_.IsSettled()) << "nobody can have answered";
  restored_.OnAddress();
  Pass(RestoredEntries::kSettle - absl::Milliseconds(1));
  EXPECT_FALSE(restored_.IsSettled());
  EXPECT_EQ(restored_.NextDeadline(), clock_.Now() + absl::Milliseconds(1));
  Pass(absl::Milliseconds(1));
  EXPECT_TRUE(restored_.IsSettled());
  EXPECT_FALSE(fdb_.Get(Key(1)).has_value());
  EXPECT_EQ(restored_.NextDeadline(), absl::InfiniteFuture());
}

TEST_F(RestoredEntriesTest, StickyMacsWaitForTheOthers) {
  const VPortId here = directory_.AddLocal(0), gone = directory_.AddLocal(1);
  fdb_.SetVPortPolicy(here, {absl::nullopt, /*sticky=*/true});
  restored_.AddSticky(Key(2), here);
  restored_.AddSticky(Key(3), here);
  restored_.AddSticky(Key(4), gone);
  restored_.RemoveVPort(gone);
  fdb_.Announce(Key(3), vport_);
  EXPECT_FALSE(fdb_.Get(Key(2)).has_value());
  restored_.OnAddress();
  EXPECT_EQ(restored_.Take(agent_, kPeer), vport_);
  Pass(RestoredEntries::kSettle);
  ASSERT_TRUE(fdb_.Get(Key(2)).has_value());
  EXPECT_TRUE(fdb_.Get(Key(2))->sticky);
  EXPECT_EQ(fdb_.Get(Key(3))->vport, vport_) << "another agent has it now";
  EXPECT_FALSE(fdb_.Get(Key(4)).has_value());
}

TEST_F(RestoredEntriesTest, ReclaimedVPortIsNotUsed) {
  fdb_.FlushLearned(vport_);
  directory_.Remove(vport_);
  EXPECT_EQ(restored_.Take(agent_, kPeer), VPortId::None());
}

}  // namespace
}  // namespace eoib
