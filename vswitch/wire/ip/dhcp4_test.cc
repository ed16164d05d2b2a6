#include "vswitch/wire/ip/dhcp4.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "vswitch/wire/ip/dhcp4_writer.h"
#include "vswitch/wire/ip/golden_ip_for_test.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_for_test.h"
#include "vswitch/wire/ip/udp.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;
using Option = DhcpOption;

constexpr size_t kHeaders = kUdp4HeadersSize, kFixed = 236, kFlags = 10, kClient = 12, kRelay = 24,
                 kServerName = 44, kFile = 108;
constexpr char kCookie[] = "63825363";

Bytes MessageOf(const char* packet) {
  const Bytes bytes = FromHex(packet);
  return {bytes.begin() + kHeaders, bytes.end()};
}

// A request with these options.
Bytes With(const std::string& options) {
  Bytes bytes(kFixed);
  bytes[0] = 1;
  const Bytes more = FromHex(absl::StrCat(kCookie, options));
  bytes.insert(bytes.end(), more.begin(), more.end());
  return bytes;
}

void Put(Bytes* message, size_t at, const char* hex) {
  const Bytes bytes = FromHex(hex);
  std::copy(bytes.begin(), bytes.end(), message->begin() + static_cast<long>(at));
}

std::string Found(const DhcpMessage& message, Option option) {
  const auto value = message.FindOption(option);
  return value.has_value() ? ToHex(*value) : "none";
}

