#include "gateway/host/neighbor_cache.h"

#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gateway/host/addresses_for_test.h"
#include "gateway/host/find_neighbor_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib::endpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

IpoibAddress At(uint32_t qpn, uint64_t guid = 0x253'494d'4942'0001) {
  return {Qpn(qpn), Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(guid))};
}
std::string Where(const IpoibAddress& address) {
  return absl::StrCat(address.qpn().value(), "@", address.gid().guid().value() & 0xffff);
}

// Records the calls of the cache.
class NeighborRecorder final : public NeighborCache::Link {
 public:
  void Solicit(const IpAddr& target, const absl::optional<IpoibAddress>& at) override {
    log.push_back(
        absl::StrCat("ask ", target.ToString(), at.has_value() ? " at " + Where(*at) : ""));
  }
  void Deliver(absl::Span<const uint8_t> packet, const IpoibAddress& to) override {
    log.push_back(absl::StrCat(packet[0], " to ", Where(to)));
  }
  void Unreachable(const IpAddr& target, absl::Span<const uint8_t> packet) override {
    log.push_back(absl::StrCat(packet[0], " unreachable: ", target.ToString()));
  }
  void Displaced(absl::Span<const uint8_t> packet) override {
    log.push_back(absl::StrCat(packet[0], " displaced"));
  }
  std::vector<std::string> Take() { return std::exchange(log, {}); }

  std::vector<std::string> log;
};

class NeighborCacheTest : public testing::TestWithParam<const char*> {
 protected:
  void Send(const IpAddr& to, uint8_t packet) { cache_.Send(to, {&packet, 1}); }
  void Wait(absl::Duration time) {
    clock_.Advance(time);
    cache_.Tick();
  }
  NeighborState State(const IpAddr& ip) { return FindNeighbor(cache_, ip)->state; }

  FakeClock clock_;
  NeighborRecorder link_;
  NeighborCache cache_{{}, &clock_, &link_};
  const IpAddr ip_ = Ip(GetParam());
  const std::string text_ = GetParam();
};

INSTANTIATE_TEST_SUITE_P(Families, NeighborCacheTest, testing::Values("10.0.0.2", "fd00::2"),
                         [](const auto& info) { return info.param[0] == '1' ? "Ipv4" : "Ipv6"; });

TEST_P(NeighborCacheTest, APacketWaitsForTheAnswer) {
  Send(ip_, 1);
  EXPECT_THAT(link_.Take(), ElementsAre("ask " + text_));
  EXPECT_EQ(State(ip_), NeighborState::kIncomplete);
  cache_.OnAdvertisement(ip_, At(0x48), true, true);
  EXPECT_THAT(link_.Take(), ElementsAre("1 to 72@1"));
  EXPECT_EQ(State(ip_), NeighborState::kReachable);
  Send(ip_, 2);
  EXPECT_THAT(link_.Take(), ElementsAre("2 to 72@1"));
}

TEST_P(NeighborCacheTest, ThreeSolicitationsOneSecondApartThenUnreachable) {
  Send(ip_, 1);
  Send(ip_, 2);
  EXPECT_THAT(link_.Take(), ElementsAre("ask " + text_));
  EXPECT_EQ(cache_.Next(), clock_.Now() + absl::Seconds(1));
  Wait(absl::Milliseconds(999));
  EXPECT_THAT(link_.Take(), IsEmpty());
  Wait(absl::Milliseconds(1));
  EXPECT_THAT(link_.Take(), ElementsAre("ask " + text_));
  Wait(absl::Seconds(1));
  EXPECT_THAT(link_.Take(), ElementsAre("ask " + text_));
  Wait(absl::Seconds(1));
  EXPECT_THAT(link_.Take(), ElementsAre("1 unreachable: " + text_, "2 unreachable: " + text_));
  EXPECT_EQ(cache_.size(), 0);
  EXPECT_EQ(cache_.Next(), absl::InfiniteFuture());
}

TEST_P(NeighborCacheTest, KeepsTheLatestThreeWaitingPackets) {
  for (uint8_t packet = 1; packet <= 5; ++packet) Send(ip_, packet);
  EXPECT_THAT(link_.Take(), ElementsAre("ask " + text_, "1 displaced", "2 displaced"));
  cache_.OnAdvertisement(ip_, At(0x48), true, true);
  EXPECT_THAT(link_.Take(), ElementsAre("3 to 72@1", "4 to 72@1", "5 to 72@1"));
}

