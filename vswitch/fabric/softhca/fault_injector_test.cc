#include "vswitch/fabric/softhca/fault_injector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace eoib::softhca {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

SourceIdentity Source(uint64_t guid) {
  SourceIdentity source;
  source.gid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(guid));
  source.lid = Lid(static_cast<uint16_t>(guid));
  return source;
}

class FaultInjectorTest : public testing::Test {
 protected:
  void Take(const std::string& payload, uint64_t from = 1) {
    RecordHeader header;
    header.length = static_cast<uint32_t>(payload.size());
    // In memory that is freed afterwards, as a ring's may be.
    std::vector<uint8_t> bytes(payload.begin(), payload.end());
    faults_.Take(Source(from), header, bytes.data(), deliver_);
    std::fill(bytes.begin(), bytes.end(), 0xee);
  }
  void DeliverDue(size_t most = 1'000'000) {
    const size_t before = got_.size();
    faults_.DeliverDue([&] { return got_.size() - before >= most; }, deliver_);
  }
  std::vector<std::string> TakeGot() { return std::exchange(got_, {}); }

  FakeClock clock_;
  SoftPortCounters counters_;
  FaultInjector faults_{&clock_, &counters_};
  std::vector<std::string> got_;
  const std::function<void(const SourceIdentity&, const RecordHeader&, const uint8_t*)> deliver_ =
      [this](const SourceIdentity&, const RecordHeader& header, const uint8_t* payload) {
        got_.emplace_back(reinterpret_cast<const char*>(payload), header.length);
      };
};

TEST_F(FaultInjectorTest, WithoutRulesItIsNotActive) {
  EXPECT_FALSE(faults_.active());
  faults_.SetRules({FaultRule{.loss_ppm = 1}});
  EXPECT_TRUE(faults_.active());
  faults_.SetRules({FaultRule(), FaultRule{.source = Source(1).gid}});
  EXPECT_FALSE(faults_.active()) << "rules that ask for nothing";
}

