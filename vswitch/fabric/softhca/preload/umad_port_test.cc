// UmadPort: descriptors, waiting, and a real SA behind it.
#include "vswitch/fabric/softhca/preload/umad_port.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/softhca/soft_node_for_test.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib::softhca {
namespace {

constexpr size_t kRoom = 1 << 20;

bool IsReadable(int fd, int timeout_ms = 0) {
  pollfd ready = {fd, POLLIN, 0};
  return poll(&ready, 1, timeout_ms) == 1;
}

class UmadPortTest : public ::testing::Test {
 protected:
  std::unique_ptr<UmadPort> Open(const std::string& name) {
    return UmadPort::Open(subnet_.Connect(), name).value();
  }

  UmadPacket Request(int agent, SaAttribute attribute,
                     MadMethod method = MadMethod::kGetTable) const {
    SaHeader header;
    header.method = method;
    header.attribute = attribute;
    header.tid = 1;
    Mad mad;
    EncodeSaHeader(header, &mad);
    UmadPacket packet;
    packet.agent = agent;
    packet.address.lid = htons(subnet_.sm_lid().value());
    packet.mad.assign(mad.begin(), mad.end());
    return packet;
  }
  static UmadAgents::Registration SaAgent(bool rmpp = true) {
    return {static_cast<uint8_t>(MgmtClass::kSubnAdm), kSaClassVersion, {}, rmpp};
  }

  Subnet subnet_;
};

TEST_F(UmadPortTest, ATableOfManySegmentsArrivesOnADescriptorThatCanBePolled) {
  auto port = Open("h1");
  std::vector<std::unique_ptr<UmadPort>> others;
  for (int i = 0; i < 40; ++i) others.push_back(Open(absl::StrCat("other", i)));
  const int file = port->OpenFile();
  int agent = -1;
  ASSERT_EQ(port->Register(file, SaAgent(), &agent), 0);
  EXPECT_FALSE(IsReadable(file));
  UmadPacket packet;
  EXPECT_EQ(port->Receive(file, kRoom, &packet), EWOULDBLOCK);
  ASSERT_EQ(port->Send(file, Request(agent, SaAttribute::kNodeRecord), absl::Seconds(10), 0), 0);
  ASSERT_TRUE(IsReadable(file, 10'000));
  EXPECT_EQ(port->Receive(file, kMadSize, &packet), ENOSPC);
  EXPECT_TRUE(IsReadable(file)) << "it stays";
  ASSERT_EQ(port->Receive(file, packet.mad.size(), &packet), 0);
  EXPECT_EQ(packet.mad.size(), kSaRecordOffset + 42 * SaRecordStride(SaAttribute::kNodeRecord))
      << "all ports and the switch";
  EXPECT_FALSE(IsReadable(file));
}

TEST_F(UmadPortTest, AnUnansweredRequestIsReturned) {
  auto port = Open("h1");
  const int file = port->OpenFile();
  int agent = -1;
  ASSERT_EQ(port->Register(file, SaAgent(), &agent), 0);
  subnet_.SetSmAbsent(true);
  ASSERT_EQ(port->Send(file, Request(agent, SaAttribute::kNodeRecord), absl::Milliseconds(20), 1),
            0);
  ASSERT_TRUE(IsReadable(file, 10'000));
  UmadPacket packet;
  ASSERT_EQ(port->Receive(file, kRoom, &packet), 0);
  EXPECT_EQ(packet.status, ETIMEDOUT);
  EXPECT_EQ(subnet_.Ports().at(0).mads, 2u) << "it was asked twice";
}

TEST_F(UmadPortTest, FilesAreIndependent) {
  auto port = Open("h1");
  const int first = port->OpenFile(), second = port->OpenFile();
  int agent = -1;
  ASSERT_EQ(port->Register(first, SaAgent(), &agent), 0);
  ASSERT_EQ(port->Register(second, SaAgent(), &agent), 0);
  ASSERT_EQ(port->Send(second, Request(agent, SaAttribute::kClassPortInfo, MadMethod::kGet),
                       absl::Seconds(10), 0),
            0);
  ASSERT_TRUE(IsReadable(second, 10'000));
  EXPECT_FALSE(IsReadable(first));
  EXPECT_EQ(port->CloseFile(first), 0);
  UmadPacket packet;
  EXPECT_EQ(port->CloseFile(first), EBADF);
  EXPECT_EQ(port->Receive(first, kRoom, &packet), EBADF);
  EXPECT_EQ(port->Send(first, packet, absl::Seconds(1), 0), EBADF);
  EXPECT_EQ(port->Register(first, SaAgent(), &agent), EBADF);
  EXPECT_EQ(port->Unregister(first, 0), EBADF);
  EXPECT_EQ(port->Receive(second, kRoom, &packet), 0);
}

TEST_F(UmadPortTest, ItSeesChangesOfItsPort) {
  auto port = Open("h1");
  EXPECT_TRUE(port->config().active);
  ASSERT_TRUE(subnet_.SetLid("h1", Lid(77)).ok());
  EXPECT_EQ(port->config().lid, Lid(77));
  ASSERT_TRUE(subnet_.SetLink("h1", false).ok());
  EXPECT_FALSE(port->config().active);
}

TEST_F(UmadPortTest, WithoutASubnetThereIsNoPort) {
  EXPECT_FALSE(UmadPort::Open(subnet_.Connect(), "").ok());
}

}  // namespace
}  // namespace eoib::softhca
