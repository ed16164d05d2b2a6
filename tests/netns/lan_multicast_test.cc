// IP multicast between hosts: what members hear, how often, and what others do not.
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/sockets.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

constexpr char kGroup4[] = "239.1.2.3";
constexpr char kGroup6[] = "ff15::1:2:3";

template <typename Value>
void SetOption(int fd, int level, int name, const Value& value, const char* what) {
  if (setsockopt(fd, level, name, &value, sizeof(value)) != 0) DieErrno(what);
}

// A UDP socket at one host's v1 that speaks to groups, and hears those that it joined and no others. IPv4 or IPv6.
class Station {
 public:
  Station(Host* host, bool ipv6, uint16_t port) : ipv6_(ipv6), port_(port) {
    fd_ = UdpSocket(host, ipv6 ? "::" : "0.0.0.0", port);
    host->InNamespace([this] { index_ = static_cast<int>(if_nametoindex("v1")); });
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

  // A datagram that tells `text`, followed by zeros up to `size`.
  void Send(const std::string& group, const std::string& text, size_t size = 0) {
    Bytes payload(text.begin(), text.end());
    payload.resize(std::max(size, text.size()));
    SendUdp(fd_.get(), group, port_, payload);
  }

  // What has arrived once it is `count` datagrams, or too few of them in time: "TEXT, SIZE bytes, HOPS hops".
  std::vector<std::string> Heard(size_t count) {
    EventuallyTrue(kPatience, [&] {
      while (TakeOne()) {
      }
      return heard_.size() >= count;
    });
    return std::exchange(heard_, {});
  }

 private:
  void Set(int name4, int name6, int value) {
    SetOption(fd_.get(), ipv6_ ? IPPROTO_IPV6 : IPPROTO_IP, ipv6_ ? name6 : name4, value, "set a multicast option");
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
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_type == (ipv6_ ? IPV6_HOPLIMIT : IP_TTL)) std::memcpy(&hops, CMSG_DATA(header), sizeof(hops));
    }
    const std::string text(payload, strnlen(payload, static_cast<size_t>(size)));
    heard_.push_back(absl::StrCat(text, ", ", size, " bytes, ", hops, " hops"));
    return true;
  }

  const bool ipv6_;
  const uint16_t port_;
  UniqueFd fd_;
  int index_ = 0;
  std::vector<std::string> heard_;
};

// Both families: the name of a test says which.
class MulticastTest : public SwitchTest, public ::testing::WithParamInterface<bool> {
 protected:
  bool ipv6() const { return GetParam(); }
  const char* group() const { return ipv6() ? kGroup6 : kGroup4; }

  // One station on each of as many hosts.
  void AddStations(int count, uint16_t port = 4000) {
    for (Agent* agent : AddNumberedAgents(count, {}, {.ipv6 = ipv6()})) {
      stations_.push_back(std::make_unique<Station>(agent->host(), ipv6(), port));
    }
  }
  Station& station(int number) { return *stations_[number - 1]; }

  std::vector<std::unique_ptr<Station>> stations_;
};

