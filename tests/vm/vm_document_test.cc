// Follows deploy/vm.md to the letter: its vPorts and commands lead to machines that boot by PXE.
// Only the two paths that it declares as the reader's choice are replaced. Options are added, for a
// display and a disk that these machines lack.
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/switch_test.h"
#include "tests/vm/document.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;

constexpr char kPath[] = "deploy/vm.md";
// An emulated machine in an emulated machine is slow.
constexpr absl::Duration kBoot = absl::Seconds(200);

// Host h1 is for machines; host h2 has the server.
class VmDocumentTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    StartFabric({PartitionSpec()});
    MustRunOnMachine({"mkdir", lab().Path("tftp")});
    WriteFile(lab().Path("tftp/boot.ipxe"), "#!ipxe\necho booted ${net0/mac}\nsleep 1\nreboot\n");
    AgentSpec spec;
    spec.veses = {{"blue", 0x8001}};
    spec.vports = {{"web0", "blue"}};
    // AddAgent would change the interface, which has to be as the agent makes it.
    Agent& server = LaunchAgent("h2", spec, {.ipv6 = true, .dad = true});
    WaitUntilJoined(&server);
    ASSERT_TRUE(
        EventuallyTrue(kPatience, [&server] { return server.host()->HasInterface("web0"); }));
    const Document pxe(kPath, "## Booting by PXE");
    dnsmasq_ = Shell(server.host(), AsChosen(pxe.ListingBelow("`dnsmasq` on the interface")),
                     " --no-daemon --conf-file=/dev/null --port=0 --user=root --no-ping "
                     "--pid-file= --dhcp-leasefile=" +
                         lab().Path("leases"));
  }
  void TearDown() override {
    machines_.clear();
    dnsmasq_.reset();
    if (agent_ != nullptr) {
      ExpectConservation(agent_.get(), {"blue"});
      EXPECT_EQ(agent_->Stop(), 0) << agent_->Log();
    }
    SwitchTest::TearDown();
  }

  static void WaitUntilJoined(Agent* agent) {
    agent->WaitUntil({"show"},
                     [](const std::string& show) { return absl::StrContains(show, ": joined"); });
  }
  // With the paths that are the reader's choice.
  std::string AsChosen(const std::string& listing) {
    return absl::StrReplaceAll(listing, {{"/run/eoib/vm1.sock", lab().Path("vm1.sock")},
                                         {"/srv/tftp", lab().Path("tftp")}});
  }
  // Starts commands with the host's /sys and a layer over /etc, which they may change. `more` has
  // further options for the last one.
  std::unique_ptr<Process> Shell(Host* host, std::string commands, const std::string& more) {
    static constexpr char kMounts[] =
        "mount --make-rprivate /; mount -t sysfs none /sys; mount -t tmpfs none /mnt; mkdir "
        "/mnt/upper /mnt/work\n"
        "mount -t overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work none /etc\n";
    while (absl::EndsWith(commands, "\n")) commands.pop_back();
    return host->Start({"unshare", "-m", "sh", "-ec", absl::StrCat(kMounts, commands, more)});
  }
  void StartAgent(const std::string& vports) {
    host_ = lab().AddHost("h1");
    AgentSpec spec;
    spec.veses = {{"blue", 0x8001, AsChosen(vports)}};
    spec.vports = {};
    agent_ = std::make_unique<Agent>(&lab(), &fabric(), host_, spec);
    agent_->Launch();
    WaitUntilJoined(agent_.get());
    if (absl::StrContains(vports, "blue0")) {
      ASSERT_TRUE(EventuallyTrue(kPatience, [this] { return host_->HasInterface("blue0"); }));
    }
  }
  void StartMachine(const std::string& name, const std::string& commands) {
    machines_.push_back(
        Shell(host_, AsChosen(commands),
              " -machine graphics=off -display none -monitor none -no-reboot -serial file:" +
                  Console(name)));
  }
  std::string Console(const std::string& name) { return lab().Path(name + ".console"); }
  void ExpectBooted(const std::string& name, const std::string& mac) {
    EXPECT_TRUE(EventuallyTrue(
        kBoot, [&] { return absl::StrContains(ReadFile(Console(name)), "booted " + mac); }))
        << ReadFile(Console(name)) << machines_.back()->Log();
    EXPECT_TRUE(agent(1).Knows(mac, "", 0, "blue"));
  }

  Host* host_ = nullptr;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<Process> dnsmasq_;
  std::vector<std::unique_ptr<Process>> machines_;
};

