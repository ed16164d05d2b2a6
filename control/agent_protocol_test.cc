// The vPort protocol between whole agents. The agents' clock moves only when a test does it.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_replace.h"
#include "control/agent_test_fixture.h"
#include "vswitch/base/daemon/log.h"

namespace eoib {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kStaticB[] =
    "[[ves]]\nname = \"blue\"\npkey = 0x8001\n"
    "[[vport]]\nname = \"v1\"\nves = \"blue\"\ntype = \"test\"\nstatic_macs = "
    "[\"02:00:00:00:00:0b\"]\n";
constexpr char kSecondVPort[] =
    "[[vport]]\nname = \"v2\"\nves = \"blue\"\ntype = \"test\"\nstatic_macs = "
    "[\"02:00:00:00:00:0c\"]\n";
constexpr size_t kAnnounced = 1024;  // deploy/manual.md: learned MACs of a vPort that are announced

class AgentProtocolTest : public AgentTestOf<FakeClock> {
 protected:
  // Its row in `fdb show`; empty if there is none.
  static std::string RowOf(Host* host, MacAddr mac) {
    for (absl::string_view line : absl::StrSplit(host->ShowFdb(), '\n')) {
      if (absl::StrContains(line, mac.ToString())) return std::string(line);
    }
    return "";
  }
  static bool IsAt(Host* host, MacAddr mac, const std::string& qpn) {
    return absl::StrContains(RowOf(host, mac), "QPN " + qpn);
  }
  // The short form of an agent's id.
  static std::string IdOf(Host* host) {
    const std::string peers = host->Command("peers"), key = "this agent is ";
    return peers.substr(peers.find(key) + key.size(), 8);
  }
  // Waits until `host` has an announced entry for `mac` at `other`.
  bool IsAnnounced(Host* host, MacAddr mac, Host* other) {
    return PassUntil(
        [&] { return host->OriginOf(mac) == "announced" && IsAt(host, mac, other->Qpn()); });
  }
  // A station behind `host` speaks, most often once, until `other` has what the agent announces of
  // it.
  bool Speaks(Host* host, MacAddr mac, Host* other) {
    absl::Time next = watch_.Now();
    return PassUntil([&] {
      if (watch_.Now() >= next) {
        host->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), mac));
        next = watch_.Now() + absl::Milliseconds(200);
      }
      return IsAt(other, mac, host->Qpn()) &&
             other->OriginOf(mac) == (host->announces() ? "announced" : "learned");
    });
  }
  // Waits until `host` has handled all that arrived before: its worker takes turns at the fabric
  // and at the port, where a station speaks twice.
  bool CatchesUp(Host* host, MacAddr station) {
    for (int i = 0; i < 2; ++i) {
      const uint64_t before = host->Stat("transmitted_fabric");
      host->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), station));
      if (!Until([&] { return host->Stat("transmitted_fabric") > before; })) return false;
    }
    PumpAll();
    return true;
  }
  // Waits until `host` has all that `other` announces. A Request is repeated every 8 s at the
  // latest, until it is answered.
  bool HasWholeState(Host* host, Host* other) {
    Pass(absl::Seconds(2));  // until claims are established
    return PassUntil([&] {
      if (!CatchesUp(other, kB) || !CatchesUp(host, kA)) return false;
      const uint64_t before = host->Stat("protocol_unicast_messages");
      Pass(absl::Seconds(9));
      return host->Stat("protocol_unicast_messages") == before;
    });
  }
  // Sends a frame to `mac` behind `to`, and expects that it was flooded or not.
  void ExpectUnicast(Host* from, Host* to, MacAddr mac, bool floods) {
    const uint64_t before = from->Stat("flooded_unknown");
    from->port("v1")->Inject(MakeFrame(mac, kA));
    EXPECT_TRUE(Arrives(to->port("v1"), MakeFrame(mac, kA)));
    EXPECT_EQ(from->Stat("flooded_unknown"), before + floods);
  }
  static MacAddr Station(size_t i) { return MacAddr::FromUint64(0x02'00'00'01'00'00 + i); }
  // So many stations behind `host` speak, and `other` learns them; slower than the limit of the
  // worker's reports.
  bool StationsSpeak(Host* host, Host* other, size_t stations) {
    for (size_t first = 0; first < stations; first += 50) {
      const size_t last = std::min(first + 50, stations);
      for (size_t i = first; i < last; ++i)
        host->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), Station(i)));
      if (!PassUntil([&] { return other->Knows(Station(last - 1)); })) return false;
      Pass(absl::Milliseconds(100));
    }
    return true;
  }
  // As many stations as fit behind `host` speak while no time passes, so the worker reports only a
  // burst of them.
  bool StationsSpeakAtOnce(Host* host, size_t stations) {
    for (size_t first = 0; first < stations; first += 50) {
      const size_t last = std::min(first + 50, stations);
      for (size_t i = first; i < last; ++i)
        host->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), Station(i)));
      if (!Until([&] { return host->Knows(Station(last - 1)); })) return false;
    }
    return true;
  }
  static size_t RowsWith(Host* host, const std::string& text) {
    size_t rows = 0;
    for (absl::string_view line : absl::StrSplit(host->ShowFdb(), '\n'))
      rows += absl::StrContains(line, text);
    return rows;
  }
  // The datagrams between `host` and all others are lost.
  void Isolate(const std::string& host) {
    for (const auto& [from, to] : {std::pair<std::string, std::string>{host, "*"}, {"*", host}}) {
      softhca::Fault fault{from, to, {}};
      fault.rule.loss_ppm = 1'000'000;
      ASSERT_TRUE(subnet_.SetFault(fault).ok());
    }
  }
};

