// MadTransport: sends MADs from a port to the subnet administrator, and receives its answers and
// reports.
//
// There are two: libibumad (umad_transport.h), through which a real OpenSM answers, and the
// software subnet (softhca/soft_hca.cc). A RoCE port has none, because its link layer has no SA.
#ifndef EOIB_VSWITCH_FABRIC_MAD_TRANSPORT_H_
#define EOIB_VSWITCH_FABRIC_MAD_TRANSPORT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "vswitch/wire/ib/mad.h"

namespace eoib {

// One thread at a time.
class MadTransport {
 public:
  virtual ~MadTransport() = default;

  // The caller chooses the low 24 bits of a request's transaction ID; the transport may use the
  // rest (the kernel and umad_transport.h do). A response belongs to the request with the same 24
  // bits.
  static constexpr uint64_t kTidMask = 0xff'ffff;

  // Sends a request to the port's SA; the transport finds its LID. kUnavailable if there is no SA
  // now; the caller retries. A MAD may be lost after it was sent, so the caller keeps a timeout.
  virtual absl::Status Send(const Mad& mad) = 0;
  // Answers a report of the SA, with all 64 bits of its transaction ID.
  virtual absl::Status Reply(const Mad& mad) = 0;
  // False if another program registered for this port's reports first.
  virtual bool ReceivesReports() const = 0;
  // Takes the next received MAD, if any: 256 bytes, or a whole table (sa_table.h). Does not block.
  virtual bool Receive(std::vector<uint8_t>* mad) = 0;
  // Readable while Receive has something.
  virtual int fd() const = 0;
  // True once the device is permanently gone (removed, or its driver unloaded). Nothing is sent or
  // received any more; open a new transport.
  virtual bool lost() const { return false; }
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_MAD_TRANSPORT_H_
