// MadTransport: the second seam. Sends and receives 256-byte MADs between this port and the subnet administrator.
//
// The SA client is written once against it. It is filled by libibumad (umad_transport.h: a real OpenSM answers) and by the
// software subnet (softhca/soft_mad_transport.h). An HCA port without an SA (RoCE) has none.
#ifndef EOIB_VSWITCH_FABRIC_MAD_TRANSPORT_H_
#define EOIB_VSWITCH_FABRIC_MAD_TRANSPORT_H_

#include "absl/status/status.h"
#include "vswitch/wire/mad.h"

namespace eoib {

// One thread at a time.
class MadTransport {
 public:
  virtual ~MadTransport() = default;

  // Of a request's transaction ID the low 24 bits are the caller's. The rest is the transport's (on real HCAs the kernel and
  // umad_transport.h use it), so a response is its request's if these 24 bits are the same.
  static constexpr uint64_t kTidMask = 0xff'ffff;

  // Sends a request to the port's SA (its LID is the transport's affair). kUnavailable if there is no SA now; the caller
  // retries later. A MAD that was sent may still be lost: the caller keeps the timeout.
  virtual absl::Status Send(const Mad& mad) = 0;
  // Sends what continues an exchange, under the transaction ID that a MAD of the SA's came with, all 64 bits of it: an
  // acknowledgement of RMPP, a ReportResp. Nothing answers it.
  virtual absl::Status Reply(const Mad& mad) = 0;
  // Whether reports come to this transport. Not if another program has asked for this port's before.
  virtual bool ReceivesReports() const = 0;
  // Takes the next MAD that arrived, if any; does not block.
  virtual bool Receive(Mad* mad) = 0;
  // Readable while Receive has something.
  virtual int fd() const = 0;
  // True once the device is gone for good (it was removed, its driver unloaded). Nothing arrives or leaves any more; only
  // another transport, opened anew, can go on.
  virtual bool lost() const { return false; }
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_MAD_TRANSPORT_H_
