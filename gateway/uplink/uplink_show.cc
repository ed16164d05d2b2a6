// Uplink: what it shows to an operator.
#include <nlohmann/json.hpp>
#include <string>

#include "gateway/uplink/uplink.h"
#include "vswitch/base/daemon/counter_text.h"

namespace eoib::gateway {

Json Uplink::Show() const {
  using State = UplinkElection::State;
  const absl::Time now = context_.clock->Now();
  Json json = {{"name", config_.name},
               {"ves", config_.ves},
               {"netdev", config_.netdev},
               {"vlans", config_.vlans.ToString()},
               {"priority", config_.priority},
               {"up", election_.is_up()},
               {"active_vlans", published_.ToString()}};
  const VlanSet standby = election_.In(State::kStandby);
  if (!standby.empty()) json["standby_vlans"] = standby.ToString();
  if (!trouble_.empty()) json["trouble"] = trouble_;
  if (last_failover_.has_value())
    json["last_failover_ms"] = absl::ToInt64Milliseconds(*last_failover_);
  if (port_->netdev()->mtu() != 0) json["mtu"] = port_->netdev()->mtu();
  json["peers"] = Json::array();
  for (const Gid& gid : config_.peers) {
    Json peer = {{"gid", gid.ToString()}};
    if (const absl::Time heard = election_.HeardOnWire(gid); heard != absl::InfinitePast()) {
      peer["heard_on_wire_ms"] = absl::ToInt64Milliseconds(now - heard);
    }
    if (const auto known = election_.peers().find(gid); known != election_.peers().end()) {
      peer["heard_ms"] = absl::ToInt64Milliseconds(now - known->second.heard);
      VlanSet active, standby;
      for (uint16_t value = 0; value <= Vid::kMax; ++value) {
        if (known->second.claims[value] == UplinkHello::Claim::kActive) active.Add(Vid(value));
        if (known->second.claims[value] == UplinkHello::Claim::kNone &&
            config_.vlans.vlans().Contains(Vid(value))) {
          standby.Add(Vid(value));
        }
      }
      peer["active_vlans"] = active.ToString();
      peer["standby_vlans"] = standby.ToString();
    }
    json["peers"].push_back(std::move(peer));
  }
  return json;
}

Json Uplink::Counters() const {
  Json counters;
  AddCounters(port_->counters(), &counters);
  AddCounters(counters_, &counters);
  return {{"name", config_.name}, {"counters", std::move(counters)}};
}

void Uplink::Collect(const MetricSet::Labels& labels, MetricSet* metrics) const {
  metrics->Counters("uplink_", labels, port_->counters());
  metrics->Counters("uplink_", labels, counters_);
  size_t active = 0;
  for (uint16_t value = 0; value <= Vid::kMax; ++value)
    active += published_.Contains(Vid(value)) ? 1 : 0;
  metrics->Gauge("uplink_active_vlans", "VLANs in which this gateway forwards", labels,
                 static_cast<double>(active));
}

}  // namespace eoib::gateway
