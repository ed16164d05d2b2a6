#include "vswitch/base/daemon/nearest_name.h"

#include "gtest/gtest.h"

namespace eoib {
namespace {

TEST(EditDistanceTest, Rows) {
  const struct {
    const char* description;
    const char* a;
    const char* b;
    size_t expected;
  } kCases[] = {
      {"both empty", "", "", 0},
      {"one empty", "", "abc", 3},
      {"equal", "vlans", "vlans", 0},
      {"one inserted", "vlan", "vlans", 1},
      {"one replaced", "vlanz", "vlans", 1},
      {"two exchanged", "vlasn", "vlans", 2},
      {"case", "VLANS", "vlans", 0},
      {"a hyphen", "access-vlan", "access_vlan", 0},
      {"the textbook's", "kitten", "sitting", 3},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(c.expected, EditDistance(c.a, c.b)) << c.description;
    EXPECT_EQ(c.expected, EditDistance(c.b, c.a)) << c.description << ", the other way round";
  }
}

TEST(NearestNameTest, Rows) {
  const std::vector<std::string> names = {"name", "pkey", "vlans", "qkey"};
  const struct {
    const char* description;
    std::string text;
    const char* expected;
  } kCases[] = {
      {"the name itself", "pkey", "pkey"},       {"one letter off", "pkeys", "pkey"},
      {"the first of equals", "xkey", "pkey"},   {"half of it right", "neme1", "name"},
      {"too far from all", "colour", ""},        {"nothing", "", ""},
      {"endless", std::string(100000, 'p'), ""},
  };
  for (const auto& c : kCases) EXPECT_EQ(c.expected, NearestName(c.text, names)) << c.description;
  EXPECT_EQ("", NearestName("pkey", {}));
}

}  // namespace
}  // namespace eoib
