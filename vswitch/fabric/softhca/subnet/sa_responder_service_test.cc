// SaResponder: ServiceRecords, which ports register, delete and query.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "vswitch/fabric/softhca/subnet/sa_responder_test_fixture.h"
#include "vswitch/wire/ib/sa_table.h"

namespace eoib::softhca {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kId = 0x0265'6f69'6200'8001;
constexpr uint64_t kRegister = service::kId | service::kGid | service::kPKey | service::kLease |
                               service::kName | service::kData;

class SaResponderServiceTest : public SaResponderTest {
 protected:
  static ServiceRecord Service(const PortConfig& port) {
    ServiceRecord record;
    record.id = kId;
    record.gid = port.gid;
    record.pkey = PKey(0x8001);
    record.lease = 60;
    record.name = "eoib";
    record.data[0] = static_cast<uint8_t>(port.lid.value());
    return record;
  }
  uint16_t Ask(const PortConfig& port, MadMethod method, uint64_t mask,
               const ServiceRecord& record) {
    SaHeader header;
    header.method = method;
    header.attribute = SaAttribute::kServiceRecord;
    header.tid = ++tid_;
    header.component_mask = mask;
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodeServiceRecord(record, SaRecord(&mad));
    const uint16_t status = Send(port, mad);
    if (status == 0 && method != MadMethod::kGetTable)
      service_ = DecodeServiceRecord(SaRecord(reply_)).value();
    return status;
  }
  uint16_t Register(const PortConfig& port) {
    return Ask(port, MadMethod::kSet, kRegister, Service(port));
  }
  uint16_t Delete(const PortConfig& port, const ServiceRecord& record) {
    return Ask(port, MadMethod::kDelete, service::kId | service::kGid | service::kPKey, record);
  }
  // The first bytes of data of the records that `port` sees.
  std::vector<int> Seen(const PortConfig& port, uint64_t mask = service::kId,
                        ServiceRecord wanted = {}) {
    if (wanted.id == 0) wanted.id = kId;
    EXPECT_EQ(Ask(port, MadMethod::kGetTable, mask, wanted), 0);
    std::vector<int> first;
    for (const ServiceRecord& record :
         Table(records_, SaAttribute::kServiceRecord, DecodeServiceRecord)) {
      first.push_back(record.data[0]);
    }
    return first;
  }

  ServiceRecord service_;
};

TEST_F(SaResponderServiceTest, APortRegistersForItself) {
  EXPECT_EQ(Register(h1_), 0);
  EXPECT_EQ(header_.method, MadMethod::kGetResp);
  EXPECT_EQ(service_, Service(h1_));
  EXPECT_EQ(Register(h2_), 0);
  EXPECT_THAT(Seen(h1_), ElementsAre(2, 3));
  EXPECT_EQ(header_.method, MadMethod::kGetTableResp);
  const ServiceRecord forged = Service(h2_);
  EXPECT_EQ(Ask(h1_, MadMethod::kSet, kRegister, forged),
            static_cast<uint16_t>(SaStatus::kInvalidGid));
  EXPECT_EQ(Delete(h1_, forged), static_cast<uint16_t>(SaStatus::kInvalidGid));
  EXPECT_THAT(Seen(h1_), ElementsAre(2, 3));
}

TEST_F(SaResponderServiceTest, RefusedRegistrations) {
  const struct {
    const char* description;
    uint64_t mask;
    PKey pkey;
    SaStatus status;
  } kRows[] = {
      {"without a service ID", kRegister & ~service::kId, PKey(0x8001),
       SaStatus::kInsufficientComponents},
      {"without a GID", kRegister & ~service::kGid, PKey(0x8001),
       SaStatus::kInsufficientComponents},
      {"in a partition of others", kRegister, PKey(0x8002), SaStatus::kRequestInvalid},
  };
  for (const auto& row : kRows) {
    ServiceRecord record = Service(h1_);
    record.pkey = row.pkey;
    EXPECT_EQ(Ask(h1_, MadMethod::kSet, row.mask, record), static_cast<uint16_t>(row.status))
        << row.description;
  }
  EXPECT_THAT(services_.All(), IsEmpty());
}

TEST_F(SaResponderServiceTest, ARegistrationReplacesTheOneBefore) {
  ASSERT_EQ(Register(h1_), 0);
  ServiceRecord record = Service(h1_);
  record.data[0] = 77;
  EXPECT_EQ(Ask(h1_, MadMethod::kSet, kRegister, record), 0);
  EXPECT_THAT(Seen(h1_), ElementsAre(77));
}

TEST_F(SaResponderServiceTest, OnlyTheKeyOfTheRegistrationChangesIt) {
  ServiceRecord record = Service(h1_);
  record.key[0] = 1;
  ASSERT_EQ(Ask(h1_, MadMethod::kSet, kRegister | service::kKey, record), 0);
  EXPECT_EQ(Register(h1_), static_cast<uint16_t>(SaStatus::kRequestInvalid));
  EXPECT_EQ(Delete(h1_, Service(h1_)), static_cast<uint16_t>(SaStatus::kRequestInvalid));
  EXPECT_EQ(services_.All().at(0).key, ServiceRecord().key) << "keys are not disclosed";
  EXPECT_EQ(Delete(h1_, record), 0);
  EXPECT_THAT(services_.All(), IsEmpty());
}

TEST_F(SaResponderServiceTest, ARecordIsForTheMembersOfItsPartition) {
  ServiceRecord record = Service(h2_);
  record.pkey = PKey(0x8002);
  ASSERT_EQ(Ask(h2_, MadMethod::kSet, kRegister, record), 0);
  EXPECT_THAT(Seen(h1_), IsEmpty());
  EXPECT_THAT(Seen(h2_), ElementsAre(3));
  ASSERT_EQ(Register(h1_), 0);
  EXPECT_THAT(Seen(h3_), ElementsAre(2)) << "a limited member sees it, too";
  record.pkey = PKey();
  ASSERT_EQ(Ask(h2_, MadMethod::kSet, kRegister & ~service::kPKey, record), 0);
  EXPECT_THAT(Seen(h1_), ElementsAre(2, 3)) << "a record without a P_Key is for all";
}

TEST_F(SaResponderServiceTest, AQueryMatchesItsComponents) {
  ASSERT_EQ(Register(h1_), 0);
  ASSERT_EQ(Register(h2_), 0);
  ServiceRecord wanted = Service(h2_);
  EXPECT_THAT(Seen(h1_, service::kGid, wanted), ElementsAre(3));
  EXPECT_THAT(Seen(h1_, service::kName, wanted), ElementsAre(2, 3));
  EXPECT_THAT(Seen(h1_, 1ull << 7, wanted), ElementsAre(3)) << "the first byte of data";
  EXPECT_THAT(Seen(h1_, 1ull << 8, wanted), ElementsAre(2, 3)) << "the second";
  wanted.name = "other";
  EXPECT_THAT(Seen(h1_, service::kName, wanted), IsEmpty());
  EXPECT_EQ(Ask(h1_, MadMethod::kGet, service::kId | service::kGid, Service(h2_)), 0);
  EXPECT_EQ(service_, Service(h2_));
  EXPECT_EQ(Ask(h1_, MadMethod::kGet, service::kId, Service(h2_)),
            static_cast<uint16_t>(SaStatus::kTooManyRecords));
}

TEST_F(SaResponderServiceTest, ARecordEndsWithItsLease) {
  ASSERT_EQ(Register(h1_), 0);
  ServiceRecord forever = Service(h2_);
  ASSERT_EQ(Ask(h2_, MadMethod::kSet, kRegister & ~service::kLease, forever), 0);
  EXPECT_EQ(service_.lease, ServiceRecord::kForever);
  EXPECT_EQ(services_.NextDeadline(), clock_.Now() + absl::Seconds(60));
  clock_.Advance(absl::Seconds(59));
  EXPECT_THAT(Seen(h1_), ElementsAre(2, 3));
  EXPECT_EQ(services_.All().at(0).lease, 1u) << "what is left";
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Seen(h1_), ElementsAre(3));
  EXPECT_EQ(Delete(h1_, Service(h1_)), static_cast<uint16_t>(SaStatus::kNoRecords));
  services_.Run();
  EXPECT_EQ(services_.NextDeadline(), absl::InfiniteFuture());
}

