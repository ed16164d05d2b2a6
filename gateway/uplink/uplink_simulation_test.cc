// A simulation of bridges and gateways: random schedules of loss, partition, pause, stop and crash,
// in which every frame is followed.
//
// Each side, VES and wire, consists of two islands, which a partition separates. A gateway is on
// one island of each side, and there is a host on each island. A host sends a broadcast every 23
// ms. A gateway that may forward copies it to the other side. Hellos take up to 2 ms and may be
// lost; frames take up to 2 ms and are not. A station of the wire sends forged hellos.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gateway/election/uplink_election.h"
#include "gtest/gtest.h"
#include "vswitch/base/sanitizer_for_test.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib::gateway {
namespace {

constexpr int kSides = 2;  // 0: VES, 1: wire
constexpr int kIslands = 2;
constexpr Vid kSimulatedVlan(10);
constexpr absl::Duration kDelay = absl::Milliseconds(2);
// Gateways that could not hear each other may both forward until the next hello has arrived.
const absl::Duration kHeal = UplinkElection::kInterval + UplinkElection::kMinInterval + 2 * kDelay;
constexpr absl::Duration kSettle = absl::Seconds(2);

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seed) {
    const size_t count = 2 + random_() % 2;
    for (size_t i = 0; i < count; ++i) {
      auto gateway = std::make_unique<Gateway>();
      gateway->gid = *Gid::Parse(absl::StrCat("fe80::", i + 1));
      gateway->priority = static_cast<uint8_t>(100 + random_() % 2);
      gateways_.push_back(std::move(gateway));
    }
    for (size_t i = 0; i < count; ++i) Boot(i);
    for (int side = 0; side < kSides; ++side) {
      for (int island = 0; island < kIslands; ++island) HostSends(side, island);
    }
    ScheduleFault();
    ScheduleForgery();
  }

  // Returns what went wrong; empty if nothing did.
  std::string Run() {
    const absl::Time quiet = now_ + absl::Seconds(5);
    RunUntil(quiet);
    faults_ = false;
    HealAll();
    RunUntil(quiet + kSettle);
    RunUntil(quiet + kSettle + absl::Milliseconds(300));
    if (wrong_.empty() && Forwarding() != 1)
      wrong_ = absl::StrCat("at the end ", Forwarding(), " gateways forward");
    for (const Frame& frame : frames_) {
      // All gateways are on island 0 then.
      const bool in_time =
          frame.island == 0 && frame.sent > quiet + kSettle && frame.sent < now_ - 4 * kDelay;
      if (wrong_.empty() && in_time && frame.copies[1 - frame.side] != 1)
        wrong_ = "a frame did not cross";
    }
    return wrong_;
  }
  uint64_t crossed() const { return crossed_; }
  uint64_t copies_in_partitions() const { return copies_in_partitions_; }

 private:
  struct Gateway {
    Gid gid;
    uint8_t priority = 100;
    std::unique_ptr<UplinkElection> election;  // null: it does not run
    uint64_t boots = 0;
    bool paused = false;
    std::vector<std::function<void()>> backlog;  // what arrives while it is paused
    std::array<int, kSides> island{};
    absl::Time wakes = absl::InfiniteFuture();
  };
  struct Frame {
    int side, island;
    absl::Time sent;
    std::array<int, kSides> copies{};
    std::vector<std::pair<size_t, absl::Time>> carriers;  // the gateways that forwarded it
  };
  struct Event {
    absl::Time at;
    uint64_t order;
    std::function<void()> run;
    bool operator<(const Event& other) const {
      return std::tie(at, order) > std::tie(other.at, other.order);
    }
  };

  void At(absl::Time when, std::function<void()> run) {
    events_.push({when, order_++, std::move(run)});
  }
  void RunUntil(absl::Time end) {
    while (!events_.empty() && events_.top().at <= end && wrong_.empty()) {
      Event event = events_.top();  // it may add others
      events_.pop();
      now_ = event.at;
      event.run();
    }
    now_ = end;
  }
  absl::Duration SomeDelay() {
    return absl::Microseconds(50 + static_cast<int64_t>(random_() % 1950));
  }

  // ---- Gateways

  void Boot(size_t i) {
    Gateway& gateway = *gateways_[i];
    gateway.paused = false;
    gateway.backlog.clear();
    gateway.election = std::make_unique<UplinkElection>(UplinkElection::Options{
        PKey(0x8001), "up0", gateway.priority, Vlans(), ++gateway.boots << 32});
    gateway.election->Up(gateway.gid, /*alone=*/false, now_);
    Wake(i);
  }
  static VlanSet Vlans() {
    VlanSet set;
    set.Add(kSimulatedVlan);
    return set;
  }
  // Runs the election when it is due.
  void Wake(size_t i) {
    Gateway& gateway = *gateways_[i];
    if (gateway.election == nullptr || gateway.paused) return;
    const absl::Time when = std::max(now_, gateway.election->NextDeadline());
    if (when == absl::InfiniteFuture()) return;
    gateway.wakes = when;
    At(when, [this, i, when, boot = gateway.boots] {
      Gateway& due = *gateways_[i];
      if (due.election == nullptr || due.paused || due.boots != boot || due.wakes != when) return;
      SendHellos(i, due.election->Run(now_));
      Wake(i);
    });
  }
  bool MayForward(const Gateway& gateway) const {
    return gateway.election != nullptr && !gateway.paused &&
           gateway.election->active(kSimulatedVlan) && now_ < gateway.election->lease();
  }
  int Forwarding() const {
    return static_cast<int>(std::count_if(gateways_.begin(), gateways_.end(),
                                          [this](const auto& one) { return MayForward(*one); }));
  }
  void SendHellos(size_t from, const std::vector<UplinkHello>& hellos) {
    for (const UplinkHello& hello : hellos) {
      for (size_t to = 0; to < gateways_.size(); ++to) {
        if (to == from) continue;
        bool arrives = false;
        for (int side = 0; side < kSides; ++side) {
          const bool connected = gateways_[from]->island[side] == gateways_[to]->island[side];
          if (!connected || static_cast<int>(random_() % 100) < loss_) continue;
          arrives = true;
          At(now_ + SomeDelay(), [this, to, side, hello, boot = gateways_[to]->boots] {
            HelloArrives(to, side, hello, boot);
          });
        }
        if (!arrives || gateways_[to]->paused || gateways_[to]->election == nullptr)
          NoteUnheard(from, to);
      }
    }
  }
  void HelloArrives(size_t to, int side, const UplinkHello& hello, uint64_t boot) {
    Gateway& gateway = *gateways_[to];
    if (gateway.election == nullptr || gateway.boots != boot) return;
    if (gateway.paused) {
      return gateway.backlog.push_back(
          [this, to, side, hello, boot] { HelloArrives(to, side, hello, boot); });
    }
    side == 0 ? gateway.election->OnHello(hello, now_) : gateway.election->OnWireHello(hello, now_);
    Wake(to);
  }
  void NoteUnheard(size_t one, size_t other) {
    unheard_[{std::min(one, other), std::max(one, other)}] = now_;
  }
  bool HearEachOther(size_t one, size_t other) const {
    const auto at = unheard_.find({std::min(one, other), std::max(one, other)});
    return at == unheard_.end() || now_ > at->second + kHeal;
  }

  // ---- Frames

  void HostSends(int side, int island) {
    const size_t frame = frames_.size();
    frames_.push_back({side, island, now_, {}, {}});
    Flood(frame, side, island, /*by=*/{});
    At(now_ + absl::Milliseconds(23), [this, side, island] { HostSends(side, island); });
  }
  // A copy of a frame on an island: the host there gets it, and so do the gateways there but the
  // one that sent it. `by` are the gateways that forwarded it, and when.
  void Flood(size_t frame, int side, int island,
             const std::vector<std::pair<size_t, absl::Time>>& by) {
    Deliver(frame, side, by);
    for (size_t i = 0; i < gateways_.size(); ++i) {
      if (gateways_[i]->island[side] != island || (!by.empty() && by.back().first == i)) continue;
      At(now_ + SomeDelay(), [this, frame, side, by, i, boot = gateways_[i]->boots] {
        FrameArrives(i, frame, side, by, boot);
      });
    }
  }
  void FrameArrives(size_t i, size_t frame, int side, std::vector<std::pair<size_t, absl::Time>> by,
                    uint64_t boot) {
    Gateway& gateway = *gateways_[i];
    if (gateway.election == nullptr || gateway.boots != boot) return;
    if (gateway.paused) {
      return gateway.backlog.push_back(
          [this, i, frame, side, by, boot] { FrameArrives(i, frame, side, by, boot); });
    }
    if (!MayForward(gateway)) return;
    ++crossed_;
    by.emplace_back(i, now_);
    if (by.size() < 6) Flood(frame, 1 - side, gateway.island[1 - side], by);
  }
  // Each host gets each frame once, and its own never: only gateways that do not hear each other
  // may cause more.
  void Deliver(size_t frame, int side, const std::vector<std::pair<size_t, absl::Time>>& by) {
    if (!by.empty()) {
      for (const auto& [one, when] : frames_[frame].carriers) {
        if (one == by.back().first) continue;
        if (HearEachOther(one, by.back().first)) {
          wrong_ = absl::StrCat("frame ", frame, " passed gateways ", one, " and ", by.back().first,
                                " at ", absl::FormatDuration(when - start_), " and ",
                                absl::FormatDuration(now_ - start_));
        }
        ++copies_in_partitions_;
      }
      frames_[frame].carriers.emplace_back(by.back());
    }
    ++frames_[frame].copies[side];
  }

  // ---- Faults

  void ScheduleFault() {
    At(now_ + absl::Milliseconds(50 + static_cast<int64_t>(random_() % 700)), [this] {
      if (!faults_) return;
      Fault();
      ScheduleFault();
    });
  }
  // A station of the wire sends hellos in the names of gateways, of any content.
  void ScheduleForgery() {
    At(now_ + absl::Milliseconds(static_cast<int64_t>(random_() % 600)), [this] {
      if (!faults_) return;
      Forge();
      ScheduleForgery();
    });
  }
  void Forge() {
    UplinkHello hello;
    hello.from = gateways_[random_() % gateways_.size()]->gid;
    hello.successor = gateways_[random_() % gateways_.size()]->gid;
    hello.priority = static_cast<uint8_t>(99 + random_() % 4);
    hello.sequence = UINT64_MAX - random_() % 4;
    hello.runs = {{kSimulatedVlan, kSimulatedVlan, static_cast<UplinkHello::Claim>(random_() % 5)}};
    for (size_t to = 0; to < gateways_.size(); ++to) {
      if (gateways_[to]->island[1] != 0) continue;
      At(now_ + SomeDelay(),
         [this, to, hello, boot = gateways_[to]->boots] { HelloArrives(to, 1, hello, boot); });
    }
  }
  void Fault() {
    const size_t i = random_() % gateways_.size();
    Gateway& gateway = *gateways_[i];
    switch (random_() % 8) {
      case 0:  // crash
        gateway.election.reset();
        gateway.paused = false;
        NoteGone(i);
        break;
      case 1:  // orderly stop
        if (gateway.election == nullptr || gateway.paused) break;
        SendHellos(i, gateway.election->Down(now_));
        gateway.election.reset();
        NoteGone(i);
        break;
      case 2:
        if (gateway.election == nullptr) Boot(i);
        break;
      case 3:
        if (gateway.election != nullptr) gateway.paused = true;
        NoteGone(i);
        break;
      case 4:
        Continue(i);
        break;
      case 5:  // partition
      case 6:
        gateway.island[random_() % kSides] = static_cast<int>(random_() % kIslands);
        break;
      case 7:
        loss_ = static_cast<int>(random_() % 3) * 20;
        break;
    }
  }
  void NoteGone(size_t i) {
    for (size_t other = 0; other < gateways_.size(); ++other) {
      if (other != i) NoteUnheard(i, other);
    }
  }
  void Continue(size_t i) {
    Gateway& gateway = *gateways_[i];
    if (!std::exchange(gateway.paused, false)) return;
    NoteGone(i);
    Wake(i);
    // The gateway reads the waiting hellos one by one; the election may run before.
    for (const std::function<void()>& arrived : std::exchange(gateway.backlog, {}))
      At(now_ + SomeDelay() / 4, arrived);
  }
  void HealAll() {
    loss_ = 0;
    for (size_t i = 0; i < gateways_.size(); ++i) {
      Continue(i);
      gateways_[i]->island = {};
      if (gateways_[i]->election == nullptr) Boot(i);
    }
  }

  std::mt19937_64 random_;
  const absl::Time start_ = absl::UnixEpoch() + absl::Hours(1);
  absl::Time now_ = start_;
  uint64_t order_ = 0;
  std::priority_queue<Event> events_;
  std::vector<std::unique_ptr<Gateway>> gateways_;
  int loss_ = 0;  // of hellos, per cent on each side
  bool faults_ = true;
  // When a hello between the two was last lost on both sides.
  std::map<std::pair<size_t, size_t>, absl::Time> unheard_;
  std::vector<Frame> frames_;
  uint64_t crossed_ = 0, copies_in_partitions_ = 0;
  std::string wrong_;
};

TEST(UplinkSimulationTest, NoLoopAndNoDuplicateWhileGatewaysHearEachOther) {
  constexpr uint64_t kSchedules = kSanitized ? 200 : 1000;
  constexpr uint64_t kCopies = 50;
  const uint64_t seed = SeedForTest();
  uint64_t schedules = 0, crossed = 0, copies = 0;
  // Two gateways forward at a time in one schedule of 55, so that a few hundred may have none.
  while (schedules < kSchedules || (copies <= kCopies && schedules < 10 * kSchedules)) {
    Simulation simulation(seed + schedules);
    const std::string wrong = simulation.Run();
    ASSERT_EQ(wrong, "") << "schedule " << schedules << " of seed " << seed;
    ++schedules;
    crossed += simulation.crossed();
    copies += simulation.copies_in_partitions();
  }
  EXPECT_GT(crossed, 200 * schedules) << "it simulates too little";
  EXPECT_GT(copies, kCopies)
      << "no schedule has two gateways that forward, so the checks check nothing";
}

}  // namespace
}  // namespace eoib::gateway
