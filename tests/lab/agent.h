// Agent: one running eoibd in a lab, and the state that its control socket reports.
#ifndef EOIB_TESTS_LAB_AGENT_H_
#define EOIB_TESTS_LAB_AGENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/lab/daemon.h"
#include "tests/lab/fabric.h"
#include "tests/lab/lab.h"
#include "tests/lab/resources.h"

namespace eoib::lab {

struct VesSpec {
  std::string name = "red";
  uint16_t pkey = 0x8001;
  std::string more;  // further lines of TOML: "ageing = 1\n"
};

struct VPortSpec {
  std::string name = "v1";
  std::string ves = "red";
  std::string more;  // "mode = \"trunk\"\n"
};

struct AgentSpec {
  std::vector<VesSpec> veses = {VesSpec()};
  std::vector<VPortSpec> vports = {VPortSpec()};
  std::string top;  // lines of TOML before all tables: "fdb_limit = 100\n"
  Argv flags = {};  // further ones: "--metrics=9817"
};

std::string ToToml(const AgentSpec& spec);

// Counters of one VES, by name.
using Counters = std::map<std::string, uint64_t>;

// A row of `fdb show`.
struct FdbRow {
  std::string ves;
  uint16_t vid = 0;
  std::string mac;
  std::string origin;  // "static", "local", ...
  std::string behind;  // "vPort v1", "GID ... QPN ..."
};

class Agent final : public Daemon {
 public:
  Agent(Lab* lab, Fabric* fabric, Host* host, const AgentSpec& spec);

  // Waits until the agent answers, has joined the groups of all its VESes, and has made its
  // interfaces; then sets those up. On a timeout aborts the test with the agent's log.
  void WaitUntilReady();
  // Waits until the last announcement after the join was sent, for a test that counts every frame
  // from then on.
  void WaitUntilAnnounced();
  void Start() {
    Launch();
    WaitUntilReady();
  }
  const AgentSpec& spec() const { return spec_; }

  // By VES. Empty if the agent does not answer.
  std::map<std::string, Counters> Stats();
  std::map<std::string, Counters> Drops();
  // One value. An unknown counter fails the test and returns 0. A drop reason that has not occurred
  // is 0.
  uint64_t Stat(const std::string& name, const std::string& ves = "red");
  uint64_t Drop(const std::string& reason, const std::string& ves = "red");
  std::vector<FdbRow> Fdb();
  // Whether the FDB has `mac` in VLAN `vid`, in a row whose `behind` contains that text.
  bool Knows(const std::string& mac, const std::string& behind = "", uint16_t vid = 0,
             const std::string& ves = "red");
  // Whether another agent's announcement of the MAC has arrived.
  bool KnowsAnnounced(const std::string& mac);
  // Whether it speaks the vPort protocol, in all its VESes.
  bool Announces() const;
  // The text after the first `label` in `show`, up to a comma or the end of the line; "" and a
  // failed test if it is not there.
  std::string Shown(const std::string& label);
  std::string Lid() { return Shown(" LID "); }
  // The resident memory of the process.
  uint64_t ResidentKilobytes() const { return StatusKib(pid(), "VmRSS"); }

 private:
  bool Joined(const std::string& show) const;

  const AgentSpec spec_;
};

// Waits until the agent is at rest, and expects for every VES
//   frames_in = forwarded + ingress_drops   and   egress_copies = transmitted + egress_drops
// and that `drops` adds up to the same sums.
void ExpectConservation(Agent* agent);
// The same for the named VESes of any daemon that contains an agent.
void ExpectConservation(Daemon* agent, const std::vector<std::string>& veses);
// A daemon's counters, by VES; empty if it does not answer.
std::map<std::string, Counters> VesStats(Daemon* agent);

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_AGENT_H_
