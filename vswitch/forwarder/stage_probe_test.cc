#include "vswitch/forwarder/stage_probe.h"

#include "gmock/gmock.h"
#include "vswitch/forwarder/forwarder_test_fixture.h"

namespace eoib {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct RecordingProbe final : StageProbe {
  void Passed(Stage stage) noexcept override { stages.push_back(stage); }

  std::vector<Stage> stages;
};

class StageProbeTest : public ForwarderTest {};

TEST_F(StageProbeTest, SeesTheStagesOfBothDirectionsInOrder) {
  Host* const h1 = AddHost("h1");
  Host* const h2 = AddHost("h2");
  TestPort* const p1 = h1->AddPort("p1");
  h2->AddPort("p2");
  RecordingProbe probe1, probe2;
  h1->forwarder()->SetProbe(&probe1);
  h2->forwarder()->SetProbe(&probe2);
  p1->Inject(MakeFrame(kB, kA));
  h1->forwarder()->PollPort(0);
  h2->forwarder()->PollFabric();
  h1->forwarder()->Housekeep();
  EXPECT_THAT(probe1.stages, ElementsAre(Stage::kReceive, Stage::kParse, Stage::kAdmit,
                                         Stage::kCanonicalise, Stage::kLearn, Stage::kResolve,
                                         Stage::kTransmit, Stage::kFlush, Stage::kReap));
  EXPECT_THAT(probe2.stages, ElementsAre(Stage::kReceive, Stage::kDecapsulate, Stage::kParse,
                                         Stage::kAdmit, Stage::kLearn, Stage::kResolve,
                                         Stage::kTransmit, Stage::kFlush, Stage::kRefill));
  h1->forwarder()->SetProbe(nullptr);
  h2->forwarder()->SetProbe(nullptr);
  probe1.stages.clear();
  p1->Inject(MakeFrame(kB, kA));
  Settle();
  EXPECT_THAT(probe1.stages, IsEmpty());
}

}  // namespace
}  // namespace eoib
