// Nic: an interface whose wire is the test, with the offloads of a NIC.
#ifndef EOIB_TESTS_LAB_NIC_H_
#define EOIB_TESTS_LAB_NIC_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "tests/lab/frames.h"
#include "tests/lab/lab.h"
#include "tests/lab/packet_socket.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::lab {

// The offloads that a NIC, or the sender's kernel behind a veth, reports with a frame. All zero:
// none.
struct Offloads {
  // Not 0: the checksum from here on is unfinished, and goes to checksum_start + checksum_offset.
  uint16_t checksum_start = 0;
  uint16_t checksum_offset = 0;
  uint8_t gso_type = 0;  // VIRTIO_NET_HDR_GSO_*: merged segments
  uint16_t gso_size = 0;
  uint16_t header_length = 0;
};

// A TAP; the object's death removes it.
class Nic {
 public:
  Nic(Host* host, const std::string& interface);
  // Has a frame arrive at the interface.
  void Deliver(const Bytes& frame, const Offloads& offloads = {});
  // Waits until the interface sends a frame that passes `filter`.
  bool WaitFor(const PacketSocket::Filter& filter, absl::Duration limit = kPatience);

 private:
  UniqueFd tap_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_NIC_H_
