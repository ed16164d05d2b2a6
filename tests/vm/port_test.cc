// Events of HCA ports on the kernel's stack: withdrawn P_Keys, cables, LIDs, an unloaded driver,
// and IPoIB on the same port.
#include <signal.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vm/infiniband_test_fixture.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;

class PortTest : public InfinibandTest {};

// OpenSM rereads partitions.conf on SIGHUP; no trap announces it.
TEST_F(PortTest, PKeyRemovalAndReturnAffectOneHostOnly) {
  StartHosts();
  StartPing(1, Address(3));
  for (int round = 0; round < 2; ++round) {
    SetPartitions({{0x8001, {"h1", "h3"}}});
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return !HasCarrier(2); }));
    EXPECT_THAT(agent(2).MustCtl({"show"}), HasSubstr("0x8001"));
    // Another partition takes its place in the P_Key table, so it comes back at another index.
    SetPartitions({{0x8001, {"h1", "h3"}}, {static_cast<uint16_t>(0x9000 + round), {"h2"}}});
    SetPartitions({{0x8001}, {static_cast<uint16_t>(0x9000 + round), {"h2"}}});
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return HasCarrier(2); }));
    ExpectReaches(1, 2);
    ExpectReaches(2, 3);
  }
  ExpectNoLoss();
}

TEST_F(PortTest, LinkDownClearsCarrierAndLinkUpRestoresTraffic) {
  StartHosts();
  StartPing(3, Address(1));
  subnet().SetCable(kH2, false);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return !HasCarrier(2); }));
  EXPECT_FALSE(host(1)->Run({"ping", "-n", "-c", "2", "-i", "0.1", "-W", "0.3", Address(2)}).ok());
  subnet().SetCable(kH2, true);
  subnet().Wait();
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return HasCarrier(2); }));
  ExpectReaches(1, 2);
  ExpectFloodsReach(2, 3);
  ExpectNoLoss();
}

TEST_F(PortTest, LidChangeIsFollowed) {
  StartHosts();
  const uint16_t old_lid = IbSubnet::Lid(kH2), new_lid = 77;
  subnet().ReassignLid(kH2, new_lid);
  EXPECT_EQ(IbSubnet::Lid(kH2), new_lid);
  ExpectShows(2, absl::StrFormat("LID 0x%x,", new_lid));
  ExpectReaches(1, 2);
  ExpectReaches(2, 3);
  subnet().ReassignLid(kH2, old_lid);
  ExpectReaches(1, 2);
}

// ---- The device.

TEST_F(PortTest, DriverUnloadsUnderTrafficAndLoadsAgain) {
  StartHosts();
  const std::string mac = host(2)->Mac("v1");
  auto stream = host(1)->Start(PingCommand(Address(2), 100'000, "0.01"));
  subnet().StopSm(kH1);
  subnet().Unload();
  for (int number : {1, 2, 3}) {
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return !HasCarrier(number); })) << "h" << number;
    EXPECT_TRUE(agent(number).Alive()) << agent(number).Log();
  }
  ExpectShows(1, "simib0");
  subnet().Load();
  subnet().Start();
  for (int number : {1, 2, 3}) agent(number).WaitUntilReady();
  ExpectReaches(1, 2);
  ExpectReaches(2, 3);
  EXPECT_EQ(host(2)->Mac("v1"), mac);
  EXPECT_TRUE(stream->Alive()) << "it must run during the whole test";
  stream->Kill(SIGINT);
  stream->Wait();
  EXPECT_GT(ParsePing(stream->Log()).received, 0);
}

// ---- The kernel's IPoIB on the same ports, in a partition of its own and in the VES's.

class SharedPortTest : public InfinibandTest {
 protected:
  // Gives host hN the kernel's interface of its adapter as ib1, with 10.1.0.N, and a child in the
  // VES's partition as ib2, with 10.2.0.N.
  void AddIpoib(int number) {
    const std::string parent = IbSubnet::IpoibInterface(number - 1),
                      child = absl::StrCat("child", number);
    MustRunOnMachine(
        {"ip", "link", "add", "link", parent, "name", child, "type", "ipoib", "pkey", "0x8001"});
    int count = 0;
    for (const std::string& interface : {child, parent}) {
      const std::string name = absl::StrCat("ib", 2 - count++);
      MustRunOnMachine({"ip", "link", "set", interface, "netns",
                        absl::StrCat(host(number)->holder()), "name", name});
      host(number)->AddAddress(name, absl::StrCat("10.", name.substr(2), ".0.", number, "/24"));
      host(number)->SetUp(name);
    }
  }
};

TEST_F(SharedPortTest, IpoibAndAgentsDoNotDisturbEachOther) {
  StartFabric({{.pkey = 0xffff, .ipoib = true}, {.pkey = 0x8001, .ipoib = true}});
  StartHosts();
  for (int number : {1, 2, 3}) AddIpoib(number);
  for (const char* address : {"10.1.0.2", "10.2.0.2"}) {
    EXPECT_TRUE(Reaches(host(1), address)) << address;
  }
  // Ping over each kind between h1 and h2, while on h3 each kind stops and starts.
  for (const std::string& address : {Address(2), std::string("10.1.0.2"), std::string("10.2.0.2")})
    StartPing(1, address);
  agent(3).Kill(SIGKILL);
  agent(3).Start();
  host(3)->MustIp("link set ib2 down");
  host(3)->MustIp("link set ib2 up");
  EXPECT_EQ(agent(3).Stop(), 0);
  agent(3).Start();
  EXPECT_TRUE(Reaches(host(3), "10.2.0.1"));
  ExpectNoLoss();
}

}  // namespace
}  // namespace eoib::lab
