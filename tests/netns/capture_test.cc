// Captures of an HCA port, checked with tshark: all fields from the LRH to the payload are as sent.
// On real verbs the agent rebuilds the headers, and the test checks the fields that it can know.
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/sockets.h"
#include "tests/lab/switch_test.h"
#include "tests/lab/tshark.h"
#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/ib/erf_for_test.h"
#include "vswitch/wire/ib/ib_headers_for_test.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;

const MacAddr kA = MacAddr::FromUint64(0x02'aa'00'00'00'01);
const MacAddr kB = MacAddr::FromUint64(0x02'aa'00'00'00'02);
const Ipv4 kIpA = Ip4("10.9.0.1");
const Ipv4 kIpB = Ip4("10.9.0.2");

// One record of a capture: tshark's field names and values. Several values of a field are separated
// by commas.
using Packet = std::map<std::string, std::string>;

const std::vector<std::string> kFields = {"frame.protocols",
                                          "_ws.malformed",
                                          "_ws.short",
                                          "_ws.unreassembled",
                                          "_ws.expert.severity",
                                          "_ws.expert.message",
                                          "erf.types.type",
                                          "erf.flags.cap",
                                          "erf.meta.section_interface.comment",
                                          "infiniband.lrh.vl",
                                          "infiniband.lrh.lver",
                                          "infiniband.lrh.sl",
                                          "infiniband.lrh.lnh",
                                          "infiniband.lrh.slid",
                                          "infiniband.lrh.dlid",
                                          "infiniband.lrh.pktlen",
                                          "infiniband.grh.ipver",
                                          "infiniband.grh.nxthdr",
                                          "infiniband.grh.paylen",
                                          "infiniband.grh.sgid",
                                          "infiniband.grh.dgid",
                                          "infiniband.bth.opcode",
                                          "infiniband.bth.padcnt",
                                          "infiniband.bth.tver",
                                          "infiniband.bth.p_key",
                                          "infiniband.bth.destqp",
                                          "infiniband.bth.psn",
                                          "infiniband.deth.q_key",
                                          "infiniband.deth.srcqp",
                                          "infiniband.invariant.crc",
                                          "infiniband.variant.crc",
                                          "infiniband.eoib.version",
                                          "infiniband.eoib.tcp_chk",
                                          "infiniband.eoib.ip_chk",
                                          "infiniband.eoib.fcs",
                                          "infiniband.eoib.ms",
                                          "infiniband.eoib.ip_seg_offset",
                                          "infiniband.eoib.ip_seg_id",
                                          "eth.dst",
                                          "eth.src",
                                          "eth.type",
                                          "vlan.id",
                                          "vlan.priority",
                                          "vlan.etype",
                                          "arp.opcode",
                                          "arp.src.hw_mac",
                                          "arp.src.proto_ipv4",
                                          "arp.dst.proto_ipv4",
                                          "ip.src",
                                          "ip.dst",
                                          "ip.len",
                                          "icmp.type",
                                          "icmp.ident",
                                          "icmp.seq",
                                          "udp.srcport",
                                          "udp.dstport",
                                          "udp.length",
                                          "tcp.dstport",
                                          "tcp.len",
                                          "data.data"};

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

// A number as tshark prints it, in decimal or hexadecimal.
uint64_t Number(const std::string& text) {
  uint64_t value = 0;
  const bool is_number = absl::StartsWith(text, "0x") ? absl::SimpleHexAtoi(text, &value)
                                                      : absl::SimpleAtoi(text, &value);
  EXPECT_TRUE(is_number) << '"' << text << "\" is no number";
  return value;
}

// Whether one of the field's values is `number`.
bool Has(const Packet& packet, const std::string& field, uint64_t number) {
  for (absl::string_view value : absl::StrSplit(packet.at(field), ',', absl::SkipEmpty())) {
    if (Number(std::string(value)) == number) return true;
  }
  return false;
}

using Filter = std::function<bool(const Packet&)>;
Filter With(const std::string& field, uint64_t number) {
  return [=](const Packet& packet) { return Has(packet, field, number); };
}

class CaptureTest : public SwitchTest {
 protected:
  explicit CaptureTest(const std::string& ves_options = "") : ves_options_(ves_options) {}

  void SetUp() override {
    SwitchTest::SetUp();
    AgentSpec trunk;
    trunk.veses[0].more = ves_options_;
    trunk.vports[0].more = "mode = \"trunk\"\n";
    auto hosts = AddNumberedAgents(2, trunk);
    one_ = hosts[0];
    two_ = hosts[1];
    WaitUntilAllReceive({{one_->host()}, {two_->host()}});
    a_ = std::make_unique<PacketSocket>(one_->host(), "v1");
    b_ = std::make_unique<PacketSocket>(two_->host(), "v1");
    // Make the agents learn kA and kB.
    a_->Send(TestFrame(MacAddr::Broadcast(), kA, 1));
    b_->Send(TestFrame(MacAddr::Broadcast(), kB, 2));
    ASSERT_TRUE(b_->WaitFor(Marked(1)));
    ASSERT_TRUE(a_->WaitFor(Marked(2)));
  }

  bool IsSoft() { return dynamic_cast<SoftFabric*>(&fabric()) != nullptr; }

  void StartCaptures() {
    dissected_.clear();
    for (Agent* agent : {one_, two_}) {
      const std::string answer = agent->MustCtl({"capture", "start", CaptureOf(*agent)});
      EXPECT_THAT(answer, HasSubstr("capturing to " + CaptureOf(*agent)));
      EXPECT_EQ(absl::StrContains(answer, "headers are rebuilt"), !IsSoft()) << answer;
    }
  }
  void StopCaptures() {
    for (Agent* agent : {one_, two_}) ExpectConservation(agent);
    for (Agent* agent : {one_, two_}) {
      EXPECT_THAT(agent->MustCtl({"show"}), HasSubstr("capture to " + CaptureOf(*agent)));
      EXPECT_THAT(agent->MustCtl({"capture", "stop"}), HasSubstr(" 0 missed in "));
    }
  }
  std::string CaptureOf(const Agent& agent) { return lab().Path(agent.host()->name() + ".erf"); }

  // All records of a capture. Runs tshark once, because it is slow in a virtual machine.
  const std::vector<Packet>& Dissect(const Agent& agent) {
    std::vector<Packet>& records = dissected_[&agent];
    if (!records.empty()) return records;
    Argv argv = TsharkOf(CaptureOf(agent));
    argv.insert(argv.end(), {"-T", "fields", "-E", "separator=;"});
    for (const std::string& field : kFields) argv.insert(argv.end(), {"-e", field});
    const RunResult result = agent.host()->Run(argv);
    EXPECT_TRUE(result.ok()) << result.ToString();
    for (const std::string& line : Lines(result.out)) {
      const std::vector<std::string> values =
          absl::StrSplit(line, absl::MaxSplits(';', kFields.size() - 1));
      EXPECT_EQ(values.size(), kFields.size()) << line;
      Packet& record = records.emplace_back();
      for (size_t i = 0; i < kFields.size(); ++i)
        record[kFields[i]] = i < values.size() ? values[i] : "";
    }
    return records;
  }

  std::vector<Packet> Packets(const Agent& agent, const Filter& filter) {
    std::vector<Packet> packets;
    for (const Packet& packet : Dissect(agent)) {
      if (filter(packet)) packets.push_back(packet);
    }
    return packets;
  }

  // Expects exactly one packet that passes `filter` in each capture, equal in both, and returns it.
  Packet Only(const Filter& filter) {
    const std::vector<Packet> sent = Packets(*one_, filter), received = Packets(*two_, filter);
    EXPECT_EQ(sent.size(), 1u) << "at the sender";
    EXPECT_EQ(received.size(), 1u) << "at the receiver";
    if (sent.size() != 1 || received.size() != 1) return Packet();
    EXPECT_EQ(sent[0], received[0]);
    return sent[0];
  }

  // Checks the InfiniBand headers of a datagram from h1 that carries an Ethernet frame of
  // `frame_length` bytes.
  void ExpectHeaders(Packet packet, bool flood, size_t frame_length) {
    EXPECT_EQ(Number(packet["erf.types.type"]), 21u);
    EXPECT_EQ(Number(packet["erf.flags.cap"]), IsSoft() ? 0u : 1u)
        << "0: as on the cable, 1: rebuilt";
    if (!IsSoft()) {
      EXPECT_EQ(Number(packet["infiniband.bth.psn"]), 0u) << "unknown to the agent";
    }
    for (const char* field : {"lrh.vl", "lrh.lver", "lrh.sl", "bth.tver"}) {
      EXPECT_EQ(Number(packet[absl::StrCat("infiniband.", field)]), 0u) << field;
    }
    EXPECT_EQ(Number(packet["infiniband.lrh.lnh"]), 3u) << "a GRH follows";
    EXPECT_EQ(Number(packet["infiniband.lrh.slid"]), Number(one_->Lid()));
    EXPECT_EQ(Number(packet["infiniband.lrh.dlid"]),
              Number(flood ? one_->Shown("MLID ") : two_->Lid()));
    EXPECT_EQ(Number(packet["infiniband.grh.ipver"]), 6u);
    EXPECT_EQ(Number(packet["infiniband.grh.nxthdr"]), 0x1bu);
    EXPECT_EQ(Ip6(packet["infiniband.grh.sgid"]), Ip6(one_->Shown(", GID ")));
    EXPECT_EQ(Ip6(packet["infiniband.grh.dgid"]),
              flood ? Ip6("ff12:e01b:8001:ffff:ffff:ffff:0000:0000") : Ip6(two_->Shown(", GID ")));
    EXPECT_EQ(Number(packet["infiniband.bth.opcode"]), 0x64u) << "UD send only";
    EXPECT_EQ(Number(packet["infiniband.bth.p_key"]), 0x8001u);
    EXPECT_EQ(Number(packet["infiniband.bth.destqp"]),
              flood ? 0xffffffu : Number(two_->Shown("QPN ")));
    EXPECT_EQ(Number(packet["infiniband.deth.q_key"]), 0x80008001u);
    EXPECT_EQ(Number(packet["infiniband.deth.srcqp"]), Number(one_->Shown("QPN ")));
    EXPECT_EQ(Number(packet["infiniband.eoib.version"]), 0u);
    // A raw socket sent the frame with its checksums complete, so no status bit vouches for one.
    for (const char* field : {"tcp_chk", "ip_chk", "fcs", "ms", "ip_seg_offset", "ip_seg_id"}) {
      EXPECT_EQ(Number(packet[absl::StrCat("infiniband.eoib.", field)]), 0u) << field;
    }
    // BTH 12, DETH 8, EoIB 4, frame, pad to four bytes, ICRC 4. pktlen also counts LRH 8 and GRH
    // 40, in 4-byte words.
    const size_t pad = (4 - frame_length % 4) % 4;
    const size_t behind_grh = 12 + 8 + 4 + frame_length + pad + 4;
    EXPECT_EQ(Number(packet["infiniband.bth.padcnt"]), pad);
    EXPECT_EQ(Number(packet["infiniband.grh.paylen"]), behind_grh);
    EXPECT_EQ(Number(packet["infiniband.lrh.pktlen"]), (8 + 40 + behind_grh) / 4);
  }

  // Checks with tshark, and with our parser, which verifies the CRCs. A capture of rebuilt packets
  // begins with a comment record.
  void ExpectNothingMalformed() {
    for (Agent* agent : {one_, two_}) {
      SCOPED_TRACE(agent->host()->name());
      const std::vector<Packet>& records = Dissect(*agent);
      const std::vector<ErfRecord> raw = ReadErf(CaptureOf(*agent));
      ASSERT_EQ(raw.size(), records.size());
      for (size_t i = 0; i < records.size(); ++i) {
        const Packet& record = records[i];
        for (const char* trouble : {"_ws.malformed", "_ws.short", "_ws.unreassembled"})
          EXPECT_EQ(record.at(trouble), "");
        EXPECT_FALSE(Has(record, "_ws.expert.severity", kExpertError))
            << record.at("_ws.expert.message");
        if (!IsSoft() && i == 0) {
          EXPECT_EQ(Number(record.at("erf.types.type")), 27u);
          EXPECT_THAT(record.at("erf.meta.section_interface.comment"),
                      HasSubstr("headers are rebuilt"));
          continue;
        }
        UdView view;
        ASSERT_EQ(ParseUdPacket(raw[i].bytes, &view), DropReason::kNone);
        EoibHeader header;
        ASSERT_EQ(DecodeEoibHeader(view.payload, &header), DropReason::kNone);
        // tshark shows the content of segments as data.
        EXPECT_THAT(record.at("frame.protocols"),
                    HasSubstr(absl::StrCat("erf:infiniband:infiniband.eoib:",
                                           header.extension ? "data" : "eth")));
      }
    }
  }

  // Wireshark's PI_ERROR.
  static constexpr uint64_t kExpertError = 0x00800000;

  Agent* one_ = nullptr;
  Agent* two_ = nullptr;
  std::unique_ptr<PacketSocket> a_, b_;

 private:
  const std::string ves_options_;
  std::map<const Agent*, std::vector<Packet>> dissected_;
};

TEST_F(CaptureTest, EveryFieldMatchesTheSentFrame) {
  const Bytes payload = {0xde, 0xad, 0xbe, 0xef, 1,  2,  3,  4,  5,  6,  7, 8,
                         9,    10,   11,   12,   13, 14, 15, 16, 17, 18, 19};
  const Flow4 flow = {kB, kA, kIpA, kIpB};
  const Bytes arp = ArpRequest(kA, kIpA, kIpB);
  const Bytes echo = IcmpEchoRequest(flow, 0x1234, 7, payload);
  const Bytes udp = UdpDatagram(flow, 4001, 40404, payload);
  const Bytes tagged = WithTag(IcmpEchoRequest(flow, 0x4321, 8, payload), 100, 5);
  StartCaptures();
  for (const Bytes& frame : {arp, echo, udp, tagged}) {
    a_->Send(frame);
    ASSERT_TRUE(b_->WaitFor(ExactlyFrame(Padded(frame))));
  }
  StopCaptures();
  ExpectNothingMalformed();

  Packet packet = Only([](const Packet& p) { return p.at("arp.src.proto_ipv4") == "10.9.0.1"; });
  EXPECT_THAT(packet["frame.protocols"], HasSubstr("infiniband:infiniband.eoib:eth:ethertype:arp"));
  ExpectHeaders(packet, /*flood=*/true, 60);
  EXPECT_EQ(packet["eth.dst"], "ff:ff:ff:ff:ff:ff");
  EXPECT_EQ(packet["eth.src"], kA.ToString());
  EXPECT_EQ(Number(packet["arp.opcode"]), 1u);
  EXPECT_EQ(packet["arp.src.hw_mac"], kA.ToString());
  EXPECT_EQ(packet["arp.dst.proto_ipv4"], "10.9.0.2");

  packet = Only(With("icmp.ident", 0x1234));
  EXPECT_THAT(packet["frame.protocols"],
              HasSubstr("infiniband:infiniband.eoib:eth:ethertype:ip:icmp:data"));
  ExpectHeaders(packet, /*flood=*/false, echo.size());
  EXPECT_EQ(packet["eth.dst"], kB.ToString());
  EXPECT_EQ(packet["ip.src"], "10.9.0.1");
  EXPECT_EQ(packet["ip.dst"], "10.9.0.2");
  EXPECT_EQ(Number(packet["icmp.type"]), 8u);
  EXPECT_EQ(Number(packet["icmp.seq"]), 7u);
  EXPECT_EQ(packet["data.data"], absl::StrReplaceAll(Hex(payload), {{" ", ""}, {"\n", ""}}));

  packet = Only(With("udp.dstport", 40404));
  EXPECT_THAT(packet["frame.protocols"],
              HasSubstr("infiniband:infiniband.eoib:eth:ethertype:ip:udp:data"));
  ExpectHeaders(packet, /*flood=*/false, udp.size());
  EXPECT_EQ(Number(packet["udp.srcport"]), 4001u);
  EXPECT_EQ(Number(packet["udp.length"]), 8 + payload.size());

  packet = Only(With("icmp.ident", 0x4321));
  EXPECT_THAT(packet["frame.protocols"],
              HasSubstr("infiniband:infiniband.eoib:eth:ethertype:vlan:ethertype:ip:icmp:data"));
  EXPECT_EQ(Number(packet["vlan.id"]), 100u);
  EXPECT_EQ(Number(packet["vlan.priority"]), 5u);
  EXPECT_EQ(Number(packet["vlan.etype"]), 0x0800u);
}

// Packet sequence numbers, which only the software HCA's captures have.
class SoftCaptureTest : public CaptureTest {};

TEST_F(SoftCaptureTest, PacketSequenceNumbersAreInOrder) {
  StartCaptures();
  for (uint32_t i = 0; i < 5; ++i) {
    a_->Send(TestFrame(kB, kA, 100 + i));
    ASSERT_TRUE(b_->WaitFor(Marked(100 + i)));
  }
  StopCaptures();
  const uint64_t qpn = Number(one_->Shown("QPN "));
  const std::vector<Packet> packets = Packets(*one_, With("infiniband.deth.srcqp", qpn));
  ASSERT_GE(packets.size(), 5u);
  for (size_t i = 1; i < packets.size(); ++i) {
    EXPECT_EQ(Number(packets[i].at("infiniband.bth.psn")),
              Number(packets[i - 1].at("infiniband.bth.psn")) + 1);
  }
}

TEST_F(CaptureTest, FramesMatchByteForByte) {
  // Padding, odd lengths, and the largest frame of the VES without its tag.
  one_->host()->MustIp("link set v1 mtu 4074");
  std::vector<Bytes> frames;
  for (size_t length : {18, 59, 60, 61, 62, 63, 64, 1000, 4085, 4088}) {
    frames.push_back(TestFrame(kB, kA, static_cast<uint32_t>(length), length));
  }
  StartCaptures();
  for (const Bytes& frame : frames) {
    a_->Send(frame);
    ASSERT_TRUE(b_->WaitFor(ExactlyFrame(Padded(frame))));
  }
  StopCaptures();
  ExpectNothingMalformed();
  for (Agent* agent : {one_, two_}) {
    const std::vector<Packet> packets = Packets(*agent, With("eth.type", 0x88b6));
    ASSERT_EQ(packets.size(), frames.size());
    for (size_t i = 0; i < frames.size(); ++i) {
      const Bytes padded = Padded(frames[i]);
      const Bytes behind_type(padded.begin() + 14, padded.end());
      Packet packet = packets[i];
      EXPECT_TRUE(absl::StartsWith(packet["data.data"],
                                   absl::StrReplaceAll(Hex(behind_type), {{" ", ""}, {"\n", ""}})))
          << frames[i].size() << " bytes on " << agent->host()->name() << ": "
          << packet["data.data"];
    }
  }
}

TEST_F(CaptureTest, KernelTrafficIsDecodedCompletely) {
  StartCaptures();
  ExpectPing(one_->host(), Address(2), 10);
  ExpectPing(two_->host(), Address(1), 10);
  StopCaptures();
  ExpectNothingMalformed();
  for (Agent* agent : {one_, two_}) {
    // ping sends further requests if an answer is late.
    EXPECT_GE(Packets(*agent, With("icmp.type", 8)).size(), 20u) << agent->host()->name();
    EXPECT_GE(Packets(*agent, With("icmp.type", 0)).size(), 20u) << agent->host()->name();
    EXPECT_GE(Packets(*agent, [](const Packet& p) { return p.at("arp.opcode") != ""; }).size(), 2u)
        << agent->host()->name();
  }
}

// Messages between agents are Ethernet frames of EtherType 0x88b5, so any capture shows them.
TEST_F(CaptureTest, MessagesOfAgentsAreDecodedAsEthernetFrames) {
  const MacAddr station = MacAddr::FromUint64(0x02'aa'00'00'00'03);
  StartCaptures();
  a_->Send(TestFrame(MacAddr::Broadcast(), station, 5));
  ASSERT_TRUE(b_->WaitFor(Marked(5)));
  const auto is_announced = [&] {
    for (const FdbRow& row : two_->Fdb()) {
      if (row.mac == station.ToString() && row.origin == "announced") return true;
    }
    return false;
  };
  ASSERT_TRUE(EventuallyTrue(kPatience, is_announced)) << two_->MustCtl({"fdb", "show"});
  StopCaptures();
  ExpectNothingMalformed();
  const std::string mac = absl::StrReplaceAll(station.ToString(), {{":", ""}});
  const Packet packet = Only([&](const Packet& p) {
    return Has(p, "eth.type", 0x88b5) && absl::StrContains(p.at("data.data"), mac) &&
           Has(p, "infiniband.bth.destqp", 0xffffff);
  });
  EXPECT_THAT(packet.at("frame.protocols"),
              testing::EndsWith(":infiniband:infiniband.eoib:eth:ethertype:data"));
  EXPECT_EQ(packet.at("eth.dst"), "03:00:00:00:88:b5");
  EXPECT_EQ(Number(packet.at("infiniband.deth.srcqp")), Number(one_->Shown("QPN ")));
  EXPECT_EQ(Ip6(packet.at("infiniband.grh.sgid")), Ip6(one_->Shown(", GID ")));
  EXPECT_TRUE(absl::StartsWith(packet.at("data.data"), "0101"))
      << "version 1, Announce: " << packet.at("data.data");
}

// For a packet with an unfinished checksum the header says "TCP ok" or "UDP ok".
TEST_F(CaptureTest, HeaderShowsVouchedChecksums) {
  ExpectPing(one_->host(), Address(2));
  // Tshark does not look into segments.
  one_->host()->MustRun({"ethtool", "-K", "v1", "tso", "off"});
  StartCaptures();
  UniqueFd listener = TcpListener(two_->host(), Address(2), 40400);
  UniqueFd client = TcpConnect(one_->host(), Address(2), 40400);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  ASSERT_EQ(TcpTransfer(client.get(), server.get(), 100'000), "");
  UniqueFd receiver = UdpSocket(two_->host(), Address(2), 40401),
           sender = UdpSocket(one_->host(), Address(1), 0);
  SendUdp(sender.get(), Address(2), 40401, {'h', 'e', 'l', 'l', 'o'});
  ASSERT_TRUE(ReceiveUdp(receiver.get()).has_value());
  StopCaptures();
  ExpectNothingMalformed();
  const std::vector<Packet> segments = Packets(*one_, [](const Packet& p) {
    return Has(p, "tcp.dstport", 40400) && Number(p.at("tcp.len")) > 0;
  });
  EXPECT_GE(segments.size(), 20u);
  for (Packet packet : segments) EXPECT_EQ(Number(packet["infiniband.eoib.tcp_chk"]), 1u);
  std::vector<Packet> datagrams = Packets(*one_, [](const Packet& p) {
    return Has(p, "udp.dstport", 40401) && p.at("icmp.type") == "";
  });
  ASSERT_EQ(datagrams.size(), 1u);
  EXPECT_EQ(Number(datagrams[0]["infiniband.eoib.tcp_chk"]), 2u);
}

// tshark does not know the alternative header, and shows it and the frame as data.
class AlternativeHeaderCaptureTest : public CaptureTest {
 protected:
  AlternativeHeaderCaptureTest() : CaptureTest("header = \"xve\"\n") {}
};

TEST_F(AlternativeHeaderCaptureTest, CaptureContainsAlternativeHeader) {
  EXPECT_THAT(one_->MustCtl({"show"}), HasSubstr(", header xve,"));
  const Bytes frame = TestFrame(kB, kA, 0xfeedf00d, 100);
  StartCaptures();
  a_->Send(frame);
  ASSERT_TRUE(b_->WaitFor(ExactlyFrame(frame)));
  StopCaptures();
  const std::string hex =
      absl::StrCat("89190000", absl::StrReplaceAll(Hex(frame), {{" ", ""}, {"\n", ""}}));
  const Packet packet =
      Only([&hex](const Packet& p) { return absl::StrContains(p.at("data.data"), hex); });
  EXPECT_TRUE(absl::StartsWith(packet.at("data.data"), hex));
}

TEST_F(CaptureTest, UnwritableFileIsRefusedWithReason) {
  const RunResult result = one_->Ctl({"capture", "start", "/no/such/directory/x.erf"});
  EXPECT_FALSE(result.ok());
  EXPECT_THAT(result.out + result.err, HasSubstr("/no/such/directory/x.erf"));
}

// The agent runs as root, and other users may create links and files in /tmp.
TEST_F(CaptureTest, ExistingFileOrLinkIsRefusedAndUntouched) {
  const std::string file = lab().Path("precious"), link = lab().Path("link.erf");
  WriteFile(file, "precious");
  ASSERT_EQ(symlink(file.c_str(), link.c_str()), 0);
  StartCaptures();
  for (const std::string& path : {file, link, CaptureOf(*one_)}) {
    const RunResult result = one_->Ctl({"capture", "start", path});
    EXPECT_FALSE(result.ok());
    EXPECT_THAT(result.out + result.err, HasSubstr(path + ": a file or link of that name exists"));
    EXPECT_THAT(result.out + result.err, HasSubstr("remove it or choose another path"));
  }
  EXPECT_EQ(ReadFile(file), "precious");
  StopCaptures();  // the refused commands did not stop the running ones
}

// A full file system, in the mount namespace of a process that this object kills.
class FullDisk {
 public:
  FullDisk(Host* host, const std::string& directory) : directory_(directory) {
    EXPECT_EQ(mkdir(directory.c_str(), 0700), 0);
    process_ = host->Start(
        {"unshare", "--mount", "sh", "-ec",
         absl::StrCat("mount -t tmpfs -o size=4k none ", directory, "; head -c 4096 /dev/zero >",
                      directory, "/filler; echo full; exec sleep 1000")});
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
      return absl::StrContains(process_->Log(), "full\n");
    })) << process_->Log();
  }
  std::string Path(const std::string& name) const {
    return absl::StrCat("/proc/", process_->pid(), "/root", directory_, "/", name);
  }

 private:
  const std::string directory_;
  std::unique_ptr<Process> process_;
};

TEST_F(CaptureTest, FullDiskIsReportedAndHarmless) {
  const FullDisk disk(one_->host(), lab().Path("full"));
  const std::string path = disk.Path("x.erf");
  one_->MustCtl({"capture", "start", path});
  ASSERT_TRUE(EventuallyTrue(
      kPatience, [&] { return absl::StrContains(one_->MustCtl({"show"}), "No space left"); }));
  ExpectPing(one_->host(), Address(2));
  const RunResult result = one_->Ctl({"capture", "stop"});
  EXPECT_FALSE(result.ok());
  EXPECT_THAT(result.out + result.err,
              HasSubstr(absl::StrCat("write capture ", path, ": No space left on device")));
  EXPECT_THAT(one_->MustCtl({"show"}), ::testing::Not(HasSubstr(path)));
}

TEST_F(SoftCaptureTest, FilterSnapLengthAndLimitApply) {
  const std::string path = lab().Path("filtered.erf");
  one_->MustCtl({"capture", "start", path, "mac=" + kA.ToString(), "vlan=100", "snaplen=128"});
  for (uint16_t vid : {99, 100, 101}) {
    const Bytes frame = WithTag(TestFrame(kB, kA, vid, 1000), vid);
    a_->Send(frame);
    ASSERT_TRUE(b_->WaitFor(ExactlyFrame(frame)));
  }
  EXPECT_THAT(one_->MustCtl({"capture", "stop"}), HasSubstr("stopped: 1 packets, 0 missed"));
  // tshark looks into whole packets only; it decodes the InfiniBand headers of this one.
  const RunResult shown =
      RunOnMachine({"tshark", "-n", "-r", path, "-T", "fields", "-e", "infiniband.bth.p_key", "-e",
                    "frame.cap_len", "-e", "frame.len"});
  // LRH, GRH, BTH, DETH and EoIB header: 72 bytes; the tagged frame: 1004; ICRC and VCRC: 6.
  EXPECT_EQ(shown.out, "32769\t128\t1082\n") << shown.ToString();

  const std::string limited = lab().Path("limited.erf");
  one_->MustCtl({"capture", "start", limited, "limit=4k"});
  for (uint32_t i = 0; i < 10; ++i) a_->Send(TestFrame(kB, kA, i, 1000));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(one_->MustCtl({"show"}), "ended: its file has reached the limit");
  }));
  one_->MustCtl({"capture", "stop"});
  EXPECT_LE(ReadFile(limited).size(), 4096u);
}

