// UmadTransport: MADs of a real port, through libibumad (/dev/infiniband/umadN).
//
// What the kernel does with them matters here (drivers/infiniband/core, mad.c and user_mad.c of Linux 6.x):
//
// - It delivers a response only while it waits for one: each Send asks it to wait longer than any caller does. When it gives
//   up, it returns the request, which Receive drops.
// - It refuses a second request of the same transaction ID while it waits for the first, and puts a number of its own into the
//   upper 32 bits. So each Send, a repetition too, gets a number in bits 24 to 31. This departs from IBA 1.4 §13.4.6.4, by
//   which a repetition has its request's transaction ID: to the SA ours are new requests, and what SaClient asks may be asked
//   twice. Reply leaves the transaction ID alone (the kernel does too in a response, and in an acknowledgement of RMPP it
//   writes the number that is there already).
// - An agent that registers with RMPP version 0 gets every segment of a table as it came and acknowledges them itself
//   (RmppReceiver does): ib_mad_kernel_rmpp_agent() is false for it, so ib_mad_complete_recv() does not reassemble, and hands
//   on a response with RMPP active although the first segment ended the wait for it. ib_umad_write() likewise sends what has
//   RMPP active as it is.
// - It gives a port's reports to one agent only, the first that registered for the method. If that is another program, this
//   transport works without them.
//
// - When the device goes, reads and writes fail with EIO for ever (ib_umad_file::agents_dead). The transport is lost then.
//
// A report is taken from the subnet manager's LID only: any node can send a MAD, and what a report says is believed.
#ifndef EOIB_VSWITCH_FABRIC_UMAD_TRANSPORT_H_
#define EOIB_VSWITCH_FABRIC_UMAD_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fdb/address.h"
#include "vswitch/fabric/mad_transport.h"

namespace eoib {

// Where the subnet manager, and with it the SA, is now.
struct SmAddress {
  Lid lid;  // not valid: there is none
  Sl sl;
};

class UmadTransport final : public MadTransport {
 public:
  // Asked before each Send, since the SM may move.
  using FindSm = std::function<absl::StatusOr<SmAddress>()>;

  static absl::StatusOr<std::unique_ptr<MadTransport>> Open(const std::string& device, uint8_t port, FindSm find_sm);
  ~UmadTransport() override;

  absl::Status Send(const Mad& mad) override;
  absl::Status Reply(const Mad& mad) override;
  bool ReceivesReports() const override { return receives_reports_; }
  bool Receive(Mad* mad) override;
  int fd() const override;
  bool lost() const override { return lost_; }

  // The transaction ID on the wire of a request's `attempt`-th sending.
  static void SetAttempt(uint8_t attempt, Mad* mad);

 private:
  UmadTransport(std::string name, int port_id, int agent, bool receives_reports, FindSm find_sm);

  absl::Status SendToSm(const Mad& mad, int timeout_ms);
  void NoteLoss(int error);
  bool IsFromSm() const;

  const std::string name_;  // "mlx5_0/1"
  const int port_id_;       // libibumad's
  const int agent_;
  const bool receives_reports_;
  const FindSm find_sm_;
  uint8_t attempt_ = 0;
  bool lost_ = false;
  std::vector<uint8_t> send_;  // umad header and MAD
  std::vector<uint8_t> receive_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_UMAD_TRANSPORT_H_
