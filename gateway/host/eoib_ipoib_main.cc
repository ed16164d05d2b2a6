// eoib-ipoib: an IPoIB interface (RFC 4391) for a host whose kernel has none: a TUN netdev on one
// side, a queue pair on the other.
//
// One thread does everything: it is both the control thread and the data path's.
#include <gflags/gflags.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "control/operator/port_commands.h"
#include "control/operator/ves_metrics.h"
#include "control/subnet/fabric_port.h"
#include "gateway/host/endpoint.h"
#include "gateway/host/interface_address.h"
#include "gateway/host/ip_host.h"
#include "gateway/link/ipoib_metrics.h"
#include "gateway/link/link.h"
#include "vswitch/base/daemon/control_socket_path.h"
#include "vswitch/base/daemon/counter_text.h"
#include "vswitch/base/daemon/daemon.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/base/daemon/metric_set.h"
#include "vswitch/base/daemon/program.h"
#include "vswitch/base/daemon/wait_for_hca.h"
#include "vswitch/base/system_random.h"
#include "vswitch/fabric/softhca/open_hca.h"

DEFINE_string(hca, "",
              "the HCA port: verbs:DEVICE/PORT for a real one, soft:PORTNAME for one of a software "
              "subnet; InfiniBand, not RoCE");
DEFINE_string(pkey, "0xffff", "the partition: its IPoIB link");
DEFINE_string(netdev, "ib0", "the name of the TUN");
DEFINE_string(address, "",
              "an address with its prefix length, 10.0.0.1/24 or fd00::1/64, that the TUN gets "
              "unless another host has it; several with commas, or with several of these flags");
DEFINE_bool(
    dhcp, false,
    "have an IPv4 address leased by a DHCP server of the link (RFC 4390), with its default route");
DEFINE_bool(dhcp_server, false, "a DHCP server of this host, dnsmasq on the TUN, serves the link");
DEFINE_bool(link_local, true, "make the link-local IPv6 address of the port's GUID");
DEFINE_bool(create, true, "create the broadcast group of the link if there is none");
DEFINE_bool(grh, true, "send unicast with a global route header");
DEFINE_string(rundir, "/run/eoib",
              "directory of the control socket eoib-ipoib.ctl, and of fabricd.sock unless --fabric "
              "says otherwise");
DEFINE_string(fabric, "", "soft: the socket of eoib-fabricd; default RUNDIR/fabricd.sock");
DEFINE_string(
    name, "",
    "for several interfaces on one host: the control socket is RUNDIR/eoib-ipoib.NAME.ctl");
DEFINE_string(metrics, "",
              "[ADDRESS:]PORT: serve metrics to Prometheus there, by HTTP; ADDRESS is 127.0.0.1 by "
              "default. Empty: nowhere");
DEFINE_bool(wait_for_hca, false,
            "wait for a missing HCA instead of ending with an error: for units that start at boot. "
            "A program that restarts itself adds this flag");

