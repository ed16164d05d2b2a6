#include "vswitch/fabric/softhca/subnet/pma_responder.h"

#include <gtest/gtest.h>

#include "vswitch/base/byte_order.h"
#include "vswitch/fabric/softhca/subnet/fake_ports_for_test.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib::softhca {
namespace {

class PmaResponderTest : public ::testing::Test {
 protected:
  uint16_t Ask(MadMethod method, PerfAttribute attribute, uint8_t port = 1,
               uint16_t select = 0xffff) {
    MadHeader header;
    header.mgmt_class = MgmtClass::kPerf;
    header.class_version = kPerfClassVersion;
    header.method = method;
    header.attribute = static_cast<uint16_t>(attribute);
    header.tid = 5;
    Mad mad{};
    EncodeMadHeader(header, &mad);
    PortCountersAttribute counters;
    counters.port = port;
    counters.select = select;
    if (attribute == PerfAttribute::kPortCountersExtended) {
      EncodePortCountersExtended(counters, PerfData(&mad));
    } else if (attribute == PerfAttribute::kPortCounters) {
      EncodePortCounters(counters, PerfData(&mad));
    }
    reply_ = pma_.Respond(port_, mad).value();
    const MadHeader answer = DecodeMadHeader(reply_).value();
    EXPECT_EQ(answer.method, MadMethod::kGetResp);
    EXPECT_EQ(answer.tid, 5u);
    return answer.status;
  }
  PortCountersAttribute Get(PerfAttribute attribute = PerfAttribute::kPortCounters) {
    EXPECT_EQ(Ask(MadMethod::kGet, attribute), 0);
    return Answer(attribute);
  }
  PortCountersAttribute Answer(PerfAttribute attribute) const {
    return attribute == PerfAttribute::kPortCounters
               ? DecodePortCounters(PerfData(reply_)).value()
               : DecodePortCountersExtended(PerfData(reply_)).value();
  }

