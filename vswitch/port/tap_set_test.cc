// TapSet, in the network namespace that tap_port_test.cc makes.
#include "vswitch/port/tap_set.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "vswitch/base/child_for_test.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/port/tap_port.h"

namespace eoib {
namespace {

std::unique_ptr<TapPort> MakeTap(int number) {
  const MacAddr mac = MacAddr::FromUint64(0x02'00'5e'10'01'00 + static_cast<uint64_t>(number));
  return TapPort::Open({.name = absl::StrCat("set", number), .mac = mac}).value();
}

bool Exists(const std::string& name) { return if_nametoindex(name.c_str()) != 0; }

// Receives the kernel's netlink messages about netdevs, from its construction on.
class LinkMonitor {
 public:
  LinkMonitor()
      : socket_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)) {
    sockaddr_nl address = {};
    address.nl_family = AF_NETLINK;
    address.nl_groups = RTMGRP_LINK;
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  struct Event {
    bool deleted;
    int index;
    bool up;
  };
  std::vector<Event> Take() const {
    std::vector<Event> events;
    alignas(nlmsghdr) char bytes[1 << 16];
    for (ssize_t size; (size = recv(socket_.get(), bytes, sizeof(bytes), 0)) > 0;) {
      auto left = static_cast<unsigned>(size);
      for (auto* at = reinterpret_cast<nlmsghdr*>(bytes); NLMSG_OK(at, left);
           at = NLMSG_NEXT(at, left)) {
        const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(at));
        events.push_back(
            {at->nlmsg_type == RTM_DELLINK, link->ifi_index, (link->ifi_flags & IFF_UP) != 0});
      }
    }
    return events;
  }

