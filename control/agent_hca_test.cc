// Whole agents on an HCA that behaves like real hardware, simulated by FaultyHca: all asynchronous
// events, ports, P_Keys and subnet managers that are missing at first, queue pairs in error,
// devices that disappear. The agents' clock moves only when a test does it.
#include <set>

#include "control/agent_test_fixture.h"
#include "vswitch/wire/ib/sa_mad.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AgentHcaTest : public AgentTestOf<FakeClock> {
 protected:
  // Moves the clock on until `done`.
  bool InTime(const std::function<bool()>& done) {
    return Until([&] {
      clock_.Advance(absl::Milliseconds(10));
      return done();
    });
  }
  uint64_t MadsOf(const std::string& name) {
    for (const auto& port : subnet_.Ports()) {
      if (port.name == name) return port.mads;
    }
    return 0;
  }
  // The sources of the frames that arrived at the host's port since the last call.
  static std::set<MacAddr> SourcesAt(Host* host) {
    std::set<MacAddr> sources;
    for (const auto& sent : host->port("v1")->TakeTransmitted())
      sources.insert(MacAddr::FromWire(&sent.bytes[6]));
    return sources;
  }
  // The same, including everything that `from`'s agent has told its worker to send so far: that is
  // out before the second of two frames from its station.
  std::set<MacAddr> SourcesUpToNow(Host* from, Host* to) {
    std::set<MacAddr> sources;
    for (int i = 0; i < 2; ++i) {
      from->port("v1")->Inject(MakeFrame(kB, kA));
      std::set<MacAddr> latest;
      EXPECT_TRUE(Until([&] {
        latest.merge(SourcesAt(to));
        return latest.contains(kA);
      }));
      sources.merge(latest);
    }
    return sources;
  }
  static void PortIs(FaultyHca* hca, ibv_port_state state) {
    hca->EditPort([state](ibv_port_attr* attr) { attr->state = state; });
  }
  // The requests to the SA in a refresh: a join, a path to the peer, and four subscriptions.
  static constexpr uint64_t kMadsOfRefresh = 6;
};

// ---- Asynchronous events, row by row.

struct EventRow {
  const char* description;
  ibv_event_type event;
  bool refreshed;  // requests group, paths and subscriptions again
  bool announced;  // interfaces announce their MACs, since the port itself changed
  bool rebuilt;    // another queue pair
};

TEST_F(AgentHcaTest, EachEventCausesARefreshOfItsDepth) {
  const EventRow rows[] = {
      {"the SM moved", IBV_EVENT_SM_CHANGE, true, false, false},
      {"the SM was restarted", IBV_EVENT_CLIENT_REREGISTER, true, false, false},
      {"another LID", IBV_EVENT_LID_CHANGE, true, true, false},
      {"the port is active", IBV_EVENT_PORT_ACTIVE, true, true, false},
      {"the P_Key table changed, elsewhere", IBV_EVENT_PKEY_CHANGE, true, true, false},
      {"the GID table changed, elsewhere", IBV_EVENT_GID_CHANGE, true, true, false},
      {"the queue pair is lost", IBV_EVENT_QP_FATAL, true, true, true},
      {"a completion queue was overrun", IBV_EVENT_CQ_ERR, true, true, true},
      {"nothing to us: a shared receive queue", IBV_EVENT_SRQ_ERR, false, false, false},
      {"nothing to us: path migrated", IBV_EVENT_PATH_MIG, false, false, false},
      {"nothing to us: last work request", IBV_EVENT_QP_LAST_WQE_REACHED, false, false, false},
  };
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  for (const EventRow& row : rows) {
    SCOPED_TRACE(row.description);
    Pass(absl::Seconds(2));  // the earlier announcements are over
    ASSERT_TRUE(AllJoined());
    SourcesUpToNow(h1, h2);
    const std::string qpn = h1->Qpn();
    const uint64_t mads = MadsOf("h1");
    h1->hca()->Raise(row.event);
    if (row.refreshed) {
      EXPECT_TRUE(Until([&] { return MadsOf("h1") >= mads + kMadsOfRefresh; }));
      EXPECT_TRUE(AllJoined());
    } else {
      for (int i = 0; i < 5; ++i) PumpAll();
      EXPECT_EQ(MadsOf("h1"), mads);
    }
    EXPECT_EQ(h1->Qpn() != qpn, row.rebuilt);
    if (row.announced) {
      EXPECT_TRUE(Until([&] { return SourcesAt(h2).contains(h1->port("v1")->mac()); }));
    } else {
      EXPECT_FALSE(SourcesUpToNow(h1, h2).contains(h1->port("v1")->mac()));
    }
    EXPECT_TRUE(h1->carrier("v1"));
    EXPECT_EQ(h1->losses_of_carrier("v1"), 0);
    ExpectTalk(h1->port("v1"), h2->port("v1"));
  }
}