// As if a privileged program at another port forged h2's GID and QPN.
TEST_F(AgentProtocolTest, MessagesFromAnotherLidThanThePathRecordsDoNotCount) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kStaticB);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h1, kB, h2));
  ASSERT_TRUE(PassUntil([&] { return absl::StrContains(h1->Command("neigh"), "rate"); }))
      << "the record is known";
  h1->hca()->EditReceives([](ibv_wc* completion) { completion->slid = 99; });
  ASSERT_TRUE(h2->Apply(absl::StrCat(kStaticB, kSecondVPort)).ok());
  ASSERT_TRUE(PassUntil([&] { return h1->Stat("path_refused_lids") > 0; }));
  const uint64_t messages = h1->Stat("path_distrusted_messages");
  ASSERT_TRUE(PassUntil([&] { return h1->Stat("path_distrusted_messages") > messages; }))
      << "after the SA has answered";
  EXPECT_EQ(h1->OriginOf(kC), "");
  h1->port("v1")->Inject(MakeFrame(kB, kA));
  EXPECT_TRUE(Arrives(h2->port("v1"), MakeFrame(kB, kA))) << "h1 sends to the LID of the record";

  h1->hca()->EditReceives([](ibv_wc*) {});
  EXPECT_TRUE(IsAnnounced(h1, kC, h2));
}

// The keys of a VES that trusts only the agents of `hosts`.
std::string TrustingOnly(const std::vector<Host*>& hosts) {
  std::string gids;
  for (Host* host : hosts)
    absl::StrAppend(&gids, "'", host->soft_port()->config().gid.ToString(), "', ");
  return absl::StrReplaceAll(
      kOneVes, {{"pkey = 0x8001\n", absl::StrCat("pkey = 0x8001\nagents = [", gids, "]\n")}});
}
constexpr char kStaticC[] =
    "[[ves]]\nname = \"blue\"\npkey = 0x8001\n"
    "[[vport]]\nname = \"v1\"\nves = \"blue\"\ntype = \"test\"\nstatic_macs = "
    "[\"02:00:00:00:00:0c\"]\n";

TEST_F(AgentProtocolTest, OnlyMessagesOfListedAgentsCount) {
  Host *h2 = AddHost("h2", kStaticB), *h3 = AddHost("h3", kStaticC);
  Host* const h1 = AddHost("h1", TrustingOnly({h2}));
  ASSERT_TRUE(AllJoined());
  EXPECT_TRUE(IsAnnounced(h1, kB, h2));
  EXPECT_TRUE(PassUntil([&] { return h1->Stat("unlisted_messages") > 0; }));
  EXPECT_FALSE(h1->Knows(kC));
  EXPECT_THAT(h1->Command("peers"), Not(HasSubstr(IdOf(h3))));
  EXPECT_THAT(h1->Command("show"),
              HasSubstr("  agents: only those at the 1 listed GIDs count; refused "));
  EXPECT_TRUE(IsAnnounced(h2, kC, h3)) << "h2 has no list";
  h3->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kD));
  EXPECT_TRUE(Until([&] { return h1->OriginOf(kD) == "learned"; }))
      << "frames count as those of a data-only peer";
  h1->port("v1")->Inject(MakeFrame(kC, kA));
  EXPECT_TRUE(Arrives(h3->port("v1"), MakeFrame(kC, kA))) << "flooded";
}

