#include "vswitch/fabric/softhca/subnet/subnet_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace eoib::softhca {
namespace {

using ::testing::HasSubstr;

std::string Members(const SubnetConfig& config, const std::string& name) {
  std::string text;
  for (const Partition& partition : config.partitions) {
    const absl::optional<PKey> pkey = partition.PKeyOf(name);
    if (pkey.has_value()) absl::StrAppend(&text, text.empty() ? "" : " ", pkey->ToString());
  }
  return text;
}

TEST(SubnetConfigTest, PortsGetTheirPKeys) {
  const auto config = ParseSubnetConfig(R"(
[[partition]]
pkey = 0x8001
full = ["h1", "h2"]
limited = ["h3"]
[[partition]]
pkey = 0x0002             # either form names the partition
full = ["h3"]
limited = ["ALL"]
)",
                                        "fabric.toml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(Members(*config, "h1"), "0xffff 0x8001 0x0002");
  EXPECT_EQ(Members(*config, "h3"), "0xffff 0x0001 0x8002") << "a name counts more than ALL";
  EXPECT_EQ(Members(*config, "h9"), "0xffff 0x0002");
}

TEST(SubnetConfigTest, TheDefaultPartitionCanBeConfigured) {
  const auto config = ParseSubnetConfig(R"(
[[partition]]
pkey = 0x8001
full = ["ALL"]
[[partition]]
pkey = 0xffff
limited = ["ALL"]
full = ["sm"]
)",
                                        "fabric.toml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(Members(*config, "h1"), "0x8001 0x7fff");
  EXPECT_EQ(Members(*config, "sm"), "0x8001 0xffff");
}

TEST(SubnetConfigTest, NoConfigurationIsTheDefaultPartition) {
  EXPECT_EQ(Members(SubnetConfig::Default(), "h1"), "0xffff");
  const auto empty = ParseSubnetConfig("", "fabric.toml");
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(Members(*empty, "h1"), "0xffff");
}

TEST(SubnetConfigTest, MistakesAreRefusedWithTheirLine) {
  const struct {
    const char* description;
    const char* toml;
    const char* message;
  } kRows[] = {
      {"not TOML", "[[partition]]\npkey = \n", "f.toml:2: "},
      {"unknown table", "\n[partitions]\n", "f.toml:2: unknown key \"partitions\""},
      {"a table instead of an array", "[partition]\npkey = 1\n", "write [[partition]]"},
      {"unknown key", "[[partition]]\npkey = 1\nmembers = []\n",
       "f.toml:3: unknown key \"members\""},
      {"no P_Key", "[[partition]]\nfull = [\"h1\"]\n", "f.toml:1: [[partition]] without a pkey"},
      {"P_Key as text", "[[partition]]\npkey = \"0x8001\"\n", "f.toml:2: pkey must be an integer"},
      {"P_Key without 0x", "[[partition]]\npkey = 8001\n",
       "f.toml:2: pkey is 8001; did you mean 0x8001? For the decimal number write 0x1f41"},
      {"P_Key 0", "[[partition]]\npkey = 0x8000\n", "f.toml:2: pkey must be"},
      {"P_Key too large", "[[partition]]\npkey = 0x18001\n", "f.toml:2: pkey must be"},
      {"P_Key twice", "[[partition]]\npkey = 0x8001\n[[partition]]\npkey = 1\n",
       "f.toml:4: partition 0x8001 is configured twice"},
      {"members not an array", "[[partition]]\npkey = 1\nfull = \"h1\"\n",
       "f.toml:3: \"full\" must be an array"},
      {"member not a string", "[[partition]]\npkey = 1\nfull = [\n\"h1\", 2]\n",
       "f.toml:4: a member must be"},
      {"member with a space", "[[partition]]\npkey = 1\nfull = [\"h 1\"]\n",
       "f.toml:3: port name \"h 1\""},
      {"member twice", "[[partition]]\npkey = 1\nfull = [\"h1\"]\nlimited = [\"h1\"]\n",
       "f.toml:4: port \"h1\" is listed twice"},
      {"ALL twice", "[[partition]]\npkey = 1\nfull = [\"ALL\"]\nlimited = [\"ALL\"]\n",
       "f.toml:4: \"ALL\" is listed twice"},
  };
  for (const auto& row : kRows) {
    const auto config = ParseSubnetConfig(row.toml, "f.toml");
    ASSERT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << row.description;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(row.message)) << row.description;
  }
}

TEST(SubnetConfigTest, AllMistakesAreReportedAtOnce) {
  const auto config = ParseSubnetConfig("[[partition]]\npkey = 0\nful = []\n", "f.toml");
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("f.toml:2: "));
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("f.toml:3: "));
}

TEST(SubnetConfigTest, DifferencesAreToldByPartition) {
  const auto parse = [](absl::string_view toml) {
    return ParseSubnetConfig(toml, "f.toml")->partitions;
  };
  const auto before = parse(
      "[[partition]]\npkey = 1\nfull = [\"ALL\"]\n[[partition]]\npkey = 2\nfull = [\"h1\"]\n");
  const auto after = parse(
      "[[partition]]\npkey = 3\n[[partition]]\npkey = 1\nfull = [\"ALL\"]\nlimited = [\"h3\"]\n");
  EXPECT_EQ(DiffPartitions(before, before), "");
  EXPECT_EQ(DiffPartitions(before, after),
            "remove partition 0x8002: h1 full\n"
            "add partition 0x8003: no members\n"
            "change partition 0x8001: ALL full to 0x8001: ALL full, h3 limited\n");
}

TEST(SubnetConfigTest, APortCanBeExcludedFromAll) {
  const auto config = ParseSubnetConfig(
      "[[partition]]\npkey = 0x8001\nfull = [\"ALL\"]\nexcluded = [\"h3\"]\n", "f.toml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(Members(*config, "h1"), "0xffff 0x8001");
  EXPECT_EQ(Members(*config, "h3"), "0xffff");
  EXPECT_EQ(ToToml({config->partitions[1]}),
            "[[partition]]\npkey = 0x8001\nfull = [\"ALL\"]\nexcluded = [\"h3\"]\n");
  const auto all =
      ParseSubnetConfig("[[partition]]\npkey = 0x8001\nexcluded = [\"ALL\"]\n", "f.toml");
  EXPECT_THAT(std::string(all.status().message()),
              HasSubstr("f.toml:3: \"ALL\" cannot be excluded"));
}

}  // namespace
}  // namespace eoib::softhca
