// vPorts with several addresses: which address a flow takes, and where flows go when an address is
// lost.
#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fdb/vport_directory.h"
#include "fdb/vport_directory_for_test.h"
#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib {
namespace {

constexpr uint32_t kFlows = FlowSpread::kShares;

VPortAddress At(uint64_t guid, uint32_t qpn) { return {.peer = Peer(guid, qpn)}; }
AhIndex HandleOf(uint64_t guid) { return AhIndex(static_cast<uint32_t>(1000 + guid)); }

// The QPN that takes each flow; zero: none.
std::array<uint32_t, kFlows> Takers(const VPortDirectory& directory, VPortId vport) {
  std::array<uint32_t, kFlows> takers;
  for (uint32_t flow = 0; flow < kFlows; ++flow) {
    const Route route = directory.Get(vport, [flow] { return flow; });
    EXPECT_EQ(route.kind, Route::Kind::kRemote);
    takers[flow] = route.ah.IsNone() ? 0 : route.qpn.value();
  }
  return takers;
}

// Makes a vPort at ports 1 to `ports`, with QPNs 1 to `ports`, all of them up.
VPortId MakeAggregate(VPortDirectory* directory, uint32_t ports) {
  const VPortId vport = directory->Intern(Peer(1, 1));
  std::vector<VPortAddress> addresses;
  for (uint32_t i = 1; i <= ports; ++i) addresses.push_back(At(i, i));
  EXPECT_TRUE(directory->Announce(vport, addresses, {}));
  for (uint32_t i = 1; i <= ports; ++i)
    EXPECT_TRUE(directory->SetPath(vport, addresses[i - 1].peer.gid, HandleOf(i)));
  return vport;
}

TEST(VPortAggregateTest, FlowsSpreadEvenlyOverAddresses) {
  for (uint32_t ports = 2; ports <= VPortDirectory::kMaxAddresses; ++ports) {
    VPortDirectory directory;
    const VPortId vport = MakeAggregate(&directory, ports);
    EXPECT_EQ(directory.Get(vport).kind, Route::Kind::kAggregate);
    std::map<uint32_t, uint32_t> flows;
    for (uint32_t qpn : Takers(directory, vport)) ++flows[qpn];
    ASSERT_EQ(flows.size(), ports);
    for (const auto& [qpn, count] : flows) EXPECT_NEAR(count, kFlows / ports, 1) << qpn;
    for (uint32_t flow = 0; flow < kFlows; ++flow) {
      const Route route = directory.Get(vport, [flow] { return flow; });
      EXPECT_EQ(route.ah, HandleOf(route.qpn.value())) << "handle and QPN are of one address";
    }
  }
}

TEST(VPortAggregateTest, SingleAddressNeedsNoHash) {
  VPortDirectory directory;
  const VPortId vport = MakeAggregate(&directory, 1);
  const auto never = []() -> uint32_t {
    ADD_FAILURE() << "the usual vPort does not pay for aggregates";
    return 0;
  };
  EXPECT_EQ(directory.Get(vport, never).ah, HandleOf(1));
  EXPECT_EQ(directory.Get(directory.AddLocal(3), never).local_port, 3u);
  EXPECT_EQ(directory.Get(VPortId::None(), never).kind, Route::Kind::kNone);
}

TEST(VPortAggregateTest, LostAddressMovesOnlyItsFlowsAndGetsThemBack) {
  VPortDirectory directory;
  const VPortId vport = MakeAggregate(&directory, 4);
  const auto before = Takers(directory, vport);
  const uint64_t generation = directory.generation();
  EXPECT_TRUE(directory.SetLost(vport, Peer(2, 2), true));
  const auto without = Takers(directory, vport);
  std::set<uint32_t> heirs;
  for (uint32_t flow = 0; flow < kFlows; ++flow) {
    if (before[flow] == 2) heirs.insert(without[flow]);
    if (before[flow] != 2) {
      EXPECT_EQ(without[flow], before[flow]);
    }
  }
  EXPECT_EQ(heirs, (std::set<uint32_t>{1, 3, 4}));
  EXPECT_TRUE(directory.SetLost(vport, Peer(2, 2), false));
  EXPECT_EQ(Takers(directory, vport), before);
  EXPECT_EQ(directory.generation(), generation) << "it is the same peer's all the time";
  EXPECT_FALSE(directory.SetLost(vport, Peer(2, 3), true));
}

TEST(VPortAggregateTest, NoUsableAddressIsUnresolved) {
  VPortDirectory directory;
  const VPortId vport = MakeAggregate(&directory, 2);
  directory.SetLost(vport, Peer(1, 1), true);
  directory.SetPath(vport, Peer(2, 2).gid, AhIndex::None());
  for (uint32_t qpn : Takers(directory, vport)) EXPECT_EQ(qpn, 0u);
  directory.SetPath(vport, Peer(2, 2).gid, HandleOf(2));
  for (uint32_t qpn : Takers(directory, vport)) EXPECT_EQ(qpn, 2u);
}

// The directory stores a path for a lost address, and uses it when the address is back.
TEST(VPortAggregateTest, NewPathDoesNotRestoreLostAddress) {
  VPortDirectory directory;
  const VPortId vport = MakeAggregate(&directory, 2);
  directory.SetLost(vport, Peer(1, 1), true);
  directory.SetPath(vport, Peer(1, 1).gid, AhIndex(77), Lid(7));
  for (uint32_t qpn : Takers(directory, vport)) EXPECT_EQ(qpn, 2u);
  directory.SetLost(vport, Peer(1, 1), false);
  EXPECT_EQ(directory.Addresses(vport)[0].lid, Lid(7));
  size_t by_the_new_path = 0;
  for (uint32_t flow = 0; flow < kFlows; ++flow)
    by_the_new_path += directory.Get(vport, [flow] { return flow; }).ah == AhIndex(77);
  EXPECT_EQ(by_the_new_path, kFlows / 2);
}

// An address that is heard is up, even if its former queue pair was reported lost.
TEST(VPortAggregateTest, HeardAddressIsNoLongerLost) {
  VPortDirectory directory;
  const VPortId vport = MakeAggregate(&directory, 2);
  const auto before = Takers(directory, vport);
  directory.SetLost(vport, Peer(2, 2), true);
  ASSERT_TRUE(directory.Announce(vport, {{At(1, 1), At(2, 99)}}, {}));
  auto expected = before;
  std::replace(expected.begin(), expected.end(), 2u, 99u);
  EXPECT_EQ(Takers(directory, vport), expected);
  directory.SetLost(vport, Peer(2, 99), true);
  ASSERT_TRUE(directory.Announce(vport, {{At(1, 1), At(2, 99)}}, {}));
  EXPECT_EQ(Takers(directory, vport), expected);
}

TEST(VPortAggregateTest, LostSingleAddressIsNotUsed) {
  VPortDirectory directory;
  const VPortId vport = MakeAggregate(&directory, 1);
  directory.SetLost(vport, Peer(1, 1), true);
  EXPECT_TRUE(directory.Get(vport).ah.IsNone());
  directory.SetLost(vport, Peer(1, 1), false);
  EXPECT_EQ(directory.Get(vport).ah, HandleOf(1));
}

TEST(VPortAggregateTest, AllAddressesInternToTheVPort) {
  VPortDirectory directory;
  // Heard before the announcement that names its owner.
  const VPortId before = directory.Intern(Peer(2, 2));
  directory.SetPath(before, Peer(2, 2).gid, HandleOf(2));
  const uint64_t generation = directory.generation();
  const VPortId vport = MakeAggregate(&directory, 3);
  EXPECT_NE(directory.generation(), generation);
  bool created = true;
  for (uint32_t i = 1; i <= 3; ++i) EXPECT_EQ(directory.Intern(Peer(i, i), &created), vport);
  EXPECT_FALSE(created);
  EXPECT_EQ(directory.Get(before).ah, HandleOf(2))
      << "MACs that were known there are reached all the same";
  directory.Remove(before);
  EXPECT_EQ(directory.Find(Peer(2, 2)), vport);
  EXPECT_EQ(directory.Peer(vport), Peer(1, 1));
  EXPECT_EQ(directory.Addresses(vport).at(2).peer, Peer(3, 3));
  directory.Remove(vport);
  for (uint32_t i = 1; i <= 3; ++i) EXPECT_TRUE(directory.Find(Peer(i, i)).IsNone());
}

TEST(VPortAggregateTest, RefusesInvalidAnnouncements) {
  VPortDirectory directory;
  const VPortId vport = MakeAggregate(&directory, 2);
  const VPortId another = directory.Intern(Peer(9, 9));
  const std::vector<VPortAddress> at_nine = {At(9, 9), At(10, 10)};
  ASSERT_TRUE(directory.Announce(another, at_nine, {}));
  std::vector<VPortAddress> many;
  for (uint32_t i = 1; i <= VPortDirectory::kMaxAddresses + 1; ++i) many.push_back(At(i, i));
  EXPECT_FALSE(directory.Announce(vport, {}, {}));
  EXPECT_FALSE(directory.Announce(vport, many, {}));
  EXPECT_FALSE(directory.Announce(vport, {{At(1, 1), At(1, 1)}}, {})) << "twice the same";
  EXPECT_FALSE(directory.Announce(vport, {{At(1, 1), At(10, 10)}}, {}))
      << "another's, who said so before";
  EXPECT_FALSE(directory.Announce(directory.AddLocal(0), {{At(20, 1)}}, {}));
  EXPECT_FALSE(directory.Announce(VPortId::None(), {{At(20, 1)}}, {}));
  EXPECT_FALSE(directory.Announce(directory.Intern(Peer(9, 8)), {{At(9, 9)}}, {}))
      << "nor as an agent that restarted there";
  EXPECT_EQ(directory.Find(Peer(9, 9)), another);
  EXPECT_EQ(directory.Find(Peer(10, 10)), another);
  EXPECT_EQ(directory.Addresses(vport).size(), 2u);
}

TEST(VPortAggregateTest, SecondAnnouncementKeepsPathsOfSameAddresses) {
  VPortDirectory directory;
  const VPortId vport = MakeAggregate(&directory, 3);
  const auto before = Takers(directory, vport);
  const uint64_t generation = directory.generation();
  ASSERT_TRUE(directory.Announce(vport, {{At(3, 3), At(1, 1), At(2, 2)}}, {}));
  EXPECT_EQ(directory.generation(), generation) << "it said the same again";
  EXPECT_EQ(Takers(directory, vport), before);
  ASSERT_TRUE(directory.Announce(vport, {{At(1, 1), At(4, 4)}}, {}));
  EXPECT_NE(directory.generation(), generation);
  for (uint32_t qpn : Takers(directory, vport)) EXPECT_EQ(qpn, 1u) << "the new one has no path yet";
  EXPECT_TRUE(directory.Find(Peer(2, 2)).IsNone());
  ASSERT_TRUE(directory.Announce(vport, {{At(1, 1)}}, {}));
  EXPECT_EQ(directory.Get(vport).kind, Route::Kind::kRemote) << "one address is one word";
  EXPECT_EQ(directory.Get(vport).ah, HandleOf(1));
  ASSERT_TRUE(directory.Announce(vport, {{At(1, 1), At(2, 2), At(3, 3)}}, {}));
  directory.SetPath(vport, Peer(2, 2).gid, HandleOf(2));
  directory.SetPath(vport, Peer(3, 3).gid, HandleOf(3));
  EXPECT_EQ(Takers(directory, vport), before) << "an aggregate again, and the same";
}

// When the agent at one of the ports restarts, its flows follow it and no others move.
TEST(VPortAggregateTest, NewQueuePairKeepsTheFlowsOfItsAddress) {
  VPortDirectory directory;
  const VPortId vport = MakeAggregate(&directory, 3);
  auto expected = Takers(directory, vport);
  const VPortId newcomer = directory.Intern(Peer(2, 99));  // not resolved yet
  ASSERT_TRUE(directory.Announce(vport, {{At(1, 1), At(2, 99), At(3, 3)}}, {}));
  std::replace(expected.begin(), expected.end(), 2u, 99u);
  EXPECT_EQ(Takers(directory, vport), expected);
  EXPECT_EQ(directory.Find(Peer(2, 99)), vport);
  EXPECT_TRUE(directory.Find(Peer(2, 2)).IsNone());
  EXPECT_EQ(directory.Get(newcomer).qpn, Qpn(99))
      << "MACs that were learned there are reached all the same";
  ASSERT_TRUE(directory.Announce(vport, {{At(3, 3), At(2, 100), At(1, 1)}}, {}))
      << "once more, in another order";
  std::replace(expected.begin(), expected.end(), 99u, 100u);
  EXPECT_EQ(Takers(directory, vport), expected);
  ASSERT_TRUE(directory.Announce(vport, {{At(1, 11), At(2, 12), At(3, 13)}}, {}))
      << "at all ports at once";
  for (uint32_t& qpn : expected) qpn = qpn == 100 ? 12 : qpn + 10;
  EXPECT_EQ(Takers(directory, vport), expected);
}

TEST(VPortAggregateTest, SingleAddressThatRestartedKeepsItsFlowsWhenAnotherIsAdded) {
  VPortDirectory directory;
  const VPortId vport = MakeAggregate(&directory, 1);
  ASSERT_TRUE(directory.Announce(vport, {{At(1, 99)}}, {}));
  ASSERT_TRUE(directory.Announce(vport, {{At(1, 99), At(2, 2)}}, {}));
  directory.SetPath(vport, Peer(2, 2).gid, HandleOf(2));
  VPortDirectory not_restarted;
  auto expected = Takers(not_restarted, MakeAggregate(&not_restarted, 2));
  std::replace(expected.begin(), expected.end(), 1u, 99u);
  EXPECT_EQ(Takers(directory, vport), expected);
}

TEST(VPortAggregateTest, TwoQueuePairsOfOnePort) {
  VPortDirectory directory;
  const VPortId vport = directory.Intern(Peer(1, 1));
  ASSERT_TRUE(directory.Announce(vport, {{At(1, 1), At(1, 2)}}, {}));
  ASSERT_TRUE(directory.SetPath(vport, Peer(1, 0).gid, AhIndex(5)));
  const auto takers = Takers(directory, vport);
  EXPECT_EQ(std::count(takers.begin(), takers.end(), 1u), kFlows / 2);
  EXPECT_EQ(std::count(takers.begin(), takers.end(), 2u), kFlows / 2);
}

// With several addresses at a port before or after, none of them is the successor of another. So
// flows are spread as if there had been no former addresses, and all addresses at the port take its
// path.
TEST(VPortAggregateTest, SeveralQueuePairsOfOnePortDoNotTakeOverFlows) {
  struct SeveralRow {
    const char* description;
    std::vector<VPortAddress> before, after;
  };
  const SeveralRow rows[] = {
      {"one of two is replaced", {At(1, 1), At(1, 2), At(2, 3)}, {At(1, 1), At(1, 9), At(2, 3)}},
      {"both are replaced", {At(1, 1), At(1, 2), At(2, 3)}, {At(1, 8), At(1, 9), At(2, 3)}},
      {"two become one", {At(1, 1), At(1, 2), At(2, 3)}, {At(1, 9), At(2, 3)}},
      {"one becomes two", {At(1, 1), At(2, 3)}, {At(1, 8), At(1, 9), At(2, 3)}},
      {"one is added", {At(1, 1), At(2, 3)}, {At(1, 1), At(1, 9), At(2, 3)}},
  };
  for (const SeveralRow& row : rows) {
    SCOPED_TRACE(row.description);
    VPortDirectory directory, fresh;
    const VPortId vport = directory.Intern(Peer(1, 1));
    ASSERT_TRUE(directory.Announce(vport, row.before, {}));
    directory.SetPath(vport, Peer(1, 0).gid, HandleOf(1), Lid(1));
    directory.SetPath(vport, Peer(2, 0).gid, HandleOf(2), Lid(2));
    ASSERT_TRUE(directory.Announce(vport, row.after, {}));
    for (const VPortAddress& address : directory.Addresses(vport)) {
      const uint64_t guid = address.peer.gid.guid().value();
      EXPECT_EQ(address.ah, HandleOf(guid));
      EXPECT_EQ(address.lid, Lid(static_cast<uint16_t>(guid)));
    }
    const VPortId announced_first = fresh.Intern(row.after[0].peer);
    ASSERT_TRUE(fresh.Announce(announced_first, row.after, {}));
    for (uint64_t guid : {1, 2}) fresh.SetPath(announced_first, Peer(guid, 0).gid, HandleOf(guid));
    const auto takers = Takers(directory, vport);
    EXPECT_EQ(takers, Takers(fresh, announced_first));
    std::vector<VPortAddress> reversed(row.after.rbegin(), row.after.rend());
    ASSERT_TRUE(directory.Announce(vport, reversed, {}));
    EXPECT_EQ(Takers(directory, vport), takers) << "the order of the addresses does not matter";
  }
}

// Each new address looks for its path itself: in a data-only vPort, at its port, or nowhere.
TEST(VPortAggregateTest, AddedAddressesTakeKnownPaths) {
  VPortDirectory directory;
  const VPortId vport = MakeAggregate(&directory, 1);
  const VPortId data_only = directory.Intern(Peer(2, 2));
  directory.SetPath(data_only, Peer(2, 2).gid, HandleOf(2), Lid(2));
  const VPortId unresolved = directory.Intern(Peer(1, 3));
  ASSERT_TRUE(directory.Announce(vport, {{At(1, 1), At(2, 2), At(1, 3), At(4, 4)}}, {}));
  const std::vector<VPortAddress> addresses = directory.Addresses(vport);
  ASSERT_EQ(addresses.size(), 4u);
  EXPECT_EQ(addresses[0].ah, HandleOf(1));
  EXPECT_EQ(addresses[1].ah, HandleOf(2));
  EXPECT_EQ(addresses[1].lid, Lid(2));
  EXPECT_EQ(addresses[2].ah, HandleOf(1));
  EXPECT_TRUE(addresses[3].ah.IsNone());
  EXPECT_EQ(directory.Get(data_only).ah, HandleOf(2));
  EXPECT_TRUE(directory.Get(unresolved).ah.IsNone()) << "its path is its own";
}

TEST(VPortAggregateTest, RowsHaveAddressesCapabilitiesAndStates) {
  VPortDirectory directory;
  directory.AddLocal(5);
  const VPortId plain = directory.Intern(Peer(7, 7));
  const VPortId vport = directory.Intern(Peer(1, 1));
  const VPortCapabilities capabilities = {
      .header_form = HeaderForm::kAlternative, .segments = 32, .mtu = 9018};
  ASSERT_TRUE(
      directory.Announce(vport, {{At(1, 1), {.peer = Peer(2, 2), .hca_port = 2}}}, capabilities));
  const auto row = [&directory](size_t i) { return directory.Dump().at(i); };
  EXPECT_EQ(row(0).state, VPortState::kUp);
  EXPECT_TRUE(row(0).addresses.empty());
  EXPECT_EQ(row(1).vport, plain);
  EXPECT_EQ(row(1).capabilities, VPortCapabilities()) << "data-only";
  EXPECT_EQ(row(1).state, VPortState::kUnresolved);
  EXPECT_TRUE(row(2).capabilities.announced);
  EXPECT_EQ(row(2).capabilities.segments, 32);
  EXPECT_EQ(row(2).capabilities.mtu, 9018u);
  EXPECT_EQ(row(2).capabilities.header_form, HeaderForm::kAlternative);
  EXPECT_EQ(row(2).state, VPortState::kUnresolved);
  directory.SetPath(vport, Peer(2, 2).gid, HandleOf(2), Lid(0x22));
  EXPECT_EQ(row(2).state, VPortState::kUp);
  EXPECT_EQ(row(2).addresses[0].state(), VPortState::kUnresolved);
  EXPECT_EQ(row(2).addresses[1].lid, Lid(0x22));
  EXPECT_EQ(directory.Get(vport, [] { return 0u; }).hca_port, 2);
  directory.SetLost(vport, Peer(2, 2), true);
  EXPECT_EQ(row(2).addresses[1].state(), VPortState::kLost);
  EXPECT_EQ(row(2).state, VPortState::kUnresolved);
  directory.SetLost(vport, Peer(1, 1), true);
  EXPECT_EQ(row(2).state, VPortState::kLost);
}

// Random events of an aggregate, against a model that knows which address had each flow last.
TEST(VPortAggregateTest, BehavesAsItsModel) {
  std::mt19937_64 random(SeedForTest());
  for (int round = 0; round < 40; ++round) {
    VPortDirectory directory;
    const uint32_t ports = 2 + random() % (VPortDirectory::kMaxAddresses - 1);
    const VPortId vport = MakeAggregate(&directory, ports);
    // By the set of addresses that are up.
    std::map<uint32_t, std::array<uint32_t, kFlows>> takers_of;
    uint32_t up = (1u << ports) - 1;
    takers_of[up] = Takers(directory, vport);
    for (int step = 0; step < 60; ++step) {
      const uint32_t i = random() % ports;
      const uint32_t former = up;
      up ^= 1u << i;
      const bool is_up = (up >> i & 1) != 0;
      directory.SetLost(vport, Peer(i + 1, i + 1), !is_up);
      const auto before = takers_of.at(former);
      const auto now = Takers(directory, vport);
      for (uint32_t flow = 0; flow < kFlows; ++flow) {
        if (up == 0) {
          ASSERT_EQ(now[flow], 0u);
        } else if (before[flow] != 0) {
          ASSERT_TRUE((up >> (now[flow] - 1) & 1) != 0);
          const bool moved = now[flow] != before[flow];
          ASSERT_TRUE(!moved || before[flow] == i + 1 || now[flow] == i + 1)
              << "somebody else's flow moved";
        }
      }
      const auto [known, is_new] = takers_of.emplace(up, now);
      ASSERT_EQ(known->second, now)
          << "where flows go depends on who is up, not on what was before";
    }
  }
}

// Readers look at each vPort at the moment at which it becomes an aggregate. All its flows must go
// to the address that it had: the other has no path yet.
TEST(VPortAggregateTest, ReadersSeeOnlyCompleteBlocks) {
  constexpr uint64_t kVPorts = 4000;
  VPortDirectory directory;
  std::atomic<uint32_t> current{VPortId::None().value()};
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    for (uint32_t flow = 0; !stop.load(); ++flow) {
      const VPortId vport(current.load());
      if (vport.IsNone()) continue;
      const Route route = directory.Get(vport, [flow] { return flow; });
      ASSERT_EQ(route.kind, Route::Kind::kRemote);
      ASSERT_EQ(route.ah, HandleOf(1));
    }
  });
  for (uint64_t guid = 0; guid < kVPorts; ++guid) {
    const VPortId vport = directory.Intern(Peer(guid, 1));
    directory.SetPath(vport, Peer(guid, 1).gid, HandleOf(1));
    current = vport.value();
    directory.Announce(vport, {{At(guid, 1), At(kVPorts + guid, 1)}}, {});
  }
  stop = true;
  reader.join();
}