TEST_F(AgentProtocolTest, TheListOfAgentsChangesInPlace) {
  Host *h2 = AddHost("h2", kStaticB), *h3 = AddHost("h3", kStaticC);
  Host* const h1 = AddHost("h1", TrustingOnly({h2}));
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h1, kB, h2));
  h3->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kD));
  ASSERT_TRUE(Until([&] { return h1->OriginOf(kD) == "learned"; }));
  const std::string qpn = h1->Qpn();

  testing::internal::CaptureStderr();
  ASSERT_TRUE(h1->Apply(TrustingOnly({h3})).ok());
  EXPECT_FALSE(h1->Knows(kB)) << "it floods at once";
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("is at a port that `agents` does not list; forgotten"));
  EXPECT_THAT(h1->Command("peers"), Not(HasSubstr(IdOf(h2))));
  const absl::Time asks = clock_.Now();
  EXPECT_TRUE(PassUntil([&] { return h1->OriginOf(kC) == "announced"; }))
      << "h3's frames were heard, so h1 asks it";
  EXPECT_LT(clock_.Now() - asks, absl::Seconds(3));
  EXPECT_EQ(h1->Qpn(), qpn);

  ASSERT_TRUE(h1->Apply(kOneVes).ok());
  EXPECT_TRUE(PassUntil([&] { return h1->OriginOf(kB) == "announced"; }))
      << "without a list all count";
  EXPECT_EQ(h1->OriginOf(kC), "announced") << "and h3 was never forgotten";
  EXPECT_THAT(h1->Command("show"), Not(HasSubstr("  agents: ")));
}

TEST_F(AgentProtocolTest, ConfiguredMacsAreKnownBeforeTheySpeak) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kStaticB);
  ASSERT_TRUE(AllJoined());
  EXPECT_TRUE(IsAnnounced(h1, kB, h2));
  EXPECT_TRUE(IsAnnounced(h1, h2->port("v1")->mac(), h2));
  ExpectUnicast(h1, h2, kB, /*floods=*/false);
  ExpectUnicast(h1, h2, h2->port("v1")->mac(), /*floods=*/false);
}

// h1 flushes the entries of a VLAN when its VES leaves the VLAN. h2 does not announce them again
// when the VES returns.
TEST_F(AgentProtocolTest, AnnouncedMacsAreBackWithTheirVlan) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  const MacAddr theirs = h2->port("v1")->mac();
  ASSERT_TRUE(IsAnnounced(h1, theirs, h2));
  const std::string config(kOneVes), ves = "pkey = 0x8001\n";
  const size_t end = config.find(ves) + ves.size();
  ASSERT_TRUE(
      h1->Apply(config.substr(0, end) + "vlans = [7]\n" + config.substr(end) + "access_vlan = 7\n")
          .ok());
  Pass(MissingEntries::kEvery + absl::Seconds(2));
  EXPECT_TRUE(RowOf(h1, theirs).empty()) << "nor does it come back by itself";
  ASSERT_TRUE(h1->Apply(config).ok());
  EXPECT_EQ(h1->OriginOf(theirs), "announced");
}

// An announcement comes once. The FDB is full at that moment, and has room later.
TEST_F(AgentProtocolTest, AnnouncedMacsForWhichThereWasNoRoomAreAddedWhenThereIs) {
  const std::string small =
      absl::StrReplaceAll(kOneVes, {{"pkey = 0x8001\n", "pkey = 0x8001\nfdb_limit = 3\n"}});
  Host* const h1 = AddHost("h1", small);
  Host* const h2 = AddHost(
      "h2", absl::StrCat(kOneVes, "static_macs = [\"", kA.ToString(), "\", \"", kB.ToString(),
                         "\", \"", kC.ToString(), "\", \"", kD.ToString(), "\"]\n"));
  ASSERT_TRUE(AllJoined());
  const auto known = [&] { return RowsWith(h1, "announced"); };
  ASSERT_TRUE(PassUntil([&] { return known() == 2; })) << "and the interface of h1";
  Pass(MissingEntries::kEvery + absl::Seconds(2));
  EXPECT_EQ(known(), 2u);
  ASSERT_TRUE(h1->Apply(kOneVes).ok());
  EXPECT_TRUE(PassUntil([&] { return known() == 5; })) << known();
  for (const MacAddr mac : {kA, kB, kC, kD}) EXPECT_TRUE(IsAt(h1, mac, h2->Qpn()));
}

// The interface is silent: nothing but its configuration tells of it.
TEST_F(AgentProtocolTest, MacOfAnInterfaceStaysInTheFdb) {
  Host* const h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  const MacAddr own = h1->port("v1")->mac();
  EXPECT_TRUE(PassUntil([&] { return !RowOf(h1, own).empty(); }));
  h1->Command("fdb/flush", {"blue"});
  EXPECT_TRUE(PassUntil([&] { return absl::StrContains(RowOf(h1, own), "vPort v1"); }));
}

