#include "fdb/vport_directory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib {
namespace {

constexpr auto kInUse = [](VPortId) { return true; };
constexpr auto kNotInUse = [](VPortId) { return false; };

PeerAddress Peer(uint64_t guid, uint32_t qpn) { return {Gid::FromPrefixAndGuid(0xfe80ull << 48, Guid(guid)), Qpn(qpn)}; }

TEST(VPortDirectoryTest, LocalPortsAndPeers) {
  VPortDirectory directory;
  const VPortId local = directory.AddLocal(7);
  bool created = false;
  const VPortId remote = directory.Intern(Peer(1, 0x48), &created);
  EXPECT_TRUE(created);
  EXPECT_EQ(directory.Intern(Peer(1, 0x48), &created), remote);
  EXPECT_FALSE(created);
  EXPECT_EQ(directory.Get(local).kind, Route::Kind::kLocal);
  EXPECT_EQ(directory.Get(local).local_port, 7u);
  EXPECT_EQ(directory.Get(remote).kind, Route::Kind::kRemote);
  EXPECT_EQ(directory.Get(remote).qpn, Qpn(0x48));
  EXPECT_TRUE(directory.Get(remote).ah.IsNone());
  EXPECT_TRUE(directory.SetPath(remote, Peer(1, 0).gid, AhIndex(9)));
  EXPECT_EQ(directory.Get(remote).ah, AhIndex(9));
  EXPECT_FALSE(directory.SetPath(local, Peer(1, 0).gid, AhIndex(9)));
  EXPECT_EQ(directory.Get(VPortId::None()).kind, Route::Kind::kNone);
  EXPECT_EQ(directory.Peer(remote), Peer(1, 0x48));
  EXPECT_FALSE(directory.Peer(local).has_value());
}

TEST(VPortDirectoryTest, ReaddressMovesThePeerAndKeepsItsPath) {
  VPortDirectory directory;
  const VPortId vport = directory.Intern(Peer(1, 0x48));
  directory.SetPath(vport, Peer(1, 0).gid, AhIndex(3));
  const uint64_t generation = directory.generation();
  EXPECT_TRUE(directory.Readdress(vport, Peer(1, 0x99)));
  EXPECT_NE(directory.generation(), generation);
  EXPECT_EQ(directory.Get(vport).qpn, Qpn(0x99));
  EXPECT_EQ(directory.Get(vport).ah, AhIndex(3));
  EXPECT_EQ(directory.Find(Peer(1, 0x99)), vport);
  EXPECT_TRUE(directory.Find(Peer(1, 0x48)).IsNone());
  EXPECT_FALSE(directory.Readdress(directory.AddLocal(0), Peer(1, 0x50)));
  EXPECT_FALSE(directory.Readdress(vport, Peer(2, 0x99))) << "another port's: its path would be wrong";
}

// A restarted agent may have two vPorts: a frame of an unknown MAC made one before a known MAC led to the other.
TEST(VPortDirectoryTest, LeadingToFindsAllVPortsOfAQueuePair) {
  VPortDirectory directory;
  const VPortId before = directory.Intern(Peer(1, 1));
  const VPortId newcomer = directory.Intern(Peer(1, 2));
  const VPortId another = directory.Intern(Peer(1, 3));
  EXPECT_EQ(directory.LeadingTo(Peer(1, 2)), std::vector<VPortId>({newcomer}));
  ASSERT_TRUE(directory.Readdress(before, Peer(1, 2)));
  EXPECT_EQ(directory.LeadingTo(Peer(1, 2)), std::vector<VPortId>({before, newcomer}));
  EXPECT_TRUE(directory.LeadingTo(Peer(1, 1)).empty());
  ASSERT_TRUE(directory.Announce(another, {{{.peer = Peer(1, 2)}, {.peer = Peer(2, 3)}}}, {}));
  EXPECT_EQ(directory.LeadingTo(Peer(1, 2)), std::vector<VPortId>({another, before, newcomer}));
  EXPECT_EQ(directory.LeadingTo(Peer(2, 3)), std::vector<VPortId>({another}));
  directory.Remove(before);
  EXPECT_EQ(directory.LeadingTo(Peer(1, 2)), std::vector<VPortId>({another, newcomer}));
}

TEST(VPortDirectoryTest, FullDirectoryRefuses) {
  VPortDirectory directory(3);
  directory.AddLocal(0);
  EXPECT_FALSE(directory.Intern(Peer(1, 1)).IsNone());
  EXPECT_FALSE(directory.Intern(Peer(2, 1)).IsNone());
  EXPECT_TRUE(directory.Intern(Peer(3, 1)).IsNone());
  EXPECT_FALSE(directory.Intern(Peer(1, 1)).IsNone()) << "those it has are found";
}

TEST(VPortDirectoryTest, RemovedVPortHasNoRouteAndKeepsItsNumber) {
  VPortDirectory directory;
  const VPortId vport = directory.Intern(Peer(1, 1));
  directory.Remove(vport);
  EXPECT_EQ(directory.Get(vport).kind, Route::Kind::kNone);
  EXPECT_NE(directory.Intern(Peer(1, 1)), vport);
}

TEST(VPortDirectoryTest, BehavesAsAMap) {
  VPortDirectory directory(5000);
  std::map<VPortId, PeerAddress> peers;
  std::map<PeerAddress, VPortId> by_peer;
  const uint64_t seed = SeedForTest();
  SCOPED_TRACE(seed);
  std::mt19937 random(static_cast<uint32_t>(seed));
  for (int step = 0; step < 20000; ++step) {
    const PeerAddress peer = Peer(random() % 40, random() % 5);
    if (random() % 3 != 0 || peers.empty()) {
      const bool known = by_peer.count(peer) != 0;
      bool created = false;
      const VPortId vport = directory.Intern(peer, &created);
      ASSERT_EQ(created, !known);
      if (known) {
        ASSERT_EQ(vport, by_peer[peer]);
      }
      peers[vport] = peer;
      by_peer[peer] = vport;
    } else {
      const VPortId vport = std::next(peers.begin(), random() % peers.size())->first;
      const auto former = by_peer.find(peers[vport]);
      if (former != by_peer.end() && former->second == vport) by_peer.erase(former);
      const PeerAddress moved = {peers[vport].gid, peer.qpn};
      ASSERT_TRUE(directory.Readdress(vport, moved));
      peers[vport] = moved;
      by_peer[moved] = vport;
    }
    if (step % 20 == 0) {
      for (const auto& [address, vport] : by_peer) ASSERT_EQ(directory.Find(address), vport);
    }
    const auto some = std::next(peers.begin(), random() % peers.size());
    ASSERT_EQ(directory.Get(some->first).qpn, some->second.qpn);
  }
}

// QPN and handle share one word, so both are of one moment. Each QPN has no handle at first, and then the one with its own
// number.
TEST(VPortDirectoryTest, WorkersReadWhileControlWrites) {
  VPortDirectory directory;
  const VPortId vport = directory.Intern(Peer(1, 1));
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> read{0};
  std::thread worker([&] {
    while (!stop.load()) {
      const Route route = directory.Get(vport);
      EXPECT_TRUE(route.ah.IsNone() || route.ah.value() == route.qpn.value())
          << "QPN " << route.qpn.value() << ", handle " << route.ah.value();
      read.fetch_add(1, std::memory_order_relaxed);
    }
  });
  for (uint32_t i = 2; i < 100'000 || (read.load() < 1000 && i < 10'000'000); ++i) {
    directory.Announce(vport, {{{.peer = Peer(1, i)}}}, {});
    directory.SetPath(vport, Peer(1, 0).gid, AhIndex(i));
    if (i % 64 == 0 && i < 100'000) directory.Intern(Peer(1000 + i, 1));
  }
  stop = true;
  worker.join();
}

TEST(VPortDirectoryTest, ManyVPortsAndTheirRows) {
  VPortDirectory directory(3000);
  const VPortId local = directory.AddLocal(0xffffff);
  std::vector<VPortId> remotes;
  for (uint32_t i = 0; i < 2999; ++i) remotes.push_back(directory.Intern(Peer(i, 0xffffff - i)));
  directory.Remove(remotes[7]);
  for (uint32_t i = 0; i < remotes.size(); ++i) {
    ASSERT_EQ(directory.Get(remotes[i]).kind, i == 7 ? Route::Kind::kNone : Route::Kind::kRemote);
    ASSERT_EQ(directory.Get(remotes[i]).qpn, i == 7 ? Qpn() : Qpn(0xffffff - i));
  }
  EXPECT_EQ(directory.Get(local).local_port, 0xffffffu);
  const std::vector<VPortDirectory::Row> rows = directory.Dump();
  ASSERT_EQ(rows.size(), 2999u);
  EXPECT_EQ(rows[0].route.kind, Route::Kind::kLocal);
  EXPECT_EQ(rows[1].addresses[0].peer, Peer(0, 0xffffff));
  EXPECT_EQ(rows[1].vport, remotes[0]);
}

TEST(VPortDirectoryTest, FullDirectoryReusesOldestRemovedNumber) {
  VPortDirectory directory(3);
  const VPortId first = directory.Intern(Peer(1, 1));
  directory.Remove(first);
  directory.Reclaim(kInUse);
  const VPortId second = directory.Intern(Peer(2, 1));
  const VPortId third = directory.Intern(Peer(3, 1));
  EXPECT_NE(second, first);
  EXPECT_NE(third, first);
  directory.Remove(second);
  directory.Remove(second);
  directory.Reclaim([third](VPortId vport) { return vport == third; });
  EXPECT_EQ(directory.Intern(Peer(4, 1)), first);
  EXPECT_EQ(directory.Intern(Peer(5, 1)), second);
  EXPECT_TRUE(directory.Intern(Peer(6, 1)).IsNone()) << "removed twice is removed once";
  EXPECT_EQ(directory.Peer(first), Peer(4, 1));
}

// A worker may learn a removed vPort once more after its entries were flushed. These late MACs must not end up at another peer.
TEST(VPortDirectoryTest, NumberIsNotReusedWhileTheFdbHasIt) {
  VPortDirectory directory(1);
  const VPortId vport = directory.Intern(Peer(1, 1));
  directory.Remove(vport);
  EXPECT_TRUE(directory.Intern(Peer(2, 1)).IsNone()) << "Reclaim has not run yet";
  directory.Reclaim(kInUse);
  EXPECT_TRUE(directory.Intern(Peer(2, 1)).IsNone());
  directory.Reclaim(kNotInUse);
  EXPECT_EQ(directory.Intern(Peer(2, 1)), vport);
}

TEST(VPortDirectoryTest, GenerationChangesWhenAnAddressChangesOwner) {
  VPortDirectory directory;
  const VPortId restarted = directory.Intern(Peer(1, 1));
  const VPortId newcomer = directory.Intern(Peer(1, 2));
  directory.SetPath(restarted, Peer(1, 0).gid, AhIndex(5));
  EXPECT_EQ(directory.generation(), 0u) << "nothing that a worker remembers became wrong";
  EXPECT_TRUE(directory.Readdress(restarted, Peer(1, 2)));
  EXPECT_EQ(directory.generation(), 1u);
  EXPECT_EQ(directory.Find(Peer(1, 2)), restarted);
  EXPECT_EQ(directory.Peer(newcomer), Peer(1, 2)) << "its MACs are reached all the same";
  EXPECT_EQ(directory.Get(newcomer).qpn, Qpn(2));
  directory.Remove(newcomer);
  EXPECT_EQ(directory.generation(), 2u);
  EXPECT_EQ(directory.Find(Peer(1, 2)), restarted) << "the address is still the other's";
}

// ---- Quota and reclaim ------------------------------------------------------------------------------------------------

TEST(VPortDirectoryTest, ChangingQueuePairsDoesNotFillTheDirectory) {
  VPortDirectory directory;
  size_t given = 0;
  for (uint32_t qpn = 1; qpn <= 70000; ++qpn) given += !directory.Intern(Peer(666, qpn)).IsNone();
  EXPECT_EQ(given, VPortDirectory::kDataOnlyPerPort);
  EXPECT_FALSE(directory.Intern(Peer(666, 1)).IsNone()) << "those that it has are found";
  for (uint64_t guid = 1; guid <= 500; ++guid) ASSERT_FALSE(directory.Intern(Peer(guid, 1)).IsNone());
}

TEST(VPortDirectoryTest, QuotaCountsExistingDataOnlyVPorts) {
  VPortDirectory directory;
  std::vector<VPortId> vports;
  for (uint32_t qpn = 0; qpn < VPortDirectory::kDataOnlyPerPort; ++qpn) vports.push_back(directory.Intern(Peer(1, qpn)));
  EXPECT_TRUE(directory.Intern(Peer(1, 100)).IsNone());
  EXPECT_TRUE(directory.Readdress(vports[0], Peer(1, 100))) << "a restarted peer keeps its vPort";
  EXPECT_TRUE(directory.Intern(Peer(1, 101)).IsNone());
  directory.Remove(vports[1]);
  EXPECT_FALSE(directory.Intern(Peer(1, 101)).IsNone());
  EXPECT_TRUE(directory.Intern(Peer(1, 102)).IsNone());
  EXPECT_TRUE(directory.Announce(vports[2], {{{.peer = Peer(1, 2)}}}, {}));
  EXPECT_FALSE(directory.Intern(Peer(1, 102)).IsNone());
  directory.Remove(vports[2]);
  EXPECT_TRUE(directory.Intern(Peer(1, 103)).IsNone()) << "an announced one leaves no room";
}

TEST(VPortDirectoryTest, ReclaimRemovesSilentUnusedVPorts) {
  VPortDirectory directory;
  const VPortId local = directory.AddLocal(0);
  const VPortId silent = directory.Intern(Peer(1, 1));
  const VPortId heard = directory.Intern(Peer(2, 1));
  const VPortId used = directory.Intern(Peer(3, 1));
  const VPortId announced = directory.Intern(Peer(4, 1));
  ASSERT_TRUE(directory.Announce(announced, {{{.peer = Peer(4, 1)}}}, {}));
  const auto in_use = [used](VPortId vport) { return vport == used; };
  EXPECT_EQ(directory.Reclaim(in_use), 0u) << "all of them have only just come";
  const uint64_t generation = directory.generation();
  directory.NoteHeard(heard);
  EXPECT_EQ(directory.Reclaim(in_use), 1u);
  EXPECT_EQ(directory.Get(silent).kind, Route::Kind::kNone);
  EXPECT_TRUE(directory.Find(Peer(1, 1)).IsNone());
  EXPECT_NE(directory.generation(), generation) << "workers must not go on taking it for the peer's";
  for (VPortId vport : {local, heard, used, announced}) EXPECT_NE(directory.Get(vport).kind, Route::Kind::kNone);
  EXPECT_EQ(directory.Reclaim(kNotInUse), 2u) << "neither a heard vPort nor one in use is kept for ever";
  EXPECT_EQ(directory.Reclaim(kNotInUse), 0u);
  directory.NoteHeard(VPortId::None());
}

TEST(VPortDirectoryTest, VPortHeardDuringReclaimStays) {
  VPortDirectory directory;
  const VPortId vport = directory.Intern(Peer(1, 1));
  const std::vector<std::function<void()>> ways = {
      [&] { directory.NoteHeard(vport); },
      [&] { directory.Intern(directory.Peer(vport).value()); },
      [&] { directory.Readdress(vport, Peer(1, 2)); },
      [&] { directory.Announce(vport, {{{.peer = Peer(1, 2)}}}, {}); },
  };
  for (const auto& way : ways) {
    directory.Reclaim(kInUse);  // so that the vPort counts as unheard
    EXPECT_EQ(directory.Reclaim([&way](VPortId) {
      way();
      return false;
    }),
              0u);
    EXPECT_EQ(directory.Get(vport).kind, Route::Kind::kRemote);
  }
}

TEST(VPortDirectoryTest, ReclaimCoversALargeDirectory) {
  VPortDirectory directory;
  for (uint64_t guid = 0; guid < 5000; ++guid) directory.Intern(Peer(guid, 1));
  directory.Reclaim(kNotInUse);
  EXPECT_EQ(directory.Reclaim([](VPortId vport) { return vport.value() % 2 == 0; }), 2500u);
  EXPECT_EQ(directory.Dump().size(), 2500u);
}

}  // namespace
}  // namespace eoib
