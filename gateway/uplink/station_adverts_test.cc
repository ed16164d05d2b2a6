#include "gateway/uplink/station_adverts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib::gateway {
namespace {

using Bytes = std::vector<uint8_t>;
using ::testing::ElementsAre;

const MacAddr kStation = MacAddr::FromUint64(0x02'aa'00'00'00'01);

// Pads to the smallest frame.
Bytes Padded(Bytes frame, size_t size = 60) {
  frame.resize(size);
  return frame;
}

TEST(StationAdvertsTest, AGratuitousArpForAnIpv4Address) {
  EXPECT_THAT(
      MakeStationAdverts(kStation, Vid(0), {IpAddr(*Ipv4Addr::Parse("10.0.0.1"))}),
      ElementsAre(Padded(
          {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0xaa, 0, 0, 0, 0x01, 0x08, 0x06,  //
           0,    1,    0x08, 0,    6,    4,    0,    1,               // Ethernet, IPv4, a request
           0x02, 0xaa, 0,    0,    0,    0x01, 10,   0,    0, 1,      // sender
           0,    0,    0,    0,    0,    0,    10,   0,    0, 1})));  // target: the same address
}

TEST(StationAdvertsTest, AReverseArpRequestForASilentStationInItsVlan) {
  EXPECT_THAT(
      MakeStationAdverts(kStation, Vid(110), {}),
      ElementsAre(Padded(
          {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0xaa, 0, 0, 0,    0x01, 0x81, 0, 0, 110,
           0x80, 0x35, 0,    1,    0x08, 0,    6,    4,    0, 3,  // a reverse request
           0x02, 0xaa, 0,    0,    0,    0x01, 0,    0,    0, 0, 0x02, 0xaa, 0,    0, 0, 0x01},
          64)));
}

TEST(StationAdvertsTest, AnUnsolicitedAdvertisementForAnIpv6Address) {
  EXPECT_THAT(MakeStationAdverts(kStation, Vid(0), {IpAddr(*Ipv6Addr::Parse("fd00::1"))}),
              ElementsAre(Bytes{0x33, 0x33, 0,    0,    0,    0x01, 0x02, 0xaa,
                                0,    0,    0,    0x01, 0x86, 0xdd,             //
                                0x60, 0,    0,    0,    0,    32,   58,   255,  // hop limit
                                0xfd, 0,    0,    0,    0,    0,    0,    0,
                                0,    0,    0,    0,    0,    0,    0,    0x01,  // from it
                                0xff, 0x02, 0,    0,    0,    0,    0,    0,
                                0,    0,    0,    0,    0,    0,    0,    0x01,  // to all nodes
                                136,  0,    0x59, 0xf1, 0x20, 0,    0,    0,     // override
                                0xfd, 0,    0,    0,    0,    0,    0,    0,
                                0,    0,    0,    0,    0,    0,    0,    0x01,     // target
                                2,    1,    0x02, 0xaa, 0,    0,    0,    0x01}));  // its MAC
}

TEST(StationAdvertsTest, OneForEachAddress) {
  const IpAddr addresses[] = {IpAddr(*Ipv4Addr::Parse("10.0.0.1")),
                              IpAddr(*Ipv6Addr::Parse("fd00::1")),
                              IpAddr(*Ipv4Addr::Parse("10.0.0.2"))};
  EXPECT_EQ(MakeStationAdverts(kStation, Vid(0), addresses).size(), 3u);
}

}  // namespace
}  // namespace eoib::gateway