TEST_P(NeighborCacheTest, ASilentNeighborIsProbedByUnicastThenByMulticast) {
  Send(ip_, 1);
  cache_.OnAdvertisement(ip_, At(0x48), true, true);
  link_.Take();
  Wait(absl::Seconds(1));
  EXPECT_THAT(link_.Take(), IsEmpty());  // without packets there are no probes
  Send(ip_, 2);
  EXPECT_THAT(link_.Take(), ElementsAre("2 to 72@1"));
  EXPECT_EQ(State(ip_), NeighborState::kDelay);
  Wait(absl::Milliseconds(500));
  EXPECT_THAT(link_.Take(), ElementsAre("ask " + text_ + " at 72@1"));
  EXPECT_EQ(State(ip_), NeighborState::kProbe);
  Send(ip_, 3);  // still to the known address
  Wait(absl::Seconds(1));
  EXPECT_THAT(link_.Take(), ElementsAre("3 to 72@1", "ask " + text_));
  // Back with another queue pair, 2.5 s after it was last heard.
  cache_.OnAdvertisement(ip_, At(0x99), true, true);
  Send(ip_, 4);
  EXPECT_THAT(link_.Take(), ElementsAre("4 to 153@1"));
  EXPECT_EQ(State(ip_), NeighborState::kReachable);
}

TEST_P(NeighborCacheTest, ANeighborThatAnswersNoProbeIsRemoved) {
  cache_.OnSolicitation(ip_, At(0x48));
  Send(ip_, 1);
  Wait(absl::Milliseconds(500));
  Wait(absl::Seconds(1));
  Wait(absl::Seconds(1));
  EXPECT_THAT(link_.Take(), ElementsAre("1 to 72@1", "ask " + text_ + " at 72@1", "ask " + text_,
                                        "ask " + text_));
  Wait(absl::Seconds(1));
  EXPECT_EQ(cache_.size(), 0);
  Send(ip_, 2);
  EXPECT_THAT(link_.Take(), ElementsAre("ask " + text_));
}

TEST_P(NeighborCacheTest, ANeighborThatSendsIsNotProbed) {
  cache_.OnSolicitation(ip_, At(0x48));
  for (int i = 0; i < 100; ++i) {
    Send(ip_, 1);
    Wait(absl::Milliseconds(400));
    cache_.OnHeard(At(0x48), ip_);
    Wait(absl::Milliseconds(400));
  }
  for (const std::string& line : link_.Take()) EXPECT_EQ(line, "1 to 72@1");
  EXPECT_EQ(State(ip_), NeighborState::kReachable);
}

// Packets with other sources from the same queue pair show that it exists, but do not confirm the
// address for ever.
TEST_P(NeighborCacheTest, ARouterIsProbedEveryThirtySeconds) {
  Send(ip_, 1);
  cache_.OnAdvertisement(ip_, At(0x48), true, true);
  link_.Take();
  const IpAddr beyond = ip_.is_ipv4() ? Ip("192.0.2.1") : Ip("2001:db8::1");
  std::vector<int> asked;
  for (int tenths = 0; tenths < 700; ++tenths) {
    Wait(absl::Milliseconds(100));
    cache_.OnHeard(At(0x48), beyond);
    Send(ip_, 1);
    for (const std::string& line : link_.Take()) {
      if (line == "1 to 72@1") continue;
      EXPECT_EQ(line, "ask " + text_ + " at 72@1");
      asked.push_back(tenths / 10);
      cache_.OnAdvertisement(ip_, absl::nullopt, true, true);
    }
  }
  EXPECT_THAT(asked, ElementsAre(30, 60));
}

TEST_P(NeighborCacheTest, ASolicitationMakesAnEntryAndAnAdvertisementDoesNot) {
  cache_.OnAdvertisement(ip_, At(0x48), true, true);
  EXPECT_EQ(cache_.size(), 0);
  cache_.OnSolicitation(ip_, At(0x48));
  EXPECT_EQ(State(ip_), NeighborState::kStale);
  EXPECT_EQ(FindNeighbor(cache_, ip_)->address, At(0x48));
}

TEST_P(NeighborCacheTest, ASolicitationResolvesItsSender) {
  Send(ip_, 1);
  cache_.OnSolicitation(ip_, At(0x48));
  EXPECT_THAT(link_.Take(), ElementsAre("ask " + text_, "1 to 72@1"));
  EXPECT_EQ(State(ip_), NeighborState::kDelay);  // its own request does not prove that it hears us
}

