#include "vswitch/fabric/softhca/subnet/subnet_config_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/base/temp_dir_for_test.h"

namespace eoib::softhca {
namespace {

using ::testing::HasSubstr;

class SubnetConfigFilesTest : public testing::Test {
 protected:
  SubnetConfigFilesTest() {
    mkdir(InDirectory("p.d").c_str(), 0755);
    Write("p.toml",
          "# ours\n[[partition]]\npkey = 0x8001\nfull = [\"ALL\"]\n[[partition]]\npkey = "
          "0x8002\nfull = [\"h1\"]\n");
  }
  std::string InDirectory(const std::string& name) {
    return absl::StrCat(directory_.path(), "/", name);
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(InDirectory(name)) << text;
  }
  std::string path() { return InDirectory("p.toml"); }
  // All partitions, as TOML.
  std::string Loaded() {
    const auto config = LoadSubnetConfig(path());
    return config.ok() ? ToToml(config->partitions) : std::string(config.status().message());
  }

  TempDir directory_;
};

constexpr char kDefault[] = "[[partition]]\npkey = 0xffff\nfull = [\"ALL\"]\n";
constexpr char kFirst[] = "[[partition]]\npkey = 0x8001\nfull = [\"ALL\"]\n";

TEST_F(SubnetConfigFilesTest, ALaterFileReplacesPartitions) {
  Write("p.d/20.toml", "[[partition]]\npkey = 0x8002\nfull = [\"h2\"]\n");
  Write("p.d/10.toml",
        "[[partition]]\npkey = 2\nfull = [\"h3\"]\n[[partition]]\npkey = 0x8003\nlimited = "
        "[\"h3\"]\n");
  Write("p.d/30.toml~", "no TOML");
  EXPECT_EQ(Loaded(),
            absl::StrCat(kDefault, kFirst, "[[partition]]\npkey = 0x8002\nfull = [\"h2\"]\n",
                         "[[partition]]\npkey = 0x8003\nlimited = [\"h3\"]\n"));
  Write("p.d/10.toml", "[[partition]]\npkey = 0\n");
  EXPECT_THAT(Loaded(), HasSubstr("p.d/10.toml:2: pkey must be"));
}

TEST_F(SubnetConfigFilesTest, FilesMayHaveByteOrderMarks) {
  Write("p.toml", absl::StrCat("\xef\xbb\xbf", kFirst));
  Write("p.d/10.toml", "\xef\xbb\xbf[[partition]]\r\npkey = 0x8002\r\nfull = [\"h2\"]\r\n");
  EXPECT_EQ(Loaded(),
            absl::StrCat(kDefault, kFirst, "[[partition]]\npkey = 0x8002\nfull = [\"h2\"]\n"));
  Write("p.toml", "\xff\xfe[");
  EXPECT_THAT(Loaded(), HasSubstr("p.toml: it is UTF-16 text; write it as UTF-8"));
}

TEST_F(SubnetConfigFilesTest, SavedPartitionsAreLoadedAgain) {
  std::vector<Partition> partitions = LoadSubnetConfig(path())->partitions;
  partitions.erase(partitions.begin() + 2);                                          // 0x8002
  partitions[1].listed = {{"h4", Membership::kNone}, {"h5", Membership::kLimited}};  // of 0x8001
  partitions.push_back({PKey(0x8007), Membership::kLimited, {}});
  const auto saved = SaveSubnetConfig(path(), partitions);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(*saved, InDirectory("p.d/saved.toml"));
  EXPECT_EQ(LoadSubnetConfig(path())->partitions, partitions);
  Write("p.d/zz.toml", "[[partition]]\npkey = 0x8007\nfull = [\"h9\"]\n");
  EXPECT_EQ(LoadSubnetConfig(path())->partitions, partitions) << "saved.toml is the last";
}

// Mounts `source` over `saved` in a mount namespace of this process. Ends with 0 if `partitions`
// are saved.
void SaveIntoMountPoint(const std::string& source, const std::string& saved,
                        const std::string& path, const std::vector<Partition>& partitions) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    _exit(2);
  if (mount(source.c_str(), saved.c_str(), nullptr, MS_BIND, nullptr) != 0) _exit(2);
  const absl::Status status = SaveSubnetConfig(path, partitions).status();
  std::fputs(status.ToString().c_str(), stderr);
  _exit(status.ok() && LoadSubnetConfig(path)->partitions == partitions ? 0 : 1);
}

TEST_F(SubnetConfigFilesTest, SavesIntoAMountPoint) {
  const std::vector<Partition> before = LoadSubnetConfig(path())->partitions;
  for (const char* name : {"source", "p.d/saved.toml"}) Write(name, "");
  for (const std::vector<Partition>& partitions : {std::vector<Partition>{before[0]}, before}) {
    EXPECT_EXIT(SaveIntoMountPoint(InDirectory("source"), InDirectory("p.d/saved.toml"), path(),
                                   partitions),
                ::testing::ExitedWithCode(0), "OK");
  }
}

TEST_F(SubnetConfigFilesTest, NothingIsSavedThatTheOtherFilesHave) {
  const std::vector<Partition> before = LoadSubnetConfig(path())->partitions;
  ASSERT_TRUE(SaveSubnetConfig(path(), {before[0]}).ok());
  ASSERT_EQ(access(InDirectory("p.d/saved.toml").c_str(), F_OK), 0);
  ASSERT_TRUE(SaveSubnetConfig(path(), before).ok());
  EXPECT_NE(access(InDirectory("p.d/saved.toml").c_str(), F_OK), 0);
  EXPECT_EQ(LoadSubnetConfig(path())->partitions, before);
}

TEST_F(SubnetConfigFilesTest, MissingAndWrongFilesAreReported) {
  EXPECT_EQ(LoadSubnetConfig(InDirectory("none.toml")).status().code(),
            absl::StatusCode::kNotFound);
  Write("plain", kFirst);
  EXPECT_TRUE(LoadSubnetConfig(InDirectory("plain")).ok());
  EXPECT_THAT(std::string(SaveSubnetConfig(InDirectory("plain"), {}).status().message()),
              HasSubstr("does not end in .toml"));
}

}  // namespace
}  // namespace eoib::softhca
