// Guests on trunk ports that send tagged frames: ARP and ICMP in two VLANs, and the isolation of
// VLANs.
//
// The guests are packet sockets: not every kernel has VLAN interfaces, and those would hide the
// tag.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

constexpr size_t kLargest = 4088;  // that an interface of MTU 4,070 sends, with its tag
constexpr size_t kHeaders = 14 + 20 + 8;

// A guest with one MAC and one IP address, which tags its frames with one VLAN.
class TaggedGuest {
 public:
  TaggedGuest(PacketSocket* port, uint16_t vid, const std::string& mac, const std::string& ip)
      : port_(port), vid_(vid), mac_(Mac(mac)), ip_(Ip4(ip)) {}

  MacAddr mac() const { return mac_; }

  void SendArpRequestFor(const TaggedGuest& other) { Send(ArpRequest(mac_, ip_, other.ip_)); }
  // Waits for the other's ARP request, with this guest's tag, and answers it. False if it does not
  // come.
  bool AnswersRequestOf(const TaggedGuest& other) {
    if (!Receives(ArpRequest(other.mac_, other.ip_, ip_))) return false;
    Send(ArpReply(mac_, ip_, other.mac_, other.ip_));
    return true;
  }
  bool ReceivesAnswerOf(const TaggedGuest& other) {
    return Receives(ArpReply(other.mac_, other.ip_, mac_, ip_));
  }

  Bytes EchoRequestTo(const TaggedGuest& other, uint16_t sequence, size_t payload) const {
    return IcmpEchoRequest({other.mac_, mac_, ip_, other.ip_}, vid_, sequence,
                           Bytes(payload, 0xa5));
  }
  void Send(const Bytes& untagged) { port_->Send(WithTag(untagged, vid_)); }
  bool Receives(const Bytes& untagged) {
    return port_->WaitFor(ExactlyFrame(Padded(WithTag(untagged, vid_))));
  }
  size_t TimesReceived(const Bytes& untagged) {
    return port_->Count(ExactlyFrame(Padded(WithTag(untagged, vid_))));
  }

 private:
  PacketSocket* const port_;
  const uint16_t vid_;
  const MacAddr mac_;
  const Ipv4 ip_;
};

// `one` resolves `other` by ARP; then each sends an echo request of `payload` bytes.
void ExpectCommunicate(TaggedGuest* one, TaggedGuest* other, size_t payload = 56) {
  one->SendArpRequestFor(*other);
  ASSERT_TRUE(other->AnswersRequestOf(*one));
  ASSERT_TRUE(one->ReceivesAnswerOf(*other));
  const Bytes there = one->EchoRequestTo(*other, 1, payload),
              back = other->EchoRequestTo(*one, 2, payload);
  one->Send(there);
  EXPECT_TRUE(other->Receives(there));
  other->Send(back);
  EXPECT_TRUE(one->Receives(back));
}

// Three hosts, each with a trunk port for VLANs 0, 10 and 20.
class TaggedGuestsTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    AgentSpec trunk;
    trunk.vports[0].more = "mode = \"trunk\"\ntrunk_vlans = [0, 10, 20]\n";
    const std::vector<Agent*> all = AddNumberedAgents(3, trunk);
    WaitUntilAllReceive(all);
    for (Agent* agent : all) ports_.push_back(std::make_unique<PacketSocket>(agent->host(), "v1"));
  }
  PacketSocket* port(int number) { return ports_[number - 1].get(); }

  std::vector<std::unique_ptr<PacketSocket>> ports_;
};

TEST_F(TaggedGuestsTest, GuestsInOneVlanCommunicate) {
  for (uint16_t vid : {10, 20}) {
    TaggedGuest a(port(1), vid, absl::StrCat("02:aa:00:00:01:", vid), "192.168.0.1");
    TaggedGuest b(port(2), vid, absl::StrCat("02:aa:00:00:02:", vid), "192.168.0.2");
    ExpectCommunicate(&a, &b);
  }
}

// Four guests use the same two addresses in two VLANs; none receives frames of the other VLAN.
TEST_F(TaggedGuestsTest, VlansWithTheSameAddressesDoNotMix) {
  TaggedGuest red_a(port(1), 10, "02:aa:00:00:00:01", "192.168.0.1"),
      red_b(port(2), 10, "02:aa:00:00:00:02", "192.168.0.2");
  TaggedGuest blue_a(port(1), 20, "02:aa:00:00:00:01", "192.168.0.1"),
      blue_c(port(3), 20, "02:aa:00:00:00:02", "192.168.0.2");
  ExpectCommunicate(&red_a, &red_b, 100);
  ExpectCommunicate(&blue_a, &blue_c, 200);
  for (const auto& agent : agents()) ExpectConservation(agent.get());
  EXPECT_EQ(red_b.TimesReceived(red_a.EchoRequestTo(red_b, 1, 100)), 1u);
  EXPECT_EQ(blue_c.TimesReceived(blue_a.EchoRequestTo(blue_c, 1, 200)), 1u);
  // Each is learned in its own VLAN, so no MAC has moved.
  EXPECT_EQ(agents()[0]->Stat("moved"), 0u);
  const auto in_vlan = [](uint16_t vid, size_t length) {
    return [vid, length](const Bytes& frame) {
      return frame.size() == length && frame[14] == vid >> 8 && frame[15] == (vid & 0xff);
    };
  };
  EXPECT_EQ(port(3)->Count(in_vlan(10, kHeaders + 4 + 100)), 0u);
  EXPECT_EQ(port(2)->Count(in_vlan(20, kHeaders + 4 + 200)), 0u);
}