TEST_F(SoftCaptureTest, VPortSelectsItsFrames) {
  const std::string path = lab().Path("vport.erf");
  EXPECT_THAT(one_->Ctl({"capture", "start", path, "vport=v9"}).err,
              HasSubstr("no vPort \"v9\"; there is: v1"));
  ExpectPing(one_->host(), Address(2));
  one_->MustCtl({"capture", "start", path, "vport=v1"});
  ExpectPing(one_->host(), Address(2));
  one_->MustCtl({"capture", "stop"});
  const RunResult shown =
      RunOnMachine({"tshark", "-n", "-r", path, "-T", "fields", "-e", "icmp.type"});
  EXPECT_THAT(shown.out, HasSubstr("8\n")) << shown.ToString();
  EXPECT_THAT(shown.out, HasSubstr("0\n")) << shown.ToString();
}

// eoibctl writes to a pipe into tshark, which ends after some packets; then eoibctl ends the
// capture.
TEST_F(SoftCaptureTest, StandardOutputGoesIntoTshark) {
  const std::string log = lab().Path("tshark.log");
  const auto pipeline = one_->host()->Start(
      {"bash", "-c",
       absl::StrCat(Binary("eoibctl"), " -t ", one_->ctl_path(),
                    " capture start - mac=", kA.ToString(),
                    " | tshark -n -l -r - -c 3 -T fields -e eth.src -e eth.dst >", log)});
  ASSERT_TRUE(EventuallyTrue(
      kPatience, [&] { return absl::StrContains(one_->MustCtl({"show"}), "capture to "); }));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    a_->Send(TestFrame(kB, kA, 1));
    return !pipeline->Alive();
  })) << pipeline->Log();
  const std::string line = absl::StrCat(kA.ToString(), "\t", kB.ToString(), "\n");
  EXPECT_EQ(ReadFile(log), absl::StrCat(line, line, line)) << pipeline->Log();
  EXPECT_THAT(one_->MustCtl({"show"}), ::testing::Not(HasSubstr("capture to ")));
}

