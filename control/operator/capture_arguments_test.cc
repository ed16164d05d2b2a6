#include "control/operator/capture_arguments.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<CaptureFilter::VPort> FindVPort(const std::string& name) {
  if (name != "web0") return absl::NotFoundError("no vPort \"" + name + "\"; there is: web0");
  CaptureFilter::VPort vport;
  vport.pkey = PKey(0x8001);
  return vport;
}

absl::StatusOr<CaptureArguments> Parse(const CommandRegistry::Arguments& arguments) {
  return ParseCaptureArguments(arguments, FindVPort);
}

TEST(CaptureArgumentsTest, PathAloneCapturesAll) {
  const auto parsed = Parse({"/tmp/x.erf"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.path, "/tmp/x.erf");
  EXPECT_TRUE(parsed->options.filter.IsEmpty());
  EXPECT_EQ(parsed->options.snap_length, ErfWriter::kMaxPacket);
  EXPECT_EQ(parsed->options.limit, 0u);
  EXPECT_FALSE(parsed->overwrite);
}

TEST(CaptureArgumentsTest, OptionsComeInAnyOrder) {
  const auto parsed = Parse({"/x", "--force", "limit=100M", "vlan=10", "mac=02:00:00:00:00:0a",
                             "snaplen=128", "vport=web0"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->overwrite);
  EXPECT_EQ(parsed->options.limit, 100u << 20);
  EXPECT_EQ(parsed->options.filter.vlan, Vid(10));
  EXPECT_EQ(parsed->options.filter.mac->ToString(), "02:00:00:00:00:0a");
  EXPECT_EQ(parsed->options.snap_length, 128u);
  EXPECT_EQ(parsed->options.filter.vport->pkey, PKey(0x8001));
}

TEST(CaptureArgumentsTest, SizesHaveUnits) {
  const std::pair<const char*, uint64_t> kSizes[] = {
      {"1", 1}, {"20k", 20 << 10}, {"3M", 3 << 20}, {"5G", uint64_t{5} << 30}};
  for (const auto& [text, size] : kSizes) {
    EXPECT_EQ(Parse({"/x", std::string("limit=") + text})->options.limit, size);
  }
}

TEST(CaptureArgumentsTest, MistakesAreExplained) {
  const std::pair<const char*, const char*> kMistakes[] = {
      {"vport=web1", "\"vport=web1\": no vPort \"web1\"; there is: web0"},
      {"mac=2:0", "\"mac=2:0\": "},
      {"vlan=4095", "write a VLAN, 1 to 4094, or 0 for untagged"},
      {"vlan=", "write a VLAN"},
      {"snaplen=99", "write a number of bytes, 100 to 16384"},
      {"snaplen=16385", "write a number of bytes, 100 to 16384"},
      {"limit=0", "such as limit=100M"},
      {"limit=k", "such as limit=100M"},
      {"limit=-1", "such as limit=100M"},
      {"limit=99999999999G", "such as limit=100M"},
      {"host=10.0.0.1", "unknown; usage: capture start PATH [vport=NAME]"},
      {"force", "unknown; usage: capture start PATH"},
  };
  for (const auto& [argument, message] : kMistakes) {
    const auto parsed = Parse({"/x", argument});
    EXPECT_TRUE(absl::IsInvalidArgument(parsed.status())) << argument;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(message));
  }
  EXPECT_THAT(std::string(Parse({"x.erf"}).status().message()), HasSubstr("by its whole path"));
}

}  // namespace
}  // namespace eoib
