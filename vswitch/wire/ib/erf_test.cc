#include "vswitch/wire/ib/erf.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/golden_frames_for_test.h"
#include "vswitch/wire/golden_ipoib_for_test.h"
#include "vswitch/wire/ib/ib_headers.h"
#include "vswitch/wire/ip/arp.h"
#include "vswitch/wire/ip/dhcp4_writer.h"
#include "vswitch/wire/ip/golden_ip_for_test.h"
#include "vswitch/wire/ip/group_report.h"
#include "vswitch/wire/ip/icmp_error.h"
#include "vswitch/wire/ip/ip_fragment.h"
#include "vswitch/wire/ip/neighbor_discovery.h"
#include "vswitch/wire/ip/udp.h"
#include "vswitch/wire/ipoib_header.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

// A file name for one test; removes the file at the end.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_(absl::StrCat(testing::TempDir(), "/erf_test_", getpid(), "_", counter_++, ".pcap")) {}
  ~TemporaryFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }
  Bytes Read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  static int counter_;
  const std::string path_;
};
int TemporaryFile::counter_ = 0;

absl::Time Stamp() { return absl::FromUnixSeconds(1'700'000'000) + absl::Nanoseconds(250'000'123); }

absl::Status WritePiece(ErfWriter* writer, absl::Time stamp, absl::Span<const uint8_t> piece) {
  return writer->Write(stamp, absl::MakeConstSpan(&piece, 1));
}

// The numbers in a pcap file header are in host order. These expectations are for a little-endian
// host, like all that we build for.
TEST(ErfWriterTest, GoldenFile) {
  TemporaryFile file;
  auto writer = ErfWriter::Open(file.path());
  ASSERT_TRUE(writer.ok()) << writer.status();
  const Bytes first = {0xab}, second = {0xcd, 0xef};
  const absl::Span<const uint8_t> pieces[] = {first, {}, second};
  EXPECT_TRUE((*writer)->Write(Stamp(), pieces).ok());
  EXPECT_EQ((*writer)->packets(), 1u);
  EXPECT_TRUE((*writer)->Close().ok());
  EXPECT_EQ(ToHex(file.Read()),
            ToHex(FromHex("4d3cb2a1 0200 0400 00000000 00000000 10400000 c500000000f15365 fbb2e60e "
                          "13000000 1300000010020040 00f15365 15 04 0013 0000 0003 abcdef")));
  EXPECT_EQ((*writer)->bytes(), file.Read().size());
}

// A comment, with and without padding in its tag, and a packet, both of capture interface 1.
TEST(ErfWriterTest, GoldenComment) {
  const struct {
    const char* description;
    const char* comment;
    const char* hex;  // from the pcap record's lengths on
  } kRows[] = {
      {"filled up", "rebuilt",
       "24000000 24000000 10020040 00f15365 1b 05 0024 0000 0014 ff03 0004 0001 0014 0001 0007 "
       "7265 6275 696c 7400"},
      {"a multiple of four", "made",
       "20000000 20000000 10020040 00f15365 1b 05 0020 0000 0010 ff03 0004 0001 0010 0001 0004 "
       "6d61 6465"},
  };
  for (const auto& row : kRows) {
    TemporaryFile file;
    auto writer = ErfWriter::Open(file.path(), /*interface=*/1);
    ASSERT_TRUE(writer.ok()) << writer.status();
    EXPECT_TRUE((*writer)->WriteComment(Stamp(), row.comment).ok());
    EXPECT_EQ((*writer)->packets(), 0u) << "a comment is no packet";
    EXPECT_TRUE(WritePiece(writer->get(), Stamp(), Bytes{0xab}).ok());
    EXPECT_EQ((*writer)->packets(), 1u);
    EXPECT_TRUE((*writer)->Close().ok());
    const std::string expected = absl::StrCat(
        "4d3cb2a1 0200 0400 00000000 00000000 10400000 c5000000 00f15365 fbb2e60e", row.hex,
        "00f15365 fbb2e60e 11000000 11000000 10020040 00f15365 15 05 0011 0000 0001 ab");
    EXPECT_EQ(ToHex(file.Read()), ToHex(FromHex(expected.c_str()))) << row.description;
  }
}

TEST(ErfWriterTest, BuffersUntilFlushed) {
  TemporaryFile file;
  auto writer = ErfWriter::Open(file.path());
  ASSERT_TRUE(writer.ok());
  EXPECT_TRUE(file.Read().empty());
  EXPECT_TRUE((*writer)->Flush().ok());
  EXPECT_EQ(file.Read().size(), 24u);

  const Bytes packet(ErfWriter::kMaxPacket);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(WritePiece(writer->get(), Stamp(), packet).ok());
  EXPECT_GT(file.Read().size(), 24u) << "a full buffer goes to the file by itself";
  writer->reset();
  EXPECT_EQ(file.Read().size(), 24u + 10 * (32 + ErfWriter::kMaxPacket))
      << "the destructor flushes";
}

TEST(ErfWriterTest, OnlyItsOwnerMayReadACapture) {
  TemporaryFile file;
  ASSERT_TRUE(ErfWriter::Open(file.path()).ok());
  struct stat info;
  ASSERT_EQ(stat(file.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

// Another user could place a file or link there to make root overwrite a file.
TEST(ErfWriterTest, OverwritesNothingAndFollowsNoLink) {
  TemporaryFile victim, file, link, dangling;
  std::ofstream(victim.path()) << "precious";
  ASSERT_EQ(symlink(victim.path().c_str(), link.path().c_str()), 0);
  ASSERT_EQ(symlink(file.path().c_str(), dangling.path().c_str()), 0);
  for (const std::string& path : {victim.path(), link.path(), dangling.path()}) {
    const absl::Status status = ErfWriter::Open(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(status.message(), absl::StrCat("open capture ", path,
                                             ": a file or link of that name exists, and a capture "
                                             "overwrites none; remove it or choose another path"));
  }
  EXPECT_EQ(victim.Read().size(), 8u);
  EXPECT_NE(access(file.path().c_str(), F_OK), 0) << "made through a link";
}

TEST(ErfWriterTest, Errors) {
  EXPECT_EQ(ErfWriter::Open("/nonexistent/capture.pcap").status().message(),
            "open capture /nonexistent/capture.pcap: No such file or directory");

  TemporaryFile file;
  EXPECT_EQ(ErfWriter::Open(file.path(), /*interface=*/4).status().code(),
            absl::StatusCode::kInvalidArgument);
  auto writer = ErfWriter::Open(file.path());
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ((*writer)->WriteComment(Stamp(), std::string(ErfWriter::kMaxComment + 1, 'x')).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WritePiece(writer->get(), Stamp(), Bytes(ErfWriter::kMaxPacket + 1)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WritePiece(writer->get(), absl::FromUnixSeconds(-1), {}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WritePiece(writer->get(), absl::InfiniteFuture(), {}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(WritePiece(writer->get(), absl::FromUnixSeconds(0xffff'ffff), {}).ok())
      << "a refused packet does no harm";
  EXPECT_EQ((*writer)->packets(), 1u);
  EXPECT_TRUE((*writer)->Close().ok());
  EXPECT_EQ(WritePiece(writer->get(), Stamp(), {}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ErfWriterTest, AFullDiskEndsTheCapture) {
  auto writer = ErfWriter::Adopt(open("/dev/full", O_WRONLY | O_CLOEXEC), "/dev/full");
  EXPECT_TRUE(WritePiece(writer.get(), Stamp(), {}).ok()) << "buffered";
  const absl::Status status = writer->Flush();
  EXPECT_EQ(status.message(), "write capture /dev/full: No space left on device");
  EXPECT_EQ(WritePiece(writer.get(), Stamp(), {}), status);
  EXPECT_EQ(writer->Close(), status);
}

// Has tshark, an independent dissector, decode our packets.
class TsharkTest : public testing::Test {
 protected:
  // Adds `frame` behind `header` as a datagram to the flood group.
  void Capture(const EoibHeader& header, const Bytes& frame) {
    Bytes datagram(kEoibHeaderSize);
    EncodeEoibHeader(header, datagram.data());
    datagram.insert(datagram.end(), frame.begin(), frame.end());
    Capture(datagram);
  }

  // Adds `datagram`, a UD payload, to the same group.
  void Capture(absl::Span<const uint8_t> datagram) {
    if (writer_ == nullptr) writer_ = *ErfWriter::Open(file_.path());
    const UdHeaders headers = MakeUdHeaders(Packet(datagram.size()));
    const UdTrailer trailer = MakeUdTrailer(headers, absl::MakeConstSpan(&datagram, 1));
    std::array<uint8_t, kUdHeadersSize> header_bytes;
    WriteWire(headers, header_bytes.data());
    const absl::Span<const uint8_t> pieces[] = {header_bytes, datagram, trailer.span()};
    ASSERT_TRUE(writer_->Write(Stamp() + absl::Nanoseconds(writer_->packets()), pieces).ok());
  }

  // Starts a capture of interface 1 with a comment.
  void Comment(const std::string& comment) {
    writer_ = *ErfWriter::Open(file_.path(), /*interface=*/1);
    ASSERT_TRUE(writer_->WriteComment(Stamp(), comment).ok());
  }

  static UdPacket Packet(size_t payload_length) {
    UdPacket packet;
    packet.slid = Lid(7);
    packet.dlid = 0xc003;
    packet.sl = Sl(5);
    packet.vl = 3;
    packet.sgid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x0002'c903'000e'0b72));
    packet.dgid = Gid::FromWire(FromHex("ff12e01b8001ffffffffffff00000000").data());
    packet.traffic_class = 0x11;
    packet.flow_label = 0x23456;
    packet.hop_limit = 0x3f;
    packet.pkey = PKey(0x8001);
    packet.destination_qpn = Qpn(Qpn::kMulticast);
    packet.source_qpn = Qpn(0x48);
    packet.psn = 0xabcd;
    packet.qkey = QKey(0x8000'8001);
    packet.payload_length = payload_length;
    return packet;
  }

  // For each captured packet, the values of `fields`. Fails the test if tshark does not run.
  std::vector<std::vector<std::string>> Dissect(const std::vector<std::string>& fields) {
    EXPECT_TRUE(writer_->Flush().ok());
    std::string command = absl::StrCat(
        "tshark -n -r '", file_.path(),
        "' -o ip.check_checksum:TRUE -o tcp.check_checksum:TRUE -o udp.check_checksum:TRUE"
        " -T fields -E separator='|' -E occurrence=l");
    for (const std::string& field : fields) absl::StrAppend(&command, " -e ", field);
    return Run(absl::StrCat(command, " 2>/dev/null"));
  }

 private:
  static std::vector<std::vector<std::string>> Run(const std::string& command) {
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) {
      ADD_FAILURE() << "popen " << command;
      return {};
    }
    std::string output;
    char chunk[4096];
    while (const size_t n = fread(chunk, 1, sizeof(chunk), pipe)) output.append(chunk, n);
    EXPECT_EQ(pclose(pipe), 0) << "this test needs tshark: " << command;
    std::vector<std::vector<std::string>> rows;
    for (absl::string_view line : absl::StrSplit(output, '\n', absl::SkipEmpty()))
      rows.push_back(absl::StrSplit(line, '|'));
    return rows;
  }

  TemporaryFile file_;
  std::unique_ptr<ErfWriter> writer_;
};

TEST_F(TsharkTest, ReadsEveryHeaderField) {
  const Bytes arp = FromHex(
      "ffffffffffff 02005e100001 0806 0001080006040001 02005e100001 c0000201 000000000000 c0000202"
      "000000000000000000000000000000000000");
  Capture({HeaderForm::kEoib, L4Checksum::kUdpOk, true}, arp);
  const struct {
    const char* field;
    const char* value;
  } kFields[] = {
      {"erf.types.type", "21"},
      {"erf.rlen", "154"},
      {"erf.wlen", "138"},
      {"frame.time_epoch", "1700000000.250000123"},
      {"infiniband.lrh.vl", "0x03"},
      {"infiniband.lrh.lver", "0"},
      {"infiniband.lrh.sl", "5"},
      {"infiniband.lrh.lnh", "0x03"},
      {"infiniband.lrh.dlid", "49155"},
      {"infiniband.lrh.slid", "7"},
      {"infiniband.lrh.pktlen", "34"},
      {"infiniband.grh.ipver", "6"},
      {"infiniband.grh.tclass", "17"},
      {"infiniband.grh.flowlabel", "144470"},
      {"infiniband.grh.paylen", "88"},
      {"infiniband.grh.nxthdr", "27"},
      {"infiniband.grh.hoplmt", "63"},
      {"infiniband.grh.sgid", "fe80::2:c903:e:b72"},
      {"infiniband.grh.dgid", "ff12:e01b:8001:ffff:ffff:ffff::"},
      {"infiniband.bth.opcode", "100"},
      {"infiniband.bth.padcnt", "0"},
      {"infiniband.bth.tver", "0"},
      {"infiniband.bth.p_key", "32769"},
      {"infiniband.bth.destqp", "0xffffff"},
      {"infiniband.bth.psn", "43981"},
      {"infiniband.deth.q_key", "0x0000000080008001"},
      {"infiniband.deth.srcqp", "0x00000048"},
      {"infiniband.eoib.version", "0x0000"},
      {"infiniband.eoib.tcp_chk", "0x0002"},
      {"infiniband.eoib.ip_chk", "0x0001"},
      {"infiniband.eoib.fcs", "0"},
      {"infiniband.eoib.ms", "0"},
      {"eth.dst", "ff:ff:ff:ff:ff:ff"},
      {"eth.src", "02:00:5e:10:00:01"},
      {"arp.src.proto_ipv4", "192.0.2.1"},
      {"arp.dst.proto_ipv4", "192.0.2.2"},
  };
  std::vector<std::string> names;
  for (const auto& row : kFields) names.push_back(row.field);
  const auto packets = Dissect(names);
  ASSERT_EQ(packets.size(), 1u);
  ASSERT_EQ(packets[0].size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(packets[0][i], kFields[i].value) << names[i];
}

// tshark shows the bit, but does not check the FCS.
TEST_F(TsharkTest, ReadsThatAnFcsIsPresent) {
  const Bytes frame_and_fcs = FromHex(
      "02005e10000202005e10000108004500002c123400004006e494c0000201c00002029c4000500000000100000002"
      "50180400bc5f0000656f69620000 eaa083e2");
  Capture({.fcs_present = true}, frame_and_fcs);
  const auto packets = Dissect({"infiniband.eoib.fcs", "infiniband.eoib.ms", "ip.len"});
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0], (std::vector<std::string>{"1", "0", "44"}));
}

TEST_F(TsharkTest, ReadsTheCommentAndTheInterface) {
  Comment("InfiniBand headers rebuilt");
  Capture({}, Bytes(60));
  const auto records = Dissect(
      {"erf.types.type", "erf.meta.section_interface.comment", "erf.flags.cap", "_ws.malformed"});
  const std::vector<std::vector<std::string>> expected = {
      {"27", "InfiniBand headers rebuilt", "1", ""}, {"21", "", "1", ""}};
  EXPECT_EQ(records, expected);
}

// tshark also finds every golden checksum and every pad count right.
TEST_F(TsharkTest, FindsEveryChecksumRightAndNothingMalformed) {
  std::vector<const GoldenFrame*> captured;
  for (const GoldenFrame& row : kGoldenFrames) {
    if (row.l4.kind == L4Checksum::kNone) continue;
    Capture({HeaderForm::kEoib, row.l4.kind, true}, FromHex(row.hex));
    captured.push_back(&row);
  }
  const auto packets =
      Dissect({"frame.protocols", "_ws.malformed", "tcp.checksum.status", "udp.checksum.status",
               "ip.checksum.status", "infiniband.eoib.tcp_chk"});
  ASSERT_EQ(packets.size(), captured.size());
  for (size_t i = 0; i < packets.size(); ++i) {
    const char* description = captured[i]->description;
    const bool tcp = captured[i]->l4.kind == L4Checksum::kTcpOk;
    const auto& fields = packets[i];
    ASSERT_EQ(fields.size(), 6u) << description;
    EXPECT_TRUE(absl::StartsWith(fields[0], "erf:infiniband:infiniband.eoib:eth:"))
        << description << ": " << fields[0];
    EXPECT_TRUE(absl::StrContains(fields[0], tcp ? ":tcp" : ":udp"))
        << description << ": " << fields[0];
    EXPECT_EQ(fields[1], "") << description;
    EXPECT_EQ(fields[tcp ? 2 : 3], "1") << description << ": 1 is good";
    EXPECT_TRUE(fields[4] == "1" || absl::StrContains(fields[0], ":ipv6")) << description;
    EXPECT_EQ(fields[5], tcp ? "0x0001" : "0x0002") << description;
  }
}

TEST_F(TsharkTest, ReadsPingsOfAllLengths) {
  for (size_t data = 0; data < 4; ++data) {
    Bytes frame = FromHex(
        "02005e100002 02005e100001 0800 4500001c 12340000 40010000 c0000201 c0000202 "
        "0800f7ff00000000");
    frame.resize(frame.size() + data);
    frame[17] = static_cast<uint8_t>(28 + data);
    CompleteChecksum(absl::MakeSpan(frame).first(34), {true, 14, 10});
    frame.resize(60 + data);
    Capture({}, frame);
  }
  const auto packets =
      Dissect({"frame.protocols", "_ws.malformed", "icmp.type", "icmp.checksum.status",
               "ip.checksum.status", "infiniband.bth.padcnt"});
  ASSERT_EQ(packets.size(), 4u);
  for (size_t i = 0; i < packets.size(); ++i) {
    const size_t pad = UdPadCount(kEoibHeaderSize + 60 + i);
    const std::vector<std::string> expected = {"", "8", "1", "1", absl::StrCat(pad)};
    EXPECT_TRUE(
        absl::StartsWith(packets[i][0], "erf:infiniband:infiniband.eoib:eth:ethertype:ip:icmp"))
        << packets[i][0];
    EXPECT_EQ(std::vector<std::string>(packets[i].begin() + 1, packets[i].end()), expected) << i;
  }
}

// tshark also finds the golden datagrams right, both those from Linux and those written from the
// RFCs.
TEST_F(TsharkTest, FindsNothingWrongWithGoldenIpoib) {
  for (const char* datagram : kGoldenIpoib) Capture(FromHex(datagram));
  const auto packets =
      Dissect({"frame.protocols", "_ws.malformed", "icmpv6.checksum.status", "ip.checksum.status"});
  ASSERT_EQ(packets.size(), std::size(kGoldenIpoib));
  for (size_t i = 0; i < packets.size(); ++i) {
    const auto& fields = packets[i];
    ASSERT_EQ(fields.size(), 4u) << kGoldenIpoib[i];
    EXPECT_TRUE(absl::StartsWith(fields[0], "erf:infiniband:")) << fields[0];
    EXPECT_EQ(fields[1], "") << kGoldenIpoib[i];
    if (absl::StrContains(fields[0], ":icmpv6")) {
      EXPECT_EQ(fields[2], "1") << kGoldenIpoib[i] << ": 1 is good";
    } else {
      EXPECT_TRUE(absl::StrContains(fields[0], ":arp") || fields[3] == "1") << fields[0];
    }
  }
}

TEST_F(TsharkTest, ReadsTheArpThatWeWrite) {
  const Gid gid = *Gid::Parse("fe80::2:c903:e:b72");
  Bytes datagram(kIpoibHeaderSize + IpoibArp::kSize);
  EncodeIpoibHeader(IpoibType::kArp, datagram.data());
  const IpoibArp packet{ArpOperation::kReply,
                        {Qpn(0x48), gid},
                        Ipv4Addr(0xc000'0201),
                        {Qpn(0x49), gid},
                        Ipv4Addr(0xc000'0202)};
  ASSERT_TRUE(EncodeArp(packet, absl::MakeSpan(datagram).subspan(kIpoibHeaderSize)));
  Capture(datagram);
  const auto packets = Dissect({"_ws.malformed", "arp.hw.type", "arp.proto.type", "arp.hw.size",
                                "arp.proto.size", "arp.opcode", "arp.src.hw", "arp.src.proto_ipv4",
                                "arp.dst.hw", "arp.dst.proto_ipv4"});
  const std::vector<std::vector<std::string>> expected = {
      {"", "32", "0x0800", "20", "4", "2", "00000048fe800000000000000002c903000e0b72", "192.0.2.1",
       "00000049fe800000000000000002c903000e0b72", "192.0.2.2"}};
  EXPECT_EQ(packets, expected);
}

TEST_F(TsharkTest, ReadsTheLinkAddressOptionThatWeWrite) {
  Bytes datagram = FromHex(kLinuxNeighborAdvertisement);
  const auto option = absl::MakeSpan(datagram).last(kIpoibLinkAddressOptionSize);
  const auto address = IpoibLinkAddress({NdOptionType::kTargetLinkAddress, option});
  ASSERT_TRUE(address.has_value());
  ASSERT_TRUE(WriteLinkAddressOption(NdOptionType::kTargetLinkAddress, *address, option));
  Capture(datagram);
  // As tshark shows it, with the padding. Linux' connected-mode flag is gone, and the checksum is
  // not updated yet.
  const auto packets =
      Dissect({"_ws.malformed", "icmpv6.type", "icmpv6.opt.type", "icmpv6.opt.length",
               "icmpv6.opt.linkaddr", "icmpv6.checksum.status"});
  const std::vector<std::vector<std::string>> expected = {
      {"", "136", "2", "3", "000000000002fe800000000000000253494d49420101", "0"}};
  EXPECT_EQ(packets, expected);
}

// Puts an IP packet that we wrote on an IPoIB link.
Bytes OnIpoib(absl::Span<const uint8_t> packet) {
  Bytes datagram(kIpoibHeaderSize);
  EncodeIpoibHeader(packet[0] >> 4 == 4 ? IpoibType::kIpv4 : IpoibType::kIpv6, datagram.data());
  datagram.insert(datagram.end(), packet.begin(), packet.end());
  return datagram;
}

TEST_F(TsharkTest, ReadsTheIcmpErrorsThatWeWrite) {
  IcmpErrorBuffer out;
  const Bytes keep = WithCount(kLinuxDontFragment4, 600), large = WithCount(kLinuxUdp6, 1400);
  Capture(
      OnIpoib(BuildFragmentationNeeded(*ParseIpv4Packet(keep), 300, Ipv4Addr(0x0a01'00fe), &out)));
  Capture(OnIpoib(
      BuildPacketTooBig(*ParseIpv6Packet(large), 1280, *Ipv6Addr::Parse("fd01::254"), &out)));
  const auto packets =
      Dissect({"_ws.malformed", "icmp.type", "icmp.code", "icmp.mtu", "icmp.checksum.status",
               "icmpv6.type", "icmpv6.code", "icmpv6.mtu", "icmpv6.checksum.status", "udp.length"});
  const std::vector<std::vector<std::string>> expected = {
      {"", "3", "4", "300", "1", "", "", "", "", "608"},
      {"", "", "", "", "", "2", "0", "1280", "1", "1408"}};
  EXPECT_EQ(packets, expected);
}

TEST_F(TsharkTest, ReadsTheQueriesThatWeWrite) {
  IgmpQueryBuffer igmp;
  BuildQuery(Ipv4Addr(0x0a01'00fe), Ipv4Addr(), {}, &igmp);
  Capture(OnIpoib(igmp));
  MldQueryBuffer mld;
  BuildQuery(*Ipv6Addr::Parse("fe80::1"), Ipv6Addr(), {}, &mld);
  Capture(OnIpoib(mld));
  const auto packets = Dissect({"_ws.malformed", "igmp.version", "igmp.type", "igmp.max_resp",
                                "igmp.qqic", "igmp.checksum.status", "ip.opt.ra", "icmpv6.type",
                                "icmpv6.mld.maximum_response_code", "icmpv6.mld.qqi",
                                "icmpv6.checksum.status", "ipv6.opt.router_alert"});
  const std::vector<std::vector<std::string>> expected = {
      {"", "3", "0x11", "100", "125", "1", "0", "", "", "", "", ""},
      {"", "", "", "", "", "", "", "130", "10000", "125", "1", "0"}};
  EXPECT_EQ(packets, expected);
}

TEST_F(TsharkTest, PutsOurFragmentsTogether) {
  const Bytes whole = WithCount(kLinuxOptions4, 600);
  const auto verdict =
      FragmentIpv4(*ParseIpv4Packet(whole), 300,
                   [&](absl::Span<const uint8_t> part) { Capture(OnIpoib(part)); });
  ASSERT_EQ(verdict, FragmentVerdict::kDone);
  const auto packets = Dissect({"_ws.malformed", "ip.checksum.status", "ip.frag_offset",
                                "ip.flags.mf", "ip.opt.ra", "ip.reassembled.length", "udp.length"});
  const std::vector<std::vector<std::string>> expected = {{"", "1", "0", "1", "0", "", ""},
                                                          {"", "1", "33", "1", "0", "", ""},
                                                          {"", "1", "67", "0", "0", "608", "608"}};
  EXPECT_EQ(packets, expected);
}

TEST_F(TsharkTest, ReadsTheDhcpThatWeWrite) {
  Bytes message(548), packet(548 + kUdp4HeadersSize);
  DhcpWriter writer(IpoibDhcpRequest(0x12345678, Ipv4Addr()), absl::MakeSpan(message));
  writer.Add(DhcpMessageType::kDiscover);
  writer.Add(DhcpOption::kClientIdentifier,
             DhcpClientIdentifier(7, DuidOf(Guid(0x0002'c903'000e'0b72))));
  const Udp4Headers headers{Ipv4Addr(), Ipv4Addr::Broadcast(), kDhcpClientPort, kDhcpServerPort};
  Capture(OnIpoib(BuildUdp4(headers, writer.Finish(), absl::MakeSpan(packet))));
  const auto packets = Dissect({"_ws.malformed", "udp.checksum.status", "dhcp.type", "dhcp.hw.type",
                                "dhcp.hw.len", "dhcp.id", "dhcp.flags.bc", "dhcp.option.dhcp",
                                "dhcp.client_id.iaid", "dhcp.client_id.duid_type"});
  const std::vector<std::vector<std::string>> expected = {
      {"", "1", "1", "0x20", "0", "0x12345678", "1", "1", "00000007", "3"}};
  EXPECT_EQ(packets, expected);
}

}  // namespace
}  // namespace eoib
