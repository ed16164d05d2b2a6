#include "control/operator/agent_commands.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/operator/port_commands.h"
#include "control/operator/ves_commands.h"
#include "control/operator/ves_metrics.h"
#include "control/operator/vport_commands.h"
#include "vswitch/workers.h"

namespace eoib {
namespace {

// Empty if a program runs the forwarders.
Json WorkersJson(const Agent& agent) {
  Json workers = Json::array();
  for (size_t worker = 0; worker < agent.workers(); ++worker) {
    const std::string name = Workers::NameOf(worker);
    size_t queues = 0, vports = 0;
    uint64_t frames = 0;
    for (const std::unique_ptr<Ves>& ves : agent.veses()) {
      if (ves->queues().size() <= worker) continue;
      ++queues;
      frames += ves->forwarder(worker)->counters().frames_in.value();
      vports += std::count_if(ves->vports().begin(), ves->vports().end(), [&](const VPort& vport) {
        return Workers::ReaderOf(vport.index, ves->queues().size()) == worker;
      });
    }
    workers.push_back(
        {{"name", name}, {"queue_pairs", queues}, {"vports", vports}, {"frames", frames}});
  }
  return workers;
}

// A line for each of several workers.
std::string WorkersText(const Json& shown) {
  std::string text;
  if (!HasValue(shown, "workers") || shown["workers"].size() == 1) return text;
  for (const Json& worker : shown["workers"]) {
    absl::StrAppend(&text, "worker ", TextOf(worker, "name"), ": polls ",
                    TextOf(worker, "queue_pairs"), " queue pairs, reads ", TextOf(worker, "vports"),
                    " vPorts, ", TextOf(worker, "frames"), " frames in\n");
  }
  return text;
}

Answer Show(const Agent& agent, const std::vector<UnsavedCommand>& unsaved) {
  Json json = {{"version", EOIB_VERSION},
               {"host", agent.host()},
               {"uptime_s", absl::ToInt64Seconds(agent.uptime())}};
  json.update(PortJson(*agent.fabric()));
  if (Json workers = WorkersJson(agent); !workers.empty()) json["workers"] = std::move(workers);
  json["veses"] = Json::array();
  for (const std::unique_ptr<Ves>& ves : agent.veses()) json["veses"].push_back(VesJson(*ves));
  for (const UnsavedCommand& one : unsaved)
    json["unsaved"].push_back({{"command", one.command}, {"why", one.why}});
  return Answer(json, [](const Json& shown) {
    const absl::Duration up = absl::Seconds(shown["uptime_s"].get<int64_t>());
    std::string text =
        absl::StrCat("eoib ", TextOf(shown, "version"), " on ", TextOf(shown, "host"), ", up ",
                     absl::FormatDuration(up), "\n", PortText(shown), WorkersText(shown));
    for (const Json& ves : shown["veses"]) text += VesText(ves);
    if (!HasValue(shown, "unsaved")) return text;
    for (const Json& one : shown["unsaved"])
      absl::StrAppend(&text, "unsaved: ", TextOf(one, "command"), " (", TextOf(one, "why"), ")\n");
    return text;
  });
}

absl::StatusOr<std::vector<Ves*>> FindVeses(const Agent& agent, const std::string& name) {
  std::vector<Ves*> found;
  std::vector<std::string> names;
  for (const std::unique_ptr<Ves>& ves : agent.veses()) {
    names.push_back(ves->config().name);
    if (name.empty() || name == ves->config().name) found.push_back(ves.get());
  }
  if (!found.empty()) return found;
  return absl::NotFoundError(
      absl::StrCat("no VES \"", name, "\"; there is: ", absl::StrJoin(names, ", ")));
}

// The frames of a vPort of `ves`, for a capture. Its MACs are those that are behind it now.
CaptureFilter::VPort CaptureFilterOf(const Ves& ves, const VPort& vport) {
  CaptureFilter::VPort filter;
  filter.pkey = ves.config().pkey;
  filter.macs = {vport.port->mac()};
  const LocalPort& port = ves.forwarder().ports()[vport.index];
  ves.fdb().Visit([&](const Fdb::Entry& entry) {
    if (entry.vport == port.vport) filter.macs.insert(entry.key.mac());
  });
  for (uint16_t vid = 0; vid <= Vid::kMax; ++vid) {
    bool strip;
    filter.vlans[vid] = ves.config().vlans.Contains(Vid(vid)) && port.vlan.Egress(Vid(vid), &strip);
  }
  return filter;
}

absl::StatusOr<CaptureFilter::VPort> FindCaptureFilter(const Agent& agent,
                                                       const std::string& name) {
  std::vector<std::string> names;
  for (const std::unique_ptr<Ves>& ves : agent.veses()) {
    for (const VPort& vport : ves->vports()) {
      if (vport.config.name == name) return CaptureFilterOf(*ves, vport);
      names.push_back(vport.config.name);
    }
  }
  return absl::NotFoundError(
      absl::StrCat("no vPort \"", name, "\"; there is: ", absl::StrJoin(names, ", ")));
}

void Collect(const Agent& agent, MetricSet* metrics) {
  const Hca& hca = *agent.fabric()->resources().hca;
  metrics->Info(
      "agent", "the agent's id in the vPort protocol, its host and its HCA port",
      {{"id", agent.identity().id.ToString()}, {"host", agent.host()}, {"hca", hca.name()}});
  CollectHca(hca, metrics);
  for (const Json& worker : WorkersJson(agent)) {
    metrics->Counter("worker_frames",
                     "frames that a thread has handled, from interfaces, fabric and control",
                     {{"worker", TextOf(worker, "name")}}, worker["frames"].get<uint64_t>());
  }
  for (const std::unique_ptr<Ves>& ves : agent.veses()) CollectVes(*ves, metrics);
}

}  // namespace

void RegisterAgentCommands(Agent* agent, CommandRegistry* registry,
                           std::function<std::vector<UnsavedCommand>()> unsaved) {
  registry->Register(
      {{"show", "", "the HCA port, VESes and vPorts", CommandRegistry::Access::kReadOnly, "show",
        [agent, unsaved = std::move(unsaved)](const CommandRegistry::Arguments&) {
          return Show(*agent, unsaved ? unsaved() : std::vector<UnsavedCommand>());
        }}});
  const VesFinder finder = [agent](const std::string& name) { return FindVeses(*agent, name); };
  RegisterVesCommands(finder, registry);
  RegisterVPortCommands(finder, registry);
  RegisterPeerCommands(finder, registry);
  RegisterFdbCommands(finder, registry);
  RegisterTraceCommand(finder, registry);
  RegisterCheckCommand(finder, agent->fabric(), registry);
  RegisterPortCommands(
      agent->fabric(), [agent](const std::string& name) { return FindCaptureFilter(*agent, name); },
      registry);
}

void RegisterAgentMetrics(const Agent* agent, MetricRegistry* registry) {
  registry->Register([agent](MetricSet* metrics) { Collect(*agent, metrics); });
}

}  // namespace eoib
