#include "control/subnet/path_resolver.h"

#include <poll.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "control/subnet/fake_sa_for_test.h"
#include "gtest/gtest.h"
#include "vswitch/fabric/fake_verbs.h"

namespace eoib {
namespace {

Gid GidOf(uint64_t number) { return Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(number)); }
Lid LidOf(uint64_t number) { return Lid(static_cast<uint16_t>(0x100 + number)); }

class PathResolverTest : public testing::Test {
 protected:
  PathResolverTest() { Make(&client_); }
  ~PathResolverTest() override {
    resolver_.reset();
    handles_.Reap();
    EXPECT_EQ(handles_.size(), 0u) << "every handle was put back";
  }

  void Make(SaClient* sa) {
    resolver_ =
        std::make_unique<PathResolver>(PathResolver::Source{.sa = sa}, &handles_, &directory_,
                                       &clock_, GidOf(1), PKey(0x8001), [this] { ++published_; });
  }
  // Punts as the data path does for the first frame of a peer with that QPN at that port.
  VPortId Hear(uint64_t port, uint32_t qpn = 0x48, Lid slid = Lid()) {
    Punt punt;
    punt.peer = {GidOf(port), Qpn(qpn)};
    punt.vport = directory_.Intern(punt.peer);
    punt.slid = slid.IsValid() ? slid : LidOf(port);
    resolver_->OnPunt(punt);
    return punt.vport;
  }
  void Pump() {
    while (!sa_.idle()) client_.Run();
  }
  void Advance(absl::Duration by) {
    clock_.Advance(by);
    client_.Run();
    resolver_->Run();
    Pump();
  }
  // The LID to which frames for `vport` are sent; 0 if there is no path.
  uint16_t LidFor(VPortId vport) {
    ibv_ah* ah = handles_.Acquire(directory_.Get(vport).ah);
    if (ah == nullptr) return 0;
    handles_.Release(directory_.Get(vport).ah);
    return static_cast<FakeAh*>(ah)->attr.dlid;
  }
  size_t Queries() const {
    return sa_.Asked(MadMethod::kGet, SaAttribute::kPathRecord) - Verifications();
  }
  // Queries that ask whether a port has a certain LID.
  size_t Verifications() const {
    return static_cast<size_t>(
        std::count_if(sa_.asked.begin(), sa_.asked.end(), [](const SaHeader& header) {
          return header.attribute == SaAttribute::kPathRecord &&
                 (header.component_mask & path::kDlid) != 0;
        }));
  }
  // Whether messages of that port would count if they came from LID `slid`. Runs the query that
  // this may cause.
  bool Trusts(uint64_t port, Lid slid) {
    const bool trusted = resolver_->IsTrusted(GidOf(port), slid, Sl());
    Pump();
    return trusted;
  }
  size_t TableQueries() const { return sa_.Asked(MadMethod::kGetTable, SaAttribute::kPathRecord); }