// RFC 4861 appendix C, for an entry that is reachable at 72@1.
TEST_P(NeighborCacheTest, GoldenAdvertisements) {
  const struct {
    const char* description;
    absl::optional<IpoibAddress> address;
    bool solicited, overrides;
    uint32_t qpn;
    NeighborState state;
  } kRows[] = {
      {"the same address, solicited", At(0x48), true, false, 0x48, NeighborState::kReachable},
      {"no address, solicited", absl::nullopt, true, false, 0x48, NeighborState::kReachable},
      {"the same address, unasked: nothing is known of the way there", At(0x48), false, true, 0x48,
       NeighborState::kReachable},
      {"another address, without override: doubts", At(0x99), true, false, 0x48,
       NeighborState::kStale},
      {"another address, with override", At(0x99), true, true, 0x99, NeighborState::kReachable},
      {"another address, unasked, with override", At(0x99), false, true, 0x99,
       NeighborState::kStale},
      {"an address that is no interface's: zero", IpoibAddress(), true, true, 0x48,
       NeighborState::kReachable},
      {"an address that is no interface's: a group",
       IpoibAddress::OfGroup(Mgid(*Gid::Parse("ff12:401b:ffff::1"))), true, true, 0x48,
       NeighborState::kReachable},
  };
  for (const auto& row : kRows) {
    cache_.Clear();
    Send(ip_, 1);
    cache_.OnAdvertisement(ip_, At(0x48), true, true);
    cache_.OnAdvertisement(ip_, row.address, row.solicited, row.overrides);
    ASSERT_TRUE(FindNeighbor(cache_, ip_).has_value()) << row.description;
    EXPECT_EQ(FindNeighbor(cache_, ip_)->address, At(row.qpn)) << row.description;
    EXPECT_EQ(State(ip_), row.state) << row.description;
  }
}

TEST_P(NeighborCacheTest, AnAnswerWithoutAnAddressEndsNoWaiting) {
  Send(ip_, 1);
  cache_.OnAdvertisement(ip_, absl::nullopt, true, true);
  EXPECT_EQ(State(ip_), NeighborState::kIncomplete);
}

TEST_P(NeighborCacheTest, UnusedEntriesAreRemovedAfterTenMinutes) {
  cache_.OnSolicitation(ip_, At(0x48));
  Wait(absl::Minutes(9));
  Send(ip_, 1);
  cache_.OnAdvertisement(ip_, At(0x48), true, true);
  Wait(absl::Minutes(9));
  EXPECT_EQ(cache_.size(), 1);
  Wait(absl::Minutes(1));
  EXPECT_EQ(cache_.size(), 0);
}

TEST_P(NeighborCacheTest, ClearDropsWaitingPackets) {
  Send(ip_, 1);
  cache_.OnSolicitation(ip_.is_ipv4() ? Ip("10.0.0.3") : Ip("fd00::3"), At(3));
  link_.Take();
  cache_.Clear();
  EXPECT_THAT(link_.Take(), ElementsAre("1 displaced"));
  EXPECT_EQ(cache_.size(), 0);
  EXPECT_EQ(cache_.Next(), absl::InfiniteFuture());
}

