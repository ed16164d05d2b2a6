// MADs that claim to come from a subnet administrator: header, every record, and tables of records.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "vswitch/wire/ib/attribute_codec_for_test.h"
#include "vswitch/wire/ib/notice.h"
#include "vswitch/wire/ib/sa_mad.h"
#include "vswitch/wire/ib/sa_table.h"
#include "vswitch/wire/ib/service_record.h"

namespace eoib {
namespace {

using Bytes = absl::Span<const uint8_t>;

void CheckHeader(const Mad& mad) {
  const absl::StatusOr<SaHeader> header = DecodeSaHeader(mad);
  if (!header.ok()) {
    EOIB_CHECK(header.status().code() == absl::StatusCode::kInvalidArgument &&
               !header.status().message().empty());
    return;
  }
  Mad again;
  EncodeSaHeader(*header, &again);
  // Base version to attribute modifier, without class specific and reserved bytes; then SM_Key and
  // component mask.
  const auto same = [&](size_t from, size_t to) {
    return std::equal(&mad[from], &mad[to], &again[from]);
  };
  EOIB_CHECK(same(0, 6) && same(8, 18) && same(20, 24) && same(36, 44) && same(48, 56));
  EOIB_CHECK(header->attribute_offset == 0 || same(44, 46));
  EOIB_CHECK(!SaStatusName(header->status).empty());
  EOIB_CHECK((static_cast<uint8_t>(ResponseTo(header->method)) & 0x80) != 0);
}

// A MAD of fewer bytes than its headers is refused.
void CheckCut(const Mad& mad, size_t size) {
  const Bytes cut = absl::MakeConstSpan(mad).first(std::min(size, mad.size()));
  EOIB_CHECK(!DecodeSaHeader(cut).ok() || cut.size() >= kSaRecordOffset);
  EOIB_CHECK(!DecodeMadHeader(cut).ok() || cut.size() >= 24);
  EOIB_CHECK(!IsSaTable(cut) || DecodeSaHeader(cut).ok());
}

void CheckMcMemberRecord(Bytes bytes) {
  const UnmodelledBits kUnmodelled = {{49, 50, 0x7f}, {50, 52}};
  const bool accepted = CheckAttribute(bytes, kMcMemberRecordSize, kUnmodelled,
                                       DecodeMcMemberRecord, EncodeMcMemberRecord);
  EOIB_CHECK(accepted == (bytes[0] == 0xff));
  if (!accepted) return;
  const McMemberRecord record = *DecodeMcMemberRecord(bytes);
  EOIB_CHECK((MtuBytes(record.mtu) != 0) == (record.mtu >= 1 && record.mtu <= 5));
}

void CheckPathRecord(Bytes bytes) {
  // Service id; raw traffic and reserved; QoS class; reserved.
  const UnmodelledBits kUnmodelled = {{0, 8}, {44, 45, 0xf0}, {52, 53}, {53, 54, 0xf0}, {58, 64}};
  EOIB_CHECK(
      CheckAttribute(bytes, kPathRecordSize, kUnmodelled, DecodePathRecord, EncodePathRecord));
}

void CheckNotice(Bytes bytes) {
  EOIB_CHECK(CheckAttribute(bytes, kNoticeSize, {}, DecodeNotice, EncodeNotice));
  const Notice notice = *DecodeNotice(bytes);
  EOIB_CHECK(Notice::OfGid(SmTrap::kGidInService, notice.AboutGid()).AboutGid() ==
             notice.AboutGid());
}

void CheckInformInfo(Bytes bytes) {
  const UnmodelledBits kUnmodelled = {{20, 22}, {31, 32, 0xe0}, {32, 33}};
  const bool accepted =
      CheckAttribute(bytes, kInformInfoSize, kUnmodelled, DecodeInformInfo, EncodeInformInfo);
  EOIB_CHECK(accepted == (bytes[22] <= 1 && bytes[23] <= 1));
}

void CheckNodeRecord(Bytes bytes) {
  std::vector<uint8_t> expected = Modelled(bytes.first(kNodeRecordSize), {{2, 4}});
  CutText(absl::MakeSpan(expected).subspan(44));
  EOIB_CHECK(CheckAttribute(bytes, expected, DecodeNodeRecord, EncodeNodeRecord));
}

void CheckPortInfoRecord(Bytes bytes) {
  // The record's options, then the fields of PortInfo as in smp_fuzz.cc.
  const UnmodelledBits kUnmodelled = {{3, 4},         {28, 32}, {37, 38, 0x0f}, {38, 39, 0xf8},
                                      {41, 42, 0x0f}, {42, 45}, {45, 46, 0xf0}, {46, 47},
                                      {47, 48, 0x0f}, {48, 50}, {55, 56, 0x60}, {56, 57, 0xe0},
                                      {57, 68}};
  EOIB_CHECK(CheckAttribute(bytes, kPortInfoRecordSize, kUnmodelled, DecodePortInfoRecord,
                            EncodePortInfoRecord));
}

void CheckPKeyTableRecord(Bytes bytes) {
  EOIB_CHECK(CheckAttribute(bytes, kPKeyTableRecordSize, {{5, 8}}, DecodePKeyTableRecord,
                            EncodePKeyTableRecord));
}

void CheckServiceRecord(Bytes bytes) {
  std::vector<uint8_t> expected = Modelled(bytes.first(kServiceRecordSize), {{26, 28}});
  CutText(absl::MakeSpan(expected).subspan(48, ServiceRecord::kNameSize));
  EOIB_CHECK(CheckAttribute(bytes, expected, DecodeServiceRecord, EncodeServiceRecord));
}

// A table has its records at the stride that the response gives.
void CheckTable(const Mad& mad) {
  const absl::StatusOr<SaHeader> header = DecodeSaHeader(mad);
  const size_t least = header.ok() ? SaRecordStride(header->attribute) : 0;
  if (least == 0) return;
  EOIB_CHECK(least % 8 == 0);
  const std::vector<uint8_t> whole = EncodeSaTable(*header, SaRecord(mad));
  EOIB_CHECK(IsSaTable(whole) &&
             std::equal(SaRecord(whole).begin(), SaRecord(whole).end(), SaRecord(mad).begin()));
  EOIB_CHECK(DecodeSaHeader(whole)->tid == header->tid);
  const size_t stride = size_t{header->attribute_offset} * 8;
  if (stride < least) return;
  for (size_t at = 0; at + stride <= kMaxSaRecord; at += stride) {
    const Bytes record = SaRecord(mad).subspan(at, stride);
    if (header->attribute == SaAttribute::kMcMemberRecord) CheckMcMemberRecord(record);
    if (header->attribute == SaAttribute::kPathRecord) CheckPathRecord(record);
    if (header->attribute == SaAttribute::kNodeRecord) CheckNodeRecord(record);
    if (header->attribute == SaAttribute::kPortInfoRecord) CheckPortInfoRecord(record);
    if (header->attribute == SaAttribute::kPKeyTableRecord) CheckPKeyTableRecord(record);
    if (header->attribute == SaAttribute::kServiceRecord) CheckServiceRecord(record);
  }
}

}  // namespace
}  // namespace eoib

// The input is a MAD, padded with zeros or cut to 256 bytes. Its record is read as every record
// type, whatever its header says.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const eoib::Mad mad = eoib::MadOf(data, size);
  eoib::CheckHeader(mad);
  eoib::CheckCut(mad, size);
  eoib::CheckMcMemberRecord(eoib::SaRecord(mad));
  eoib::CheckPathRecord(eoib::SaRecord(mad));
  eoib::CheckNotice(eoib::SaRecord(mad));
  eoib::CheckInformInfo(eoib::SaRecord(mad));
  eoib::CheckNodeRecord(eoib::SaRecord(mad));
  eoib::CheckPortInfoRecord(eoib::SaRecord(mad));
  eoib::CheckPKeyTableRecord(eoib::SaRecord(mad));
  eoib::CheckServiceRecord(eoib::SaRecord(mad));
  eoib::CheckTable(mad);
  return 0;
}
