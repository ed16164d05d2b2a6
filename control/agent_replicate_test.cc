// Whole agents with flood = "replicate", on a subnet that refuses every multicast group.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "control/agent_test_fixture.h"

namespace eoib {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kReplicate[] =
    "[[ves]]\nname = \"blue\"\npkey = 0x8001\nflood = \"replicate\"\n"
    "[[vport]]\nname = \"v1\"\nves = \"blue\"\ntype = \"test\"\n";

Bytes Tagged(Bytes frame, uint16_t vid) {
  const uint8_t tag[] = {0x81, 0x00, static_cast<uint8_t>(vid >> 8), static_cast<uint8_t>(vid)};
  frame.insert(frame.begin() + 12, std::begin(tag), std::end(tag));
  return frame;
}
Bytes Broadcast(uint8_t number) {
  Bytes frame = MakeFrame(MacAddr::Broadcast(), kA);
  frame.back() = number;
  return frame;
}

class AgentReplicateTest : public AgentTestOf<MonotonicClock> {
 protected:
  AgentReplicateTest() : AgentTestOf(WithoutMulticast()) {}
  static softhca::Subnet::Options WithoutMulticast() {
    softhca::Subnet::Options options = AgentTestOf::Options();
    options.last_mlid = Mlid(softhca::MulticastGroups::kFirstMlid.value() - 1);
    return options;
  }

  // The agents whose state `host` has.
  static size_t Up(Host* host) {
    size_t up = 0;
    for (absl::string_view line : absl::StrSplit(host->Command("peers"), '\n'))
      up += absl::StrContains(line, " up ");
    return up;
  }
  // Waits until each of `hosts` has the state of all others, and has told its worker.
  bool KnowEachOther(const std::vector<Host*>& hosts) {
    const bool known = Until([&] {
      return std::all_of(hosts.begin(), hosts.end(),
                         [&](Host* host) { return Up(host) == hosts.size() - 1; });
    });
    for (int i = 0; i < 2; ++i) PumpAll();
    return known;
  }
  // Sends `frames`, then one more, and returns which of them arrived at `to` before that one.
  std::vector<Bytes> ArrivalsOf(const std::vector<Bytes>& frames, TestPort* from, TestPort* to) {
    const Bytes last = Broadcast(--last_);
    for (const Bytes& frame : frames) from->Inject(frame);
    from->Inject(last);
    std::vector<Bytes> arrived;
    EXPECT_TRUE(Until([&] {
      for (const auto& sent : to->TakeTransmitted()) {
        if (sent.bytes == last) return true;
        if (std::find(frames.begin(), frames.end(), sent.bytes) != frames.end())
          arrived.push_back(sent.bytes);
      }
      return false;
    }));
    return arrived;
  }

