#include "control/protocol/state_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kLargest = 1900;

FdbKey NumberedKey(uint64_t number) {
  return FdbKey(Vid(static_cast<uint16_t>(number % 5)),
                MacAddr::FromUint64(0x0200'0000'0000 + number));
}

AgentView MakeView(uint16_t vports, uint64_t macs) {
  VPortMessage state;
  state.version = 7;
  state.host = "h1";
  state.capabilities = AgentCapabilities();
  state.addresses = {{{Gid::FromPrefixAndGuid(1, Guid(2)), Qpn(3)}, true}};
  for (uint16_t i = 0; i < vports; ++i)
    state.vports.push_back({i, absl::StrCat("port", i), {{Vid(1), Vid(9)}}});
  for (uint64_t i = 0; i < macs; ++i)
    state.macs.push_back({NumberedKey(i), static_cast<uint16_t>(i % 7), 1, i % 2 == 0});
  AgentView view;
  view.Apply(state);
  return view;
}

// All parts of a range.
std::vector<VPortMessage> Cut(const AgentView& view, StateRange range) {
  std::vector<VPortMessage> parts;
  for (;;) {
    VPortMessage header;
    header.version = view.version;
    parts.push_back(CutPart(view, range, header, kLargest));
    const StateRange& covered = parts.back().ranges.front();
    if (covered.last == range.last) return parts;
    range.first = covered.last + 1;
  }
}

TEST(StatePartsTest, PartsMakeTheStateInAnyOrder) {
  std::mt19937_64 random(SeedForTest());
  for (const auto& [vports, macs] : std::vector<std::pair<uint16_t, uint64_t>>{
           {0, 0}, {1, 1}, {300, 0}, {0, 1000}, {300, 5000}}) {
    SCOPED_TRACE(absl::StrCat(vports, " vPorts, ", macs, " MACs"));
    const AgentView view = MakeView(vports, macs);
    std::vector<VPortMessage> parts = Cut(view, StateRange::Whole());
    for (const VPortMessage& part : parts) {
      EXPECT_LE(EncodedSize(part), kLargest);
      const auto decoded = DecodeVPortMessage(EncodeVPortMessage([&] {
        VPortMessage sent = part;
        sent.agent = AgentId(AgentId::Bytes{1});
        sent.kind = VPortMessage::Kind::kReply;
        return sent;
      }()));
      EXPECT_TRUE(decoded.ok()) << decoded.status();
    }
    EXPECT_LE(parts.size(), 1 + (vports * 40 + macs * 16) / (kLargest - 200));
    std::shuffle(parts.begin(), parts.end(), random);
    StateAssembly assembly;
    for (const VPortMessage& part : parts) {
      EXPECT_FALSE(assembly.IsComplete());
      EXPECT_TRUE(assembly.Take(part));
      EXPECT_FALSE(assembly.Take(part)) << "again";
    }
    ASSERT_TRUE(assembly.IsComplete());
    EXPECT_TRUE(assembly.Release() == view);
    EXPECT_TRUE(assembly.empty());
  }
}

TEST(StatePartsTest, MissingRangesBringTheRest) {
  const AgentView view = MakeView(100, 3000);
  const std::vector<VPortMessage> parts = Cut(view, StateRange::Whole());
  StateAssembly assembly;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i % 3 != 1) assembly.Take(parts[i]);
  }
  const std::vector<StateRange> missing = assembly.Missing(100);
  ASSERT_EQ(missing.size(), parts.size() / 3);
  EXPECT_EQ(missing.front(), parts[1].ranges.front());
  for (const StateRange& range : missing) {
    for (const VPortMessage& part : Cut(view, range)) EXPECT_TRUE(assembly.Take(part));
  }
  ASSERT_TRUE(assembly.IsComplete());
  EXPECT_TRUE(assembly.Release() == view);
}

// The state changes while it is cut. With the changes since the earliest part, applied again, it is
// the present one.
TEST(StatePartsTest, ChangesSinceTheEarliestPartMakeTheStateThePresentOne) {
  std::mt19937_64 random(SeedForTest());
  AgentView view = MakeView(5, 2000);
  std::vector<VPortMessage> changes;
  const auto change = [&] {
    VPortMessage message;
    message.base = view.version;
    message.version = view.version + 1;
    if (random() % 10 == 0) message.gone_vports = {static_cast<uint16_t>(random() % 7)};
    for (int i = 0; i < 20; ++i) message.gone_macs.push_back(NumberedKey(random() % 3000));
    changes.push_back(message);
    view.Apply(message);
    while (view.IsRemoving()) view.RemoveSome(nullptr);
    message = VPortMessage();
    message.base = view.version;
    message.version = view.version + 1;
    for (int i = 0; i < 20; ++i)
      message.macs.push_back(
          {NumberedKey(random() % 3000), static_cast<uint16_t>(random() % 7), 2});
    changes.push_back(message);
    view.Apply(message);
  };
  StateAssembly assembly;
  StateRange rest = StateRange::Whole();
  while (!assembly.IsComplete()) {
    VPortMessage header;
    header.version = view.version;
    const VPortMessage part = CutPart(view, rest, header, kLargest);
    EXPECT_TRUE(assembly.Take(part));
    rest.first = part.ranges.front().last + 1;
    change();
  }
  AgentView copy = assembly.Release();
  EXPECT_EQ(copy.version, 7u);
  for (const VPortMessage& message : changes) {
    copy.Apply(message);
    while (copy.IsRemoving()) copy.RemoveSome(nullptr);
  }
  EXPECT_TRUE(copy == view);
}

TEST(StatePartsTest, RefusesImproperParts) {
  const AgentView view = MakeView(2, 10);
  VPortMessage part = Cut(view, StateRange::Whole()).front();
  ASSERT_EQ(part.ranges, std::vector{StateRange::Whole()});
  const auto is_taken = [&](auto spoil) {
    VPortMessage spoilt = part;
    spoil(&spoilt);
    return StateAssembly().Take(spoilt);
  };
  EXPECT_TRUE(is_taken([](VPortMessage*) {}));
  EXPECT_FALSE(is_taken([](VPortMessage* m) { m->ranges.front().first = 1; }))
      << "the host is outside";
  EXPECT_FALSE(is_taken([](VPortMessage* m) {
    m->ranges.front().last = StateRange::Of(uint16_t{1});
  })) << "MACs are outside";
  EXPECT_FALSE(is_taken([](VPortMessage* m) { m->ranges.push_back({0, 1}); }));
  EXPECT_FALSE(is_taken([](VPortMessage* m) { m->gone_macs = {NumberedKey(1)}; }));
  EXPECT_FALSE(is_taken([](VPortMessage* m) { m->gone_vports = {1}; }));
}

// Parts of one position each, with gaps between them.
TEST(StatePartsTest, GapsAreBounded) {
  StateAssembly assembly;
  VPortMessage part;
  size_t taken = 0;
  for (uint64_t i = 0; i < 2 * StateAssembly::kMaxGaps; ++i) {
    part.ranges = {{2 * i, 2 * i}};
    taken += assembly.Take(part) ? 1 : 0;
  }
  EXPECT_EQ(taken, StateAssembly::kMaxGaps);
  EXPECT_THAT(assembly.Missing(2), ElementsAre(StateRange{1, 1}, StateRange{3, 3}));
  part.ranges = {{1, StateRange::kLast}};
  EXPECT_TRUE(assembly.Take(part));
  EXPECT_THAT(assembly.Missing(2), IsEmpty());
}

}  // namespace
}  // namespace eoib