  FakeClock clock_;
  FakeSa sa_;
  SaClient client_{&sa_, &clock_, {}};
  FakeHca hca_;
  AddressHandles handles_{&hca_, hca_.pd()};
  VPortDirectory directory_;
  int published_ = 0;
  std::unique_ptr<PathResolver> resolver_;
};

TEST_F(PathResolverTest, UsesACompletionAtOnceAndThePathRecordLater) {
  sa_.ports[GidOf(2)] = Lid(0x222);
  const VPortId peer = Hear(2);
  EXPECT_EQ(LidFor(peer), LidOf(2).value());
  Pump();
  EXPECT_EQ(LidFor(peer), 0x222);
  EXPECT_EQ(published_, 2);
}

TEST_F(PathResolverTest, QueriesAPortOnceForAllItsQueuePairs) {
  sa_.ports[GidOf(2)] = Lid(0x222);
  const VPortId one = Hear(2, 0x48);
  for (uint32_t qpn = 0x49; qpn < 0x60; ++qpn) Hear(2, qpn);
  EXPECT_EQ(Queries(), 1u) << "while the answer is under way";
  Pump();
  EXPECT_EQ(LidFor(one), 0x222);
  EXPECT_EQ(LidFor(directory_.Find({GidOf(2), Qpn(0x5f)})), 0x222);
  EXPECT_LE(Queries(), 2u) << "and once more for what came meanwhile";
  EXPECT_EQ(handles_.size(), 1u);
}

TEST_F(PathResolverTest, ReclaimsIdlePaths) {
  sa_.ports[GidOf(2)] = Lid(0x222);
  sa_.ports[GidOf(3)] = Lid(0x333);
  Hear(2);
  const VPortId stays = Hear(3);
  Hear(4);  // the SA does not know this port
  Pump();
  const auto reclaim = [&] {
    directory_.Reclaim([stays](VPortId vport) { return vport == stays; });
    resolver_->Reclaim();
    handles_.Reap();
  };
  reclaim();
  reclaim();
  EXPECT_EQ(handles_.size(), 3u) << "they may be asked for again";
  Advance(PathResolver::kIdleTime + absl::Seconds(1));
  reclaim();
  EXPECT_EQ(handles_.size(), 1u);
  EXPECT_EQ(LidFor(stays), 0x333);
  const size_t queries = Queries();
  Advance(absl::Minutes(1));
  EXPECT_EQ(Queries(), queries) << "no vPort needs the path any more";
  EXPECT_EQ(LidFor(Hear(2)), LidOf(2).value()) << "as at first";
  Pump();
}

TEST_F(PathResolverTest, LimitsThePathsOfOneVes) {
  for (uint64_t port = 1; port <= PathResolver::kMaxPaths + 10; ++port) Hear(port);
  EXPECT_EQ(handles_.size(), PathResolver::kMaxPaths);
  EXPECT_NE(LidFor(Hear(1, 0x49)), 0) << "those that there are";
  EXPECT_EQ(LidFor(Hear(PathResolver::kMaxPaths + 1, 0x49)), 0);
}

// A peer with two addresses. One was heard; control knows the other.
TEST_F(PathResolverTest, EachAddressOfAnAggregateHasItsOwnPath) {
  sa_.ports[GidOf(2)] = Lid(0x222);
  sa_.ports[GidOf(3)] = Lid(0x333);
  const VPortId peer = Hear(2);
  Pump();
  const VPortAddress addresses[] = {{.peer = {GidOf(2), Qpn(0x48)}},
                                    {.peer = {GidOf(3), Qpn(0x49)}}};
  ASSERT_TRUE(directory_.Announce(peer, addresses, {}));
  Punt punt;
  punt.kind = Punt::Kind::kUnresolved;
  punt.vport = peer;
  Advance(absl::Seconds(2));
  resolver_->OnPunt(punt);
  Pump();
  const auto lids = [&] {
    std::vector<Lid> lids;
    for (const VPortAddress& address : directory_.Addresses(peer)) {
      EXPECT_EQ(address.state(), VPortState::kUp);
      lids.push_back(address.lid);
    }
    return lids;
  };
  EXPECT_EQ(lids(), (std::vector<Lid>{Lid(0x222), Lid(0x333)}));
  EXPECT_EQ(handles_.size(), 2u);

  sa_.ports[GidOf(3)] = Lid(0x334);
  resolver_->RefreshAll();
  Pump();
  EXPECT_EQ(lids(), (std::vector<Lid>{Lid(0x222), Lid(0x334)}));

  // One address is heard from another LID; the other's path stays.
  Advance(absl::Seconds(2));
  const size_t queries = Queries();
  sa_.ports[GidOf(3)] = Lid(0x335);
  punt = {Punt::Kind::kReaddressed,
          peer,
          VPortId::None(),
          {GidOf(3), Qpn(0x49)},
          Lid(0x335),
          Sl(0),
          {}};
  resolver_->OnPunt(punt);
  Pump();
  EXPECT_EQ(lids(), (std::vector<Lid>{Lid(0x222), Lid(0x335)}));
  EXPECT_EQ(Queries(), queries + 1) << "for that one address";
}

// The SA returns an invalid record: the path from the completion stays, and the query is repeated.
TEST_F(PathResolverTest, IgnoresAnInvalidRecord) {
  struct Row {
    const char* description;
    std::function<void(PathRecord*)> edit;
  };
  const Row rows[] = {
      {"no LID", [](PathRecord* record) { record->dlid = Lid(0); }},
      {"a multicast LID", [](PathRecord* record) { record->dlid = Lid(0xc001); }},
      {"a rate that is reserved", [](PathRecord* record) { record->rate = 1; }},
      {"a rate beyond all", [](PathRecord* record) { record->rate = 63; }},
      {"another port's", [](PathRecord* record) { record->dgid = GidOf(99); }},
  };
  uint64_t port = 1;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.description);
    sa_.ports[GidOf(++port)] = Lid(0x222);
    sa_.spoil = [&row](Mad* mad) {
      PathRecord record = *DecodePathRecord(SaRecord(*mad));
      row.edit(&record);
      EncodePathRecord(record, SaRecord(mad));
    };
    const VPortId peer = Hear(port);
    for (int i = 0; i < 20; ++i) Advance(absl::Milliseconds(500));
    EXPECT_EQ(LidFor(peer), LidOf(port).value());
    sa_.spoil = [](Mad*) {};
    for (int i = 0; i < 20; ++i) Advance(absl::Milliseconds(500));
    EXPECT_EQ(LidFor(peer), 0x222) << "it was asked for again";
  }
}