TEST(DhcpMessageTest, GoldenMessages) {
  const std::array<uint8_t, 16> mac = {2, 0, 0x5e, 0x10, 0, 1};
  const struct {
    const char* description;
    const char* packet;
    DhcpFields fields;
    DhcpMessageType type;
  } kRows[] = {
      {"Busybox looks for servers",
       kBusyboxDiscover,
       {BootpOperation::kRequest, 1, 6, 0, 0x6f8afc45, 0, 0, {}, {}, {}, {}, mac},
       DhcpMessageType::kDiscover},
      {"Dnsmasq offers",
       kDnsmasqOffer,
       {BootpOperation::kReply,
        1,
        6,
        0,
        0x2e81083b,
        0,
        0,
        {},
        Ipv4Addr(0x0a01'006b),
        Ipv4Addr(0x0a01'00fe),
        {},
        mac},
       DhcpMessageType::kOffer},
      {"Dhclient takes it",
       kDhclientRequest,
       {BootpOperation::kRequest, 1, 6, 0, 0x2e81083b, 0, 0, {}, {}, {}, {}, mac},
       DhcpMessageType::kRequest},
      {"Dnsmasq agrees",
       kDnsmasqAck,
       {BootpOperation::kReply,
        1,
        6,
        0,
        0x2e81083b,
        0,
        0,
        {},
        Ipv4Addr(0x0a01'006b),
        Ipv4Addr(0x0a01'00fe),
        {},
        mac},
       DhcpMessageType::kAck},
  };
  for (const auto& row : kRows) {
    const Bytes payload = MessageOf(row.packet);
    const auto message = DhcpMessage::Parse(payload);
    ASSERT_TRUE(message.has_value()) << row.description;
    EXPECT_EQ(message->fields(), row.fields) << row.description;
    EXPECT_EQ(message->type(), row.type) << row.description;
    EXPECT_EQ(message->fields().flags & kDhcpBroadcastFlag, 0) << row.description;
  }
}

TEST(DhcpMessageTest, OptionsOfAnAck) {
  const Bytes payload = MessageOf(kDnsmasqAck);
  const auto message = DhcpMessage::Parse(payload);
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->FindAddress(Option::kServerIdentifier), Ipv4Addr(0x0a01'00fe));
  EXPECT_EQ(message->FindNumber(Option::kLeaseTime), 600u);
  EXPECT_EQ(message->FindNumber(Option::kRenewalTime), 300u);
  EXPECT_EQ(message->FindNumber(Option::kRebindingTime), 525u);
  EXPECT_EQ(message->FindAddress(Option::kSubnetMask), Ipv4Addr(0xffff'ff00));
  EXPECT_EQ(message->FindAddresses(Option::kRouters), std::vector<Ipv4Addr>{Ipv4Addr(0x0a01'00fe)});
  EXPECT_EQ(message->FindAddresses(Option::kDomainNameServers),
            (std::vector<Ipv4Addr>{Ipv4Addr(0xc000'0235), Ipv4Addr(0xc000'0236)}));
  EXPECT_EQ(Found(*message, Option::kHostName), "766d");
  EXPECT_EQ(Found(*message, Option::kDomainName), "none");
  EXPECT_FALSE(message->FindAddress(Option::kHostName).has_value())
      << "not the length of an address";
  EXPECT_TRUE(message->FindAddresses(Option::kDomainName).empty());
  EXPECT_FALSE(message->FindNumber(Option::kDomainName).has_value());
  EXPECT_FALSE(message->FindNumber(Option::kDomainNameServers).has_value())
      << "not the length of a number";
  EXPECT_EQ(message->FindNumber(Option::kHostName), 0x766du);
}

TEST(DhcpMessageTest, Options) {
  const struct {
    const char* description;
    std::string options;
    bool good;
    const char* name;  // the value of option 12
  } kRows[] = {
      {"none", "", true, "none"},
      {"one", "0c0161ff", true, "61"},
      {"without an end", "0c0161", true, "61"},
      {"empty", "0c00ff", true, ""},
      {"behind padding", "0000000c0161ff", true, "61"},
      {"behind the end", "ff0c0161", true, "none"},
      {"in parts (RFC 3396)", "0c0161 0600 0c026263 ff", true, "616263"},
      {"a code without length", "0c", false, ""},
      {"beyond the end", "0c0261", false, ""},
      {"a type of two bytes", "35020101ff", false, ""},
      {"type 0", "350100ff", false, ""},
      {"two types", "350101350101ff", false, ""},
      {"an overload of nothing", "340100ff", false, ""},
      {"an overload of more than there is", "340104ff", false, ""},
  };
  for (const auto& row : kRows) {
    const Bytes bytes = With(row.options);
    const auto message = DhcpMessage::Parse(bytes);
    ASSERT_EQ(message.has_value(), row.good) << row.description;
    if (row.good) {
      EXPECT_EQ(Found(*message, Option::kHostName), row.name) << row.description;
    }
  }
}

// RFC 2132 §9.3; in the order of RFC 3396 §5: options, file, server name.
TEST(DhcpMessageTest, Overload) {
  const struct {
    const char* description;
    const char* overload;
    const char* file;
    const char* server_name;
    bool good;
    const char* name;
    bool has_type;
  } kRows[] = {
      {"none", "", "0c0162ff", "0c0163ff", true, "61", false},
      {"options in the file name", "340101", "0c0162 350105 ff", "0c0163ff", true, "6162", true},
      {"options in the server name", "340102", "0c0162ff", "0c0163ff", true, "6163", false},
      {"options in both names", "340103", "0c0162ff", "0c0163ff", true, "616263", false},
      {"no options in both names", "340103", "", "", true, "61", false},
      {"names without options", "", "0cff", "0cff", true, "61", false},
      {"malformed options in the file name", "340101", "0cff", "", false, "", false},
      {"malformed options in the server name", "340102", "", "0cff", false, "", false},
      {"an overload in an overloaded field says nothing", "340101", "340103ff", "0c0163ff", true,
       "61", false},
  };
  for (const auto& row : kRows) {
    Bytes bytes = With(absl::StrCat("0c0161", row.overload, "ff"));
    Put(&bytes, kFile, row.file);
    Put(&bytes, kServerName, row.server_name);
    const auto message = DhcpMessage::Parse(bytes);
    ASSERT_EQ(message.has_value(), row.good) << row.description;
    if (!row.good) continue;
    EXPECT_EQ(Found(*message, Option::kHostName), row.name) << row.description;
    EXPECT_EQ(message->type().has_value(), row.has_type) << row.description;
  }
}

TEST(DhcpMessageTest, FixedPart) {
  const Bytes good = With("ff");
  Bytes operation = good, length = good, bootp = good;
  operation[0] = 3;
  length[2] = 17;
  Put(&bootp, kFixed, "63825364");
  EXPECT_TRUE(DhcpMessage::Parse(good).has_value());
  EXPECT_FALSE(DhcpMessage::Parse(operation).has_value());
  EXPECT_FALSE(DhcpMessage::Parse(length).has_value());
  const auto message = DhcpMessage::Parse(bootp);
  ASSERT_TRUE(message.has_value()) << "BOOTP";
  EXPECT_FALSE(message->type().has_value());
  message->ForEachOption(
      [](Option, absl::Span<const uint8_t>) { FAIL() << "BOOTP has no options"; });
  for (size_t size = 0; size < kFixed + 4; ++size) {
    const Bytes cut(good.begin(), good.begin() + static_cast<long>(size));
    EXPECT_EQ(DhcpMessage::Parse(cut).has_value(), size >= kFixed) << size;
  }
}

// A packet from Dhclient, changed at an offset of its message or of the packet, with right
// checksums.
Bytes Request(size_t at, const char* hex) {
  Bytes packet = FromHex(kDhclientRequest);
  Put(&packet, at, hex);
  RepairIpv4(&packet);
  WriteChecksum(absl::MakeSpan(packet));
  return packet;
}

TEST(AskForBroadcastTest, Rows) {
  Bytes no_sum = Request(0, ""), wrong_sum = no_sum, bad_header = no_sum, cut = no_sum;
  no_sum[26] = no_sum[27] = 0;
  wrong_sum[26] ^= 0x55;
  bad_header[10] ^= 1;
  cut.resize(kHeaders + kFixed - 1);
  RepairIpv4(&cut);
  const struct {
    const char* description;
    Bytes packet;
    bool changed;
    ChecksumVerdict sum;
  } kRows[] = {
      {"a request", Request(0, ""), true, ChecksumVerdict::kRight},
      {"other flags stay", Request(kHeaders + kFlags, "7fff"), true, ChecksumVerdict::kRight},
      {"without a checksum", no_sum, true, ChecksumVerdict::kUnknown},
      {"a wrong checksum stays wrong", wrong_sum, true, ChecksumVerdict::kWrong},
      {"the flag is set already", Request(kHeaders + kFlags, "8000"), false, {}},
      {"a reply", FromHex(kDnsmasqAck), false, {}},
      {"a reply to the server's port", Request(kHeaders, "02"), false, {}},
      {"from a relay", Request(kHeaders + kRelay, "0a010101"), false, {}},
      {"from a client that has an address", Request(kHeaders + kClient, "0a010101"), false, {}},
      {"to another port", Request(22, "0044"), false, {}},
      {"another protocol", Request(9, "06"), false, {}},
      {"a first fragment", Request(kIpv4Fragment, "2000"), false, {}},
      {"a wrong header checksum", bad_header, false, {}},
      {"cut", cut, false, {}},
      {"nothing", {}, false, {}},
  };
  for (const auto& row : kRows) {
    Bytes packet = row.packet;
    EXPECT_EQ(AskForBroadcast(absl::MakeSpan(packet)), row.changed) << row.description;
    if (!row.changed) {
      EXPECT_EQ(packet, row.packet) << row.description;
      continue;
    }
    const auto parsed = ParseIpv4Packet(packet);
    ASSERT_TRUE(parsed.has_value()) << row.description;
    EXPECT_EQ(VerifyChecksum(*parsed), row.sum) << row.description;
    EXPECT_EQ(packet[kHeaders + kFlags], row.packet[kHeaders + kFlags] | 0x80) << row.description;
  }
}

// Written from the text of RFC 4390 §2 and RFC 4361 §6.1.
TEST(DhcpWriterTest, DiscoverOnIpoib) {
  Bytes out(548, 0xee);
  DhcpWriter writer(IpoibDhcpRequest(0x12345678, Ipv4Addr()), absl::MakeSpan(out));
  writer.Add(DhcpMessageType::kDiscover);
  writer.Add(Option::kClientIdentifier,
             DhcpClientIdentifier(1, DuidOf(Guid(0x0002'c903'000e'0b72))));
  const uint8_t asked[] = {1, 3};
  writer.Add(Option::kParameterRequestList, asked);
  writer.AddNumber16(Option::kMaximumMessageSize, 1500);
  // Request, hardware type 32, length 0; broadcast flag.
  std::string expected = "01 20 00 00 12345678 0000 8000";
  expected.append(2 * (4 * 4 + 16 + 64 + 128), '0');  // addresses, hardware address, names
  absl::StrAppend(&expected, kCookie, "350101", "3d11 ff 00000001 0003001b 0002c903000e0b72",
                  "37020103", "390205dc", "ff");
  Bytes bytes = FromHex(expected);
  bytes.resize(300);
  EXPECT_EQ(ToHex(writer.Finish()), ToHex(bytes));
}

TEST(DhcpWriterTest, AClientWithAnAddressAsksForUnicast) {
  const DhcpFields fields = IpoibDhcpRequest(7, Ipv4Addr(0x0a01'0101));
  EXPECT_EQ(fields.flags & kDhcpBroadcastFlag, 0) << "RFC 4390 §2.2";
  EXPECT_EQ(fields.client, Ipv4Addr(0x0a01'0101));
  EXPECT_NE(IpoibDhcpRequest(7, Ipv4Addr()).flags & kDhcpBroadcastFlag, 0);
}

TEST(DhcpWriterTest, IsReadAgain) {
  DhcpFields fields{BootpOperation::kReply,
                    1,
                    6,
                    3,
                    4,
                    5,
                    0x8001,
                    Ipv4Addr(1),
                    Ipv4Addr(2),
                    Ipv4Addr(3),
                    Ipv4Addr(4),
                    {1, 2, 3, 4}};
  Bytes out(1500, 0xee);
  DhcpWriter writer(fields, absl::MakeSpan(out));
  const Bytes large(600, 0x61);
  writer.Add(DhcpMessageType::kNak);
  writer.Add(Option::kMessage, large);
  writer.Add(Option::kDomainName, {});
  writer.AddAddress(Option::kRouters, Ipv4Addr(9));
  writer.AddNumber32(Option::kLeaseTime, 0x12345678);
  const auto message = DhcpMessage::Parse(writer.Finish());
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->fields(), fields);
  EXPECT_EQ(message->type(), DhcpMessageType::kNak);
  EXPECT_EQ(message->FindOption(Option::kMessage), large) << "in parts (RFC 3396)";
  EXPECT_EQ(Found(*message, Option::kDomainName), "");
  EXPECT_EQ(message->FindAddress(Option::kRouters), Ipv4Addr(9));
  EXPECT_EQ(message->FindNumber(Option::kLeaseTime), 0x12345678u);
}

TEST(DhcpWriterTest, WritesNothingThatDoesNotFit) {
  for (size_t size = 0; size < 400; ++size) {
    Bytes out(size);  // of exact size, for the sanitizer
    DhcpWriter writer(DhcpFields(), absl::MakeSpan(out));
    writer.Add(Option::kHostName, Bytes(80));
    EXPECT_EQ(writer.Finish().size(), size >= 240 + 82 + 1 ? 323u : 0u) << size;
    Bytes small(size);
    DhcpWriter empty(DhcpFields(), absl::MakeSpan(small));
    EXPECT_EQ(empty.Finish().size(), size >= 300 ? 300u : 0u) << size;
  }
}

}  // namespace
}  // namespace eoib
