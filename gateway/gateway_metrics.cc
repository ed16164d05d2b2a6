#include "gateway/gateway_metrics.h"

#include <string>

#include "absl/time/clock.h"
#include "gateway/link/ipoib_metrics.h"

namespace eoib::gateway {
namespace {

constexpr absl::Duration kMetricsPatience = absl::Milliseconds(500);

// A copy, so that the worker spends no time on text.
struct Snapshot {
  translation::Counters translation;
  PortCounters port;
  HelloProtocol::Counters hellos;
  LabelledCounters<ipoib::DropReason> link_drops;
  const ipoib::Counters* link = nullptr;  // any thread may read all but the drops
  size_t under_way = 0;
  size_t held = 0;
};

void Read(const GatewayPort::TaskContext& context, Snapshot* snapshot) {
  snapshot->translation = context.translator->counters();
  snapshot->port = context.port;
  snapshot->hellos = context.hellos->counters();
  snapshot->link = &context.channel->counters();
  snapshot->link_drops = context.channel->counters().drops;
  snapshot->under_way = context.channel->UnderWay();
  snapshot->held = context.translator->state().resolution.held();
}

void Collect(const Snapshot& snapshot, const MetricSet::Labels& labels, MetricSet* metrics) {
  metrics->Counters("gateway_", labels, snapshot.translation.events);
  metrics->Counters("gateway_", labels, snapshot.port);
  metrics->Counters("gateway_", labels, snapshot.hellos);
  metrics->Gauge("gateway_held_packets", "packets that wait for the answer of a host", labels,
                 static_cast<double>(snapshot.held));
  metrics->Gauge("gateway_waiting_frames", "frames that wait for a buffer of the VES", labels,
                 static_cast<double>(snapshot.port.waiting));
  constexpr char kDropsHelp[] =
      "what the gateway dropped; eoibctl -t eoib-gateway gateway drops explains each reason";
  ipoib::CollectDrops("gateway_drops", kDropsHelp, labels, snapshot.translation.drops, metrics);
  ipoib::CollectDrops("gateway_drops", kDropsHelp, labels, snapshot.port.drops, metrics);
  ipoib::CollectLink(labels, *snapshot.link, snapshot.link_drops, snapshot.under_way, metrics);
}

}  // namespace

void CollectGateways(const Gateways& gateways, MetricSet* metrics) {
  const absl::Time deadline = absl::Now() + kMetricsPatience;
  for (Gateway* gateway : gateways.all()) {
    const MetricSet::Labels labels = {{"gateway", gateway->name()}};
    Snapshot snapshot;
    const absl::Status read = gateway->ReadCounters(
        [&snapshot](const GatewayPort::TaskContext& context) { Read(context, &snapshot); },
        deadline);
    metrics->Gauge("gateway_answered",
                   "1 if the gateway's worker gave its counters in time; else they are missing",
                   labels, read.ok() ? 1 : 0);
    if (read.ok()) Collect(snapshot, labels, metrics);
  }
}

}  // namespace eoib::gateway
