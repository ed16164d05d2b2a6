// Whole gateways on a software subnet, between an agent's port and an IPoIB interface.
#include "gateway/translation/gateway.h"

#include <cstring>
#include <fstream>
#include <regex>
#include <string>

#include "gateway/gateway_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/file.h"
#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ib/sa_mad.h"
#include "vswitch/wire/ip/arp.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/mgid.h"

namespace eoib::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const MacAddr kMac = MacAddr::FromUint64(0x02'00'00'00'00'0a);
const Ipv4Addr kEthernetIp(0x0a00'0001), kIpoibIp(0x0a00'0002);
constexpr IpoibLink kIpoibLink = {PKey(0x8002)};

Bytes EthernetFrame(MacAddr to, MacAddr from, uint16_t ethertype, const Bytes& payload) {
  Bytes frame(kEthernetHeaderSize + payload.size());
  to.ToWire(&frame[0]);
  from.ToWire(&frame[6]);
  frame[12] = static_cast<uint8_t>(ethertype >> 8);
  frame[13] = static_cast<uint8_t>(ethertype);
  std::memcpy(&frame[14], payload.data(), payload.size());
  return frame;
}

Bytes ArpFrame(const EthernetArp& arp, MacAddr to) {
  Bytes payload(EthernetArp::kSize);
  EXPECT_TRUE(EncodeArp(arp, absl::MakeSpan(payload)));
  return EthernetFrame(to, arp.sender, kEtherTypeArp, payload);
}

class GatewayPathTest : public GatewayTest {
 protected:
  void Start() {
    host_ = AddHost("h1");
    node_ = AddNode("s1");
    gateway_ = AddGateway("gw");
    ASSERT_TRUE(Until([this] {
      return gateway_->Active() && host_->Joined() && node_->channel()->state().has_value();
    }));
  }
  TestPort* port() { return host_->port("v1"); }

  // A reply that the host has received since the last call.
  absl::optional<EthernetArp> TakeReply() {
    absl::optional<EthernetArp> reply;
    for (const auto& sent : port()->TakeTransmitted()) {
      const auto arp =
          ParseEthernetArp(absl::MakeConstSpan(sent.bytes).subspan(kEthernetHeaderSize));
      if (arp.has_value() && arp->operation == ArpOperation::kReply) reply = arp;
    }
    return reply;
  }
  absl::optional<IpoibArp> HeardArp() {
    for (const ipoib::Heard& heard : node_->heard) {
      if (heard.type != IpoibType::kArp) continue;
      if (const auto arp = ParseIpoibArp(ipoib::Node::Bytes(heard.payload));
          arp.has_value() && arp->target_ip == kIpoibIp)
        return arp;
    }
    return absl::nullopt;
  }
  // The Ethernet host sends an ARP request for the IPoIB host, and gets the reply.
  void Meet() {
    const EthernetArp question = {ArpOperation::kRequest, kMac, kEthernetIp, MacAddr(), kIpoibIp};
    ASSERT_TRUE(Until([&] {
      port()->Inject(ArpFrame(question, MacAddr::Broadcast()));
      return HeardArp().has_value();
    }));
    gateway_address_ = HeardArp()->sender;
    const IpoibArp answer = {ArpOperation::kReply, node_->address(), kIpoibIp, gateway_address_,
                             kEthernetIp};
    Bytes bytes(IpoibArp::kSize);
    ASSERT_TRUE(EncodeArp(answer, absl::MakeSpan(bytes)));
    absl::optional<EthernetArp> got;
    ASSERT_TRUE(Until([&] {
      node_->channel()->Send(IpoibType::kArp, bytes, gateway_address_);
      return (got = TakeReply()).has_value();
    }));
    EXPECT_EQ(got->sender_ip, kIpoibIp);
    EXPECT_EQ(got->target, kMac);
    ipoib_mac_ = got->sender;
  }

  Host* host_ = nullptr;
  ipoib::Node* node_ = nullptr;
  GatewayNode* gateway_ = nullptr;
  IpoibAddress gateway_address_;
  MacAddr ipoib_mac_;
};

TEST_F(GatewayPathTest, TwoHostsMeet) {
  Start();
  Meet();
  EXPECT_EQ(ipoib_mac_.ToUint64() >> 40 & 3, 2u)
      << "locally administered, no group: " << ipoib_mac_.ToString();
  EXPECT_THAT(gateway_->Command("gateway/neigh/show"),
              testing::AllOf(HasSubstr("10.0.0.1 "), HasSubstr("10.0.0.2 "),
                             HasSubstr(ipoib_mac_.ToString()),
                             HasSubstr(node_->address().ToString()), HasSubstr(kMac.ToString())));
  EXPECT_THAT(gateway_->Command("gateway/stats"), HasSubstr("arp_translated"));
  EXPECT_THAT(gateway_->Command("gateway/show"), HasSubstr("MTU 4096"));
}

// A traced packet is neither sent, counted nor learned from.
TEST_F(GatewayPathTest, TraceTellsTheFateOfAPacket) {
  Start();
  Meet();
  const EthernetArp question = {ArpOperation::kRequest, kMac, kEthernetIp, ipoib_mac_, kIpoibIp};
  // Except ages: a host may be heard meanwhile.
  const auto shown = [this] {
    return std::regex_replace(gateway_->Command("gateway/neigh/show"), std::regex(" +[0-9]+s "),
                              " ");
  };
  const std::string before = shown();
  const auto trace = [this](std::vector<std::string> words) {
    words.insert(words.begin(), "gw0");
    return gateway_->Command("gateway/trace", words);
  };
  node_->heard.clear();
  EXPECT_THAT(
      trace({"ethernet", ToHex(ArpFrame(question, ipoib_mac_))}),
      testing::AllOf(HasSubstr("gateway gw0: frame from the VES"), HasSubstr("  crosses\n"),
                     HasSubstr("to " + node_->address().ToString() + ", type 0x0806, 56 bytes")));
  EXPECT_THAT(
      trace({"ethernet", ToHex(ArpFrame(question, MacAddr::FromUint64(0x02'00'00'00'00'ff)))}),
      HasSubstr("unknown_station"));
  EXPECT_THAT(trace({"ipoib", "123400", "-"}), HasSubstr("IPoIB header"));
  EXPECT_THAT(trace({"ethernet", "xyz"}), HasSubstr("error: a packet is written in hexadecimal"));
  EXPECT_THAT(gateway_->Command("gateway/trace", {"gw7", "ethernet", "00"}),
              HasSubstr("no gateway \"gw7\""));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(shown(), before);
  EXPECT_FALSE(HeardArp().has_value());
}

// The worker copies its tables for these commands, and carries no packet meanwhile.
TEST_F(GatewayPathTest, AReadOnlyClientCannotHaveTablesCopiedOften) {
  Start();
  const Ipv4Addr other(0x0a00'0007);
  EXPECT_THAT(gateway_->ReadOnlyCommand("gateway/trace", {"gw0", "ethernet", "00"}),
              HasSubstr("this socket is read-only"));
  EXPECT_THAT(gateway_->ReadOnlyCommand("gateway/neigh/show"), Not(HasSubstr("10.0.0.7 ")));
  const auto learn = [&](const GatewayPort::TaskContext& context) {
    Bytes frame =
        ArpFrame({ArpOperation::kRequest, kMac, other, MacAddr(), kIpoibIp}, MacAddr::Broadcast());
    context.translator->FromEthernet(absl::MakeSpan(frame), {});
  };
  ASSERT_TRUE(gateway_->gateway()->ReadCounters(learn, absl::Now() + absl::Minutes(1)).ok());
  EXPECT_THAT(gateway_->ReadOnlyCommand("gateway/neigh/show"), Not(HasSubstr("10.0.0.7 ")))
      << "the copy of before";
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(gateway_->ReadOnlyCommand("gateway/neigh/show"), HasSubstr("10.0.0.7 "));
}

// A restarted gateway knows the addresses of both sides, and announces them with its new QPN.
TEST_F(GatewayPathTest, ARestartedGatewayKnowsItsHosts) {
  Start();
  Meet();
  const IpoibAddress before = gateway_address_;
  const std::string state = directories_.back()->path();
  gateway_->Stop();
  gateways_.clear();
  node_->heard.clear();
  gateway_ = AddGateway("gw", kOneGateway, state);
  ASSERT_TRUE(Until([this] { return gateway_->Active(); }));
  EXPECT_THAT(gateway_->Command("gateway/neigh/show"), HasSubstr(ipoib_mac_.ToString()));
  // The IPoIB host learns the new address for the Ethernet host.
  IpoibAddress now;
  ASSERT_TRUE(Until([&] {
    for (const ipoib::Heard& heard : node_->heard) {
      const auto arp = heard.type == IpoibType::kArp
                           ? ParseIpoibArp(ipoib::Node::Bytes(heard.payload))
                           : absl::nullopt;
      if (arp.has_value() && arp->sender_ip == kEthernetIp) now = arp->sender;
    }
    return !now.IsZero();
  }));
  EXPECT_NE(now, before);
  EXPECT_EQ(now.gid(), before.gid());
}

// What a forger said to an older version, for ever, is in the file. A configured family does not
// use it, the other one in bounds.
TEST_F(GatewayPathTest, ShowsAndFlushesRoutesOfTheFile) {
  directories_.push_back(std::make_unique<TempDir>());
  const std::string state = directories_.back()->path(), file = state + "/gateway-gw0.json";
  std::ofstream(file) << R"({"version": 1, "stations": [], "neighbors": [],
    "prefixes": [{"ip": "10.0.0.200", "length": 0, "until": "for ever"}, {"ip": "10.0.0.0", "length": 8, "until": "for ever"},
                 {"ip": "fd00::", "length": 64, "until": "for ever"}],
    "routers": [{"ip": "10.0.0.66", "preference": -1, "until": "for ever"}]})";
  gateway_ = AddGateway("gw", kOneGateway, state);
  ASSERT_TRUE(Until([this] { return gateway_->Active(); }));
  const std::string routes = gateway_->ReadOnlyCommand("gateway/route/show");
  EXPECT_THAT(routes, testing::MatchesRegex("gateway gw0: 2 routes\n  10.0.0.0/24 +configured\n"
                                            "  fd00::/64 +ra, expires in [0-9]+s\n"));
  EXPECT_THAT(gateway_->ReadOnlyCommand("gateway/route/flush", {"gw0"}), HasSubstr("error: "));
  EXPECT_EQ(gateway_->Command("gateway/route/flush", {"gw0"}), "gateway gw0: 1 routes flushed\n");
  EXPECT_THAT(gateway_->Command("gateway/route/show"), Not(HasSubstr("fd00::")));
  EXPECT_TRUE(
      Until([&] { return !absl::StrContains(*ReadFile(file, kMaxTableFile), "\"fd00::\""); }));
}

// An MLDv1 report (131) or done (132) of an Ethernet host for `group` (RFC 2710 §3).
Bytes MldFrame(uint8_t type, const Ipv6Addr& group) {
  const Ipv6Addr to = type == 131 ? group : *Ipv6Addr::Parse("ff02::2");
  Bytes packet = FromHex("60000000 0020 00 01 fe80000000000000 0000000000000001");
  packet.insert(packet.end(), to.bytes().begin(), to.bytes().end());
  const Bytes router_alert = FromHex("3a00 0502 0000 0100");
  packet.insert(packet.end(), router_alert.begin(), router_alert.end());
  packet.insert(packet.end(), {type, 0, 0, 0, 0, 0, 0, 0});
  packet.insert(packet.end(), group.bytes().begin(), group.bytes().end());
  EXPECT_TRUE(WriteChecksum(absl::MakeSpan(packet)));
  return EthernetFrame(translation::GroupMac(to), kMac, kEtherTypeIpv6, packet);
}

TEST_F(GatewayPathTest, JoinsGroupsOfEthernetHosts) {
  Start();
  Meet();
  const Ipv6Addr group = *Ipv6Addr::Parse("ff02::4321");
  const auto listens = [&] {
    const Mgid mgid = ToMgid(*GroupOf(kIpoibLink, group));
    return absl::StrContains(gateway_->Command("gateway/groups"),
                             absl::StrCat(mgid.ToString(), "  member"));
  };
  port()->Inject(MldFrame(131, group));
  ASSERT_TRUE(Until(listens));
  port()->Inject(MldFrame(132, group));
  ASSERT_TRUE(Until([&] { return !listens(); }));
}

// A sender of hellos is not learned as a host for ten seconds, but only at its own address.
TEST_F(GatewayPathTest, AGatewayThatSaysNoMoreHellosIsForgotten) {
  Start();
  const auto say = [this](const IpoibAddress& from, uint8_t priority = 1) {
    const Election::Hello hello = {{priority, from}, Election::Claim::kActive};
    node_->channel()->Broadcast(IpoibType::kIpv6, EncodeHello(hello, {PKey(0x8001), Vid(0)}));
  };
  const auto drops = [this] {
    return absl::StrContains(gateway_->Command("gateway/drops"), "other_gateway");
  };
  const auto announce = [this] {
    Bytes bytes(IpoibArp::kSize);
    const IpoibArp arp = {ArpOperation::kRequest, node_->address(), kIpoibIp, IpoibAddress(),
                          kIpoibIp};
    ASSERT_TRUE(EncodeArp(arp, absl::MakeSpan(bytes)));
    node_->channel()->Broadcast(IpoibType::kArp, bytes);
  };
  const auto known = [this] {
    return absl::StrContains(gateway_->Command("gateway/neigh/show"), "10.0.0.2 ");
  };
  ASSERT_TRUE(Until([&] { return say(node_->address()), announce(), drops(); }));
  EXPECT_TRUE(gateway_->Active()) << "the other is no better";
  const absl::Time last = clock_.Now();
  ASSERT_TRUE(Until([&] { return announce(), known(); }));
  EXPECT_GE(clock_.Now() - last, absl::Seconds(9));

  const Gid gid = node_->address().gid();
  for (uint32_t n = 1; n <= 10; ++n) say({Qpn(n), gid});
  say({node_->address().qpn(), Gid::FromPrefixAndGuid(gid.prefix(), Guid(1))}, 255);
  EXPECT_TRUE(Until(
      [&] { return absl::StrContains(gateway_->Command("gateway/stats"), "forged_hellos 11\n"); }));
  EXPECT_TRUE(gateway_->Active()) << "the last of them was better";
  EXPECT_TRUE(known());
}

// Any full member of the partition can send a hello with a higher priority than the gateway's.
TEST_F(GatewayPathTest, AMemberThatIsNoPeerDoesNotSilenceTheGateway) {
  host_ = AddHost("h1");
  node_ = AddNode("s1");
  gateway_ = AddGateway("gw", absl::StrCat(kOneGateway, "peers = [\"fe80::1\", \"fe80::2\"]\n"));
  ASSERT_TRUE(Until([this] {
    return gateway_->Active() && host_->Joined() && node_->channel()->state().has_value();
  }));
  const auto say = [this] {
    const Election::Hello hello = {{255, node_->address()}, Election::Claim::kActive};
    node_->channel()->Broadcast(IpoibType::kIpv6, EncodeHello(hello, {PKey(0x8001), Vid(0)}));
  };
  const auto ignored = [this] {
    const std::string stats = gateway_->Command("gateway/stats");
    return absl::StrContains(stats, "unlisted_hellos ") &&
           !absl::StrContains(stats, "unlisted_hellos 0\n");
  };
  EXPECT_TRUE(Until([&] { return say(), ignored(); }));
  const absl::Time then = clock_.Now();
  EXPECT_TRUE(Until([&] {
    say();
    EXPECT_TRUE(gateway_->Active());
    return clock_.Now() > then + absl::Seconds(2);
  }));
  EXPECT_THAT(gateway_->Command("gateway/show"),
              HasSubstr("  peers fe80:0000:0000:0000:0000:0000:0000:0001 "
                        "fe80:0000:0000:0000:0000:0000:0000:0002; "));
  Meet();
}

TEST_F(GatewayPathTest, AGatewayWithoutPeersWarns) {
  Start();
  EXPECT_THAT(gateway_->Command("gateway/show"),
              HasSubstr("  warning: without `peers`, any full member"));
}

// The active one of two gateways has both sides; a gateway that becomes active again announces the
// hosts.
TEST_F(GatewayPathTest, AGatewayWhoseVesIsDownDoesNotWork) {
  Start();
  Meet();
  const auto shows = [this](const char* state) {
    return [this, state] { return absl::StrContains(gateway_->Command("gateway/show"), state); };
  };
  ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0x8001), "gw").ok());
  ASSERT_TRUE(Until(shows(", down")));
  EXPECT_THAT(gateway_->Command("gateway/show"), HasSubstr(": joined")) << "the IPoIB link is up";
  node_->heard.clear();
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8001), "gw", softhca::Membership::kFull).ok());
  ASSERT_TRUE(Until(shows(", active")));
  ASSERT_TRUE(Until([this] {
    return std::any_of(node_->heard.begin(), node_->heard.end(), [](const ipoib::Heard& heard) {
      const auto arp = heard.type == IpoibType::kArp
                           ? ParseIpoibArp(ipoib::Node::Bytes(heard.payload))
                           : absl::nullopt;
      return arp.has_value() && arp->sender_ip == kEthernetIp;
    });
  }));

  GatewayNode* const second = AddGateway("gw2");
  ASSERT_TRUE(Until([&] { return absl::StrContains(second->Command("gateway/show"), "standby"); }));
  ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0x8001), "gw").ok());
  ASSERT_TRUE(Until([&] { return second->Active(); }));
}

