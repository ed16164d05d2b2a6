#include "tests/lab/agent.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "vswitch/base/drop_reason.h"

namespace eoib::lab {
namespace {

constexpr uint64_t kAnnouncements = 5;  // after a join; the same constant is in control/ves/ves.cc

// The text has lines "VES NAME", each followed by indented lines "name value ...".
std::map<std::string, Counters> ParseCounters(const std::string& text) {
  std::map<std::string, Counters> counters;
  std::string ves;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words = Words(line);
    if (words.size() < 2) continue;
    uint64_t value = 0;
    if (words[0] == "VES") {
      ves = words[1];
      counters[ves];
    } else if (absl::SimpleAtoi(words[1], &value)) {
      counters[ves][words[0]] = value;
    }
  }
  return counters;
}

uint64_t Get(const Counters& counters, const std::string& name) {
  const auto found = counters.find(name);
  if (found != counters.end()) return found->second;
  ADD_FAILURE() << "no counter " << name << " in `eoibctl stats`";
  return 0;
}

DropSide SideOf(const std::string& label) {
  for (size_t i = 0; i < static_cast<size_t>(DropReason::kCount); ++i) {
    const auto reason = static_cast<DropReason>(i);
    if (label == InfoOf(reason).label) return eoib::SideOf(reason);
  }
  ADD_FAILURE() << "`eoibctl drops` shows a reason \"" << label << "\" that eoibd does not have";
  return DropSide::kIngress;
}

uint64_t Sum(const Counters& drops, DropSide side) {
  uint64_t sum = 0;
  for (const auto& [label, count] : drops) {
    if (SideOf(label) == side) sum += count;
  }
  return sum;
}

}  // namespace

std::string ToToml(const AgentSpec& spec) {
  std::string toml = spec.top;
  // For a run of all scenarios with several workers.
  const char* const workers = std::getenv("EOIB_LAB_WORKERS");
  if (workers != nullptr && !absl::StrContains(toml, "workers"))
    absl::StrAppend(&toml, "workers = ", workers, "\n");
  for (const VesSpec& ves : spec.veses) {
    absl::StrAppend(&toml, "[[ves]]\nname = \"", ves.name, "\"\npkey = ", ves.pkey, "\n", ves.more,
                    "\n");
  }
  for (const VPortSpec& vport : spec.vports) {
    absl::StrAppend(&toml, "[[vport]]\nname = \"", vport.name, "\"\nves = \"", vport.ves, "\"\n",
                    vport.more, "\n");
  }
  return toml;
}

Agent::Agent(Lab* lab, Fabric* fabric, Host* host, const AgentSpec& spec)
    : Daemon(lab, fabric, host, "eoibd",
             Concatenated({absl::StrCat("--statedir=", lab->Path(host->name()), "/state"),
                           absl::StrCat("--config=", lab->Path(host->name()), "/eoibd.toml")},
                          spec.flags)),
      spec_(spec) {
  WriteFile(directory() + "/eoibd.toml", ToToml(spec));
}

void Agent::WaitUntilReady() {
  WaitUntil({"show"}, [this](const std::string& show) {
    const auto is_there = [this](const VPortSpec& vport) {
      return host()->HasInterface(vport.name);
    };
    return Joined(show) && std::all_of(spec_.vports.begin(), spec_.vports.end(), is_there);
  });
  for (const VPortSpec& vport : spec_.vports) {
    // The agent's interfaces get no IPv6 address by themselves.
    if (host()->has_ipv6()) host()->Sysctl("ipv6/conf/" + vport.name + "/addr_gen_mode", "0");
    host()->SetUp(vport.name);
  }
}

// The five announcements of a vPort count as from_ports of the VES, but not as received by a port.
void Agent::WaitUntilAnnounced() {
  const auto announced = [this] {
    std::map<std::string, Counters> stats = Stats();
    uint64_t from_ports = 0, received_and_announced = 0;
    for (const VesSpec& ves : spec_.veses) from_ports += Get(stats[ves.name], "from_ports");
    for (const VPortSpec& vport : spec_.vports) {
      received_and_announced += Get(stats[vport.ves], vport.name + ".received") + kAnnouncements;
    }
    return from_ports >= received_and_announced;
  };
  if (!EventuallyTrue(kPatience, announced))
    Die("eoibd on " + host()->name() + " does not announce itself: " + Ctl({"stats"}).out);
}

// `show` has a line "flood group MGID: joined, ..." or "flood by unicast copies: joined, ..." for
// each VES that has joined.
bool Agent::Joined(const std::string& show) const {
  size_t joined = 0;
  for (absl::string_view line : absl::StrSplit(show, '\n')) {
    if (absl::StartsWith(line, "  flood ") && absl::StrContains(line, ": joined")) ++joined;
  }
  return joined == spec_.veses.size();
}

std::map<std::string, Counters> VesStats(Daemon* agent) {
  return ParseCounters(agent->MustCtl({"stats"}));
}

