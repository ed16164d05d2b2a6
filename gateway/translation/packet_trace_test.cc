#include "gateway/translation/packet_trace.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gateway/election/hello.h"
#include "gateway/translation/translator_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/golden_ipoib_for_test.h"

namespace eoib::gateway {
namespace {

using ::testing::HasSubstr;
using translation::Bytes;

std::string Squeezed(absl::string_view hex) { return absl::StrReplaceAll(hex, {{" ", ""}}); }
std::string Datagram(const std::string& type, const Bytes& payload) {
  return absl::StrCat(type, "0000", ToHex(payload));
}

Bytes Tagged(const Bytes& frame, const Bytes& tag) {
  Bytes tagged(frame.begin(), frame.begin() + 12);
  tagged.insert(tagged.end(), tag.begin(), tag.end());
  tagged.insert(tagged.end(), frame.begin() + 12, frame.end());
  return tagged;
}

// Ethernet host 1 and IPoIB host 1 know each other; see translator_test_fixture.h.
class PacketTraceTest : public translation::TranslatorTest {
 protected:
  PacketTraceTest() { Introduce(1, 1); }

  // The trace of a packet, given as words, by a gateway of VLAN 10.
  std::string Trace(const std::string& words) {
    const auto packet = TracedPacket::Parse(std::vector<std::string>(absl::StrSplit(words, ' ')));
    if (!packet.ok()) return absl::StrCat("error: ", packet.status().message());
    PacketTrace trace(QuietOptions({}), Vid(10), &clock_);
    trace.CopyFrom(translator_);
    return trace.Run(*packet);
  }
  std::string Peer(int n) const { return translation::PeerAddr(n).ToString(); }
  const Bytes ip_ = translation::Udp4(translation::HostIp(1), translation::PeerIp(1));
  const Bytes frame_ =
      translation::Frame(translation::PeerMac(1), translation::HostMac(1), 0x0800, ip_);
  const Bytes answer_ = translation::Udp4(translation::PeerIp(1), translation::HostIp(1));
};

TEST_F(PacketTraceTest, PrintsOutputsOfBothSides) {
  const std::string across = absl::StrCat("to the IPoIB link: to ", Peer(1),
                                          ", type 0x0800, 36 bytes\n    ", ToHex(ip_), "\n");
  const std::string back = absl::StrCat("to the VES: to ", translation::HostMac(1).ToString(),
                                        " from ", translation::PeerMac(1).ToString(),
                                        ", type 0x0800, 36 bytes\n    ", ToHex(answer_));
  const Bytes stranger = translation::Frame(MacAddr::FromUint64(0x0200'0000'00ff),
                                            translation::HostMac(1), 0x0800, ip_);
  const Bytes report = translation::Udp4(translation::HostIp(1), translation::Ip4("239.1.2.3"));
  const Bytes multicast = translation::Frame(translation::GroupMac(translation::Ip4("239.1.2.3")),
                                             translation::HostMac(1), 0x0800, report);
  const Bytes big = translation::Udp6(translation::HostIp6(1), translation::PeerIp6(1), 3000);
  const Bytes too_big =
      translation::Frame(translation::PeerMac(1), translation::HostMac(1), 0x86dd, big);
  const std::string request = Squeezed(kLinuxArpRequest);
  const struct {
    const char* what;
    std::string words;
    std::vector<std::string> says;
  } rows[] = {
      {"a packet for a station",
       "ethernet " + ToHex(frame_),
       {"frame from the VES, 60 bytes\n  crosses\n", across}},
      {"the same with its tag",
       "ethernet " + ToHex(Tagged(frame_, {0x81, 0, 0, 10})),
       {"64 bytes\n  crosses", across}},
      {"a tag of another VLAN",
       "ethernet " + ToHex(Tagged(frame_, {0x81, 0, 0, 11})),
       {"does not come to the gateway: VLAN 11 is not the gateway's, which is 10"}},
      {"an unknown MAC address", "ethernet " + ToHex(stranger), {"is dropped: unknown_station, "}},
      {"for a group",
       "ethernet " + ToHex(multicast),
       {"to group ff12:401b:8001:", "(or all routers, if it does not exist)"}},
      {"larger than the other side's MTU",
       "ethernet " + ToHex(too_big),
       {"is dropped: too_big", "to the VES: to "}},
      {"half a frame", "ethernet 0102030405", {"is dropped: malformed"}},
      {"from a station",
       absl::StrCat("ipoib ", Datagram("0800", answer_), " ", Peer(1)),
       {"crosses", back}},
      {"without a sender that is known",
       absl::StrCat("ipoib ", Datagram("0800", answer_), " -"),
       {"crosses", back}},
      {"from a host that is new",
       absl::StrCat("ipoib ", request,
                    " 80:00:00:02:fe:80:00:00:00:00:00:00:02:53:49:4d:49:42:00:01 group"),
       {"crosses", "changes what is known: 1 IPoIB interfaces met for the first time",
        "to the VES: to ff:ff:ff:ff:ff:ff"}},
      {"an unknown IPoIB type",
       "ipoib 1234000045 -",
       {"does not come to the translation: the IPoIB header"}},
      {"for a host that has to be asked for",
       absl::StrCat(
           "ipoib ",
           Datagram("0800", translation::Udp4(translation::PeerIp(1), translation::HostIp(77))),
           " ", Peer(1)),
       {"waits until its destination answers", "to the VES: to ff:ff:ff:ff:ff:ff", "type 0x0806"}},
      {"a hello",
       absl::StrCat(
           "ipoib ",
           Datagram("86dd",
                    EncodeHello({{1, translation::PeerAddr(2)}, Election::Claim::kActive}, {})),
           " ", Peer(2), " group"),
       {"is a hello of gateways"}},
  };
  for (const auto& row : rows) {
    const std::string text = Trace(row.words);
    for (const std::string& says : row.says) EXPECT_THAT(text, HasSubstr(says)) << row.what;
  }
}

TEST_F(PacketTraceTest, SaysWhichGroupsItJoins) {
  Bytes probe;
  translation::BuildAdvertisement(translation::HostIp6(2), false, translation::HostMac(2), &probe);
  const Bytes frame =
      translation::Frame(translation::GroupMac(kAllNodes), translation::HostMac(2), 0x86dd, probe);
  EXPECT_THAT(Trace("ethernet " + ToHex(frame)), HasSubstr("joins group ff12:601b:8001:"));
}

TEST_F(PacketTraceTest, AGatewayThatDoesNotWorkSaysSo) {
  translator_.SetActive(false);
  EXPECT_THAT(Trace("ethernet " + ToHex(frame_)), HasSubstr("is dropped: standby"));
  translator_.OnLinkState(absl::nullopt);
  EXPECT_THAT(Trace("ethernet " + ToHex(frame_)), HasSubstr("is dropped: link_down"));
}

TEST_F(PacketTraceTest, ChangesNothing) {
  const auto before = translator_.Save();
  const uint64_t frames = (*this)[translation::Event::kFramesIn];
  Trace(absl::StrCat("ipoib ", Squeezed(kLinuxArpRequest), " - group"));
  Trace("ethernet " + ToHex(frame_));
  EXPECT_EQ(translator_.Save(), before);
  EXPECT_EQ((*this)[translation::Event::kFramesIn], frames);
  EXPECT_TRUE(sink_.outputs.empty());
}

TEST(TracedPacketTest, Mistakes) {
  const struct {
    std::string words;
    const char* says;
  } rows[] = {
      {"", "write: GATEWAY ethernet FRAME"},
      {"ethernet", "write: "},
      {"ethernet 00 01", "write: "},
      {"token 00", "write: "},
      {"ipoib 00", "write: "},
      {"ipoib 00 - multicast", "write: "},
      {"ethernet 000", "in hexadecimal"},
      {"ethernet 0x00", "in hexadecimal"},
      {"ethernet :", "in hexadecimal"},
      {"ethernet " + std::string(2 * 65536 + 40, '0'), "in hexadecimal"},
      {"ipoib 00 80:00:00:02", "80:00:00:02"},
  };
  for (const auto& row : rows) {
    const auto packet =
        TracedPacket::Parse(std::vector<std::string>(absl::StrSplit(row.words, ' ')));
    ASSERT_FALSE(packet.ok()) << row.words;
    EXPECT_THAT(std::string(packet.status().message()), HasSubstr(row.says));
  }
  const auto colons = TracedPacket::Parse({"ethernet", "02:00:5E:10"});
  EXPECT_EQ(colons->bytes, (Bytes{0x02, 0x00, 0x5e, 0x10}));
}

}  // namespace
}  // namespace eoib::gateway
