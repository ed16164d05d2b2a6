#include "tests/lab/gateway.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gateway/host/conservation_for_test.h"
#include "gateway/translation/conservation_for_test.h"
#include "gtest/gtest.h"
#include "tests/lab/agent.h"

namespace eoib::lab {
namespace {

std::string ToToml(const std::vector<GatewaySpec>& specs) {
  std::string toml;
  std::vector<std::string> veses;
  for (const GatewaySpec& spec : specs) {
    if (std::find(veses.begin(), veses.end(), spec.ves) == veses.end()) {
      absl::StrAppend(&toml, "[[ves]]\nname = \"", spec.ves, "\"\npkey = ", spec.ves_pkey, "\n");
      veses.push_back(spec.ves);
    }
    absl::StrAppend(&toml, "[[gateway]]\nname = \"", spec.name, "\"\nves = \"", spec.ves,
                    "\"\npkey = ", spec.pkey, "\n", spec.more);
  }
  return toml;
}

// The sum of the values in all lines "name value ..." with that name.
uint64_t SumOf(const std::string& text, const std::string& name, bool* found) {
  uint64_t sum = 0, value = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words = Words(line);
    if (words.size() < 2 || words[0] != name || !absl::SimpleAtoi(words[1], &value)) continue;
    sum += value;
    *found = true;
  }
  return sum;
}

Argv FlagsOf(const IpoibSpec& spec) {
  Argv flags = {absl::StrCat("--pkey=0x", absl::Hex(spec.pkey)),
                absl::StrCat("--netdev=", spec.netdev)};
  if (!spec.addresses.empty())
    flags.push_back(absl::StrCat("--address=", absl::StrJoin(spec.addresses, ",")));
  flags.insert(flags.end(), spec.more.begin(), spec.more.end());
  return flags;
}

}  // namespace

GatewayDaemon::GatewayDaemon(Lab* lab, Fabric* fabric, Host* host,
                             const std::vector<GatewaySpec>& specs, const Argv& flags)
    : Daemon(
          lab, fabric, host, "eoib-gateway",
          Concatenated({absl::StrCat("--statedir=", lab->Path(host->name()), "/state"),
                        absl::StrCat("--config=", lab->Path(host->name()), "/eoib-gateway.toml")},
                       flags)),
      specs_(specs) {
  WriteFile(directory() + "/eoib-gateway.toml", ToToml(specs));
}

std::string GatewayDaemon::State(const std::string& gateway) {
  const std::string show = Ctl({"gateway", "show", gateway}).out;
  const std::string first = show.substr(0, show.find('\n'));
  for (const char* state : {"active", "standby", "candidate", "listening", "down"}) {
    if (absl::StrContains(first, absl::StrCat(", ", state))) return state;
  }
  return "";
}

uint64_t GatewayDaemon::Stat(const std::string& name) {
  bool found = false;
  const uint64_t value = SumOf(MustCtl({"gateway", "stats"}), name, &found);
  EXPECT_TRUE(found) << "no counter " << name << " in `gateway stats`";
  return value;
}

uint64_t GatewayDaemon::Drop(const std::string& reason) {
  bool found = false;
  return SumOf(MustCtl({"gateway", "drops"}), reason, &found);
}

namespace {

// Whether no packet waits, and the counters of the VESes agree with the gateways' on the frames
// between them.
bool IsAtRest(const std::map<std::string, ipoib::Numbers>& gateways,
              std::map<std::string, Counters> veses, const std::vector<GatewaySpec>& specs) {
  return std::all_of(specs.begin(), specs.end(), [&](const GatewaySpec& spec) {
    const auto gateway = gateways.find(spec.name);
    if (gateway == gateways.end()) return false;
    ipoib::Numbers numbers = gateway->second;
    const Counters& ves = veses[spec.ves];
    numbers.insert(ves.begin(), ves.end());
    return numbers["link.under_way"] == 0 && numbers["frames_waiting"] == 0 &&
           ipoib::BrokenLaws(numbers, {absl::StrCat("frames_in = ", spec.name, ".transmitted"),
                                       absl::StrCat("frames_handed = ", spec.name, ".received")})
               .empty();
  });
}

}  // namespace

void ExpectConservation(GatewayDaemon* gateway) {
  SCOPED_TRACE(
      absl::StrCat("conservation of packets at the gateways on ", gateway->host()->name()));
  std::set<std::string> veses;
  for (const GatewaySpec& spec : gateway->specs()) veses.insert(spec.ves);
  ExpectConservation(gateway, {veses.begin(), veses.end()});
  std::string stats;
  const bool at_rest = EventuallyTrue(kPatience, [&] {
    stats = gateway->MustCtl({"gateway", "stats"});
    return IsAtRest(gateway::ParseGatewayStats(stats), VesStats(gateway), gateway->specs()) ||
           !gateway->Alive();
  });
  EXPECT_TRUE(at_rest) << "they do not come to rest: " << stats << gateway->Ctl({"stats"}).out;
  EXPECT_EQ(gateway::NotConserved(stats), "") << stats;
}

// At rest: two equal snapshots of the host's counters, with the link idle in between.
void ExpectConservation(IpoibHost* host) {
  SCOPED_TRACE(absl::StrCat("conservation of packets at eoib-ipoib on ", host->host()->name()));
  std::string stats, link;
  const bool at_rest = EventuallyTrue(kPatience, [&] {
    stats = host->MustCtl({"stats"});
    link = host->MustCtl({"link", "stats"});
    return (host->MustCtl({"stats"}) == stats && ipoib::ParseNumbers(link)["under_way"] == 0) ||
           !host->Alive();
  });
  EXPECT_TRUE(at_rest) << "it does not come to rest: " << stats << link;
  ipoib::Numbers numbers = ipoib::ParseNumbers(stats);
  numbers.merge(ipoib::ParseNumbers(link, "link."));
  EXPECT_EQ(ipoib::BrokenLaws(numbers, endpoint::HostAndLinkLaws()), "") << stats << link;
}

IpoibHost::IpoibHost(Lab* lab, Fabric* fabric, Host* host, const IpoibSpec& spec)
    : Daemon(lab, fabric, host, "eoib-ipoib", FlagsOf(spec)), spec_(spec) {}

void IpoibHost::WaitUntilReady() {
  WaitUntil({"show"}, [this](const std::string& show) {
    return absl::StrContains(show, "IPoIB link: up") &&
           std::all_of(
               spec_.addresses.begin(), spec_.addresses.end(), [&](const std::string& address) {
                 return absl::StrContains(show, absl::StrCat("address ", address, ": assigned"));
               });
  });
}

std::string IpoibHost::Address() {
  const std::string show = MustCtl({"show"});
  const size_t at = show.find("own address ");
  return at == std::string::npos ? "" : show.substr(at + 12, 59);
}

}  // namespace eoib::lab
