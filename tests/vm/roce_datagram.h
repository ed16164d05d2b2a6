// Forges a RoCE v2 datagram, as any host on the Ethernet can: through a UDP socket, byte by byte,
// without the switch's own codecs. So tests can send what an HCA would never send.
#ifndef EOIB_TESTS_VM_ROCE_DATAGRAM_H_
#define EOIB_TESTS_VM_ROCE_DATAGRAM_H_

#include <cstdint>
#include <string>

#include "tests/lab/frames.h"
#include "vswitch/base/address.h"

namespace eoib::lab {

struct RoceDatagram {
  Gid source;  // link-local, of `netdev`
  Gid destination;
  Qpn source_qpn, destination_qpn;
  QKey qkey;
  Bytes payload;  // a multiple of 4 bytes
};

// Sends it through the network device `netdev`. Ends the test program on failure.
void SendRoce(const std::string& netdev, const RoceDatagram& datagram);

}  // namespace eoib::lab

#endif  // EOIB_TESTS_VM_ROCE_DATAGRAM_H_
