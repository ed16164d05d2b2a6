// SaClientTest: an SaClient on a transport whose SA the test plays, MAD by MAD.
#ifndef EOIB_VSWITCH_FABRIC_SA_CLIENT_TEST_FIXTURE_H_
#define EOIB_VSWITCH_FABRIC_SA_CLIENT_TEST_FIXTURE_H_

#include <deque>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "vswitch/fabric/sa_client.h"

namespace eoib {

// Records what was sent. The test supplies what arrives.
class FakeMadTransport final : public MadTransport {
 public:
  absl::Status Send(const Mad& mad) override {
    if (!refuse.ok()) return refuse;
    sent.push_back(mad);
    return absl::OkStatus();
  }
  absl::Status Reply(const Mad& mad) override {
    replies.push_back(mad);
    return absl::OkStatus();
  }
  bool ReceivesReports() const override { return receives_reports; }
  bool Receive(std::vector<uint8_t>* mad) override {
    if (arriving.empty()) return false;
    *mad = arriving.front();
    arriving.pop_front();
    return true;
  }
  int fd() const override { return 42; }

  SaHeader header(size_t i) const { return *DecodeSaHeader(sent.at(i)); }

  absl::Status refuse;
  bool receives_reports = true;
  std::vector<Mad> sent;
  std::vector<Mad> replies;
  std::deque<std::vector<uint8_t>> arriving;
};

inline const Gid kSgid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(1));
inline const Gid kDgid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(2));
inline const Mgid kMgid(Gid::FromPrefixAndGuid(0xff12'e01b'8001'ffff, Guid(0xffff'ffff'0000'0000)));
inline constexpr uint64_t kJoinMask = mcm::kMgid | mcm::kPortGid | mcm::kJoinState;

inline McMemberRecord Group() {
  McMemberRecord record;
  record.mgid = kMgid;
  record.port_gid = kSgid;
  record.join_state = kFullMember;
  return record;
}

class SaClientTest : public testing::Test {
 public:
  void Join() { client_.Join(Group(), kJoinMask, Remember()); }
  SaClient::GroupCallback Remember() {
    return [this](absl::StatusOr<McMemberRecord> record) { groups_.push_back(std::move(record)); };
  }
  void Path(const Gid& dgid = kDgid) {
    client_.QueryPath(kSgid, dgid, PKey(0x8001), [this](absl::StatusOr<PathRecord> record) {
      paths_.push_back(std::move(record));
    });
  }

  // The header of a response to request number `i`.
  SaHeader ResponseHeader(size_t i) const {
    SaHeader header = mads_.header(i);
    header.method =
        header.method == MadMethod::kDelete ? MadMethod::kDeleteResp : MadMethod::kGetResp;
    return header;
  }
  static Mad GroupMad(const SaHeader& header, const McMemberRecord& record) {
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodeMcMemberRecord(record, SaRecord(&mad));
    return mad;
  }
  static Mad PathMad(const SaHeader& header, const Gid& dgid = kDgid, const Gid& sgid = kSgid) {
    PathRecord record;
    record.sgid = sgid;
    record.dgid = dgid;
    record.dlid = Lid(7);
    Mad mad;
    EncodeSaHeader(header, &mad);
    EncodePathRecord(record, SaRecord(&mad));
    return mad;
  }
  void Arrive(absl::Span<const uint8_t> mad) {
    mads_.arriving.emplace_back(mad.begin(), mad.end());
    client_.Run();
  }
  void Advance(absl::Duration by) {
    clock_.Advance(by);
    client_.Run();
  }

  FakeClock clock_;
  FakeMadTransport mads_;
  SaClient client_{&mads_, &clock_, SaClient::Options()};
  std::vector<absl::StatusOr<McMemberRecord>> groups_;
  std::vector<absl::StatusOr<PathRecord>> paths_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_SA_CLIENT_TEST_FIXTURE_H_
