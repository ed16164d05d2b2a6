#include "gateway/uplink/wire_socket.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/base/ethertype.h"
#include "vswitch/wire/ethernet.h"

namespace eoib::gateway {
namespace {

constexpr int kControlPriority = 7;  // TC_PRIO_CONTROL: the qdisc sends it first

// Makes the kernel drop all frames but hellos to their group in VLAN `vid`. The kernel has taken
// the outer tag out of the frame. A frame with a priority tag is untagged; one with a provider tag
// (802.1ad) is no hello.
bool Filter(int fd, Vid vid) {
  constexpr uint64_t kGroup = kUplinkHelloGroup.ToUint64();
  constexpr auto kTagged = static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT);
  constexpr auto kTpid = static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_VLAN_TPID);
  constexpr auto kTci = static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_VLAN_TAG);
  std::array<sock_filter, 15> program = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(kGroup >> 16), 0, 12),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(kGroup & 0xffff), 0, 10),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kEtherTypeControl, 0, 8),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kTagged),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 4, 0),  // not tagged: compares VLAN 0
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kTpid),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kEtherTypeVlan, 0, 4),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kTci),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xfff),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, vid.value(), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
      BPF_STMT(BPF_RET | BPF_K, 0),
  }};
  const sock_fprog filter = {static_cast<uint16_t>(program.size()), program.data()};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0;
}

}  // namespace

std::vector<uint8_t> MakeFrame(MacAddr destination, MacAddr source, Vid vid, uint16_t ethertype,
                               absl::Span<const uint8_t> payload) {
  const size_t tag = vid.IsUntagged() ? 0 : kVlanTagSize;
  std::vector<uint8_t> frame(std::max(kEthernetHeaderSize + payload.size(), kMinFrameSize) + tag);
  WriteEthernetHeader(destination, source, ethertype, frame.data() + tag);
  if (tag != 0) InsertVlanTag(frame.data() + tag, vid, 0);
  std::copy(payload.begin(), payload.end(),
            frame.begin() + static_cast<ptrdiff_t>(tag + kEthernetHeaderSize));
  return frame;
}

absl::StatusOr<WireSocket> WireSocket::Open(const std::string& netdev, Vid hellos) {
  UniqueFd packets(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!packets.valid())
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("open a packet socket for hellos on netdev ", netdev));
  const int on = 1;
  if (setsockopt(packets.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) != 0 ||
      !Filter(packets.get(), hellos)) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("set up the socket for hellos on netdev ", netdev));
  }
  // Else they queue.
  setsockopt(packets.get(), SOL_SOCKET, SO_PRIORITY, &kControlPriority, sizeof(kControlPriority));
  return WireSocket(netdev, std::move(packets));
}

bool WireSocket::Bind() {
  const auto index = static_cast<int>(if_nametoindex(netdev_.c_str()));
  if (index == 0) return false;
  sockaddr_ll bound{};
  socklen_t size = sizeof(bound);
  const bool is_bound =
      getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&bound), &size) == 0 &&
      bound.sll_ifindex == index;
  if (index == index_ && is_bound) return true;
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  // A socket of one EtherType gets frames without their VLAN.
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = index;
  if (bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    return false;
  index_ = index;
  return true;
}

void WireSocket::Receive(absl::FunctionRef<void(absl::Span<const uint8_t> payload)> take) {
  std::array<uint8_t, 2048> frame;
  for (int i = 0; i < 64; ++i) {
    const ssize_t size = recv(socket_.get(), frame.data(), frame.size(), 0);
    if (size < 0) return;
    const auto bytes = absl::MakeConstSpan(frame).first(static_cast<size_t>(size));
    if (bytes.size() > kEthernetHeaderSize) take(bytes.subspan(kEthernetHeaderSize));
  }
}

void WireSocket::Send(absl::Span<const uint8_t> frame) {
  send(socket_.get(), frame.data(), frame.size(), 0);
}

}  // namespace eoib::gateway
