#include "control/config/config_text.h"

#include <sys/stat.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "control/config/config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/file.h"
#include "vswitch/base/temp_dir_for_test.h"

namespace eoib {
namespace {

using testing::HasSubstr;

constexpr char kText[] =
    "# the host\n"
    "workers = 2\n"
    "\n"
    "# tenants\n"
    "[[ves]]\n"
    "name = \"blue\"   # a comment\n"
    "pkey = 0x8001\n"
    "\n"
    "# the web server\n"
    "[[vport]]\n"
    "name = \"web0\"\n"
    "ves = \"blue\"\n"
    "trunk_vlans = [\n"
    "  10,\n"
    "  20]\n"
    "mode = \"trunk\"\n"
    "# the mail server\n"
    "[[vport]]\n"
    "name = \"mail0\"\n"
    "ves = \"blue\"\n";

void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

class ConfigTextTest : public testing::Test {
 protected:
  ConfigText Load() { return ConfigText::Load(path_, "").value(); }
  void AddDropIn(const std::string& name, const std::string& text) {
    mkdir((directory_.path() + "/eoibd.d").c_str(), 0755);
    Write(directory_.path() + "/eoibd.d/" + name, text);
  }

  TempDir directory_;
  const std::string path_ = directory_.path() + "/eoibd.toml";
};

TEST_F(ConfigTextTest, AddsATableAtTheEnd) {
  ConfigText text = ConfigText::Of(kText, "test");
  ASSERT_TRUE(text.Add({"vport", "new0"},
                       {"ves=blue", "access_vlan=10", "static_macs=[\"02:00:00:00:00:01\"]"})
                  .ok());
  EXPECT_EQ(text.text(),
            absl::StrCat(kText,
                         "\n[[vport]]\nname = \"new0\"\nves = \"blue\"\naccess_vlan = 10\n"
                         "static_macs = [\"02:00:00:00:00:01\"]\n"));
  EXPECT_EQ(ParseConfig(text)->vports.back().vlan.access_vlan, Vid(10));
}

TEST_F(ConfigTextTest, RemovesATableWithItsComment) {
  ConfigText text = ConfigText::Of(kText, "test");
  ASSERT_TRUE(text.Remove({"vport", "web0"}).ok());
  EXPECT_EQ(text.text(),
            "# the host\nworkers = 2\n\n# tenants\n[[ves]]\nname = \"blue\"   # a "
            "comment\npkey = 0x8001\n\n"
            "# the mail server\n[[vport]]\nname = \"mail0\"\nves = \"blue\"\n");
  ASSERT_TRUE(text.Remove({"vport", "mail0"}).ok());
  EXPECT_EQ(text.Remove({"vport", "mail0"}).message(), "there is no vport \"mail0\"");
  EXPECT_EQ(ParseConfig(text)->vports.size(), 0u);
}

TEST_F(ConfigTextTest, SetsReplacesAndRemovesKeys) {
  ConfigText text = ConfigText::Of(kText, "test");
  ASSERT_TRUE(text.Set({"vport", "web0"}, {"trunk_vlans=[30]", "sticky=true", "mode=trunk"}).ok());
  EXPECT_THAT(text.text(),
              HasSubstr("[[vport]]\nname = \"web0\"\nves = \"blue\"\ntrunk_vlans = [30]\n"
                        "mode = \"trunk\"\nsticky = true\n# the mail"));
  ASSERT_TRUE(text.Set({"vport", "web0"}, {"sticky=", "trunk_vlans="}).ok());
  EXPECT_THAT(text.text(),
              HasSubstr("[[vport]]\nname = \"web0\"\nves = \"blue\"\nmode = \"trunk\"\n"));
  ASSERT_TRUE(text.Set({"ves", "blue"}, {"ageing=60"}).ok());
  EXPECT_EQ(ParseConfig(text)->veses[0].ageing, absl::Seconds(60));
}

TEST_F(ConfigTextTest, RefusesWhatIsNoAssignment) {
  ConfigText text = ConfigText::Of(kText, "test");
  EXPECT_THAT(text.Set({"vport", "web0"}, {"sticky"}).message(), HasSubstr("write KEY=VALUE"));
  EXPECT_THAT(text.Set({"vport", "web0"}, {"mtu=1\nsticky = true"}).message(),
              HasSubstr("several lines"));
  EXPECT_THAT(text.Set({"vport", "web0"}, {"mtu=\"\\"}).message(), HasSubstr("no value of TOML"));
  EXPECT_THAT(text.Add({"vport", "a\"b"}, {}).message(), HasSubstr("is no name"));
  EXPECT_THAT(text.Add({"vport", "web0"}, {}).message(),
              HasSubstr("there is a vport \"web0\" already"));
}

TEST_F(ConfigTextTest, ReadsDropInsInTheOrderOfTheirNames) {
  Write(path_, kText);
  AddDropIn("20-b.toml", "[[vport]]\nname = \"b0\"\nves = \"blue\"\n");
  AddDropIn("10-a.toml", "[[vport]]\nname = \"a0\"\nves = \"blue\"");  // no newline at its end
  AddDropIn("notes.txt", "nothing");
  const AgentConfig config = ParseConfig(Load()).value();
  ASSERT_EQ(config.vports.size(), 4u);
  EXPECT_EQ(config.vports[2].name, "a0");
  EXPECT_EQ(config.vports[3].name, "b0");
}

TEST_F(ConfigTextTest, MistakesNameTheirFile) {
  Write(path_, kText);
  AddDropIn("a.toml", "[[vport]]\nname = \"web0\"\nves = \"blue\"\nmtu = 1\n");
  const absl::Status status = ParseConfig(Load()).status();
  EXPECT_THAT(status.message(), HasSubstr("eoibd.d/a.toml:4: mtu is 1"));
  EXPECT_THAT(
      status.message(),
      HasSubstr("eoibd.d/a.toml:1: a second vPort \"web0\", the first is on " + path_ + ":10;"));
  AddDropIn("a.toml", "workers = 3\n");
  EXPECT_THAT(ConfigText::Load(path_, "").status().message(),
              HasSubstr("a.toml:1: workers is not in a table"));
}

// As editors on Windows write them.
TEST_F(ConfigTextTest, FilesWithByteOrderMarksAreReadAndSaved) {
  constexpr char kMark[] = "\xef\xbb\xbf";
  Write(path_, absl::StrCat(kMark, kText));
  AddDropIn("a.toml", absl::StrCat(kMark, "[[vport]]\r\nname = \"a0\"\r\nves = \"blue\"\r\n"));
  AddDropIn("b.toml", kMark);
  ConfigText text = Load();
  EXPECT_EQ(ParseConfig(text)->vports.back().name, "a0");
  EXPECT_FALSE(text.IsChanged());
  ASSERT_TRUE(text.Set({"vport", "a0"}, {"access_vlan=7"}).ok());
  ASSERT_TRUE(text.Set({"ves", "blue"}, {"ageing=60"}).ok());
  EXPECT_EQ(text.Changes(), absl::StrCat(path_, "\n+ageing = 60\n", directory_.path(),
                                         "/eoibd.d/a.toml\n+access_vlan = 7\n"));
  ASSERT_TRUE(text.Save().ok());
  EXPECT_EQ(Load().text(), text.text());
  EXPECT_EQ(ParseConfig(Load())->vports.back().vlan.access_vlan, Vid(7));
}

TEST_F(ConfigTextTest, SavesOnlyWhatChanged) {
  Write(path_, kText);
  AddDropIn("a.toml", "[[vport]]\nname = \"a0\"\nves = \"blue\"\n");
  ConfigText text = Load();
  EXPECT_FALSE(text.IsChanged());
  ASSERT_TRUE(text.Set({"vport", "a0"}, {"access_vlan=7"}).ok());
  EXPECT_THAT(text.Changes(), HasSubstr("eoibd.d/a.toml\n+access_vlan = 7\n"));
  ASSERT_TRUE(text.Save().ok());
  EXPECT_FALSE(text.IsChanged());
  EXPECT_EQ(ReadFile(directory_.path() + "/eoibd.d/a.toml", 1000).value(),
            "[[vport]]\nname = \"a0\"\nves = \"blue\"\naccess_vlan = 7\n");
  EXPECT_EQ(ReadFile(path_, 1000).value(), kText);
}

TEST_F(ConfigTextTest, AnAddedAndRemovedTableLeavesNothing) {
  Write(path_, kText);
  ConfigText text = Load();
  ASSERT_TRUE(text.Add({"vport", "tmp"}, {"ves=blue"}).ok());
  ASSERT_TRUE(text.Remove({"vport", "tmp"}).ok());
  EXPECT_FALSE(text.IsChanged()) << text.Changes();
}

TEST_F(ConfigTextTest, ANewNameHoldsForTheAssignmentsBehindIt) {
  ConfigText text = ConfigText::Of(kText, "test");
  ASSERT_TRUE(text.Set({"vport", "mail0"}, {"name=mail1", "mtu=1400"}).ok());
  EXPECT_THAT(text.text(), HasSubstr("name = \"mail1\"\nves = \"blue\"\nmtu = 1400\n"));
}

TEST_F(ConfigTextTest, AddedTablesGoToTheLiveFileOfTheProgram) {
  Write(path_, kText);
  AddDropIn("live.toml", "[[vport]]\nname = \"of_another\"\nves = \"blue\"\n");
  AddDropIn("live-h2.toml", "[[vport]]\nname = \"of_a_third\"\nves = \"blue\"\n");
  ConfigText text = ConfigText::Load(path_, "", "h1").value();
  EXPECT_EQ(text.text(), kText) << "the live files of others do not count";
  ASSERT_TRUE(text.Add({"vport", "new0"}, {"ves=blue"}).ok());
  EXPECT_FALSE(text.IsSharedChanged());
  ASSERT_TRUE(text.Save().ok());
  EXPECT_EQ(ReadFile(directory_.path() + "/eoibd.d/live-h1.toml", 1000).value(),
            "# Tables that were added while the program ran, as by `eoibctl vport add`.\n\n"
            "[[vport]]\nname = \"new0\"\nves = \"blue\"\n");
  EXPECT_EQ(ReadFile(path_, 1000).value(), kText);
  EXPECT_THAT(ConfigText::Load(path_, "", "h1").value().text(), HasSubstr("new0"));
  ASSERT_TRUE(text.Set({"ves", "blue"}, {"ageing=60"}).ok());
  EXPECT_TRUE(text.IsSharedChanged());
}

TEST_F(ConfigTextTest, ChangesHaveChangedLinesOnly) {
  Write(path_, kText);
  ConfigText text = Load();
  ASSERT_TRUE(text.Set({"ves", "blue"}, {"ageing=60"}).ok());
  ASSERT_TRUE(text.Set({"vport", "mail0"}, {"access_vlan=7"}).ok());
  EXPECT_EQ(text.Changes(), absl::StrCat(path_, "\n+ageing = 60\n+access_vlan = 7\n"));
}

TEST_F(ConfigTextTest, DoesNotOverwriteTheChangesOfOthers) {
  Write(path_, kText);
  ConfigText text = Load();
  ASSERT_TRUE(text.Set({"ves", "blue"}, {"ageing=60"}).ok());
  Write(path_, absl::StrCat(kText, "# new\n"));
  EXPECT_THAT(text.Save().message(), HasSubstr("was changed by somebody"));
  EXPECT_EQ(ReadFile(path_, 1000).value(), absl::StrCat(kText, "# new\n"));
}

}  // namespace
}  // namespace eoib
