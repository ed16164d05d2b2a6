// The addresses of a host, from Want on: which probes it sends, which answers come, what the kernel
// then has.
#include "gateway/host/addresses.h"

#include "gateway/host/ip_host_test_fixture.h"
#include "gmock/gmock.h"
#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/golden_ipoib_for_test.h"

namespace eoib::endpoint {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class AddressesTest : public IpHostTestFixture {};

TEST_F(AddressesTest, AddressesComeToTheTunWhenTheyAreFree) {
  LinkUp();
  host_.addresses().Want(*InterfaceAddress::Parse("10.0.0.2/24"), AddressOrigin::kOperator);
  EXPECT_THAT(kernel_.addresses, IsEmpty());
  ReceiveDatagram(FromHex(kLinuxArpRequest), true);
  EXPECT_THAT(link_.Take(), IsEmpty()) << "a tentative address was answered for";
  Run(absl::Seconds(3));
  EXPECT_THAT(kernel_.addresses, ElementsAre("10.0.0.2/24", std::string(kOwnLinkLocal) + "/64"));
}

// The probes match Linux's and RFC 5227.
TEST_F(AddressesTest, GoldenProbes) {
  LinkUp();
  link_.Take();
  host_.addresses().Want(*InterfaceAddress::Parse("fd00::2/64"), AddressOrigin::kOperator);
  EXPECT_THAT(link_.groups(), Contains(Mgid(*Gid::Parse("ff12:601b:ffff::1:ff00:2")).ToString()))
      << "listened to before it is asked";
  host_.addresses().Want(*InterfaceAddress::Parse("10.0.0.2/24"), AddressOrigin::kOperator);
  Run(absl::Milliseconds(200));
  bool arp = false, nd = false;
  for (const auto& sent : link_.Take()) {
    if (sent.type == IpoibType::kArp) {
      EXPECT_EQ(
          ToHex(sent.payload),
          ToHex(FromHex("0020 0800 14 04 0001 00000002fe800000000000000253494d49420101 00000000 "
                        "0000000000000000000000000000000000000000 0a000002")));
      arp = true;
    } else if (sent.group == GroupOf(kLink, Ip6("ff02::1:ff00:2"))) {
      Bytes expected = PacketOf(kLinuxDadSolicitation), packet = sent.payload;
      NdMessage message;
      EXPECT_EQ(ParseNeighborDiscovery(packet, &message), NdVerdict::kGood);
      ASSERT_EQ(packet.size(), expected.size());
      for (Bytes* each : {&expected, &packet}) {
        std::fill_n(&(*each)[42], 2, 0);  // checksum
        std::fill_n(&(*each)[66], 6, 0);  // nonce
      }
      EXPECT_EQ(ToHex(packet), ToHex(expected));
      nd = true;
    }
  }
  EXPECT_TRUE(arp && nd);
}

// RFC 4862 §5.4.2: the host joins the solicited-node group before it sends the solicitation.
TEST_F(AddressesTest, AProbeWaitsForItsGroup) {
  const auto probes = [this] {
    int count = 0;
    for (const auto& sent : link_.Take())
      count += sent.group == GroupOf(kLink, Ip6("ff02::1:ff00:2"));
    return count;
  };
  link_.SetReaches(false);
  LinkUp();
  host_.addresses().Want(*InterfaceAddress::Parse("fd00::2/64"), AddressOrigin::kOperator);
  Run(absl::Seconds(10));
  EXPECT_EQ(probes(), 0);
  EXPECT_TRUE(host_.addresses().IsTentative(Ip("fd00::2")));
  link_.SetReaches(true);
  Run(absl::Milliseconds(20));
  EXPECT_EQ(probes(), 1);
  Run(absl::Milliseconds(979));
  EXPECT_TRUE(host_.addresses().IsTentative(Ip("fd00::2"))) << "there is a second to answer";
  Run(absl::Milliseconds(21));
  EXPECT_TRUE(host_.addresses().IsAssigned(Ip("fd00::2")));
}

TEST_F(AddressesTest, DuplicatesAreNotUsed) {
  const struct {
    const char* description;
    const char* address;
    const char* datagram;
  } kRows[] = {
      {"ARP from it", "10.0.0.1/24", kLinuxArpRequest},
      {"a gratuitous ARP", "10.0.0.1/24", kLinuxArpGratuitous},
      {"an advertisement", "fd00::1/64",
       "86dd0000 6000000000303afffd000000000000000000000000000001"
       "ff020000000000000000000000000001 8800c92320000000fd000000000000000000000000000001 "
       "0203000000000002fe800000000000000253494d49420001"},
      {"somebody else's detection of it", "fd00::2/64", kLinuxDadSolicitation},
      {"a probe for it", "10.0.0.2/24",
       "08060000 0020 0800 14 04 0001 80000002fe800000000000000253494d49420001 00000000 "
       "0000000000000000000000000000000000000000 0a000002"},
  };
  LinkUp();
  Run(absl::Seconds(5));
  for (const auto& row : kRows) {
    const InterfaceAddress address = *InterfaceAddress::Parse(row.address);
    host_.addresses().Want(address, AddressOrigin::kOperator);
    Run(absl::Milliseconds(300));
    ReceiveDatagram(FromHex(row.datagram), true);
    Run(absl::Seconds(10));
    ASSERT_NE(host_.addresses().Find(address.address), nullptr);
    EXPECT_EQ(host_.addresses().Find(address.address)->state, AddressState::kDuplicate)
        << row.description;
    EXPECT_EQ(host_.addresses().Find(address.address)->rival, kPeer) << row.description;
    EXPECT_EQ(kernel_.addresses.count(row.address), 0) << row.description;
    host_.addresses().Release(address.address);
  }
}

TEST_F(AddressesTest, ADuplicateAddressOfTheKernelIsRemoved) {
  LinkUp();
  const InterfaceAddress address = *InterfaceAddress::Parse("10.0.0.1/24");
  kernel_.addresses.insert("10.0.0.1/24");
  host_.addresses().OnKernelAdded(address);
  ReceiveDatagram(FromHex(kLinuxArpRequest), true);
  EXPECT_EQ(kernel_.addresses.count("10.0.0.1/24"), 0);
  host_.addresses().OnKernelRemoved(address.address);
  EXPECT_EQ(host_.addresses().Find(address.address)->state, AddressState::kDuplicate);
  // The operator adds the address again.
  host_.addresses().OnKernelAdded(address);
  EXPECT_TRUE(host_.addresses().IsTentative(address.address));
  Run(absl::Seconds(5));
  EXPECT_TRUE(host_.addresses().IsAssigned(address.address));
}

TEST_F(AddressesTest, AnAddressWithTwoLengthsHasTheOneThatRemains) {
  LinkUp();
  host_.addresses().OnKernelAdded(*InterfaceAddress::Parse("10.0.0.1/24"));
  host_.addresses().OnKernelAdded(*InterfaceAddress::Parse("10.0.0.1/16"));
  Run(absl::Seconds(5));
  EXPECT_TRUE(host_.addresses().IsSubnetBroadcast(Ip4("10.0.0.255")));
  host_.addresses().OnKernelChanged(*InterfaceAddress::Parse("10.0.0.1/16"));
  EXPECT_TRUE(host_.addresses().IsAssigned(Ip("10.0.0.1")));
  EXPECT_TRUE(host_.addresses().IsSubnetBroadcast(Ip4("10.0.255.255")));
}

TEST_F(AddressesTest, ADuplicateIsTakenOffWithAllItsLengths) {
  LinkUp();
  for (const char* text : {"10.0.0.1/24", "10.0.0.1/16"}) {
    kernel_.addresses.insert(text);
    host_.addresses().OnKernelAdded(*InterfaceAddress::Parse(text));
  }
  ReceiveDatagram(FromHex(kLinuxArpRequest), true);
  EXPECT_THAT(kernel_.addresses, ElementsAre("10.0.0.1/16"));
  host_.addresses().OnKernelChanged(*InterfaceAddress::Parse("10.0.0.1/16"));
  EXPECT_THAT(kernel_.addresses, IsEmpty());
}

TEST_F(AddressesTest, AnAddressInUseIsDefended) {
  Assign({"10.0.0.1/24"});
  ReceiveDatagram(FromHex(kLinuxArpRequest), true);
  const auto sent = link_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(ToHex(sent[0].payload),
            ToHex(FromHex("0020 0800 14 04 0001 00000002fe800000000000000253494d49420101 0a000001 "
                          "0000000000000000000000000000000000000000 0a000001")));
  EXPECT_TRUE(host_.addresses().IsAssigned(Ip("10.0.0.1")));
}

TEST_F(AddressesTest, AddressesThatTheKernelRefusesAreNotUsed) {
  LinkUp();
  Run(absl::Seconds(5));
  link_.Take();
  kernel_.refusal = absl::InternalError("add address fd00::2/64 to the TUN: Permission denied");
  host_.addresses().Want(*InterfaceAddress::Parse("fd00::2/64"), AddressOrigin::kOperator);
  Run(absl::Seconds(5));
  EXPECT_EQ(host_.addresses().Find(Ip("fd00::2"))->state, AddressState::kRefused);
  EXPECT_EQ(host_.addresses().Find(Ip("fd00::2"))->refusal, kernel_.refusal.message());
  EXPECT_THAT(link_.Take(), SizeIs(1)) << "the probe, and no announcement";
  ReceiveDatagram(FromHex(kLinuxNeighborSolicitation), true);
  ReceiveDatagram(FromHex(kLinuxDadSolicitation), true);
  Run(absl::Seconds(5));
  EXPECT_THAT(link_.Take(), IsEmpty()) << "answered for, or defended";
  // The host retries when the kernel may have changed its mind.
  host_.addresses().OnTunUp();
  Run(absl::Seconds(5));
  EXPECT_EQ(host_.addresses().Find(Ip("fd00::2"))->state, AddressState::kRefused);
  kernel_.refusal = absl::OkStatus();
  LinkDown();
  LinkUp();
  Run(absl::Seconds(5));
  EXPECT_TRUE(host_.addresses().IsAssigned(Ip("fd00::2")));
  EXPECT_EQ(host_.addresses().Find(Ip("fd00::2"))->refusal, "");
}

TEST_F(AddressesTest, RemovedAddressesComeBackWithTheTun) {
  Assign({"fd00::2/64"});
  // The kernel confirms it.
  host_.addresses().OnKernelAdded(*InterfaceAddress::Parse("fd00::2/64"));
  host_.addresses().OnKernelRemoved(Ip("fd00::2"));
  EXPECT_EQ(host_.addresses().Find(Ip("fd00::2"))->state, AddressState::kRemoved);
  ReceiveDatagram(FromHex(kLinuxNeighborSolicitation), true);
  EXPECT_THAT(link_.Take(), IsEmpty());
  kernel_.addresses.clear();
  host_.addresses().OnTunUp();
  Run(absl::Seconds(5));
  EXPECT_THAT(kernel_.addresses, Contains("fd00::2/64"));
}

// Linux reports a new IPv6 address some time after adding it, and not at all if it is gone by then.
TEST_F(AddressesTest, AnAddressRemovedBeforeTheKernelConfirmedItIsGone) {
  Assign({"fd00::2/64"});
  host_.addresses().OnKernelRemoved(Ip("fd00::2"));
  EXPECT_EQ(host_.addresses().Find(Ip("fd00::2"))->state, AddressState::kRemoved);
}

TEST_F(AddressesTest, AnotherQueuePairIsAnnounced) {
  Assign({"10.0.0.2/24", "fd00::2/64"});
  const IpoibAddress other(Qpn(0x77), kOwn.gid());
  LinkDown();
  LinkUp(other);
  Run(absl::Seconds(1));
  int arp = 0, nd = 0;
  for (const auto& sent : link_.Take()) {
    if (const auto packet = ParseIpoibArp(sent.payload);
        sent.type == IpoibType::kArp && packet.has_value()) {
      EXPECT_EQ(PurposeOf(*packet), ArpPurpose::kGratuitous);
      EXPECT_EQ(packet->sender, other);
      ++arp;
    }
    NdMessage message;
    if (ParseNeighborDiscovery(sent.payload, &message) == NdVerdict::kGood) {
      EXPECT_EQ(message.type, NdType::kNeighborAdvertisement);
      EXPECT_EQ(FindLinkAddress(message, NdOptionType::kTargetLinkAddress), other);
      ++nd;
    }
  }
  EXPECT_EQ(arp, 1);
  EXPECT_EQ(nd, 2);  // including the link-local address
}

}  // namespace
}  // namespace eoib::endpoint
