#include "gateway/translation/gateway.h"

#include <sys/epoll.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "vswitch/base/daemon/counter_text.h"
#include "vswitch/base/daemon/log.h"

namespace eoib::gateway {
namespace {

using translation::NeighborRow;

// A change is saved at once, then at most once per kSaveInterval, and saving takes at most
// 1/kSaveShare of the control thread's time. A gateway that is killed loses what it learned since
// the last save.
constexpr absl::Duration kSaveInterval = absl::Milliseconds(100);
// Without changes the tables are saved for their ages, so that a busy host does not look old after
// a restart.
constexpr absl::Duration kAgesInterval = absl::Minutes(1);
constexpr int kSaveShare = 20;
// The rows of `gateway neigh show` are at most this old.
constexpr absl::Duration kRowsInterval = absl::Seconds(1);

const char* SideName(NeighborRow::Side side) {
  return side == NeighborRow::Side::kEthernet ? "ethernet" : "ipoib";
}

const char* StateName(NeighborRow::State state) {
  constexpr const char* kNames[] = {"reachable", "stale", "silent"};
  return kNames[static_cast<size_t>(state)];
}

Json TranslationStats(const GatewayPort::TaskContext& context) {
  Json json;
  const translation::Counters& counters = context.translator->counters();
  AddCounters(counters.events, &json);
  json["input_drops"] = counters.InputDrops();
  json["unanswered"] = counters[translation::Drop::kUnanswered];
  json["held_now"] = context.translator->state().resolution.held();
  AddCounters(context.port, &json);
  json["frames_waiting"] = context.port.waiting;
  json["frame_drops"] = context.port.drops.Sum();
  AddCounters(context.hellos->counters(), &json);
  return json;
}

Json RowJson(const NeighborRow& row) {
  return {{"ip", row.ip.ToString()},
          {"side", SideName(row.side)},
          {"mac", row.mac.ToString()},
          {"ipoib", row.ipoib.ToString()},
          {"age_s", absl::ToInt64Seconds(row.age)},
          {"state", StateName(row.state)}};
}

Json RouteJson(const translation::OnLink::Row& row) {
  constexpr const char* kSources[] = {"configured", "dhcp", "ra"};
  Json json = {{"source", kSources[static_cast<size_t>(row.source)]}};
  if (row.prefix.has_value()) {
    json["to"] = absl::StrCat(row.prefix->address.ToString(), "/", row.prefix->length);
  } else {
    json["to"] = "default";
    json["via"] = row.router.ToString();
  }
  if (row.left != absl::InfiniteDuration()) json["left_s"] = absl::ToInt64Seconds(row.left);
  return json;
}

}  // namespace

void Gateways::Remove(Gateway* gateway) { std::erase(all_, gateway); }

absl::StatusOr<std::vector<Gateway*>> Gateways::Find(absl::string_view name) const {
  std::vector<Gateway*> found;
  std::copy_if(all_.begin(), all_.end(), std::back_inserter(found),
               [name](const Gateway* gateway) { return name.empty() || gateway->name() == name; });
  if (!found.empty()) return found;
  const auto append_name = [](std::string* out, const Gateway* gateway) {
    absl::StrAppend(out, gateway->name());
  };
  return absl::NotFoundError(absl::StrCat(
      "no gateway \"", name, "\"; there is: ", absl::StrJoin(all_, ", ", append_name)));
}

Gateway::Gateway(const GatewayConfig& config, const Context& context)
    : config_(config),
      context_(context),
      file_(absl::StrCat(context.state_directory, "/gateway-", config.name, ".json")) {
  context_.registry->Add(this);
}

Gateway::~Gateway() {
  context_.registry->Remove(this);
  context_.loop->Cancel(timer_);
  if (link_ == nullptr) return;
  context_.loop->Remove(link_->requests_fd());
  context_.fabric->Remove(link_.get());
}

absl::StatusOr<VPort> Gateway::MakeVPort(const VPortConfig& config, int mtu,
                                         const Context& context) {
  std::shared_ptr<Gateway> gateway(new Gateway(config.details.As<GatewayConfig>(), context));
  if (absl::Status status = gateway->OpenLink(); !status.ok()) return status;
  auto port = gateway->MakePort(mtu);
  if (!port.ok()) return port.status();
  VPort vport;
  vport.config = config;
  vport.interface = std::move(gateway);
  vport.port = *std::move(port);
  return vport;
}

absl::Status Gateway::SetMtu(int mtu) {
  port_->Post([mtu](const GatewayPort::TaskContext& context) {
    context.translator->SetEthernetMtu(static_cast<uint32_t>(mtu));
  });
  return absl::OkStatus();
}

absl::Status Gateway::SetLink(bool up) {
  port_->Post([port = port_, up](const GatewayPort::TaskContext&) { port->SetVesUp(up); });
  return absl::OkStatus();
}

absl::Status Gateway::OpenLink() {
  ipoib::Link::Options options;
  options.name = absl::StrCat("IPoIB link of gateway ", config_.name);
  options.pkey = config_.pkey;
  options.scope = config_.scope;
  options.grh = config_.grh;
  options.all_groups = config_.all_groups;
  options.local_groups = true;
  options.on_lost = [this] { context_.fabric->RebuildSoon(); };
  auto link = ipoib::Link::Create(options, context_.fabric->resources());
  if (!link.ok()) return link.status();
  link_ = *std::move(link);
  context_.fabric->Add(link_.get());
  return context_.loop->Add(link_->requests_fd(), EPOLLIN,
                            [this](uint32_t) { link_->RunRequests(); });
}

GatewayPort::Options Gateway::PortOptions() const {
  return {config_.name,
          {{config_.ves_pkey, config_.vlan}, config_.priority, config_.peers},
          config_.translation};
}

void Gateway::WarnWithoutPeers() const {
  if (!config_.peers.has_value())
    LogWarning(absl::StrCat("gateway ", config_.name, ": ", kNoPeers));
}

void Gateway::Adjust(const VPortConfig& vport) {
  const bool had_peers = config_.peers.has_value();
  config_ = vport.details.As<GatewayConfig>();
  if (had_peers) WarnWithoutPeers();
  port_->Change(PortOptions());
}

absl::StatusOr<std::unique_ptr<GatewayPort>> Gateway::MakePort(int mtu) {
  WarnWithoutPeers();
  GatewayPort::Options options = PortOptions();
  options.translation.ethernet_mtu = static_cast<uint32_t>(mtu);
  auto port = GatewayPort::Create(options, link_->channel(), context_.clock);
  if (!port.ok()) return port.status();
  port_ = port->get();
  const absl::StatusOr<translation::SavedTables> saved = LoadTables(file_, absl::Now());
  if (saved.ok()) {
    port_->RunWithoutWorker(
        [&](const GatewayPort::TaskContext& context) { context.translator->Restore(*saved); });
    LogInfo(absl::StrCat("gateway ", config_.name, ": ", saved->stations.size(),
                         " IPoIB hosts and ", saved->neighbors.size(),
                         " Ethernet addresses are known from before"));
  } else {
    LogWarning(absl::StrCat("gateway ", config_.name, ": ", saved.status().message(),
                            "; hosts are learned again"));
  }
  // The worker calls this, so it only posts to the control thread.
  port_->OnChange([weak = weak_from_this(), loop = context_.loop] {
    loop->Post([weak] {
      if (const std::shared_ptr<Gateway> gateway = weak.lock()) gateway->SaveSoon();
    });
  });
  timer_ = context_.loop->AddDeadline([this] { return save_at_; }, [this] { FetchTables(); });
  return port;
}

// ---- On disk ------------------------------------------------------------------------------------

void Gateway::SaveSoon() { save_at_ = std::max(context_.clock->Now(), saved_at_ + save_interval_); }

// The worker copies its tables between two batches; the control thread writes the copy to disk.
void Gateway::FetchTables() {
  save_at_ = context_.clock->Now() + kAgesInterval;
  saved_at_ = context_.clock->Now();
  port_->Post([weak = weak_from_this(), port = port_,
               loop = context_.loop](const GatewayPort::TaskContext& context) {
    port->Saved();
    loop->Post([weak, tables = context.translator->Save()] {
      if (const std::shared_ptr<Gateway> gateway = weak.lock()) gateway->Save(tables);
    });
  });
}

void Gateway::Save(const translation::SavedTables& tables) {
  const absl::Time begin = context_.clock->Now();
  const absl::Status status = SaveTables(file_, tables, absl::Now());
  save_interval_ = std::max(kSaveInterval, kSaveShare * (context_.clock->Now() - begin));
  if (!status.ok() && !save_failed_) {
    LogWarning(absl::StrCat(
        "gateway ", config_.name, ": ", status.message(),
        "; a restart will find what was kept before, and IPoIB hosts may get other MAC addresses"));
  }
  save_failed_ = !status.ok();
}

void Gateway::SaveAtTheEnd() {
  port_->RunWithoutWorker(
      [this](const GatewayPort::TaskContext& context) { Save(context.translator->Save()); });
}

// ---- For the operator ---------------------------------------------------------------------------

absl::StatusOr<Json> Gateway::Show(absl::Time deadline) {
  Json json = {{"name", config_.name},
               {"ves", config_.ves},
               {"vlan", config_.vlan.value()},
               {"priority", config_.priority}};
  if (config_.peers.has_value()) {
    json["peers"] = Json::array();
    for (const Gid& gid : *config_.peers) json["peers"].push_back(gid.ToString());
  }
  const absl::Status asked = port_->PostAndWait(
      [&json](const GatewayPort::TaskContext& context) {
        const Election& election = context.hellos->election();
        json["state"] = eoib::gateway::StateName(election.state());
        if (const char* why = context.hellos->WhyDown(); *why != '\0') json["trouble"] = why;
        if (const auto& other = election.other()) json["other"] = other->address.ToString();
        const translation::TranslationState& known = context.translator->state();
        json["ipoib_hosts"] = known.stations.size();
        json["ethernet_addresses"] = known.neighbors.size();
        json["unlisted_hellos"] = context.hellos->counters().unlisted_hellos;
        if (election.state() == Election::State::kDown) return;
        json["hello_group"] = context.hellos->in_group() ? "own" : "broadcast";
      },
      deadline);
  if (!asked.ok()) return asked;
  json["link"] = link_->ToJson();
  return json;
}

// However often clients ask: the worker carries no packet while it copies its rows.
absl::StatusOr<Json> Gateway::ShowNeighbors(absl::Time deadline) {
  if (context_.clock->Now() - rows_at_ >= kRowsInterval) {
    std::vector<NeighborRow> rows;
    const absl::Status asked = port_->PostAndWait(
        [&rows](const GatewayPort::TaskContext& context) { rows = context.translator->Dump(); },
        deadline);
    if (!asked.ok()) return asked;
    rows_ = std::move(rows);
    rows_at_ = context_.clock->Now();
  }
  Json json = {{"name", config_.name}, {"addresses", Json::array()}};
  for (const NeighborRow& row : rows_) json["addresses"].push_back(RowJson(row));
  return json;
}

absl::StatusOr<Json> Gateway::ShowRoutes(absl::Time deadline) {
  std::vector<translation::OnLink::Row> rows;
  const absl::Status asked = port_->PostAndWait(
      [&rows](const GatewayPort::TaskContext& context) { rows = context.translator->Routes(); },
      deadline);
  if (!asked.ok()) return asked;
  Json json = {{"name", config_.name}, {"routes", Json::array()}};
  for (const translation::OnLink::Row& row : rows) json["routes"].push_back(RouteJson(row));
  return json;
}

absl::StatusOr<Json> Gateway::FlushRoutes(absl::Time deadline) {
  size_t flushed = 0;
  const absl::Status asked = port_->PostAndWait(
      [&flushed](const GatewayPort::TaskContext& context) {
        flushed = context.translator->FlushRoutes();
      },
      deadline);
  if (!asked.ok()) return asked;
  SaveSoon();
  return Json{{"name", config_.name}, {"flushed", flushed}};
}

Json Gateway::Groups() const { return {{"name", config_.name}, {"groups", link_->GroupsJson()}}; }

// The worker reads all counters between two batches, when each frame has its disposition or waits:
// so the sums agree.
absl::StatusOr<Json> Gateway::Stats(absl::Time deadline) {
  return Counters(deadline, [](const GatewayPort::TaskContext& context) -> Json {
    return {{"counters", TranslationStats(context)},
            {"link_counters",
             ipoib::StatsJson(context.channel->counters(), context.channel->UnderWay())}};
  });
}

absl::StatusOr<Json> Gateway::Drops(absl::Time deadline) {
  return Counters(deadline, [](const GatewayPort::TaskContext& context) -> Json {
    Json drops = ExplainedDrops(context.translator->counters().drops);
    for (Json& row : ExplainedDrops(context.port.drops)) drops.push_back(std::move(row));
    return {{"drops", std::move(drops)},
            {"link_drops", ExplainedDrops(context.channel->counters().drops)}};
  });
}

absl::StatusOr<Json> Gateway::Counters(absl::Time deadline, CounterReader counters) {
  Json json = {{"name", config_.name}};
  const absl::Status status = port_->PostAndWait(
      [&](const GatewayPort::TaskContext& context) { json.update(counters(context)); }, deadline);
  if (!status.ok()) return status;
  return json;
}

absl::StatusOr<Json> Gateway::Trace(TracedPacket packet, absl::Time deadline) {
  PacketTrace trace(config_.translation, config_.vlan, context_.clock);
  const absl::Status asked = port_->PostAndWait(
      [&trace](const GatewayPort::TaskContext& context) { trace.CopyFrom(*context.translator); },
      deadline);
  if (!asked.ok()) return asked;
  Json json = {{"name", config_.name}, {"trace", Json::array()}};
  const std::string text = trace.Run(std::move(packet));
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty()))
    json["trace"].push_back(std::string(line));
  return json;
}

}  // namespace eoib::gateway