// Readers take routes while addresses are lost, return, restart and are announced. A QPN identifies
// its vPort, so no vPort may show a QPN of another one. Numbers of removed vPorts are reused, with
// their blocks. The handle identifies the port.
TEST(VPortAggregateTest, ReadersSeeOnlyRoutesThatTheVPortHad) {
  constexpr uint32_t kVPorts = 3;
  VPortDirectory directory(kVPorts);
  std::array<uint32_t, kVPorts> restarts{};
  const auto handle_of = [](uint32_t vport, uint32_t port) { return 0x100 * (vport + 1) + port; };
  const auto address_of = [&](uint32_t vport, uint32_t port) {
    return At(10 * vport + port, handle_of(vport, port) + 0x10 * (restarts[vport] % 16));
  };
  std::vector<VPortId> vports;
  for (uint32_t v = 0; v < kVPorts; ++v) vports.push_back(directory.Intern(address_of(v, 1).peer));
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> aggregated{0};
  std::thread reader([&] {
    for (uint32_t flow = 0; !stop.load(); ++flow) {
      const uint32_t v = flow % kVPorts;
      bool hashed = false;
      const Route route = directory.Get(vports[v], [&] {
        hashed = true;
        return flow / kVPorts;
      });
      if (hashed) aggregated.fetch_add(1);
      if (route.kind == Route::Kind::kNone && v == 0) continue;  // removed at this moment
      ASSERT_EQ(route.kind, Route::Kind::kRemote);
      if (route.qpn == Qpn(0)) continue;  // no address is up
      ASSERT_EQ(route.qpn.value() >> 8, v + 1) << "another vPort's address";
      if (!route.ah.IsNone()) {
        ASSERT_EQ(route.ah.value(), route.qpn.value() & ~0xf0u)
            << "handle and QPN of two addresses";
      }
    }
  });
  std::mt19937 random(static_cast<uint32_t>(SeedForTest()));
  for (int step = 0; step < 30000 || (aggregated.load() == 0 && step < 10'000'000); ++step) {
    const uint32_t v = random() % kVPorts;
    const uint32_t port = 1 + random() % 4;
    const PeerAddress peer = address_of(v, port).peer;
    switch (random() % 8) {
      case 0: {
        restarts[v] += random() % 2;
        std::vector<VPortAddress> addresses;
        for (uint32_t i = 1; i <= port; ++i) addresses.push_back(address_of(v, i));
        directory.Announce(vports[v], addresses, {});
        break;
      }
      case 1:
      case 2:
        directory.SetPath(vports[v], peer.gid, AhIndex(handle_of(v, port)));
        break;
      case 3:
        directory.SetPath(vports[v], peer.gid, AhIndex::None());
        break;
      case 7:
        // Removed and added again. It gets the same number, because no other is free.
        if (v == 0) {
          directory.Remove(vports[v]);
          directory.Reclaim(kInUse);
          directory.Reclaim([&](VPortId vport) { return vport != vports[v]; });
          ASSERT_EQ(directory.Intern(address_of(v, 1).peer), vports[v]);
        }
        break;
      default:
        directory.SetLost(vports[v], peer, random() % 2 == 0);
    }
  }
  stop = true;
  reader.join();
  EXPECT_GT(aggregated.load(), 0u) << "else nothing was tried";
}

}  // namespace
}  // namespace eoib