 private:
  uint8_t last_ = 0;
};

TEST_F(AgentReplicateTest, TheSubnetRefusesGroups) {
  Host* const host = AddHost("h1", kOneVes);
  EXPECT_TRUE(Until([&] {
    return absl::StrContains(host->Command("show"), "not joined: join ff12:");
  })) << host->Command("show");
}

TEST_F(AgentReplicateTest, AgentsFindEachOtherAndFloodWithoutAGroup) {
  Host *h1 = AddHost("h1", kReplicate), *h2 = AddHost("h2", kReplicate),
       *h3 = AddHost("h3", kReplicate);
  ASSERT_TRUE(KnowEachOther({h1, h2, h3}));
  EXPECT_TRUE(h1->carrier("v1"));
  EXPECT_EQ(h1->mtu("v1"), 4070);
  EXPECT_THAT(ArrivalsOf({Broadcast(1), Broadcast(2)}, h1->port("v1"), h2->port("v1")), SizeIs(2))
      << "each once";
  EXPECT_THAT(ArrivalsOf({Broadcast(3), Broadcast(4)}, h1->port("v1"), h3->port("v1")), SizeIs(2))
      << "each once";
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  EXPECT_THAT(subnet_.Groups(), IsEmpty());
  EXPECT_EQ(subnet_.Services().size(), 3u);
  EXPECT_THAT(h1->Command("show"),
              AllOf(HasSubstr("flood by unicast copies: joined, to 2 agents (2 in the subnet "
                              "administrator's list), Q_Key 0x80008001, MTU 4096\n"),
                    Not(HasSubstr("flood group"))));
}

TEST_F(AgentReplicateTest, UnlistedAgentsAreNotAskedAndGetNoCopies) {
  Host *h2 = AddHost("h2", kReplicate), *h3 = AddHost("h3", kReplicate);
  const std::string list =
      absl::StrCat("replicate\"\nagents = [\"", h2->soft_port()->config().gid.ToString(), "\"]\n");
  Host* h1 = AddHost("h1", absl::StrReplaceAll(kReplicate, {{"replicate\"\n", list}}));
  ASSERT_TRUE(Until([&] { return Up(h1) == 1 && Up(h2) == 2; }));
  EXPECT_TRUE(Until([&] { return h1->Stat("unlisted_messages") > 0; })) << "h3 asks h1";
  for (int i = 0; i < 2; ++i) PumpAll();
  EXPECT_THAT(h1->Command("show"),
              HasSubstr(", to 1 agents (1 in the subnet administrator's list)"));
  EXPECT_THAT(ArrivalsOf({Broadcast(1)}, h1->port("v1"), h2->port("v1")), SizeIs(1));
  std::vector<Bytes> arrived;
  h2->port("v1")->Inject(Broadcast(2));
  EXPECT_TRUE(Until([&] {
    for (const auto& sent : h3->port("v1")->TakeTransmitted()) arrived.push_back(sent.bytes);
    return std::find(arrived.begin(), arrived.end(), Broadcast(2)) != arrived.end();
  }));
  EXPECT_EQ(std::find(arrived.begin(), arrived.end(), Broadcast(1)), arrived.end()) << "no copy";
  ASSERT_TRUE(h1->Apply(kReplicate).ok());
  EXPECT_TRUE(KnowEachOther({h1, h2, h3}));
}

TEST_F(AgentReplicateTest, TheConfigurationSetsQKeyAndMtu) {
  const std::string toml = absl::StrReplaceAll(
      kReplicate, {{"replicate\"\n", "replicate\"\nqkey = 0x80001234\nmtu = 2048\n"}});
  Host *h1 = AddHost("h1", toml), *h2 = AddHost("h2", toml);
  ASSERT_TRUE(KnowEachOther({h1, h2}));
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  EXPECT_THAT(h1->Command("show"), HasSubstr("Q_Key 0x80001234, MTU 2048\n"));
  EXPECT_EQ(h1->mtu("v1"), 2022);
}

TEST_F(AgentReplicateTest, AnotherMtuIsLogged) {
  const std::string toml =
      absl::StrReplaceAll(kReplicate, {{"replicate\"\n", "replicate\"\nmtu = 2048\n"}});
  testing::internal::CaptureStderr();
  Host *h1 = AddHost("h1", kReplicate), *h2 = AddHost("h2", toml);
  EXPECT_TRUE(KnowEachOther({h1, h2}));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(
      log,
      HasSubstr(" has the VES MTU 2044, and this one 4092: larger frames between them are lost"));
  EXPECT_THAT(log, HasSubstr(" has the VES MTU 4092, and this one 2044: "));
}

TEST_F(AgentReplicateTest, FloodsGoToTheAgentsWithTheVlan) {
  const auto with_vlan = [](int vlan) {
    return absl::StrCat(kReplicate, "access_vlan = ", vlan, "\n");
  };
  Host* const h1 =
      AddHost("h1", absl::StrCat(kReplicate, "mode = \"trunk\"\ntrunk_vlans = [0, 10, 20]\n"));
  Host *h2 = AddHost("h2", with_vlan(10)), *h3 = AddHost("h3", with_vlan(20));
  ASSERT_TRUE(KnowEachOther({h1, h2, h3}));
  const uint64_t before = h3->Stat("from_fabric") - h3->Stat("protocol_received");
  for (int i = 0; i < 10; ++i) h1->port("v1")->Inject(Tagged(Broadcast(1), 10));
  h1->port("v1")->Inject(Tagged(Broadcast(2), 20));
  EXPECT_TRUE(Arrives(h2->port("v1"), Broadcast(1)));
  EXPECT_TRUE(Arrives(h3->port("v1"), Broadcast(2)));
  EXPECT_TRUE(Until([&] {
    return h3->Stat("from_fabric") - h3->Stat("protocol_received") == before + 1;
  })) << "no copy of VLAN 10 went to h3";
}

TEST_F(AgentReplicateTest, AnAgentThatStartsLaterIsFound) {
  Host *h1 = AddHost("h1", kReplicate), *h2 = AddHost("h2", kReplicate);
  ASSERT_TRUE(KnowEachOther({h1, h2}));
  Host* const h3 = AddHost("h3", kReplicate);
  ASSERT_TRUE(KnowEachOther({h1, h2, h3}));
  EXPECT_THAT(ArrivalsOf({Broadcast(1)}, h1->port("v1"), h3->port("v1")), SizeIs(1));
  EXPECT_THAT(ArrivalsOf({Broadcast(2)}, h3->port("v1"), h2->port("v1")), SizeIs(1));
}

// A state of 16,000 MACs takes a second. Floods do not wait for it.
TEST_F(AgentReplicateTest, AnAgentGetsFloodsBeforeItsStateIsKnown) {
  std::string many = kReplicate;
  for (int vport = 0; vport < 16; ++vport) {
    absl::StrAppend(&many, "[[vport]]\nname = \"w", vport,
                    "\"\nves = \"blue\"\ntype = \"test\"\nstatic_macs = [");
    for (int i = 0; i < 1000; ++i)
      absl::StrAppend(&many, "\"",
                      MacAddr::FromUint64(0x0200'0001'0000 + vport * 1000 + i).ToString(), "\",");
    absl::StrAppend(&many, "]\n");
  }
  Host* const h2 = AddHost("h2", many);
  ASSERT_TRUE(Until([&] { return h2->Stat("protocol_group_messages") > 150; }))
      << "all is announced";
  Host* const h1 = AddHost("h1", kReplicate);
  EXPECT_TRUE(ArrivesInTheEnd(h1->port("v1"), h2->port("v1"), Broadcast(1)));
  EXPECT_THAT(h1->Command("peers"), HasSubstr(" 0 vPorts, 0 MACs"));
}

TEST_F(AgentReplicateTest, AKilledAgentReturnsUnderAnotherQueuePair) {
  Host *h1 = AddHost("h1", kReplicate), *h2 = AddHost("h2", kReplicate);
  ASSERT_TRUE(KnowEachOther({h1, h2}));
  const std::string qpn = h2->Qpn();
  KillHost(h2);
  h1->port("v1")->Inject(Broadcast(1));  // to where it was
  h2 = AddHost("h2", kReplicate);
  ASSERT_TRUE(Until([&] {
    return absl::StrContains(h1->Command("peers"), "QPN " + h2->Qpn()) && Up(h1) == 1 &&
           Up(h2) == 1;
  })) << h1->Command("peers");
  EXPECT_NE(h2->Qpn(), qpn);
  ExpectTalk(h1->port("v1"), h2->port("v1"));
  EXPECT_EQ(subnet_.Services().size(), 2u);
}

TEST_F(AgentReplicateTest, AnAgentThatStopsLeavesNoRecordAndGetsNoCopies) {
  Host *h1 = AddHost("h1", kReplicate), *h2 = AddHost("h2", kReplicate);
  ASSERT_TRUE(KnowEachOther({h1, h2}));
  bool stopped = false;
  h2->agent()->Stop([&] { stopped = true; });
  ASSERT_TRUE(Until([&] { return stopped && Up(h1) == 0; })) << h1->Command("peers");
  EXPECT_EQ(subnet_.Services().size(), 1u);
  EXPECT_THAT(h1->Command("show"), HasSubstr("to 0 agents"));
  h1->port("v1")->Inject(Broadcast(1));
  EXPECT_TRUE(Until([&] { return absl::StrContains(h1->Command("drops"), "no_egress"); }))
      << "nothing is left to send it to";
}

TEST_F(AgentReplicateTest, ARestartedSubnetManagerIsToldAgain) {
  Host *h1 = AddHost("h1", kReplicate), *h2 = AddHost("h2", kReplicate);
  ASSERT_TRUE(KnowEachOther({h1, h2}));
  subnet_.RestartSm();
  EXPECT_TRUE(Until([&] { return subnet_.Services().size() == 2; }));
  EXPECT_THAT(ArrivalsOf({Broadcast(1)}, h1->port("v1"), h2->port("v1")), SizeIs(1));
}

TEST_F(AgentReplicateTest, APortThatWasDownIsFoundAgain) {
  Host *h1 = AddHost("h1", kReplicate), *h2 = AddHost("h2", kReplicate);
  ASSERT_TRUE(KnowEachOther({h1, h2}));
  ASSERT_TRUE(subnet_.SetLink("h2", false).ok());
  ASSERT_TRUE(Until([&] { return !h2->carrier("v1"); }));
  EXPECT_THAT(h2->Command("show"),
              HasSubstr("flood by unicast copies: not joined: the port is down"));
  EXPECT_EQ(subnet_.Services().size(), 1u);
  ASSERT_TRUE(subnet_.SetLink("h2", true).ok());
  ASSERT_TRUE(Until([&] { return h2->carrier("v1") && subnet_.Services().size() == 2; }));
  EXPECT_TRUE(ArrivesInTheEnd(h1->port("v1"), h2->port("v1"), Broadcast(1)));
}

}  // namespace
}  // namespace eoib
