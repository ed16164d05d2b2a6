#include "vswitch/fabric/softhca/subnet/multicast_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/softhca/subnet/fake_ports_for_test.h"

namespace eoib::softhca {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint8_t kAllStates = kFullMember | kNonMember | kSendOnlyNonMember;
constexpr uint8_t kReceives = kFullMember | kNonMember;

class MulticastGroupsTest : public ::testing::Test {
 protected:
  static McMemberRecord Record(const PortConfig& port, uint8_t states) {
    McMemberRecord record;
    record.mgid = MakeMgid(1);
    record.port_gid = port.gid;
    record.pkey = PKey(0xffff);
    record.join_state = states;
    return record;
  }
  SaStatus Join(const PortConfig& port, uint8_t states, uint64_t mask = kCreate) {
    record_ = Record(port, states);
    return groups_.Join(port, mask, &record_);
  }
  SaStatus Leave(const PortConfig& port, uint8_t states) {
    record_ = Record(port, states);
    return groups_.Leave(port, kIdentify, &record_);
  }
  // Returns 0 if the port is no member.
  uint8_t StateOf(const PortConfig& port) const {
    if (groups_.groups().empty()) return 0;
    const auto& members = groups_.groups().begin()->second.members;
    const auto found = members.find(port.gid);
    return found == members.end() ? 0 : found->second;
  }
  bool Receives(const PortConfig& port) const {
    if (groups_.groups().empty()) return false;
    const std::vector<Gid> receivers = groups_.groups().begin()->second.Receivers();
    return std::find(receivers.begin(), receivers.end(), port.gid) != receivers.end();
  }

  const PortConfig h1_ = MakeManagedPort(2, {PKey(0xffff)}).config;
  const PortConfig h2_ = MakeManagedPort(3, {PKey(0xffff)}).config;
  MulticastGroups groups_{Mlid(0xc003)};
  McMemberRecord record_;
};

// IBA 1.4 §15.2.5.17: every membership, with the effect of every Set and Delete. Another port keeps
// the group alive.
TEST_F(MulticastGroupsTest, AllTransitions) {
  for (uint8_t before = 0; before <= kAllStates; ++before) {
    for (uint8_t asked = 0; asked <= 0x0f; ++asked) {
      for (const bool join : {true, false}) {
        SCOPED_TRACE(absl::StrCat("member ", before, join ? ", joins " : ", leaves ", asked));
        groups_.Clear();
        ASSERT_EQ(Join(h1_, kFullMember), SaStatus::kOk);
        if (before != 0) {
          ASSERT_EQ(Join(h2_, before), SaStatus::kOk);
        }
        groups_.TakeChanged();
        groups_.TakeEvents();
        const bool valid = join ? asked != 0 && (asked & ~kAllStates) == 0 : (asked & before) != 0;
        const uint8_t after = !valid ? before : join ? before | asked : before & ~asked;
        EXPECT_EQ(join ? Join(h2_, asked) : Leave(h2_, asked),
                  valid ? SaStatus::kOk : SaStatus::kRequestInvalid);
        EXPECT_EQ(StateOf(h2_), after);
        EXPECT_EQ(Receives(h2_), (after & kReceives) != 0);
        const bool received = (before & kReceives) != 0, receives = (after & kReceives) != 0;
        EXPECT_EQ(groups_.TakeChanged().empty(), received == receives);
        EXPECT_THAT(groups_.TakeEvents(), IsEmpty());
        if (valid) {
          EXPECT_EQ(record_.join_state, join ? after : before & asked);
        }
      }
    }
  }
}

TEST_F(MulticastGroupsTest, OnlyAFullMemberMakesAGroup) {
  for (uint8_t states = 1; states <= kAllStates; ++states) {
    groups_.Clear();
    const bool full = (states & kFullMember) != 0;
    EXPECT_EQ(Join(h1_, states), full ? SaStatus::kOk : SaStatus::kRequestInvalid) << int{states};
    EXPECT_EQ(groups_.groups().size(), full ? 1u : 0u) << int{states};
    const std::vector<MulticastGroups::Event> events = groups_.TakeEvents();
    if (full) {
      EXPECT_THAT(events, ElementsAre(MulticastGroups::Event{SmTrap::kGroupCreated, MakeMgid(1),
                                                             PKey(0xffff)}));
    } else {
      EXPECT_THAT(events, IsEmpty());
    }
  }
}

// For any remaining members, and however the last full member leaves.
TEST_F(MulticastGroupsTest, OnlyAFullMemberKeepsAGroupAlive) {
  for (uint8_t states = 1; states <= kAllStates; ++states) {
    for (const bool leaves : {true, false}) {
      SCOPED_TRACE(absl::StrCat("left behind ", states,
                                leaves ? ", by a leave" : ", by a link that goes down"));
      groups_.Clear();
      ASSERT_EQ(Join(h1_, kFullMember), SaStatus::kOk);
      ASSERT_EQ(Join(h2_, states), SaStatus::kOk);
      groups_.TakeEvents();
      leaves ? void(Leave(h1_, kFullMember)) : groups_.RemovePort(h1_.gid);
      const bool lives = (states & kFullMember) != 0;
      EXPECT_EQ(groups_.groups().size(), lives ? 1u : 0u);
      EXPECT_EQ(groups_.FindByMlid(Mlid(0xc001)) != nullptr, lives);
      const std::vector<MulticastGroups::Event> events = groups_.TakeEvents();
      if (lives) {
        EXPECT_THAT(events, IsEmpty());
      } else {
        EXPECT_THAT(events, ElementsAre(MulticastGroups::Event{SmTrap::kGroupDeleted, MakeMgid(1),
                                                               PKey(0xffff)}));
      }
    }
  }
}

TEST_F(MulticastGroupsTest, AFullMemberThatStaysAsANonMemberEndsTheGroup) {
  ASSERT_EQ(Join(h1_, kFullMember | kNonMember), SaStatus::kOk);
  ASSERT_EQ(Leave(h1_, kFullMember), SaStatus::kOk);
  EXPECT_THAT(groups_.groups(), IsEmpty());
}

TEST_F(MulticastGroupsTest, ForgettingTellsWhatChangedAndReportsNothing) {
  ASSERT_EQ(Join(h1_, kFullMember), SaStatus::kOk);
  groups_.TakeChanged();
  groups_.TakeEvents();
  groups_.Clear();
  EXPECT_THAT(groups_.TakeChanged(), ElementsAre(Mlid(0xc001)));
  EXPECT_THAT(groups_.TakeEvents(), IsEmpty());
  ASSERT_EQ(Join(h2_, kFullMember), SaStatus::kOk);
  EXPECT_EQ(record_.mlid, Mlid(0xc001)) << "its MLID is free";
}

}  // namespace
}  // namespace eoib::softhca