TEST_F(AgentProtocolTest, MacOfAnotherHostsInterfaceBehindAVPortIsLoggedAsALoop) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  const MacAddr theirs = h2->port("v1")->mac();
  ASSERT_TRUE(IsAnnounced(h1, theirs, h2));
  std::string log;
  const LogSink sink = [&log](int, absl::string_view text) { absl::StrAppend(&log, text, "\n"); };
  SetThreadLogSink(&sink);
  h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), theirs));
  EXPECT_TRUE(PassUntil([&] {
    return absl::StrContains(log, "was heard at vPort v1: there is a loop behind that vPort");
  })) << log;
  SetThreadLogSink(nullptr);
  EXPECT_TRUE(IsAt(h1, theirs, h2->Qpn())) << "it stays where it is configured";
}

TEST_F(AgentProtocolTest, LearnedMacIsKnownToAgentsThatGotNoFrameOfIt) {
  Host *h1 = AddHost("h1", kStaticB), *h2 = AddHost("h2", kOneVes), *h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h2, kB, h1));
  h2->port("v1")->Inject(MakeFrame(kB, kC));
  ASSERT_TRUE(Arrives(h1->port("v1"), MakeFrame(kB, kC)));
  EXPECT_TRUE(IsAnnounced(h3, kC, h2));
  for (const auto& sent : h3->port("v1")->TakeTransmitted())
    EXPECT_NE(sent.bytes, MakeFrame(kB, kC));
  ExpectUnicast(h3, h2, kC, /*floods=*/false);
}

// The others are learned from their frames.
TEST_F(AgentProtocolTest, AVPortAnnouncesSoManyLearnedMacsAtMost) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h1, h2->port("v1")->mac(), h2));
  ASSERT_TRUE(StationsSpeak(h2, h1, kAnnounced + 10));
  EXPECT_TRUE(PassUntil([&] { return RowsWith(h1, "announced") == kAnnounced + 1; }))
      << "and the interface's";
  Pass(absl::Seconds(2));
  EXPECT_EQ(RowsWith(h1, "announced"), kAnnounced + 1);
  EXPECT_EQ(RowsWith(h1, "QPN " + h2->Qpn()), kAnnounced + 1 + 10);

  // A frame for one of the others finds it no longer there.
  MacAddr gone = kD;
  for (size_t i = 0; i < kAnnounced + 10; ++i) {
    if (h1->OriginOf(Station(i)) == "learned") gone = Station(i);
  }
  ASSERT_NE(gone, kD);
  h2->Command("fdb/flush", {"blue"});
  ExpectUnicast(h1, h2, gone, /*floods=*/false);
  EXPECT_TRUE(Until([&] { return !h1->Knows(gone); })) << "h2 tells h1, though no time passes";
  ExpectUnicast(h1, h2, gone, /*floods=*/true);
}

TEST_F(AgentProtocolTest, MacsThatNoReportToldOfAreAnnouncedWithinSeconds) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h1, h2->port("v1")->mac(), h2));
  const size_t kStations = 900;
  ASSERT_TRUE(StationsSpeakAtOnce(h2, kStations));
  EXPECT_LT(h1->Stat("protocol_received"), kStations);
  EXPECT_TRUE(PassUntil([&] { return RowsWith(h1, "announced") == kStations + 1; }))
      << RowsWith(h1, "announced");
}

// Both configure the MAC as static. One of them holds it; the other takes it when that one has
// gone.
TEST_F(AgentProtocolTest, LostStickyClaimIsTakenAgainWhenTheWinnerLeaves) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kStaticB), *h3 = AddHost("h3", kStaticB);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h1, h2->port("v1")->mac(), h2));
  ASSERT_TRUE(IsAnnounced(h1, h3->port("v1")->mac(), h3));
  // Both hold it until they have heard each other.
  const auto yields = [](Host* host) {
    return absl::StrContains(host->Command("show"), "other hosts send its frames there");
  };
  ASSERT_TRUE(PassUntil([&] { return yields(h2) || yields(h3); }));
  Host* const loser = yields(h2) ? h2 : h3;
  Host* const winner = loser == h2 ? h3 : h2;
  ASSERT_TRUE(IsAnnounced(h1, kB, winner));
  Pass(absl::Seconds(3));
  EXPECT_TRUE(IsAt(h1, kB, winner->Qpn()));
  bool stopped = false;
  winner->agent()->Stop([&stopped] { stopped = true; });
  ASSERT_TRUE(Until([&] { return stopped; }));
  EXPECT_TRUE(IsAnnounced(h1, kB, loser));
}