TEST_F(AgentHcaTest, PortErrorTakesTheCarrierDownUntilThePortIsActive) {
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  PortIs(h1->hca(), IBV_PORT_DOWN);
  h1->hca()->Raise(IBV_EVENT_PORT_ERR);
  ASSERT_TRUE(Until([&] { return !h1->carrier("v1"); }));
  EXPECT_THAT(h1->Command("show"), AllOf(HasSubstr("h1: the port is down: no link"),
                                         HasSubstr("not joined: the port is down")));
  const uint64_t mads = MadsOf("h1");
  Pass(absl::Seconds(30));
  EXPECT_EQ(MadsOf("h1"), mads) << "nothing is asked for";
  // The link comes first, then the subnet manager.
  PortIs(h1->hca(), IBV_PORT_INIT);
  EXPECT_THAT(h1->Command("show"), HasSubstr("is OpenSM running?"));
  PortIs(h1->hca(), IBV_PORT_ACTIVE);
  h1->hca()->Raise(IBV_EVENT_PORT_ACTIVE);
  EXPECT_TRUE(Until([&] { return h1->carrier("v1"); })) << "though no time passes";
}

// Events come in groups. One refresh, as deep as the deepest, answers a group.
TEST_F(AgentHcaTest, CoalescesEventsIntoOneRefresh) {
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  const uint64_t mads = MadsOf("h1");
  const std::string qpn = h1->Qpn();
  for (const ibv_event_type event :
       {IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_QP_FATAL, IBV_EVENT_LID_CHANGE}) {
    h1->hca()->Raise(event);
  }
  ASSERT_TRUE(Until([&] { return MadsOf("h1") > mads; }));
  ASSERT_TRUE(AllJoined());
  EXPECT_EQ(MadsOf("h1"), mads + 5) << "a join and four subscriptions";
  EXPECT_NE(h1->Qpn(), qpn);
}

// ---- Things that are missing when a host boots.

TEST_F(AgentHcaTest, StartsOnAPortThatIsDown) {
  for (const auto& [state, part] :
       {std::pair(IBV_PORT_DOWN, "no link"), std::pair(IBV_PORT_INIT, "is OpenSM running?")}) {
    Host* h1 = AddHost("h1", kOneVes, [state = state](FaultyHca* hca) {
      hca->EditPort([state](ibv_port_attr* attr) {
        attr->state = state;
        attr->active_mtu = static_cast<ibv_mtu>(0);
        attr->lid = attr->sm_lid = 0;
      });
    });
    EXPECT_EQ(h1->mtu("v1"), 2022) << "until the group says";
    Pass(absl::Seconds(20));
    EXPECT_FALSE(h1->carrier("v1"));
    EXPECT_THAT(h1->Command("show"), AllOf(HasSubstr(part), HasSubstr("not joined: the port is ")));
    h1->hca()->EditPort([](ibv_port_attr*) {});
    EXPECT_TRUE(InTime([&] { return h1->carrier("v1"); })) << "no event came, but it looks again";
    EXPECT_EQ(h1->mtu("v1"), 4070);
    KillHost(h1);
  }
}