TEST_F(SoftCaptureTest, FullStandardOutputEndsTheCapture) {
  const RunResult result = one_->host()->Run(
      {"sh", "-c",
       absl::StrCat(Binary("eoibctl"), " -t ", one_->ctl_path(), " capture start - >/dev/full")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("eoibctl: write to standard output: it failed; is the disk full?"));
  EXPECT_THAT(one_->MustCtl({"show"}), ::testing::Not(HasSubstr("capture to ")));
}

// The reader is stopped, with a pipe that is full: frames go on, and packets are missed.
TEST_F(SoftCaptureTest, StoppedReaderOfStandardOutputIsHarmless) {
  const auto pipeline = one_->host()->Start(
      {"bash", "-c",
       absl::StrCat(Binary("eoibctl"), " -t ", one_->ctl_path(), " capture start - | sleep 1000")});
  ASSERT_TRUE(EventuallyTrue(
      kPatience, [&] { return absl::StrContains(one_->MustCtl({"show"}), "capture to "); }));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    ExpectPing(one_->host(), Address(2), 200, "0.001", 4000);
    return !absl::StrContains(one_->MustCtl({"show"}), " 0 missed");
  }));
  pipeline->Kill(SIGTERM);
  const std::string rundir = one_->ctl_path().substr(0, one_->ctl_path().rfind('/'));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return one_->Ctl({"capture", "stop"}).exit_code == 2;
  }));
  EXPECT_FALSE(absl::StrContains(one_->host()->MustRun({"ls", rundir}), "capture."));
}

}  // namespace
}  // namespace eoib::lab
