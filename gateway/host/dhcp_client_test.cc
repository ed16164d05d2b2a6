#include "gateway/host/dhcp_client.h"

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gateway/host/addresses_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/hex_for_test.h"
#include "vswitch/base/seed_for_test.h"
#include "vswitch/wire/ip/udp.h"

namespace eoib::endpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Bytes = std::vector<uint8_t>;

const Bytes kIdentifier = DhcpClientIdentifier(1, DuidOf(Guid(0x0202'c903'000e'0048)));

class DhcpRecorder final : public DhcpClient::Owner {
 public:
  void SendDhcp(absl::Span<const uint8_t> packet) override {
    sent.emplace_back(packet.begin(), packet.end());
  }
  void CheckAddress(const DhcpLease& lease) override {
    log.push_back("check " + lease.address.ToString());
  }
  void OnLease(const DhcpLease& lease) override {
    log.push_back("lease " + lease.address.ToString());
  }
  void OnLeaseEnd(const DhcpLease& lease) override {
    log.push_back("end " + lease.address.ToString());
  }
  std::vector<std::string> Take() { return std::exchange(log, {}); }

  std::vector<Bytes> sent;
  std::vector<std::string> log;
};

class DhcpClientTest : public testing::Test {
 protected:
  // Runs until something was sent, at most for `time`.
  void Run(absl::Duration time) {
    const absl::Time end = clock_.Now() + time;
    while (client_.Next() <= end) {
      if (client_.Next() > clock_.Now()) clock_.Advance(client_.Next() - clock_.Now());
      client_.Tick();
    }
    clock_.Advance(end - clock_.Now());
  }
  // The only packet that was sent, decoded: "discover", "request 10.0.0.7 of 10.0.0.1".
  std::string Sent() {
    if (owner_.sent.empty()) return "nothing";
    EXPECT_THAT(owner_.sent, SizeIs(1));
    last_ = owner_.sent.back();
    owner_.sent.clear();
    const auto packet = ParseIpv4Packet(last_);
    const auto datagram = ParseUdp(*packet);
    const auto message = DhcpMessage::Parse(datagram->payload);
    EXPECT_EQ(datagram->source_port, 68);
    EXPECT_EQ(datagram->destination_port, 67);
    fields_ = message->fields();
    // RFC 4390 §2.1.
    EXPECT_EQ(fields_.hardware_type, 32);
    EXPECT_EQ(fields_.hardware_length, 0);
    EXPECT_EQ(ToHex(fields_.hardware_address), std::string(32, '0'));
    EXPECT_EQ(fields_.flags, fields_.client.IsZero() ? kDhcpBroadcastFlag : 0);
    EXPECT_EQ(*message->FindOption(DhcpOption::kClientIdentifier), kIdentifier);
    static constexpr const char* kNames[] = {"",        "discover", "offer", "request",
                                             "decline", "ack",      "nak",   "release"};
    std::string text = kNames[static_cast<size_t>(*message->type())];
    if (!fields_.client.IsZero()) absl::StrAppend(&text, " from ", fields_.client.ToString());
    if (packet->source != fields_.client)
      absl::StrAppend(&text, " SOURCE ", packet->source.ToString());
    if (const auto ip = message->FindAddress(DhcpOption::kRequestedAddress))
      absl::StrAppend(&text, " ", ip->ToString());
    if (const auto ip = message->FindAddress(DhcpOption::kServerIdentifier))
      absl::StrAppend(&text, " of ", ip->ToString());
    if (!packet->destination.IsBroadcast())
      absl::StrAppend(&text, " to ", packet->destination.ToString());
    return text;
  }
  struct Answer {
    const char* yours = "10.0.0.7";
    const char* server = "10.0.0.1";
    uint32_t seconds = 3600;
    const char* mask = "255.255.255.0";
    absl::optional<uint32_t> t1, t2;
    absl::optional<uint32_t> transaction;
    Bytes identifier = kIdentifier;
    uint16_t port = 68;
    BootpOperation operation = BootpOperation::kReply;
  };
  bool Receive(DhcpMessageType type) { return Receive(type, Answer()); }
  bool Receive(DhcpMessageType type, const Answer& answer) {
    return DeliverTo(&client_, type, answer);
  }
  bool DeliverTo(DhcpClient* client, DhcpMessageType type, const Answer& answer) {
    DhcpFields fields = fields_;
    fields.operation = answer.operation;
    fields.transaction = answer.transaction.value_or(fields_.transaction);
    fields.yours = Ip4(answer.yours);
    Bytes bytes(kUdp4HeadersSize + 548);
    DhcpWriter writer(fields, absl::MakeSpan(bytes).subspan(kUdp4HeadersSize));
    writer.Add(type);
    writer.AddAddress(DhcpOption::kServerIdentifier, Ip4(answer.server));
    if (answer.seconds != 0) writer.AddNumber32(DhcpOption::kLeaseTime, answer.seconds);
    if (answer.t1.has_value()) writer.AddNumber32(DhcpOption::kRenewalTime, *answer.t1);
    if (answer.t2.has_value()) writer.AddNumber32(DhcpOption::kRebindingTime, *answer.t2);
    if (answer.mask != nullptr) writer.AddAddress(DhcpOption::kSubnetMask, Ip4(answer.mask));
    writer.AddAddress(DhcpOption::kRouters, Ip4("10.0.0.254"));
    writer.AddAddress(DhcpOption::kDomainNameServers, Ip4("10.0.0.53"));
    if (!answer.identifier.empty()) writer.Add(DhcpOption::kClientIdentifier, answer.identifier);
    const auto packet = BuildUdp4({.source = Ip4(answer.server),
                                   .destination = Ipv4Addr::Broadcast(),
                                   .source_port = 67,
                                   .destination_port = answer.port},
                                  writer.Finish(), absl::MakeSpan(bytes));
    return client->OnPacket(*ParseIpv4Packet(packet));
  }
  // Runs until there is a lease of an hour.
  void Bind() { Bind(Answer()); }
  void Bind(const Answer& answer) {
    client_.OnLinkUp();
    Run(absl::ZeroDuration());
    EXPECT_EQ(Sent(), "discover");
    Receive(DhcpMessageType::kOffer, answer);
    EXPECT_EQ(Sent(), absl::StrCat("request ", answer.yours, " of ", answer.server));
    Receive(DhcpMessageType::kAck, answer);
    client_.OnAddressFree(Ip4(answer.yours));
    EXPECT_EQ(client_.state(), DhcpState::kBound);
    owner_.Take();
  }

  FakeClock clock_;
  DhcpRecorder owner_;
  std::mt19937_64 random_{SeedForTest()};
  DhcpClient client_{kIdentifier, "node7", &clock_, [this] { return random_(); }, &owner_};
  Bytes last_;
  DhcpFields fields_;
};

// The fixed part and the first options typed from RFC 2131, figure 1, and RFC 4390 §2.1; the
// identifier from RFC 4361 §6.1.
TEST_F(DhcpClientTest, GoldenDiscover) {
  client_.OnLinkUp();
  Run(absl::ZeroDuration());
  ASSERT_EQ(Sent(), "discover");
  const auto payload = ParseUdp(*ParseIpv4Packet(last_))->payload;
  const std::string hex = ToHex(payload);
  EXPECT_EQ(hex.substr(0, 8), "01200000");                // op, htype 32, hlen 0, hops
  EXPECT_EQ(hex.substr(16, 8), "00008000");               // secs, broadcast
  EXPECT_EQ(hex.substr(24, 448), std::string(448, '0'));  // addresses and names
  EXPECT_EQ(hex.substr(472, 14), "63825363350101");       // magic cookie, discover
  EXPECT_EQ(hex.substr(486, 14), "3d11ff00000001");       // client identifier: type 255, IAID 1
  EXPECT_EQ(ToHex(absl::MakeConstSpan(last_).subspan(12, 8)), "00000000ffffffff");
  EXPECT_GE(payload.size(), 300u);
}

TEST_F(DhcpClientTest, AnAddressIsLeasedCheckedAndUsed) {
  EXPECT_EQ(client_.Next(), absl::InfiniteFuture());  // no link
  client_.OnLinkUp();
  Run(absl::ZeroDuration());
  EXPECT_EQ(Sent(), "discover");
  EXPECT_TRUE(Receive(DhcpMessageType::kOffer));
  EXPECT_EQ(Sent(), "request 10.0.0.7 of 10.0.0.1");
  EXPECT_TRUE(Receive(DhcpMessageType::kAck));
  EXPECT_THAT(owner_.Take(), ElementsAre("check 10.0.0.7/24"));
  EXPECT_EQ(client_.state(), DhcpState::kChecking);
  client_.OnAddressFree(Ip4("10.0.0.7"));
  EXPECT_THAT(owner_.Take(), ElementsAre("lease 10.0.0.7/24"));
  EXPECT_THAT(client_.lease()->routers, ElementsAre(Ip4("10.0.0.254")));
  EXPECT_THAT(client_.lease()->name_servers, ElementsAre(Ip4("10.0.0.53")));
  EXPECT_EQ(client_.Next(), clock_.Now() + absl::Minutes(30));
}

TEST_F(DhcpClientTest, DiscoversAreRepeatedEverMoreSlowly) {
  client_.OnLinkUp();
  std::vector<int> seconds;
  const absl::Time start = clock_.Now();
  while (clock_.Now() < start + absl::Minutes(10)) {
    Run(client_.Next() - clock_.Now());
    EXPECT_EQ(Sent(), "discover");
    seconds.push_back(static_cast<int>(
        absl::ToInt64Seconds(client_.Next() - clock_.Now() + absl::Milliseconds(500))));
  }
  ASSERT_GE(seconds.size(), 9u);
  EXPECT_THAT(std::vector<int>(seconds.begin(), seconds.begin() + 8),
              ElementsAre(1, 2, 4, 8, 16, 32, 64, 64));
}

TEST_F(DhcpClientTest, AServerThatDoesNotAnswerIsGivenUp) {
  client_.OnLinkUp();
  Run(absl::ZeroDuration());
  Sent();
  Receive(DhcpMessageType::kOffer);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Sent(), "request 10.0.0.7 of 10.0.0.1");
    Run(client_.Next() - clock_.Now());
  }
  EXPECT_EQ(Sent(), "discover");
}

TEST_F(DhcpClientTest, ATakenAddressIsDeclined) {
  client_.OnLinkUp();
  Run(absl::ZeroDuration());
  Sent();
  Receive(DhcpMessageType::kOffer);
  Sent();
  Receive(DhcpMessageType::kAck);
  client_.OnAddressTaken(Ip4("10.0.0.7"));
  EXPECT_EQ(Sent(), "decline 10.0.0.7 of 10.0.0.1");
  EXPECT_THAT(owner_.Take(), ElementsAre("check 10.0.0.7/24", "end 10.0.0.7/24"));
  Run(absl::Milliseconds(9999));
  EXPECT_EQ(Sent(), "nothing");
  Run(absl::Milliseconds(1));
  EXPECT_EQ(Sent(), "discover");
}

// For example because the kernel refuses the address.
TEST_F(DhcpClientTest, ALeaseEndsAlsoIfItsAddressIsNeverFound) {
  client_.OnLinkUp();
  Run(absl::ZeroDuration());
  Sent();
  Receive(DhcpMessageType::kOffer);
  Sent();
  Receive(DhcpMessageType::kAck);
  Run(absl::Minutes(59));
  EXPECT_EQ(client_.state(), DhcpState::kChecking);
  Run(absl::Minutes(1));
  EXPECT_THAT(owner_.Take(), ElementsAre("check 10.0.0.7/24", "end 10.0.0.7/24"));
  EXPECT_EQ(Sent(), "discover");
}

TEST_F(DhcpClientTest, ALeaseIsRenewedWithItsServer) {
  Bind();
  Run(absl::Minutes(30));
  EXPECT_EQ(Sent(), "request from 10.0.0.7 to 10.0.0.1");
  EXPECT_EQ(client_.state(), DhcpState::kRenewing);
  Receive(DhcpMessageType::kAck);
  EXPECT_EQ(client_.state(), DhcpState::kBound);
  EXPECT_THAT(owner_.Take(), ElementsAre("lease 10.0.0.7/24"));
  EXPECT_EQ(client_.lease()->expiry, clock_.Now() + absl::Hours(1));
}

TEST_F(DhcpClientTest, RebindsWithAnyServerThenTheLeaseEnds) {
  Bind();
  std::vector<std::string> sent;
  while (client_.state() != DhcpState::kSelecting) {
    Run(client_.Next() - clock_.Now());
    if (const std::string text = Sent(); text != "nothing") sent.push_back(text);
  }
  const std::string one = "request from 10.0.0.7 to 10.0.0.1", all = "request from 10.0.0.7";
  // Half of the rest of 30 to 52.5 minutes, and of 52.5 to 60, but at least a minute.
  EXPECT_EQ(absl::StrJoin(sent, "\n"),
            absl::StrJoin(
                {one, one, one, one, one, one, all, all, all, all, std::string("discover")}, "\n"));
  EXPECT_THAT(owner_.Take(), ElementsAre("end 10.0.0.7/24"));
}

TEST_F(DhcpClientTest, ANakEndsTheLease) {
  Bind();
  Run(absl::Minutes(30));
  Sent();
  Receive(DhcpMessageType::kNak);
  EXPECT_THAT(owner_.Take(), ElementsAre("end 10.0.0.7/24"));
  Run(absl::Milliseconds(1000));
  EXPECT_EQ(Sent(), "discover");
}

TEST_F(DhcpClientTest, AnotherAddressInARenewalIsNotTaken) {
  Bind();
  Run(absl::Minutes(30));
  Sent();
  Receive(DhcpMessageType::kAck, {.yours = "10.0.0.8"});
  EXPECT_THAT(owner_.Take(), ElementsAre("end 10.0.0.7/24"));
}

TEST_F(DhcpClientTest, ALeaseIsConfirmedWhenTheLinkComesBack) {
  Bind();
  client_.OnLinkDown();
  client_.OnLinkUp();
  EXPECT_EQ(Sent(), "request from 10.0.0.7");
  Receive(DhcpMessageType::kAck);
  EXPECT_EQ(client_.state(), DhcpState::kBound);
}

TEST_F(DhcpClientTest, ALeaseRunsOutWhileTheLinkIsDown) {
  Bind();
  client_.OnLinkDown();
  Run(absl::Hours(2));
  EXPECT_EQ(Sent(), "nothing");
  EXPECT_THAT(owner_.Take(), ElementsAre("end 10.0.0.7/24"));
  EXPECT_EQ(client_.Next(), absl::InfiniteFuture());
  client_.OnLinkUp();
  Run(absl::ZeroDuration());
  EXPECT_EQ(Sent(), "discover");
}

TEST_F(DhcpClientTest, AnOrderlyEndGivesTheLeaseBack) {
  Bind();
  client_.Stop();
  EXPECT_EQ(Sent(), "release from 10.0.0.7 of 10.0.0.1 to 10.0.0.1");
  EXPECT_THAT(owner_.Take(), ElementsAre("end 10.0.0.7/24"));
  client_.OnLinkUp();
  Run(absl::Hours(1));
  EXPECT_EQ(Sent(), "nothing");
}

TEST_F(DhcpClientTest, GoldenLeases) {
  const struct {
    const char* description;
    Answer answer;
    int prefix_length;      // -1: refused
    int64_t renew, rebind;  // seconds
  } kRows[] = {
      {"an hour", {}, 24, 1800, 3150},
      {"the server's own times", {.t1 = 100, .t2 = 200}, 24, 100, 200},
      {"times beyond the lease", {.t1 = 9999, .t2 = 9999}, 24, 1800, 3150},
      {"T1 after T2", {.t1 = 300, .t2 = 200}, 24, 200, 200},
      {"times of zero", {.t1 = 0, .t2 = 0}, 24, 1800, 3150},
      {"a T1 of zero", {.t1 = 0, .t2 = 200}, 24, 200, 200},
      {"a T2 of zero", {.t1 = 100, .t2 = 0}, 24, 100, 3150},
      {"seven seconds", {.seconds = 7}, 24, 3, 6},
      {"a second", {.seconds = 1}, 24, 0, 0},
      {"the longest that ends", {.seconds = 0xffff'fffe}, 24, 2'147'483'647, 3'758'096'382},
      {"no mask: by class", {.mask = nullptr}, 8, 1800, 3150},
      {"a mask with a hole", {.mask = "255.0.255.0"}, -1, 0, 0},
      {"the whole internet", {.mask = "0.0.0.0"}, 0, 1800, 3150},
      {"no lease time", {.seconds = 0}, -1, 0, 0},
      {"the unspecified address", {.yours = "0.0.0.0"}, -1, 0, 0},
      {"a group's address", {.yours = "224.0.0.1"}, -1, 0, 0},
      {"loopback", {.yours = "127.0.0.1"}, -1, 0, 0},
      {"another's transaction", {.transaction = 1}, -1, 0, 0},
      {"another's identifier", {.identifier = {255, 1}}, -1, 0, 0},
      {"no identifier: a server before RFC 6842", {.identifier = {}}, 24, 1800, 3150},
      {"a request", {.operation = BootpOperation::kRequest}, -1, 0, 0},
  };
  for (const auto& row : kRows) {
    DhcpClient client(
        kIdentifier, "", &clock_, [this] { return random_() | 2; }, &owner_);
    client.OnLinkUp();
    client.Tick();
    Sent();
    DeliverTo(&client, DhcpMessageType::kOffer, {});
    EXPECT_EQ(Sent(), "request 10.0.0.7 of 10.0.0.1");
    DeliverTo(&client, DhcpMessageType::kAck, row.answer);
    ASSERT_EQ(client.lease().has_value(), row.prefix_length >= 0) << row.description;
    if (row.prefix_length < 0) continue;
    EXPECT_EQ(client.lease()->address.prefix_length, row.prefix_length) << row.description;
    EXPECT_EQ(client.lease()->renew, clock_.Now() + absl::Seconds(row.renew)) << row.description;
    EXPECT_EQ(client.lease()->rebind, clock_.Now() + absl::Seconds(row.rebind)) << row.description;
  }
}

// At most one or two messages a second, whatever the server says, and however fast.
TEST_F(DhcpClientTest, NoTimesOfAServerMakeAStorm) {
  const struct {
    const char* description;
    Answer answer;
  } kRows[] = {
      {"times of zero", {.t1 = 0, .t2 = 0}},
      {"times of a second", {.t1 = 1, .t2 = 1}},
      {"a lease of a second", {.seconds = 1}},
      {"a lease of two seconds", {.seconds = 2}},
      {"a lease of seven seconds", {.seconds = 7}},
      {"seven seconds, T1 and T2 of zero", {.seconds = 7, .t1 = 0, .t2 = 0}},
      {"twenty seconds, T1 and T2 of a second", {.seconds = 20, .t1 = 1, .t2 = 2}},
  };
  for (const auto& row : kRows) {
    DhcpClient client(
        kIdentifier, "", &clock_, [this] { return random_(); }, &owner_);
    client.OnLinkUp();
    const absl::Time end = clock_.Now() + absl::Minutes(1);
    int messages = 0;
    while (client.Next() <= end && messages < 1000) {
      if (client.Next() > clock_.Now()) clock_.Advance(client.Next() - clock_.Now());
      client.Tick();
      for (; !owner_.sent.empty() && messages < 1000; ++messages) {
        const bool discover = Sent() == "discover";
        DeliverTo(&client, discover ? DhcpMessageType::kOffer : DhcpMessageType::kAck, row.answer);
        client.OnAddressFree(Ip4("10.0.0.7"));
      }
    }
    EXPECT_LE(messages, 125) << row.description;
  }
}

TEST_F(DhcpClientTest, ALeaseForEverIsNeverRenewed) {
  Bind({.seconds = 0xffff'ffff});
  EXPECT_EQ(client_.Next(), absl::InfiniteFuture());
  client_.OnLinkDown();
  client_.OnLinkUp();
  EXPECT_EQ(Sent(), "request from 10.0.0.7");
  Receive(DhcpMessageType::kAck, {.seconds = 0xffff'ffff});
  EXPECT_EQ(client_.state(), DhcpState::kBound);
}

TEST_F(DhcpClientTest, PacketsForAServerGoToTheKernel) {
  client_.OnLinkUp();
  Run(absl::ZeroDuration());
  Sent();
  EXPECT_FALSE(Receive(DhcpMessageType::kOffer, {.port = 67}));
  EXPECT_TRUE(Receive(DhcpMessageType::kOffer, {.transaction = 1}));
  EXPECT_EQ(Sent(), "nothing");
}

// Random servers in any order: each reported lease ends once, and none is used before it was
// checked.
TEST_F(DhcpClientTest, RandomServers) {
  constexpr DhcpMessageType kTypes[] = {DhcpMessageType::kOffer, DhcpMessageType::kAck,
                                        DhcpMessageType::kNak};
  bool in_use = false, checking = false;
  for (int step = 0; step < 20'000; ++step) {
    switch (random_() % 8) {
      case 0:
        client_.OnLinkUp();
        break;
      case 1:
        if (random_() % 4 == 0) client_.OnLinkDown();
        break;
      case 2:
        client_.OnAddressFree(Ip4("10.0.0.7"));
        break;
      case 3:
        client_.OnAddressTaken(Ip4("10.0.0.7"));
        break;
      case 4:
        clock_.Advance(absl::Seconds(random_() % 1000));
        client_.Tick();
        break;
      default:
        if (!owner_.sent.empty()) {
          owner_.sent.erase(owner_.sent.begin(), owner_.sent.end() - 1);
          Sent();
        }
        Receive(kTypes[random_() % 3], {.yours = random_() % 8 == 0 ? "10.0.0.8" : "10.0.0.7",
                                        .seconds = static_cast<uint32_t>(random_() % 4000)});
    }
    for (const std::string& line : owner_.Take()) {
      if (line.substr(0, 5) == "check") {
        ASSERT_FALSE(in_use || checking);
        checking = true;
      } else if (line.substr(0, 5) == "lease") {
        ASSERT_TRUE(in_use || checking);
        in_use = true;
        checking = false;
      } else {
        ASSERT_TRUE(in_use || checking) << line;
        in_use = checking = false;
      }
    }
    ASSERT_EQ(client_.lease().has_value(), in_use || checking);
  }
}

}  // namespace
}  // namespace eoib::endpoint
