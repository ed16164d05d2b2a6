#include "gateway/translation/stations.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "gateway/translation/addresses_for_test.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib::translation {
namespace {

Gid Port(uint64_t n) { return Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(n)); }
IpoibAddress At(uint64_t port, uint32_t qpn) { return {Qpn(qpn), Port(port)}; }
bool NotTaken(MacAddr) { return false; }

class StationsTest : public testing::Test {
 protected:
  const Station* Claims(uint64_t port, uint32_t qpn, uint32_t ip,
                        Stations::Claim claim = Stations::Claim::kHas) {
    return stations_.HearClaim(At(port, qpn), Ip(ip), claim, now_, NotTaken);
  }
  const Station* Hears(uint64_t port, uint32_t qpn) {
    return stations_.Hear(At(port, qpn), now_, NotTaken);
  }

  Counters counters_;
  absl::Time now_ = absl::UnixEpoch();
  Stations stations_{Options(), &counters_};
};

TEST_F(StationsTest, MacAddressesLast) {
  // Typed here: a new version of the gateway must not change the MAC addresses.
  EXPECT_EQ(StationMac({Port(0x0002'c903'000e'0b72), 0}, 0).ToString(), "02:51:9e:ca:3f:73");
  std::set<MacAddr> macs;
  for (uint64_t port = 0; port < 1000; ++port) {
    for (uint16_t ordinal = 0; ordinal < 4; ++ordinal) {
      const MacAddr mac = StationMac({Port(port), ordinal}, 0);
      EXPECT_EQ(mac.bytes()[0] & 3, 2) << "locally administered, and no group";
      macs.insert(mac);
    }
  }
  EXPECT_EQ(macs.size(), 4000u);
}

TEST_F(StationsTest, SmallerLimitsEvictTheLongestSilent) {
  for (uint32_t i = 1; i <= 4; ++i) {
    Claims(i, 0x48, i);
    now_ += absl::Seconds(1);
  }
  Options options;
  options.max_stations = 2;
  options.max_station_ips = 1;
  stations_.Change(options);
  EXPECT_EQ(stations_.size(), 2u);
  EXPECT_EQ(stations_.FindByIp(Ip(2)), nullptr);
  EXPECT_NE(stations_.FindByAddress(At(3, 0x48)), nullptr);
  EXPECT_EQ(stations_.FindByIp(Ip(3)), nullptr) << "only one address";
  EXPECT_NE(stations_.FindByIp(Ip(4)), nullptr);
  EXPECT_EQ(counters_[Event::kEvicted], 3u);
  Claims(5, 0x48, 5);
  EXPECT_EQ(stations_.size(), 2u);
}

TEST_F(StationsTest, ComesBackWithAnotherQpn) {
  const MacAddr mac = Claims(1, 0x48, 1)->mac;
  const Station* const back = Claims(1, 0x99, 1);
  EXPECT_EQ(back->mac, mac);
  EXPECT_EQ(back->id.ordinal, 0);
  EXPECT_EQ(back->qpn, Qpn(0x99));
  EXPECT_EQ(stations_.FindByAddress(At(1, 0x48)), nullptr);
  EXPECT_EQ(stations_.FindByAddress(At(1, 0x99)), back);
  EXPECT_EQ(counters_[Event::kMovedStations], 1u);
}

TEST_F(StationsTest, AnotherInterfaceOfThePort) {
  const MacAddr first = Claims(1, 0x48, 1)->mac;
  const Station* const second = Claims(1, 0x49, 2);
  EXPECT_EQ(second->id.ordinal, 1);
  EXPECT_NE(second->mac, first);
  EXPECT_EQ(stations_.FindByIp(Ip(1))->mac, first);
  EXPECT_EQ(Claims(2, 0x48, 3)->id.ordinal, 0) << "the first interface of another port";
}

// A DHCP request comes before its sender has an address.
TEST_F(StationsTest, TurnsIntoTheOldOneWhenItClaimsItsAddress) {
  const MacAddr mac = Claims(1, 0x48, 1)->mac;
  EXPECT_EQ(Hears(1, 0x99)->id.ordinal, 1);
  EXPECT_EQ(Claims(1, 0x99, 1)->mac, mac);
  EXPECT_EQ(stations_.size(), 1u);
}

TEST_F(StationsTest, ProbesSayLittle) {
  const MacAddr mac = Claims(1, 0x48, 1)->mac;
  EXPECT_NE(Claims(1, 0x99, 1, Stations::Claim::kProbe)->mac, mac)
      << "the owner has just been heard";
  EXPECT_EQ(stations_.FindByIp(Ip(1))->mac, mac) << "and keeps it";
  now_ += absl::Seconds(1);
  EXPECT_EQ(Claims(1, 0x99, 1, Stations::Claim::kProbe)->mac, mac)
      << "a restarted host looks for duplicates first";
  EXPECT_EQ(Claims(2, 0x50, 7, Stations::Claim::kProbe)->ips.size(), 0u);
}

TEST_F(StationsTest, AnAddressMovesToAnotherPort) {
  Claims(1, 0x48, 1);
  Claims(2, 0x48, 1);
  EXPECT_EQ(stations_.FindByIp(Ip(1))->id.gid, Port(2));
  EXPECT_TRUE(stations_.FindByAddress(At(1, 0x48))->ips.empty());
}

TEST_F(StationsTest, TakenMacAddressesAreHashedAgain) {
  const StationId id{Port(1), 0};
  const Station* const station = stations_.Hear(At(1, 0x48), now_, [&](MacAddr mac) {
    return mac == StationMac(id, 0) || mac == StationMac(id, 1);
  });
  EXPECT_EQ(station->mac, StationMac(id, 2));
}

TEST_F(StationsTest, SavedAndRestored) {
  for (uint32_t n = 0; n < 20; ++n) {
    now_ += absl::Seconds(1);
    Claims(n % 7, 0x40 + n, n, n % 2 == 0 ? Stations::Claim::kAnswer : Stations::Claim::kHas);
  }
  now_ += absl::Seconds(5);
  const auto saved = stations_.Save(now_);
  Stations restored(Options(), &counters_);
  const absl::Time later = now_ + absl::Hours(1);
  restored.Restore(saved, later, NotTaken);
  EXPECT_EQ(restored.Save(later), saved);
  for (const SavedStation& station : saved) {
    EXPECT_EQ(restored.FindByMac(station.mac)->id, (StationId{station.gid, station.ordinal}));
  }
  // Invalid entries are left out: a file may be damaged.
  auto twice = saved;
  twice.insert(twice.end(), saved.begin(), saved.end());
  twice[0].mac = MacAddr::Broadcast();
  Stations damaged(Options(), &counters_);
  damaged.Restore(twice, later, NotTaken);
  EXPECT_EQ(damaged.size(), saved.size()) << "the first is in again as its copy";
}

TEST_F(StationsTest, Limits) {
  Options options;
  options.max_stations = 8;
  options.max_stations_per_gid = 4;
  options.max_ips_per_station = 3;
  options.max_station_ips = 16;
  Stations stations(options, &counters_);
  const auto claims = [&](uint64_t port, uint32_t qpn, uint32_t ip, Stations::Claim claim) {
    now_ += absl::Seconds(1);
    stations.HearClaim(At(port, qpn), Ip(ip), claim, now_, NotTaken);
  };
  claims(1, 1, 1, Stations::Claim::kAnswer);
  for (uint32_t n = 0; n < 100; ++n) claims(2, 100 + n, 100 + n, Stations::Claim::kHas);
  EXPECT_EQ(stations.size(), 5u) << "one port displaces its own interfaces";
  for (uint32_t n = 0; n < 100; ++n) claims(10 + n, 1, 1000 + n, Stations::Claim::kHas);
  EXPECT_EQ(stations.size(), 8u);
  EXPECT_NE(stations.FindByIp(Ip(1)), nullptr) << "it answered: it survives who invents ports";
  for (uint32_t n = 0; n < 10; ++n) claims(1, 1, 2000 + n, Stations::Claim::kHas);
  EXPECT_EQ(stations.FindByAddress(At(1, 1))->ips,
            (std::vector<IpAddr>{Ip(2007), Ip(2008), Ip(2009)}));
}

TEST_F(StationsTest, Ages) {
  Claims(1, 0x48, 1);
  now_ += absl::Hours(23);
  Claims(2, 0x48, 2);
  stations_.Expire(now_);
  EXPECT_EQ(stations_.size(), 2u);
  now_ = stations_.NextExpiry();
  stations_.Expire(now_);
  EXPECT_EQ(stations_.size(), 1u);
  EXPECT_EQ(stations_.FindByIp(Ip(1)), nullptr);
}

// After any input, the four ways to find a station agree, and a known interface keeps its MAC
// address.
TEST_F(StationsTest, Model) {
  std::mt19937_64 random(SeedForTest());
  Options options;
  options.max_stations = 24;
  options.max_stations_per_gid = 4;
  options.max_ips_per_station = 4;
  options.max_station_ips = 40;
  options.station_age = absl::Seconds(500);
  Stations stations(options, &counters_);
  std::map<StationId, MacAddr> macs;
  for (int step = 0; step < 20000; ++step) {
    now_ += absl::Milliseconds(random() % 2000);
    const IpoibAddress address = At(random() % 8, static_cast<uint32_t>(random() % 6));
    const IpAddr ip = Ip(static_cast<uint32_t>(random() % 60));
    const auto claim = static_cast<Stations::Claim>(random() % 3);
    if (random() % 4 == 0) {
      EXPECT_EQ(stations.Hear(address, now_, NotTaken)->address(), address);
    } else {
      const Station* const station = stations.HearClaim(address, ip, claim, now_, NotTaken);
      ASSERT_EQ(station->address(), address);
      ASSERT_EQ(station->heard, now_);
      ASSERT_TRUE(claim == Stations::Claim::kProbe || stations.FindByIp(ip) == station);
    }
    if (random() % 50 == 0) stations.Expire(now_);
    if (random() % 100 == 0) stations.Forget(address);
    size_t ips = 0;
    std::map<StationId, MacAddr> seen;
    for (const SavedStation& saved : stations.Save(now_)) {
      ASSERT_NE(stations.FindByMac(saved.mac), nullptr);
      const Station& station = *stations.FindByMac(saved.mac);
      ASSERT_EQ(stations.FindByAddress(IpoibAddress(saved.qpn, saved.gid)), &station);
      for (const IpAddr& its : station.ips) ASSERT_EQ(stations.FindByIp(its), &station);
      ips += station.ips.size();
      ASSERT_LE(station.ips.size(), options.max_ips_per_station);
      const auto known = macs.find(station.id);
      ASSERT_TRUE(known == macs.end() || known->second == station.mac);
      seen[station.id] = station.mac;
    }
    ASSERT_EQ(seen.size(), stations.size());
    ASSERT_EQ(ips, stations.ips());
    ASSERT_LE(stations.size(), options.max_stations);
    ASSERT_LE(ips, options.max_station_ips);
    macs = seen;
  }
}

}  // namespace
}  // namespace eoib::translation