TEST_F(FaultInjectorTest, LossIsAboutWhatWasAskedForAndTheSameForASeed) {
  std::vector<std::vector<std::string>> arrived;
  for (const uint64_t seed : {1, 1, 2}) {
    faults_.SetRules({FaultRule{.loss_ppm = 250'000, .seed = seed}});
    for (int i = 0; i < 4000; ++i) Take(std::to_string(i));
    arrived.push_back(TakeGot());
  }
  EXPECT_EQ(arrived[0], arrived[1]);
  EXPECT_NE(arrived[0], arrived[2]);
  EXPECT_NEAR(static_cast<double>(arrived[0].size()), 3000, 150);
  EXPECT_EQ(counters_.rcv_simulated_losses,
            12'000 - arrived[0].size() - arrived[1].size() - arrived[2].size());
}

TEST_F(FaultInjectorTest, OneFaultDoesNotChangeWhereAnotherStrikes) {
  std::vector<std::vector<std::string>> lost;
  for (const uint32_t reorder : {0, 500'000}) {
    faults_.SetRules(
        {FaultRule{.loss_ppm = 100'000, .duplicate_ppm = reorder, .reorder_ppm = reorder}});
    std::vector<std::string> arrived;
    for (int i = 0; i < 1000; ++i) {
      const uint64_t before = counters_.rcv_simulated_losses;
      Take(std::to_string(i));
      if (counters_.rcv_simulated_losses != before) arrived.push_back(std::to_string(i));
    }
    lost.push_back(arrived);
  }
  EXPECT_EQ(lost[0], lost[1]);
}

TEST_F(FaultInjectorTest, TheRuleOfASourceGoesBeforeThatForAny) {
  faults_.SetRules({FaultRule{.loss_ppm = 1'000'000},
                    FaultRule{.source = Source(2).gid, .duplicate_ppm = 1'000'000},
                    FaultRule{.source = Source(3).gid}});
  Take("1", 1);
  Take("2", 2);
  Take("3", 3);
  EXPECT_THAT(TakeGot(), ElementsAre("2", "2", "3"));
  EXPECT_EQ(counters_.rcv_simulated_duplicates, 1u);
}

TEST_F(FaultInjectorTest, ReorderingSwapsNeighbours) {
  faults_.SetRules({FaultRule{.reorder_ppm = 1'000'000}});
  for (const char* payload : {"1", "2", "3", "4"}) Take(payload);
  EXPECT_THAT(TakeGot(), ElementsAre("2", "1", "4", "3"));
  EXPECT_EQ(counters_.rcv_simulated_reorders, 2u);
  EXPECT_EQ(faults_.kept_bytes(), 0u);
}

TEST_F(FaultInjectorTest, AReorderedDatagramWithoutSuccessorIsDeliveredInTheEnd) {
  faults_.SetRules({FaultRule{.reorder_ppm = 1'000'000}});
  Take("1");
  Take("other", 2);
  DeliverDue();
  EXPECT_THAT(TakeGot(), IsEmpty());
  clock_.Advance(FaultRule::kReorderPatience);
  DeliverDue();
  EXPECT_THAT(TakeGot(), testing::UnorderedElementsAre("1", "other"));
  EXPECT_EQ(counters_.rcv_simulated_reorders, 0u);
  EXPECT_EQ(faults_.next_due(), absl::InfiniteFuture());
}

TEST_F(FaultInjectorTest, ADelayKeepsOrderAndIsToldWhenItEnds) {
  faults_.SetRules({FaultRule{.delay = absl::Milliseconds(10)}});
  const absl::Time begin = clock_.Now();
  Take("1");
  clock_.Advance(absl::Milliseconds(4));
  Take("2");
  EXPECT_EQ(faults_.next_due(), begin + absl::Milliseconds(10));
  clock_.Advance(absl::Milliseconds(6));
  DeliverDue();
  EXPECT_THAT(TakeGot(), ElementsAre("1"));
  EXPECT_EQ(faults_.next_due(), begin + absl::Milliseconds(14));
  // A rule that ends must not let later datagrams pass earlier ones.
  faults_.SetRules({});
  EXPECT_TRUE(faults_.active());
  Take("3");
  EXPECT_THAT(TakeGot(), IsEmpty());
  clock_.Advance(absl::Milliseconds(4));
  DeliverDue();
  EXPECT_THAT(TakeGot(), ElementsAre("2", "3"));
  EXPECT_FALSE(faults_.active());
  EXPECT_EQ(counters_.rcv_simulated_delays, 3u);
}

TEST_F(FaultInjectorTest, DueDatagramsAreDeliveredUntilDone) {
  faults_.SetRules({FaultRule{.delay = absl::Milliseconds(1)}});
  for (const char* payload : {"1", "2", "3"}) Take(payload);
  clock_.Advance(absl::Milliseconds(1));
  DeliverDue(2);
  EXPECT_THAT(TakeGot(), ElementsAre("1", "2"));
  EXPECT_LE(faults_.next_due(), clock_.Now()) << "there is more";
  Take("4");
  EXPECT_THAT(TakeGot(), IsEmpty()) << "not before 3";
  clock_.Advance(absl::Milliseconds(1));
  DeliverDue();
  EXPECT_THAT(TakeGot(), ElementsAre("3", "4"));
}

TEST_F(FaultInjectorTest, DelayedDatagramsAreBounded) {
  faults_.SetRules({FaultRule{.delay = absl::Seconds(1)}});
  const std::string payload(4096, 'x');
  for (int i = 0; i < 2000; ++i) Take(payload);
  EXPECT_LE(faults_.kept_bytes(), FaultInjector::kCapacity);
  EXPECT_EQ(counters_.rcv_simulated_delays, FaultInjector::kCapacity / RecordSize(4096));
  EXPECT_EQ(counters_.rcv_simulated_delays + counters_.rcv_simulated_overflows, 2000u);
  clock_.Advance(absl::Seconds(1));
  DeliverDue();
  EXPECT_EQ(got_.size(), counters_.rcv_simulated_delays);
  EXPECT_EQ(faults_.kept_bytes(), 0u);
}

// With any rules, changed at any time, the arrivals of each source match the counters, and they
// stay in order unless a rule reorders.
TEST_F(FaultInjectorTest, NothingIsInventedForgottenOrPutOutOfOrder) {
  std::mt19937 random(1);
  for (const bool reorder : {false, true}) {
    const SoftPortCounters before = counters_;
    std::vector<int> sent(4), last(4, -1), before_last(4, -1);
    uint64_t taken = 0, delivered = 0;
    const auto check = [&] {
      for (const std::string& got : TakeGot()) {
        const auto source = static_cast<size_t>(got[0] - '0');
        const int number = std::stoi(got.substr(2));
        EXPECT_LT(number, sent[source]);
        ++delivered;
        if (number > last[source]) {
          before_last[source] = std::exchange(last[source], number);
        } else if (number < last[source]) {
          EXPECT_TRUE(reorder);
          EXPECT_GT(number, before_last[source]) << "overtaken by one at most";
        }
      }
    };
    for (int turn = 0; turn < 20'000; ++turn) {
      if (turn % 500 == 0) {
        faults_.SetRules(
            {FaultRule{.loss_ppm = static_cast<uint32_t>(random() % 200'000),
                       .duplicate_ppm = static_cast<uint32_t>(random() % 200'000),
                       .reorder_ppm = static_cast<uint32_t>(reorder ? random() % 200'000 : 0),
                       .delay = absl::Microseconds(random() % 3 * 100),
                       .seed = random()}});
      }
      const size_t source = random() % 4;
      Take(std::to_string(source) + " " + std::to_string(sent[source]++), source);
      ++taken;
      clock_.Advance(absl::Microseconds(random() % 40));
      if (random() % 4 == 0) DeliverDue(random() % 5);
      check();
    }
    clock_.Advance(absl::Seconds(1));
    DeliverDue();
    check();
    EXPECT_EQ(delivered,
              taken - (counters_.rcv_simulated_losses - before.rcv_simulated_losses) +
                  (counters_.rcv_simulated_duplicates - before.rcv_simulated_duplicates));
    EXPECT_EQ(faults_.kept_bytes(), 0u);
  }
}

}  // namespace
}  // namespace eoib::softhca
