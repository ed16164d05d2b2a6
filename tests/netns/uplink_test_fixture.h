// Uplinks between a VES and a physical network, whose NICs are veths and whose core is a Linux
// bridge.
#ifndef EOIB_TESTS_NETNS_UPLINK_TEST_FIXTURE_H_
#define EOIB_TESTS_NETNS_UPLINK_TEST_FIXTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/lab/gateway.h"
#include "tests/lab/sockets.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {

inline const MacAddr kA = MacAddr::FromUint64(0x02'aa'00'00'00'01);
inline const MacAddr kB = MacAddr::FromUint64(0x02'aa'00'00'00'02);

class UplinkDaemon final : public Daemon {
 public:
  UplinkDaemon(Lab* lab, Fabric* fabric, Host* host)
      : Daemon(lab, fabric, host, "eoib-gateway",
               {absl::StrCat("--statedir=", lab->Path(host->name()), "/state"),
                absl::StrCat("--config=", lab->Path(host->name()), "/eoib-gateway.toml")}) {}

  void Configure(const std::string& more) {
    WriteFile(directory() + "/eoib-gateway.toml",
              absl::StrCat("[[ves]]\nname = \"red\"\npkey = 0x8001\n[[uplink]]\nname = "
                           "\"up0\"\nves = \"red\"\nnetdev = \"e1\"\n",
                           more));
  }
  std::string Show() { return Ctl({"uplink", "show"}).out; }
  bool Shows(const std::string& text) {
    return EventuallyTrue(kPatience, [&] { return absl::StrContains(Show(), text); });
  }
  uint64_t Stat(const std::string& name) {
    const std::string stats = MustCtl({"uplink", "stats"});
    const size_t at = stats.find(absl::StrCat("  ", name, " "));
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? 0 : std::stoull(stats.substr(at + name.size() + 3));
  }
  // Milliseconds, as the gateway itself has measured; -1 if it has not taken over yet.
  int LastFailover() {
    const std::string show = Show(), label = "the last failover to it took ";
    const size_t at = show.find(label);
    return at == std::string::npos ? -1 : std::stoi(show.substr(at + label.size()));
  }
  // This host's GID, as `show` prints it.
  std::string OwnGid() {
    const std::string show = MustCtl({"show"});
    const size_t at = show.find("GID ");
    return show.substr(at + 4, show.find(',', at) - at - 4);
  }
};

// Host h1 of the VES has 10.0.0.1; host c1 behind the bridge "core" 10.0.0.101.
class UplinkTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    StartFabric({PartitionSpec()});
    core_ = lab().AddHost("core");
    c1_ = lab().AddHost("c1");
    c1_->AddVeth("eth0", core_, "s1");
    core_->AddBridge("br0", {"s1"});
  }
  void TearDown() override {
    for (auto& gateway : gateways_) {
      if (!gateway->Alive()) continue;
      ExpectConservation(gateway.get(), {"red"});
      EXPECT_EQ(gateway->Stop(), 0) << gateway->Log();
    }
    SwitchTest::TearDown();
  }
  // Without starting it.
  UplinkDaemon* AddGateway(const std::string& name, int mtu = 1500) {
    Host* const host = lab().AddHost(name);
    host->AddVeth("e1", core_, absl::StrCat("p-", name), mtu);
    core_->MustIp(absl::StrCat("link set p-", name, " master br0"));
    gateways_.push_back(std::make_unique<UplinkDaemon>(&lab(), &fabric(), host));
    return gateways_.back().get();
  }
  UplinkDaemon* StartGateway(const std::string& more, int mtu = 1500) {
    UplinkDaemon* const gateway = AddGateway("gw", mtu);
    gateway->Configure(more);
    gateway->Launch();
    gateway->WaitUntil({"uplink", "show"}, [](const std::string& show) {
      return absl::StrContains(show, "active in VLANs ") &&
             !absl::StrContains(show, "active in VLANs none");
    });
    return gateway;
  }
  Host* AddMember(const std::string& more = "") {
    AgentSpec spec;
    spec.vports = {{"v1", "red", more}};
    Host* const host = AddAgent("h1", spec).host();
    host->AddAddress("v1", "10.0.0.1/24");
    return host;
  }

  Host* core_ = nullptr;
  Host* c1_ = nullptr;
  std::vector<std::unique_ptr<UplinkDaemon>> gateways_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_NETNS_UPLINK_TEST_FIXTURE_H_
