#include "vswitch/wire/vport_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/base/hex_for_test.h"

namespace eoib {
namespace {

using Kind = VPortMessage::Kind;

const char kId[] = "2f1c4e0a93b74d558e210c6f5ab1d3e9";
const char kGid[] = "fe800000000000000002c903000e0b72";
const Gid kSender = *Gid::Parse("fe80::2:c903:e:b72");

VPortMessage Header(Kind kind) {
  VPortMessage message;
  message.kind = kind;
  message.agent = *AgentId::Parse(kId);
  message.incarnation = 7;
  message.version = 0x102;
  message.sender = {kSender, Qpn(0x48)};
  return message;
}

// The header's bytes, for a message of `length` bytes.
std::string HeaderHex(const char* kind, const char* length,
                      const char* token = "0000000000000000") {
  return absl::StrCat("01", kind, length, kId, "0000000700000102", kGid, "00000048", token);
}

FdbKey Key(uint16_t vid, const char* mac) { return FdbKey(Vid(vid), *MacAddr::Parse(mac)); }

struct Golden {
  std::string description;
  std::string hex;
  VPortMessage message;
};

std::vector<Golden> GoldenMessages() {
  std::vector<Golden> rows;
  rows.push_back({"an announcement that only repeats the version", HeaderHex("01", "0038"),
                  Header(Kind::kAnnounce)});

  VPortMessage announce = Header(Kind::kAnnounce);
  announce.base = 0;
  announce.capabilities = AgentCapabilities{true, false, true, 32, 4092};
  announce.host = "node7";
  announce.addresses = {{{kSender, Qpn(0x48)}, true}, {{kSender, Qpn(0x49)}, false}};
  announce.vports = {{1, "web1", {{Vid(0), Vid(0)}, {Vid(10), Vid(19)}}}, {2, "", {}}};
  announce.macs = {{Key(10, "02:00:5e:10:00:01"), 1, 3, /*sticky=*/true}};
  rows.push_back({"the complete state of an agent",
                  absl::StrCat(HeaderHex("01", "00b4"), "00010004 00000000",    // base 0
                               "00060008 05200000 00000ffc",                    // capabilities
                               "00070005 6e6f646537 000000",                    // host
                               "00080028", kGid, "01000048", kGid, "00000049",  // addresses
                               "00090010 00010002 00000000 000a0013 77656231",  // vPort web1
                               // vPort without a name.
                               "00090004 00020000",
                               "000a0010 000a 02005e100001 0001 0100 00000003"),  // MACs
                  announce});

  VPortMessage withdraw = Header(Kind::kWithdraw);
  withdraw.base = 0x101;
  withdraw.gone_addresses = {{kSender, Qpn(0x49)}};
  withdraw.gone_vports = {1, 2, 3};
  withdraw.gone_macs = {Key(0, "02:00:5e:10:00:01"), Key(4094, "02:00:5e:10:00:02")};
  rows.push_back(
      {"a withdrawal of an address, three vPorts and two MACs",
       absl::StrCat(HeaderHex("02", "0078"), "00010004 00000101", "000b0014", kGid, "00000049",
                    "000c0006 0001 0002 0003 0000", "000d0010 0000 02005e100001 0ffe 02005e100002"),
       withdraw});

  VPortMessage leave = Header(Kind::kWithdraw);
  leave.leaves = true;
  rows.push_back(
      {"an agent that leaves", absl::StrCat(HeaderHex("02", "003c"), "00040000"), leave});

  VPortMessage request = Header(Kind::kRequest);
  request.token = 0x1122334455667788;
  request.wants_full_state = true;
  request.wanted_macs = {Key(10, "02:00:5e:10:00:01")};
  rows.push_back({"a request for the full state and one MAC",
                  absl::StrCat(HeaderHex("03", "0048", "1122334455667788"), "00030000",
                               "000e0008 000a 02005e100001"),
                  request});

  VPortMessage reply = Header(Kind::kReply);
  reply.token = 0x1122334455667788;
  reply.ranges = {{StateRange::Of(uint16_t{3}), StateRange::Of(Key(10, "02:00:5e:10:00:01"))}};
  reply.group_heard = 1500;
  rows.push_back({"a part of the full state: vPorts from 3 on, and the first MACs",
                  absl::StrCat(HeaderHex("04", "0054", "1122334455667788"),
                               "000f0010 1000000000000003 200a02005e100001", "00050004 000005dc"),
                  reply});

  VPortMessage missing = Header(Kind::kRequest);
  missing.base = 0x101;
  missing.wants_full_state = true;
  missing.ranges = {{0, 0}, {StateRange::Of(Key(10, "02:00:5e:10:00:01")), StateRange::kLast}};
  rows.push_back(
      {"a request for two ranges of the state",
       absl::StrCat(HeaderHex("03", "0068"), "00010004 00000101",
                    "000f0020 0000000000000000 0000000000000000 200a02005e100001 ffffffffffffffff",
                    "00030000"),
       missing});

  VPortMessage claims = Header(Kind::kAnnounce);
  claims.base = 0x101;
  claims.macs = {{Key(10, "02:00:5e:10:00:01"), 1, 3, /*sticky=*/true, ClaimStage::kTentative},
                 {Key(10, "02:00:5e:10:00:02"), 1, 3, /*sticky=*/true, ClaimStage::kStandby},
                 {Key(10, "02:00:5e:10:00:03"), 1, 3, /*sticky=*/false, ClaimStage::kTentative}};
  rows.push_back(
      {"a tentative sticky claim, one on standby, and a tentative one that is not sticky",
       absl::StrCat(HeaderHex("01", "0074"), "00010004 00000101",
                    "000a0030 000a 02005e100001 0001 0300 00000003",
                    "000a 02005e100002 0001 0500 00000003", "000a 02005e100003 0001 0200 00000003"),
       claims});

  VPortMessage vote = Header(Kind::kReply);
  vote.held_macs = {Key(10, "02:00:5e:10:00:01")};
  rows.push_back({"a reply that another agent holds a MAC of the receiver's",
                  absl::StrCat(HeaderHex("04", "0044"), "00110008 000a 02005e100001"), vote});

  rows.push_back({"a probe", HeaderHex("05", "0038"), Header(Kind::kProbe)});
  VPortMessage alive = Header(Kind::kAlive);
  alive.group_heard = 0;
  rows.push_back(
      {"an answer to a probe", absl::StrCat(HeaderHex("06", "0040"), "00050004 00000000"), alive});
  VPortMessage held = Header(Kind::kAlive);
  held.id_held = 7;
  rows.push_back({"an answer to an agent whose id another one has",
                  absl::StrCat(HeaderHex("06", "0040"), "00100004 00000007"), held});
  return rows;
}

TEST(VPortMessageTest, GoldenMessagesDecodeAndEncode) {
  for (const Golden& row : GoldenMessages()) {
    SCOPED_TRACE(row.description);
    const auto message = DecodeVPortMessage(FromHex(row.hex));
    ASSERT_TRUE(message.ok()) << message.status();
    EXPECT_TRUE(*message == row.message);
    EXPECT_EQ(ToHex(EncodeVPortMessage(row.message)), ToHex(FromHex(row.hex)));
    EXPECT_EQ(EncodedSize(row.message), FromHex(row.hex).size());
  }
}

TEST(VPortMessageTest, IgnoresPaddingBehindTheMessage) {
  for (const Golden& row : GoldenMessages()) {
    const auto message = DecodeVPortMessage(FromHex(row.hex + "ffffffffff"));
    ASSERT_TRUE(message.ok()) << row.description << ": " << message.status();
    EXPECT_TRUE(*message == row.message) << row.description;
  }
}

TEST(VPortMessageTest, RefusesEveryTruncatedMessage) {
  for (const Golden& row : GoldenMessages()) {
    const std::vector<uint8_t> bytes = FromHex(row.hex);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(DecodeVPortMessage(absl::MakeSpan(bytes).first(size)).status().code(),
                absl::StatusCode::kInvalidArgument)
          << row.description << ", " << size << " bytes";
    }
  }
}

TEST(VPortMessageTest, SkipsUnknownTlvs) {
  const auto message = DecodeVPortMessage(
      FromHex(HeaderHex("02", "0048") + "03e70007 01020304050607 00" + "00040000"));
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_TRUE(message->leaves);
}

TEST(VPortMessageTest, RefusesOtherVersionsAndKinds) {
  std::vector<uint8_t> bytes = FromHex(HeaderHex("01", "0038"));
  bytes[0] = 2;
  EXPECT_EQ(DecodeVPortMessage(bytes).status().code(), absl::StatusCode::kUnimplemented);
  for (const char* kind : {"00", "07", "ff"}) {
    EXPECT_EQ(DecodeVPortMessage(FromHex(HeaderHex(kind, "0038"))).status().code(),
              absl::StatusCode::kUnimplemented)
        << kind;
  }
}

TEST(VPortMessageTest, RefusesMalformedMessages) {
  const struct {
    const char* description;
    const char* length;
    const char* tlvs;
    const char* reason;
  } kRows[] = {
      {"a length below the header's", "0037", "", "length"},
      {"a length beyond the frame", "003c", "", "length"},
      {"half a TLV header", "003a", "0004", "header of a TLV"},
      {"a TLV beyond the end", "0040", "0001000800000000", "beyond the end"},
      {"a TLV whose padding is missing", "003d", "0007000568", "beyond the end"},
      {"a base of two bytes", "0040", "0001000200000000", "wrong size"},
      {"two bases", "0048", "00010004000000000001000400000000", "twice"},
      {"two flags", "0040", "0004000000040000", "twice"},
      {"a flag with a value", "0040", "0004000400000000", "has a value"},
      {"a range that ends before it begins", "004c", "000f0010 0000000000000002 0000000000000001",
       "ends before"},
      {"half a range", "0044", "000f0008 0000000000000002", "wrong size"},
      {"no segments", "0044", "00060008 05000000 00000ffc", "segments"},
      {"33 segments", "0044", "00060008 05210000 00000ffc", "segments"},
      {"an agent that accepts no header", "0044", "00060008 04010000 00000ffc", "no header"},
      {"an empty host name", "003c", "00070000", "host name"},
      {"a host name with a line feed", "0040", "00070002 610a0000", "host name"},
      {"two host names", "0048", "00070001 61000000 00070001 61000000", "two host names"},
      {"an empty list of MACs", "003c", "000a0000", "wrong size"},
      {"half a MAC", "0044", "000a0008 000a02005e100001", "wrong size"},
      {"a group MAC", "004c", "000a0010 000a 03005e100001 0001 0000 00000003", "group or zero"},
      {"a MAC of zeros", "004c", "000a0010 000a 000000000000 0001 0000 00000003", "group or zero"},
      {"VID 4095", "004c", "000a0010 0fff 02005e100001 0001 0000 00000003", "VID 4095"},
      {"a multicast GID", "0050", "00080014 ff120000000000000000000000000001 00000048",
       "group or zero GID"},
      {"a vPort's TLV of three bytes", "0040", "00090003 00010000", "too short"},
      {"more ranges than the vPort's TLV has", "0040", "00090004 00010001", "beyond its TLV"},
      {"a range that runs backwards", "0044", "00090008 00010001 0003 0002", "range"},
      {"a range with VID 4095", "0044", "00090008 00010001 0003 0fff", "range"},
      {"ranges out of order", "0048", "0009000c 00010002 00050006 00060007", "order"},
      {"a vPort's name with a zero byte", "0044", "00090005 00010000 00000000", "name"},
  };
  for (const auto& row : kRows) {
    const auto message =
        DecodeVPortMessage(FromHex(absl::StrCat(HeaderHex("01", row.length), row.tlvs)));
    EXPECT_EQ(message.status().code(), absl::StatusCode::kInvalidArgument) << row.description;
    EXPECT_THAT(std::string(message.status().message()), testing::HasSubstr(row.reason))
        << row.description;
  }
}

TEST(VPortMessageTest, RefusesAnAgentIdOfZeros) {
  std::vector<uint8_t> bytes = FromHex(HeaderHex("05", "0038"));
  std::fill_n(&bytes[4], AgentId::kSize, 0);
  EXPECT_EQ(DecodeVPortMessage(bytes).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace eoib
