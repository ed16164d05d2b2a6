// A guest moves to another host while others communicate with it, and is announced as kernels,
// tools and hypervisors do it.
//
// The guest is a network namespace. The test deletes its interface on one host and creates it on
// the other, with the same addresses, which looks like a live migration from outside.
#include <signal.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/sockets.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

constexpr char kGuestMac[] = "02:aa:00:00:00:42";
constexpr int kGuest = 42;
constexpr absl::Duration kInterval = absl::Milliseconds(10);  // between pings

class MovesTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    auto hosts = AddNumberedAgents(3);
    WaitUntilAllReceive(hosts);
    a_ = hosts[0];
    b_ = hosts[1];
    caller_ = hosts[2];
    guest_ = lab().AddHost("guest");
    PlugInto(a_);
    ExpectPing(caller_->host(), Address(kGuest));
    // Otherwise the guest may move before the caller has an entry that could move.
    ASSERT_TRUE(EventuallyTrue(kPatience, [this] { return caller_->KnowsAnnounced(kGuestMac); }));
  }

  void PlugInto(Agent* agent) {
    agent->host()->MustIp(absl::StrCat("link add link v1 name eth0 address ", kGuestMac, " netns ",
                                       guest_->holder(), " type macvlan mode bridge"));
    guest_->AddAddress("eth0", Address(kGuest) + "/24");
    guest_->SetUp("eth0");
    where_ = agent;
  }
  // Moves the guest, which sends nothing by itself.
  void MoveTo(Agent* agent) {
    guest_->MustIp("link delete eth0");
    PlugInto(agent);
  }
  Agent* Elsewhere() { return where_ == a_ ? b_ : a_; }

  // Does not wait until the announcement was sent.
  void Announce(const std::string& how) {
    // As QEMU after a migration.
    if (how == "RARP") return PacketSocket(guest_, "eth0").Send(RarpRequest(Mac(kGuestMac)));
    arping_ = guest_->Start({"arping", how, "-q", "-c", "1", "-I", "eth0", Address(kGuest)});
  }

  Agent* a_ = nullptr;
  Agent* b_ = nullptr;
  Agent* caller_ = nullptr;
  Agent* where_ = nullptr;
  Host* guest_ = nullptr;
  std::unique_ptr<Process> arping_;
};

TEST_F(MovesTest, PingFollowsGuestThatAnnouncesItself) {
  // arping's: unsolicited request, unsolicited reply.
  for (const char* how : {"-U", "-A", "RARP"}) {
    SCOPED_TRACE(how);
    auto ping = caller_->host()->Start(PingCommand(Address(kGuest), 100000, "0.01"));
    const uint64_t moved = caller_->Stat("moved");
    Agent* const from = where_;
    const absl::Time start = absl::Now();
    MoveTo(Elsewhere());
    Announce(how);
    ASSERT_TRUE(EventuallyTrue(
        kPatience, [&] { return caller_->Knows(kGuestMac) && caller_->Stat("moved") > moved; }));
    // A late answer from the guest's old place may still be on its way, and move the MAC back for a
    // moment.
    ASSERT_TRUE(Reaches(caller_->host(), Address(kGuest)));
    const absl::Duration took = absl::Now() - start;
    // Pending and new requests are all answered by the guest at its new place.
    ExpectPing(caller_->host(), Address(kGuest), 20);
    ping->Kill(SIGINT);
    ping->Wait();
    const PingCounts counts = ParsePing(ping->Log());
    // Lost: the requests during the move, and one that was under way.
    EXPECT_LE(counts.lost(), took / kInterval + 2) << ping->Log();
    EXPECT_GT(counts.received, 10) << ping->Log();
    std::cout << how << ": " << counts.lost() << " of " << counts.transmitted
              << " requests lost, the move took " << took << "\n";
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return !from->Knows(kGuestMac, "vPort"); }))
        << "the former host must learn that the MAC is behind the fabric";
  }
}

// The counterpart: without an announcement, the first frame that the guest sends moves its MAC.
TEST_F(MovesTest, SilentGuestIsFoundAfterItsFirstFrame) {
  MoveTo(b_);
  EXPECT_FALSE(caller_->host()
                   ->Run({"ping", "-n", "-c", "3", "-i", "0.01", "-W", "1", Address(kGuest)})
                   .ok());
  ExpectPing(guest_, Address(3), 1);
  ExpectPing(caller_->host(), Address(kGuest));
}

TEST_F(MovesTest, TcpConnectionSurvivesMove) {
  UniqueFd listener = TcpListener(guest_, Address(kGuest), 5000);
  UniqueFd client = TcpConnect(caller_->host(), Address(kGuest), 5000);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  ASSERT_TRUE(server.valid());
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), 4 << 20), "");
  for (const char* how : {"-U", "-A"}) {
    MoveTo(Elsewhere());
    Announce(how);
    EXPECT_EQ(TcpTransfer(client.get(), server.get(), 4 << 20), "");
    EXPECT_EQ(TcpTransfer(server.get(), client.get(), 4 << 20), "");
  }
}

}  // namespace
}  // namespace eoib::lab
