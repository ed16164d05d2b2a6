// Tables of the subnet administrator. RMPP (IBA 1.4 §13.6) carries a table in segments, which the
// kernel acknowledges and joins (mad_rmpp.c): a program gets one long MAD, the headers of the first
// segment and then all records.
#ifndef EOIB_VSWITCH_WIRE_IB_SA_TABLE_H_
#define EOIB_VSWITCH_WIRE_IB_SA_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib {

// `records` are SaRecordStride(header.attribute) apart, unless the header gives another distance.
std::vector<uint8_t> EncodeSaTable(const SaHeader& header, absl::Span<const uint8_t> records);
// True if RMPP carried the MAD, as it does every table.
bool IsSaTable(absl::Span<const uint8_t> mad);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IB_SA_TABLE_H_
