// Diskless virtual machines that boot by PXE, from a server on another host: their firmware gets an
// address by DHCP, and a script and a file by TFTP, through the switch. The rings of vhost-user are
// driven by a driver that is not ours.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/switch_test.h"
#include "tests/vm/qemu_guest.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kBoot = absl::Seconds(60);
constexpr size_t kFileSize = 100'000;

// Host h1 has an agent for virtual machines, and h2 one with the server behind its TAP.
class PxeTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    StartFabric({PartitionSpec()});
    socket_ = lab().Path("vm1.sock");
  }
  void AddHosts(const std::string& vport, const std::string& more = "") {
    machines_ = lab().AddHost("h1");
    first_ = StartAgentForMachines(machines_, vport + more);
    AgentSpec spec;
    spec.vports = {{"v1", "red", more}};
    Host* const server = AddAgent("h2", spec, {.ipv6 = true}).host();
    server->AddAddress("v1", "10.0.0.1/24");
    server->AddAddress("v1", "fd00::1/64");
    Serve(server);
  }
  std::unique_ptr<Agent> StartAgentForMachines(Host* host, const std::string& vport) {
    AgentSpec spec;
    spec.vports = {{"v1", "red", vport}};
    auto agent = std::make_unique<Agent>(&lab(), &fabric(), host, spec);
    agent->Launch();
    agent->WaitUntil({"show"},
                     [](const std::string& show) { return absl::StrContains(show, ": joined"); });
    return agent;
  }
  // Without a router advertisement iPXE waits 15 s for one. The script shows the size of the file
  // that it has fetched, and ends the machine.
  void Serve(Host* server) {
    MustRunOnMachine({"mkdir", lab().Path("tftp")});
    WriteFile(lab().Path("tftp/boot.ipxe"),
              "#!ipxe\nimgfetch --name payload tftp://${next-server}/payload && echo fetched by "
              "${net0/mac} || echo failed\n"
              "imgstat\nsleep 1\nreboot\n");
    std::string payload;
    while (payload.size() < kFileSize) payload += static_cast<char>(payload.size() * 7);
    WriteFile(lab().Path("tftp/payload"), payload);
    dnsmasq_ = server->Start({"dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--no-resolv",
                              "--no-hosts", "--port=0", "--no-ping", "--user=root",
                              "--interface=v1", "--bind-interfaces", "--dhcp-authoritative",
                              "--dhcp-leasefile=" + lab().Path("leases"),
                              "--pid-file=", "--dhcp-range=10.0.0.100,10.0.0.150,120",
                              "--enable-ra", "--dhcp-range=fd00::,ra-only", "--enable-tftp",
                              "--tftp-root=" + lab().Path("tftp"), "--dhcp-boot=boot.ipxe"});
  }
  QemuGuest& StartGuest(const QemuGuestSpec& spec) {
    guest_ = std::make_unique<QemuGuest>(&lab(), machines_, spec);
    return *guest_;
  }
  void ExpectBoot(uint16_t vid = 0) {
    EXPECT_EQ(guest_->process()->Wait(kBoot), 0) << guest_->process()->Log() << guest_->Console();
    EXPECT_THAT(guest_->Console(), HasSubstr("fetched by 52:54:00:00:00:01"));
    EXPECT_THAT(guest_->Console(), HasSubstr(absl::StrCat("payload : ", kFileSize, " bytes")));
    EXPECT_TRUE(agent(1).Knows("52:54:00:00:00:01", "", vid));
  }
  bool Shows(const std::string& text, Agent* agent = nullptr) {
    if (agent == nullptr) agent = first_.get();
    return EventuallyTrue(kPatience,
                          [&] { return absl::StrContains(agent->Ctl({"show"}).out, text); });
  }
  void TearDown() override {
    guest_.reset();
    dnsmasq_.reset();
    for (Agent* agent : {first_.get(), other_.get()}) {
      if (agent == nullptr || !agent->Alive()) continue;
      ExpectConservation(agent);
      EXPECT_EQ(agent->Stop(), 0) << agent->Log();
    }
    SwitchTest::TearDown();
  }
  std::string VhostVPort(const std::string& more = "") {
    return absl::StrCat("type = \"vhost-user\"\nsocket = \"", socket_, "\"\n", more);
  }

  std::string socket_;
  Host* machines_ = nullptr;
  std::unique_ptr<Agent> first_, other_;
  std::unique_ptr<Process> dnsmasq_;
  std::unique_ptr<QemuGuest> guest_;
};

