// FakeSa: a subnet administrator behind a MAD transport, for tests of its clients. It answers at
// once, refuses, or stays silent.
#ifndef EOIB_CONTROL_SUBNET_FAKE_SA_FOR_TEST_H_
#define EOIB_CONTROL_SUBNET_FAKE_SA_FOR_TEST_H_

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "vswitch/fabric/sa_client.h"
#include "vswitch/wire/ib/sa_table.h"

namespace eoib {

class FakeSa final : public MadTransport {
 public:
  // Its state, and how it answers.
  std::map<Gid, Lid> ports;
  uint8_t lmc = 0;  // of all ports: each has 2^lmc LIDs from the one in `ports` on
  std::map<Mgid, McMemberRecord> groups;
  std::map<Gid, ServiceRecord> services;  // at most one of each port
  std::set<SmTrap> subscribed;
  bool silent = false;
  bool tables = true;    // false: refuses queries for a table
  bool verifies = true;  // false: refuses path queries with a destination LID
  bool may_create = true;
  bool may_register = true;
  bool receives_reports = true;
  // Changes each answer before it is sent: to a wrong transaction ID, invalid values.
  std::function<void(Mad*)> spoil = [](Mad*) {};
  // The requests so far.
  std::vector<SaHeader> asked;
  size_t Asked(MadMethod method, SaAttribute attribute) const {
    return static_cast<size_t>(
        std::count_if(asked.begin(), asked.end(), [&](const SaHeader& header) {
          return header.method == method && header.attribute == attribute;
        }));
  }

  // Sends a report.
  void Report(SmTrap trap, const Gid& gid) {
    Mad mad;
    EncodeSaHeader(
        {.method = MadMethod::kReport, .tid = ++report_tid_, .attribute = SaAttribute::kNotice},
        &mad);
    EncodeNotice(Notice::OfGid(trap, gid), SaRecord(&mad));
    Arrive(mad);
  }
  bool idle() const { return arriving_.empty(); }

  absl::Status Send(const Mad& mad) override {
    const SaHeader request = *DecodeSaHeader(mad);
    asked.push_back(request);
    if (silent) return absl::OkStatus();
    SaHeader header = request;
    header.method = ResponseTo(request.method);
    Mad answer;
    EncodeSaHeader(header, &answer);
    if (request.method == MadMethod::kGetTable && tables) {
      const bool services = request.attribute == SaAttribute::kServiceRecord;
      Arrive(services ? ServiceTable(header) : Table(header, *DecodePathRecord(SaRecord(mad))));
      return absl::OkStatus();
    }
    const SaStatus status = request.method == MadMethod::kGetTable
                                ? SaStatus::kUnsupportedMethodAttribute
                                : Answer(request, SaRecord(mad), SaRecord(&answer));
    header.status = static_cast<uint16_t>(status);
    if (status != SaStatus::kOk) EncodeSaHeader(header, &answer);
    spoil(&answer);
    Arrive(answer);
    return absl::OkStatus();
  }
  absl::Status Reply(const Mad&) override { return absl::OkStatus(); }
  bool ReceivesReports() const override { return receives_reports; }
  bool Receive(std::vector<uint8_t>* mad) override {
    if (arriving_.empty()) return false;
    *mad = arriving_.front();
    arriving_.pop_front();
    return true;
  }
  int fd() const override { return -1; }

 private:
  SaStatus Answer(const SaHeader& request, absl::Span<const uint8_t> asked_for,
                  absl::Span<uint8_t> answer) {
    switch (request.attribute) {
      case SaAttribute::kPathRecord:
        return AnswerPath(request, *DecodePathRecord(asked_for), answer);
      case SaAttribute::kMcMemberRecord:
        return AnswerGroup(request, *DecodeMcMemberRecord(asked_for), answer);
      case SaAttribute::kServiceRecord: {
        if (!may_register) return SaStatus::kNoResources;
        const ServiceRecord record = *DecodeServiceRecord(asked_for);
        EncodeServiceRecord(record, answer);
        if (request.method == MadMethod::kSet) {
          services[record.gid] = record;
        } else {
          services.erase(record.gid);
        }
        return SaStatus::kOk;
      }
      case SaAttribute::kInformInfo: {
        const InformInfo info = *DecodeInformInfo(asked_for);
        const SmTrap trap = static_cast<SmTrap>(info.trap);
        info.subscribe ? void(subscribed.insert(trap)) : void(subscribed.erase(trap));
        EncodeInformInfo(info, answer);
        return SaStatus::kOk;
      }
      default:
        return SaStatus::kUnsupportedMethodAttribute;
    }
  }
  SaStatus AnswerPath(const SaHeader& request, PathRecord record, absl::Span<uint8_t> answer) {
    const auto port = ports.find(record.dgid);
    if (port == ports.end()) return SaStatus::kNoRecords;
    if ((request.component_mask & path::kDlid) == 0) {
      record.dlid = port->second;
    } else if (!verifies) {
      return SaStatus::kRequestInvalid;
    } else if (record.dlid.value() < port->second.value() ||
               record.dlid.value() >= port->second.value() + (1 << lmc)) {
      return SaStatus::kNoRecords;
    }
    EncodePathRecord(record, answer);
    return SaStatus::kOk;
  }
  SaStatus AnswerGroup(const SaHeader& request, McMemberRecord record, absl::Span<uint8_t> answer) {
    const auto group = groups.find(record.mgid);
    const bool create = (request.component_mask & mcm::kQKey) != 0;
    if (group == groups.end()) {
      if (!create || !may_create) return SaStatus::kRequestInvalid;
      record.mlid = Mlid(0xc010);
      groups[record.mgid] = record;
    }
    EncodeMcMemberRecord(groups.at(record.mgid), answer);
    return SaStatus::kOk;
  }
  std::vector<uint8_t> Table(const SaHeader& header, PathRecord record) const {
    std::vector<uint8_t> records(ports.size() * kPathRecordSize);
    size_t at = 0;
    for (const auto& [gid, lid] : ports) {
      record.dgid = gid;
      record.dlid = lid;
      EncodePathRecord(record, absl::MakeSpan(records).subspan(at));
      at += kPathRecordSize;
    }
    return EncodeSaTable(header, records);
  }
  std::vector<uint8_t> ServiceTable(const SaHeader& header) const {
    std::vector<uint8_t> records(services.size() * kServiceRecordSize);
    size_t at = 0;
    for (const auto& [gid, record] : services) {
      EncodeServiceRecord(record, absl::MakeSpan(records).subspan(at));
      at += kServiceRecordSize;
    }
    return EncodeSaTable(header, records);
  }
  void Arrive(absl::Span<const uint8_t> mad) { arriving_.emplace_back(mad.begin(), mad.end()); }

  std::deque<std::vector<uint8_t>> arriving_;
  uint64_t report_tid_ = 0;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_SUBNET_FAKE_SA_FOR_TEST_H_
