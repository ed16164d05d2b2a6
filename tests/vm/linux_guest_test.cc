// Virtual machines with Debian's kernel and its stock drivers as guests of the switch, over
// vhost-user: DHCP, TCP with offloads, VLANs and MACs inside of the guest.
#include "tests/vm/linux_guest.h"

#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = 8'000'000;
constexpr int kLargeFrame = 3000;  // twice the guest's MTU

// Two guests of one tenant, on h1 behind a trunk and on h2, and a server on h3.
class LinuxGuestTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    StartFabric({PartitionSpec()});
    AgentSpec spec;
    spec.vports = {{"v1", "red"}, {"v20", "red", "access_vlan = 20\n"}};
    for (const int number : {1, 2}) AddGuest(number, number == 1 ? "mode = \"trunk\"\n" : "");
    server_ = AddAgent("h3", spec).host();
    for (const char* address : {"10.0.0.1/24", "10.1.0.1/24", "10.2.0.1/24"})
      server_->AddAddress("v1", address);
    server_->AddAddress("v20", "10.20.0.1/24");
    dnsmasq_ = server_->Start(
        {"dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--port=0",
         "--no-ping", "--user=root", "--interface=v1", "--bind-interfaces", "--dhcp-authoritative",
         "--dhcp-leasefile=" + lab().Path("leases"),
         "--pid-file=", "--dhcp-range=10.0.0.100,10.0.0.150,1h",
         "--dhcp-host=52:54:00:00:00:01,10.0.0.101", "--dhcp-host=52:54:00:00:00:02,10.0.0.102"});
  }
  void TearDown() override {
    for (auto& guest : guests_) guest.reset();
    dnsmasq_.reset();
    for (auto& agent : machines_) {
      if (agent == nullptr) continue;
      ExpectConservation(agent.get());
      EXPECT_EQ(agent->Stop(), 0) << agent->Log();
    }
    SwitchTest::TearDown();
  }

  void AddGuest(int number, const std::string& mode) {
    const std::string socket = lab().Path(absl::StrCat("vm", number, ".sock"));
    Host* const host = lab().AddHost(absl::StrCat("h", number));
    AgentSpec spec;
    spec.vports = {
        {"m1", "red", absl::StrCat("type = \"vhost-user\"\nsocket = \"", socket, "\"\n", mode)}};
    auto& agent = machines_[number - 1];
    agent = std::make_unique<Agent>(&lab(), &fabric(), host, spec);
    agent->Launch();
    agent->WaitUntil({"show"}, [](const std::string& show) {
      return show.find(": joined") != std::string::npos;
    });
    guests_[number - 1] =
        std::make_unique<LinuxGuest>(&lab(), host,
                                     QemuGuestSpec{.name = absl::StrCat("vm", number),
                                                   .mac = absl::StrCat("52:54:00:00:00:0", number),
                                                   .netdev = VhostUser(socket)});
  }
  LinuxGuest& guest(int number) { return *guests_[number - 1]; }
  Agent& agent_of(int number) { return *machines_[number - 1]; }

  // A counter of eth0: "tx_bytes".
  int64_t Count(int number, const std::string& name) {
    int64_t value = 0;
    EXPECT_TRUE(absl::SimpleAtoi(
        guest(number).MustRun("cat /sys/class/net/eth0/statistics/" + name), &value));
    return value;
  }
  // Expects that frames larger than two of the MTU pass eth0 on average while `transfer` runs.
  template <typename Transfer>
  void ExpectSuperFrames(int number, const std::string& direction, Transfer transfer) {
    const int64_t bytes = Count(number, direction + "_bytes"),
                  packets = Count(number, direction + "_packets");
    transfer();
    ASSERT_GT(Count(number, direction + "_bytes") - bytes, static_cast<int64_t>(kBytes));
    EXPECT_GT((Count(number, direction + "_bytes") - bytes) /
                  (Count(number, direction + "_packets") - packets),
              kLargeFrame)
        << "guest " << number << ", " << direction;
  }
  void WaitForListener(uint16_t port) {
    EXPECT_TRUE(EventuallyTrue(lab::kPatience, [&] {
      return server_->Run({"ss", "-Hltn", absl::StrCat("sport = :", port)}).out.find("LISTEN") !=
             std::string::npos;
    }));
  }
  static std::string FirstWord(const std::string& text) { return text.substr(0, text.find(' ')); }

  // Bulk TCP from guest 1 to the server and back. The content arrives as it was. httpd sends files,
  // so TCP has whole super-frames at once; what nc writes may leave in segments while the link has
  // nothing else to do.
  void TransferToServer() {
    guest(1).MustRun("httpd -p 5001 -h /tmp");
    const std::string file = lab().Path("received");
    EXPECT_TRUE(
        server_->Run({"busybox", "wget", "-q", "-O", file, "http://10.0.0.101:5001/file"}).ok());
    EXPECT_EQ(FirstWord(RunOnMachine({"md5sum", file}).out), sum_);
  }
  void TransferFromServer() {
    const auto sender =
        server_->Start({"socat", "-u", "OPEN:" + lab().Path("received"), "TCP-LISTEN:5002"});
    WaitForListener(5002);
    EXPECT_EQ(FirstWord(guest(1).MustRun("nc 10.0.0.1 5002 </dev/null | md5sum")), sum_);
    EXPECT_EQ(sender->Wait(), 0) << sender->Log();
  }
  void TransferToGuest() {
    EXPECT_EQ(FirstWord(guest(2).MustRun("wget -q -O - http://10.0.0.101:5001/file | md5sum")),
              sum_);
  }

  Host* server_ = nullptr;
  std::unique_ptr<Agent> machines_[2];
  std::unique_ptr<LinuxGuest> guests_[2];
  std::unique_ptr<Process> dnsmasq_;
  std::string sum_;
};

