#include "vswitch/fabric/softhca/soft_hca.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/softhca/soft_device.h"

namespace eoib::softhca {
namespace {

// The MAD transport from the port to the subnet's SA.
class SoftMadTransport final : public MadTransport {
 public:
  explicit SoftMadTransport(SoftPort* port) : port_(port) {}
  absl::Status Send(const Mad& mad) override { return port_->SendMad(mad); }
  absl::Status Reply(const Mad& mad) override { return port_->SendMad(mad); }
  bool ReceivesReports() const override { return true; }
  bool Receive(std::vector<uint8_t>* mad) override { return port_->ReceiveMad(mad); }
  int fd() const override { return port_->mad_fd(); }

 private:
  SoftPort* const port_;
};

class SoftHca final : public Hca {
 public:
  SoftHca(std::shared_ptr<SoftPort> port, ibv_context* context)
      : port_(std::move(port)), context_(context), mads_(port_.get()) {}
  ~SoftHca() override { verbs().close_device(context_); }

  const VerbsTable& verbs() const override { return SoftVerbsTable(); }
  ibv_context* context() const override { return context_; }
  uint8_t port() const override { return 1; }
  int gid_index() const override { return 0; }
  std::string name() const override { return absl::StrCat("soft:", port_->name()); }
  MadTransport* mads() override { return &mads_; }
  absl::Status StartCapture(const CaptureOptions& options) override {
    return port_->StartCapture(options);
  }
  absl::StatusOr<CaptureReport> StopCapture() override { return port_->StopCapture(); }
  absl::optional<CaptureReport> Capture() const override { return port_->Capture(); }
  std::vector<PortCounter> PortCounters() const override {
    const SoftPortCounters counters = port_->counters();
    std::vector<PortCounter> all;
    for (const auto& row : counters.Rows())
      all.push_back({row.name, counters.*row.member, row.help, row.part == Part::kGauge});
    return all;
  }

  absl::Status SubnetStatus() const override { return port_->SubnetStatus(); }

  SoftPort* soft_port() const { return port_.get(); }

 private:
  const std::shared_ptr<SoftPort> port_;
  ibv_context* const context_;
  SoftMadTransport mads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Hca>> OpenSoftHca(std::unique_ptr<SubnetLink> link,
                                                 const std::string& name,
                                                 const SoftPort::Options& options) {
  absl::StatusOr<std::shared_ptr<SoftPort>> port = SoftPort::Open(std::move(link), name, options);
  if (!port.ok()) return port.status();
  ibv_context* context = OpenContext(*port, name);
  if (context == nullptr)
    return absl::ResourceExhaustedError(
        absl::StrCat("open soft:", name, ": no descriptor is left"));
  return std::unique_ptr<Hca>(new SoftHca(*std::move(port), context));
}

SoftPort* SoftPortOf(const Hca& hca) {
  const auto* soft = dynamic_cast<const SoftHca*>(&hca);
  return soft == nullptr ? nullptr : soft->soft_port();
}

}  // namespace eoib::softhca
