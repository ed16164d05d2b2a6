// Fuzzes the messages of the vPort protocol. An accepted message is within all bounds, and encodes
// to one that decodes the same.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "vswitch/base/check.h"
#include "vswitch/wire/vport_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using eoib::VPortMessage;
  const auto message = eoib::DecodeVPortMessage(absl::MakeSpan(data, size));
  if (!message.ok()) {
    EOIB_CHECK(!message.status().message().empty());
    return 0;
  }
  const auto is_station = [](eoib::FdbKey key) {
    return key.vid().IsValid() && !key.mac().IsGroup() && !key.mac().IsZero();
  };
  for (const auto& mac : message->macs) EOIB_CHECK(is_station(mac.key));
  for (const auto key : message->gone_macs) EOIB_CHECK(is_station(key));
  for (const auto key : message->wanted_macs) EOIB_CHECK(is_station(key));
  for (const auto key : message->held_macs) EOIB_CHECK(is_station(key));
  for (const auto& address : message->addresses)
    EOIB_CHECK(!address.peer.gid.IsMulticast() && address.peer.qpn.IsValid());
  for (const auto& vport : message->vports)
    EOIB_CHECK(vport.name.size() <= eoib::AnnouncedVPort::kMaxName);

  const std::vector<uint8_t> bytes = EncodeVPortMessage(*message);
  EOIB_CHECK(bytes.size() == EncodedSize(*message) && bytes.size() <= size);
  const auto again = eoib::DecodeVPortMessage(bytes);
  EOIB_CHECK(again.ok() && *again == *message);
  return 0;
}
