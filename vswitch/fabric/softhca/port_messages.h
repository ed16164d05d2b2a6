// PortMessages: turns fabricd's messages into calls to a port.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_PORT_MESSAGES_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_PORT_MESSAGES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "vswitch/fabric/softhca/fabric_protocol.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

// One thread at a time.
class PortMessages {
 public:
  // Handles all messages but those about registration and about rings that the port asked for.
  // kInvalidArgument if a message is malformed.
  absl::Status Deliver(Packet packet, PortSink* sink);
  // A new connection begins.
  void Reset() { mad_.clear(); }

 private:
  absl::Status TakeMad(const Packet& packet, PortSink* sink);

  std::vector<uint8_t> mad_;  // its parts so far
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_PORT_MESSAGES_H_
