// MulticastStation: a UDP socket that sends to multicast groups and receives only from those that
// it joined.
#ifndef EOIB_TESTS_LAB_MULTICAST_STATION_H_
#define EOIB_TESTS_LAB_MULTICAST_STATION_H_

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/lab/sockets.h"

namespace eoib::lab {

// On one interface of a host; IPv4 or IPv6.
class MulticastStation {
 public:
  MulticastStation(Host* host, bool ipv6, uint16_t port, const std::string& interface = "v1")
      : ipv6_(ipv6), port_(port) {
    fd_ = UdpSocket(host, ipv6 ? "::" : "0.0.0.0", port);
    // Room for all datagrams that a test sends before it reads.
    SetOption(fd_.get(), SOL_SOCKET, SO_RCVBUFFORCE, int{4 << 20}, "set SO_RCVBUFFORCE");
    host->InNamespace(
        [this, &interface] { index_ = static_cast<int>(if_nametoindex(interface.c_str())); });
    const ip_mreqn out = {{}, {}, index_};
    if (ipv6_) {
      SetOption(fd_.get(), IPPROTO_IPV6, IPV6_MULTICAST_IF, index_, "set IPV6_MULTICAST_IF");
      SetOption(fd_.get(), IPPROTO_IPV6, IPV6_MULTICAST_ALL, int{0}, "set IPV6_MULTICAST_ALL");
      SetOption(fd_.get(), IPPROTO_IPV6, IPV6_RECVHOPLIMIT, int{1}, "set IPV6_RECVHOPLIMIT");
    } else {
      SetOption(fd_.get(), IPPROTO_IP, IP_MULTICAST_IF, out, "set IP_MULTICAST_IF");
      SetOption(fd_.get(), IPPROTO_IP, IP_MULTICAST_ALL, int{0}, "set IP_MULTICAST_ALL");
      SetOption(fd_.get(), IPPROTO_IP, IP_RECVTTL, int{1}, "set IP_RECVTTL");
    }
  }

  void Join(const std::string& group) { Change(group, IP_ADD_MEMBERSHIP, IPV6_JOIN_GROUP); }
  void Leave(const std::string& group) { Change(group, IP_DROP_MEMBERSHIP, IPV6_LEAVE_GROUP); }
  void SetHops(int hops) { Set(IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS, hops); }
  void SetLoop(bool loop) { Set(IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP, loop); }

  // Sends a datagram with `text`, padded with zeros to `size`.
  void Send(const std::string& group, const std::string& text, size_t size = 0) {
    Bytes payload(text.begin(), text.end());
    payload.resize(std::max(size, text.size()));
    SendUdp(fd_.get(), group, port_, payload);
  }

  // Returns the datagrams that have arrived since the last call, in the format of Received.
  std::vector<std::string> ReceivedSoFar() {
    while (TakeOne()) {
    }
    return std::exchange(received_, {});
  }
  // Waits for `count` datagrams, and returns those that arrived in time: "TEXT, SIZE bytes, HOPS
  // hops".
  std::vector<std::string> Received(size_t count) {
    EventuallyTrue(kPatience, [&] {
      while (TakeOne()) {
      }
      return received_.size() >= count;
    });
    return std::exchange(received_, {});
  }

 private:
  void Set(int name4, int name6, int value) {
    SetOption(fd_.get(), ipv6_ ? IPPROTO_IPV6 : IPPROTO_IP, ipv6_ ? name6 : name4, value,
              "set a multicast option");
  }

  void Change(const std::string& group, int name4, int name6) {
    if (ipv6_) {
      ipv6_mreq request{};
      std::memcpy(&request.ipv6mr_multiaddr, Ip6(group).data(), 16);
      request.ipv6mr_interface = static_cast<unsigned>(index_);
      SetOption(fd_.get(), IPPROTO_IPV6, name6, request, "join or leave an IPv6 group");
    } else {
      ip_mreqn request{};
      std::memcpy(&request.imr_multiaddr, Ip4(group).data(), 4);
      request.imr_ifindex = index_;
      SetOption(fd_.get(), IPPROTO_IP, name4, request, "join or leave an IPv4 group");
    }
  }

  bool TakeOne() {
    char payload[65536];
    alignas(cmsghdr) char control[256];
    iovec part = {payload, sizeof(payload)};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t size = recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (size < 0) return false;
    int hops = -1;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_type == (ipv6_ ? IPV6_HOPLIMIT : IP_TTL))
        std::memcpy(&hops, CMSG_DATA(header), sizeof(hops));
    }
    const std::string text(payload, strnlen(payload, static_cast<size_t>(size)));
    received_.push_back(absl::StrCat(text, ", ", size, " bytes, ", hops, " hops"));
    return true;
  }

  const bool ipv6_;
  const uint16_t port_;
  UniqueFd fd_;
  int index_ = 0;
  std::vector<std::string> received_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_MULTICAST_STATION_H_