TEST_F(AgentHcaTest, StartsWithoutASubnetManager) {
  subnet_.SetSmAbsent(true);
  Host* h1 = AddHost("h1", kOneVes);
  Pass(absl::Seconds(20));
  EXPECT_FALSE(h1->carrier("v1"));
  EXPECT_THAT(h1->Command("show"), HasSubstr("no answer from the subnet administrator"));
  subnet_.SetSmAbsent(false);
  EXPECT_TRUE(InTime([&] { return h1->carrier("v1"); }));
}

constexpr char kGreenVes[] =
    "[[ves]]\nname = \"green\"\npkey = 0x8009\n[[vport]]\nname = \"v1\"\nves = \"green\"\ntype = "
    "\"test\"\n";

TEST_F(AgentHcaTest, StartsBeforeThePortIsInThePartition) {
  for (const bool event : {true, false}) {
    SCOPED_TRACE(event ? "an event tells of the P_Key" : "nothing tells of it");
    Host* h1 = AddHost("h1", kGreenVes);
    Host* h2 = AddHost("h2", kGreenVes);
    Pass(absl::Seconds(30));
    EXPECT_FALSE(h1->carrier("v1"));
    EXPECT_THAT(
        h1->Command("show"),
        AllOf(
            HasSubstr("VES green: P_Key 0x8009"), HasSubstr("QPN none"),
            HasSubstr("not joined: VES green: find P_Key 0x8009 on port soft:h1: not in its table"),
            HasSubstr("partition add")));
    // Local stations reach one another; frames for the fabric are counted as drops.
    h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kA));
    EXPECT_TRUE(Until([&] { return absl::StrContains(h1->Command("drops"), "fabric_down"); }));
    if (!event) {
      for (Host* host : {h1, h2}) host->hca()->Fail("get_async_event", EAGAIN);
    }
    for (const char* name : {"h1", "h2"}) {
      ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8009), name, softhca::Membership::kFull).ok());
    }
    if (event) {
      EXPECT_TRUE(Until([&] { return h1->carrier("v1") && h2->carrier("v1"); }))
          << "though no time passes";
    } else {
      EXPECT_TRUE(InTime([&] { return h1->carrier("v1") && h2->carrier("v1"); }));
    }
    EXPECT_TRUE(ArrivesInTheEnd(h1->port("v1"), h2->port("v1"), MakeFrame(kB, kA)));
    EXPECT_TRUE(ArrivesInTheEnd(h2->port("v1"), h1->port("v1"), MakeFrame(kA, kB)));
    for (const char* name : {"h1", "h2"})
      ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0x8009), name).ok());
    KillHost(h1);
    KillHost(h2);
  }
}

// The port has a smaller MTU than the group, so large frames would be lost in both directions.
TEST_F(AgentHcaTest, DoesNotJoinAGroupWithALargerMtuThanThePort) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  EXPECT_EQ(h1->mtu("v1"), 4070);
  h1->hca()->EditPort([](ibv_port_attr* attr) { attr->active_mtu = IBV_MTU_2048; });
  h1->hca()->Raise(IBV_EVENT_PORT_ACTIVE);
  ASSERT_TRUE(InTime([&] { return !h1->carrier("v1"); }));
  EXPECT_THAT(h1->Command("show"), HasSubstr("the group's MTU is 4096 and this port's is 2048"));
  EXPECT_TRUE(h2->carrier("v1"));
  h1->hca()->EditPort([](ibv_port_attr*) {});
  EXPECT_TRUE(InTime([&] { return h1->carrier("v1"); }));
}

// ---- Errors that an operator must fix before the agent can start.

