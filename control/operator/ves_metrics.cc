#include "control/operator/ves_metrics.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

using Labels = MetricSet::Labels;

void CollectCounters(const Ves& ves, const Labels& labels, MetricSet* metrics) {
  metrics->Counters("forwarder_", labels, ves.queues().counters());
  metrics->Counters("fdb_", labels, ves.fdb().counters());
  metrics->Counters("protocol_", labels, ves.protocol().engine().counters());
  metrics->Counter("unlisted_messages", "messages from ports that `agents` does not list, refused",
                   labels, ves.protocol().unlisted_messages());
  metrics->Counters("path_", labels, ves.resolver().counters());
}

// All reasons, also those that have not occurred: Prometheus sees the first increment of a series
// only if it knew its zero.
void CollectDrops(const Ves& ves, MetricSet* metrics) {
  const ForwarderCounters counters = ves.queues().counters();
  for (size_t i = 0; i < counters.drops.kSize; ++i) {
    const auto reason = static_cast<DropReason>(i);
    metrics->Counter("drops",
                     "dropped frames (side ingress) and copies of frames (side egress); eoibctl "
                     "drops explains each reason",
                     {{"ves", ves.config().name},
                      {"side", SideOf(reason) == DropSide::kIngress ? "ingress" : "egress"},
                      {"reason", InfoOf(reason).label}},
                     counters.drop(reason));
  }
}

void CollectVPort(const Ves& ves, const VPort& vport, MetricSet* metrics) {
  const Labels labels = {{"ves", ves.config().name}, {"vport", vport.config.name}};
  metrics->Counters("vport_", labels, ves.queues().CountersOf(vport));
  metrics->Gauge(
      "vport_lost",
      "1 if another program deleted the vPort's interface and it could not be made again", labels,
      vport.trouble.empty() ? 0 : 1);
}

void CollectAgents(const Ves& ves, const Labels& labels, MetricSet* metrics) {
  const auto& agents = ves.protocol().engine().agents();
  const auto lost = std::count_if(agents.begin(), agents.end(),
                                  [](const auto& agent) { return !agent.second->IsReachable(); });
  metrics->Gauge("ves_agents", "other agents of the VES", labels,
                 static_cast<double>(agents.size()));
  metrics->Gauge("ves_agents_lost", "other agents that do not answer", labels,
                 static_cast<double>(lost));
}

void CollectBuffers(const Ves& ves, MetricSet* metrics) {
  static constexpr std::pair<BufferPool::State, const char*> kStates[] = {
      {BufferPool::State::kFree, "free"},
      {BufferPool::State::kBatch, "batch"},
      {BufferPool::State::kPosted, "posted"},
      {BufferPool::State::kInFlight, "in_flight"},
      {BufferPool::State::kHeld, "held"}};
  static_assert(std::size(kStates) == static_cast<size_t>(BufferPool::State::kCount));
  for (const auto& [state, name] : kStates) {
    metrics->Gauge("ves_buffers",
                   "buffers of the VES: free, in the worker's batch, posted for receives, in "
                   "flight in sends, held for a path or for other segments",
                   {{"ves", ves.config().name}, {"state", name}},
                   static_cast<double>(ves.queues().Buffers(state)));
  }
}

void CollectGauges(const Ves& ves, const Labels& labels, MetricSet* metrics) {
  metrics->Gauge("ves_joined",
                 "1 if the VES is joined: it has its flood group, or floods by unicast copies",
                 labels, ves.group().joined().has_value() ? 1 : 0);
  metrics->Gauge("ves_carrier", "1 if the interfaces of the VES have carrier", labels,
                 ves.vports().carrier() ? 1 : 0);
  metrics->Gauge("ves_mtu_bytes",
                 "the largest frame that a datagram of the VES carries; 0 before it is joined",
                 labels, ves.forwarder().mtu());
  metrics->Gauge("ves_vports", "vPorts of this host", labels,
                 static_cast<double>(ves.vports().size()));
  metrics->Gauge("ves_copies_under_way",
                 "copies of frames that wait for a path or for the completion of their send",
                 labels, static_cast<double>(ves.queues().counters().UnderWay()));
  metrics->Gauge("fdb_entries", "MACs in the forwarding database", labels,
                 static_cast<double>(ves.fdb().size()));
  metrics->Gauge("fdb_entries_limit", "the VES's fdb_limit", labels,
                 static_cast<double>(ves.config().fdb_limit));
}

}  // namespace

void CollectVes(const Ves& ves, MetricSet* metrics) {
  const Labels labels = {{"ves", ves.config().name}};
  metrics->Info("ves", "the partition of the VES",
                {{"ves", ves.config().name}, {"pkey", ves.config().pkey.ToString()}});
  CollectCounters(ves, labels, metrics);
  CollectGauges(ves, labels, metrics);
  CollectAgents(ves, labels, metrics);
  CollectDrops(ves, metrics);
  CollectBuffers(ves, metrics);
  for (const VPort& vport : ves.vports()) CollectVPort(ves, vport, metrics);
}

void CollectHca(const Hca& hca, MetricSet* metrics) {
  const Labels labels = {{"hca", hca.name()}};
  const absl::StatusOr<HcaPortInfo> port = hca.QueryPort();
  metrics->Gauge("hca_port_active", "1 if the subnet manager has set the HCA port active", labels,
                 port.ok() && port->active ? 1 : 0);
  metrics->Gauge("hca_capturing", "1 while a capture of the HCA port runs", labels,
                 hca.Capture().has_value() ? 1 : 0);
  for (const Hca::PortCounter& counter : hca.PortCounters()) {
    const std::string name = absl::StrCat("hca_", counter.name);
    if (counter.is_gauge) {
      metrics->Gauge(name, counter.help, labels, static_cast<double>(counter.value));
    } else {
      metrics->Counter(name, counter.help, labels, counter.value);
    }
  }
}

}  // namespace eoib
