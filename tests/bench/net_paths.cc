#include "tests/bench/net_paths.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/bench/measurements.h"

namespace eoib::bench {
namespace {

using lab::Host;

constexpr int kVxlanOverhead = 50;  // Ethernet 14, IPv4 20, UDP 8, VXLAN 8
constexpr int kMtu = 4070;          // of a vPort at an IB MTU of 4096

}  // namespace

NetPaths::NetPaths()
    : fabric_(&lab_, {{0x8001}, {0x8002}, {0x8003}}),
      one_(lab_.AddHost("h1")),
      two_(lab_.AddHost("h2")) {
  // Otherwise sockets stay paced by the machine's default (README.md, "net").
  for (Host* host : {one_, two_}) host->Sysctl("ipv4/tcp_congestion_control", "reno");
  // Two interfaces are in one VES. Each answers for its own address only.
  for (Host* host : {one_, two_}) host->Sysctl("ipv4/conf/all/arp_ignore", "1");
  AddEoib();
  AddVxlan("vxlan", {kMtu, false});
  AddVxlan("vxlan_wire", {kMtu, true});
  AddVxlan("vxlan_wire_1500", {1500 - kVxlanOverhead, true});
  AddOpenVSwitch();
  AddVeth();
}

const NetPath& NetPaths::path(const std::string& name) const {
  for (const NetPath& path : paths_) {
    if (path.name == name) return path;
  }
  lab::Die("no path " + name);
}

std::string NetPaths::NextSubnet() { return absl::StrCat("10.", paths_.size() + 1, ".0."); }

void NetPaths::Add(NetPath path) {
  Connect(one_, two_, path.interface, path.subnet);
  paths_.push_back(std::move(path));
}

void NetPaths::AddEoib() {
  lab::AgentSpec spec;
  spec.veses = {{"large", 0x8001}, {"small", 0x8002}, {"half", 0x8003, "mtu = 2048\n"}};
  spec.vports = {{"v4070", "large"},
                 {"v1500", "small", "mtu = 1500\n"},
                 {"v2022", "half"},
                 {"v9000", "large", "mtu = 9000\n"}};
  spec.flags = {"--realtime"};
  for (Host* host : {one_, two_}) {
    agents_.push_back(std::make_unique<lab::Agent>(&lab_, &fabric_, host, spec));
    agents_.back()->Start();
  }
  Add({"eoib", "v4070", NextSubnet(), ""});
  Add({"eoib_1500", "v1500", NextSubnet(), ""});
  Add({"eoib_ib2048", "v2022", NextSubnet(), ""});
  Add({"eoib_9000", "v9000", NextSubnet(), ""});
}

void NetPaths::AddVxlan(const std::string& name, const VxlanOptions& options) {
  const size_t number = paths_.size() + 1;
  const std::string underlay = absl::StrCat("u", number), interface = absl::StrCat("x", number);
  one_->AddVeth(underlay, two_, underlay, options.mtu + kVxlanOverhead);
  for (Host* host : {one_, two_}) {
    const int self = host == one_ ? 1 : 2;
    if (options.is_wire)
      host->MustRun({"ethtool", "-K", underlay, "tso", "off", "gso", "off", "gro", "off"});
    host->AddAddress(underlay, absl::StrCat("192.168.", number, ".", self, "/24"));
    host->MustIp(absl::StrCat("link add ", interface, " mtu ", options.mtu, " type vxlan id ",
                              number, " dstport 4789 local 192.168.", number, ".", self,
                              " remote 192.168.", number, ".", 3 - self, " dev ", underlay));
  }
  Add({name, interface, NextSubnet(), underlay});
}

void NetPaths::AddVeth() {
  one_->AddVeth("bare", two_, "bare", kMtu);
  Add({"veth", "bare", NextSubnet(), "bare"});
}

// Open vSwitch in user space (datapath_type netdev), with a VXLAN tunnel over a veth.
void NetPaths::AddOpenVSwitch() {
  one_->AddVeth("ou", two_, "ou", kMtu + kVxlanOverhead);
  StartVSwitch(one_, 1, "ou");
  StartVSwitch(two_, 2, "ou");
  Add({"ovs", "ovs0", NextSubnet(), "ou"});
}

void NetPaths::StartVSwitch(Host* host, int self, const std::string& underlay) {
  const std::string directory = lab_.Path(host->name() + ".ovs");
  host->MustRun({"mkdir", "-p", directory});
  const std::string database = directory + "/conf.db", socket = "unix:" + directory + "/db.sock";
  const std::vector<std::string> environment = {
      "OVS_RUNDIR=" + directory, "OVS_LOGDIR=" + directory, "OVS_DBDIR=" + directory};
  host->MustRun({"ovsdb-tool", "create", database, "/usr/share/openvswitch/vswitch.ovsschema"});
  auto& processes = vswitches_[self - 1];
  processes.push_back(
      host->Start({"ovsdb-server", database, "--remote=p" + socket, "--no-chdir"}, environment));
  const auto configure = [&](lab::Argv arguments) {
    arguments.insert(arguments.begin(),
                     {"ovs-vsctl", "--no-wait", "--timeout=10", "--db=" + socket});
    host->MustRun(arguments);
  };
  if (!lab::EventuallyTrue(lab::kPatience, [&] {
        return host->Run({"test", "-S", directory + "/db.sock"}).ok();
      })) {
    lab::Die("ovsdb-server does not start: " + processes.back()->Log());
  }
  configure({"init"});
  processes.push_back(
      host->Start({"ovs-vswitchd", socket, "--no-chdir", "--disable-system"}, environment));
  const std::string peer = absl::StrCat("192.168.200.", 3 - self);
  configure({"add-br", "phy", "--", "set", "bridge", "phy", "datapath_type=netdev", "--",
             "add-port", "phy", underlay});
  configure({"add-br", "ovs0", "--", "set", "bridge", "ovs0", "datapath_type=netdev", "--",
             "add-port", "ovs0", "tunnel", "--", "set", "interface", "tunnel", "type=vxlan",
             "options:remote_ip=" + peer});
  for (const char* interface : {"phy", "ovs0"}) {
    if (!lab::EventuallyTrue(lab::kPatience, [&] { return host->HasInterface(interface); })) {
      lab::Die("ovs-vswitchd makes no interface: " + processes.back()->Log());
    }
  }
  host->AddAddress("phy", absl::StrCat("192.168.200.", self, "/24"));
  host->MustIp(absl::StrCat("link set phy mtu ", kMtu + kVxlanOverhead, " up"));
  host->MustIp(absl::StrCat("link set ovs0 mtu ", kMtu, " up"));
}

void NetPaths::SeparateProcessors(bool separate) {
  if (std::thread::hardware_concurrency() < 2) return;
  for (int i = 0; i < 2; ++i) {
    const std::string processors =
        separate ? absl::StrCat(i) : absl::StrCat("0-", std::thread::hardware_concurrency() - 1);
    std::vector<pid_t> programs = {agents_[i]->pid()};
    for (const auto& process : vswitches_[i]) programs.push_back(process->pid());
    for (const pid_t program : programs) {
      const lab::RunResult result =
          lab::RunOnMachine({"taskset", "-a", "-c", "-p", processors, absl::StrCat(program)});
      if (!result.ok()) lab::Die(result.ToString());
    }
  }
}

void NetPaths::LoseDatagrams(const NetPath& path, int per_million) {
  if (path.underlay.empty()) {
    fabric_.Ctl({"fault", "h1", "h2", "loss", absl::StrCat(per_million)});
    return;
  }
  two_->MustIp(absl::StrCat("link set ", path.underlay, " xdpgeneric off"));
  if (per_million == 0) return;
  const std::string object = lab_.Path("drop.o");
  two_->MustRun({"clang", "-O2", "-target", "bpf", absl::StrCat("-DPER_MILLION=", per_million),
                 "-I/usr/include/x86_64-linux-gnu", "-c", "tests/bench/drop.bpf.c", "-o", object});
  two_->MustIp(absl::StrCat("link set ", path.underlay, " xdpgeneric obj ", object, " sec xdp"));
}

}  // namespace eoib::bench
