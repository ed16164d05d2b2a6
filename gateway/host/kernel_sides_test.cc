// The classes towards the kernel, each by itself, in network namespaces of their own: addresses,
// routes, rules, dumps, groups, the TUN.
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>

#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gateway/host/drop_reason.h"
#include "gateway/host/host_addresses.h"
#include "gateway/host/host_routes.h"
#include "gateway/host/kernel_for_test.h"
#include "gateway/host/kernel_groups.h"
#include "gateway/host/netlink.h"
#include "gateway/host/tun_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::endpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HostAddressesTest, AnothersDefaultRouteStays) {
  WithTun([](int index) {
    const MonotonicClock clock;
    auto host = HostAddresses::Open(index, &clock);
    ASSERT_TRUE(host.ok()) << host.status();
    OutputOf(
        "ip tuntap add dev eth0 mode tun && ip link set eth0 up && ip address add 192.0.2.2/24 dev "
        "eth0");
    OutputOf("ip route add default via 192.0.2.1 dev eth0 && ip address add 10.0.0.2/24 dev ib0");
    EXPECT_TRUE(
        (*host)->SetDefaultRoute(*Ipv4Addr::Parse("10.0.0.1"), *Ipv4Addr::Parse("10.0.0.2")).ok());
    EXPECT_THAT(OutputOf("ip route"), HasSubstr("default via 192.0.2.1 dev eth0"));
    EXPECT_THAT(OutputOf("ip route"), HasSubstr("default via 10.0.0.1 dev ib0 proto dhcp"));
    // But our own route is replaced.
    EXPECT_TRUE(
        (*host)->SetDefaultRoute(*Ipv4Addr::Parse("10.0.0.9"), *Ipv4Addr::Parse("10.0.0.2")).ok());
    EXPECT_THAT(OutputOf("ip route"), HasSubstr("default via 10.0.0.9 dev ib0 proto dhcp"));
    EXPECT_THAT(OutputOf("ip route"), Not(HasSubstr("10.0.0.1 ")));
    EXPECT_TRUE((*host)->RemoveDefaultRoute(*Ipv4Addr::Parse("10.0.0.9")).ok());
    EXPECT_THAT(OutputOf("ip route"), Not(HasSubstr("10.0.0.9")));
    EXPECT_THAT(OutputOf("ip route"), HasSubstr("default via 192.0.2.1 dev eth0"));
  });
}

TEST(HostAddressesTest, TheKernelRemovesAddressesOfADeadProgram) {
  WithTun([](int index) {
    const MonotonicClock clock;
    auto host = HostAddresses::Open(index, &clock);
    ASSERT_TRUE(host.ok()) << host.status();
    auto events = Netlink::Open(RTMGRP_IPV4_IFADDR);
    ASSERT_TRUE(events.ok()) << events.status();
    const InterfaceAddress address = *InterfaceAddress::Parse("10.0.0.2/24");
    EXPECT_TRUE((*host)->Add(address, absl::InfiniteFuture()).ok());
    EXPECT_TRUE(
        (*host)->Add(*InterfaceAddress::Parse("192.0.2.2/24"), absl::InfiniteFuture()).ok());
    EXPECT_THAT(OutputOf("ip address show dev ib0 to 10.0.0.2"),
                HasSubstr("valid_lft forever preferred_lft forever"));
    EXPECT_TRUE(
        (*host)->SetDefaultRoute(*Ipv4Addr::Parse("10.0.0.1"), address.address.ipv4()).ok());
    // As at a renewal.
    EXPECT_TRUE((*host)->Add(address, clock.Now() + absl::Hours(1)).ok());
    EXPECT_THAT(OutputOf("ip address show dev ib0 to 10.0.0.2"),
                HasSubstr("valid_lft 3600sec preferred_lft 3600sec"));
    EXPECT_TRUE((*host)->Add(address, clock.Now() + absl::Seconds(1)).ok());
    const absl::Time end = clock.Now() + absl::Seconds(10);
    bool removed = false;
    while (!removed && clock.Now() < end) {
      pollfd readable = {(*events)->fd(), POLLIN, 0};
      poll(&readable, 1, 1000);
      (*events)->ReadEvents(
          [&](const nlmsghdr* message) { removed |= message->nlmsg_type == RTM_DELADDR; });
    }
    EXPECT_TRUE(removed);
    EXPECT_THAT(OutputOf("ip address show dev ib0"), Not(HasSubstr("10.0.0.2/24")));
    EXPECT_THAT(OutputOf("ip route"), Not(HasSubstr("default")));
  });
}

