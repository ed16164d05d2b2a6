// A malicious peer that sends arbitrary datagrams: the agent must drop and count them.
//
// The test itself is the peer. It has a port on the subnet, the P_Key and the Q_Key: the most that
// an attacker inside the VES can have.
#include "tests/netns/rogue_peer.h"

#include <algorithm>
#include <memory>
#include <random>

#include "gtest/gtest.h"
#include "tests/lab/switch_test.h"
#include "vswitch/wire/ib/ib_headers.h"

namespace eoib::lab {
namespace {

const MacAddr kRogue = MacAddr::FromUint64(0x02'66'00'00'00'01);
constexpr size_t kDatagram = RoguePeer::kDatagram;

Bytes WithFcs(Bytes frame) {
  const auto fcs = FinishIcrc(UpdateIcrc(kIcrcSeed, frame));
  frame.insert(frame.end(), fcs.begin(), fcs.end());
  return frame;
}

class RoguePeerTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    AgentSpec trunk;
    trunk.vports[0].more = "mode = \"trunk\"\n";
    trunk.veses[0].more = "announce = false\n";  // the tests count its datagrams
    agent_ = &AddAgent("h1", trunk);
    rogue_ = std::make_unique<RoguePeer>(&fabric(), "rogue", agent_);
    v1_ = std::make_unique<PacketSocket>(agent_->host(), "v1");
    mac_ = Mac(agent_->host()->Mac("v1"));
  }

  // Closes the rogue's port first: it never polls, so datagrams to it would stay under way for
  // ever.
  void TearDown() override {
    rogue_.reset();
    SwitchTest::TearDown();
  }

  // Sends a valid frame and waits for it: then the agent has processed all earlier datagrams.
  void Flush(uint32_t marker) {
    rogue_->Send(Encapsulated(0xc0000000, TestFrame(mac_, kRogue, marker)));
    ASSERT_TRUE(v1_->WaitFor(Marked(marker)));
  }