TEST_F(SaResponderServiceTest, AnotherRegistrationRenewsTheLease) {
  ASSERT_EQ(Register(h1_), 0);
  clock_.Advance(absl::Seconds(59));
  ASSERT_EQ(Register(h1_), 0);
  clock_.Advance(absl::Seconds(59));
  EXPECT_THAT(Seen(h1_), ElementsAre(2));
}

TEST_F(SaResponderServiceTest, DeleteEndsARecord) {
  ASSERT_EQ(Register(h1_), 0);
  EXPECT_EQ(Delete(h1_, Service(h1_)), 0);
  EXPECT_EQ(header_.method, MadMethod::kDeleteResp);
  EXPECT_EQ(service_, Service(h1_));
  EXPECT_THAT(Seen(h1_), IsEmpty());
  EXPECT_EQ(Delete(h1_, Service(h1_)), static_cast<uint16_t>(SaStatus::kNoRecords));
}

TEST_F(SaResponderServiceTest, APortThatGoesTakesItsRecordsWithIt) {
  ASSERT_EQ(Register(h1_), 0);
  ASSERT_EQ(Register(h2_), 0);
  services_.RemovePort(h1_.gid);
  EXPECT_THAT(Seen(h2_), ElementsAre(3));
  services_.Clear();
  EXPECT_THAT(Seen(h2_), IsEmpty());
}

TEST_F(SaResponderServiceTest, APortHasABoundedNumber) {
  ServiceRecord record = Service(h1_);
  for (size_t i = 0; i < ServiceRecords::kMaxPerPort; ++i) {
    record.id = kId + i;
    ASSERT_EQ(Ask(h1_, MadMethod::kSet, kRegister, record), 0) << i;
  }
  EXPECT_EQ(Ask(h1_, MadMethod::kSet, kRegister, record), 0) << "the last one again";
  record.id = kId + ServiceRecords::kMaxPerPort;
  EXPECT_EQ(Ask(h1_, MadMethod::kSet, kRegister, record),
            static_cast<uint16_t>(SaStatus::kNoResources));
  EXPECT_EQ(Register(h2_), 0) << "another port";
  clock_.Advance(absl::Seconds(60));
  EXPECT_EQ(Ask(h1_, MadMethod::kSet, kRegister, record), 0) << "the others have ended";
}

}  // namespace
}  // namespace eoib::softhca