TEST(HostRoutesTest, RulesOfBothFamiliesAreHeardOf) {
  WithTun([](int index) {
    const MonotonicClock clock;
    auto routes = HostRoutes::Open(index, &clock);
    ASSERT_TRUE(routes.ok()) << routes.status();
    OutputOf("ip address add 10.0.0.1/24 dev ib0 && ip address add fd00::1/64 dev ib0 nodad");
    for (const char* command :
         {"ip -4 rule add to 10.0.0.9 blackhole", "ip -6 rule add to fd00::9 blackhole"}) {
      const IpAddr destination = *IpAddr::Parse(command[4] == '4' ? "10.0.0.9" : "fd00::9");
      pollfd readable = {(*routes)->fd(), POLLIN, 0};
      while (poll(&readable, 1, 0) > 0) (*routes)->Run();
      EXPECT_EQ((*routes)->NextHop(destination), destination);
      OutputOf(command);
      ASSERT_EQ(poll(&readable, 1, 5000), 1) << command;
      (*routes)->Run();
      EXPECT_EQ((*routes)->size(), 0u) << command;
    }
  });
}

TEST(NetlinkTest, AListThatChangesMeanwhileIsListedAgain) {
  WithTun([](int index) {
    const MonotonicClock clock;
    auto host = HostAddresses::Open(index, &clock);
    auto netlink = Netlink::Open(0);
    ASSERT_TRUE(host.ok() && netlink.ok());
    const auto add = [&](uint32_t number) {
      ASSERT_TRUE(
          (*host)->Add({IpAddr(Ipv4Addr(0x0a00'0000 + number)), 32}, absl::InfiniteFuture()).ok());
    };
    constexpr uint32_t kAddresses = 1000;  // more than one piece of the kernel's dump
    for (uint32_t i = 1; i <= kAddresses; ++i) add(i);
    const auto list = [&](const std::function<void()>& meanwhile) {
      NetlinkRequest request(RTM_GETADDR, NLM_F_DUMP);
      request.Put<ifaddrmsg>()->ifa_family = AF_INET;
      uint32_t count = 0;
      const absl::Status status = (*netlink)->Execute(&request, "list", [&](const nlmsghdr*) {
        if (++count == 1) meanwhile();
      });
      EXPECT_TRUE(status.ok()) << status;
      return count;
    };
    EXPECT_GT(list([&] { add(kAddresses + 1); }), kAddresses + 1);
    EXPECT_EQ(list([] {}), kAddresses + 1);
  });
}

TEST(HostAddressesTest, OwnDefaultRoutesOfDhcpAreRemoved) {
  WithTun([](int index) {
    const MonotonicClock clock;
    auto host = HostAddresses::Open(index, &clock);
    ASSERT_TRUE(host.ok()) << host.status();
    OutputOf(
        "ip tuntap add dev eth0 mode tun && ip link set eth0 up && ip address add 192.0.2.2/24 dev "
        "eth0");
    OutputOf("ip address add 10.0.0.2/24 dev ib0");
    OutputOf("ip route add default via 192.0.2.1 dev eth0 proto dhcp metric 5");
    OutputOf("ip route add default via 10.0.0.1 dev ib0 proto dhcp");
    OutputOf("ip route add default via 10.0.0.3 dev ib0 proto dhcp metric 1030");
    OutputOf("ip route add default via 10.0.0.4 dev ib0 proto static metric 7");
    OutputOf("ip route add 198.51.100.0/24 via 10.0.0.1 dev ib0 proto dhcp");
    EXPECT_TRUE((*host)->RemoveDefaultRoutes().ok());
    const std::string routes = OutputOf("ip route");
    EXPECT_THAT(routes, HasSubstr("default via 192.0.2.1 dev eth0 proto dhcp"));
    EXPECT_THAT(routes, HasSubstr("default via 10.0.0.4 dev ib0 proto static"));
    EXPECT_THAT(routes, HasSubstr("198.51.100.0/24 via 10.0.0.1"));
    EXPECT_THAT(routes, Not(HasSubstr("default via 10.0.0.1")));
    EXPECT_THAT(routes, Not(HasSubstr("default via 10.0.0.3")));
  });
}

TEST(KernelGroupsTest, Golden) {
  constexpr char kIgmp[] =
      "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n"
      "1\tlo        :     1      V3\n"
      "\t\t\t\t010000E0     1 0:00000000\t\t0\n"
      "4\tib0       :     2      V3\n"
      "\t\t\t\tFB0000E0     1 0:00000000\t\t0\n"
      "\t\t\t\t010000E0     1 0:00000000\t\t0\n"
      "5\tlongnamedtun0:     1      V2\n"
      "\t\t\t\t030201EF     1 0:00000000\t\t0\n"
      "6\tib00      :     1      V2\n"
      "\t\t\t\tnonsense     1 0:00000000\t\t0\n"
      "\t\t\t\t0A0201EF     1 0:00000000\t\t0\n";
  constexpr char kIgmp6[] =
      "1    lo              ff020000000000000000000000000001     1 0000000C 0\n"
      "4    ib0             ff020000000000000000000000000001     1 0000000C 0\n"
      "4    ib0             ff050000000000000000000000000123     1 00000004 0\n"
      "4    ib0             ff05\n"
      "short\n";
  const struct {
    const char* interface;
    std::set<std::string> groups;
  } kRows[] = {
      {"lo", {"224.0.0.1", "ff02::1"}},
      {"ib0", {"224.0.0.251", "224.0.0.1", "ff02::1", "ff05::123"}},
      {"longnamedtun0", {"239.1.2.3"}},
      {"ib00", {"239.1.2.10"}},
      {"ib", {}},
  };
  for (const auto& row : kRows) {
    std::set<std::string> groups;
    for (const IpAddr& group : ParseKernelGroups(kIgmp, kIgmp6, row.interface))
      groups.insert(group.ToString());
    EXPECT_EQ(groups, row.groups) << row.interface;
  }
}

TEST(TunDeviceTest, RefusesBadNamesAndNamesInUse) {
  std::thread([] {
    ASSERT_EQ(unshare(CLONE_NEWNET), 0);
    for (const char* name : {"", "a/b", "ib%d", "sixteen-letters-", "ib 0"}) {
      EXPECT_EQ(TunDevice::Open(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
    }
    auto tun = TunDevice::Open("ib0");
    ASSERT_TRUE(tun.ok()) << tun.status();
    EXPECT_EQ(TunDevice::Open("ib0").status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(TunDevice::Open("lo").status().code(), absl::StatusCode::kAlreadyExists);
    const std::vector<uint8_t> packet = {0x45, 0};
    ASSERT_EQ(system("ip link set ib0 down"), 0);
    EXPECT_EQ((*tun)->Write(packet), EndpointDrop::kTunDown);
    tun->reset();
    EXPECT_EQ(if_nametoindex("ib0"), 0u) << "an orderly end takes it along";
  }).join();
}

TEST(TunDeviceTest, TakesOverTheTunOfAKilledProcess) {
  std::thread([] {
    ASSERT_EQ(unshare(CLONE_NEWNET), 0);
    LeaveTunOfDeadProcess();
    const unsigned left = if_nametoindex("ib0");
    ASSERT_NE(left, 0u);
    auto tun = TunDevice::Open("ib0");
    ASSERT_TRUE(tun.ok()) << tun.status();
    EXPECT_EQ((*tun)->index(), static_cast<int>(left));
    tun->reset();
    EXPECT_EQ(if_nametoindex("ib0"), 0u);
    // The operator's TUN stays.
    ASSERT_EQ(system("ip tuntap add dev ib1 mode tun"), 0);
    tun = TunDevice::Open("ib1");
    ASSERT_TRUE(tun.ok()) << tun.status();
    tun->reset();
    EXPECT_NE(if_nametoindex("ib1"), 0u);
  }).join();
}

TEST(TunDeviceTest, SetsTheMtuOfARenamedNetdev) {
  std::thread([] {
    ASSERT_EQ(unshare(CLONE_NEWNET), 0);
    auto tun = TunDevice::Open("ib0");
    ASSERT_TRUE(tun.ok()) << tun.status();
    OutputOf("ip link set ib0 down && ip link set ib0 name ib9");
    (*tun)->SetLink(1444);
    EXPECT_THAT(OutputOf("ip link show ib9"), HasSubstr("mtu 1444"));
  }).join();
}

// The change fails while the thread is in another network namespace than the netdev.
TEST(TunDeviceTest, AFailedChangeOfTheMtuIsTriedAgain) {
  std::thread([] {
    ASSERT_EQ(unshare(CLONE_NEWNET), 0);
    const UniqueFd home(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    auto tun = TunDevice::Open("ib0");
    ASSERT_TRUE(tun.ok()) << tun.status();
    ASSERT_EQ(unshare(CLONE_NEWNET), 0);
    (*tun)->SetLink(1444);
    ASSERT_EQ(setns(home.get(), CLONE_NEWNET), 0);
    EXPECT_THAT(OutputOf("ip link show ib0"), Not(HasSubstr("mtu 1444")));
    (*tun)->SetLink(1444);
    EXPECT_THAT(OutputOf("ip link show ib0"), HasSubstr("mtu 1444"));
  }).join();
}

TEST(TunDeviceTest, ADeletedTunIsSeen) {
  std::thread([] {
    ASSERT_EQ(unshare(CLONE_NEWNET), 0);
    auto tun = TunDevice::Open("ib0");
    ASSERT_TRUE(tun.ok()) << tun.status();
    std::vector<uint8_t> buffer(TunDevice::kLargestRead);
    Frame frame;
    EXPECT_EQ((*tun)->Read(absl::MakeSpan(buffer), &frame), TunDevice::ReadResult::kNothing);
    ASSERT_EQ(system("ip link delete ib0"), 0);
    EXPECT_EQ((*tun)->Read(absl::MakeSpan(buffer), &frame), TunDevice::ReadResult::kDeleted);
    EXPECT_EQ((*tun)->Write(buffer), EndpointDrop::kTunDown);
  }).join();
}

}  // namespace
}  // namespace eoib::endpoint