TEST_F(AgentHcaTest, ErrorsOfMissingPermissionsSayWhatToDo) {
  struct Row {
    const char* verb;
    int error;
    std::vector<const char*> parts;
  };
  const Row rows[] = {
      {"alloc_pd", EIO, {"allocate a protection domain on soft:h1: Input/output error"}},
      {"reg_mr",
       ENOMEM,
       {"register ", "bytes of packet buffers on soft:h1: Cannot allocate memory", "LimitMEMLOCK"}},
      {"create_comp_channel",
       EMFILE,
       {"create a completion channel on soft:h1: Too many open files"}},
      {"create_qp", ENOMEM, {"create a UD QP", "LimitMEMLOCK"}},
      {"modify_qp",
       EPERM,
       {"to INIT on soft:h1: Operation not permitted", "0x80008001", "CAP_NET_RAW"}},
      {"query_port", EIO, {"query port soft:h1: Input/output error"}},
      {"query_gid", EIO, {"query GID 0 of port soft:h1: Input/output error"}},
      {"query_pkey", EIO, {"query P_Key 0 of port soft:h1: Input/output error"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.verb);
    TempDir directory;
    EventLoop loop(&clock_);
    auto state = StateDir::Open(directory.path()).value();
    auto hca = std::make_unique<FaultyHca>(softhca::OpenSoftHca(subnet_.Connect(), "h1").value());
    hca->Fail(row.verb, row.error);
    const auto agent = Agent::Create(
        ParseConfig("[[ves]]\nname = \"blue\"\npkey = 0x8001\n", "test").value(), std::move(hca),
        state.get(),
        [](const VPortConfig&, MacAddr, int, const Ves&, FabricPort*) -> absl::StatusOr<VPort> {
          abort();
        },
        &loop, &clock_);
    ASSERT_FALSE(agent.ok());
    for (const char* part : row.parts)
      EXPECT_THAT(std::string(agent.status().message()), HasSubstr(part));
  }
}

// ---- Queue pairs in error.

struct ErrorRow {
  const char* description;
  std::function<void(FaultyHca*)> fault;
};

TEST_F(AgentHcaTest, ReplacesALostQueuePair) {
  const ErrorRow rows[] = {
      {"a receive failed",
       [](FaultyHca* hca) { hca->SpoilReceive(IBV_WC_LOC_PROT_ERR, IBV_QPS_ERR); }},
      {"receives were flushed",
       [](FaultyHca* hca) { hca->SpoilReceive(IBV_WC_WR_FLUSH_ERR, IBV_QPS_ERR); }},
      {"a send failed, and the queue pair is in ERR",
       [](FaultyHca* hca) { hca->SpoilSend(IBV_WC_FATAL_ERR, IBV_QPS_ERR); }},
      {"a completion queue was overrun, and no event came",
       [](FaultyHca* hca) { hca->OverrunQueues(); }},
  };
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  for (const ErrorRow& row : rows) {
    SCOPED_TRACE(row.description);
    Pass(absl::Seconds(2));
    const std::string qpn = h1->Qpn();
    row.fault(h1->hca());
    // Repeat: h2 may not yet have learned the new queue pair from the previous row.
    ASSERT_TRUE(Until([&] {
      h1->port("v1")->Inject(MakeFrame(kB, kA));
      h2->port("v1")->Inject(MakeFrame(kA, kB));
      return h1->Qpn() != qpn;
    })) << "though no time passes";
    EXPECT_EQ(h1->losses_of_carrier("v1"), 0);
    EXPECT_TRUE(ArrivesInTheEnd(h1->port("v1"), h2->port("v1"), MakeFrame(kB, kA)));
    EXPECT_TRUE(ArrivesInTheEnd(h2->port("v1"), h1->port("v1"), MakeFrame(kA, kB)));
  }
}

TEST_F(AgentHcaTest, SendErrorThatTheQueuePairRecoversFromLosesOnlyItsFrames) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  const std::string qpn = h1->Qpn();
  h1->hca()->SpoilSend(IBV_WC_LOC_QP_OP_ERR, IBV_QPS_SQE);
  h1->port("v1")->Inject(MakeFrame(kB, kA));
  ASSERT_TRUE(Until([&] { return absl::StrContains(h1->Command("drops"), "send_error"); }));
  EXPECT_TRUE(ArrivesInTheEnd(h1->port("v1"), h2->port("v1"), MakeFrame(kB, kA)));
  EXPECT_EQ(h1->Qpn(), qpn);
}

