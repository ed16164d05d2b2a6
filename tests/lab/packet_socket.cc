#include "tests/lab/packet_socket.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/lab/sockets.h"

namespace eoib::lab {
namespace {

constexpr size_t kLargestFrame = 70000;

UniqueFd OpenSocket(const std::string& interface) {
  const unsigned index = if_nametoindex(interface.c_str());
  if (index == 0) DieErrno("find " + interface);
  // With protocol 0 the socket receives nothing before it is bound to the interface.
  UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) DieErrno("open a packet socket");
  SetOption(fd.get(), SOL_PACKET, PACKET_AUXDATA, int{1}, "set PACKET_AUXDATA");
  SetOption(fd.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, int{1}, "set PACKET_IGNORE_OUTGOING");
  // Bypass the queueing discipline, so that Send gets an error from a full TAP; otherwise the
  // kernel drops silently.
  SetOption(fd.get(), SOL_PACKET, PACKET_QDISC_BYPASS, int{1}, "set PACKET_QDISC_BYPASS");
  SetOption(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, int{16 << 20}, "set SO_RCVBUFFORCE");
  packet_mreq promiscuous{};
  promiscuous.mr_ifindex = static_cast<int>(index);
  promiscuous.mr_type = PACKET_MR_PROMISC;
  SetOption(fd.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, promiscuous, "set promiscuous mode");
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(index);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    DieErrno("bind to " + interface);
  return fd;
}

absl::optional<tpacket_auxdata> AuxiliaryData(msghdr* message) {
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_PACKET || header->cmsg_type != PACKET_AUXDATA) continue;
    tpacket_auxdata data;
    std::memcpy(&data, CMSG_DATA(header), sizeof(data));
    return data;
  }
  return absl::nullopt;
}

}  // namespace

PacketSocket::PacketSocket(Host* host, const std::string& interface)
    : where_(absl::StrCat(host->name(), " ", interface)) {
  host->InNamespace([&] { fd_ = OpenSocket(interface); });
}

void PacketSocket::Send(const Bytes& frame) {
  while (send(fd_.get(), frame.data(), frame.size(), 0) < 0) {
    if (errno != ENOBUFS && errno != EAGAIN && errno != EINTR) {
      DieErrno(absl::StrCat("send ", frame.size(), " bytes at ", where_));
    }
    internal::SleepOnePoll();
  }
}

void PacketSocket::SendAll(const std::vector<Bytes>& frames) {
  std::vector<iovec> parts;
  for (const Bytes& frame : frames)
    parts.push_back({const_cast<uint8_t*>(frame.data()), frame.size()});
  std::vector<mmsghdr> messages(frames.size());
  for (size_t i = 0; i < frames.size(); ++i)
    messages[i].msg_hdr = {.msg_iov = &parts[i], .msg_iovlen = 1};
  for (size_t done = 0; done < messages.size();) {
    const int sent =
        sendmmsg(fd_.get(), &messages[done], static_cast<unsigned>(messages.size() - done), 0);
    if (sent > 0) done += static_cast<size_t>(sent);
    if (sent >= 0) continue;
    if (errno != ENOBUFS && errno != EAGAIN && errno != EINTR)
      DieErrno("send many frames at " + where_);
    internal::SleepOnePoll();
  }
}

bool PacketSocket::TakeOne() {
  Bytes frame(kLargestFrame);
  alignas(cmsghdr) char control[256];
  iovec part = {frame.data(), frame.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(fd_.get(), &message, MSG_DONTWAIT);
  // ENETDOWN is reported once, when the interface goes down.
  if (got < 0) return errno == EINTR || errno == ENETDOWN;
  frame.resize(static_cast<size_t>(got));
  const auto data = AuxiliaryData(&message);
  if (data && (data->tp_status & TP_STATUS_VLAN_VALID) != 0 && frame.size() >= 12) {
    const uint16_t tpid =
        (data->tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? data->tp_vlan_tpid : 0x8100;
    // tp_vlan_tci has PCP, DEI and VID. WithTag takes DEI and VID as the low 13 bits and the PCP
    // separately.
    frame = WithTag(frame, data->tp_vlan_tci & 0x1fff, data->tp_vlan_tci >> 13, tpid);
  }
  if (data && (data->tp_status & TP_STATUS_CSUMNOTREADY) != 0) ++unfinished_checksums_;
  received_.push_back(std::move(frame));
  return true;
}

void PacketSocket::Take() {
  while (TakeOne()) {
  }
  tpacket_stats lost{};
  socklen_t size = sizeof(lost);
  if (getsockopt(fd_.get(), SOL_PACKET, PACKET_STATISTICS, &lost, &size) != 0)
    DieErrno("get PACKET_STATISTICS");
  EXPECT_EQ(lost.tp_drops, 0u) << "the test's own socket at " << where_ << " lost frames";
}

bool PacketSocket::WaitFor(const Filter& filter, size_t count, absl::Duration limit) {
  return EventuallyTrue(limit, [&] { return Count(filter) >= count; });
}

absl::optional<Bytes> PacketSocket::Receive(const Filter& filter, absl::Duration limit) {
  if (!WaitFor(filter, 1, limit)) return absl::nullopt;
  return *std::find_if(received_.begin(), received_.end(), filter);
}

size_t PacketSocket::Count(const Filter& filter) {
  Take();
  return static_cast<size_t>(std::count_if(received_.begin(), received_.end(), filter));
}

std::map<uint32_t, size_t> PacketSocket::Markers() {
  std::map<uint32_t, size_t> markers;
  for (const Bytes& frame : received()) {
    const uint32_t marker = MarkerOf(frame);
    if (marker != 0) ++markers[marker];
  }
  return markers;
}

const std::vector<Bytes>& PacketSocket::received() {
  Take();
  return received_;
}

void PacketSocket::Clear() {
  Take();
  received_.clear();
}

PacketSocket::Filter Marked(uint32_t marker) {
  return [marker](const Bytes& frame) { return MarkerOf(frame) == marker; };
}

PacketSocket::Filter ExactlyFrame(Bytes frame) {
  return [frame = std::move(frame)](const Bytes& other) { return frame == other; };
}

PacketSocket::Filter OfEtherType(uint16_t ethertype) {
  return [ethertype](const Bytes& frame) {
    return frame.size() >= 14 && frame[12] == ethertype >> 8 && frame[13] == (ethertype & 0xff);
  };
}

}  // namespace eoib::lab