// The host that came later neither gets the MAC nor loses its own interface.
TEST_F(AgentProtocolTest, AMacThatIsConfiguredTwiceIsToldAtBothEndsUntilOneHasAnother) {
  testing::internal::CaptureStderr();
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kStaticB);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h1, kB, h2));
  Pass(absl::Seconds(2));
  Host* const h3 = AddHost("h3", kStaticB);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h1, h3->port("v1")->mac(), h3));
  const auto warns = [](Host* host, absl::string_view holder) {
    const std::string show = host->Command("show");
    return absl::StrContains(
               show, "MAC " + kB.ToString() + " in VLAN 0 of vPort v1 is also claimed by ") &&
           absl::StrContains(show, holder);
  };
  EXPECT_TRUE(PassUntil([&] {
    return warns(h2, "this host holds it") && warns(h3, "other hosts send its frames there");
  }));
  Pass(absl::Seconds(5));
  EXPECT_TRUE(IsAt(h1, kB, h2->Qpn()));
  for (Host* host : {h2, h3}) {
    EXPECT_THAT(RowOf(host, kB), HasSubstr("vPort v1")) << "the frames of its interface stay there";
    EXPECT_EQ(host->Stat("protocol_conflicts"), 1u);
  }
  ExpectUnicast(h1, h2, kB, /*floods=*/false);
  // An agent that hears h3 alone sends it frames for the MAC. They are for its interface, whoever
  // holds the MAC elsewhere.
  Host* const h4 = AddHost("h4", TrustingOnly({h3}));
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h4, kB, h3));
  h4->port("v1")->Inject(MakeFrame(kB, kA));
  EXPECT_TRUE(Arrives(h3->port("v1"), MakeFrame(kB, kA)));
  ASSERT_TRUE(h3->Apply(kOneVes).ok());
  EXPECT_TRUE(PassUntil([&] { return !warns(h2, "") && !warns(h3, ""); }));
  EXPECT_TRUE(PassUntil([&] { return IsAt(h3, kB, h2->Qpn()); }));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr(absl::StrCat("MAC ", kB.ToString(),
                                          " in VLAN 0 is configured on this host, and ")));
  EXPECT_THAT(log, HasSubstr("give one of the two another MAC"));
  EXPECT_THAT(log, HasSubstr("is claimed by this host only again"));
}

TEST_F(AgentProtocolTest, FlushKeepsTheMacsThatOtherAgentsAnnounce) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kStaticB);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h1, kB, h2));
  for (const std::vector<std::string>& what :
       {std::vector<std::string>{"blue"}, {"blue", "vlan", "0"}}) {
    EXPECT_THAT(h1->Command("fdb/flush", what), HasSubstr(" addresses flushed"));
    EXPECT_EQ(h1->OriginOf(kB), "announced") << "though no time passes";
    ExpectUnicast(h1, h2, kB, /*floods=*/false);
  }
  // An operator's entry stands over an announced one while it is there.
  h1->Command("fdb/add", {"blue", "0", kB.ToString(), "v1"});
  ASSERT_EQ(h1->OriginOf(kB), "static");
  h1->Command("fdb/del", {"blue", "0", kB.ToString()});
  EXPECT_TRUE(IsAt(h1, kB, h2->Qpn()));
}

// Two stations have one MAC, and both speak.
TEST_F(AgentProtocolTest, LaterOfTwoClaimantsStopsAfterFiveLostClaims) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kOneVes), *h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(Speaks(h1, kC, h3));
  ASSERT_TRUE(IsAnnounced(h2, kC, h1)) << "h2 would not know that it came later";
  const auto is_told = [](Host* host, Host* other) {
    const std::string events = host->Command("fdb/monitor", {"blue"});
    return absl::StrContains(events, absl::StrCat("duplicate  MAC ", kC.ToString(),
                                                  " in VLAN 0 is on this host and on ")) &&
           absl::StrContains(events, IdOf(other));
  };
  // Each takes it back in turn, after the hold-down, and before the other one counts as silent.
  const auto has = [&](Host* host) {
    Host* const loser = host == h1 ? h2 : h1;
    return IsAt(h3, kC, host->Qpn()) && h3->OriginOf(kC) == "announced" &&
           IsAt(loser, kC, host->Qpn()) && loser->OriginOf(kC) == "announced";
  };
  const auto takes = [&](Host* host) {
    Pass(absl::Milliseconds(300));
    const absl::Time end = clock_.Now() + absl::Milliseconds(600);
    while (!has(host) && clock_.Now() < end) {
      host->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kC));
      const absl::Time step = watch_.Now() + absl::Milliseconds(10);
      Until([&] { return has(host) || watch_.Now() >= step; });
      Pass(absl::Milliseconds(100));
    }
    return has(host);
  };
  int taken = 0;
  while (taken < 20 && takes(h2)) {
    ++taken;
    ASSERT_TRUE(takes(h1)) << taken;
  }
  EXPECT_EQ(taken, 5);
  EXPECT_TRUE(has(h1));
  EXPECT_TRUE(is_told(h1, h2)) << h1->Command("fdb/monitor", {"blue"});
  EXPECT_TRUE(is_told(h2, h1)) << h2->Command("fdb/monitor", {"blue"});
  Pass(absl::Seconds(180));
  EXPECT_TRUE(takes(h2)) << "it may have moved there for good";
}