// Two active gateways would be a loop.
TEST_F(GatewayPathTest, OneOfTwoWorks) {
  Start();
  GatewayNode* const second = AddGateway("gw2");
  ASSERT_TRUE(Until([&] { return absl::StrContains(second->Command("gateway/show"), "standby"); }));
  EXPECT_TRUE(gateway_->Active());
  EXPECT_THAT(second->Command("gateway/show"), HasSubstr(" works"));
  Meet();
  EXPECT_TRUE(Until([&] {
    return absl::StrContains(second->Command("gateway/neigh/show"), "10.0.0.1 ");
  })) << "it learns from what it overhears";
  gateways_.erase(gateways_.begin());
  gateway_ = second;
  ASSERT_TRUE(Until([&] { return second->Active(); }));
}

// True for a join of any group except those that bring the link and the VES up.
bool JoinsAnotherGroup(const Mad& mad) {
  const absl::StatusOr<SaHeader> header = DecodeSaHeader(mad);
  if (!header.ok() || header->method != MadMethod::kSet ||
      header->attribute != SaAttribute::kMcMemberRecord)
    return false;
  const Mgid group = DecodeMcMemberRecord(SaRecord(mad))->mgid;
  return group != FloodMgid(PKey(0x8001)) && group != ToMgid(BroadcastGroup(kIpoibLink));
}

