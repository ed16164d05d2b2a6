// FdbPolicyTest: the fixture of the FDB policy tests.
#ifndef EOIB_FDB_FDB_POLICY_TEST_FIXTURE_H_
#define EOIB_FDB_FDB_POLICY_TEST_FIXTURE_H_

#include <memory>
#include <vector>

#include "fdb/fdb.h"
#include "fdb/fdb_key_for_test.h"
#include "gtest/gtest.h"

namespace eoib {

inline const VPortId kV1(1), kV2(2), kV3(3);

class FdbPolicyTest : public testing::Test {
 protected:
  Fdb* Make(const Fdb::Options& options) {
    fdb_ = std::make_unique<Fdb>(options, &clock_);
    fdb_->Watch();
    return fdb_.get();
  }
  static VPortId Find(const Fdb& fdb, FdbKey key) {
    VPortId out;
    fdb.Find({&key, 1}, {&out, 1});
    return out;
  }
  VPortId Find(FdbKey key) const { return Find(*fdb_, key); }
  Fdb::Learned Learn(FdbKey key, VPortId vport, FdbOrigin origin = FdbOrigin::kRemoteLearned) {
    return fdb_->Learn(key, vport, origin).what;
  }
  void LearnMany(uint64_t first, uint64_t count, VPortId vport) {
    for (uint64_t i = first; i < first + count; ++i) Learn(Key(i), vport);
  }
  size_t Known(uint64_t first, uint64_t count, VPortId vport) const {
    size_t known = 0;
    for (uint64_t i = first; i < first + count; ++i) known += Find(Key(i)) == vport;
    return known;
  }
  // The kinds of the events since the last call.
  std::vector<FdbEvent::Kind> Events() {
    std::vector<FdbEvent::Kind> kinds;
    std::vector<FdbEvent> events;
    EXPECT_EQ(fdb_->events().Read(&next_event_, ~size_t{0}, &events), 0u);
    for (const FdbEvent& event : events) kinds.push_back(event.kind);
    if (!events.empty()) last_event_ = events.back();
    return kinds;
  }

  FakeClock clock_;
  std::unique_ptr<Fdb> fdb_;
  uint64_t next_event_ = 0;
  FdbEvent last_event_;
};

}  // namespace eoib

#endif  // EOIB_FDB_FDB_POLICY_TEST_FIXTURE_H_