// A station is back at its former host within the hold-down, speaks to another one there, and is
// silent from then on. No other agent hears it.
TEST_F(AgentProtocolTest, StationThatReturnsDuringTheHoldDownAndIsSilentIsFound) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", absl::StrCat(kOneVes, kSecondVPort)),
       *h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h1, kC, h2));
  ASSERT_TRUE(Speaks(h2, kB, h1));
  ASSERT_TRUE(IsAnnounced(h3, kB, h2));
  h3->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  ASSERT_TRUE(Until([&] { return IsAt(h1, kB, h3->Qpn()) && IsAt(h2, kB, h3->Qpn()); }));
  clock_.Advance(absl::Milliseconds(50));
  h2->port("v1")->Inject(MakeFrame(kC, kB));
  ASSERT_TRUE(Arrives(h2->port("v2"), MakeFrame(kC, kB)));
  for (int i = 0; i < 10; ++i) PumpAll();
  ASSERT_TRUE(IsAt(h1, kB, h3->Qpn()));

  const absl::Time back = clock_.Now();
  EXPECT_TRUE(PassUntil([&] { return !h1->Knows(kB) && !h2->Knows(kB) && !h3->Knows(kB); }));
  EXPECT_LT(clock_.Now() - back, absl::Seconds(100)) << "long before it ages out";
  h1->port("v1")->Inject(MakeFrame(kB, kA));
  EXPECT_TRUE(Arrives(h2->port("v1"), MakeFrame(kB, kA)));
}

TEST_F(AgentProtocolTest, PortThatGoesDownTakesItsLearnedMacsAlong) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  // Once: a later frame would bring the MAC back.
  h2->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  ASSERT_TRUE(IsAnnounced(h1, kB, h2));
  h2->port("v1")->SetTransmitResult(DropReason::kPortDown);
  h1->port("v1")->Inject(MakeFrame(kB, kA));
  ASSERT_TRUE(Until([&] { return !h2->Knows(kB); }));
  const absl::Time down = clock_.Now();
  int turns = 0;  // slowly, so that the worker's report is not late
  EXPECT_TRUE(Until([&] {
    if (++turns % 10 == 0 && clock_.Now() < down + absl::Milliseconds(200))
      clock_.Advance(absl::Milliseconds(1));
    return !h1->Knows(kB);
  })) << "before the next comparison with the FDB";
}

// As soon as it has left Probes unanswered for 300 ms. `Pass` moves the clock by 100 ms.
TEST_F(AgentProtocolTest, OrderlyStopRemovesEntriesSoon) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kStaticB);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h1, kB, h2));
  bool stopped = false;
  h2->agent()->Stop([&stopped] { stopped = true; });
  ASSERT_TRUE(Until([&] { return stopped; }));
  const absl::Time stop = clock_.Now();
  EXPECT_TRUE(PassUntil([&] { return !h1->Knows(kB); }));
  EXPECT_LE(clock_.Now() - stop, absl::Seconds(1)) << "long before it counts as lost";
  EXPECT_FALSE(h1->Knows(h2->port("v1")->mac()));
}

TEST_F(AgentProtocolTest, RestartedAgentLeavesNothingStale) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kStaticB);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h1, kB, h2));
  ASSERT_TRUE(Speaks(h2, kC, h1));
  const std::string former = h2->Qpn();
  KillHost(h2);
  h2 = AddHost("h2", kStaticB);
  ASSERT_TRUE(AllJoined());
  ASSERT_NE(h2->Qpn(), former);
  EXPECT_TRUE(PassUntil(
      [&] { return absl::StrContains(h1->Command("peers"), "incarnation 2, 1 vPorts"); }));
  EXPECT_TRUE(IsAt(h1, kB, h2->Qpn()));
  EXPECT_FALSE(h1->Knows(kC)) << "its station has not spoken since";
  EXPECT_THAT(h1->Command("fdb/show"), Not(HasSubstr("QPN " + former)));
  ExpectUnicast(h1, h2, kB, /*floods=*/false);
}