// One deadline covers the whole command, because it blocks the control thread.
TEST_F(GatewayPathTest, AWorkerThatHangsIsNotWaitedForBeyondTheDeadline) {
  Start();
  gateway_->Stop();
  EXPECT_EQ(gateway_->gateway()->Show(absl::InfinitePast()).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(gateway_->Command("gateway/show"), HasSubstr("gateway gw0 is too busy"));
}

size_t CountHellos(const ipoib::Node& node) {
  return static_cast<size_t>(
      std::count_if(node.heard.begin(), node.heard.end(), [](const ipoib::Heard& heard) {
        return heard.type == IpoibType::kIpv6 && IsHello(ipoib::Node::Bytes(heard.payload));
      }));
}

// RFC 4391 §4: the hello address maps to another group than the broadcast group.
TEST_F(GatewayPathTest, HostsReceiveNoHellos) {
  Start();
  const auto through_group = [this] {
    return absl::StrContains(gateway_->Command("gateway/show"),
                             "  hellos go through their own group\n");
  };
  ASSERT_TRUE(Until(through_group));
  EXPECT_THAT(gateway_->Command("gateway/groups"),
              HasSubstr("ff12:601b:8002:0000:0000:0000:e01b:6777  member\n"));
  for (int i = 0; i < 3; ++i) node_->Turn();
  node_->heard.clear();
  const absl::Time then = clock_.Now();
  ASSERT_TRUE(Until([&] {
    EXPECT_TRUE(through_group());  // the worker is awake while the clock runs
    return clock_.Now() > then + absl::Seconds(5);
  }));
  EXPECT_EQ(CountHellos(*node_), 0u);
}

// Whatever joins the SA refuses or delays, two gateways with a link hear each other on it.
TEST_F(GatewayPathTest, OneOfTwoWorksThoughTheyCanJoinNoOtherGroup) {
  const auto fault = [](bool joins) {
    return [joins](FaultyHca* hca) {
      hca->LoseMads([joins](const Mad& mad) { return !joins && JoinsAnotherGroup(mad); });
    };
  };
  for (const bool first_joins : {false, true}) {
    for (const bool second_joins : {false, true}) {
      SCOPED_TRACE(absl::StrCat("first joins: ", first_joins, ", second: ", second_joins));
      GatewayNode* const first = AddGateway("gw", kOneGateway, "", fault(first_joins));
      ASSERT_TRUE(Until([&] { return first->Active(); }));
      GatewayNode* const second = AddGateway("gw2", kOneGateway, "", fault(second_joins));
      const auto stands_by = [&] {
        return absl::StrContains(second->Command("gateway/show"), "standby");
      };
      ASSERT_TRUE(Until([&] {
        EXPECT_TRUE(first->Active());
        EXPECT_FALSE(second->Active());
        return stands_by();
      }));
      gateways_.erase(gateways_.begin());
      EXPECT_TRUE(Until([&] { return second->Active(); }));
      gateways_.clear();
    }
  }
}

TEST_F(GatewayPathTest, AGatewayWhoseLinkIsLateStandsBy) {
  Start();
  const auto lost = std::make_shared<bool>(true);
  GatewayNode* const second = AddGateway("gw2", kOneGateway, "", [lost](FaultyHca* hca) {
    hca->LoseMads([lost](const Mad& mad) {
      const absl::StatusOr<SaHeader> header = DecodeSaHeader(mad);
      return *lost && header.ok() && header->attribute == SaAttribute::kMcMemberRecord &&
             DecodeMcMemberRecord(SaRecord(mad))->mgid == ToMgid(BroadcastGroup(kIpoibLink));
    });
  });
  const absl::Time then = clock_.Now();
  ASSERT_TRUE(Until([&] { return clock_.Now() > then + absl::Seconds(5); }));
  EXPECT_THAT(second->Command("gateway/show"), HasSubstr(", down: the IPoIB link is down"));
  *lost = false;
  ASSERT_TRUE(Until([&] { return absl::StrContains(second->Command("gateway/show"), "standby"); }));
}

TEST_F(GatewayPathTest, AGatewayThatLosesItsLinkDoesNotWork) {
  Start();
  ASSERT_TRUE(subnet_.RemoveFromPartition(PKey(0x8002), "gw").ok());
  ASSERT_TRUE(Until([this] {
    return absl::StrContains(gateway_->Command("gateway/show"), ", down: the IPoIB link is down");
  }));
}

// Limited members of a partition do not hear each other.
TEST_F(GatewayPathTest, ALimitedMemberOfTheLinkDoesNotWork) {
  Start();
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8002), "gw", softhca::Membership::kLimited).ok());
  ASSERT_TRUE(Until([this] {
    return absl::StrContains(gateway_->Command("gateway/show"),
                             ", down: this port is a limited member");
  }));
  EXPECT_THAT(gateway_->Command("gateway/show"), HasSubstr(": joined"));
  ASSERT_TRUE(subnet_.AddToPartition(PKey(0x8002), "gw", softhca::Membership::kFull).ok());
  ASSERT_TRUE(Until([this] { return gateway_->Active(); }));
}

}  // namespace
}  // namespace eoib::gateway
