#include "gateway/uplink/reflection_filter.h"

#include <gtest/gtest.h>

#include <vector>

namespace eoib::gateway {
namespace {

using Bytes = std::vector<uint8_t>;

const MacAddr kGuest = MacAddr::FromUint64(0x02'aa'00'00'00'01);
constexpr absl::Time kStart = absl::UnixEpoch();

// A broadcast whose payload has `size` bytes of value `fill`.
Bytes Broadcast(uint8_t fill, size_t size = 46, MacAddr source = kGuest) {
  Bytes frame(14 + size, fill);
  MacAddr::Broadcast().ToWire(frame.data());
  source.ToWire(&frame[6]);
  frame[12] = 0x08, frame[13] = 0x00;
  return frame;
}

class ReflectionFilterTest : public testing::Test {
 protected:
  void Send(const Bytes& frame, Vid ves = Vid(0), absl::Time now = kStart) {
    filter_.Sent(frame, Parse(frame), ves, now);
  }
  bool IsReflection(const Bytes& frame, Vid ves = Vid(0), absl::Time now = kStart) {
    return filter_.IsReflection(frame, Parse(frame), ves, now);
  }

 private:
  static EthernetInfo Parse(const Bytes& frame) {
    EthernetInfo ethernet;
    EXPECT_EQ(ParseEthernet(frame, &ethernet), DropReason::kNone);
    return ethernet;
  }

  ReflectionFilter filter_;
};

TEST_F(ReflectionFilterTest, ACopyIsRecognisedForASecond) {
  EXPECT_FALSE(IsReflection(Broadcast(1)));
  Send(Broadcast(1));
  EXPECT_TRUE(IsReflection(Broadcast(1)));
  EXPECT_TRUE(IsReflection(Broadcast(1))) << "each copy";
  EXPECT_TRUE(IsReflection(Broadcast(1), Vid(0),
                           kStart + ReflectionFilter::kWindow - absl::Nanoseconds(1)));
  EXPECT_FALSE(IsReflection(Broadcast(1), Vid(0), kStart + ReflectionFilter::kWindow))
      << "the station may have moved";
}

TEST_F(ReflectionFilterTest, AnotherFrameIsNone) {
  Send(Broadcast(1), Vid(7));
  EXPECT_FALSE(IsReflection(Broadcast(2), Vid(7))) << "the station's next frame, from the wire";
  EXPECT_FALSE(IsReflection(Broadcast(1), Vid(8)));
  EXPECT_FALSE(IsReflection(Broadcast(1, 46, MacAddr::FromUint64(0x02'aa'00'00'00'02)), Vid(7)));
  Bytes multicast = Broadcast(1);
  multicast[0] = 0x01;
  EXPECT_FALSE(IsReflection(multicast, Vid(7)));
}

TEST_F(ReflectionFilterTest, TheWayChangesFrames) {
  Send(Broadcast(0, 3));
  EXPECT_TRUE(IsReflection(Broadcast(0))) << "padded on the wire";
  Bytes udp = Broadcast(1), completed = udp;
  Send(udp);
  completed[14 + 26] ^= 0xff, completed[14 + 27] ^= 0xff;
  EXPECT_TRUE(IsReflection(completed)) << "the NIC has completed the checksum";
  Bytes tagged = udp;
  const uint8_t tag[] = {0x81, 0x00, 0x60, 0x07};
  tagged.insert(tagged.begin() + 12, tag, tag + 4);
  Send(tagged, Vid(7));
  EXPECT_TRUE(IsReflection(udp, Vid(7))) << "VLAN 7 of the VES is untagged on the wire";
}

}  // namespace
}  // namespace eoib::gateway