  const ManagedPort port_ = MakeManagedPort(2, {PKey(0xffff)});
  SoftPortCounters counters_;
  PmaResponder pma_{[this](const ManagedPort& port) {
    EXPECT_EQ(port.name, "h2");
    return counters_;
  }};
  Mad reply_;
};

TEST_F(PmaResponderTest, CountersHaveTheirPlaces) {
  counters_.xmit_packets = 1;
  counters_.xmit_data = 2;
  counters_.xmit_discards = 3;
  counters_.xmit_pkey_errors = 4;
  counters_.rcv_packets = 5;
  counters_.rcv_data = 6;
  counters_.rcv_pkey_violations = 7;
  counters_.rcv_bad_address = 8;
  counters_.corrupt_rings = 100;
  for (const PerfAttribute attribute :
       {PerfAttribute::kPortCounters, PerfAttribute::kPortCountersExtended}) {
    const PortCountersAttribute answer = Get(attribute);
    EXPECT_EQ(answer.xmit_packets, 1u);
    EXPECT_EQ(answer.xmit_data, 2u);
    EXPECT_EQ(answer.rcv_packets, 5u);
    EXPECT_EQ(answer.rcv_data, 6u);
    EXPECT_EQ(answer.port, 1);
  }
  const PortCountersAttribute answer = Get();
  EXPECT_EQ(answer.xmit_discards, 3u);
  EXPECT_EQ(answer.xmit_constraint_errors, 4u);
  EXPECT_EQ(answer.rcv_constraint_errors, 7u);
  EXPECT_EQ(answer.rcv_errors, 108u);
}

TEST_F(PmaResponderTest, UnicastIsWhatIsNotMulticast) {
  counters_.xmit_packets = 10;
  counters_.xmit_multicast_packets = 4;
  counters_.rcv_packets = 7;
  counters_.rcv_multicast_packets = 9;  // read a moment later
  const PortCountersAttribute answer = Get(PerfAttribute::kPortCountersExtended);
  EXPECT_EQ(answer.unicast_xmit_packets, 6u);
  EXPECT_EQ(answer.multicast_xmit_packets, 4u);
  EXPECT_EQ(answer.unicast_rcv_packets, 0u);
  EXPECT_EQ(answer.multicast_rcv_packets, 9u);
}

TEST_F(PmaResponderTest, OldCountersSaturateAndExtendedOnesDoNot) {
  counters_.xmit_packets = uint64_t{1} << 40;
  EXPECT_EQ(Get().xmit_packets, 0xffff'ffffu);
  EXPECT_EQ(Get(PerfAttribute::kPortCountersExtended).xmit_packets, uint64_t{1} << 40);
}

TEST_F(PmaResponderTest, SetClearsWhatIsSelected) {
  counters_.xmit_packets = counters_.rcv_packets = 10;
  ASSERT_EQ(Ask(MadMethod::kSet, PerfAttribute::kPortCounters, 1, 1u << 14), 0);
  EXPECT_EQ(Answer(PerfAttribute::kPortCounters).xmit_packets, 0u) << "the answer is what is left";
  EXPECT_EQ(Get().rcv_packets, 10u);
  EXPECT_EQ(Get(PerfAttribute::kPortCountersExtended).xmit_packets, 10u) << "cleared on its own";
  counters_.xmit_packets = counters_.rcv_packets = 12;
  EXPECT_EQ(Get().xmit_packets, 2u);
  ASSERT_EQ(Ask(MadMethod::kSet, PerfAttribute::kPortCountersExtended, 1, 1u << 3), 0);
  EXPECT_EQ(Get(PerfAttribute::kPortCountersExtended).rcv_packets, 0u);
  EXPECT_EQ(Get(PerfAttribute::kPortCountersExtended).xmit_packets, 12u);
  EXPECT_EQ(Get().rcv_packets, 12u);
}

TEST_F(PmaResponderTest, ANewProcessCountsFromZero) {
  counters_.xmit_packets = 10;
  ASSERT_EQ(Ask(MadMethod::kSet, PerfAttribute::kPortCounters), 0);
  counters_.xmit_packets = 4;
  EXPECT_EQ(Get().xmit_packets, 0u) << "never below zero";
  pma_.ForgetPort(port_.config.gid);
  EXPECT_EQ(Get().xmit_packets, 4u);
}

TEST_F(PmaResponderTest, InvalidRequestsAreRefused) {
  const struct {
    const char* description;
    MadMethod method;
    PerfAttribute attribute;
    uint8_t port;
    MadStatus status;
  } kRows[] = {
      {"all ports at once", MadMethod::kGet, PerfAttribute::kPortCounters, 255, MadStatus::kOk},
      {"port 0", MadMethod::kGet, PerfAttribute::kPortCounters, 0, MadStatus::kInvalidField},
      {"port 2", MadMethod::kSet, PerfAttribute::kPortCountersExtended, 2,
       MadStatus::kInvalidField},
      {"another attribute", MadMethod::kGet, PerfAttribute{0x15}, 1,
       MadStatus::kUnsupportedMethodAttribute},
      {"Set(ClassPortInfo)", MadMethod::kSet, PerfAttribute::kClassPortInfo, 1,
       MadStatus::kUnsupportedMethodAttribute},
      {"another method", MadMethod::kGetTable, PerfAttribute::kPortCounters, 1,
       MadStatus::kUnsupportedMethod},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Ask(row.method, row.attribute, row.port), static_cast<uint16_t>(row.status))
        << row.description;
  }
  EXPECT_FALSE(pma_.Respond(port_, Mad{}).has_value());
  EXPECT_FALSE(pma_.Respond(port_, reply_).has_value()) << "a response";
  EXPECT_EQ(pma_.counters().requests, std::size(kRows));
}

TEST_F(PmaResponderTest, ClassPortInfo) {
  ASSERT_EQ(Ask(MadMethod::kGet, PerfAttribute::kClassPortInfo), 0);
  EXPECT_EQ(ReadWire<be16>(&PerfData(reply_)[2]).value(), 0x0200)
      << "CapabilityMask: extended, unicast and multicast apart";
  EXPECT_EQ(PerfData(reply_)[1], 1) << "ClassVersion";
}

}  // namespace
}  // namespace eoib::softhca