// A peer that changes its queue pair with each frame must not load the SA through us.
TEST_F(PathResolverTest, QueriesAPortAtMostOnceASecond) {
  sa_.ports[GidOf(2)] = Lid(0x222);
  for (int millisecond = 0; millisecond < 3000; ++millisecond) {
    Hear(2, 0x48 + millisecond % 2);
    Advance(absl::Milliseconds(1));
  }
  EXPECT_LE(Queries(), 4u);
  sa_.ports[GidOf(2)] = Lid(0x333);
  const VPortId peer = Hear(2, 0x48);
  Advance(absl::Seconds(1));
  EXPECT_EQ(LidFor(peer), 0x333) << "and once more for what came meanwhile";
  EXPECT_LE(Queries(), 5u);
}

// While the query is pending, the deadline must not make the loop spin.
TEST_F(PathResolverTest, SecondQueryWaitsForThePendingAnswer) {
  sa_.silent = true;
  const VPortId peer = Hear(2, 0x48);
  Hear(2, 0x49);
  Advance(absl::Seconds(1));
  EXPECT_EQ(resolver_->NextDeadline(), absl::InfiniteFuture());
  sa_.silent = false;
  sa_.ports[GidOf(2)] = Lid(0x222);
  Advance(absl::Minutes(1));
  EXPECT_EQ(LidFor(peer), 0x222);
}

// The record has more attributes (rate, traffic class) than a completion.
TEST_F(PathResolverTest, CompletionWithTheSameLidKeepsTheRecord) {
  sa_.ports[GidOf(2)] = LidOf(2);
  const VPortId one = Hear(2, 0x48);
  Pump();
  const AhIndex ah = directory_.Get(one).ah;
  const VPortId two = Hear(2, 0x49);
  EXPECT_EQ(directory_.Get(two).ah, ah);
  EXPECT_EQ(directory_.Get(one).ah, ah);
}

TEST_F(PathResolverTest, FollowsACompletionWithAnotherLidAtOnce) {
  sa_.silent = true;
  const VPortId peer = Hear(2);
  Hear(2, 0x48, Lid(0x333));
  EXPECT_EQ(LidFor(peer), 0x333);
}