INSTANTIATE_TEST_SUITE_P(Families, MulticastTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ipv6" : "Ipv4"; });

TEST_P(MulticastTest, MembersHearEveryDatagramOnceWithItsHops) {
  AddStations(4);
  station(1).SetHops(7);
  station(2).Join(group());
  station(3).Join(group());
  // Behind the datagrams of the group one to a group that all are in.
  const std::string everybody = ipv6() ? "ff15::99" : "239.9.9.9";
  for (int i = 2; i <= 4; ++i) station(i).Join(everybody);
  std::vector<std::string> sent;
  for (int i = 0; i < 50; ++i) {
    const size_t size = i % 2 == 0 ? 4000 : 100;
    station(1).Send(group(), absl::StrCat("datagram ", i), size);
    sent.push_back(absl::StrCat("datagram ", i, ", ", size, " bytes, 7 hops"));
  }
  station(1).Send(everybody, "end");
  sent.push_back("end, 3 bytes, 7 hops");
  EXPECT_EQ(station(2).Heard(sent.size()), sent);
  EXPECT_EQ(station(3).Heard(sent.size()), sent);
  EXPECT_THAT(station(4).Heard(1), ElementsAre("end, 3 bytes, 7 hops")) << "its kernel is to drop what the switch floods";
}

TEST_P(MulticastTest, WhoLeavesHearsNoMoreAndWhoJoinsHearsFromThen) {
  AddStations(3);
  const std::string everybody = ipv6() ? "ff15::99" : "239.9.9.9";
  station(2).Join(everybody);
  station(3).Join(everybody);
  station(2).Join(group());
  station(1).Send(group(), "first");
  station(1).Send(everybody, "end");
  EXPECT_THAT(station(2).Heard(2), ElementsAre("first, 5 bytes, 1 hops", "end, 3 bytes, 1 hops"));
  EXPECT_THAT(station(3).Heard(1), ElementsAre("end, 3 bytes, 1 hops"));

  station(2).Leave(group());
  station(3).Join(group());
  station(1).Send(group(), "second");
  station(1).Send(everybody, "end");
  EXPECT_THAT(station(2).Heard(1), ElementsAre("end, 3 bytes, 1 hops"));
  EXPECT_THAT(station(3).Heard(2), ElementsAre("second, 6 bytes, 1 hops", "end, 3 bytes, 1 hops"));

  station(2).Join(group());
  station(1).Send(group(), "third");
  EXPECT_THAT(station(2).Heard(1), ElementsAre("third, 5 bytes, 1 hops"));
  EXPECT_THAT(station(3).Heard(1), ElementsAre("third, 5 bytes, 1 hops"));
}

// The fabric returns a multicast to its sender's port. The sender's host must not hear it a second time, and not at all if it
// asked its kernel for no copy.
TEST_P(MulticastTest, ASenderHearsItselfOnlyFromItsOwnKernel) {
  AddStations(2);
  station(1).Join(group());
  station(2).Join(group());
  station(1).SetLoop(true);
  station(1).Send(group(), "looped");
  station(1).SetLoop(false);
  station(1).Send(group(), "not looped");
  EXPECT_THAT(station(2).Heard(2), ElementsAre("looped, 6 bytes, 1 hops", "not looped, 10 bytes, 1 hops"));
  station(2).Send(group(), "answer");
  EXPECT_THAT(station(1).Heard(2), ElementsAre("looped, 6 bytes, 1 hops", "answer, 6 bytes, 1 hops"));
  for (const auto& agent : agents()) ExpectConservation(agent.get());
  EXPECT_THAT(station(1).Heard(0), IsEmpty());
}

// Larger than a frame, a datagram is fragments, each of them a multicast.
TEST_P(MulticastTest, MembersHearDatagramsLargerThanTheMtu) {
  AddStations(3);
  for (int i : {2, 3}) station(i).Join(group());
  for (size_t size : {4074, 9000, 30000}) {
    station(1).Send(group(), "large", size);
    for (int i : {2, 3}) EXPECT_THAT(station(i).Heard(1), ElementsAre(absl::StrCat("large, ", size, " bytes, 1 hops")));
  }
}

// Multicast DNS (RFC 6762): everybody asks and everybody answers, to the group, with 255 hops.
TEST_P(MulticastTest, EveryHostHearsTheMulticastDnsOfAllOthers) {
  constexpr int kHosts = 4;
  AddStations(kHosts, 5353);
  const std::string mdns = ipv6() ? "ff02::fb" : "224.0.0.251";
  for (int i = 1; i <= kHosts; ++i) {
    station(i).Join(mdns);
    station(i).SetHops(255);
    station(i).SetLoop(false);
  }
  for (int from = 1; from <= kHosts; ++from) {
    const std::string question = absl::StrCat("h", from, " asks"), answer = " answers";
    station(from).Send(mdns, question);
    for (int i = 1; i <= kHosts; ++i) {
      if (i == from) continue;
      EXPECT_THAT(station(i).Heard(1), ElementsAre(absl::StrCat(question, ", ", question.size(), " bytes, 255 hops")));
    }
    std::vector<std::string> answers;
    for (int i = 1; i <= kHosts; ++i) {
      if (i == from) continue;
      station(i).Send(mdns, absl::StrCat("h", i, answer));
      answers.push_back(absl::StrCat("h", i, answer, ", 10 bytes, 255 hops"));
    }
    EXPECT_THAT(station(from).Heard(kHosts - 1), UnorderedElementsAreArray(answers));
    for (int i = 1; i <= kHosts; ++i) {
      if (i == from) continue;
      EXPECT_EQ(station(i).Heard(kHosts - 2).size(), kHosts - 2u) << "host " << i;
    }
  }
  for (const auto& agent : agents()) ExpectConservation(agent.get());
  for (int i = 1; i <= kHosts; ++i) EXPECT_THAT(station(i).Heard(0), IsEmpty()) << "host " << i << " heard something twice";
}

}  // namespace
}  // namespace eoib::lab