TEST_F(AgentProtocolTest, AgentThatReturnsWithFewerVPortsLeavesNoStaleEntries) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", absl::StrCat(kStaticB, kSecondVPort));
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h1, kC, h2));
  KillHost(h2);
  h2 = AddHost("h2", kStaticB);
  ASSERT_TRUE(AllJoined());
  EXPECT_TRUE(PassUntil(
      [&] { return absl::StrContains(h1->Command("peers"), "incarnation 2, 1 vPorts"); }));
  EXPECT_FALSE(h1->Knows(kC));
  EXPECT_TRUE(IsAt(h1, kB, h2->Qpn()));
}

// Probes after 1.0, 1.5 and 2.0 s, the verdict after 2.5 s.
TEST_F(AgentProtocolTest, SilentAgentThatGetsTrafficIsLost) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kStaticB);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h1, kB, h2));
  ExpectUnicast(h1, h2, kB, /*floods=*/false);  // its path is known
  ASSERT_TRUE(Speaks(h2, kB, h1));
  for (int step = 0; step < 30; ++step) {  // until nothing is left to be said
    Pass(absl::Milliseconds(100));
    ASSERT_TRUE(CatchesUp(h1, kA) && CatchesUp(h2, kB));
  }
  Isolate("h2");
  ASSERT_TRUE(CatchesUp(h1, kA));
  Pass(absl::Milliseconds(250));  // until it is noted what was heard
  const uint64_t sent = h1->Stat("protocol_unicast_messages");
  std::vector<absl::Duration> at;  // of the probes and the verdict
  const absl::Time start = clock_.Now();
  while (at.size() < 4 && clock_.Now() < start + absl::Seconds(10)) {
    const uint64_t frames = h1->Stat("transmitted_fabric");
    h1->port("v1")->Inject(MakeFrame(kB, kA));
    ASSERT_TRUE(Until([&] { return h1->Stat("transmitted_fabric") > frames; }));
    Pass(absl::Milliseconds(50));
    const uint64_t events =
        h1->Stat("protocol_unicast_messages") - sent + h1->Stat("protocol_lost_addresses");
    while (at.size() < events) at.push_back(clock_.Now() - start);
  }
  ASSERT_EQ(at.size(), 4u);
  EXPECT_EQ(h1->Stat("protocol_lost_addresses"), 1u);
  EXPECT_GE(at[0], absl::Seconds(1));
  EXPECT_LE(at[0], absl::Milliseconds(1500))
      << "traffic is noted each 250 ms, and this loop takes steps";
  for (size_t i = 1; i < at.size(); ++i) {
    EXPECT_GE(at[i] - at[i - 1], absl::Milliseconds(450));
    EXPECT_LE(at[i] - at[i - 1], absl::Milliseconds(550));
  }
  EXPECT_FALSE(h1->Knows(kB));
  const uint64_t flooded = h1->Stat("flooded_unknown");
  h1->port("v1")->Inject(MakeFrame(kB, kA));
  EXPECT_TRUE(Until([&] { return h1->Stat("flooded_unknown") == flooded + 1; }));
}

TEST_F(AgentProtocolTest, IdleAgentIsNotProbed) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kStaticB);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h1, kB, h2));
  ASSERT_TRUE(HasWholeState(h1, h2));
  Isolate("h2");
  ASSERT_TRUE(CatchesUp(h1, kA));
  Pass(absl::Seconds(3));
  const uint64_t sent = h1->Stat("protocol_unicast_messages");
  Pass(absl::Seconds(30));
  EXPECT_EQ(h1->Stat("protocol_unicast_messages"), sent);
  EXPECT_TRUE(h1->Knows(kB));
}

TEST_F(AgentProtocolTest, StaleFrameAtTheFormerHostDoesNotTakeAMacBack) {
  Host *h1 = AddHost("h1", kOneVes), *h2 = AddHost("h2", kOneVes), *h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(Speaks(h2, kB, h1));
  ASSERT_TRUE(IsAnnounced(h3, kB, h2));
  h3->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  EXPECT_TRUE(Until([&] { return IsAt(h1, kB, h3->Qpn()) && IsAt(h2, kB, h3->Qpn()); }))
      << "though no time passes";

  clock_.Advance(absl::Milliseconds(99));
  h2->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
  EXPECT_TRUE(Arrives(h1->port("v1"), MakeFrame(MacAddr::Broadcast(), kB)));
  for (int i = 0; i < 10; ++i) PumpAll();
  for (Host* host : {h1, h2}) EXPECT_TRUE(IsAt(host, kB, h3->Qpn()));
  EXPECT_TRUE(PassUntil([&] {
    h2->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
    return IsAt(h1, kB, h2->Qpn()) && IsAt(h3, kB, h2->Qpn());
  }));
}