TEST_F(VmDocumentTest, MachinesBootOverVhostUserAndABridge) {
  const Document vhost(kPath, "## vhost-user"), bridge(kPath, "## A Linux bridge");
  StartAgent(vhost.ListingBelow("Give the vPort a socket") +
             bridge.ListingBelow("## A Linux bridge"));
  StartMachine("vhost", vhost.ListingBelow("Start the machine with memory"));
  StartMachine("bridge", bridge.ListingBelow("Add its interface to a bridge") +
                             bridge.ListingBelow("Then start the machine"));
  ExpectBooted("vhost", "52:54:00:00:00:01");
  ExpectBooted("bridge", "52:54:00:00:00:02");
  EXPECT_THAT(agent_->Ctl({"show"}).out, HasSubstr("MTU 4070"));
}

// The server of "Booting by PXE" is an IPv6 router to the hosts of the VES, so iPXE need not wait
// for one.
TEST_F(VmDocumentTest, ServerAdvertisesItself) {
  AgentSpec spec;
  spec.veses = {{"blue", 0x8001}};
  spec.vports = {{"v1", "blue"}};
  Host* const host = AddAgent("h3", spec, {.ipv6 = true}).host();
  EXPECT_TRUE(EventuallyTrue(
      kPatience,
      [host] { return absl::StrContains(host->MustIp("-6 addr show v1"), "inet6 fd00::"); }))
      << host->MustIp("-6 addr show v1") << dnsmasq_->Log();
  EXPECT_THAT(host->MustIp("-6 route show dev v1"), HasSubstr("default via fe80::1 proto ra"));
}

// In a virtual machine, because the kernel of the test's machine may lack macvtap.
TEST_F(VmDocumentTest, AMachineBootsOverAMacvtap) {
  const Document bridge(kPath, "## A Linux bridge"), macvtap(kPath, "## A macvtap");
  StartAgent(bridge.ListingBelow("## A Linux bridge"));
  StartMachine("macvtap", macvtap.ListingBelow("gives a machine a MAC") +
                              macvtap.ListingBelow("Then start the machine"));
  ExpectBooted("macvtap", "52:54:00:00:00:03");
}

// libvirt's elements are complete and its own schema accepts them.
TEST(VmDocumentXmlTest, IsValid) {
  std::vector<std::string> interfaces;
  for (const char* heading : {"## vhost-user", "## A Linux bridge", "## A macvtap"}) {
    for (const std::string& listing : Document(kPath, heading).ListingsOf("<interface"))
      interfaces.push_back(listing);
  }
  ASSERT_EQ(interfaces.size(), 4u);
  const std::string memory = Document(kPath, "## vhost-user").ListingsOf("<memoryBacking").at(0);
  const Lab lab;
  const auto validate = [&](const std::string& interface) {
    WriteFile(
        lab.Path("domain.xml"),
        absl::StrCat("<domain type='kvm'><name>vm1</name><memory unit='MiB'>2048</memory>", memory,
                     "<os><type>hvm</type></os><devices>", interface, "</devices></domain>"));
    return RunOnMachine({"xmllint", "--noout", "--relaxng", "/usr/share/libvirt/schemas/domain.rng",
                         lab.Path("domain.xml")});
  };
  for (const std::string& interface : interfaces)
    EXPECT_TRUE(validate(interface).ok()) << interface << validate(interface).err;
  EXPECT_FALSE(
      validate(absl::StrReplaceAll(interfaces[0], {{"mode='server'", "mode='listener'"}})).ok());
}

}  // namespace
}  // namespace eoib::lab