  Agent* agent_ = nullptr;
  std::unique_ptr<RoguePeer> rogue_;
  std::unique_ptr<PacketSocket> v1_;
  MacAddr mac_;
};

TEST_F(RoguePeerTest, InvalidDatagramsAreCountedUnderTheirReason) {
  const Bytes good = TestFrame(mac_, kRogue, 1, 100);
  const Bytes header_only(good.begin(), good.begin() + 14);
  struct {
    const char* description;
    Bytes payload;
    const char* reason;  // null: delivered
  } rows[] = {
      {"one byte", {0xc0}, "not_eoib"},
      {"three bytes", {0xc0, 0, 0}, "not_eoib"},
      {"all zeros", Bytes(100, 0), "not_eoib"},
      {"signature 01", Encapsulated(0x40000000, good), "not_eoib"},
      {"signature 10", Encapsulated(0xa0000000, good), "not_eoib"},
      {"all ones", Encapsulated(0xffffffff, good), "bad_version"},
      {"version 1", Encapsulated(0xd0000000, good), "bad_version"},
      {"version 3", Encapsulated(0xf0000000, good), "bad_version"},
      {"TCP/UDP checksum status 11", Encapsulated(0xcc000000, good), "header_reserved"},
      {"IP checksum status 10", Encapsulated(0xc2000000, good), "header_reserved"},
      {"IP checksum status 11", Encapsulated(0xc3000000, good), "header_reserved"},
      {"an extension that no sender writes", Encapsulated(0xc0800000, good), "segment"},
      {"a wrong FCS", Encapsulated(0xc0400000, good), "bad_fcs"},
      {"less than an FCS", Encapsulated(0xc0400000, {1, 2, 3}), "bad_fcs"},
      {"a segment with its FCS", Encapsulated(0xc0600000, WithFcs(good)), "segment"},
      {"more segments", Encapsulated(0xc0200000, good), "segment"},
      {"segment offset 1", Encapsulated(0xc0010000, good), "segment"},
      {"segment offset 31", Encapsulated(0xc01f0000, good), "segment"},
      {"segment id 1", Encapsulated(0xc0000001, good), "segment"},
      {"segment id 65535", Encapsulated(0xc000ffff, good), "segment"},
      {"no frame", Encapsulated(0xc0000000, {}), "runt"},
      {"13 bytes of frame", Encapsulated(0xc0000000, Bytes(good.begin(), good.begin() + 13)),
       "runt"},
      {"a tag cut short", Encapsulated(0xc0000000, EthernetFrame(mac_, kRogue, 0x8100, {0, 10})),
       "runt"},
      {"VID 4095", Encapsulated(0xc0000000, WithTag(good, 4095)), "reserved_vid"},
      {"a group source", Encapsulated(0xc0000000, TestFrame(mac_, MacAddr::Broadcast(), 2)),
       "bad_source"},
      {"a source of zeros", Encapsulated(0xc0000000, TestFrame(mac_, MacAddr(), 2)), "bad_source"},
      {"a control message of unknown type",
       Encapsulated(0xc0000000, EthernetFrame(mac_, kRogue, 0x88b5, Bytes(60, 0xff))),
       "control_message"},
      {"a control message behind a tag",
       Encapsulated(0xc0000000, WithTag(EthernetFrame(mac_, kRogue, 0x88b5, Bytes(60, 0xff)), 10)),
       "control_ethertype"},
      {"a control message behind a provider tag",
       Encapsulated(0xc0000000,
                    WithTag(EthernetFrame(mac_, kRogue, 0x88b5, Bytes(60, 0xff)), 10, 0, 0x88a8)),
       "control_ethertype"},
      {"the alternative header's EtherType",
       Encapsulated(0xc0000000, EthernetFrame(mac_, kRogue, 0x8919, Bytes(60, 0xff))),
       "control_ethertype"},
      {"a pause frame", Encapsulated(0xc0000000, TestFrame(Mac("01:80:c2:00:00:01"), kRogue, 2)),
       "link_local_control"},
      {"LACP", Encapsulated(0xc0000000, TestFrame(Mac("01:80:c2:00:00:02"), kRogue, 2)),
       "link_local_control"},
      {"a frame for a MAC that is on the fabric",
       Encapsulated(0xc0000000, TestFrame(kRogue, kRogue, 2)), "fabric_to_fabric"},
      {"a frame of addresses and type only", Encapsulated(0xc0000000, header_only), nullptr},
      {"TCP ok on a frame that is not TCP", Encapsulated(0xc4000000, good), nullptr},
      {"UDP ok on a frame that is not UDP", Encapsulated(0xc9000000, good), nullptr},
      {"a frame with its FCS", Encapsulated(0xc0400000, WithFcs(good)), nullptr},
      {"the alternative header", Encapsulated(0x89190000, good), nullptr},
      {"the alternative header, reserved bytes set", Encapsulated(0x8919ffff, good), nullptr},
      {"spanning tree", Encapsulated(0xc0000000, TestFrame(Mac("01:80:c2:00:00:00"), kRogue, 2)),
       nullptr},
      {"LLDP", Encapsulated(0xc0000000, TestFrame(Mac("01:80:c2:00:00:0e"), kRogue, 2)), nullptr},
      {"the largest datagram", Encapsulated(0xc0000000, TestFrame(mac_, kRogue, 1, kDatagram - 4)),
       nullptr},
  };
  agent_->WaitUntilAnnounced();
  uint32_t marker = 1000;
  Flush(marker);  // also makes the agent learn the rogue's MAC
  for (const auto& row : rows) {
    SCOPED_TRACE(row.description);
    const uint64_t in = agent_->Stat("frames_in"), forwarded = agent_->Stat("forwarded");
    const uint64_t dropped = row.reason != nullptr ? agent_->Drop(row.reason) : 0;
    rogue_->Send(row.payload);
    Flush(++marker);
    EXPECT_EQ(agent_->Stat("frames_in"), in + 2);
    EXPECT_EQ(agent_->Stat("forwarded"), forwarded + (row.reason != nullptr ? 1 : 2));
    if (row.reason == nullptr) continue;
    EXPECT_EQ(agent_->Drop(row.reason), dropped + 1) << agent_->MustCtl({"drops"});
  }
}

TEST_F(RoguePeerTest, RandomDatagramsAreAccountedFor) {
  std::mt19937_64 random;  // the same numbers in every run
  constexpr int kDatagrams = 2000;
  agent_->WaitUntilAnnounced();
  const uint64_t in = agent_->Stat("frames_in");
  uint32_t flushes = 0;
  for (int i = 1; i <= kDatagrams; ++i) {
    Bytes payload(1 + random() % (i % 10 == 0 ? kDatagram : 200));
    for (uint8_t& byte : payload) byte = static_cast<uint8_t>(random());
    // Half have a valid encapsulation header, a quarter also valid addresses.
    if (i % 2 == 0 && payload.size() >= 4)
      std::copy_n(Encapsulated(0xc0000000, {}).begin(), 4, payload.begin());
    if (i % 4 == 0 && payload.size() >= 18)
      std::copy_n(TestFrame(mac_, kRogue, 1).begin(), 14, payload.begin() + 4);
    rogue_->Send(payload);
    if (i % 100 == 0) Flush(1000 + ++flushes);
  }
  EXPECT_EQ(agent_->Stat("frames_in"), in + kDatagrams + flushes);
}

}  // namespace
}  // namespace eoib::lab
