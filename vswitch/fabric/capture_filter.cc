#include "vswitch/fabric/capture_filter.h"

#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/segment_extension.h"

namespace eoib {

bool CaptureFilter::Passes(const UdHeaders& headers, absl::Span<const uint8_t> payload) {
  if (IsEmpty()) return true;
  EoibHeader header;
  if (DecodeEoibHeader(payload, &header) != DropReason::kNone) return false;
  if (!header.extension) return FramePasses(headers, payload.subspan(kEoibHeaderSize));
  const Sender sender = {headers.lrh.slid.value(), headers.deth.source_qpn.value()};
  if (header.segment_offset != 0) {
    const auto large = passed_.find(sender);
    return large != passed_.end() && large->second == header.segment_id;
  }
  if (payload.size() < kSegmentHeaderSize ||
      !FramePasses(headers, payload.subspan(kSegmentHeaderSize)))
    return false;
  if (passed_.size() >= kMaxLarge) passed_.clear();
  passed_[sender] = header.segment_id;
  return true;
}

bool CaptureFilter::FramePasses(const UdHeaders& headers, absl::Span<const uint8_t> frame) const {
  EthernetInfo info;
  if (ParseEthernet(frame, &info) != DropReason::kNone) return false;
  if (mac.has_value() && info.source != *mac && info.destination != *mac) return false;
  if (vlan.has_value() && info.vid != *vlan) return false;
  return !vport.has_value() || VPortPasses(headers, info);
}

bool CaptureFilter::VPortPasses(const UdHeaders& headers, const EthernetInfo& info) const {
  if (PKey(headers.bth.pkey.value()).Full() != vport->pkey.Full() ||
      !vport->vlans[info.vid.value()])
    return false;
  return info.destination.IsGroup() || vport->macs.contains(info.source) ||
         vport->macs.contains(info.destination);
}

}  // namespace eoib
