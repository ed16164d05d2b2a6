#include "vswitch/wire/ip/arp.h"

#include <gtest/gtest.h>

#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/golden_ipoib_for_test.h"

namespace eoib {
namespace {

const MacAddr kMacA = MacAddr::FromUint64(0x0200'5e10'0001),
              kMacB = MacAddr::FromUint64(0x0200'5e10'0002);
const Ipv4Addr kIpA(0xc000'0201), kIpB(0xc000'0202);

IpoibAddress BroadcastAddress() {
  return IpoibAddress::OfGroup(Mgid(*Gid::Parse("ff12:401b:ffff::ffff:ffff")));
}

template <typename Packet>
std::string Encoded(const Packet& packet) {
  std::vector<uint8_t> bytes(Packet::kSize, 0xee);
  EXPECT_TRUE(EncodeArp(packet, absl::MakeSpan(bytes)));
  return ToHex(bytes);
}

// RFC 826, and RFC 903 for the reverse operations.
TEST(ArpTest, GoldenEthernetPackets) {
  const struct {
    const char* description;
    const char* hex;
    EthernetArp packet;
    ArpPurpose purpose;
  } kRows[] = {
      {"request",
       "0001 0800 06 04 0001 02005e100001 c0000201 000000000000 c0000202",
       {ArpOperation::kRequest, kMacA, kIpA, MacAddr(), kIpB},
       ArpPurpose::kRequest},
      {"reply",
       "0001 0800 06 04 0002 02005e100002 c0000202 02005e100001 c0000201",
       {ArpOperation::kReply, kMacB, kIpB, kMacA, kIpA},
       ArpPurpose::kReply},
      {"probe",
       "0001 0800 06 04 0001 02005e100001 00000000 000000000000 c0000201",
       {ArpOperation::kRequest, kMacA, Ipv4Addr(), MacAddr(), kIpA},
       ArpPurpose::kProbe},
      {"probe of nothing",
       "0001 0800 06 04 0001 02005e100001 00000000 000000000000 00000000",
       {ArpOperation::kRequest, kMacA, Ipv4Addr(), MacAddr(), Ipv4Addr()},
       ArpPurpose::kProbe},
      {"announcement",
       "0001 0800 06 04 0001 02005e100001 c0000201 000000000000 c0000201",
       {ArpOperation::kRequest, kMacA, kIpA, MacAddr(), kIpA},
       ArpPurpose::kGratuitous},
      {"gratuitous reply",
       "0001 0800 06 04 0002 02005e100001 c0000201 ffffffffffff c0000201",
       {ArpOperation::kReply, kMacA, kIpA, MacAddr::Broadcast(), kIpA},
       ArpPurpose::kGratuitous},
      {"reverse request",
       "0001 0800 06 04 0003 02005e100001 00000000 02005e100001 00000000",
       {ArpOperation::kReverseRequest, kMacA, Ipv4Addr(), kMacA, Ipv4Addr()},
       ArpPurpose::kReverseRequest},
      {"reverse reply",
       "0001 0800 06 04 0004 02005e100002 c0000202 02005e100001 c0000201",
       {ArpOperation::kReverseReply, kMacB, kIpB, kMacA, kIpA},
       ArpPurpose::kReverseReply},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(ParseEthernetArp(FromHex(row.hex)), row.packet) << row.description;
    EXPECT_EQ(Encoded(row.packet), ToHex(FromHex(row.hex))) << row.description;
    EXPECT_EQ(PurposeOf(row.packet), row.purpose) << row.description;
    EXPECT_FALSE(ParseIpoibArp(FromHex(row.hex)).has_value()) << row.description;
  }
}

// RFC 4391 §9.2.
TEST(ArpTest, GoldenIpoibPackets) {
  const Ipv4Addr first(0x0a00'0001), second(0x0a00'0002);
  const struct {
    const char* description;
    std::vector<uint8_t> bytes;
    IpoibArp packet;
    ArpPurpose purpose;
  } kRows[] = {
      {"request of Linux",
       PacketOf(kLinuxArpRequest),
       {ArpOperation::kRequest, LinuxAdapter(0), first, IpoibAddress(), second},
       ArpPurpose::kRequest},
      {"reply of Linux",
       PacketOf(kLinuxArpReply),
       {ArpOperation::kReply, LinuxAdapter(1), second, LinuxAdapter(0), first},
       ArpPurpose::kReply},
      {"gratuitous one of Linux",
       PacketOf(kLinuxArpGratuitous),
       {ArpOperation::kRequest, LinuxAdapter(0), first, BroadcastAddress(), first},
       ArpPurpose::kGratuitous},
      {"probe",
       FromHex("0020 0800 14 04 0001 00 000048 fe80000000000000 0002c903000e0b72 00000000"
               "00 000000 0000000000000000 0000000000000000 c0000201"),
       {ArpOperation::kRequest,
        {Qpn(0x48), *Gid::Parse("fe80::2:c903:e:b72")},
        Ipv4Addr(),
        IpoibAddress(),
        kIpA},
       ArpPurpose::kProbe},
      {"reverse request",
       FromHex("0020 0800 14 04 0003 00 000048 fe80000000000000 0002c903000e0b72 00000000"
               "00 000048 fe80000000000000 0002c903000e0b72 00000000"),
       {ArpOperation::kReverseRequest,
        {Qpn(0x48), *Gid::Parse("fe80::2:c903:e:b72")},
        Ipv4Addr(),
        {Qpn(0x48), *Gid::Parse("fe80::2:c903:e:b72")},
        Ipv4Addr()},
       ArpPurpose::kReverseRequest},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(ParseIpoibArp(row.bytes), row.packet) << row.description;
    EXPECT_EQ(PurposeOf(row.packet), row.purpose) << row.description;
    EXPECT_FALSE(ParseEthernetArp(row.bytes).has_value()) << row.description;
    auto without_flags = row.bytes;
    without_flags[8] = without_flags[32] = 0;
    EXPECT_EQ(Encoded(row.packet), ToHex(without_flags)) << row.description;
  }
}

TEST(ArpTest, Refuses) {
  const struct {
    const char* description;
    const char* hex;
  } kRows[] = {
      {"nothing", ""},
      {"another hardware type", "0006 0800 06 04 0001 02005e100001 c0000201 000000000000 c0000202"},
      {"InfiniBand's hardware type with Ethernet's length",
       "0020 0800 06 04 0001 02005e100001 c0000201 000000000000 c0000202"},
      {"another protocol", "0001 86dd 06 04 0001 02005e100001 c0000201 000000000000 c0000202"},
      {"another length of hardware addresses",
       "0001 0800 08 04 0001 02005e100001 c0000201 000000000000 c0000202"},
      {"another length of protocol addresses",
       "0001 0800 06 10 0001 02005e100001 c0000201 000000000000 c0000202"},
      {"operation 0", "0001 0800 06 04 0000 02005e100001 c0000201 000000000000 c0000202"},
      {"inverse ARP", "0001 0800 06 04 0008 02005e100001 c0000201 000000000000 c0000202"},
  };
  for (const auto& row : kRows) {
    auto bytes = FromHex(row.hex);
    EXPECT_FALSE(ParseEthernetArp(bytes).has_value()) << row.description;
    bytes.resize(IpoibArp::kSize);
    EXPECT_FALSE(ParseIpoibArp(bytes).has_value()) << row.description;
  }
}

TEST(ArpTest, Bounds) {
  const auto ipoib = PacketOf(kLinuxArpRequest);
  for (size_t size = 0; size < ipoib.size(); ++size) {
    EXPECT_FALSE(
        ParseIpoibArp(std::vector<uint8_t>(ipoib.begin(), ipoib.begin() + size)).has_value())
        << size;
  }
  auto padded = FromHex("0001 0800 06 04 0001 02005e100001 c0000201 000000000000 c0000202");
  padded.resize(46);
  EXPECT_TRUE(ParseEthernetArp(padded).has_value()) << "Ethernet pads it";
  padded.resize(EthernetArp::kSize - 1);
  EXPECT_FALSE(ParseEthernetArp(padded).has_value());

  std::vector<uint8_t> room(IpoibArp::kSize - 1, 0xee);
  const auto untouched = room;
  EXPECT_FALSE(EncodeArp(IpoibArp(), absl::MakeSpan(room)));
  EXPECT_FALSE(EncodeArp(EthernetArp(), absl::MakeSpan(room).first(EthernetArp::kSize - 1)));
  EXPECT_EQ(room, untouched);
}

}  // namespace
}  // namespace eoib
