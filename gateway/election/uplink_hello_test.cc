#include "gateway/election/uplink_hello.h"

#include <vector>

#include "gtest/gtest.h"

namespace eoib::gateway {
namespace {

UplinkHello Example() {
  UplinkHello hello;
  hello.ves = PKey(0x8001);
  hello.from = *Gid::Parse("fe80::1");
  hello.successor = *Gid::Parse("fe80::2");
  hello.priority = 7;
  hello.sequence = 0x0123'4567'89ab'cdef;
  hello.uplink = "up0";
  hello.runs = {{Vid(0), Vid(9), UplinkHello::Claim::kActive},
                {Vid(10), Vid(4094), UplinkHello::Claim::kRelease}};
  return hello;
}

TEST(UplinkHelloTest, DecodesWhatItEncodes) {
  std::vector<uint8_t> bytes = EncodeUplinkHello(Example());
  EXPECT_EQ(bytes.size(), 64u + 2 * 6);
  EXPECT_EQ(DecodeUplinkHello(bytes), Example());
  bytes.resize(200);
  EXPECT_EQ(DecodeUplinkHello(bytes), Example()) << "padded";
}

TEST(UplinkHelloTest, RefusesWhatNoGatewaySays) {
  const std::vector<uint8_t> good = EncodeUplinkHello(Example());
  struct Row {
    const char* description;
    size_t offset;
    uint8_t value;
  };
  for (const Row& row : {Row{"another protocol", 0, 1},
                         {"another kind", 1, 9},
                         {"another version", 2, 2},
                         {"more runs than bytes", 7, 3},
                         {"a group as sender", 16, 0xff},
                         {"a range that ends before it begins", 65, 20},
                         {"a VLAN beyond 4094", 72, 0x10},
                         {"a run that begins in the one before", 71, 9},
                         {"a run that begins before the one before", 71, 0},
                         {"a run that ends in the one behind", 66, 1},
                         {"an unknown claim", 68, 5}}) {
    std::vector<uint8_t> bytes = good;
    bytes[row.offset] = row.value;
    EXPECT_EQ(DecodeUplinkHello(bytes), absl::nullopt) << row.description;
  }
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(DecodeUplinkHello({good.data(), size}), absl::nullopt) << size;
}

}  // namespace
}  // namespace eoib::gateway