 private:
  const UniqueFd socket_;
};

// The kernel sets down all netdevs of a batch before it deletes the first. Deleted one by one, each
// is set down and deleted before the next.
TEST(TapSetTest, NetdevsAreDeletedInOneBatch) {
  constexpr int kCount = 20;
  const MonotonicClock clock;
  TapSet set(&clock);
  std::vector<std::unique_ptr<TapPort>> ports;
  for (int i = 0; i < kCount; ++i) ports.push_back(MakeTap(i));
  const LinkMonitor monitor;
  for (const auto& port : ports) ASSERT_TRUE(set.Discard(*port).ok());
  ports.clear();
  ASSERT_TRUE(set.DeleteUnwanted().ok());
  for (int i = 0; i < kCount; ++i) EXPECT_FALSE(Exists(absl::StrCat("set", i)));
  int down = 0, deleted = 0;
  std::map<int, bool> up;
  for (const LinkMonitor::Event& event : monitor.Take()) {
    if (event.deleted && deleted++ == 0) {
      EXPECT_EQ(down, kCount) << "down before the first is deleted";
    }
    if (!event.deleted && std::exchange(up[event.index], event.up) && !event.up) ++down;
  }
  EXPECT_EQ(deleted, kCount);
  ports.clear();
}

TEST(TapSetTest, OthersStay) {
  const MonotonicClock clock;
  TapSet set(&clock);
  const auto other = MakeTap(1), unwanted = MakeTap(3);
  ASSERT_TRUE(set.Discard(*unwanted).ok());
  EXPECT_TRUE(set.HasUnwanted());
  EXPECT_TRUE(Exists("set3")) << "not yet";
  ASSERT_TRUE(set.DeleteUnwanted().ok());
  EXPECT_TRUE(Exists("set1"));
  EXPECT_FALSE(Exists("set3"));
  EXPECT_FALSE(set.HasUnwanted());
  EXPECT_TRUE(set.DeleteUnwanted().ok()) << "nothing is left to delete";
  ASSERT_TRUE(set.Discard(*other).ok());
  ASSERT_TRUE(set.DeleteUnwanted().ok());
}

// One netdev is renamed; one is moved to another namespace, where another netdev has its name.
TEST(TapSetTest, FollowsNamesAndNamespaces) {
  const MonotonicClock clock;
  TapSet set(&clock);
  const auto renamed = MakeTap(4), moved = MakeTap(5);
  const std::string netns = absl::StrCat("tap-set-test-", getpid());
  ASSERT_EQ(system(("ip netns add " + netns + "; ip link set set5 netns " + netns).c_str()), 0);
  ASSERT_EQ(system("ip link set set4 down; ip link set set4 name other4; ip link set other4 up; ip "
                   "link add set5 type veth peer name peer5"),
            0);
  const std::string there = "ip -n " + netns + " link show set5 >/dev/null 2>&1";
  EXPECT_EQ(system(there.c_str()), 0);
  EXPECT_TRUE(set.Discard(*moved).ok());
  EXPECT_TRUE(set.Discard(*renamed).ok());
  EXPECT_TRUE(set.DeleteUnwanted().ok());
  EXPECT_FALSE(Exists("other4"));
  EXPECT_TRUE(Exists("set5")) << "a stranger's";
  EXPECT_NE(system(there.c_str()), 0);
  ASSERT_EQ(system(("ip link delete set5; ip netns delete " + netns).c_str()), 0);
}

// While no agent had them open.
TEST(TapFinderTest, FindsTapsByTheirAliasUnderOtherNamesAndInOtherNamespaces) {
  const MonotonicClock clock;
  TapFinder before(&clock), after(&clock);
  const auto options = [](const char* name, TapFinder* finder) {
    return TapPort::Options{.name = name,
                            .mac = MacAddr::FromUint64(0x02'00'5e'10'01'77),
                            .alias = std::string("eoib:t/") + name,
                            .finder = finder};
  };
  for (const char* name : {"found1", "found2"})
    ASSERT_TRUE(TapPort::Open(options(name, &before)).value()->is_new());
  const std::string netns = absl::StrCat("tap-finder-test-", getpid());
  ASSERT_EQ(system("ip link set found1 down; ip link set found1 name elsewhere1"), 0);
  ASSERT_EQ(system(("ip netns add " + netns + "; ip link set found2 netns " + netns).c_str()), 0);
  for (const char* name : {"found1", "found2"}) {
    const auto port = TapPort::Open(options(name, &after)).value();
    EXPECT_FALSE(port->is_new()) << name;
    EXPECT_TRUE(port->is_ours()) << name;
    EXPECT_FALSE(Exists(name));
  }
  ASSERT_EQ(system(("ip link delete elsewhere1; ip netns delete " + netns).c_str()), 0);
}

// Any user can make a TAP with our alias in a network namespace of a user namespace of his own, and
// then waits there for the frames of that vPort.
TEST(TapFinderTest, FindsNoTapInANetworkNamespaceOfAnotherUserNamespace) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t test = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    DieWithTest(test);
    dup2(ready[1], STDOUT_FILENO);
    execlp("unshare", "unshare", "--user", "--map-root-user", "--net", "sh", "-c",
           "ip tuntap add lure mode tap && ip link set lure alias eoib:t/lure && echo ready && "
           "exec sleep 1000",
           nullptr);
    _exit(127);
  }
  const ChildForTest stranger(pid);
  close(ready[1]);
  char line[6] = {};
  ASSERT_EQ(read(ready[0], line, 5), 5);
  close(ready[0]);
  const MonotonicClock clock;
  TapFinder finder(&clock);
  EXPECT_TRUE(finder.FindAll("eoib:t/lure").empty());
  const TapPort::Options options = {.name = "lure",
                                    .mac = MacAddr::FromUint64(0x02'00'5e'10'01'78),
                                    .alias = "eoib:t/lure",
                                    .finder = &finder};
  EXPECT_TRUE(TapPort::Open(options).value()->is_new());
  EXPECT_TRUE(Exists("lure"));
  ASSERT_EQ(system("ip link delete lure"), 0);
}

}  // namespace
}  // namespace eoib