TEST_F(PxeTest, BootsOverVhostUserAndRefusesASecondMachine) {
  AddHosts(VhostVPort());
  EXPECT_TRUE(Shows("vPort v1: vhost-user " + socket_ +
                    ", access VLAN 0, 1 peers: no virtual machine has connected"));
  StartGuest({.netdev = VhostUser(socket_)});
  EXPECT_TRUE(Shows("vhost-user " + socket_ + ", 1 queue pair"));
  {
    QemuGuest second(&lab(), machines_,
                     {.name = "vm2", .mac = "52:54:00:00:00:02", .netdev = VhostUser(socket_)});
    EXPECT_TRUE(Shows(" refused: give each its own socket")) << "QEMU tries again and again";
    EXPECT_THAT(first_->Log(), HasSubstr("refused a second virtual machine"));
  }
  ExpectBoot();
  EXPECT_TRUE(Shows("no virtual machine has connected"));
}

// The agent is killed meanwhile: it connects again, and the firmware goes on with what it had
// begun.
TEST_F(PxeTest, BootsOverVhostUserInAVlanWhileTheAgentRestarts) {
  AddHosts(VhostVPort("socket_mode = \"client\"\n"), "access_vlan = 10\n");
  EXPECT_TRUE(Shows("there is no socket " + socket_ +
                    "; start the virtual machine, with server=on in its chardev"));
  StartGuest({.netdev = VhostUser(socket_, ",server=on,wait=off"), .device = ",host_mtu=1500"});
  EXPECT_TRUE(Shows("1 queue pair, MTU 1500"));
  other_ = StartAgentForMachines(lab().AddHost("h3"), VhostVPort("socket_mode = \"client\"\n"));
  EXPECT_TRUE(Shows("nothing answers at " + socket_ +
                        "; if another agent uses the same socket, give each vPort its own",
                    other_.get()));
  EXPECT_EQ(other_->Stop(), 0);
  first_->Kill(SIGKILL);
  first_->Launch();
  EXPECT_TRUE(Shows("1 queue pair, MTU 1500"));
  ExpectBoot(10);
}

// The machine's program takes away the memory that queues are in. Then another one comes, and the
// agent restarts meanwhile.
TEST_F(PxeTest, LostMemoryTakesDownItsVPortOnlyAndMachinesConnectAgain) {
  AddHosts(VhostVPort());
  ASSERT_TRUE(first_->Ctl({"vport", "add", "t1", "ves=red"}).ok());
  ASSERT_TRUE(EventuallyTrue(kPatience, [this] { return machines_->HasInterface("t1"); }));
  machines_->AddAddress("t1", "10.0.0.2/24");
  machines_->SetUp("t1");
  const UniqueFd memory(memfd_create("memory", MFD_CLOEXEC));
  StartGuest({.netdev = VhostUser(socket_),
              .memory_file = absl::StrCat("/proc/", getpid(), "/fd/", memory.get())});
  EXPECT_TRUE(Shows("1 queue pair"));
  guest_->process()->Kill(SIGSTOP);
  ASSERT_EQ(ftruncate(memory.get(), 0), 0);
  EXPECT_TRUE(Reaches(host(1), "10.0.0.2"));  // whose ARP request is for all vPorts
  EXPECT_TRUE(
      Shows("the virtual machine's program has shrunk the file of the memory that it shares"));
  ExpectPing(host(1), "10.0.0.2");
  guest_.reset();
  EXPECT_TRUE(Shows("no virtual machine has connected to its socket; start it"));

  StartGuest({.netdev = VhostUser(socket_, ",reconnect=1")});
  EXPECT_TRUE(Shows("1 queue pair"));
  first_->Kill(SIGKILL);
  first_->Launch();
  EXPECT_TRUE(Shows("1 queue pair"));
  ExpectBoot();
}

TEST_F(PxeTest, BootsOverABridgeAndATap) {
  AddHosts("");
  ASSERT_TRUE(EventuallyTrue(kPatience, [this] { return machines_->HasInterface("v1"); }));
  machines_->MustIp("tuntap add tap0 mode tap");
  machines_->SetUp("v1");
  machines_->SetUp("tap0");
  machines_->AddBridge("br0", {"v1", "tap0"});
  StartGuest({.netdev = ExistingTap("tap0")});
  ExpectBoot();
}

TEST_F(PxeTest, SaysThatTheMachineDoesNotShareItsMemory) {
  AddHosts(VhostVPort());
  StartGuest({.netdev = VhostUser(socket_), .shared = "off"});
  EXPECT_TRUE(
      Shows("the virtual machine does not share its memory; give QEMU -object "
            "memory-backend-memfd,share=on"))
      << first_->Ctl({"show"}).out << guest_->process()->Log();
}

