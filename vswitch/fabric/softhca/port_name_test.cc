#include "vswitch/fabric/softhca/port_name.h"

#include <string>

#include "gtest/gtest.h"

namespace eoib::softhca {
namespace {

TEST(PortNameTest, AcceptsOnlyValidNames) {
  for (const char* good : {"h1", "host-1.example:2", "A_b"})
    EXPECT_TRUE(CheckPortName(good).ok()) << good;
  for (const char* bad : {"", "ALL", "a b", "a/b", "\n"})
    EXPECT_FALSE(CheckPortName(bad).ok()) << bad;
  EXPECT_TRUE(CheckPortName(std::string(63, 'x')).ok());
  EXPECT_FALSE(CheckPortName(std::string(64, 'x')).ok());
}

}  // namespace
}  // namespace eoib::softhca
