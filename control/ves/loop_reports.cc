#include "control/ves/loop_reports.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

// Frames within a second from elsewhere with the MAC of an interface of this host. An impostor or a
// late frame is no storm.
constexpr uint64_t kStorm = 100;

}  // namespace

// The end of the log line about a MAC that moved too often: how the switch treats it.
std::string LoopReports::Consequence(const Punt& punt) const {
  const MoveDamper::Options& damping = fdb_->options().damping;
  if (damping.action == MoveDamper::Action::kWarn) return "";
  if (punt.kind == Punt::Kind::kFlapping) {
    return "; it is not frozen: a port of this host is one of them, its home has no room, or as "
           "many are frozen as may be";
  }
  const auto frozen = fdb_->frozen();
  const auto at = frozen.find(punt.key);
  return absl::StrCat("; it is held at ", at == frozen.end() ? "its home" : behind_(at->second.at),
                      damping.action == MoveDamper::Action::kFreeze
                          ? absl::StrCat(" for ", absl::FormatDuration(damping.freeze), ", or")
                          : "",
                      " until `eoibctl fdb thaw ", ves_, " ", punt.key.vid().ToString(), " ",
                      punt.key.mac().ToString(), "`");
}

// Rate-limited: a station can make a MAC flap with each frame that it sends. The FDB counts all of
// them.
void LoopReports::OnDamped(const Punt& punt) {
  if (!damped_log_.Allow()) return;
  const FdbCounters counters = fdb_->counters();
  const uint64_t damped = counters.froze + counters.flapping;
  const uint64_t others = std::max<uint64_t>(damped - std::exchange(damped_logged_, damped), 1) - 1;
  const MoveDamper::Options& damping = fdb_->options().damping;
  LogWarning(absl::StrCat(
      "VES ", ves_, ": ", punt.key.mac().ToString(), " in VLAN ", punt.key.vid().ToString(),
      " moved ", damping.moves, " times within ", absl::FormatDuration(damping.window),
      ", the last time from ", behind_(punt.previous), " to ", behind_(punt.vport),
      ": two interfaces have this address, or there is a loop behind them", Consequence(punt),
      others != 0 ? absl::StrCat("; ", others, " more like this since the last message") : ""));
}

// Nothing but a loop brings it there, unless it is not unique.
void LoopReports::OnForeign(const Punt& punt) {
  if (!loop_log_.Allow()) return;
  LogWarning(absl::StrCat(
      "VES ", ves_, ": ", punt.key.mac().ToString(), " in VLAN ", punt.key.vid().ToString(),
      ", which is configured at ", behind_(punt.previous), ", was heard at ", behind_(punt.vport),
      ": there is a loop behind that vPort, or a second interface has this MAC"));
}

// The same as the other host sees it: the forwarder drops these frames.
void LoopReports::OnImpostors(uint64_t dropped) {
  const uint64_t fresh = dropped - std::exchange(impostors_, dropped);
  if (fresh < kStorm || !loop_log_.Allow()) return;
  LogWarning(absl::StrCat("VES ", ves_, ": ", fresh,
                          " frames within a second had the MAC of an interface of this host as ",
                          "source and came from elsewhere (drops: pinned_mac): there is a loop, or "
                          "a second interface has this MAC"));
}

}  // namespace eoib
