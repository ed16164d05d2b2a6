#include "vswitch/fabric/softhca/fabricd/fabric_metrics.h"

#include <algorithm>

namespace eoib::softhca {

void CollectFabric(const Subnet& subnet, const FabricServer& server, MetricSet* metrics) {
  const auto gauge = [metrics](const char* name, const char* help, double value) { metrics->Gauge(name, help, {}, value); };
  const std::vector<Subnet::PortStatus> ports = subnet.Ports();
  const auto alive = std::count_if(ports.begin(), ports.end(), [](const auto& port) { return port.alive; });
  gauge("fabric_ports", "ports that have registered", static_cast<double>(ports.size()));
  gauge("fabric_ports_alive", "ports that a process owns", static_cast<double>(alive));
  gauge("fabric_groups", "multicast groups", static_cast<double>(subnet.Groups().size()));
  gauge("fabric_rings", "rings between ports", static_cast<double>(subnet.Rings().size()));
  gauge("fabric_connections", "connections of processes", static_cast<double>(server.clients()));
  gauge("fabric_sm_absent", "1 while the subnet manager is made absent", subnet.sm_absent() ? 1 : 0);

  const auto counter = [metrics](const char* name, const char* help, uint64_t value) {
    metrics->Counter(name, help, {}, value);
  };
  const Subnet::MadCounters mads = subnet.mad_counters();
  counter("fabric_sa_requests", "MADs that the subnet administrator answered", mads.sa.requests);
  counter("fabric_sa_errors", "MADs that it answered with an error", mads.sa.errors);
  counter("fabric_sa_malformed", "malformed MADs", mads.sa.malformed);
  counter("fabric_reports", "reports to subscribers of traps", mads.notices.reports);
  counter("fabric_reports_given_up", "reports that no subscriber confirmed", mads.notices.given_up);
  counter("fabric_connections_accepted", "connections of processes that were accepted", server.counters().accepted);
  counter("fabric_connections_refused", "connections of processes that were refused", server.counters().refused);
}

}  // namespace eoib::softhca