std::map<std::string, Counters> Agent::Stats() { return VesStats(this); }
std::map<std::string, Counters> Agent::Drops() { return ParseCounters(MustCtl({"drops"})); }
uint64_t Agent::Stat(const std::string& name, const std::string& ves) {
  return Get(Stats()[ves], name);
}
uint64_t Agent::Drop(const std::string& reason, const std::string& ves) {
  SideOf(reason);
  return Drops()[ves][reason];
}

// A long answer is cut: it has a line with the command for the next rows, "more: fdb show blue 7
// 02:00:00:00:00:0a".
std::vector<FdbRow> Agent::Fdb() {
  std::vector<FdbRow> rows;
  std::vector<std::string> lines = absl::StrSplit(MustCtl({"fdb", "show"}), '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::vector<std::string> words = Words(lines[i]);
    uint32_t vid = 0;
    if (words.size() == 6 && words[0] == "more:") {
      const std::vector<std::string> more =
          absl::StrSplit(MustCtl({words[1], words[2], words[3], words[4], words[5]}), '\n');
      lines.insert(lines.begin() + static_cast<ptrdiff_t>(i) + 1, more.begin(), more.end());
      continue;
    }
    if (words.size() < 6 || !absl::SimpleAtoi(words[1], &vid)) continue;  // the heading
    rows.push_back({words[0], static_cast<uint16_t>(vid), words[2], words[3],
                    absl::StrJoin(words.begin() + 5, words.end(), " ")});
  }
  return rows;
}

bool Agent::Knows(const std::string& mac, const std::string& behind, uint16_t vid,
                  const std::string& ves) {
  for (const FdbRow& row : Fdb()) {
    if (row.ves == ves && row.vid == vid && row.mac == mac && absl::StrContains(row.behind, behind))
      return true;
  }
  return false;
}

bool Agent::KnowsAnnounced(const std::string& mac) {
  const std::vector<FdbRow> rows = Fdb();
  return std::any_of(rows.begin(), rows.end(), [&mac](const FdbRow& row) {
    return row.mac == mac && row.origin == "announced";
  });
}

bool Agent::Announces() const {
  return std::none_of(spec_.veses.begin(), spec_.veses.end(), [](const VesSpec& ves) {
    return absl::StrContains(ves.more, "announce = false");
  });
}

std::string Agent::Shown(const std::string& label) {
  const std::string show = MustCtl({"show"});
  const size_t at = show.find(label);
  EXPECT_NE(at, std::string::npos) << "no \"" << label << "\" in " << show;
  if (at == std::string::npos) return "";
  const size_t from = at + label.size();
  return show.substr(from, show.find_first_of(",\n", from) - from);
}

void ExpectConservation(Agent* agent) {
  std::vector<std::string> veses;
  for (const VesSpec& ves : agent->spec().veses) veses.push_back(ves.name);
  ExpectConservation(agent, veses);
}

void ExpectConservation(Daemon* agent, const std::vector<std::string>& veses) {
  const std::string& where = agent->host()->name();
  std::map<std::string, Counters> stats, drops;
  // At rest: nothing is under way, every frame that came in was forwarded or dropped, and two
  // snapshots are equal. A worker that is descheduled in the middle of a batch has counted only
  // part of it.
  const bool at_rest = EventuallyTrue(kPatience, [&] {
    stats = VesStats(agent);
    drops = ParseCounters(agent->MustCtl({"drops"}));
    bool idle = !stats.empty() && VesStats(agent) == stats;
    for (const auto& [ves, counters] : stats) {
      idle =
          idle && Get(counters, "under_way") == 0 &&
          Get(counters, "frames_in") == Get(counters, "forwarded") + Get(counters, "ingress_drops");
    }
    return idle || !agent->Alive();
  });
  EXPECT_TRUE(at_rest) << "conservation of frames: " << where
                       << " does not come to rest: " << agent->Ctl({"stats"}).ToString();
  for (const std::string& ves : veses) {
    SCOPED_TRACE(absl::StrCat("conservation of frames on ", where, ", VES ", ves));
    const Counters& counters = stats[ves];
    const uint64_t ingress_drops = Sum(drops[ves], DropSide::kIngress);
    const uint64_t egress_drops = Sum(drops[ves], DropSide::kEgress);
    EXPECT_EQ(Get(counters, "frames_in"), Get(counters, "forwarded") + ingress_drops);
    EXPECT_EQ(Get(counters, "egress_copies"), Get(counters, "transmitted") + egress_drops);
    EXPECT_EQ(Get(counters, "ingress_drops"), ingress_drops);
    EXPECT_EQ(Get(counters, "egress_drops"), egress_drops);
    EXPECT_EQ(
        Get(counters, "frames_in"),
        Get(counters, "from_ports") + Get(counters, "from_fabric") + Get(counters, "from_control"));
    EXPECT_EQ(Get(counters, "forwarded"),
              Get(counters, "known_unicast") + Get(counters, "flooded_unknown") +
                  Get(counters, "flooded_group") + Get(counters, "messages_sent"));
  }
}

}  // namespace eoib::lab