TEST_F(PxeTest, VPortsComeAndGoWhileTheAgentRuns) {
  AddHosts(VhostVPort());
  const std::string socket = lab().Path("vm2.sock"), file = lab().Path("file");
  const auto add = [&](const std::string& path) {
    return first_->Ctl({"vport", "add", "vm2", "ves=red", "type=vhost-user", "socket=" + path});
  };
  WriteFile(file, "");
  EXPECT_THAT(add(file).err, HasSubstr("use the socket " + file +
                                       ": there is a file that is no socket; remove it"));
  EXPECT_THAT(add(socket_).err, HasSubstr("is also that of vPort \"v1\""));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(add(socket).ok());
    EXPECT_TRUE(Shows("vPort vm2: vhost-user " + socket));
    EXPECT_TRUE(machines_->Run({"test", "-S", socket}).ok());
    EXPECT_TRUE(first_->Ctl({"vport", "del", "vm2"}).ok());
    EXPECT_FALSE(machines_->Run({"test", "-e", socket}).ok());
  }
}

TEST_F(PxeTest, SaysWhatToInstallWithoutTheLibrary) {
  MustRunOnMachine({"mkdir", lab().Path("bin")});
  MustRunOnMachine({"cp", Binary("eoibd"), lab().Path("bin/eoibd")});
  WriteFile(lab().Path("eoibd.toml"),
            "[[ves]]\nname = \"red\"\npkey = 0x8001\n[[vport]]\nname = \"v1\"\nves = \"red\"\n" +
                VhostVPort());
  const RunResult result = RunOnMachine({lab().Path("bin/eoibd"), "--hca=soft:h1",
                                         "--config=" + lab().Path("eoibd.toml"), "--check_config"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("vPort v1: type = \"vhost-user\" needs libeoib-vhost.so"));
  EXPECT_THAT(result.err, HasSubstr("install the package eoib-vhost"));
}

class MigrationTest : public PxeTest {
 protected:
  // The answer of a machine's monitor.
  static std::string Monitor(Host* host, const std::string& socket, const std::string& command) {
    return host->Run({"socat", "-t", "5", "-", "UNIX-CONNECT:" + socket}, command + "\n").out;
  }
  // The firmware fetches a file again and again until it finds another one.
  void ServeEndlessly() {
    WriteFile(lab().Path("tftp/boot.ipxe"),
              "#!ipxe\n:again\nimgfetch --name payload tftp://${next-server}/payload || goto "
              "failed\nimgfree payload\n"
              "imgfetch --name stop tftp://${next-server}/stop || goto again\necho stopped as "
              "told\nsleep 1\nreboot\n"
              ":failed\necho failed\nreboot\n");
  }
};

// The guest's memory moves while frames come and go; a frame that is missing from the dirty log
// would corrupt it.
TEST_F(MigrationTest, GuestGoesOnAtAnotherHost) {
  AddHosts(VhostVPort());
  ServeEndlessly();
  Host* const there = lab().AddHost("h3");
  const std::string socket_there = lab().Path("vm1.there.sock");
  other_ =
      StartAgentForMachines(there, "type = \"vhost-user\"\nsocket = \"" + socket_there + "\"\n");
  const std::string monitor = lab().Path("monitor"), channel = "unix:" + lab().Path("migration");
  QemuGuest arriving(
      &lab(), there,
      {.name = "vm1.there", .netdev = VhostUser(socket_there), .more = {"-incoming", channel}});
  QemuGuest& leaving =
      StartGuest({.netdev = VhostUser(socket_),
                  .more = {"-monitor", "unix:" + monitor + ",server=on,wait=off"}});
  ASSERT_TRUE(EventuallyTrue(kBoot, [&] {
    return absl::StrContains(leaving.Console(), "/stop...");
  })) << leaving.Console();
  EXPECT_TRUE(agent(1).Knows("52:54:00:00:00:01"));
  Monitor(machines_, monitor, "migrate -d " + channel);
  std::string status;
  ASSERT_TRUE(EventuallyTrue(kBoot, [&] {
    status = Monitor(machines_, monitor, "info migrate");
    return absl::StrContains(status, "Migration status: completed");
  })) << status;
  EXPECT_TRUE(Shows("its guest has not started the interface")) << "it has stopped it here";
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (absl::StartsWith(line, "downtime:"))
      RecordProperty("downtime", std::string(absl::StripAsciiWhitespace(line)));
  }
  leaving.process()->Kill(SIGKILL);
  EXPECT_TRUE(EventuallyTrue(
      kPatience, [&] { return absl::StrContains(other_->Ctl({"show"}).out, "1 queue pair"); }));
  ASSERT_TRUE(EventuallyTrue(kBoot, [&] {
    return absl::StrContains(arriving.Console(), "/payload...");
  })) << arriving.Console();
  WriteFile(lab().Path("tftp/stop"), "stop\n");
  EXPECT_EQ(arriving.process()->Wait(kBoot), 0) << arriving.process()->Log() << arriving.Console();
  EXPECT_THAT(arriving.Console(), HasSubstr("stopped as told"));
  EXPECT_THAT(arriving.Console(), testing::Not(HasSubstr("failed")));
}

}  // namespace
}  // namespace eoib::lab
