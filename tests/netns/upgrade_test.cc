// An agent that is replaced by another binary: an orderly stop, and a start.
#include <iostream>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/packet_socket.h"
#include "tests/lab/switch_test.h"
#include "tests/lab/traffic.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;

class UpgradeTest : public SwitchTest {
 protected:
  // On a slow fabric fewer.
  size_t count() { return 10'000 / fabric().Slowdown(); }
  static MacAddr Source(int host, size_t i) {
    return MacAddr::FromUint64(0x02'aa'00'00'00'00 + (uint64_t(host) << 24) + i);
  }

  // Sends a frame from each of many stations behind v1 of a host. Both agents learn them. In pieces
  // that fit the queues on the way; a piece that lost a frame is sent again.
  void Speak(int from, PacketSocket* sender, PacketSocket* receiver) {
    constexpr size_t kPiece = 250;
    for (size_t begin = 0; begin < count(); begin += kPiece) {
      std::vector<Bytes> frames;
      for (size_t i = begin; i < std::min(begin + kPiece, count()); ++i) {
        frames.push_back(TestFrame(MacAddr::Broadcast(), Source(from, i), 1, 60));
      }
      ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
        receiver->Clear();
        sender->SendAll(frames);
        return receiver->WaitFor(Marked(1), frames.size(), absl::Seconds(1));
      }));
    }
  }

  // The kernel's number of v1 of h1, as `ip` prints it.
  std::string Index() {
    const std::string link = host(1)->MustIp("-o link show v1");
    return link.substr(0, link.find(':'));
  }

  // How many of the stations of host `from` the agent h1 knows behind a place whose name begins
  // with `place`.
  size_t Known(int from, const std::string& place) {
    std::set<std::string> macs;
    for (size_t i = 0; i < count(); ++i) macs.insert(Source(from, i).ToString());
    size_t known = 0;
    for (const FdbRow& row : agent(1).Fdb())
      known += absl::StartsWith(row.behind, place) && macs.contains(row.mac);
    return known;
  }
};

// The traffic is a guest's behind a bridge: while an interface has no carrier, the kernel of the
// host itself forgets its neighbors, and asks for them once a second.
TEST_F(UpgradeTest, NewBinaryTakesOverInterfacesAndMacs) {
  AddNumberedAgents(2);
  host(1)->MustIp("address flush dev v1");
  Host* const guest = lab().AddHost("guest");
  host(1)->AddVeth("tap1", guest, "eth0", 1500);
  host(1)->AddBridge("br0", {"v1", "tap1"});
  guest->AddAddress("eth0", Address(11) + "/24");
  ExpectPing(guest, Address(2));
  {
    PacketSocket here(host(1), "v1"), there(host(2), "v1");
    Speak(1, &here, &there);
    Speak(2, &there, &here);
  }
  ASSERT_EQ(Known(1, "vPort v1"), count());
  ASSERT_EQ(Known(2, "GID"), count());
  const std::string index = Index();

  Traffic traffic;
  Stream* const streams[] = {traffic.Add(guest, Address(11), host(2), Address(2)),
                             traffic.Add(host(2), Address(2), guest, Address(11))};
  traffic.Start();
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
    return streams[0]->ForwardsSince(absl::InfinitePast()) &&
           streams[1]->ForwardsSince(absl::InfinitePast());
  }));
  const absl::Time start = absl::Now();
  ASSERT_EQ(agent(1).Stop(), 0) << agent(1).Log();
  agent(1).Launch();
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return agent(1).Ctl({"show"}).ok(); }))
      << agent(1).Log();
  const size_t local = Known(1, "vPort v1"), remote = Known(2, "GID");
  EXPECT_GE(local, count() - count() / 100) << agent(1).Log();
  EXPECT_GE(remote, count() - count() / 100) << agent(1).Log();

  ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
    return streams[0]->ForwardsSince(start) && streams[1]->ForwardsSince(start);
  }));
  agent(1).WaitUntilReady();
  const absl::Time ready = absl::Now();
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
    return streams[0]->ForwardsSince(ready) && streams[1]->ForwardsSince(ready);
  }));
  // A sanitizer's agent takes three times as long to read and restore 20,000 MACs.
  const absl::Duration most = absl::Seconds(AreSanitized() ? 3 : 1) * fabric().Slowdown();
  for (const Stream* stream : streams) {
    std::cout << "no traffic for " << stream->LongestGap(start) << "\n";
    EXPECT_LT(stream->LongestGap(start), most + traffic.StallAllowance(start));
  }
  std::cout << local << " and " << remote << " of " << count()
            << " MACs are there after the start\n";
  EXPECT_EQ(Index(), index) << "the interface was made again";
  EXPECT_THAT(agent(1).Log(), HasSubstr("MACs that the last run saved"));
}

}  // namespace
}  // namespace eoib::lab