// The peer's LID changes while the query is pending.
TEST_F(PathResolverTest, IgnoresAnAnswerOlderThanACompletion) {
  sa_.ports[GidOf(2)] = Lid(0x222);
  const VPortId peer = Hear(2);
  Hear(2, 0x48, Lid(0x333));
  Pump();
  EXPECT_EQ(LidFor(peer), 0x333);
  sa_.ports[GidOf(2)] = Lid(0x334);
  Advance(absl::Seconds(1));
  EXPECT_EQ(LidFor(peer), 0x334) << "and the SA is asked again";
  EXPECT_EQ(Queries(), 2u);
}

TEST_F(PathResolverTest, RetriesAFailedQueryAndKeepsTheWorkingPath) {
  const VPortId peer = Hear(2);
  Pump();
  EXPECT_EQ(LidFor(peer), LidOf(2).value());
  sa_.ports[GidOf(2)] = Lid(0x222);
  Advance(absl::Seconds(4));
  EXPECT_EQ(Queries(), 1u);
  Advance(absl::Seconds(1));
  EXPECT_EQ(LidFor(peer), 0x222);
  EXPECT_EQ(resolver_->NextDeadline(), absl::InfiniteFuture());
}

TEST_F(PathResolverTest, RefreshesFewPathsOneByOne) {
  for (uint64_t port = 2; port < 2 + PathResolver::kFewPaths; ++port) Hear(port);
  Pump();
  sa_.asked.clear();
  resolver_->RefreshAll();
  EXPECT_EQ(TableQueries(), 0u);
  EXPECT_EQ(Queries(), PathResolver::kFewPaths);
}

TEST_F(PathResolverTest, ManyPathsAreRefreshedAsATable) {
  std::vector<VPortId> peers;
  for (uint64_t port = 2; port < 100; ++port) {
    sa_.ports[GidOf(port)] = Lid(static_cast<uint16_t>(0x400 + port));
    peers.push_back(Hear(port));
  }
  sa_.ports[GidOf(999)] = Lid(0x999);  // not a peer of ours
  Pump();
  sa_.asked.clear();
  for (auto& [gid, lid] : sa_.ports) lid = Lid(lid.value() + 0x400);
  sa_.ports.erase(GidOf(50));
  published_ = 0;
  resolver_->RefreshAll();
  EXPECT_NE(LidFor(peers[0]), 0) << "in use until there is a better one";
  Pump();
  EXPECT_EQ(TableQueries(), 1u);
  EXPECT_EQ(Queries(), 1u) << "the path that the table lacks";
  EXPECT_EQ(published_, 1);
  EXPECT_EQ(LidFor(peers[0]), 0x802);
  EXPECT_EQ(LidFor(peers.back()), 0x800 + 99);
  EXPECT_EQ(LidFor(peers[48]), 0x400 + 50) << "kept";
}

TEST_F(PathResolverTest, QueriesOneByOneIfTheSaHasNoTables) {
  for (uint64_t port = 2; port < 30; ++port) {
    sa_.ports[GidOf(port)] = LidOf(port);
    Hear(port);
  }
  Pump();
  sa_.asked.clear();
  sa_.tables = false;
  resolver_->RefreshAll();
  Pump();
  EXPECT_EQ(TableQueries(), 1u);
  EXPECT_EQ(Queries(), 28u);
}

TEST_F(PathResolverTest, RefreshesDuringATableQueryCauseOneMore) {
  for (uint64_t port = 2; port < 30; ++port) {
    sa_.ports[GidOf(port)] = LidOf(port);
    Hear(port);
  }
  Pump();
  sa_.asked.clear();
  for (int i = 0; i < 5; ++i) resolver_->RefreshAll();
  EXPECT_EQ(TableQueries(), 1u);
  Pump();
  EXPECT_EQ(TableQueries(), 2u) << "the first answer may be from before";
  EXPECT_EQ(Queries(), 0u);
}

