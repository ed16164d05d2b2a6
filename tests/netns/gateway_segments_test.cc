// Super-frames through the gateway: from an Ethernet host to the gateway, and back, they pass in
// segments. IPoIB carries packets only, so the gateway and the IPoIB host cut them and join them.
#include <netinet/udp.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/sockets.h"
#include "tests/netns/gateway_test_fixture.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

namespace eoib::lab {
namespace {

constexpr size_t kTransfer = 16 << 20;
constexpr size_t kMostPackets = kTransfer / 8192;  // packets of the MTU would be twice as many

std::string Transfer(Host* from, Host* to, const std::string& address, size_t bytes = kTransfer) {
  UniqueFd listener = TcpListener(to, address, 5000);
  UniqueFd client = TcpConnect(from, address, 5000);
  UniqueFd server = TcpAccept(listener.get());
  return TcpTransfer(client.get(), server.get(), bytes);
}

uint64_t ChecksumErrorsOf(Host* host) {
  return host->Counter("Udp", "InCsumErrors") + host->Counter("Tcp", "InCsumErrors") +
         host->Counter("", "Udp6InCsumErrors");
}

class SoftGatewaySegmentsTest : public GatewayTest {
 protected:
  void AddOneEach() {
    AddHosts(1, 1);
    // An agent hears a moment after the gateway is ready what that accepts.
    const auto sends = [this] {
      EXPECT_EQ(Transfer(ethernet_host(1), ipoib_host(1), Address(11), 1 << 20), "");
      return agents()[0]->Stat("segments_sent") > 0;
    };
    ASSERT_TRUE(EventuallyTrue(kPatience, sends)) << agents()[0]->MustCtl({"show"});
    EXPECT_EQ(agents()[0]->Stat("protocol_malformed"), 0u);
  }
  // What the kernel counts of the IPoIB host's netdev: a super-frame is one packet.
  struct Packets {
    uint64_t received = 0, sent = 0;
  };
  Packets PacketsOfTun() {
    Packets packets;
    const std::string text = ipoib_host(1)->MustRun({"cat", "/proc/self/net/dev"});
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      const std::vector<std::string> words =
          absl::StrSplit(line, absl::ByAnyChar(" :"), absl::SkipEmpty());
      if (words.size() < 11 || words[0] != "ib0") continue;
      EXPECT_TRUE(absl::SimpleAtoi(words[2], &packets.received) &&
                  absl::SimpleAtoi(words[10], &packets.sent))
          << line;
    }
    return packets;
  }
  void ExpectNoErrors() {
    EXPECT_EQ(ChecksumErrorsOf(ethernet_host(1)) + ChecksumErrorsOf(ipoib_host(1)), 0u);
    EXPECT_EQ(agents()[0]->Drop("not_segmentable") + gateway()->Drop("too_big"), 0u);
  }
};

TEST_F(SoftGatewaySegmentsTest, TcpFromEthernet) {
  AddOneEach();
  for (const std::string& to : {Address(11), Address6(11)}) {
    SCOPED_TRACE(to);
    const uint64_t segmented = agents()[0]->Stat("segmented"),
                   segments = agents()[0]->Stat("segments_sent");
    const uint64_t cut = gateway()->Stat("super_frames_cut"),
                   packets = gateway()->Stat("packets_out");
    const uint64_t received = PacketsOfTun().received;
    EXPECT_EQ(Transfer(ethernet_host(1), ipoib_host(1), to), "");
    EXPECT_EQ(agents()[0]->Stat("segmented"), segmented) << "the agent cuts nothing in software";
    EXPECT_GT(agents()[0]->Stat("segments_sent") - segments, kMostPackets);
    EXPECT_GE(gateway()->Stat("super_frames_cut") - cut, kTransfer / 65536);
    EXPECT_GT(gateway()->Stat("packets_out") - packets, kTransfer / 4096)
        << "IPoIB carries packets of the MTU";
    EXPECT_LT(PacketsOfTun().received - received, kMostPackets) << "eoib-ipoib joins them";
  }
  ExpectNoErrors();
}

TEST_F(SoftGatewaySegmentsTest, TcpFromIpoib) {
  AddOneEach();
  for (const std::string& to : {Address(1), Address6(1)}) {
    SCOPED_TRACE(to);
    const uint64_t sent = PacketsOfTun().sent, joined = gateway()->Stat("frames_joined");
    const uint64_t handed = gateway()->Stat("frames_handed"),
                   segments = agents()[0]->Stat("segments_received");
    EXPECT_EQ(Transfer(ipoib_host(1), ethernet_host(1), to), "");
    EXPECT_LT(PacketsOfTun().sent - sent, kMostPackets) << "the kernel hands over super-frames";
    EXPECT_GT(gateway()->Stat("frames_joined") - joined, kMostPackets);
    EXPECT_LT(gateway()->Stat("frames_handed") - handed, kMostPackets);
    EXPECT_GT(agents()[0]->Stat("segments_received") - segments, kMostPackets);
  }
  ExpectNoErrors();
}

TEST_F(SoftGatewaySegmentsTest, UdpSuperFramesKeepTheirDatagrams) {
  AddOneEach();
  struct Row {
    Host* from;
    Host* to;
    std::string address;
  };
  for (const Row& row : {Row{ethernet_host(1), ipoib_host(1), Address(11)},
                         Row{ethernet_host(1), ipoib_host(1), Address6(11)},
                         Row{ipoib_host(1), ethernet_host(1), Address(1)},
                         Row{ipoib_host(1), ethernet_host(1), Address6(1)}}) {
    SCOPED_TRACE(row.address);
    ExpectPing(row.from, row.address);
    const UniqueFd receiver = UdpSocket(row.to, row.address, 4000);
    const UniqueFd sender =
        UdpSocket(row.from, absl::StrContains(row.address, ':') ? "::" : "0.0.0.0", 0);
    SetOption(receiver.get(), SOL_SOCKET, SO_RCVBUF, int{1 << 20}, "set SO_RCVBUF");
    SetOption(sender.get(), SOL_UDP, UDP_SEGMENT, int{1000}, "set UDP_SEGMENT");
    Bytes payload(30'500);
    for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<uint8_t>(i * 7 + i / 1000);
    SendUdp(sender.get(), row.address, 4000, payload);
    for (size_t at = 0; at < payload.size(); at += 1000) {
      const size_t size = std::min<size_t>(1000, payload.size() - at);
      const auto from = payload.begin() + static_cast<ptrdiff_t>(at);
      EXPECT_EQ(ReceiveUdp(receiver.get()),
                absl::optional<Bytes>(Bytes(from, from + static_cast<ptrdiff_t>(size))))
          << at;
    }
  }
  ExpectNoErrors();
}

}  // namespace
}  // namespace eoib::lab
