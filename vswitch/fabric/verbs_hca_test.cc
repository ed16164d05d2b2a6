#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/umad_transport.h"
#include "vswitch/wire/sa_mad.h"

namespace eoib {
namespace {

using testing::HasSubstr;

TEST(OpenVerbsHca, WantsDeviceAndPort) {
  for (const char* name :
       {"", "mlx5_0", "/1", "mlx5_0/", "mlx5_0/0", "mlx5_0/256", "mlx5_0/-1", "mlx5_0/one", "mlx5_0/1x", "mlx5_0/1?",
        "mlx5_0/1?gid=", "mlx5_0/1?gid=-1", "mlx5_0/1?gid=256", "mlx5_0?gid=1", "mlx5_0/1?gid=1?gid=2"}) {
    const absl::Status status = OpenVerbsHca(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), HasSubstr("verbs:DEVICE/PORT"));
  }
}

// On a machine without InfiniBand libibverbs reports no list at all (ENOSYS), else a list without this name.
TEST(OpenVerbsHca, SaysThatThereIsNoSuchDevice) {
  const absl::Status status = OpenVerbsHca("nosuchdevice/1").status();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("InfiniBand device"));
}

TEST(LibibverbsTable, IsComplete) {
  const VerbsTable& table = LibibverbsTable();
  void* members[sizeof(VerbsTable) / sizeof(void*)];
  static_assert(sizeof(members) == sizeof(table));
  std::memcpy(members, &table, sizeof(table));
  for (void* member : members) EXPECT_NE(member, nullptr);
}

TEST(UmadTransport, OpenSaysWhichPort) {
  const absl::Status status = UmadTransport::Open("nosuchdevice", 1, [] { return SmAddress(); }).status();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("open the MAD device of port nosuchdevice/1: "));
}

// The caller's 24 bits travel unchanged below the attempt's (bits 31 to 24).
TEST(UmadTransport, KeepsTheCallersTransactionId) {
  Mad mad;
  EncodeSaHeader({.tid = 0xabcdef}, &mad);
  UmadTransport::SetAttempt(0x12, &mad);
  EXPECT_EQ(DecodeSaHeader(mad)->tid, 0x12ab'cdefu);
  EXPECT_EQ(DecodeSaHeader(mad)->tid & MadTransport::kTidMask, 0xab'cdefu);
}

}  // namespace
}  // namespace eoib