// If each new queue pair fails at once, the agent must still do its other work.
TEST_F(AgentHcaTest, ReplacesAFailingQueuePairAtMostOnceASecond) {
  Host* h1 = AddHost("h1", kOneVes);
  ASSERT_TRUE(AllJoined());
  const std::string first = h1->Qpn();
  h1->hca()->OverrunQueues();
  h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  ASSERT_TRUE(Until([&] { return h1->Qpn() != first; }));
  ASSERT_TRUE(AllJoined());
  const std::string second = h1->Qpn();
  h1->hca()->OverrunQueues();
  h1->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kA));
  EXPECT_TRUE(Until([&] { return absl::StrContains(h1->Command("drops"), "send_error"); }))
      << "its worker has noticed";
  for (int i = 0; i < 20; ++i) PumpAll();
  EXPECT_EQ(h1->Qpn(), second);
  Pass(absl::Seconds(1));
  EXPECT_TRUE(Until([&] { return h1->Qpn() != second; }));
}

TEST_F(AgentHcaTest, RetriesTheReplacementOfAQueuePair) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  h1->hca()->Fail("create_qp", ENOMEM);
  h1->hca()->Raise(IBV_EVENT_QP_FATAL);
  ASSERT_TRUE(Until([&] { return !h1->carrier("v1"); }));
  EXPECT_THAT(h1->Command("show"),
              AllOf(HasSubstr("QPN none"), HasSubstr("create a UD QP"), HasSubstr("LimitMEMLOCK")));
  Pass(absl::Seconds(5));
  EXPECT_FALSE(h1->carrier("v1"));
  h1->hca()->Mend("create_qp");
  EXPECT_TRUE(InTime([&] { return h1->carrier("v1"); }));
  EXPECT_TRUE(ArrivesInTheEnd(h1->port("v1"), h2->port("v1"), MakeFrame(kB, kA)));
}

TEST_F(AgentHcaTest, RetriesToAttachToAGroup) {
  Host* h1 = AddHost("h1", kOneVes, [](FaultyHca* hca) {
    hca->Fail("attach_mcast", ENOMEM);
    hca->Fail("create_ah", ENOMEM);
  });
  Pass(absl::Seconds(2));
  EXPECT_THAT(h1->Command("show"), HasSubstr("not joined: create address handle to ff12:"));
  h1->hca()->Mend("create_ah");
  EXPECT_TRUE(
      InTime([&] { return absl::StrContains(h1->Command("show"), "not joined: attach QP "); }));
  h1->hca()->Mend("attach_mcast");
  EXPECT_TRUE(InTime([&] { return h1->carrier("v1"); }));
}

// ---- The device disappears.

// The driver is unloaded: the kernel raises the event, then removes the device from its users.
TEST_F(AgentHcaTest, LogsALostDeviceOnceAndEndsWithoutHanging) {
  for (const bool event : {true, false}) {
    SCOPED_TRACE(event ? "with its last event" : "with nothing but errors");
    Host* h1 = AddHost("h1", kTwoVeses);
    Host* h2 = AddHost("h2", kTwoVeses);
    ASSERT_TRUE(AllJoined());
    ExpectTalk(h1->port("v1"), h2->port("v1"));
    h1->may_be_lost = true;
    if (event) h1->hca()->Raise(IBV_EVENT_DEVICE_FATAL);
    h1->hca()->Vanish();
    ASSERT_TRUE(Until([&] { return !h1->lost.empty(); }));
    EXPECT_THAT(h1->lost, ElementsAre(event ? "soft:h1 reports that it is lost"
                                            : "soft:h1 is gone: Input/output error"));
    EXPECT_FALSE(h1->carrier("v1"));
    EXPECT_FALSE(h1->carrier("v2"));
    EXPECT_THAT(h1->Command("show"), AllOf(HasSubstr("lost: soft:h1"),
                                           HasSubstr("query port soft:h1: Input/output error")));
    Pass(absl::Seconds(20));
    EXPECT_EQ(h1->lost.size(), 1u) << "once";
    bool stopped = false;
    h1->agent()->Stop([&stopped] { stopped = true; });
    EXPECT_TRUE(InTime([&] { return stopped; }));
    EXPECT_TRUE(h1->Conserved());
    KillHost(h1);
    KillHost(h2);
  }
}

}  // namespace
}  // namespace eoib
