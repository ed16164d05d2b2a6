// UmadTransport: the MADs of a real port, through libibumad (/dev/infiniband/umadN). README.md,
// "MADs through the kernel", describes the kernel's rules that shape it: timeouts, transaction IDs,
// RMPP and reports.
#ifndef EOIB_VSWITCH_FABRIC_UMAD_TRANSPORT_H_
#define EOIB_VSWITCH_FABRIC_UMAD_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/mad_transport.h"

namespace eoib {

// Where the subnet manager, and with it the SA, is now.
struct SmAddress {
  Lid lid;  // invalid: there is no SM
  Sl sl;
};

class UmadTransport final : public MadTransport {
 public:
  // Called for each Send, Reply and report, since the SM may move.
  using FindSm = std::function<absl::StatusOr<SmAddress>()>;

  static absl::StatusOr<std::unique_ptr<MadTransport>> Open(const std::string& device, uint8_t port,
                                                            FindSm find_sm);
  ~UmadTransport() override;

  absl::Status Send(const Mad& mad) override;
  absl::Status Reply(const Mad& mad) override;
  bool ReceivesReports() const override { return receives_reports_; }
  bool Receive(std::vector<uint8_t>* mad) override;
  int fd() const override;
  bool lost() const override { return lost_; }

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