TEST_F(PathResolverTest, PathHeardDuringATableQueryIsNotOverwritten) {
  std::vector<VPortId> peers;
  for (uint64_t port = 2; port < 30; ++port) {
    sa_.ports[GidOf(port)] = LidOf(port);
    peers.push_back(Hear(port));
  }
  Pump();
  sa_.asked.clear();
  resolver_->RefreshAll();
  sa_.ports[GidOf(2)] = Lid(0x333);
  Hear(2, 0x48, Lid(0x333));
  Pump();
  EXPECT_EQ(LidFor(peers[0]), 0x333);
  EXPECT_EQ(LidFor(peers[1]), LidOf(3).value());
  EXPECT_EQ(TableQueries(), 1u);
  EXPECT_EQ(Queries(), 1u) << "for this one alone";
}

// ---- Datagrams from another LID than the record's.

TEST_F(PathResolverTest, ADatagramFromAnotherLidDoesNotReplaceTheRecord) {
  sa_.ports[GidOf(2)] = Lid(0x222);
  const VPortId peer = Hear(2, 0x48, Lid(0x222));
  Pump();
  Advance(absl::Seconds(2));
  const size_t queries = Queries();
  Hear(2, 0x48, Lid(0x666));
  EXPECT_EQ(LidFor(peer), 0x222) << "at no time do frames for the peer go to a forger";
  EXPECT_EQ(LidFor(Hear(2, 0x49, Lid(0x666))), 0x222);
  Pump();
  EXPECT_EQ(LidFor(peer), 0x222);
  EXPECT_EQ(Queries(), queries + 1);
  EXPECT_EQ(Verifications(), 1u);
  EXPECT_EQ(resolver_->counters().other_lids, 2u);
  EXPECT_EQ(resolver_->counters().refused_lids, 1u);
  EXPECT_FALSE(Trusts(2, Lid(0x666)));
  EXPECT_TRUE(Trusts(2, Lid(0x222)));
  EXPECT_EQ(resolver_->counters().distrusted_messages, 1u);
}

TEST_F(PathResolverTest, FollowsAPortToItsNewLidWhenTheSaAnswers) {
  sa_.ports[GidOf(2)] = Lid(0x222);
  const VPortId peer = Hear(2, 0x48, Lid(0x222));
  Pump();
  Advance(absl::Seconds(2));
  sa_.ports[GidOf(2)] = Lid(0x333);
  EXPECT_FALSE(Trusts(2, Lid(0x333))) << "until the answer has come";
  EXPECT_EQ(LidFor(peer), 0x333);
  EXPECT_TRUE(Trusts(2, Lid(0x333)));
  EXPECT_EQ(resolver_->counters().refused_lids, 0u);
  EXPECT_FALSE(Trusts(2, Lid(0x222))) << "another port may have it now";
}

// After a sweep of the SM the path was just queried.
TEST_F(PathResolverTest, ANewLidDoesNotWaitForTheLimitOfQueries) {
  sa_.ports[GidOf(2)] = Lid(0x222);
  const VPortId peer = Hear(2, 0x48, Lid(0x222));
  Pump();
  resolver_->RefreshAll();
  Pump();
  for (uint16_t lid = 0x333; lid < 0x333 + PathResolver::kSuspicions; ++lid) {
    sa_.ports[GidOf(2)] = Lid(lid);
    Hear(2, 0x48, Lid(lid));
    Pump();
    EXPECT_EQ(LidFor(peer), lid);
  }
}

// With LMC 1 a port has two LIDs, and may send from either.
TEST_F(PathResolverTest, TrustsAllLidsOfAPort) {
  sa_.lmc = 1;
  sa_.ports[GidOf(2)] = Lid(0x222);
  const VPortId peer = Hear(2, 0x48, Lid(0x222));
  Pump();
  Advance(absl::Seconds(2));
  Hear(2, 0x48, Lid(0x223));
  Pump();
  EXPECT_TRUE(Trusts(2, Lid(0x223)));
  EXPECT_TRUE(Trusts(2, Lid(0x222)));
  EXPECT_FALSE(Trusts(2, Lid(0x224))) << "another port's";
  EXPECT_EQ(LidFor(peer), 0x222);
  for (int i = 0; i < 20; ++i) {
    Hear(2, 0x48, Lid(static_cast<uint16_t>(0x222 + i % 2)));
    Advance(absl::Seconds(1));
    EXPECT_TRUE(Trusts(2, Lid(0x222)));
    EXPECT_TRUE(Trusts(2, Lid(0x223)));
  }
  EXPECT_EQ(Verifications(), 2u) << "the answer is remembered";
}