TEST_F(TaggedGuestsTest, GuestInAnotherVlanIsNotReached) {
  TaggedGuest a(port(1), 10, "02:aa:00:00:00:01", "192.168.0.1"),
      b(port(2), 20, "02:aa:00:00:00:02", "192.168.0.2");
  a.SendArpRequestFor(b);
  // Then a broadcast in b's VLAN: when it has arrived, the request would have arrived before.
  port(1)->Send(WithTag(TestFrame(MacAddr::Broadcast(), a.mac(), 1), 20));
  ASSERT_TRUE(port(2)->WaitFor(Marked(1)));
  EXPECT_EQ(b.TimesReceived(ArpRequest(a.mac(), Ip4("192.168.0.1"), Ip4("192.168.0.2"))), 0u);
}

// VID 0 is only a priority: such a guest can communicate with an untagged host.
TEST_F(TaggedGuestsTest, PriorityTaggedGuestReachesUntaggedHost) {
  const MacAddr guest = Mac("02:aa:00:00:00:01");
  const Ipv4 ip = Ip4("10.0.0.99");
  const MacAddr host = Mac(agents()[1]->host()->Mac("v1"));
  port(1)->Send(WithTag(ArpRequest(guest, ip, Ip4(Address(2))), 0, 5));
  EXPECT_TRUE(port(1)->WaitFor(ExactlyFrame(Padded(ArpReply(host, Ip4(Address(2)), guest, ip)))));
  const Bytes echo = IcmpEchoRequest({host, guest, ip, Ip4(Address(2))}, 1, 1, Bytes(56, 1));
  port(1)->Send(WithTag(echo, 0, 5));
  EXPECT_TRUE(port(1)->WaitFor([&](const Bytes& frame) {
    // Echo reply.
    return OfEtherType(0x0800)(frame) && frame.size() == echo.size() && frame[23] == 1 &&
           frame[34] == 0;
  }));
  // The tag with the priority arrives.
  EXPECT_TRUE(port(2)->WaitFor(ExactlyFrame(WithTag(echo, 0, 5))));
  EXPECT_TRUE(
      EventuallyTrue(kPatience, [&] { return agents()[2]->Knows(guest.ToString(), "QPN", 0); }));
}

// A provider tag (IEEE 802.1ad) is payload, at every length, in a VLAN and untagged.
TEST_F(TaggedGuestsTest, ProviderTagIsPayload) {
  const MacAddr a = Mac("02:aa:00:00:00:01"), b = Mac("02:aa:00:00:00:02");
  port(2)->Send(TestFrame(MacAddr::Broadcast(), b, 1));
  ASSERT_TRUE(port(1)->WaitFor(Marked(1)));
  const Bytes provider = WithTag(WithTag(TestFrame(b, a, 2, 200), 20), 4000, 3, 0x88a8);
  port(1)->Send(provider);
  EXPECT_TRUE(port(2)->WaitFor(ExactlyFrame(provider)));
  EXPECT_EQ(port(3)->Count(ExactlyFrame(provider)), 0u) << "in VLAN 0 the MAC is known";
  const Bytes inside = WithTag(provider, 10);
  port(1)->Send(inside);
  EXPECT_TRUE(port(2)->WaitFor(ExactlyFrame(inside)));
  EXPECT_TRUE(port(3)->WaitFor(ExactlyFrame(inside))) << "in VLAN 10 no MAC is known, so it floods";
}

TEST_F(TaggedGuestsTest, LargestTaggedFrameArrives) {
  TaggedGuest a(port(1), 10, "02:aa:00:00:00:01", "192.168.0.1"),
      b(port(2), 10, "02:aa:00:00:00:02", "192.168.0.2");
  ExpectCommunicate(&a, &b, kLargest - 4 - kHeaders);
  for (const auto& agent : agents()) {
    ExpectConservation(agent.get());
    EXPECT_EQ(agent->Drop("too_large") + agent->Drop("port_too_large"), 0u);
  }
}

}  // namespace
}  // namespace eoib::lab
