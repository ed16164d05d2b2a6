#include "gateway/translation/table_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/temp_dir_for_test.h"

namespace eoib::gateway {
namespace {

using ::testing::HasSubstr;
using translation::SavedTables;

const absl::Time kNow = absl::FromUnixSeconds(1'795'000'000);

SavedTables Tables() {
  SavedTables tables;
  translation::SavedStation station;
  station.gid = Gid::Parse("fe80::2:c903:e:b72").value();
  station.ordinal = 3;
  station.qpn = Qpn(0x48);
  station.mac = MacAddr::FromUint64(0x02'11'22'33'44'55);
  station.age = absl::Seconds(90);
  station.confirmed = true;
  station.ips = {{Ipv4Addr(0x0a000002), absl::Seconds(5), true},
                 {Ipv6Addr::Parse("fd00::2").value(), absl::Hours(1), false, /*router=*/true}};
  tables.stations = {station};
  tables.neighbors = {
      {{Ipv4Addr(0x0a000001), absl::Seconds(2), true}, MacAddr::FromUint64(0x02'00'00'00'00'0a)}};
  tables.prefixes = {{Ipv4Addr(0x0a000000), 24, absl::Hours(1)},
                     {Ipv6Addr::Parse("fd00::").value(), 64, absl::InfiniteDuration()}};
  tables.routers = {{Ipv4Addr(0x0a0000fe), -1, absl::Minutes(30)}};
  return tables;
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}
void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

class TableFileTest : public testing::Test {
 protected:
  TempDir directory_;
  const std::string path_ = directory_.path() + "/gateway-gw0.json";
};

TEST_F(TableFileTest, LoadReturnsSavedTables) {
  ASSERT_TRUE(SaveTables(path_, Tables(), kNow).ok());
  EXPECT_EQ(LoadTables(path_, kNow).value(), Tables());
}

TEST_F(TableFileTest, AgesIncludeTheTimeBetweenSaveAndLoad) {
  ASSERT_TRUE(SaveTables(path_, Tables(), kNow).ok());
  const SavedTables later = LoadTables(path_, kNow + absl::Minutes(10)).value();
  EXPECT_EQ(later.stations[0].age, absl::Seconds(690));
  EXPECT_EQ(later.neighbors[0].ip.age, absl::Seconds(602));
  EXPECT_EQ(LoadTables(path_, kNow - absl::Hours(1))->neighbors[0].ip.age, absl::ZeroDuration())
      << "the clock was set back";
}

TEST_F(TableFileTest, ExpiredLifetimesAreLoadedAsZero) {
  ASSERT_TRUE(SaveTables(path_, Tables(), kNow).ok());
  const SavedTables later = LoadTables(path_, kNow + absl::Minutes(40)).value();
  EXPECT_EQ(later.prefixes[0].left, absl::Minutes(20));
  EXPECT_EQ(later.prefixes[1].left, absl::InfiniteDuration());
  EXPECT_EQ(later.routers[0].left, absl::ZeroDuration());
}

// A file of an older version has hosts only.
TEST_F(TableFileTest, AFileWithoutPrefixesAndRoutersIsRead) {
  Write(path_, "{\"version\": 1, \"stations\": [], \"neighbors\": []}");
  EXPECT_EQ(LoadTables(path_, kNow).value(), SavedTables());
}

// The largest tables that a configuration allows survive a restart.
TEST_F(TableFileTest, TheLargestTablesAreRead) {
  using translation::Options;
  const translation::SavedIp ip = {
      Ipv6Addr::Parse("2001:db8:1234:5678:9abc:def0:1234:5678").value(), absl::Hours(1), false,
      true};
  translation::SavedStation station = Tables().stations[0];
  station.gid = Gid::Parse("fe80::1234:5678:9abc:def0").value();
  station.ordinal = 65535;
  station.qpn = Qpn(0xffffff);
  station.confirmed = false;
  station.ips.clear();
  const auto size_of = [](const SavedTables& tables) { return ToJson(tables, kNow).size(); };
  SavedTables two, one, none;
  const auto add = [&](auto member, const auto& element) {
    (two.*member).assign(2, element);
    (one.*member).assign(1, element);
    const size_t size = size_of(two) - size_of(one);
    (two.*member).clear();
    (one.*member).clear();
    return size;
  };
  size_t size = size_of(none);
  size += Options::kMostNeighbors *
          add(&SavedTables::neighbors, translation::SavedNeighbor{ip, station.mac});
  const size_t without = add(&SavedTables::stations, station);
  station.ips.assign(2, ip);
  size += Options::kMostStations * without;
  size += Options::kMostStationIps * ((add(&SavedTables::stations, station) - without + 1) / 2);
  EXPECT_LE(size, kMaxTableFile);
}

TEST_F(TableFileTest, RefusesATooLongFile) {
  Write(path_, "");
  std::filesystem::resize_file(path_, kMaxTableFile + 1);  // a sparse file
  EXPECT_THAT(std::string(LoadTables(path_, kNow).status().message()),
              HasSubstr(absl::StrCat("at most ", kMaxTableFile, " bytes")));
}

TEST_F(TableFileTest, NoFileIsNoTables) {
  EXPECT_EQ(LoadTables(path_, kNow).value(), SavedTables());
}

// Whatever bytes a file has, it never stops a gateway, and is not lost.
TEST_F(TableFileTest, AFileThatCannotBeReadIsSetAside) {
  const std::string good = ToJson(Tables(), kNow);
  const struct {
    const char* description;
    std::string text;
    const char* says;
  } rows[] = {
      {"no JSON", good.substr(0, good.size() / 2), "it is not JSON"},
      {"another version", "{\"version\": 2}", "another version"},
      {"not an object", "[1, 2]", "version is missing"},
      {"no lists", "{\"version\": 1}", "stations is no list"},
      {"a station that is none", "{\"version\": 1, \"stations\": [7], \"neighbors\": []}",
       "station 1: gid is missing"},
      {"an address that is none",
       "{\"version\": 1, \"stations\": [], \"neighbors\": [{\"ip\": \"10.0.0\", \"mac\": 5}]}",
       "neighbor 1: ip \"10.0.0\" is not an IP address"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.description);
    Write(path_, row.text);
    const auto loaded = LoadTables(path_, kNow);
    ASSERT_FALSE(loaded.ok());
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(row.says));
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(path_ + ".bad"));
    EXPECT_EQ(Read(path_ + ".bad"), row.text);
    EXPECT_EQ(LoadTables(path_, kNow).value(), SavedTables());
  }
}

TEST_F(TableFileTest, NamesEachDamagedMember) {
  const std::string good = ToJson(Tables(), kNow);
  for (const char* member : {"version", "stations", "gid", "ordinal", "qpn", "mac", "heard", "ips",
                             "ip", "confirmed", "neighbors", "length", "until", "preference"}) {
    std::string text = good;
    text.replace(text.find(absl::StrCat("\"", member, "\"")) + 1, 1, "X");
    const auto loaded = FromJson(text, kNow);
    ASSERT_FALSE(loaded.ok()) << member;
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(member));
  }
}

}  // namespace
}  // namespace eoib::gateway
