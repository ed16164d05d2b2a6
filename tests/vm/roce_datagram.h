// A RoCE v2 datagram as any host of the Ethernet can make one: from a UDP socket, byte by byte, and apart from the switch's own
// codecs. What an HCA would never send can be sent so.
#ifndef EOIB_TESTS_VM_ROCE_DATAGRAM_H_
#define EOIB_TESTS_VM_ROCE_DATAGRAM_H_

#include <cstdint>
#include <string>

#include "fdb/address.h"
#include "tests/lab/frames.h"

namespace eoib::lab {

struct RoceDatagram {
  Gid source;  // link-local, of `netdev`
  Gid destination;
  Qpn source_qpn, destination_qpn;
  QKey qkey;
  Bytes payload;  // a multiple of 4 bytes
};

// Sends it out of the network device `netdev`. Aborts the test if that cannot be done.
void SendRoce(const std::string& netdev, const RoceDatagram& datagram);

}  // namespace eoib::lab

#endif  // EOIB_TESTS_VM_ROCE_DATAGRAM_H_
