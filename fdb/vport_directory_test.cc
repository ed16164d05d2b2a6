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

#include "fdb/vport_directory_for_test.h"
#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib {
namespace {

constexpr auto kNotInUse = [](VPortId) { return false; };

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

// A directory of vPorts with one address, as maps.
struct Model {
  struct VPort {
    PeerAddress peer;
    AhIndex ah = AhIndex::None();
    bool announced = false;
  };
  std::map<VPortId, VPort> vports;
  std::map<PeerAddress, VPortId> owners;

  VPortId Owner(const PeerAddress& peer) const {
    const auto owner = owners.find(peer);
    return owner == owners.end() ? VPortId::None() : owner->second;
  }
  bool HasRoomFor(const PeerAddress& peer) const {
    const auto counts = [&peer](const auto& row) {
      return !row.second.announced && row.second.peer.gid == peer.gid;
    };
    return std::count_if(vports.begin(), vports.end(), counts) <
           static_cast<ptrdiff_t>(VPortDirectory::kDataOnlyPerPort);
  }
  void Forget(VPortId vport) {
    const PeerAddress peer = vports.at(vport).peer;
    if (Owner(peer) == vport) owners.erase(peer);
  }
  // False if `peer` belongs to another announced vPort.
  bool Announce(VPortId vport, const PeerAddress& peer) {
    const VPortId owner = Owner(peer);
    if (!owner.IsNone() && owner != vport && vports.at(owner).announced) return false;
    VPort& announcer = vports.at(vport);
    const AhIndex former = announcer.peer.gid == peer.gid ? announcer.ah : AhIndex::None();
    const AhIndex owners_ah = owner.IsNone() ? AhIndex::None() : vports.at(owner).ah;
    const bool keeps = announcer.peer == peer && !announcer.ah.IsNone();
    Forget(vport);
    announcer = {peer, keeps || owners_ah.IsNone() ? former : owners_ah, true};
    owners[peer] = vport;
    return true;
  }
};

TEST(VPortDirectoryTest, BehavesAsAMap) {
  VPortDirectory directory(20000);
  Model model;
  std::mt19937 random(static_cast<uint32_t>(SeedForTest()));
  const auto any_vport = [&] {
    return std::next(model.vports.begin(), random() % model.vports.size())->first;
  };
  int announced = 0, refused = 0;
  for (int step = 0; step < 20000; ++step) {
    const PeerAddress peer = Peer(random() % 40, random() % 5);
    const int action = model.vports.empty() ? 0 : random() % 10;
    if (action < 5) {
      const VPortId owner = model.Owner(peer);
      bool created = false;
      const VPortId vport = directory.Intern(peer, &created);
      ASSERT_EQ(created, owner.IsNone() && model.HasRoomFor(peer));
      if (created) {
        model.vports[vport].peer = peer;
        model.owners[peer] = vport;
      } else {
        ASSERT_EQ(vport, owner);
      }
    } else if (action < 8) {
      const VPortId vport = any_vport();
      const PeerAddress now =
          random() % 4 == 0 ? peer : PeerAddress{model.vports[vport].peer.gid, peer.qpn};
      const bool changes = model.Owner(now) != vport;
      const uint64_t generation = directory.generation();
      const bool accepted = model.Announce(vport, now);
      ASSERT_EQ(directory.Announce(vport, {{{.peer = now}}}, {}), accepted);
      ASSERT_EQ(directory.generation() != generation, accepted && changes);
      ++(accepted ? announced : refused);
    } else if (action < 9) {
      const VPortId vport = any_vport();
      model.vports[vport].ah = AhIndex(step);
      ASSERT_TRUE(directory.SetPath(vport, model.vports[vport].peer.gid, AhIndex(step)));
    } else if (model.vports.size() > 100) {
      const VPortId vport = any_vport();
      directory.Remove(vport);
      model.Forget(vport);
      model.vports.erase(vport);
    }
    if (step % 20 != 0) continue;
    for (uint64_t guid = 0; guid < 40; ++guid) {
      for (uint32_t qpn = 0; qpn < 5; ++qpn)
        ASSERT_EQ(directory.Find(Peer(guid, qpn)), model.Owner(Peer(guid, qpn)));
    }
    for (const auto& [vport, row] : model.vports) {
      ASSERT_EQ(directory.Get(vport).qpn, row.peer.qpn);
      ASSERT_EQ(directory.Get(vport).ah, row.ah);
    }
  }
  EXPECT_GT(announced, 1000);
  EXPECT_GT(refused, 100);
}

// QPN and handle share one word, so both are of one moment. Each QPN is at a port of its own: it
// has no handle at first, and then the one with its own number.
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
    directory.Announce(vport, {{{.peer = Peer(i, i)}}}, {});
    directory.SetPath(vport, Peer(i, i).gid, AhIndex(i));
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

// A worker may learn a removed vPort once more after its entries were flushed. These late MACs must
// not end up at another peer.
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

// ---- Announcements of one address ---------------------------------------------------------------

TEST(VPortDirectoryTest, RestartedAgentKeepsItsPath) {
  VPortDirectory directory;
  const VPortId vport = directory.Intern(Peer(1, 0x48));
  directory.SetPath(vport, Peer(1, 0).gid, AhIndex(3), Lid(7));
  ASSERT_TRUE(directory.Announce(vport, {{{.peer = Peer(1, 0x48)}}}, {}));
  ASSERT_TRUE(directory.Announce(vport, {{{.peer = Peer(1, 0x99)}}}, {}));
  EXPECT_EQ(directory.Get(vport).qpn, Qpn(0x99));
  EXPECT_EQ(directory.Get(vport).ah, AhIndex(3));
  EXPECT_EQ(directory.Addresses(vport)[0].lid, Lid(7));
  EXPECT_EQ(directory.Find(Peer(1, 0x99)), vport);
  EXPECT_TRUE(directory.Find(Peer(1, 0x48)).IsNone());
  ASSERT_TRUE(directory.Announce(vport, {{{.peer = Peer(2, 0x99)}}}, {}));
  EXPECT_TRUE(directory.Get(vport).ah.IsNone()) << "the path leads to another port";
  EXPECT_EQ(directory.Addresses(vport)[0].lid, Lid());
}

TEST(VPortDirectoryTest, ARouteSaysWhetherItsPeerTakesSegments) {
  constexpr uint8_t kAll = VPortCapabilities::kMaxSegments;
  VPortDirectory directory;
  const VPortId vport = directory.Intern(Peer(1, 0x48));
  EXPECT_FALSE(directory.Get(vport).takes_segments) << "it has announced nothing";
  const auto takes = [&](const VPortCapabilities& capabilities, size_t addresses) {
    std::vector<VPortAddress> announced;
    for (uint32_t i = 0; i < addresses; ++i) announced.push_back({.peer = Peer(1 + i, 0x48 + i)});
    EXPECT_TRUE(directory.Announce(vport, announced, capabilities));
    for (uint32_t i = 0; i < addresses; ++i)
      directory.SetPath(vport, announced[i].peer.gid, AhIndex(3));
    return directory.Get(vport, [] { return 5u; }).takes_segments;
  };
  EXPECT_FALSE(takes({}, 1));
  EXPECT_TRUE(takes({.segments = kAll}, 1));
  EXPECT_FALSE(takes({.segments = kAll - 1}, 1));
  EXPECT_FALSE(takes({.header_form = HeaderForm::kAlternative, .segments = kAll}, 1));
  EXPECT_TRUE(takes({.segments = kAll}, 3)) << "an aggregate";
  EXPECT_EQ(directory.Get(vport, [] { return 5u; }).ah, AhIndex(3)) << "beside the other fields";
}

TEST(VPortDirectoryTest, ARouteSaysWhetherItsPeerHasAnnouncedItself) {
  VPortDirectory directory;
  EXPECT_FALSE(directory.Get(VPortId::None()).announced);
  EXPECT_FALSE(directory.Get(directory.AddLocal(1)).announced);
  const VPortId vport = directory.Intern(Peer(1, 0x48));
  EXPECT_FALSE(directory.Get(vport).announced);
  ASSERT_TRUE(directory.Announce(vport, {{{.peer = Peer(1, 0x48)}}}, {}));
  EXPECT_TRUE(directory.Get(vport).announced);
  ASSERT_TRUE(directory.Announce(vport, {{{.peer = Peer(1, 0x48)}, {.peer = Peer(1, 0x49)}}}, {}));
  EXPECT_TRUE(directory.Get(vport).announced) << "an aggregate";
  directory.Remove(vport);
  EXPECT_FALSE(directory.Get(vport).announced);
}

// The first datagram of the new queue pair makes a vPort, before the announcement says whose it is.
// MACs may be learned there.
TEST(VPortDirectoryTest, DataOnlyVPortLeadsToItsAddressUntilReclaimed) {
  VPortDirectory directory;
  const VPortId restarted = directory.Intern(Peer(1, 1));
  directory.SetPath(restarted, Peer(1, 0).gid, AhIndex(5));
  ASSERT_TRUE(directory.Announce(restarted, {{{.peer = Peer(1, 1)}}}, {}));
  const VPortId newcomer = directory.Intern(Peer(1, 2));
  directory.SetPath(newcomer, Peer(1, 0).gid, AhIndex(6));
  ASSERT_TRUE(directory.Announce(restarted, {{{.peer = Peer(1, 2)}}}, {}));
  EXPECT_EQ(directory.Intern(Peer(1, 2)), restarted);
  const auto has_macs = [newcomer](VPortId vport) { return vport == newcomer; };
  directory.Reclaim(has_macs);
  EXPECT_EQ(directory.Reclaim(has_macs), 0u);
  EXPECT_EQ(directory.Peer(newcomer), Peer(1, 2));
  EXPECT_EQ(directory.Get(newcomer).qpn, Qpn(2));
  EXPECT_EQ(directory.Get(newcomer).ah, AhIndex(6));
  EXPECT_EQ(directory.Reclaim(kNotInUse), 1u) << "its MACs have moved";
  EXPECT_EQ(directory.Get(newcomer).kind, Route::Kind::kNone);
  EXPECT_EQ(directory.Find(Peer(1, 2)), restarted) << "the address is still the other's";
}

TEST(VPortDirectoryTest, GenerationChangesWhenAnAddressChangesOwner) {
  VPortDirectory directory;
  const VPortId restarted = directory.Intern(Peer(1, 1));
  const VPortId newcomer = directory.Intern(Peer(1, 2));
  directory.SetPath(restarted, Peer(1, 0).gid, AhIndex(5));
  ASSERT_TRUE(directory.Announce(restarted, {{{.peer = Peer(1, 1)}}}, {}));
  EXPECT_EQ(directory.generation(), 0u) << "no cached result became wrong";
  ASSERT_TRUE(directory.Announce(restarted, {{{.peer = Peer(1, 2)}}}, {}));
  EXPECT_EQ(directory.generation(), 1u);
  directory.Remove(newcomer);
  EXPECT_EQ(directory.generation(), 2u);
}

// A data-only vPort whose address was announced by another one, and then dropped, still leads there
// but no longer owns it.
TEST(VPortDirectoryTest, GenerationChangesWhenAVPortAnnouncesAnAddressThatItLost) {
  VPortDirectory directory;
  const VPortId first = directory.Intern(Peer(1, 1));
  const VPortId another = directory.Intern(Peer(2, 2));
  ASSERT_TRUE(directory.Announce(another, {{{.peer = Peer(1, 1)}}}, {}));
  ASSERT_TRUE(directory.Announce(another, {{{.peer = Peer(2, 2)}}}, {}));
  const VPortId second = directory.Intern(Peer(1, 1));
  ASSERT_NE(second, first);
  directory.SetPath(second, Peer(1, 1).gid, AhIndex(4));
  const uint64_t generation = directory.generation();
  ASSERT_TRUE(directory.Announce(first, {{{.peer = Peer(1, 1)}}}, {}));
  EXPECT_EQ(directory.Find(Peer(1, 1)), first);
  EXPECT_NE(directory.generation(), generation)
      << "workers must not go on taking it for the second one's";
  EXPECT_EQ(directory.Get(first).ah, AhIndex(4));
}

TEST(VPortDirectoryTest, AnnouncedAddressTakesTheKnownPath) {
  struct PathRow {
    const char* description;
    AhIndex of_data_only, of_port, expected;
  };
  const AhIndex none = AhIndex::None();
  const PathRow rows[] = {
      {"nothing is known", none, none, none},
      {"the data-only vPort has a path", AhIndex(2), none, AhIndex(2)},
      {"the former address had a path; the data-only vPort is not resolved yet", none, AhIndex(1),
       AhIndex(1)},
      {"the path to the address itself is preferred", AhIndex(2), AhIndex(1), AhIndex(2)},
  };
  for (const PathRow& row : rows) {
    SCOPED_TRACE(row.description);
    VPortDirectory directory;
    const VPortId vport = directory.Intern(Peer(1, 1));
    ASSERT_TRUE(directory.Announce(vport, {{{.peer = Peer(1, 1)}}}, {}));
    if (!row.of_port.IsNone())
      directory.SetPath(vport, Peer(1, 1).gid, row.of_port, Lid(row.of_port.value()));
    const VPortId data_only = directory.Intern(Peer(1, 2));
    if (!row.of_data_only.IsNone())
      directory.SetPath(data_only, Peer(1, 2).gid, row.of_data_only, Lid(row.of_data_only.value()));
    ASSERT_TRUE(directory.Announce(vport, {{{.peer = Peer(1, 2)}}}, {}));
    EXPECT_EQ(directory.Get(vport).ah, row.expected);
    EXPECT_EQ(directory.Addresses(vport)[0].lid,
              row.expected.IsNone() ? Lid() : Lid(row.expected.value()));
    EXPECT_EQ(directory.Get(data_only).ah, row.of_data_only);
  }
}

// ---- Traffic ------------------------------------------------------------------------------------

TEST(VPortDirectoryTest, TrafficIsTakenOnce) {
  VPortDirectory directory;
  const VPortId vport = directory.Intern(Peer(1, 1));
  const VPortId neighbor = directory.Intern(Peer(2, 1));
  const auto expect = [&directory](VPortId of, bool heard, bool sent) {
    const VPortDirectory::Traffic traffic = directory.TakeTraffic(of);
    EXPECT_EQ(traffic.heard, heard);
    EXPECT_EQ(traffic.sent, sent);
  };
  expect(vport, true, false);  // a datagram made it
  expect(vport, false, false);
  directory.NoteSent(vport);
  directory.NoteSent(vport);
  expect(vport, false, true);
  expect(vport, false, false);
  directory.NoteHeard(vport);
  directory.NoteSent(vport);
  expect(vport, true, true);
  expect(vport, false, false);
  expect(neighbor, true, false);
  directory.NoteSent(VPortId::None());
  expect(VPortId::None(), false, false);
}

TEST(VPortDirectoryTest, TrafficAndReclaimTakeTheirOwnNotes) {
  VPortDirectory directory;
  const VPortId vport = directory.Intern(Peer(1, 1));
  directory.Reclaim(kInUse);
  EXPECT_TRUE(directory.TakeTraffic(vport).heard) << "Reclaim has taken only its own";
  directory.NoteHeard(vport);
  EXPECT_TRUE(directory.TakeTraffic(vport).heard);
  EXPECT_EQ(directory.Reclaim(kNotInUse), 0u) << "TakeTraffic has taken only its own";
  directory.NoteHeard(vport);
  directory.Reclaim(kInUse);
  directory.NoteHeard(vport);
  EXPECT_EQ(directory.Reclaim(kNotInUse), 0u)
      << "noted again, though TakeTraffic has not taken the former note";
  directory.NoteSent(vport);
  EXPECT_EQ(directory.Reclaim(kNotInUse), 1u) << "it was sent to, and not heard";
}

TEST(VPortDirectoryTest, ReusedNumberHasNoTrafficOfItsFormerVPort) {
  VPortDirectory directory(1);
  const VPortId vport = directory.Intern(Peer(1, 1));
  directory.NoteSent(vport);
  directory.Remove(vport);
  directory.Reclaim(kNotInUse);
  ASSERT_EQ(directory.AddLocal(0), vport);
  EXPECT_FALSE(directory.TakeTraffic(vport).sent);
  EXPECT_FALSE(directory.TakeTraffic(vport).heard);
}

// ---- Quota and reclaim --------------------------------------------------------------------------

TEST(VPortDirectoryTest, ChangingQueuePairsDoesNotFillTheDirectory) {
  VPortDirectory directory;
  size_t given = 0;
  for (uint32_t qpn = 1; qpn <= 70000; ++qpn) given += !directory.Intern(Peer(666, qpn)).IsNone();
  EXPECT_EQ(given, VPortDirectory::kDataOnlyPerPort);
  EXPECT_FALSE(directory.Intern(Peer(666, 1)).IsNone()) << "those that it has are found";
  for (uint64_t guid = 1; guid <= 500; ++guid)
    ASSERT_FALSE(directory.Intern(Peer(guid, 1)).IsNone());
}

TEST(VPortDirectoryTest, QuotaCountsExistingDataOnlyVPorts) {
  VPortDirectory directory;
  std::vector<VPortId> vports;
  for (uint32_t qpn = 0; qpn < VPortDirectory::kDataOnlyPerPort; ++qpn)
    vports.push_back(directory.Intern(Peer(1, qpn)));
  EXPECT_TRUE(directory.Intern(Peer(1, 100)).IsNone());
  directory.Remove(vports[1]);
  EXPECT_FALSE(directory.Intern(Peer(1, 101)).IsNone());
  EXPECT_TRUE(directory.Intern(Peer(1, 102)).IsNone());
  EXPECT_TRUE(directory.Announce(vports[2], {{{.peer = Peer(1, 100)}}}, {}))
      << "a restarted agent needs no further vPort";
  EXPECT_TRUE(directory.Announce(vports[2], {{{.peer = Peer(1, 3)}}}, {}));
  EXPECT_FALSE(directory.Intern(Peer(1, 102)).IsNone());
  directory.Remove(vports[2]);
  EXPECT_TRUE(directory.Intern(Peer(1, 103)).IsNone())
      << "an announced vPort leaves no room, nor does one that lost its address";
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
  EXPECT_NE(directory.generation(), generation)
      << "workers must not go on taking it for the peer's";
  for (VPortId vport : {local, heard, used, announced})
    EXPECT_NE(directory.Get(vport).kind, Route::Kind::kNone);
  EXPECT_EQ(directory.Reclaim(kNotInUse), 2u)
      << "neither a heard vPort nor one in use is kept for ever";
  EXPECT_EQ(directory.Reclaim(kNotInUse), 0u);
  directory.NoteHeard(VPortId::None());
}

TEST(VPortDirectoryTest, VPortHeardDuringReclaimStays) {
  VPortDirectory directory;
  const VPortId vport = directory.Intern(Peer(1, 1));
  const std::vector<std::function<void()>> ways = {
      [&] { directory.NoteHeard(vport); },
      [&] { directory.Intern(directory.Peer(vport).value()); },
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