TEST_F(LinuxGuestTest, TwoGuestsOfATenantOnThreeHosts) {
  for (const int number : {1, 2}) {
    ASSERT_TRUE(guest(number).IsReady()) << guest(number).machine().Console();
    guest(number).MustRun("ip link set eth0 up && udhcpc -i eth0 -n -q -t 20 -T 1 -s /bin/dhcp");
    EXPECT_THAT(guest(number).MustRun("ip addr show dev eth0"),
                HasSubstr(absl::StrCat("inet 10.0.0.10", number, "/24")));
  }
  guest(1).MustRun("ping -c 3 -i 0.1 10.0.0.102");
  guest(2).MustRun("ping -c 3 -i 0.1 10.0.0.1");
  ASSERT_FALSE(HasFailure());

  sum_ = FirstWord(guest(1).MustRun(
      absl::StrCat("head -c ", kBytes, " /dev/urandom >/tmp/file; md5sum /tmp/file")));
  ExpectSuperFrames(1, "tx", [this] { TransferToServer(); });
  ExpectSuperFrames(1, "rx", [this] { TransferFromServer(); });
  ExpectSuperFrames(2, "rx", [this] { TransferToGuest(); });
  for (const int number : {1, 2}) {
    EXPECT_EQ(guest(number).MustRun("awk '/^Tcp: [0-9]/ { print $15 }' /proc/net/snmp"), "0\n")
        << "bad checksums";
  }
  EXPECT_EQ(server_->Counter("Tcp", "InCsumErrors"), 0u);
  EXPECT_GT(agent_of(1).Stat("segments_sent"), 0u) << "super-frames become segments";

  // A VLAN of the trunk.
  guest(1).MustRun(
      "ip link add link eth0 name eth0.20 type vlan id 20 && ip addr add 10.20.0.2/24 dev eth0.20");
  guest(1).MustRun("ip link set eth0.20 up && ping -c 3 -i 0.1 10.20.0.1");
  EXPECT_TRUE(agent(1).Knows("52:54:00:00:00:01", "", 20));

  // A macvlan: a second MAC.
  guest(1).MustRun(
      "ip link add link eth0 name mv0 type macvlan && ip link set mv0 address 52:54:00:00:00:11");
  guest(1).MustRun(
      "ip addr add 10.1.0.2/24 dev mv0 && ip link set mv0 up && ping -c 3 -i 0.1 10.1.0.1");
  EXPECT_TRUE(agent(1).Knows("52:54:00:00:00:11"));

  // A bridge inside of the guest, with a MAC of its own.
  guest(1).MustRun(
      "ip link del mv0; brctl addbr br0 && brctl addif br0 eth0 && ip link set br0 address "
      "52:54:00:00:00:22");
  guest(1).MustRun(
      "ip addr add 10.2.0.2/24 dev br0 && ip link set br0 up && ping -c 3 -i 0.1 10.2.0.1");
  EXPECT_TRUE(agent(1).Knows("52:54:00:00:00:22"));
  EXPECT_TRUE(agent_of(1).Knows("52:54:00:00:00:22", "vPort m1"));
}

}  // namespace
}  // namespace eoib::lab