TEST_F(PathResolverTest, VerifiesTheLidOfTheFirstDatagramBeforeTheNextMessage) {
  sa_.lmc = 1;
  sa_.ports[GidOf(2)] = Lid(0x222);
  Hear(2, 0x48, Lid(0x223));
  EXPECT_TRUE(Trusts(2, Lid(0x223))) << "no record is known yet";
  EXPECT_TRUE(Trusts(2, Lid(0x223)));
  EXPECT_EQ(resolver_->counters().other_lids, 0u);
}

TEST_F(PathResolverTest, ManyForgedLidsDoNotHideAnotherLidOfThePort) {
  sa_.lmc = 1;
  sa_.ports[GidOf(2)] = Lid(0x222);
  Hear(2, 0x48, Lid(0x222));
  Pump();
  bool trusted = false;
  for (int i = 0; i < 100; ++i) {
    Advance(absl::Milliseconds(100));
    for (uint16_t forged = 0x666; forged < 0x66a; ++forged) EXPECT_FALSE(Trusts(2, Lid(forged)));
    trusted = Trusts(2, Lid(0x223));
  }
  EXPECT_TRUE(trusted);
}

TEST_F(PathResolverTest, LimitsTheQueriesThatForgedLidsCause) {
  sa_.ports[GidOf(2)] = Lid(0x222);
  Hear(2, 0x48, Lid(0x222));
  Pump();
  for (int millisecond = 0; millisecond < 3000; ++millisecond) {
    const Lid forged(static_cast<uint16_t>(0x300 + millisecond));
    Hear(2, 0x48, forged);
    EXPECT_FALSE(Trusts(2, forged));
    Advance(absl::Milliseconds(1));
  }
  EXPECT_LE(Queries(), 4u + 3 + PathResolver::kSuspicions) << "two a second after a burst";
  EXPECT_LE(Verifications(), Queries()) << "one after each";
}

TEST_F(PathResolverTest, AForgerThatIsHeardBeforeEachAnswerDoesNotKeepTheRecordAway) {
  sa_.ports[GidOf(2)] = Lid(0x222);
  const VPortId peer = Hear(2, 0x48, Lid(0x222));
  for (uint16_t i = 0; i < 3; ++i) {
    clock_.Advance(absl::Seconds(1));
    resolver_->Run();
    Hear(2, 0x48, Lid(0x666 + i));
    Pump();
  }
  EXPECT_EQ(LidFor(peer), 0x222);
}

// While the SA does not answer, a port that has moved must be reached.
TEST_F(PathResolverTest, ACompletionCountsWhileTheSaIsSilent) {
  sa_.ports[GidOf(2)] = Lid(0x222);
  const VPortId peer = Hear(2, 0x48, Lid(0x222));
  Pump();
  Advance(absl::Seconds(2));
  sa_.silent = true;
  Hear(2, 0x48, Lid(0x333));
  EXPECT_FALSE(Trusts(2, Lid(0x333)));
  EXPECT_EQ(resolver_->NextDeadline(), clock_.Now() + PathResolver::kPatience);
  Advance(PathResolver::kPatience);
  EXPECT_EQ(LidFor(peer), 0x333);
  EXPECT_TRUE(Trusts(2, Lid(0x333)));
  Advance(absl::Seconds(2));
  Hear(2, 0x48, Lid(0x334));
  EXPECT_EQ(LidFor(peer), 0x334) << "at once, while the SA is silent";

  sa_.silent = false;
  sa_.ports[GidOf(2)] = Lid(0x335);
  for (int i = 0; i < 40; ++i) Advance(absl::Milliseconds(500));
  EXPECT_EQ(LidFor(peer), 0x335) << "the record is preferred again";
  EXPECT_FALSE(Trusts(2, Lid(0x334)));
}