TEST_F(AgentProtocolTest, RestartOfAPeerThatAnnouncesNothing) {
  Host* h1 = AddHost(
      "h1",
      absl::StrReplaceAll(kOneVes, {{"pkey = 0x8001\n", "pkey = 0x8001\ndamping_moves = 2\n"}}));
  Host* h2 = AddHost("h2", kDataOnly);
  ASSERT_TRUE(AllJoined());
  for (int restarts = 0; restarts < 3; ++restarts) {
    ASSERT_TRUE(Speaks(h2, kB, h1));
    ASSERT_TRUE(Speaks(h2, kC, h1));
    ExpectUnicast(h1, h2, kB, /*floods=*/false);
    const std::string former = h2->Qpn();
    KillHost(h2);
    h2 = AddHost("h2", kDataOnly);
    ASSERT_TRUE(AllJoined());
    h2->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kB));
    EXPECT_TRUE(Until([&] { return IsAt(h1, kB, h2->Qpn()); }));
    EXPECT_TRUE(IsAt(h1, kC, former)) << "it did not speak yet";
    PumpAll();
    Pass(absl::Milliseconds(2900));
    EXPECT_TRUE(h1->Knows(kC));
    Pass(absl::Milliseconds(200));
    EXPECT_FALSE(h1->Knows(kC)) << "the former queue pair is silent";
    EXPECT_TRUE(IsAt(h1, kB, h2->Qpn()));
  }
  EXPECT_THAT(h1->Command("fdb/frozen"), Not(HasSubstr(kB.ToString())));
}

// The original has the lower incarnation, and takes a new id in all its VESes.
TEST_F(AgentProtocolTest, OriginalOfACopiedStateDirectoryTakesANewId) {
  testing::internal::CaptureStderr();
  Host *h1 = AddHost("h1",
                     absl::StrReplaceAll(absl::StrCat(kTwoVeses, kSecondVPort),
                                         {{"\"v2\"\nves = \"blue\"", "\"v3\"\nves = \"blue\""}})),
       *h3 = AddHost("h3", kOneVes);
  ASSERT_TRUE(AllJoined());
  ASSERT_TRUE(IsAnnounced(h3, kC, h1));
  const std::string id = IdOf(h1);
  std::filesystem::create_directory(state_.path() + "/h2");
  std::filesystem::copy_file(state_.path() + "/h1/agent.json", state_.path() + "/h2/agent.json");
  Host* h2 = AddHost("h2", kTwoVeses);
  ASSERT_TRUE(AllJoined());
  EXPECT_TRUE(PassUntil([&] { return IdOf(h1) != id; }));
  EXPECT_EQ(IdOf(h2), id);
  EXPECT_TRUE(PassUntil([&] { return absl::StrContains(h3->Command("peers"), IdOf(h1)); }));
  EXPECT_TRUE(IsAnnounced(h3, kC, h1));
  const uint64_t floods = h3->Stat("flooded_unknown");
  h3->port("v1")->Inject(MakeFrame(kC, kA));
  EXPECT_TRUE(Arrives(h1->port("v3"), MakeFrame(kC, kA)));
  EXPECT_EQ(h3->Stat("flooded_unknown"), floods);

  const std::string of_h1 = absl::StrCat("this agent is ", IdOf(h1), ", incarnation 1");
  const std::vector<std::string> parts = absl::StrSplit(h1->Command("peers"), of_h1);
  EXPECT_EQ(parts.size(), 3u) << "in both VESes";
  std::ifstream file(state_.path() + "/h1/agent.json");
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(file), {}), HasSubstr(IdOf(h1)))
      << "also after a restart";

  const std::vector<std::string> lines =
      absl::StrSplit(testing::internal::GetCapturedStderr(), '\n');
  const auto count = [&lines](const std::string& text) {
    return std::count_if(lines.begin(), lines.end(), [&text](const std::string& line) {
      return absl::StrContains(line, text);
    });
  };
  EXPECT_EQ(count("this agent has the id " + IdOf(h1) + " from now on"), 1);
  EXPECT_GE(count("has this agent's id; one of the two"), 2) << "of each";
  EXPECT_TRUE(PassUntil([&] {
    return !absl::StrContains(h1->Command("peers"), "has this agent's id") &&
           !absl::StrContains(h2->Command("peers"), "has this agent's id");
  }));
}

}  // namespace
}  // namespace eoib
