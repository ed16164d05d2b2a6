// SaResponderTest: an SaResponder with four ports; the test queries it as one of them.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SA_RESPONDER_TEST_FIXTURE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SA_RESPONDER_TEST_FIXTURE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "vswitch/fabric/softhca/subnet/fake_ports_for_test.h"
#include "vswitch/fabric/softhca/subnet/sa_responder.h"

namespace eoib::softhca {

inline PortConfig MakePort(uint16_t lid, std::vector<PKey> pkeys) {
  return MakeManagedPort(lid, std::move(pkeys)).config;
}

class SaResponderTest : public ::testing::Test {
 protected:
  SaResponderTest() {
    for (const PortConfig& config : {h1_, h2_, h3_, small_}) {
      ManagedPort port;
      port.name = absl::StrCat("h", config.lid.value() - 1);
      port.config = config;
      ports_.Add(port);
    }
  }

  McMemberRecord Wanted(const PortConfig& port, uint8_t join_state = kFullMember,
                        uint8_t mgid = 1) const {
    McMemberRecord record;
    record.mgid = MakeMgid(mgid);
    record.port_gid = port.gid;
    record.qkey = QKey(0x8000'8001);
    record.pkey = PKey(0x8001);
    record.join_state = join_state;
    return record;
  }

  uint16_t Ask(const PortConfig& port, MadMethod method, uint64_t mask,
               const McMemberRecord& record) {
    SaHeader header;
    header.method = method;
    header.attribute = SaAttribute::kMcMemberRecord;
    header.tid = ++tid_;
    header.component_mask = mask;
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodeMcMemberRecord(record, SaRecord(&mad));
    const uint16_t status = Send(port, mad);
    if (status == 0) answer_ = DecodeMcMemberRecord(SaRecord(reply_)).value();
    return status;
  }
  uint16_t Join(const PortConfig& port, uint64_t mask, const McMemberRecord& record) {
    return Ask(port, MadMethod::kSet, mask, record);
  }
  uint16_t Leave(const PortConfig& port, const McMemberRecord& record) {
    return Ask(port, MadMethod::kDelete, kIdentify, record);
  }
  uint16_t AskPath(const PortConfig& port, uint64_t mask, const PathRecord& record) {
    SaHeader header;
    header.attribute = SaAttribute::kPathRecord;
    header.tid = ++tid_;
    header.component_mask = mask;
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodePathRecord(record, SaRecord(&mad));
    const uint16_t status = Send(port, mad);
    if (status == 0) path_ = DecodePathRecord(SaRecord(reply_)).value();
    return status;
  }
  // Returns the status of the answer; 0xffff if there is none.
  uint16_t Send(const PortConfig& port, const Mad& mad) {
    absl::optional<std::vector<uint8_t>> answer = sa_.Respond(port, mad);
    if (!answer.has_value()) return 0xffff;
    reply_ = *std::move(answer);
    records_.assign(SaRecord(reply_).begin(), SaRecord(reply_).end());
    header_ = DecodeSaHeader(reply_).value();
    EXPECT_TRUE(header_.IsResponse());
    return header_.status;
  }

  // h1 and h2 are full members of 0x8001, h3 a limited one; `small` has a smaller MTU and rate.
  const PortConfig h1_ = MakePort(2, {PKey(0xffff), PKey(0x8001)});
  const PortConfig h2_ = MakePort(3, {PKey(0xffff), PKey(0x8001), PKey(0x8002)});
  const PortConfig h3_ = MakePort(4, {PKey(0x7fff), PKey(0x0001)});
  const PortConfig small_ = [] {
    PortConfig port = MakePort(5, {PKey(0x8001)});
    port.mtu = 4;
    port.rate = 2;
    return port;
  }();
  FakePorts ports_;
  MulticastGroups groups_{Mlid(0xc003)};
  NoticeForwarder notices_{&ports_};
  FakeClock clock_;
  ServiceRecords services_{&clock_};
  SaResponder sa_{&ports_, &groups_, &notices_, &services_};
  uint64_t tid_ = 0x1234'0000'0000'0000;
  std::vector<uint8_t> reply_;
  SaHeader header_;
  std::vector<uint8_t> records_;
  McMemberRecord answer_;
  PathRecord path_;
};

// The records of a table, as sent.
template <typename Record>
std::vector<Record> Table(const std::vector<uint8_t>& bytes, SaAttribute attribute,
                          absl::StatusOr<Record> (*decode)(absl::Span<const uint8_t>)) {
  const size_t stride = SaRecordStride(attribute);
  EXPECT_EQ(bytes.size() % stride, 0u);
  std::vector<Record> records;
  for (size_t at = 0; at + stride <= bytes.size(); at += stride) {
    records.push_back(decode(absl::MakeSpan(bytes).subspan(at)).value());
  }
  return records;
}

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SA_RESPONDER_TEST_FIXTURE_H_