TEST_F(PathResolverTest, AnSaThatCannotVerifyALidCutsOffNoPort) {
  sa_.ports[GidOf(2)] = Lid(0x222);
  const VPortId peer = Hear(2, 0x48, Lid(0x222));
  Pump();
  Advance(absl::Seconds(2));
  sa_.verifies = false;
  Hear(2, 0x48, Lid(0x223));
  Pump();
  EXPECT_EQ(Verifications(), 1u);
  EXPECT_TRUE(Trusts(2, Lid(0x223)));
  EXPECT_EQ(LidFor(peer), 0x222) << "but frames go to the record's LID";
}

// The datagrams of another subnet's port come from the LID of a router, and there may be several.
TEST_F(PathResolverTest, TrustsEveryLidForARoutedGid) {
  const Gid routed = Gid::FromPrefixAndGuid(0xfec0'0000'0000'0001, Guid(2));
  sa_.ports[routed] = Lid(0x222);
  Punt punt;
  punt.peer = {routed, Qpn(0x48)};
  punt.vport = directory_.Intern(punt.peer);
  punt.slid = Lid(0x222);
  resolver_->OnPunt(punt);
  Pump();
  Advance(absl::Seconds(2));
  punt.kind = Punt::Kind::kReaddressed;
  punt.slid = Lid(0x777);
  resolver_->OnPunt(punt);
  Pump();
  EXPECT_TRUE(resolver_->IsTrusted(routed, Lid(0x777), Sl()));
  EXPECT_EQ(LidFor(punt.vport), 0x222);
  EXPECT_EQ(Verifications(), 0u);
  EXPECT_EQ(resolver_->counters().other_lids, 0u);
}

// ---- Reports of the subnet.

TEST_F(PathResolverTest, QueriesAPortInServiceAtOnceIfItHasPeers) {
  const VPortId peer = Hear(2);
  Pump();
  sa_.asked.clear();
  sa_.ports[GidOf(2)] = Lid(0x222);
  resolver_->OnInService(GidOf(2));
  resolver_->OnInService(GidOf(3));
  Pump();
  EXPECT_EQ(Queries(), 1u) << "no query for an unknown port";
  EXPECT_EQ(LidFor(peer), 0x222) << "though the last answer was a failure, a moment ago";
}

TEST_F(PathResolverTest, DoesNotQueryAPortOutOfServiceUntilItIsHeard) {
  const VPortId peer = Hear(2);
  Pump();
  resolver_->OnOutOfService(GidOf(2));
  sa_.asked.clear();
  Advance(absl::Minutes(1));
  EXPECT_EQ(Queries(), 0u);
  EXPECT_NE(LidFor(peer), 0) << "it may be there after all";
  Hear(2, 0x49);
  Pump();
  EXPECT_EQ(Queries(), 1u);
}

// ---- On an Ethernet link layer.

class EthernetPathResolverTest : public PathResolverTest {
 protected:
  EthernetPathResolverTest() {
    resolver_ = std::make_unique<PathResolver>(
        PathResolver::Source{
            .maker = &maker_, .sl = Sl(3), .attributes = {.traffic_class = 104, .hop_limit = 64}},
        &handles_, &directory_, &clock_, GidOf(1), PKey(0x8001), [this] { ++published_; });
  }
  VPortId Hear(uint64_t port, uint32_t qpn = 0x48, Punt::Kind kind = Punt::Kind::kNewPeer) {
    Punt punt;
    punt.kind = kind;
    punt.peer = {GidOf(port), Qpn(qpn)};
    punt.vport = directory_.Intern(punt.peer);
    resolver_->OnPunt(punt);
    return punt.vport;
  }
  // Waits until the handle was made or has failed.
  void Answer() {
    pollfd ready = {maker_.fd(), POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 60'000), 1);
    maker_.Run();
  }
  bool HasPath(VPortId vport) const { return !directory_.Get(vport).ah.IsNone(); }
  void Fail() { hca_.FailNext("create_ah", ETIMEDOUT); }

  HandleMaker maker_{&handles_};
};

TEST_F(EthernetPathResolverTest, GidAloneIsThePath) {
  const VPortId peer = Hear(2);
  EXPECT_FALSE(HasPath(peer)) << "control does not wait for it";
  Answer();
  ASSERT_TRUE(HasPath(peer));
  EXPECT_EQ(published_, 1);
  ASSERT_EQ(hca_.ahs.size(), 1u);
  const ibv_ah_attr& attr = hca_.ahs[0]->attr;
  EXPECT_EQ(attr.is_global, 1);
  EXPECT_EQ(Gid::FromWire(attr.grh.dgid.raw), GidOf(2));
  EXPECT_EQ(attr.dlid, 0);
  EXPECT_EQ(attr.sl, 3);
  EXPECT_EQ(attr.grh.traffic_class, 104);
  EXPECT_EQ(attr.grh.hop_limit, 64);
}

TEST_F(EthernetPathResolverTest, HasNoLidsToCheck) {
  Hear(2);
  Answer();
  EXPECT_TRUE(resolver_->IsTrusted(GidOf(2), Lid(), Sl()));
  EXPECT_EQ(resolver_->counters().other_lids, 0u);
}

TEST_F(EthernetPathResolverTest, ReachesAnotherQueuePairOfAPortAtOnce) {
  Hear(2, 0x48);
  Answer();
  const VPortId other = Hear(2, 0x49);
  EXPECT_TRUE(HasPath(other));
  EXPECT_EQ(hca_.ahs.size(), 1u);
}

TEST_F(EthernetPathResolverTest, BacksOffWhenTheNeighborIsNotFound) {
  Fail();
  const VPortId peer = Hear(2);
  Answer();
  EXPECT_FALSE(HasPath(peer));
  for (const int seconds : {1, 2, 4, 8, 16, 32, 60, 60}) {
    EXPECT_EQ(resolver_->NextDeadline(), clock_.Now() + absl::Seconds(seconds));
    clock_.Advance(absl::Seconds(seconds));
    Fail();
    resolver_->Run();
    Answer();
  }
  EXPECT_FALSE(HasPath(peer));
  // A waiting frame shortens the backoff.
  Hear(2, 0x48, Punt::Kind::kUnresolved);
  clock_.Advance(absl::Seconds(1));
  resolver_->Run();
  Answer();
  EXPECT_TRUE(HasPath(peer));
  EXPECT_EQ(resolver_->NextDeadline(), absl::InfiniteFuture());
}

TEST_F(EthernetPathResolverTest, RefreshReplacesHandlesAndKeepsThoseThatFail) {
  const VPortId one = Hear(2);
  Answer();
  const VPortId two = Hear(3);
  Answer();
  const AhIndex before = directory_.Get(one).ah;
  handles_.Renew();
  Fail();
  resolver_->RefreshAll();
  EXPECT_EQ(directory_.Get(one).ah, before);
  // One handle is made, and the other fails, which sets a time for its retry.
  while (published_ < 3 || resolver_->NextDeadline() == absl::InfiniteFuture()) Answer();
  EXPECT_TRUE(HasPath(one));
  EXPECT_TRUE(HasPath(two));
  EXPECT_EQ(hca_.ahs.size(), 3u)
      << "one of the two could not be made, and its peer is reached as before";
}

// The VES is destroyed while a neighbour is being resolved. The fixture checks that the handle does
// not leak.
TEST_F(EthernetPathResolverTest, PutsBackAHandleThatComesTooLate) {
  Hear(2);
  resolver_.reset();
  Answer();
}

}  // namespace
}  // namespace eoib
