// Software HCA: checksum offload, as a program sees it.
#include "vswitch/fabric/softhca/checksum_offload.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "vswitch/base/hex_for_test.h"
#include "vswitch/fabric/softhca/soft_hca_test_fixture.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_for_test.h"
#include "vswitch/wire/ip/ip_headers.h"

namespace eoib::softhca {
namespace {

class ChecksumOffloadTest : public SoftHcaTest {};

std::string IpoibText(absl::string_view ipoib_header, const std::vector<uint8_t>& packet) {
  std::vector<uint8_t> bytes = FromHex(ipoib_header);
  bytes.insert(bytes.end(), packet.begin(), packet.end());
  return {bytes.begin(), bytes.end()};
}
// An IPv4 packet with `protocol`, `size` bytes behind the IP header, and right checksums.
std::vector<uint8_t> PacketWithSums(uint8_t protocol, size_t size, absl::string_view options = "") {
  std::vector<uint8_t> message(size, 0x33);
  if (protocol == kProtocolUdp) WriteWire(be16(static_cast<uint16_t>(size)), &message[4]);
  std::vector<uint8_t> packet = Ipv4Of(protocol, message, options);
  EXPECT_TRUE(WriteChecksum(absl::MakeSpan(packet)));
  return packet;
}

TEST_F(ChecksumOffloadTest, ReceivedChecksumsAreVerified) {
  SoftNode a(Open("a")), b(Open("b"));
  ibv_device_attr device;
  ASSERT_EQ(a.verbs().query_device(a.hca().context(), &device), 0);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_UD_IP_CSUM, 0u);
  constexpr char kIp[] = "08000000";
  const auto changed = [](std::vector<uint8_t> packet, size_t at) {
    packet[at] ^= 1;
    return packet;
  };
  const auto without_udp_sum = [](std::vector<uint8_t> packet) {
    WriteWire(be16(), &packet[26]);
    return packet;
  };
  const auto repaired = [](std::vector<uint8_t> packet) {  // the IPv4 header only
    RepairIpv4(&packet);
    return packet;
  };
  const auto fragment = [&](std::vector<uint8_t> packet) {
    packet[6] = 0x20;  // more fragments
    return repaired(packet);
  };
  const auto padded = [](std::vector<uint8_t> packet) {
    packet.push_back(0);
    return packet;
  };
  const std::vector<uint8_t> tcp = PacketWithSums(kProtocolTcp, 3001);
  const struct {
    const char* description;
    std::string datagram;
    bool verified;
  } rows[] = {
      {"TCP", IpoibText(kIp, tcp), true},
      {"a reserved field that is set", IpoibText("0800abcd", tcp), true},
      {"TCP with IP options", IpoibText(kIp, PacketWithSums(kProtocolTcp, 100, "01010101")), true},
      {"UDP", IpoibText(kIp, PacketWithSums(kProtocolUdp, 500)), true},
      {"a changed byte", IpoibText(kIp, changed(tcp, 3000)), false},
      {"the last byte", IpoibText(kIp, changed(tcp, 3020)), false},
      {"a changed address", IpoibText(kIp, repaired(changed(tcp, 15))), false},
      {"a changed TTL: the header's sum", IpoibText(kIp, changed(tcp, 8)), false},
      {"UDP without a sum", IpoibText(kIp, without_udp_sum(PacketWithSums(kProtocolUdp, 500))),
       false},
      {"a fragment", IpoibText(kIp, fragment(PacketWithSums(kProtocolTcp, 800))), false},
      {"padding", IpoibText(kIp, padded(tcp)), false},
      {"ICMP", IpoibText(kIp, PacketWithSums(kProtocolIcmp, 64)), false},
      {"another type", IpoibText("86dd0000", tcp), false},
      {"cut off", IpoibText(kIp, tcp).substr(0, 1000), false},
      {"a part of a header", IpoibText(kIp, tcp).substr(0, 14), false},
      {"no more than an IPoIB header", IpoibText(kIp, {}), false},
      {"less", std::string(2, 8), false},
  };
  for (const auto& row : rows) {
    ASSERT_EQ(a.Send(b.Address(), row.datagram), 0);
    const Received got = b.Receive();
    EXPECT_EQ(got.payload, row.datagram) << row.description;
    EXPECT_EQ(got.wc.wc_flags, row.verified ? unsigned{IBV_WC_IP_CSUM_OK} : 0u) << row.description;
  }
  ASSERT_EQ(a.Send(b.GlobalAddress(), rows[0].datagram), 0);
  EXPECT_EQ(b.Receive().wc.wc_flags, unsigned{IBV_WC_IP_CSUM_OK} | IBV_WC_GRH);
}

TEST_F(ChecksumOffloadTest, AScatteredDatagramArrivesUnverified) {
  SoftNode a(Open("a")), b(Open("b"), {.post_receives = false});
  const std::string datagram = IpoibText("08000000", PacketWithSums(kProtocolTcp, 900));
  const uintptr_t base = reinterpret_cast<uintptr_t>(b.buffer(0));
  ibv_sge into[2] = {{base, 140, b.mr()->lkey}, {base + 140, 2000, b.mr()->lkey}};
  ibv_recv_wr receive{}, *bad;
  receive.sg_list = into;
  receive.num_sge = 2;
  ASSERT_EQ(ibv_post_recv(b.qp(), &receive, &bad), 0);
  ASSERT_EQ(a.Send(b.Address(), datagram), 0);
  const Received got = b.Receive();
  EXPECT_EQ(got.payload, datagram);
  EXPECT_EQ(got.wc.wc_flags, 0u);
}

TEST_F(ChecksumOffloadTest, ChecksumsAreWrittenIfTheSenderAsksForIt) {
  SoftNode a(Open("a")), b(Open("b"));
  for (const uint8_t protocol : {kProtocolTcp, kProtocolUdp, kProtocolIcmp}) {
    const std::vector<uint8_t> right = PacketWithSums(protocol, 700);
    std::vector<uint8_t> bare = right, expected = right;
    const size_t field = 20 + (protocol == kProtocolTcp ? 16 : protocol == kProtocolUdp ? 6 : 2);
    for (const size_t at : {size_t{10}, field}) WriteWire(be16(), &bare[at]);
    if (protocol == kProtocolIcmp) WriteWire(be16(), &expected[field]);  // is not offloaded
    ASSERT_EQ(
        a.Send(b.Address(), IpoibText("08000000", bare), IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM), 0);
    EXPECT_EQ(b.Receive().payload, IpoibText("08000000", expected)) << int{protocol};
    ASSERT_EQ(a.Send(b.Address(), IpoibText("08000000", bare)), 0);
    EXPECT_EQ(b.Receive().payload, IpoibText("08000000", bare))
        << int{protocol} << ": not asked for";
  }
  std::vector<uint8_t> ipv6(60, 0x11), long_header(20, 0x11), short_header(20, 0x11);
  ipv6[0] = 0x66;          // version 6 behind an IPoIB header that says IPv4
  long_header[0] = 0x4f;   // 60 bytes
  short_header[0] = 0x44;  // 16 bytes
  for (const std::string& other :
       {IpoibText("08000000", {}), IpoibText("08000000", FromHex("4f0000")),
        IpoibText("08000000", ipv6), IpoibText("08000000", long_header),
        IpoibText("08000000", short_header), std::string("hello")}) {
    ASSERT_EQ(a.Send(b.Address(), other, IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM), 0);
    EXPECT_EQ(b.Receive().payload, other);
  }
}

// The usual work request: headers and data in two buffers.
TEST_F(ChecksumOffloadTest, ChecksumsAreWrittenBehindAllPieces) {
  SoftNode a(Open("a")), b(Open("b"));
  const std::vector<uint8_t> right = PacketWithSums(kProtocolTcp, 701);
  std::vector<uint8_t> bare = right;
  for (const size_t at : {10, 36}) WriteWire(be16(), &bare[at]);
  const std::string datagram = IpoibText("08000000", bare);
  std::memcpy(a.send_area(), datagram.data(), datagram.size());
  const uintptr_t base = reinterpret_cast<uintptr_t>(a.send_area());
  ibv_sge sges[2] = {{base, 45, a.mr()->lkey},
                     {base + 45, static_cast<uint32_t>(datagram.size()) - 45, a.mr()->lkey}};
  ibv_ah* ah = a.MakeAh(b.Address());
  ibv_send_wr request{}, *bad;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_IP_CSUM;
  request.sg_list = sges;
  request.num_sge = 2;
  request.wr.ud = {ah, b.qpn().value(), 0x1234};
  ASSERT_EQ(ibv_post_send(a.qp(), &request, &bad), 0);
  const Received got = b.Receive();
  EXPECT_EQ(got.payload, IpoibText("08000000", right));
  EXPECT_EQ(got.wc.wc_flags, unsigned{IBV_WC_IP_CSUM_OK});
  EXPECT_EQ(std::memcmp(a.send_area(), datagram.data(), datagram.size()), 0)
      << "the sender's bytes stay";
  a.verbs().destroy_ah(ah);
}

}  // namespace
}  // namespace eoib::softhca
