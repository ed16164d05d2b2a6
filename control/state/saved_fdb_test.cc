#include "control/state/saved_fdb.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "fdb/fdb_key_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/file.h"
#include "vswitch/base/temp_dir_for_test.h"

namespace eoib {
namespace {

using testing::HasSubstr;

const AgentId kAgent = *AgentId::Parse("54b4d3e5-7c7c-49e5-97ae-ad2a34bd1ad8");
const AgentId kOther = *AgentId::Parse("7af5a0e2-7c7c-49e5-97ae-ad2a34bd1ad8");

SavedFdb Example() {
  const PeerAddress peer{Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(7)), Qpn(0x48)};
  SavedVes red{"red", PKey(0x8001), {}};
  red.places.push_back(
      {"v1", {}, {}, {{Key(1), absl::Seconds(12)}, {Key(2, 100), absl::ZeroDuration()}}});
  red.places.push_back({"", peer, kOther, {{Key(3), absl::Seconds(299)}}});
  red.places.push_back({"", {peer.gid, Qpn(0x49)}, absl::nullopt, {}});
  return {{kAgent, 3}, "boot", absl::Milliseconds(1234), {red, {"blue", PKey(0x8002), {}}}};
}

// Reads the example after a change of its text.
absl::Status ParseWith(const std::string& before, const std::string& after) {
  const std::string text = absl::StrReplaceAll(ToJson(Example()), {{before, after}});
  EXPECT_NE(text, ToJson(Example())) << before;
  return ParseSavedFdb(text).status();
}

TEST(SavedFdbTest, TextReadsBackTheSame) {
  const absl::StatusOr<SavedFdb> read = ParseSavedFdb(ToJson(Example()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->run.id, kAgent);
  EXPECT_EQ(read->run.incarnation, 3u);
  EXPECT_EQ(read->boot, "boot");
  EXPECT_EQ(read->saved_at, absl::Milliseconds(1234));
  EXPECT_EQ(read->veses, Example().veses);
  EXPECT_EQ(read->size(), 3u);
}

TEST(SavedFdbTest, RefusesNonsense) {
  EXPECT_THAT(ParseSavedFdb("").status().message(), HasSubstr("not a JSON object"));
  EXPECT_THAT(ParseSavedFdb("[]").status().message(), HasSubstr("not a JSON object"));
  EXPECT_THAT(ParseSavedFdb("{}").status().message(), HasSubstr("version is missing"));
  const std::string text = ToJson(Example());
  for (size_t length = 0; length + 2 < text.size(); length += 7)
    EXPECT_FALSE(ParseSavedFdb(text.substr(0, length)).ok());
  EXPECT_THAT(ParseWith("\"version\":1", "\"version\":2").message(), HasSubstr("another version"));
  EXPECT_THAT(ParseWith("02:00:00:00:00:01", "03:00:00:00:00:01").message(),
              HasSubstr("group or zero address"));
  EXPECT_THAT(ParseWith("02:00:00:00:00:01", "00:00:00:00:00:00").message(),
              HasSubstr("group or zero address"));
  EXPECT_FALSE(ParseWith("02:00:00:00:00:01", "02:00:00:00:00").ok());
  EXPECT_FALSE(ParseWith("[100,", "[4096,").ok());
  EXPECT_FALSE(ParseWith("[100,", "[-1,").ok());
  EXPECT_FALSE(ParseWith("[100,", "[").ok());
  EXPECT_FALSE(ParseWith(",12]", ",-12]").ok());
  EXPECT_FALSE(ParseWith(",12]", ",\"12\"]").ok());
  EXPECT_FALSE(ParseWith("\"incarnation\":3", "\"incarnation\":4294967296").ok());
  EXPECT_FALSE(ParseWith("\"vport\":\"v1\"", "\"vport\":\"\"").ok());
  EXPECT_FALSE(ParseWith("\"vport\":\"v1\"", "\"port\":\"v1\"").ok());
  EXPECT_FALSE(ParseWith("\"macs\"", "\"mac\"").ok());
  EXPECT_FALSE(ParseWith(kOther.ToString(), "x").ok());
}

TEST(SavedFdbTest, RefusesMoreMacsThanMayBe) {
  SavedFdb saved = Example();
  std::vector<SavedMac>& macs = saved.veses[0].places[0].macs;
  for (size_t i = saved.size(); i < SavedFdb::kMostMacs; ++i)
    macs.push_back({Key(i + 10), absl::ZeroDuration()});
  EXPECT_EQ(ParseSavedFdb(ToJson(saved))->size(), SavedFdb::kMostMacs);
  macs.push_back({Key(9), absl::ZeroDuration()});
  EXPECT_THAT(ParseSavedFdb(ToJson(saved)).status().message(), HasSubstr("too many MACs"));
}

class SavedFdbFileTest : public testing::Test {
 protected:
  absl::Status Take(const AgentId& id, uint32_t incarnation, const std::string& boot,
                    absl::Duration now) {
    EXPECT_TRUE(WriteSavedFdb(directory_.path(), Example()).ok());
    const absl::Status status =
        TakeSavedFdb(directory_.path(), {id, incarnation}, {boot, now}).status();
    struct stat info;
    EXPECT_NE(stat((directory_.path() + "/fdb.json").c_str(), &info), 0)
        << "it is gone in any case";
    return status;
  }

  TempDir directory_;
};

TEST_F(SavedFdbFileTest, IsTakenByTheNextRunOnly) {
  EXPECT_TRUE(Take(kAgent, 4, "boot", absl::Seconds(2)).ok());
  EXPECT_TRUE(absl::IsNotFound(
      TakeSavedFdb(directory_.path(), {kAgent, 4}, {"boot", absl::Seconds(2)}).status()));
  EXPECT_THAT(Take(kOther, 4, "boot", absl::Seconds(2)).message(), HasSubstr("another agent"));
  EXPECT_THAT(Take(kAgent, 3, "boot", absl::Seconds(2)).message(), HasSubstr("the run before"));
  EXPECT_THAT(Take(kAgent, 5, "boot", absl::Seconds(2)).message(), HasSubstr("the run before"));
  EXPECT_THAT(Take(kAgent, 4, "other", absl::Seconds(2)).message(), HasSubstr("has booted"));
  EXPECT_THAT(Take(kAgent, 4, "boot", absl::Seconds(1)).message(), HasSubstr("has booted"));
}

TEST_F(SavedFdbFileTest, DamagedFileIsRemoved) {
  const std::string path = directory_.path() + "/fdb.json";
  ASSERT_TRUE(ReplaceFile(path, "{\"version\":1").ok());
  const BootTime boot_time{"boot", absl::Seconds(2)};
  EXPECT_TRUE(
      absl::IsInvalidArgument(TakeSavedFdb(directory_.path(), {kAgent, 4}, boot_time).status()));
  EXPECT_TRUE(absl::IsNotFound(TakeSavedFdb(directory_.path(), {kAgent, 4}, boot_time).status()));
}

TEST(SavedFdbBootTest, MachineHasABootId) {
  const absl::StatusOr<BootTime> one = ReadBootTime(), two = ReadBootTime();
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->boot.size(), 36u);
  EXPECT_EQ(one->boot, two->boot);
  EXPECT_LE(one->now, two->now);
}

}  // namespace
}  // namespace eoib
