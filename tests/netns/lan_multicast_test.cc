// IP multicast between hosts: members receive each datagram once, and others none.
#include <array>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/multicast_station.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

constexpr char kGroup4[] = "239.1.2.3";
constexpr char kGroup6[] = "ff15::1:2:3";

// For both address families; the name of the test case says which.
class MulticastTest : public SwitchTest, public ::testing::WithParamInterface<bool> {
 protected:
  bool ipv6() const { return GetParam(); }
  const char* group() const { return ipv6() ? kGroup6 : kGroup4; }

  // Adds `count` hosts with one station each.
  void AddStations(int count, uint16_t port = 4000) {
    const std::vector<Agent*> agents = AddNumberedAgents(count, {}, {.ipv6 = ipv6()});
    WaitUntilAllReceive(agents);
    for (Agent* agent : agents)
      stations_.push_back(std::make_unique<MulticastStation>(agent->host(), ipv6(), port));
  }
  MulticastStation& station(int number) { return *stations_[number - 1]; }

  std::vector<std::unique_ptr<MulticastStation>> stations_;
};

INSTANTIATE_TEST_SUITE_P(Families, MulticastTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ipv6" : "Ipv4"; });

TEST_P(MulticastTest, MembersReceiveEveryDatagramOnceWithItsHopLimit) {
  AddStations(4);
  station(1).SetHops(7);
  station(2).Join(group());
  station(3).Join(group());
  const std::string all_stations = ipv6() ? "ff15::99" : "239.9.9.9";
  for (int i = 2; i <= 4; ++i) station(i).Join(all_stations);
  // A few at a time, followed by one to a group that all have joined, and wait for that one: an
  // agent that waits for a processor would otherwise lose some, because its ring does not hold all
  // of them.
  constexpr int kTimes = 10, kAtATime = 5;
  std::vector<std::string> sent, ends;
  std::array<std::vector<std::string>, 3> received;  // at stations 2 to 4
  for (int i = 0; i < kTimes * kAtATime; ++i) {
    const size_t size = i % 2 == 0 ? 4000 : 100;
    station(1).Send(group(), absl::StrCat("datagram ", i), size);
    sent.push_back(absl::StrCat("datagram ", i, ", ", size, " bytes, 7 hops"));
    if (i % kAtATime != kAtATime - 1) continue;
    station(1).Send(all_stations, "end");
    sent.push_back("end, 3 bytes, 7 hops");
    ends.push_back(sent.back());
    for (size_t at = 0; at < received.size(); ++at) {
      const std::vector<std::string> more =
          station(static_cast<int>(at) + 2).Received(at == 2 ? 1 : kAtATime + 1);
      received[at].insert(received[at].end(), more.begin(), more.end());
    }
  }
  EXPECT_EQ(received[0], sent);
  EXPECT_EQ(received[1], sent);
  EXPECT_EQ(received[2], ends) << "its kernel must drop what the switch floods";
}

TEST_P(MulticastTest, JoinAndLeaveTakeEffect) {
  AddStations(3);
  const std::string all_stations = ipv6() ? "ff15::99" : "239.9.9.9";
  station(2).Join(all_stations);
  station(3).Join(all_stations);
  station(2).Join(group());
  station(1).Send(group(), "first");
  station(1).Send(all_stations, "end");
  EXPECT_THAT(station(2).Received(2),
              ElementsAre("first, 5 bytes, 1 hops", "end, 3 bytes, 1 hops"));
  EXPECT_THAT(station(3).Received(1), ElementsAre("end, 3 bytes, 1 hops"));

  station(2).Leave(group());
  station(3).Join(group());
  station(1).Send(group(), "second");
  station(1).Send(all_stations, "end");
  EXPECT_THAT(station(2).Received(1), ElementsAre("end, 3 bytes, 1 hops"));
  EXPECT_THAT(station(3).Received(2),
              ElementsAre("second, 6 bytes, 1 hops", "end, 3 bytes, 1 hops"));

  station(2).Join(group());
  station(1).Send(group(), "third");
  EXPECT_THAT(station(2).Received(1), ElementsAre("third, 5 bytes, 1 hops"));
  EXPECT_THAT(station(3).Received(1), ElementsAre("third, 5 bytes, 1 hops"));
}

// The fabric returns a multicast to its sender's port. The sender's host must not receive this
// copy: it gets one from its own kernel, or none if it has turned that off.
TEST_P(MulticastTest, SenderDoesNotReceiveFabricCopyOfItsOwnMulticast) {
  AddStations(2);
  station(1).Join(group());
  station(2).Join(group());
  station(1).SetLoop(true);
  station(1).Send(group(), "looped");
  station(1).SetLoop(false);
  station(1).Send(group(), "not looped");
  EXPECT_THAT(station(2).Received(2),
              ElementsAre("looped, 6 bytes, 1 hops", "not looped, 10 bytes, 1 hops"));
  station(2).Send(group(), "answer");
  EXPECT_THAT(station(1).Received(2),
              ElementsAre("looped, 6 bytes, 1 hops", "answer, 6 bytes, 1 hops"));
  for (const auto& agent : agents()) ExpectConservation(agent.get());
  EXPECT_THAT(station(1).Received(0), IsEmpty());
}

// A datagram above the MTU is sent in fragments, each a multicast.
TEST_P(MulticastTest, MembersReceiveDatagramsLargerThanTheMtu) {
  AddStations(3);
  for (int i : {2, 3}) station(i).Join(group());
  for (size_t size : {4070, 9000, 30000}) {
    station(1).Send(group(), "large", size);
    for (int i : {2, 3})
      EXPECT_THAT(station(i).Received(1),
                  ElementsAre(absl::StrCat("large, ", size, " bytes, 1 hops")));
  }
}

// Multicast DNS (RFC 6762): all hosts send queries and responses to the group, with hop limit 255.
TEST_P(MulticastTest, EveryHostReceivesMulticastDnsOfAllOthers) {
  constexpr int kHosts = 4;
  AddStations(kHosts, 5353);
  const std::string mdns = ipv6() ? "ff02::fb" : "224.0.0.251";
  for (int i = 1; i <= kHosts; ++i) {
    station(i).Join(mdns);
    station(i).SetHops(255);
    station(i).SetLoop(false);
  }
  for (int from = 1; from <= kHosts; ++from) {
    const std::string query = absl::StrCat("h", from, " queries"), answer = " answers";
    station(from).Send(mdns, query);
    for (int i = 1; i <= kHosts; ++i) {
      if (i == from) continue;
      EXPECT_THAT(station(i).Received(1),
                  ElementsAre(absl::StrCat(query, ", ", query.size(), " bytes, 255 hops")));
    }
    std::vector<std::string> answers;
    for (int i = 1; i <= kHosts; ++i) {
      if (i == from) continue;
      station(i).Send(mdns, absl::StrCat("h", i, answer));
      answers.push_back(absl::StrCat("h", i, answer, ", 10 bytes, 255 hops"));
    }
    EXPECT_THAT(station(from).Received(kHosts - 1), UnorderedElementsAreArray(answers));
    for (int i = 1; i <= kHosts; ++i) {
      if (i == from) continue;
      EXPECT_EQ(station(i).Received(kHosts - 2).size(), kHosts - 2u) << "host " << i;
    }
  }
  for (const auto& agent : agents()) ExpectConservation(agent.get());
  for (int i = 1; i <= kHosts; ++i)
    EXPECT_THAT(station(i).Received(0), IsEmpty()) << "host " << i << " received a datagram twice";
}

}  // namespace
}  // namespace eoib::lab
