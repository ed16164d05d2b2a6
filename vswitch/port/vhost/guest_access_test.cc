#include "vswitch/port/vhost/guest_access.h"

#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "gtest/gtest.h"
#include "vswitch/port/vhost/model_guest_for_test.h"

namespace eoib {
namespace {

constexpr size_t kFileSize = 1 << 16;

// An access that the compiler does not leave out.
uint8_t Read(const ModelFile& file, size_t at) {
  return *static_cast<volatile uint8_t*>(file.bytes() + at);
}
void Write(const ModelFile& file, size_t at) {
  *static_cast<volatile uint8_t*>(file.bytes() + at) = 7;
}

TEST(GuestAccessTest, LostMemoryHasZeros) {
  GuestAccess::CatchLosses();
  ModelFile file(kFileSize);
  GuestAccess::Lost lost{false};
  Write(file, 5);
  Write(file, 40000);
  const GuestAccess access(&lost);
  ASSERT_TRUE(file.Resize(4096));
  EXPECT_EQ(Read(file, 5), 7);
  EXPECT_FALSE(lost.load());
  EXPECT_EQ(Read(file, 40000), 0);
  EXPECT_TRUE(lost.load());
  Write(file, kFileSize - 1);
  EXPECT_EQ(Read(file, kFileSize - 1), 7);
}

// Each page by itself would be a mapping, of which a process has 65,530.
TEST(GuestAccessTest, ARegionIsReplacedAsAWhole) {
  GuestAccess::CatchLosses();
  constexpr size_t kLarge = 16 << 20;
  ModelFile file(kLarge), other(kFileSize);
  Write(file, 0);
  Write(other, 0);
  GuestAccess::Lost lost{false};
  lost.SetRegions(GuestMemory({{0, kFileSize, other.bytes()}, {1 << 30, kLarge, file.bytes()}}));
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  };
  const auto before = mappings();
  const GuestAccess access(&lost);
  ASSERT_TRUE(file.Resize(4096));
  for (size_t at = 8192; at < kLarge; at += 8192) EXPECT_EQ(Read(file, at), 0);
  EXPECT_TRUE(lost.load());
  EXPECT_EQ(Read(file, 0), 0);
  EXPECT_EQ(Read(other, 0), 7) << "another region";
  EXPECT_LE(mappings(), before + 10);
}

TEST(GuestAccessTest, TheInnermostStretchCounts) {
  GuestAccess::CatchLosses();
  ModelFile file(kFileSize);
  ASSERT_TRUE(file.Resize(0));
  GuestAccess::Lost outer{false}, inner{false};
  const GuestAccess outside(&outer);
  {
    const GuestAccess inside(&inner);
    Read(file, 0);
  }
  EXPECT_TRUE(inner.load());
  EXPECT_FALSE(outer.load());
  Read(file, 8192);
  EXPECT_TRUE(outer.load());
}

TEST(GuestAccessTest, AThreadOfTheLibraryOutlivesThePort) {
  GuestAccess::CatchLosses();
  ModelFile file(kFileSize);
  ASSERT_TRUE(file.Resize(0));
  auto lost = std::make_shared<GuestAccess::Lost>(false);
  std::thread([&] {
    GuestAccess::BeginOnThread(lost);
    Read(file, 0);
    EXPECT_TRUE(lost->load());
    lost.reset();
    EXPECT_EQ(Read(file, 8192), 0);
  }).join();
}

// The signal ends the process as before, or its former handler does.
TEST(GuestAccessDeathTest, OutsideOfAStretchTheSignalIsPassedOn) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  ModelFile file(kFileSize);
  ASSERT_TRUE(file.Resize(0));
  GuestAccess::CatchLosses();
  GuestAccess::Lost lost{false};
  { const GuestAccess access(&lost); }
  EXPECT_DEATH(Read(file, 0), "");
}

}  // namespace
}  // namespace eoib