class NeighborLimitTest : public testing::Test {
 protected:
  static IpAddr Number(uint32_t i) { return IpAddr(Ipv4Addr(0x0a00'0000 + i)); }
  void Send(uint32_t to) {
    const uint8_t packet = 1;
    cache_.Send(Number(to), {&packet, 1});
  }
  FakeClock clock_;
  NeighborRecorder link_;
  NeighborCache cache_{{.limit = 100}, &clock_, &link_};
};

TEST_F(NeighborLimitTest, AScanDisplacesItsOwnEntries) {
  for (uint32_t i = 0; i < 40; ++i) cache_.OnSolicitation(Number(i), At(i + 1));
  for (uint32_t i = 1000; i < 11'000; ++i) Send(i);
  EXPECT_EQ(cache_.size(), 100);
  for (uint32_t i = 0; i < 40; ++i) EXPECT_TRUE(FindNeighbor(cache_, Number(i)).has_value()) << i;
}

TEST_F(NeighborLimitTest, AHostThatInventsAddressesDisplacesItsOwn) {
  for (uint32_t i = 0; i < 40; ++i) cache_.OnSolicitation(Number(i), At(i + 1));
  for (uint32_t i = 1000; i < 11'000; ++i) cache_.OnSolicitation(Number(i), At(0x666));
  EXPECT_EQ(cache_.size(), 100);
  for (uint32_t i = 0; i < 40; ++i) EXPECT_TRUE(FindNeighbor(cache_, Number(i)).has_value()) << i;
  EXPECT_TRUE(FindNeighbor(cache_, Number(10'999)).has_value());
}

TEST_F(NeighborLimitTest, KeepsTheEntriesUsedLast) {
  for (uint32_t i = 0; i < 100; ++i) cache_.OnSolicitation(Number(i), At(0x666));
  Send(0);
  for (uint32_t i = 1000; i < 1099; ++i) cache_.OnSolicitation(Number(i), At(0x666));
  EXPECT_TRUE(FindNeighbor(cache_, Number(0)).has_value());
  EXPECT_FALSE(FindNeighbor(cache_, Number(1)).has_value());
}

// The guarantees of the cache, under random events, compared with the simplest possible table.
class Model final : public NeighborCache::Link {
 public:
  explicit Model(const Clock* clock) : clock_(clock) {}

  void Solicit(const IpAddr& target, const absl::optional<IpoibAddress>& at) override {
    Known& known = table[target];
    EXPECT_TRUE(!at.has_value() || at == known.address) << target.ToString();
    EXPECT_TRUE(known.solicits == 0 || clock_->Now() >= known.asked + absl::Seconds(1))
        << target.ToString() << " too often";
    known.asked = clock_->Now();
    EXPECT_LE(++known.solicits, 3) << target.ToString();
  }
  void Deliver(absl::Span<const uint8_t> packet, const IpoibAddress& to) override {
    const auto sent = in_flight.find(packet[0]);
    ASSERT_NE(sent, in_flight.end()) << "delivered twice, or after it ended";
    EXPECT_EQ(to, table[sent->second].address) << sent->second.ToString();
    in_flight.erase(sent);
  }
  void Unreachable(const IpAddr& target, absl::Span<const uint8_t> packet) override {
    EXPECT_EQ(in_flight[packet[0]], target);
    EXPECT_EQ(table[target].solicits, 3) << "given up too early";
    End(packet[0]);
  }
  void Displaced(absl::Span<const uint8_t> packet) override { End(packet[0]); }

  struct Known {
    absl::optional<IpoibAddress> address;
    absl::Time asked = absl::InfinitePast();
    int solicits = 0;  // without an answer
  };
  std::map<IpAddr, Known> table;
  std::map<uint8_t, IpAddr> in_flight;  // packets that were sent and have not ended

 private:
  void End(uint8_t packet) { EXPECT_EQ(in_flight.erase(packet), 1); }
  const Clock* const clock_;
};

TEST(NeighborCacheModelTest, RandomOperations) {
  std::mt19937_64 random(SeedForTest());
  FakeClock clock;
  Model model(&clock);
  const NeighborCache::Options options{.limit = 12, .idle = absl::Seconds(30)};
  NeighborCache cache(options, &clock, &model);
  const auto draw = [&](uint32_t below) { return static_cast<uint32_t>(random() % below); };
  const auto draw_ip = [&] {
    const uint32_t number = draw(8);
    return draw(2) == 0 ? IpAddr(Ipv4Addr(0x0a00'0000 + number))
                        : IpAddr(Ipv6Addr::LinkLocal(InterfaceId(number)));
  };
  uint8_t next_packet = 0;
  for (int step = 0; step < 20'000 && !testing::Test::HasFailure(); ++step) {
    const IpAddr ip = draw_ip();
    const IpoibAddress address = At(1 + draw(3), 1 + draw(2));
    Model::Known& known = model.table[ip];
    const auto before = FindNeighbor(cache, ip);
    switch (draw(6)) {
      case 0:
      case 1:
        if (model.in_flight.contains(++next_packet)) break;
        model.in_flight[next_packet] = ip;
        if (!before.has_value()) known = {};
        cache.Send(ip, {&next_packet, 1});
        break;
      case 2:
        if (!before.has_value() || before->address != address) known = {address, known.asked, 0};
        cache.OnSolicitation(ip, address);
        break;
      case 3: {
        const bool solicited = draw(2) == 0, overrides = draw(2) == 0;
        const bool takes = before.has_value() && (!before->address.has_value() || overrides ||
                                                  before->address == address);
        if (takes) known = {address, known.asked, 0};
        cache.OnAdvertisement(ip, address, solicited, overrides);
        break;
      }
      case 4:
        cache.OnHeard(address, ip);
        break;
      default:
        clock.Advance(absl::Milliseconds(draw(700)));
        cache.Tick();
        EXPECT_GT(cache.Next(), clock.Now());
    }
    ASSERT_LE(cache.size(), options.limit);
    size_t waiting = 0;
    for (const NeighborCache::Neighbor& neighbor : cache.All()) {
      ASSERT_LE(neighbor.waiting, options.queue);
      waiting += neighbor.waiting;
      ASSERT_TRUE(!neighbor.address.has_value() ||
                  neighbor.address == model.table[neighbor.ip].address);
      // A neighbour that is not being solicited has no unanswered solicitations.
      if (neighbor.state != NeighborState::kIncomplete && neighbor.state != NeighborState::kProbe) {
        model.table[neighbor.ip].solicits = 0;
      }
    }
    ASSERT_EQ(waiting, model.in_flight.size()) << "a packet is lost";
  }
}

}  // namespace
}  // namespace eoib::endpoint
