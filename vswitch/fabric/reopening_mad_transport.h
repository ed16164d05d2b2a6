// ReopeningMadTransport: a MadTransport that opens its device when needed, and again after a loss.
// The device may appear late (ib_umad loads late, udev is slow) and may disappear (the driver is
// reloaded). Until a Send finds the device, Send returns the reason as an error.
#ifndef EOIB_VSWITCH_FABRIC_REOPENING_MAD_TRANSPORT_H_
#define EOIB_VSWITCH_FABRIC_REOPENING_MAD_TRANSPORT_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/mad_transport.h"

namespace eoib {

class ReopeningMadTransport final : public MadTransport {
 public:
  using Opener = std::function<absl::StatusOr<std::unique_ptr<MadTransport>>()>;

  explicit ReopeningMadTransport(Opener open);
  ~ReopeningMadTransport() override;

  absl::Status Send(const Mad& mad) override;
  absl::Status Reply(const Mad& mad) override;
  bool ReceivesReports() const override { return mads_ == nullptr || mads_->ReceivesReports(); }
  bool Receive(std::vector<uint8_t>* mad) override;
  int fd() const override { return epoll_.get(); }

 private:
  absl::Status OpenIfNeeded();
  void CloseIfLost();

  const Opener open_;
  const UniqueFd epoll_;  // over the device's descriptor; valid without a device
  std::unique_ptr<MadTransport> mads_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_REOPENING_MAD_TRANSPORT_H_