namespace eoib::endpoint {
namespace {

// `labels` has the name of the netdev.
void CollectHost(const IpHost& host, const MetricSet::Labels& labels, MetricSet* metrics) {
  const HostCounters& counters = host.counters();
  metrics->Counters("host_", labels, counters);
  metrics->Gauge("host_link_up", "1 if the IPoIB link is up", labels,
                 host.link_state().has_value() ? 1 : 0);
  metrics->Gauge("host_neighbors", "neighbours on the link", labels,
                 static_cast<double>(host.neighbors().size()));
  metrics->Gauge("host_waiting_packets", "packets that wait for a neighbour's address", labels,
                 static_cast<double>(host.neighbors().waiting()));
  metrics->Gauge("host_groups", "multicast groups that are listened to", labels,
                 static_cast<double>(host.memberships().Groups().size()));
  ipoib::CollectDrops("host_drops",
                      "what the host dropped; eoibctl -t eoib-ipoib drops explains each reason",
                      labels, counters.drops, metrics);
}

struct Config {
  PKey pkey;
  std::vector<InterfaceAddress> addresses;
};

absl::StatusOr<Config> ReadFlags() {
  Config config;
  const auto pkey = PKey::Parse(FLAGS_pkey);
  if (!pkey.ok()) return pkey.status();
  config.pkey = *pkey;
  for (const absl::string_view text : absl::StrSplit(FLAGS_address, ',', absl::SkipEmpty())) {
    const auto address = InterfaceAddress::Parse(text);
    if (!address.ok()) return address.status();
    config.addresses.push_back(*address);
  }
  return config;
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

// Owns the HCA port, the IPoIB link on it, and the endpoint of that link.
class IpoibHost {
 public:
  static absl::StatusOr<std::unique_ptr<IpoibHost>> Make(const Config& config, Daemon* daemon) {
    auto hca = OpenHca(FLAGS_hca, FLAGS_rundir, FLAGS_fabric, daemon->WaitUnlessSignaled());
    if (!hca.ok()) return hca.status();
    auto fabric = FabricPort::Open(*std::move(hca), daemon->loop(), daemon->clock());
    if (!fabric.ok()) return fabric.status();
    auto host = std::unique_ptr<IpoibHost>(new IpoibHost(daemon, *std::move(fabric)));
    absl::Status status = host->OpenLink(config);
    status.Update(status.ok() ? host->OpenEndpoint(config) : status);
    if (!status.ok()) return status;
    return host;
  }
  ~IpoibHost() {
    endpoint_.reset();
    if (link_ == nullptr) return;
    daemon_->loop()->Cancel(timer_);
    daemon_->loop()->Remove(link_->requests_fd());
    daemon_->loop()->Remove(link_->channel()->fd());
    fabric_->Remove(link_.get());
  }

  FabricPort* fabric() { return fabric_.get(); }
  Endpoint* endpoint() { return endpoint_.get(); }

  void RegisterCommands(CommandRegistry* commands) {
    RegisterPortCommands(fabric_.get(), FindNoVPort, commands);
    endpoint_->RegisterCommands(commands);
    using Arguments = CommandRegistry::Arguments;
    using enum CommandRegistry::Access;
    commands->Register({
        {"link/show", "", "the HCA port and the IPoIB link", kReadOnly, "link_show",
         [this](const Arguments&) { return ShowLink(); }},
        {"link/groups", "", "the multicast groups of the link that this port is in", kReadOnly,
         "link_groups",
         [this](const Arguments&) {
           return Answer({{"groups", link_->GroupsJson()}},
                         [](const Json& answer) { return ipoib::GroupsText(answer["groups"]); });
         }},
        {"link/stats", "", "counters of the IPoIB link", kReadOnly, "ipoib_stats",
         [this](const Arguments&) {
           const ipoib::Channel& channel = *link_->channel();
           return Answer({{"counters", ipoib::StatsJson(channel.counters(), channel.UnderWay())}},
                         CountersAnswerText);
         }},
        {"link/drops", "", "what the IPoIB link dropped and why", kReadOnly, "ipoib_drops",
         [this](const Arguments&) {
           return Answer({{"drops", ExplainedDrops(link_->channel()->counters().drops)}},
                         DropsAnswerText);
         }},
    });
  }
  std::string StatusLine() const {
    return absl::StrCat("IPoIB on ", FLAGS_hca, ", netdev ", FLAGS_netdev, ": ",
                        link_->is_up() ? "up" : "not joined");
  }
  void Collect(MetricSet* metrics) const {
    const MetricSet::Labels labels = {{"netdev", FLAGS_netdev}};
    const ipoib::Counters& link = link_->channel()->counters();
    CollectHca(*fabric_->resources().hca, metrics);
    CollectHost(endpoint_->host(), labels, metrics);
    ipoib::CollectLink(labels, link, link.drops, link_->channel()->UnderWay(), metrics);
  }
  void Stop(std::function<void()> done) {
    endpoint_->Stop([this, done = std::move(done)] { fabric_->Stop(done); });
  }

 private:
  Answer ShowLink() const {
    Json json = PortJson(*fabric_);
    json["link"] = link_->ToJson();
    return Answer(
        json, [](const Json& shown) { return PortText(shown) + ipoib::LinkText(shown["link"]); });
  }

  IpoibHost(Daemon* daemon, std::unique_ptr<FabricPort> fabric)
      : daemon_(daemon), fabric_(std::move(fabric)) {}

  absl::Status OpenLink(const Config& config) {
    ipoib::Link::Options options;
    options.name = FLAGS_netdev;
    options.pkey = config.pkey;
    options.create = FLAGS_create;
    options.grh = FLAGS_grh;
    options.on_lost = [this] { fabric_->RebuildSoon(); };
    auto link = ipoib::Link::Create(options, fabric_->resources());
    if (!link.ok()) return link.status();
    link_ = *std::move(link);
    fabric_->Add(link_.get());
    ipoib::Channel* const channel = link_->channel();
    timer_ = daemon_->loop()->AddDeadline([channel] { return channel->NextDeadline(); },
                                          [channel] { channel->Expire(); });
    absl::Status status = daemon_->loop()->Add(link_->requests_fd(), EPOLLIN,
                                               [this](uint32_t) { link_->RunRequests(); });
    status.Update(
        daemon_->loop()->Add(channel->fd(), EPOLLIN, [channel](uint32_t) { channel->Work(); }));
    return status;
  }

  absl::Status OpenEndpoint(const Config& config) {
    Endpoint::Options options;
    options.netdev = FLAGS_netdev;
    options.addresses = config.addresses;
    options.dhcp = FLAGS_dhcp;
    options.host_name = HostName();
    options.host.dhcp_server = FLAGS_dhcp_server;
    options.host.link_local = FLAGS_link_local;
    options.random = [this] { return random_(); };
    options.flush = [this] { link_->channel()->Flush(); };
    auto endpoint = Endpoint::Create(options, link_->channel(), daemon_->loop(), daemon_->clock());
    if (!endpoint.ok()) return endpoint.status();
    endpoint_ = *std::move(endpoint);
    link_->channel()->SetListener(endpoint_->listener());
    return absl::OkStatus();
  }

  Daemon* const daemon_;
  std::mt19937_64 random_{SystemRandom()};
  std::unique_ptr<FabricPort> fabric_;
  std::unique_ptr<ipoib::Link> link_;
  std::unique_ptr<Endpoint> endpoint_;
  EventLoop::TimerId timer_ = 0;
};

absl::Status Run() {
  const absl::StatusOr<Config> config = ReadFlags();
  if (!config.ok()) return config.status();
  const absl::StatusOr<std::string> socket =
      OwnControlSocket(FLAGS_rundir, "eoib-ipoib", FLAGS_name);
  if (!socket.ok()) return socket.status();
  auto daemon = Daemon::Open(*socket);
  if (!daemon.ok()) return daemon.status();
  if (absl::Status status = (*daemon)->ServeMetrics(FLAGS_metrics); !status.ok()) return status;
  std::unique_ptr<IpoibHost> host;
  const auto start = [&]() -> absl::Status {
    auto made = IpoibHost::Make(*config, daemon->get());
    if (!made.ok()) return made.status();
    host = *std::move(made);
    return absl::OkStatus();
  };
  ServiceManager* const service_manager = (*daemon)->service_manager();
  const absl::Status started = FLAGS_wait_for_hca ? WaitForHca(start, (*daemon)->commands(),
                                                               (*daemon)->loop(), service_manager)
                                                  : start();
  if (!started.ok()) return started;
  absl::Status deleted;
  host->endpoint()->OnTunDeleted([&] {
    deleted =
        absl::UnavailableError(absl::StrCat("another program deleted the netdev ", FLAGS_netdev));
    (*daemon)->loop()->Stop();
  });
  (*daemon)->SetStopper([&](std::function<void()> done) { host->Stop(std::move(done)); });
  host->fabric()->OnFatal(RestartProcess);
  host->RegisterCommands((*daemon)->commands());
  (*daemon)->metrics()->Register([&host](MetricSet* metrics) { host->Collect(metrics); });
  host->fabric()->Start();
  service_manager->SetStatus([&host] { return host->StatusLine(); });
  LogInfo(absl::StrCat("IPoIB on ", FLAGS_hca, ", netdev ", FLAGS_netdev, "; control socket ",
                       (*daemon)->socket_path()));
  (*daemon)->Run();
  host.reset();
  LogInfo("stopped");
  return deleted;
}

}  // namespace
}  // namespace eoib::endpoint

int main(int argc, char** argv) {
  static std::vector<std::string> arguments = eoib::endpoint::JoinAddressFlags({argv, argv + argc});
  static std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  return eoib::RunDaemon(
      {"eoib-ipoib", "an IPoIB interface for a host whose kernel has none", "eoib_ipoib_main"},
      static_cast<int>(arguments.size()), pointers.data(), eoib::endpoint::Run);
}
