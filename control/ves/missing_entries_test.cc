#include "control/ves/missing_entries.h"

#include "control/protocol/vport_protocol_test_fixture.h"

namespace eoib {
namespace {

class MissingEntriesTest : public VPortProtocolTest {
 protected:
  static constexpr int kMacs = 3000;

  // Host 0 has announced kMacs MACs to host 1, whose FDB has none of them.
  void Announce() {
    StartHosts(2);
    for (int i = 0; i < kMacs; ++i) Claim(0, Key(i));
    simulation_.Advance(absl::Seconds(30));
    ASSERT_EQ(View(0, 1)->view().macs.size(), kMacs);
    missing_.emplace(&engine(1), &fdb_, &vlans_, &simulation_.clock(),
                     [this](const AgentId& agent) {
                       return agent == host(0).id ? VPortId(7) : VPortId::None();
                     });
  }
  // Returns how many slices the next walk takes.
  int Walk() {
    int slices = 0;
    do {
      simulation_.clock().Advance(missing_->NextDeadline() - simulation_.clock().Now());
      missing_->Run();
      ++slices;
    } while (missing_->NextDeadline() - simulation_.clock().Now() == MissingEntries::kPause);
    return slices;
  }

  Fdb fdb_{{.limit = 1000}, &simulation_.clock()};
  const VlanSet vlans_ = VlanSet::All();
  absl::optional<MissingEntries> missing_;
};

TEST_F(MissingEntriesTest, AWalkFillsTheRoomThatThereIsAndEvictsNothing) {
  Announce();
  for (int i = 0; i < 100; ++i) fdb_.Learn(Key(10'000 + i), VPortId(8), FdbOrigin::kLocalLearned);
  Walk();
  EXPECT_EQ(fdb_.Held(VPortId(7)), 900u);
  Walk();
  EXPECT_EQ(fdb_.Held(VPortId(7)), 900u);
  EXPECT_EQ(fdb_.Held(VPortId(8)), 100u);
  EXPECT_EQ(fdb_.counters().evicted, 0u);
  Fdb::Options larger = fdb_.options();
  larger.limit = 10'000;
  fdb_.Change(larger);
  EXPECT_GE(Walk(), 5) << "in slices";
  EXPECT_EQ(fdb_.Held(VPortId(7)), static_cast<size_t>(kMacs));
  EXPECT_LT(Walk(), 5) << "there is nothing to do";
}

// A frame from elsewhere came while the entry was missing. A MAC of our own stays here.
TEST_F(MissingEntriesTest, TakesAMacBackFromWhereItWasLearned) {
  Announce();
  fdb_.Learn(Key(1), VPortId(8), FdbOrigin::kRemoteLearned);
  fdb_.Learn(Key(2), VPortId(9), FdbOrigin::kLocalLearned);
  Walk();
  EXPECT_EQ(fdb_.Get(Key(1))->vport, VPortId(7));
  EXPECT_EQ(fdb_.Get(Key(2))->vport, VPortId(9)) << "a claim is about to follow";
}

}  // namespace
}  // namespace eoib
